"""Arrays larger than a binding in block programs; on a device whose bindings are small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtimes import lacks, needs_bindings, open_runtime

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

MOST, N = 4096, 5000  # bytes of a binding, elements of an array
BLOCK = 128


@pytest.fixture(scope="module")
def small() -> Iterator[vc.Runtime]:
    with open_runtime(limits={"maxStorageBufferRange": MOST}) as runtime:
        needs_bindings(runtime, 20)
        yield runtime


@triton.jit
def mirrored(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + n - 1 - at, at < n)
    tl.store(out_ptr + at, x, at < n)


@triton.jit
def doubled(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, at < n), at < n)


@triton.jit
def counted(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n, 0)
    tl.atomic_add(counts_ptr + x, 1, at < n)


@triton.jit
def rows(x_ptr, y_ptr, out_ptr, n_columns, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + row * n_columns + at, at < n_columns, 0.0)
    y = tl.load(y_ptr + at, at < n_columns, 0.0)
    tl.store(out_ptr + row * n_columns + at, x - tl.sum(x * y, 0), at < n_columns)


GRID = (triton.cdiv(N, BLOCK),)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "float64", "bool", "int16"])
def test_any_element_of_a_large_array(small: vc.Runtime, dtype: str) -> None:
    if lacks(small, dtype):
        pytest.skip(f"the device has no arrays of {dtype}")
    x = np.random.default_rng(0).integers(0, 100, N).astype(dtype)
    out = small.zeros(N, dtype)
    mirrored[GRID](small.array(x), out, N, BLOCK=BLOCK)
    np.testing.assert_array_equal(out.numpy(), x[::-1])


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([900, 1024, 1025, N]), st.sampled_from([900, 1024, N]), st.integers(0, 9), st.integers(0, 9))
def test_large_and_small_arrays_and_views(small: vc.Runtime, n: int, m: int, start: int, other: int) -> None:
    """Launches with the same types: some arrays fit in a binding, others do not."""
    x, result = np.random.default_rng(n).random(n + start).astype(np.float32), np.zeros(m + other, np.float32)
    out = small.array(result)
    n_moved = min(n, m)
    mirrored[(triton.cdiv(n_moved, BLOCK),)](small.array(x)[start:], out[other:], n_moved, BLOCK=BLOCK)
    result[other : other + n_moved] = x[start : start + n_moved][::-1]
    np.testing.assert_array_equal(out.numpy(), result)


def test_large_arrays_in_place_and_in_graphs(small: vc.Runtime) -> None:
    x = np.arange(N, dtype=np.int32)
    array = small.array(x)
    doubled[GRID](array, N, BLOCK=BLOCK)
    doubled[GRID](array, N, BLOCK=BLOCK)
    np.testing.assert_array_equal(array.numpy(), 4 * x)
    with small.record(x=array) as graph:
        doubled[GRID](graph["x"], N, BLOCK=BLOCK)
    graph.run(x=array)
    np.testing.assert_array_equal(array.numpy(), 8 * x)


def test_atomic_operations_on_large_arrays(small: vc.Runtime) -> None:
    x = np.random.default_rng(1).integers(0, N, 2 * N).astype(np.int32)
    for dtype in ("int32", "float32"):  # of floats, which some devices add as integers
        counts = small.zeros(N, dtype)
        counted[(triton.cdiv(2 * N, BLOCK),)](small.array(x), counts, 2 * N, BLOCK=BLOCK)
        np.testing.assert_array_equal(counts.numpy(), np.bincount(x, minlength=N))


@pytest.mark.parametrize("n_columns", [100, 128])
def test_rows_of_large_arrays(small: vc.Runtime, n_columns: int) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(-9, 9, (50, n_columns)).astype(np.float32), rng.integers(-9, 9, n_columns).astype(np.float32)
    out = small.zeros(x.shape)
    rows[(50,)](small.array(x), small.array(y), out, n_columns, COLUMNS=128)
    np.testing.assert_array_equal(out.numpy(), x - (x * y).sum(1, keepdims=True))


def test_overlapping_large_arrays(small: vc.Runtime) -> None:
    x = np.arange(2 * N, dtype=np.int32)
    array = small.array(x)
    mirrored[GRID](array[:N], array[N:], N, BLOCK=BLOCK)
    np.testing.assert_array_equal(array.numpy(), np.concatenate([x[:N], x[:N][::-1]]))


def test_an_array_of_more_than_the_driver_binds(gpu: vc.Runtime) -> None:
    """More than 128 MiB, which is one binding on lavapipe."""
    n = (130 << 20) + 1
    x: Any = gpu.zeros(n, np.uint8)
    doubled[(1,)](x, n, BLOCK=BLOCK)
    ones = gpu.full(BLOCK, 1, np.uint8)
    mirrored[(1,)](ones, x[n - BLOCK :], BLOCK, BLOCK=BLOCK)
    at = n - BLOCK + 7
    x[at:].copy_from(gpu.full(n - at, 3, np.uint8))
    mirrored[(1,)](x, ones, n, BLOCK=BLOCK)
    assert ones.numpy().tolist() == [3] * (n - at) + [1] * (BLOCK - (n - at))
