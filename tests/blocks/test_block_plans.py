"""Repeated launches on the same arrays: each runs the program of its own numbers and constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def filled(out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, 7, mask=i < n)


def test_one_is_no_multiple_of_sixteen(gpu: vc.Runtime) -> None:
    out = gpu.zeros(64, np.int32)
    for n in (1, 16, 32, 48, 1, 17, 16, 3):
        out.fill(0)
        filled[(1,)](out, n, 64)
        assert np.count_nonzero(out.numpy()) == n


@triton.jit
def strided(x_ptr, out_ptr, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i * stride))


def test_strides_of_one_and_sixteen(gpu: vc.Runtime) -> None:
    host = np.arange(128, dtype=np.float32)
    x, out = gpu.array(host), gpu.zeros(8)
    for stride in (1, 16, 2, 1, 16):
        strided[(1,)](x, out, stride, 8)
        assert np.array_equal(out.numpy(), host[: 8 * stride : stride])


@triton.jit
def constant(out_ptr, C: tl.constexpr):
    tl.store(out_ptr, C * 1.0)


def test_constants_that_are_equal_to_others(gpu: vc.Runtime) -> None:
    out = gpu.zeros(1)
    for value in (0.0, -0.0, 0.0, 1, True, 1.0, float("nan"), float("nan")):
        constant[(1,)](out, value)
        assert np.array_equal(out.numpy(), np.float32([value]), equal_nan=True)
        assert np.signbit(out.numpy()[0]) == np.signbit(value)


def test_compiled_programs_have_constants_that_are_no_number(gpu: vc.Runtime) -> None:
    out = gpu.zeros(1)
    compiled = constant.warmup(out, float("nan"), grid=(1,))
    compiled[(1,)](out)
    compiled[(1,)](out, float("nan"))
    assert np.isnan(out.numpy()[0])
    with pytest.raises(ValueError, match=r"compiled for C=nan; got 0\.0"):
        compiled[(1,)](out, 0.0)


@triton.jit
def first(out_ptr, W: tl.constexpr):
    tl.store(out_ptr, tl.full((), 2.5, tl.float32) + W[0])
    tl.store(out_ptr + 1, W[0] / 2)


def test_tuples_that_are_equal_to_others(gpu: vc.Runtime) -> None:
    out = gpu.zeros(2)
    for value in ((3,), (3.0,), (3,), (0.0,), (-0.0,)):
        first[(1,)](out, value)
        assert out.tolist() == [2.5 + value[0], value[0] / 2]
        assert np.signbit(out.numpy()[1]) == np.signbit(value[0])


@triton.jit
def thrice(x_ptr, out_ptr, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    at = N - 1 - i if REVERSE else i
    for _ in range(3):
        tl.store(out_ptr + i, tl.load(x_ptr + at) * 2 + 1)


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 8, 64, 1024])
def test_loads_see_stores_by_another_argument(gpu: vc.Runtime, n: int, *, reverse: bool, on_host: bool) -> None:
    expected = np.arange(n, dtype=np.float32)
    x: Any = expected.copy() if on_host else gpu.array(expected)
    thrice[(1,)](x, x, n, reverse)
    for _ in range(3):
        expected = (expected[::-1] if reverse else expected) * 2 + 1
    assert np.array_equal(x if on_host else x.numpy(), expected)


def test_loads_see_stores_to_a_view_that_overlaps(gpu: vc.Runtime) -> None:
    expected = np.arange(12, dtype=np.float32)
    x = gpu.array(expected)
    thrice[(1,)](x[:8], x[4:], 8, False)
    for _ in range(3):
        expected[4:] = expected[:8] * 2 + 1
    assert np.array_equal(x.numpy(), expected)


class Held:
    """A tensor of another package, which holds an array."""

    def __init__(self, array: vc.Array) -> None:
        self.array, self.dtype = array, array.dtype

    @property
    def __vkcompute_array__(self) -> vc.Array:
        return self.array


class Keeping(triton.KernelInterface):
    """As libraries do: the first launch of a dtype returns what later ones are launched by."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.compiled = fn, dict[Any, Any]()

    def run(self, x: Any, n: int, *, grid: Any, **named: Any) -> None:
        if x.dtype in self.compiled:
            self.compiled[x.dtype][grid](x, n)
        else:
            self.compiled[x.dtype] = self.fn.run(x, n, grid=grid, **named)


@pytest.mark.parametrize("decorator", ["none", "heuristics", "autotune"])
def test_launchers_that_keep_what_run_returns(gpu: vc.Runtime, decorator: str) -> None:
    program, named = filled, {}
    if decorator == "none":
        named = {"N": 64, "num_warps": 2}
    elif decorator == "heuristics":
        program = triton.heuristics({"N": lambda args: 64})(filled)
    else:
        program = triton.autotune(configs=[triton.Config({"N": 64}, num_warps=2)], key=[])(filled)
    keeping = Keeping(program)
    for n in (5, 9, 16, 1):
        out = gpu.zeros(64, np.int32)
        keeping[(1,)](Held(out), n, **named)
        assert np.count_nonzero(out.numpy()) == n
    assert isinstance(keeping.compiled[out.dtype].metadata.num_warps, int)
