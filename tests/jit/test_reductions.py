"""vc.reduce beside numpy and functools.reduce: axes, types, order, sizes where the passes differ, graphs, errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.compiled.blocks import wide
from vkcompute.ir import FLOAT32
from vkcompute.ir.function import walk
from vkcompute.jit.compilation.build import optimized
from vkcompute.jit.elementwise.formula import function_of
from vkcompute.jit.elementwise.stages import Stage, stage_program


@pytest.fixture(autouse=True, scope="module", params=[False, True], ids=["invocations", "workgroups"])
def _both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test as on a CPU, and as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vkcompute.jit.elementwise.reduction_launcher.prefers_workgroups", lambda runtime: request.param)
        yield


@pytest.fixture(scope="module", name="gpu")
def _without_plans(_both_ways: None, gpu: vc.Runtime) -> vc.Runtime:
    """The shared runtime, without the plans of the other way, whose sums are rounded in another order."""
    gpu.plans.clear()
    return gpu


total = vc.reduce(lambda a, b: a + b, 0)
largest = vc.reduce("max(a, b)", -(2**31))
dot = vc.reduce("a + b", 0, map="x * y")
first = vc.reduce(lambda a, b: a if a != 0 else b, 0)
last = vc.reduce("b if b != 0 else a", 0)


def composed(a, b):
    """What maps x -> p x + q, modulo 2**16, packed as p << 16 | q, do one after the other; b first."""
    p, q, r, s = a >> 16, a & 65535, b >> 16, b & 65535
    return ((p * r & 65535) << 16) | (p * s + q & 65535)


@given(data=st.data(), shape=hnp.array_shapes(max_dims=4, min_side=0, max_side=70), seed=st.integers(0, 99))
def test_axes(gpu: vc.Runtime, data: Any, shape: tuple[int, ...], seed: int) -> None:
    if math.prod(shape) > 200_000:
        shape = shape[:2]
    axes = st.integers(-len(shape), len(shape) - 1)
    axis = data.draw(st.none() | axes | st.lists(axes, unique_by=lambda n: n % len(shape)).map(tuple))
    keepdims = data.draw(st.booleans())
    x = np.random.default_rng(seed).integers(-(2**31), 2**31, shape).astype(np.int32)
    array = gpu.array(x)
    result = total(array, axis=axis, keepdims=keepdims, dtype=np.uint32).numpy()
    np.testing.assert_array_equal(result, np.add.reduce(x, axis, np.uint32, keepdims=keepdims), strict=True)
    np.testing.assert_array_equal(largest(array, axis=axis).numpy(), np.max(x, axis, initial=-(2**31)))


def sizes() -> list[int]:
    return [0, 1, 2, 16, 17, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 65536, 65537, 1024 * 1024, 1024 * 1024 + 1]


@pytest.mark.parametrize("n", sizes())
def test_order_at_sizes_where_passes_begin(gpu: vc.Runtime, n: int) -> None:
    """A function for which order matters; of a million elements, which one is not 0."""
    x = np.random.default_rng(n).integers(0, 2**32, min(n, 4000), np.uint32)
    if n <= 4000:
        expected = functools.reduce(composed, map(int, x), 5 << 16)
        assert vc.reduce(composed, 5 << 16)(gpu.array(x)).item() == expected
    sparse = np.zeros(n, np.int32)
    sparse[np.linspace(0, n - 1, min(n, 9)).astype(int)] = np.arange(1, min(n, 9) + 1)
    sparse[: n // 3] = 0
    left = sparse[sparse != 0].tolist() or [0]
    assert first(gpu.array(sparse)).item() == left[0]
    assert last(gpu.array(sparse)).item() == left[-1]


@pytest.mark.parametrize("shape", [(3, 2000), (2000, 3), (5, 130, 2), (200, 100), (1, 70_000), (70_000, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_order_along_axes(gpu: vc.Runtime, shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(0).integers(0, 2**32, shape, np.uint32)
    expected = functools.reduce(composed, np.moveaxis(x, axis, 0), np.full(np.delete(shape, axis), 1 << 16, np.uint32))
    result = vc.reduce(composed, 1 << 16)(gpu.array(x), axis=axis)
    np.testing.assert_array_equal(result.numpy(), expected)


def test_more_groups_than_fit_along_x(gpu: vc.Runtime) -> None:
    """One for each of many rows, and many columns."""
    x = np.arange(10_000_000, dtype=np.int32)
    rows = x[:1_000_000].reshape(100_000, 10)
    assert np.array_equal(total(gpu.array(rows), axis=1).numpy(), rows.sum(1, np.int32))
    wide = x.reshape(2, -1)
    assert np.array_equal(total(gpu.array(wide), axis=0).numpy(), wide.sum(0, np.int32))


@pytest.mark.rotates
def test_more_than_the_device_binds(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a binding has 1 MiB at most: the same, in windows."""
    x = gpu.array(np.random.default_rng(0).integers(0, 2**32, 1_500_001, np.uint32))
    y = gpu.array(np.random.default_rng(1).normal(size=1_500_001).astype(np.float32))
    whole = vc.reduce(composed, 1 << 16)(x).item(), total(y).item()
    monkeypatch.setattr(type(gpu.device), "max_binding_bytes", property(lambda _: 1 << 20))
    assert (vc.reduce(composed, 1 << 16)(x).item(), total(y).item()) == whole
    with gpu.record() as step:
        recorded = total(y)
    step.run()
    assert recorded.item() == whole[1]
    assert dot(x, 1).item() == x.numpy().sum(dtype=np.uint32)
    in_axes(x[:1_500_000].reshape(3, 500, 1000))
    in_axes(x[:1_500_000].reshape(1000, 3, 500).transpose(1, 2, 0))
    monkeypatch.undo()
    monkeypatch.setattr("vkcompute.jit.elementwise.dispatch.MOST_ELEMENTS", 1 << 20)
    assert total(y).item() == whole[1]
    in_axes(x[:1_500_000].reshape(3, 500, 1000))


def in_axes(x: vc.Array) -> None:
    """Compares sums, and a function that is not commutative, along one, several and all axes of a large array."""
    array = x.numpy()
    for axis in (None, 0, 1, (0, 2)):
        result = dot(x, 1, axis=axis, keepdims=axis == 1)
        assert np.array_equal(result.numpy(), array.sum(axis, np.uint32, keepdims=axis == 1))
    left = vc.reduce(lambda a, b: a, 0)(x, axis=(0, 2), dtype=np.uint32)
    assert np.array_equal(left.numpy(), np.zeros(x.shape[1]))
    last = vc.reduce(lambda a, b: b, 0)(x, axis=(0, 2))
    assert np.array_equal(last.numpy(), array[-1, :, -1])


@pytest.mark.parametrize(
    ("dtype", "initial", "expected"),
    [
        ("int32", 0, "int32"),
        ("int32", 0.0, "float32"),
        ("int32", np.float32(0), "float32"),
        ("uint32", 0, "uint32"),
        ("float32", 0, "float32"),
        ("float32", np.float64(0), "float64"),
        ("int8", 0, "int32"),
        ("int8", np.int8(0), "int8"),
        ("int8", np.int64(0), "int64"),
        ("uint8", np.int32(0), "int32"),
        ("bool", 0, "int32"),
        ("float16", 0, "float16"),
        ("float16", np.float32(0), "float32"),
        ("float64", 0, "float64"),
        ("int64", 0, "int64"),
    ],
)
def test_the_type_of_the_result(gpu: vc.Runtime, dtype: str, initial: Any, expected: str) -> None:
    x = np.random.default_rng(0).integers(0, 2 if dtype == "float16" else 100, (3, 200)).astype(dtype)
    try:
        result = vc.reduce(lambda a, b: a + b, initial)(gpu.array(x), axis=1)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    assert result.dtype == expected
    np.testing.assert_array_equal(result.numpy(), x.sum(1, expected))


def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@pytest.mark.parametrize("n", [5, 100, 5000])
def test_a_function_with_loops(gpu: vc.Runtime, n: int) -> None:
    x = np.random.default_rng(n).integers(1, 1000, n).astype(np.int32) * 6
    assert vc.reduce(gcd, 0)(gpu.array(x)).item() == functools.reduce(math.gcd, x.tolist(), 0)


def test_the_function_may_widen(gpu: vc.Runtime) -> None:
    result = vc.reduce(lambda a, b: a + b * 1.0, 0)(gpu.array(np.arange(2000, dtype=np.int32)))
    assert (result.dtype, result.item()) == (np.float32, 1999000.0)


def test_floats_are_exact_to_rounding_and_the_same_each_time(gpu: vc.Runtime) -> None:
    x = np.random.default_rng(0).normal(size=300_001).astype(np.float32)
    array = gpu.array(x)
    results = {total(array).numpy().tobytes() for _ in range(5)} | {
        total(array.reshape(1, -1), axis=1).numpy().tobytes()
    }
    assert len(results) == 1
    exact = math.fsum(x.tolist())
    # Four passes of 64: as many roundings on each element's way at most (Higham 2002, section 4.2).
    assert abs(total(array).item() - exact) <= 4 * 64 * np.finfo(np.float32).eps * abs(x).sum()


def test_an_initial_value_counts_once(gpu: vc.Runtime) -> None:
    x = np.arange(3000, dtype=np.int32)
    for shape, axis in (((3000,), None), ((3, 1000), 1), ((1000, 3), 0)):
        result = vc.reduce("a + b", 1000)(gpu.array(x.reshape(shape)), axis=axis)
        assert np.array_equal(result.numpy(), x.reshape(shape).sum(axis) + 1000)


def test_of_nothing_it_is_the_initial_value(gpu: vc.Runtime) -> None:
    assert total(gpu.empty(0, np.int32)).item() == 0
    assert vc.reduce("max(a, b)", -math.inf)(gpu.empty((0, 3))).item() == -math.inf
    assert vc.reduce("a + b", 7)(gpu.empty((2, 0, 3)), axis=1).tolist() == [[7.0] * 3] * 2
    assert total(gpu.empty((2, 0, 3)), axis=0).shape == (0, 3)
    assert total(gpu.array(np.int32(4))).item() == 4


def test_elements_stay_in_order_where_axes_that_go_are_apart(gpu: vc.Runtime) -> None:
    x = np.random.default_rng(0).integers(0, 2**31, (70, 3, 2, 90)).astype(np.uint32)
    for axis in ((0, 3), (3, 1), (0, 2), (0, 2, 3)):
        kept = [n for n in range(4) if n not in axis]
        rows = x.transpose(*sorted(axis), *kept).reshape(-1, *[x.shape[n] for n in kept])
        expected = functools.reduce(composed, rows, np.full(rows.shape[1:], 1 << 16, np.uint32))
        out = gpu.empty(expected.shape, np.uint32)
        assert vc.reduce(composed, 1 << 16)(gpu.array(x), axis=axis, out=out) is out
        assert np.array_equal(out.numpy(), expected)


def test_the_type_in_which_elements_are_combined(gpu: vc.Runtime) -> None:
    x = gpu.full((3, 1000), 2**31, np.uint32)
    assert total(x, axis=1).tolist() == [0, 0, 0]
    assert total(x, axis=1, dtype="float32").tolist() == [1000 * 2.0**31] * 3
    dot = vc.reduce("a + b", 0, map="x * y")(x, x, axis=(), dtype=np.float32).numpy()
    assert np.array_equal(dot, np.zeros((3, 1000)))  # the map's numbers have wrapped
    assert dot.dtype == np.float32


def test_map(gpu: vc.Runtime) -> None:
    x, y = np.arange(300, dtype=np.int32).reshape(3, 1, 100), np.arange(700, dtype=np.int32).reshape(7, 100)
    for axis in (None, 0, 1, 2):
        assert np.array_equal(dot(gpu.array(x), gpu.array(y), axis=axis).numpy(), (x * y).sum(axis, np.int32))

    def above(v, limit=50):
        return v > limit

    count = vc.reduce(lambda a, b: a + b, 0, map=above)
    assert (count(gpu.array(y)).dtype, count(gpu.array(y)).item()) == (np.int32, 649)
    assert count(gpu.array(y), limit=600).item() == 99
    assert vc.reduce("a + b", 0, map="(x - m) ** 2")(gpu.array(y), 350.0).dtype == np.float32


def test_out(gpu: vc.Runtime) -> None:
    x = np.arange(5000, dtype=np.int32).reshape(50, 100)
    array, out = gpu.array(x), gpu.empty(50, np.float32)
    assert total(array, axis=1, out=out) is out
    assert np.array_equal(out.numpy(), x.sum(1).astype(np.float32))
    row = array[0]
    total(array, axis=0, out=row)  # over what is read
    assert np.array_equal(row.numpy(), x.sum(0))
    scalar = gpu.empty((), np.int32)
    total(gpu.array(x.astype(np.uint32)), out=scalar)
    assert scalar.item() == x.sum()


def test_graphs_and_handles(clean_handles: None) -> None:
    with vc.Runtime() as runtime:
        record_and_run(runtime)
        assert total(runtime.array(np.ones(100_000, np.int32))).item() == 100_000


def record_and_run(gpu: vc.Runtime) -> None:
    """Reductions of several passes, whose temporaries may share memory; replayed on other data."""
    x = gpu.array(np.arange(100_000, dtype=np.int32))
    with gpu.record(x=x) as step:
        one, two = total(step["x"]), largest(step["x"])
        three = dot(step["x"], two)
    for data in (x, gpu.array(np.arange(100_000, dtype=np.int32)[::-1] // 3)):
        step.run(x=data)
        array = data.numpy()
        assert one.item() == array.sum(dtype=np.int32)
        assert two.item() == array.max()
        assert three.item() == (array * array.max()).sum(dtype=np.int32)


def one(a):  # no lambda: before Python 3.11, one in another's line is not found
    return a


def pair(a, b):
    return a, b


def nothing(x):
    pass


def test_errors(gpu: vc.Runtime) -> None:
    x = gpu.zeros((3, 4))
    for error, message, call in [
        (TypeError, "a function of two numbers; one takes 1", lambda: vc.reduce(one, 0)),
        (TypeError, "the initial value is a number; got str", lambda: vc.reduce("a + b", "0")),
        (TypeError, "the initial value is a number; got complex", lambda: vc.reduce("a + b", 0j)),
        (TypeError, "or an expression; got builtin_.*; write a lambda that calls it", lambda: vc.reduce(max, 0)),
        (vc.KernelError, "has the arguments a and b; .* a function; got x, y", lambda: vc.reduce("x + y", 0)),
        (vc.KernelError, "has the arguments a and b; .* a function; got b", lambda: vc.reduce("b", 0)),
        (TypeError, "got none", lambda: total(3)),
        (TypeError, "got list", lambda: total([0, 1])),
        (TypeError, "an axis is an int, a tuple of ints, or None for all; got 1.5", lambda: total(x, axis=1.5)),
        (TypeError, r"an axis is an int, .*; got \[0\]", lambda: total(x, axis=[0])),
        (ValueError, r"each axis is reduced once; got \(0, -2\)", lambda: total(x, axis=(0, -2))),
        (TypeError, "an array's dtype must be one of .*; got '<c8'", lambda: total(x, dtype=np.complex64)),
        (ValueError, "axis 2 of 2; axes count from 0", lambda: total(x, axis=2)),
        (ValueError, r"returns a result of shape \(4,\); out has \(\)", lambda: total(x, axis=0, out=gpu.zeros(()))),
        (TypeError, "float32, and out holds int32", lambda: total(x, out=gpu.zeros((), np.int32))),
        (TypeError, "out is a device array; got list", lambda: total(x, out=[])),
        (ValueError, "share memory", lambda: total(x, axis=0, out=gpu.zeros(1).broadcast_to(x.shape[1:]))),
        (vc.KernelError, r"& takes integers(?s:.*)a & b\n +\^", lambda: vc.reduce("a & b", 0)(x)),
        (vc.KernelError, "it returns a tuple of 2", lambda: vc.reduce(pair, 0)(x)),
        (vc.KernelError, "it returns nothing", lambda: vc.reduce("a + b", 0, map=nothing)(x)),
        (vc.KernelError, "5000000000 does not fit", lambda: vc.reduce("a | b", 5000000000)(gpu.zeros(3, np.int32))),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_a_wider_out_is_the_dtype_of_the_sum(gpu: vc.Runtime) -> None:
    """As in numpy, whose sums of int32 to int64 do not wrap."""
    if lacks(gpu, "float64"):
        pytest.skip("this device has 32 bits")
    total = vc.reduce("a + b", 0.1)
    x = np.full((5, 3), 2**30, np.int32)
    for array in gpu.array(x), gpu.array(x.astype(np.float32)):
        out = gpu.zeros(3, np.float64)
        total(array, axis=0, out=out)
        assert out.numpy().tolist() == [0.1 + 5 * 2.0**30] * 3
    whole = gpu.zeros((), np.int64)
    vc.reduce("a + b", 0)(gpu.array(x), out=whole)
    assert whole.item() == 15 * 2**30
    narrow = gpu.zeros((), np.float32)
    total(gpu.array(np.ones(3)), out=narrow)
    assert narrow.item() == np.float32(3.1)


@pytest.mark.devices
def test_a_wider_out_of_a_group_is_the_dtype_of_the_sum(group: vc.DeviceGroup) -> None:
    out = group.runtimes[0].zeros((), np.int64)
    vc.reduce("a + b", 0)(group.array(np.full(15, 2**30, np.int32)), out=out)
    assert out.item() == 15 * 2**30


def test_repetitions_follow_values_types_and_memory(gpu: vc.Runtime) -> None:
    """Repeated calls launch by plans; new elements, numbers, types, axes and another place of the result all count."""
    scaled = vc.reduce("a + b", 0, map="x * k")
    x = gpu.array(np.arange(6000, dtype=np.float32).reshape(3, 2000))
    outs = [gpu.zeros(3), gpu.zeros(3)]
    for turn in range(6):
        k: Any = [2, 2.0, np.float32(3)][turn // 2]
        x.fill(turn)
        out = outs[turn % 2]
        assert scaled(x, k, axis=1, out=out) is out
        np.testing.assert_array_equal(out.numpy(), np.full(3, 2000.0 * turn * k))
        assert scaled(x, k, axis=(0, 1), out=gpu.zeros(())).item() == 6000 * turn * k
        with pytest.raises(TypeError, match="an axis is an int"):
            scaled(x, k, axis=[1], out=out)


@pytest.mark.pure
@pytest.mark.parametrize("n_columns", [1, 1024])
@pytest.mark.parametrize("formula", ["x * y + z", "exp(x)", "exp(x) * sin(x) + cos(x)"])
def test_stages_of_long_rows_copy_a_costly_function_a_few_times(formula: str, n_columns: int) -> None:
    """Dozens of copies, of 20,000 operations and more, take SwiftShader minutes and gigabytes to compile."""
    each, combine = function_of(formula, "the map"), function_of("a + b", "the function")
    n_arrays = len(each.parameters)
    stage = Stage("interleaved" if n_columns == 1 else "wide", 4, 1 << 16, n_columns)
    form = stage.form(wide([4] * n_arrays), last=True)
    arrays, masks = (("f", 1),) * n_arrays, ((True,),) * n_arrays
    built = stage_program(combine, 0, each, FLOAT32, None, arrays, masks, form, None)
    assert 100 < len([*walk(optimized(built.compiler.function).body)]) < 10_000


def test_repeated_calls_without_out(gpu: vc.Runtime) -> None:
    """Results are new arrays each time, of the dtype and shape of the call."""
    total = vc.reduce("a + b", 0)
    values = np.arange(24, dtype=np.int16).reshape(4, 6)
    x, kept = gpu.array(values), []
    for dtype in (None, np.int16, None):
        for axis, keepdims in ((None, False), (0, False), (1, True), (None, False), ((0, 1), True)):
            for _ in range(3):
                result = total(x, axis=axis, keepdims=keepdims, dtype=dtype)
                expected = np.sum(values, axis=axis, keepdims=keepdims, dtype=dtype or np.int32)
                assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
                kept.append((result, expected))
    for result, expected in kept:
        np.testing.assert_array_equal(result.numpy(), expected)
    x += 1
    assert total(x).item() == values.sum() + 24


@pytest.mark.parametrize("n", [1 << k for k in range(1, 9)])
def test_a_row_at_the_address_of_the_parts_of_a_longer_one(gpu: vc.Runtime, n: int) -> None:
    """A plan is that of its stage: the later ones do not apply the function again."""
    long, rows = gpu.array(np.ones(16384, np.float32)), gpu.array(-np.ones((21, n), np.float32))
    for _ in range(3):
        assert vnp.abs(long).sum().item() == 16384
        assert vnp.abs((rows * rows[0]).sum(0) * -1.0).sum().item() == 21 * n
        assert vnp.abs(rows.sum(0)).sum().item() == 21 * n
