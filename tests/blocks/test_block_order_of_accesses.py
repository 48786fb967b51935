"""Loads see the stores before them, whichever way a device loads fastest."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def twice(x_ptr, y_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, at < n, other=0)
    tl.store(y_ptr + at, x * 2, at < n)
    x = tl.load(x_ptr + at, at < n, other=0)
    tl.store(y_ptr + at, x * 3, at < n)


@triton.jit
def scaled(x_ptr, n, repetitions, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, at < n)
    for i in range(1, repetitions):
        x = x * i
    tl.store(x_ptr + at, x, at < n)


@triton.jit
def scaled_by_calls(x_ptr, n, one, other, N: tl.constexpr):
    scaled(x_ptr, n, one, N)
    scaled(x_ptr, n, other, N)


@pytest.mark.parametrize("n", [1024, 1000])
def test_a_load_after_a_store(machine: vkcompute.Runtime | None, n: int) -> None:
    x = np.arange(1024, dtype=np.float32)
    (result,) = run(machine, scaled_by_calls, (1,), (x, n, 3, 5, 1024))
    np.testing.assert_array_equal(result, np.where(np.arange(1024) < n, x * 48, x))


@pytest.mark.parametrize("shift", [0, 4])
def test_a_load_after_a_store_through_another_pointer(gpu: vkcompute.Runtime, shift: int) -> None:
    x = np.arange(1024 + shift, dtype=np.float32)
    array = gpu.array(x)
    twice[(1,)](array[:1024], array[shift:], 1024, 1024)
    for factor in (2, 3):
        x[shift:] = x[:1024].copy() * factor
    np.testing.assert_array_equal(array.numpy(), x)


@triton.jit
def exchanged(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + N - 1 - at, x)
    tl.store(out_ptr + at, x + tl.load(x_ptr + at))


@pytest.mark.parametrize("same", [True, False])
def test_a_reload_after_a_store_by_other_invocations(gpu: vkcompute.Runtime, same: bool) -> None:
    x = np.arange(256, dtype=np.float32)
    array, out = gpu.array(x), gpu.zeros(256, np.float32)
    exchanged[(1,)](array, array if same else gpu.array(x), out, 256)
    np.testing.assert_array_equal(out.numpy(), x + (x[::-1] if same else x))


@triton.jit
def reversed_after(x_ptr, out_ptr, n, LOOP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    if LOOP:
        for i in range(n):
            tl.store(x_ptr + at, at + i)
    elif n > 2:
        tl.store(x_ptr + at, at + n - 1)
    tl.store(out_ptr + at, tl.load(x_ptr + N - 1 - at))


@pytest.mark.parametrize("loop", [True, False])
def test_a_load_after_stores_in_a_loop_or_a_branch(like_a_gpu: vkcompute.Runtime, loop: bool) -> None:
    """Each subgroup loads what another one has stored."""
    x, out = like_a_gpu.zeros(1024, np.int32), like_a_gpu.zeros(1024, np.int32)
    reversed_after[(1,)](x, out, 3, loop, 1024)
    np.testing.assert_array_equal(out.numpy(), np.arange(1024)[::-1] + 2)
