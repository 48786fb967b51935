"""Dtypes of `tl.dot`, which are Triton's: fixed by the operands, but for float16."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError, MissingFeature


@triton.jit
def product(x_ptr, out_ptr, N: tl.constexpr, OUT: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.dot(x, x, out_dtype=OUT))


@triton.jit
def added(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    total = tl.dot(x, x, tl.load(out_ptr + at))
    tl.static_assert(total.dtype == tl.float16)
    tl.store(out_ptr + at, total)


@triton.jit
def stacks(x_ptr, out_ptr, N: tl.constexpr):
    a, b, m, n = tl.arange(0, 2), tl.arange(0, 2), tl.arange(0, N), tl.arange(0, N)
    rows = ((a[:, None, None] * 2 + b[None, :, None]) * N + m[None, None, :]) * N
    x = tl.load(x_ptr + (rows[:, :, :, None] + n))
    tl.store(out_ptr + (rows[:, :, :, None] + n), tl.dot(x, x))


@triton.jit
def brain_sums(x_ptr):
    x = tl.full((8, 8), 1, tl.float16)
    tl.dot(x, x, out_dtype=tl.bfloat16)


@pytest.mark.parametrize(("dtype", "out", "value", "sums"), [
    (np.int8, tl.int8, 100, np.int32), (np.float32, tl.float16, 100, np.float32),
    (np.float16, tl.float32, 100, np.float32), (np.float16, tl.float16, 100, np.float16),
])  # fmt: skip
def test_sums_have_the_dtype_of_triton(
    machine: vkcompute.Runtime | None, dtype: type, out: object, value: int, sums: type
) -> None:
    x = np.full((8, 8), value, dtype)
    try:
        result = run(machine, product, (1,), (x, np.zeros((8, 8), sums)), N=8, OUT=out)[1]
    except MissingFeature:
        pytest.skip("the device has no such type")
    with np.errstate(over="ignore"):
        assert (result == np.array(8 * value * value).astype(sums)).all()


def test_an_accumulator_of_float16_gives_float16(machine: vkcompute.Runtime | None) -> None:
    x = np.eye(8, dtype=np.float16) * 3
    try:
        result = run(machine, added, (1,), (x, np.ones((8, 8), np.float16)), N=8)[1]
    except MissingFeature:
        pytest.skip("the device has no such type")
    assert np.array_equal(result, x @ x + 1)


def test_stacks_of_several_axes(machine: vkcompute.Runtime | None) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 2, 4, 4)).astype(np.float32)
    assert np.array_equal(run(machine, stacks, (1,), (x, np.zeros_like(x)), N=4)[1], x @ x)


@pytest.mark.pure
def test_no_sums_of_bfloat16() -> None:
    with pytest.raises(KernelError) as caught:
        brain_sums.interpret[(1,)](np.zeros(1, np.float32))
    check_error(caught.value, "out_dtype is no tl.bfloat16; write tl.dot(a, b).to(tl.bfloat16)", "tl.dot")
