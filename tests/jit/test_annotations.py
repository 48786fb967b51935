"""Annotations of kernels' parameters: what they accept, what they make of it, and what they refuse."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest
from oracle import module

import vkcompute as vc
from vkcompute.errors import MissingFeature
from vkcompute.jit.compilation.annotations import ArrayType, converted

NAMES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
TEXT = """
import numpy as np
import vkcompute as vc
@vc.kernel
def saxpy(x: vc.float32[:], y: vc.float32[:], out: vc.float32[:], a: vc.float32, b: vc.Array = None) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = a * x[i] + y[i]
@vc.kernel
def kinds(x: vc.int32[:, :], m: int, f: float, flag: bool, small: np.uint32, out: "vc.float32[()]"):
    out[()] = m / 2 + f + flag * 10 + small + x.shape[1] * 100
@vc.kernel
def wide(n: vc.int64, out: vc.int64[:]):
    out[0] = n + 1
@vc.kernel
def narrow(n: vc.uint8, flags: vc.bool_[:], out: vc.int32[:]):
    out[0] = n + vc.bool_(n) + flags[1]
def make():
    local = vc.uint32
    @vc.kernel
    def inner(out: "local[:]", other: "no_such_name[:]"):
        out[0] = 7
    return inner
"""
AS_STRINGS = "from __future__ import annotations"


@pytest.fixture(params=["", AS_STRINGS], ids=["now", "as strings"])
def kernels(request: pytest.FixtureRequest) -> Any:
    return module(request.param + TEXT.replace("b: vc.Array = None", 'b: "Thing" = 1'))


def test_arguments_as_annotated(gpu: vc.Runtime, kernels: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(100, np.float32), rng.standard_normal(100, np.float32)
    arrays = gpu.array(x), gpu.array(y)
    for a in (2, 0.1, np.float64(0.1), np.int8(3), True, 0.1, 7):  # again, from what was kept of the launch
        out = gpu.empty(100)
        kernels.saxpy(*arrays, out, a)
        expected = np.float32(a) * x + y
        assert np.allclose(out.numpy(), expected, rtol=2e-7, atol=1e-7)
    graph_out = gpu.zeros(100)
    with gpu.record(a=0.5) as graph:
        kernels.saxpy(*arrays, graph_out, graph["a"])
    for a in (0.5, 3):
        graph.run(a=a) if a != 0.5 else graph.run()
        assert np.allclose(graph_out.numpy(), np.float32(a) * x + y, rtol=2e-7, atol=1e-7)


def test_every_kind_of_annotation(gpu: vc.Runtime, kernels: Any) -> None:
    x, out = gpu.zeros((2, 3), np.int32), gpu.zeros(())
    for arguments in ((3, 1, True, 200), (np.int16(3), np.float32(1), np.True_, np.int64(200))):
        kernels.kinds[1, 1](x, *arguments, out)
        assert out.item() == 1.5 + 1 + 10 + 200 + 300
    words = gpu.zeros(1, np.uint32)
    kernels.make()[1, 1](words, 1)
    assert words.item() == 7
    longs, ints = gpu.array(np.zeros(1, np.int64)), gpu.zeros(1, np.int32)
    flags = gpu.array(np.array([False, True]))
    try:
        kernels.narrow[1, 1](200, flags, ints)
        with pytest.raises(
            ValueError, match="n is annotated as uint8, whose range does not include 300; use a wider type"
        ):
            kernels.narrow[1, 1](300, flags, ints)
        assert ints.item() == 202
        kernels.wide[1, 1](2, longs)
        kernels.wide[1, 1](2**40, longs)
        assert longs.item() == 2**40 + 1
    except MissingFeature as missing:
        pytest.skip(str(missing))


def test_what_does_not_fit(gpu: vc.Runtime, kernels: Any) -> None:
    x, matrix, doubles = gpu.zeros(4), gpu.zeros((2, 2)), gpu.array(np.zeros(4))
    wrong = [
        ((doubles, x, x, 1), r"saxpy: x is annotated as float32\[:\]; got float64\[:\]; pass such an array"),
        ((x, matrix, x, 1), r"saxpy: y is annotated as float32\[:\]; got float32\[:, :\]"),
        ((x, 2.0, x, 1), r"saxpy: y is annotated as float32\[:\]; got 2.0; pass"),
        ((x, x, x, matrix), r"saxpy: a is annotated as a number, float32; got float32\[:, :\]; pass a number"),
        ((x, x, x, "1"), "a kernel takes device arrays and numbers; got str"),
        (([1.0], x, x, 1), "got list for x; copy it to the device"),
    ]
    for arguments, message in wrong:
        with pytest.raises(TypeError, match=message):
            kernels.saxpy(*arguments)
    x, out = gpu.zeros((2, 3), np.int32), gpu.zeros(())
    good = (3, 1.0, True, 200)
    kernels.kinds[1, 1](x, *good, out)
    wrong = [
        ((3.0, *good[1:]), r"kinds: m is annotated as an integer, int; got 3.0; convert it before"),
        ((3, 1.0, 1, 200), r"kinds: flag is annotated as a bool, bool; got 1"),
        ((3, 1.0, True, np.float32(2)), r"kinds: small is annotated as an integer, uint32; got .*2\.0"),
    ]
    for arguments, message in wrong:
        with pytest.raises(TypeError, match=message):
            kernels.kinds[1, 1](x, *arguments, out)
    for number in (2**32, -1):
        with pytest.raises(ValueError, match=rf"small is annotated as uint32, whose range does not include {number}"):
            kernels.kinds[1, 1](x, 3, 1.0, True, number, out)
    assert out.item() == 1.5 + 1 + 10 + 200 + 300


@pytest.mark.pure
def test_simulations_have_the_same_types(kernels: Any) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    kernels.saxpy.simulate(x, x, out, 2)
    assert np.array_equal(out, 3 * x)
    with pytest.raises(TypeError, match=r"saxpy: x is annotated as float32\[:\]; got float64\[:\]"):
        kernels.saxpy.simulate(x.astype(float), x, out, 2)


@pytest.mark.pure
@pytest.mark.parametrize("name", NAMES)
def test_the_types_are_numpys(name: str) -> None:
    ours, numpys = getattr(vc, name), getattr(np, name)
    assert ours == numpys
    assert numpys == ours
    assert ours == np.dtype(name)
    assert ours != np.dtype("bool")
    assert {numpys: 1}[ours] == {ours: 1}[numpys] == 1
    assert type(ours(3)) is numpys
    assert isinstance(numpys(3), ours)
    assert not isinstance(3, ours)
    assert np.dtype(ours) == np.zeros(2, ours).dtype == np.arange(3).astype(ours).dtype == np.dtype(name)
    assert np.issubdtype(ours, np.number)
    assert np.result_type(ours, np.int8) == np.result_type(numpys, np.int8)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert repr(ours) == f"vkcompute.{name}"


@pytest.mark.pure
def test_types_of_arrays() -> None:
    assert vc.float32[:] == ArrayType(np.dtype("float32"), 1)
    assert vc.bool_ == np.bool_
    assert vc.bool_[:] == ArrayType(np.dtype(bool), 1)
    assert [str(item) for item in (vc.int8[()], vc.int8[:], vc.int8[:, :, :])] == [
        "int8[()]",
        "int8[:]",
        "int8[:, :, :]",
    ]
    for wrong in (3, slice(2), (slice(None), 0), "x"):
        with pytest.raises(TypeError, match=r"an array type is float32\[:\] or"):
            vc.float32[wrong]


@pytest.mark.pure
@pytest.mark.parametrize("name", NAMES)
def test_numbers_become_what_is_annotated(name: str) -> None:
    kind = getattr(np, name)
    for number in (True, 7, 100.5, np.uint8(9), np.float64(0.25), np.int64(120)):
        is_float = isinstance(number, float | np.floating)
        if is_float and np.dtype(name).kind != "f":
            with pytest.raises(TypeError, match="is annotated as an integer"):
                converted("x", kind, number)
        else:
            result = converted("x", kind, number)
            assert type(result) is kind
            assert result == kind(number)


LATE = """
import vkcompute as vc

@vc.kernel
def add(x: Missing, n: also.missing, out: vc.float32[:]):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] + n
"""


@pytest.mark.parametrize("head", [AS_STRINGS, *[""] * (sys.version_info >= (3, 14))])
def test_annotations_may_have_names_that_never_exist(gpu: vc.Runtime, head: str) -> None:
    add, out = module(head + LATE).add, gpu.zeros(3)
    add(gpu.full(3, 1.0), 2, out)
    assert out.numpy().tolist() == [3] * 3
    add.simulate(np.ones(3, np.float32), 4, simulated := np.zeros(3, np.float32))
    assert simulated.tolist() == [5] * 3
    with pytest.raises(TypeError, match=r"out is annotated as float32\[:\]"):
        add(gpu.full(3, 1.0), 2, gpu.zeros(3, np.int32))


@vc.kernel
def variables(out, f):
    i = vc.global_id(0)
    whole: vc.int32 = 2.7
    rounded: vc.int32 = f[i]
    half: float = 3
    doubled: int = f[i] * 2
    true: bool = f[i]
    anything: Any = 7
    small: np.uint8 = 200
    vector: vc.float32x3 = 2
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = whole, rounded, half / 2, doubled
    out[i, 4], out[i, 5], out[i, 6], out[i, 7] = true + 1, anything, small, vector.y


@pytest.mark.parametrize("simulated", [False, True])
def test_annotations_of_variables_convert(gpu: vc.Runtime, simulated: bool) -> None:
    out, f = gpu.zeros((3, 8)), gpu.array(np.array([0, 1.5, -2.5], np.float32))
    try:
        (variables.simulate if simulated else variables)[1, 3](out, f)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    expected = [[2, 0, 1.5, 0, 1, 7, 200, 2], [2, 1, 1.5, 3, 2, 7, 200, 2], [2, -2, 1.5, -5, 2, 7, 200, 2]]
    assert out.numpy().tolist() == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("y: vc.int32", "an annotation without a value has no effect"),
        ("y: tuple[int, int] = 3", r"a variable is annotated with a type of numbers.*got tuple\[int, int\]; leave it"),
        ("y: vc.float32[:] = 3", r"a variable is annotated with a type of numbers.*got vc.float32\[:\]"),
        ("y: max = 3", "a variable is annotated with a type of numbers.*got max"),
        ("y: Missing = 3", "the name Missing is not defined"),
        ("y: vc.int32 = (1, 2)", "this takes numbers; got a tuple of 2"),
    ],
)
def test_annotations_of_variables_that_convert_nothing_are_refused(gpu: vc.Runtime, line: str, reason: str) -> None:
    kernel = vc.kernel(module(f"import vkcompute as vc\ndef k(out):\n    {line}\n    out[0] = 1\n").k)
    for launched in (kernel, kernel.simulate):
        with pytest.raises(vc.KernelError, match=reason):
            launched[1, 1](gpu.zeros(1))
