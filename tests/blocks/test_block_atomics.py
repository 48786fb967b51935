"""Atomic operations of all types, against NumPy, by several programs at the same time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import run
from runtimes import lacks

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

INTEGERS = "int32", "uint32", "int64", "uint64"  # Triton has no atomic operations on narrower ones, but for cas
FLOATS = "float16", "float32", "float64"


def atomic_on(machine: vkcompute.Runtime | None, dtype: str) -> str:
    """Returns a dtype; skips the test where it has no atomic operations, as pairs of words have none."""
    is_wide = np.dtype(dtype).itemsize == 8
    if machine is not None and lacks(machine, dtype, in_shaders=is_wide):
        pytest.skip(f"the device has no atomic operations on {dtype}")
    return dtype


@pytest.fixture(params=[*INTEGERS, *FLOATS])
def dtype(request: pytest.FixtureRequest, machine: vkcompute.Runtime | None) -> str:
    """A dtype that the machine has, with its atomic operations."""
    return atomic_on(machine, request.param)


@triton.jit
def combine(x_ptr, sums_ptr, least_ptr, most_ptr, n, N_BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    tl.atomic_add(sums_ptr + at % N_BINS, x, mask=mask)
    tl.atomic_min(least_ptr + at % N_BINS, x, mask=mask)
    tl.atomic_max(most_ptr + at % N_BINS, x, mask=mask)


def test_sums_and_extremes(machine: vkcompute.Runtime | None, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 7, 259).astype(dtype)  # whose sums all types hold
    sums, least, most = np.ones(5, dtype), np.full(5, 3, dtype), np.full(5, 3, dtype)
    result = run(machine, combine, (5,), (x, sums, least, most, 259), N_BINS=5, BLOCK=64)
    for bins, start in zip((sums, least, most), range(3), strict=True):
        combined = (np.add, np.minimum, np.maximum)[start]
        for at in range(5):
            bins[at] = combined.reduce(x[at::5], initial=bins[at], dtype=dtype)
    for got, wanted in zip(result[1:], (sums, least, most), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_pairs_of_words_have_none(gpu: vkcompute.Runtime, dtype: str) -> None:
    if not lacks(gpu, dtype, in_shaders=True):
        pytest.skip(f"the device has {dtype}")
    with pytest.raises(vkcompute.MissingFeature, match=r"(?s)not computed by words; use numbers of 32.*tl.atomic_add"):
        run(gpu, total, (1,), (np.ones(4, dtype), np.zeros(1, dtype)), N=4)


@triton.jit
def total(x_ptr, sum_ptr, N: tl.constexpr):
    tl.atomic_add(sum_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N))))


@triton.jit
def count(counter_ptr, old_ptr):
    old = tl.load(counter_ptr)
    seen = tl.atomic_cas(counter_ptr, old, old + 1)
    while seen != old:
        old = seen
        seen = tl.atomic_cas(counter_ptr, old, old + 1)
    tl.store(old_ptr + tl.program_id(0), old)


@pytest.mark.parametrize("dtype", ["int16", "uint16", *INTEGERS, *FLOATS])
def test_a_counter_by_compare_exchange(machine: vkcompute.Runtime | None, dtype: str) -> None:
    atomic_on(machine, dtype)
    counter, old = run(machine, count, (100,), (np.zeros(1, dtype), np.zeros(100, dtype)))
    assert counter[0] == 100
    assert sorted(old) == list(range(100))


@triton.jit
def exchange(x_ptr, expected_ptr, old_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    old = tl.atomic_cas(x_ptr + at, tl.load(expected_ptr + at), tl.full((N,), 5, x_ptr.dtype.element_ty))
    tl.store(old_ptr + at, old)
    tl.atomic_xchg(x_ptr + N, tl.load(x_ptr))


def test_compare_exchange_of_a_block(machine: vkcompute.Runtime | None, dtype: str) -> None:
    x, expected = np.array([0, 1, 2, 3, 9], dtype), np.array([0, 2, 2, 4], dtype)
    result = run(machine, exchange, (1,), (x, expected, np.zeros(4, dtype)), N=4)
    assert result[0].tolist() == [5, 1, 5, 3, 5]
    assert result[2].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_compared_by_their_bits(machine: vkcompute.Runtime | None, dtype: str) -> None:
    atomic_on(machine, dtype)
    x, expected = np.array([0.0, -0.0, np.nan, np.inf, 9], dtype), np.array([-0.0, -0.0, np.nan, np.inf], dtype)
    result: Any = run(machine, exchange, (1,), (x, expected, np.zeros(4, dtype)), N=4)[0]
    assert result[:4].tolist() == [0, 5, 5, 5]


@triton.jit
def extremes(x, low, high, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.atomic_min(low + i, value)
    tl.atomic_max(high + i, value)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_are_nan_where_the_element_or_the_value_is(machine: vkcompute.Runtime | None, dtype: str) -> None:
    atomic_on(machine, dtype)
    numbers = [-np.inf, -2.0, 3.0, np.nan, np.copysign(np.nan, -1), np.inf, 0.0, -5.0]
    element, value = (item.ravel().astype(dtype) for item in np.meshgrid(numbers, numbers))
    result: Any = run(machine, extremes, (1,), (value, element, element.copy()), N=64)
    assert np.array_equal(result[1], np.minimum(element, value), equal_nan=True)
    assert np.array_equal(result[2], np.maximum(element, value), equal_nan=True)
