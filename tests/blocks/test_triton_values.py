"""Values of operators and functions where those of drivers differ, or where Triton's own rule is not NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError

X = np.array([0.25, -2.0, np.nan, 3.0, np.inf, -0.5, 0.75, -np.inf], np.float32)


@triton.jit
def extremes(x_ptr, greater_ptr, less_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(greater_ptr + tl.arange(0, N), max(x, 0.5))
    tl.store(less_ptr + tl.arange(0, N), min(x, 0.5, 0.375))


def test_max_and_min_leave_nan_out(machine: vkcompute.Runtime | None) -> None:
    out = np.zeros(8, np.float32)
    _, greater, less = run(machine, extremes, (1,), (X, out, out.copy()), N=8)
    assert np.array_equal(greater, np.fmax(X, np.float32(0.5)))
    assert np.array_equal(less, np.fmin(X, np.float32(0.375)))


@triton.jit
def normals(x_ptr, out_ptr, N: tl.constexpr):
    one, other = tl.pair_uniform_to_normal(tl.load(x_ptr + tl.arange(0, N)), tl.zeros((N,), tl.float32))
    tl.store(out_ptr + tl.arange(0, N), one + other)


def test_normal_numbers_of_nan_are_those_of_the_least_uniform_number(machine: vkcompute.Runtime | None) -> None:
    uniform = np.array([0.5, np.nan, 0.0, 1e-7], np.float32)
    _, result = run(machine, normals, (1,), (uniform, np.zeros(4, np.float32)), N=4)
    assert np.allclose(result, np.sqrt(-2 * np.log(np.array([0.5, 1e-7, 1e-7, 1e-7]))), rtol=1e-5)


@triton.jit
def softmax_of(x_ptr, out_ptr, N: tl.constexpr, DIM: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.softmax(tl.load(x_ptr + at), DIM))


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_float16_has_the_precision_of_float32(machine: vkcompute.Runtime | None, dim: int) -> None:
    x = (np.random.default_rng(0).normal(size=(8, 8)) * 3).astype(np.float16)
    _, result = run(machine, softmax_of, (1,), (x, np.zeros((8, 8), np.float32)), N=8, DIM=dim)
    powers = np.exp(x.astype(np.float64))
    assert np.allclose(result, powers / powers.sum(dim, keepdims=True), rtol=1e-5)


@triton.jit
def newer_syntax(x_ptr, out_ptr, n, N: tl.constexpr):
    x, i = tl.load(x_ptr + tl.arange(0, N)), n
    while i:
        x += 1.0
        i -= 1
    weights = [a * b for a, b in ((1, 2), (3, 4))]
    inside = tl.where(0.0 < x < 5.0, (twice := x * 2) + twice, -1.0)
    tl.store(out_ptr + tl.arange(0, N), inside + weights[1] if 0 < n < 9 else x)


@pytest.mark.parametrize("n", [3, 10])
def test_syntax_of_newer_versions(machine: vkcompute.Runtime | None, n: int) -> None:
    x = np.linspace(-6, 6, 16, dtype=np.float32)
    result = run(machine, newer_syntax, (1,), (x, np.zeros(16, np.float32), n), N=16)[1]
    moved = x + n
    assert np.array_equal(result, np.where((moved > 0) & (moved < 5), 4 * moved, -1) + 12 if n < 9 else moved)


@triton.jit
def of_bits(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at) > 0, tl.load(y_ptr + at) > 0
    tl.store(out_ptr + at, (x // (y | True)).to(tl.int32) + 10 * (-x).to(tl.int32))
    tl.store(out_ptr + N + at, (x % (y | True)).to(tl.int32))
    tl.store(out_ptr + 2 * N + at, (x / (y | True)).to(tl.int32))


def test_division_of_bits(machine: vkcompute.Runtime | None) -> None:
    x, y = np.array([0, 1, 1, 0], np.int32), np.array([1, 1, 0, 0], np.int32)
    *_, result = run(machine, of_bits, (1,), (x, y, np.full(12, -1, np.int32)), N=4)
    assert result.tolist() == [*(11 * x), 0, 0, 0, 0, *x]


@triton.jit
def one_element(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 1))
    tl.store(out_ptr, tl.squeeze(x, 0) + tl.reshape(x, ()) + tl.expand_dims(2.0, ()))


def test_shapes_without_axes(machine: vkcompute.Runtime | None) -> None:
    x = np.array([1.5], np.float32)
    assert run(machine, one_element, (1,), (x, np.zeros(1, np.float32)))[1] == 5.0


@triton.jit
def under_a_wider_mask(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    mask = at[:, None] >= at[None, :]
    tl.store(out_ptr + at[:, None] * N + at[None, :], tl.load(x_ptr + at, mask=mask, other=-1.0))


def test_a_load_has_the_shape_of_its_mask(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(4, dtype=np.float32)
    _, result = run(machine, under_a_wider_mask, (1,), (x, np.zeros((4, 4), np.float32)), N=4)
    assert np.array_equal(result, np.where(np.tri(4, dtype=bool), x, -1))


@triton.jit
def with_an_option(x_ptr, reverse, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x_ptr + at, tl.cumsum(tl.load(x_ptr + at), 0, reverse=reverse))


@pytest.mark.pure
def test_an_option_of_the_device_is_an_error() -> None:
    with pytest.raises(KernelError, match=r"reverse of tl.cumsum is known at compile time; got a number of the device"):
        with_an_option.interpret[(1,)](X.copy(), False, N=8)
