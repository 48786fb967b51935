"""Algorithms: bindings, workgroups, push and specialization constants, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compat import kp

Compile = Callable[..., bytes]


def _run(mgr: kp.Manager, tensor: kp.Tensor, *dispatches: kp.OpAlgoDispatch) -> list[Any]:
    sequence = mgr.sequence().record(kp.OpSyncDevice([tensor]))
    for dispatch in dispatches:
        sequence.record(dispatch)
    sequence.record(kp.OpSyncLocal([tensor])).eval()
    result: list[Any] = tensor.data().tolist()
    return result


def test_a_tensor_per_binding_and_one_workgroup_per_element(mgr: kp.Manager, product: bytes) -> None:
    tensors = [mgr.tensor([2, 2, 2]), mgr.tensor([1, 2, 3]), mgr.tensor([0, 0, 0])]
    algorithm = mgr.algorithm(tensors, product)
    assert algorithm.is_init()
    assert algorithm.get_tensors() == algorithm.get_mem_objects() == tensors
    assert not mgr.algorithm(tensors).is_init()
    assert not mgr.algorithm([], product).is_init()
    mgr.sequence().record(kp.OpSyncDevice(tensors)).record(kp.OpAlgoDispatch(algorithm)).record(
        kp.OpSyncLocal([tensors[2]])
    ).eval()
    assert tensors[2].data().tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("workgroup", "count"), [((), 6), ((0, 0, 0), 6), ((2, 0, 0), 2), ((3, 2, 0), 6), ([1, 2, 3], 6), ((4,), 4)]
)
def test_workgroups(mgr: kp.Manager, spirv: Compile, workgroup: Any, count: int) -> None:
    declared = "layout(std430, binding = 0) buffer N { uint n[]; };"
    counter = mgr.tensor_t(np.zeros(6, np.uint32))
    algorithm = mgr.algorithm([counter], spirv("atomicAdd(n[0], 1);", 0, declared), workgroup)
    assert _run(mgr, counter, kp.OpAlgoDispatch(algorithm))[0] == count


def test_a_binding_takes_any_type(mgr: kp.Manager, product: bytes) -> None:
    """Kompute binds bytes; the shader reads them as its own type."""
    bits = mgr.tensor_t(np.array([1.5, 2.0], np.float32).view(np.uint32))
    two, out = mgr.tensor([2, 2]), mgr.tensor([0, 0])
    mgr.sequence().record(kp.OpSyncDevice([bits, two])).record(
        kp.OpAlgoDispatch(mgr.algorithm([bits, two, out], product))
    ).record(kp.OpSyncLocal([out])).eval()
    assert out.data().tolist() == [3, 4]


def test_bindings_may_leave_tensors_out(mgr: kp.Manager, spirv: Compile) -> None:
    unused, out = mgr.tensor([5]), mgr.tensor([0])
    declared = "layout(std430, binding = 1) buffer C { float c[]; };"
    algorithm = mgr.algorithm([unused, out], spirv("c[i] = 4;", 0, declared))
    assert _run(mgr, out, kp.OpAlgoDispatch(algorithm)) == [4]


FLOATS = "layout(push_constant) uniform P { float x, y, z; };"
MIXED = "layout(push_constant) uniform P { uint n; float x; ivec2 k; };"
GAPS = "layout(push_constant) uniform P { vec3 a; vec2 b; };"


@pytest.mark.parametrize(
    ("declared", "body", "given", "expected"),
    [
        (FLOATS, "v0[0] = x; v0[1] = y; v0[2] = z;", [1, 2.5, 3], [1, 2.5, 3]),
        (FLOATS, "v0[0] = x; v0[1] = y; v0[2] = z;", np.array([1.0, 2.5, 3.0]), [1, 2.5, 3]),
        (FLOATS, "v0[0] = x; v0[1] = y; v0[2] = z;", [1, 2, 3, 99], [1, 2, 3]),
        ("", "v0[i] = i;", [1, 2, 3], [0, 1, 2]),
        (MIXED, "v0[0] = n; v0[1] = x; v0[2] = k.x + k.y;", [7, 0.5, -1, -3], [7, 0.5, -4]),
        (
            MIXED,
            "v0[0] = n; v0[1] = x; v0[2] = k.x + k.y;",
            np.array((7, 0.5, [-1, -3]), [("n", "u4"), ("x", "f4"), ("k", "i4", 2)]),
            [7, 0.5, -4],
        ),
        (
            MIXED,
            "v0[0] = n; v0[1] = x; v0[2] = k.x + k.y;",
            np.array([7, np.float32(0.5).view(np.int32), -1, -3], np.int32),
            [7, 0.5, -4],
        ),
        (GAPS, "v0[0] = a.z; v0[1] = b.x; v0[2] = b.y;", [1, 2, 3, 99, 4, 5], [3, 4, 5]),
        (
            GAPS,
            "v0[0] = a.z; v0[1] = b.x; v0[2] = b.y;",
            np.array(([1, 2, 3], [4, 5]), [("a", "f4", 3), ("b", "f4", 2)]),
            [3, 4, 5],
        ),
        ("layout(push_constant) uniform P { int k[3]; };", "v0[i] = k[i];", np.array([4, 5, 6], np.int32), [4, 5, 6]),
    ],
)
def test_push_constants(
    mgr: kp.Manager, spirv: Compile, declared: str, body: str, given: Any, expected: list[float]
) -> None:
    tensor, shader = mgr.tensor([0, 0, 0]), spirv(body, 1, declared)
    assert _run(mgr, tensor, kp.OpAlgoDispatch(mgr.algorithm([tensor], shader, (3,), [], given))) == expected
    tensor.data()[:] = 0
    later = mgr.algorithm([tensor], shader, (3,))
    assert _run(mgr, tensor, kp.OpAlgoDispatch(later, given)) == expected


def test_a_dispatchs_push_constants_stay_for_later_ones(mgr: kp.Manager, spirv: Compile) -> None:
    tensor = mgr.tensor([0, 0, 0])
    shader = spirv("v0[0] += x; v0[1] += y; v0[2] += z;", 1, FLOATS)
    algorithm = mgr.algorithm([tensor], shader, (1, 1, 1), [], [1, 10, 100])
    plain, other = kp.OpAlgoDispatch(algorithm), kp.OpAlgoDispatch(algorithm, [2, 20, 200])
    assert _run(mgr, tensor, plain, other, plain) == [5, 50, 500]


@pytest.mark.parametrize("made_with", [[1, 10, 100], [1, 10, 100, 1000]])
def test_a_dispatch_has_as_many_push_constants_as_its_algorithm(
    mgr: kp.Manager, spirv: Compile, made_with: list[float]
) -> None:
    tensor = mgr.tensor([0])
    algorithm = mgr.algorithm([tensor], spirv("v0[0] = x + y + z;", 1, FLOATS), (1,), [], made_with)
    n = len(made_with)
    for wrong in (made_with[:-1], [*made_with, 1], [1]):
        with pytest.raises(kp.KomputeError, match=f"made with {n} push constants; got {len(wrong)}"):
            mgr.sequence().record(kp.OpAlgoDispatch(algorithm, wrong))
    assert _run(mgr, tensor, kp.OpAlgoDispatch(algorithm)) == [111]
    assert _run(mgr, tensor, kp.OpAlgoDispatch(algorithm, made_with[::-1])) == [sum(made_with[::-1][:3])]


@pytest.mark.parametrize(
    ("declared", "given", "reason"),
    [
        (FLOATS, [1, 2], "12 bytes of push constants, 3 numbers; got 2"),
        (FLOATS, (), "none were given"),
        (MIXED, [-1, 0, 0, 0], "push constant 0 is uint32"),
        (MIXED, [1, 0, 0.5, 0], "push constant 2 is int32"),
        (MIXED, np.zeros(2, [("n", "u4"), ("x", "f4")]), "one record"),
    ],
)
def test_push_constants_that_do_not_fit(
    mgr: kp.Manager, spirv: Compile, declared: str, given: Any, reason: str
) -> None:
    tensor = mgr.tensor([0])
    body = "v0[0] = x;"
    algorithm = mgr.algorithm([tensor], spirv(body, 1, declared))
    with pytest.raises(RuntimeError, match=reason):
        mgr.sequence().record(kp.OpAlgoDispatch(algorithm, given))
    with pytest.raises(TypeError, match="numbers"):
        kp.OpAlgoDispatch(algorithm, ["one", "two", "three", "four"]).commands()


SPECIAL = """
layout(constant_id = 0) const float x = 1; layout(constant_id = 1) const int n = 2;
layout(constant_id = 2) const uint u = 3; layout(constant_id = 3) const bool yes = false;
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [1, 2, 3, 0]),
        ([0.5], [0.5, 2, 3, 0]),
        ([0.5, -7, 4_000_000_000, True, 99], [0.5, -7, 4_000_000_000, 1]),
        (np.array([0.5, -7.0, 4.0, 1.0]), [0.5, -7, 4, 1]),
        (np.array([np.float32(0.5).view(np.int32), -7, -1, 1], np.int32), [0.5, -7, 2**32, 1]),
        (np.array((0.5, -7, 9), [("x", "f4"), ("n", "i4"), ("u", "u4")]), [0.5, -7, 9, 0]),
    ],
)
def test_specialization_constants(mgr: kp.Manager, spirv: Compile, given: Any, expected: list[float]) -> None:
    tensor = mgr.tensor([0, 0, 0, 0])
    shader = spirv("v0[0] = x; v0[1] = n; v0[2] = u; v0[3] = float(yes);", 1, SPECIAL)
    algorithm = mgr.algorithm([tensor], shader, (1, 1, 1), given)
    assert np.allclose(_run(mgr, tensor, kp.OpAlgoDispatch(algorithm)), expected)


def test_specialization_constants_that_do_not_fit(mgr: kp.Manager, spirv: Compile) -> None:
    shader = spirv("v0[0] = n + u;", 1, SPECIAL)
    for given in ([0, 0.5], [0, 0, -1], [0, 2**31]):
        with pytest.raises(RuntimeError, match="specialization constant"):
            mgr.algorithm([mgr.tensor([0])], shader, (1, 1, 1), given)


def test_opmult(mgr: kp.Manager) -> None:
    a, b, out = (mgr.tensor(np.arange(1000.0) + n) for n in range(3))
    algorithm = mgr.algorithm()
    assert not algorithm.is_init()
    mgr.sequence().record(kp.OpSyncDevice([a, b])).record(kp.OpMult([a, b, out], algorithm)).record(
        kp.OpSyncLocal([out])
    ).eval()
    assert np.array_equal(out.data(), a.data() * b.data())
    assert algorithm.is_init()
    assert algorithm.get_tensors() == [a, b, out]
    for wrong in ([a, b], [a, b, mgr.tensor([1])], [mgr.tensor_t(np.zeros(1000, np.int32))] * 3):
        with pytest.raises(RuntimeError, match="OpMult takes three"):
            kp.OpMult(wrong, mgr.algorithm())


def test_what_no_algorithm_can_be_made_of(mgr: kp.Manager, product: bytes, spirv: Compile) -> None:
    tensors = [mgr.tensor([1]) for _ in range(3)]
    with pytest.raises(RuntimeError, match="binding 2"):
        mgr.algorithm(tensors[:2], product)
    with pytest.raises(RuntimeError, match="in set 1"):
        mgr.algorithm(tensors, spirv("c[i] = 4;", 0, "layout(set = 1, binding = 0) buffer C { float c[]; };"))
    with pytest.raises(kp.KomputeError, match="not SPIR-V") as raised:
        mgr.algorithm(tensors, b"no SPIR-V at all")
    assert isinstance(raised.value.__cause__, vc.SpirvError)
    with pytest.raises(TypeError, match="SPIR-V as bytes"):
        mgr.algorithm(tensors, "void main() {}")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tensors and images"):
        mgr.algorithm([1, 2, 3], product)  # type: ignore[list-item]
    with pytest.raises(kp.KomputeError, match="exceeds the limits"):
        mgr.algorithm(tensors, product, (1, 1 << 31, 1))
    most = mgr.runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
    if most < 1 << 20:
        long = [mgr.tensor(np.zeros(most + n)) for n in range(2)]
        assert mgr.algorithm([long[0]] * 3, product).is_init()
        with pytest.raises(RuntimeError, match=f"at most {most} along x; give the shader a local_size_x"):
            mgr.algorithm([long[1]] * 3, product)
    tensors[1].destroy()
    with pytest.raises(RuntimeError, match="Tensor is destroyed"):
        mgr.algorithm(tensors, product)


def test_another_managers_tensors(mgr: kp.Manager, product: bytes) -> None:
    other = kp.Manager()
    tensors = [mgr.tensor([1]), mgr.tensor([1]), other.tensor([1])]
    for make in (lambda: mgr.algorithm(tensors, product), lambda: mgr.sequence().eval(kp.OpSyncLocal(tensors))):
        with pytest.raises(RuntimeError, match="another Manager"):
            make()
    other.destroy()


def test_features_are_on_where_the_shader_needs_them(mgr: kp.Manager, spirv: Compile) -> None:
    declared = "layout(std430, binding = 0) buffer D { double d[]; };"
    tensor, shader = mgr.tensor_t(np.array([0.1, 0.2])), spirv("d[i] *= 3;", 0, declared)
    if mgr.runtime.device.physical.features["shaderFloat64"]:
        assert _run(mgr, tensor, kp.OpAlgoDispatch(mgr.algorithm([tensor], shader))) == [0.1 * 3, 0.2 * 3]
    else:
        with pytest.raises(vc.MissingFeature, match="Float64"):
            mgr.algorithm([tensor], shader)
