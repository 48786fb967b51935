"""Joins, splits, sorts, gathers and histograms of blocks, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError


@triton.jit
def joins(x_ptr, y_ptr, joined_ptr, turns_ptr, rows_ptr, columns_ptr, parts_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    joined = tl.join(x, y)
    flat = tl.arange(0, 2 * M * N)
    tl.store(joined_ptr + flat, joined.reshape(2 * M * N))
    tl.store(turns_ptr + flat.reshape(M, 2 * N), tl.interleave(x, y))
    tl.store(rows_ptr + flat.reshape(2 * M, N), tl.cat(x, y))
    tl.store(columns_ptr + flat.reshape(M, 2 * N), tl.cat(x, y, dim=-1))
    one, other = joined.split()
    tl.store(parts_ptr + at, one)
    tl.store(parts_ptr + M * N + at, other)


@pytest.mark.parametrize(("shape", "n_warps"), [((2, 4), 1), ((16, 32), 1), ((8, 64), 4)])
def test_joins_and_splits(machine: vkcompute.Runtime | None, shape: tuple[int, int], n_warps: int) -> None:
    x, y = (np.random.default_rng(seed).integers(-9, 9, shape).astype(np.int32) for seed in (1, 2))
    given = x, y, *[np.zeros(2 * x.size, np.int32) for _ in range(5)], *shape
    _, _, joined, turns, rows, columns, parts = run(machine, joins, (1,), given, num_warps=n_warps)
    np.testing.assert_array_equal(joined, np.stack([x, y], -1).ravel())
    np.testing.assert_array_equal(turns, np.stack([x, y], -1).ravel())
    np.testing.assert_array_equal(rows, np.concatenate([x, y]).ravel())
    np.testing.assert_array_equal(columns, np.concatenate([x, y], 1).ravel())
    np.testing.assert_array_equal(parts, np.concatenate([x, y]).ravel())


@triton.jit
def of_scalars(out_ptr, n):
    tl.store(out_ptr + tl.arange(0, 2), tl.join(n, 7))
    one, other = tl.split(tl.join(n, n * 2))
    tl.store(out_ptr + 2, one + other)
    tl.store(out_ptr + 3, tl.full((1,), n, tl.int32).item())


def test_scalars_are_joined(machine: vkcompute.Runtime | None) -> None:
    (result,) = run(machine, of_scalars, (1,), (np.zeros(4, np.int32), 5))
    assert result.tolist() == [5, 7, 15, 5]


@triton.jit
def sorts(x_ptr, up_ptr, down_ptr, top_ptr, low_ptr, back_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    some = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(up_ptr + at, tl.sort(x))
    tl.store(down_ptr + at, x.sort(dim=1, descending=True))
    tl.store(top_ptr + some, tl.topk(x, K))
    tl.store(low_ptr + some, tl.topk(x, K, descending=False))
    tl.store(back_ptr + at, tl.flip(x, 0))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
@pytest.mark.parametrize(("shape", "k", "n_warps"), [((1, 2), 1, 1), ((4, 16), 4, 1), ((2, 32), 16, 4)])
def test_sorts(machine: vkcompute.Runtime | None, shape: tuple[int, int], k: int, n_warps: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-20 if dtype != "uint32" else 0, 20, shape).astype(dtype)
    x = x * np.uint32(200_000_000) if dtype == "uint32" else x
    if dtype == "float32":
        special = np.resize(np.array([np.inf, -np.nan, np.nan, -np.inf, -0.0, 0.5], np.float32), x.size)
        x.ravel()[1::3] = special[1::3]
    given = x, x * 0, x * 0, *[np.zeros((shape[0], k), dtype) for _ in range(2)], x * 0, *shape, k
    _, up, down, top, low, back = run(machine, sorts, (1,), given, num_warps=n_warps)
    ordered = np.sort(x, 1)
    np.testing.assert_array_equal(up, ordered)
    np.testing.assert_array_equal(down, ordered[:, ::-1])
    np.testing.assert_array_equal(top, ordered[:, ::-1][:, :k])
    np.testing.assert_array_equal(low, ordered[:, :k])
    np.testing.assert_array_equal(back, x[::-1])


@triton.jit
def reversals(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.flip(tl.load(x_ptr + at), AXIS))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_reversals(machine: vkcompute.Runtime | None, axis: int | None) -> None:
    x = np.random.default_rng(0).normal(size=(16, 128)).astype(np.float32)
    _, result = run(machine, reversals, (1,), (x, x * 0, *x.shape, axis), num_warps=4)
    np.testing.assert_array_equal(result, np.flip(x, -1 if axis is None else axis))


@triton.jit
def between_subgroups(x_ptr, back_ptr, sums_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(back_ptr + at, tl.flip(x))
    tl.store(sums_ptr + at, tl.cumsum(x, 0))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_many_elements_pass_between_subgroups(machine: vkcompute.Runtime | None, dtype: str) -> None:
    """On a CPU's driver, an invocation holds 128 elements, and 32-bit words of four of them pass as a vector."""
    x = np.random.default_rng(0).integers(0, 2, 2048).astype(dtype)
    x[64:] *= dtype != "int8"  # no sum overflows
    _, back, sums = run(machine, between_subgroups, (1,), (x, x * 0, x * 0, len(x)))
    np.testing.assert_array_equal(back, x[::-1])
    np.testing.assert_array_equal(sums, np.cumsum(x, dtype=dtype))


@triton.jit
def gathers(x_ptr, index_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, L: tl.constexpr, AXIS: tl.constexpr):
    ROWS: tl.constexpr = L if AXIS == 0 else M
    COLUMNS: tl.constexpr = N if AXIS == 0 else L
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + at, tl.gather(x, tl.load(index_ptr + at), AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("shape", "n", "n_warps"), [((4, 8), 16, 1), ((32, 16), 2, 1), ((16, 64), 32, 4)])
def test_gathers(machine: vkcompute.Runtime | None, shape: tuple[int, int], n: int, n_warps: int, axis: int) -> None:
    random = np.random.default_rng(axis)
    x = random.normal(size=shape).astype(np.float32)
    index = random.integers(0, shape[axis], (n, shape[1]) if axis == 0 else (shape[0], n)).astype(np.int32)
    *_, result = run(
        machine, gathers, (1,), (x, index, np.zeros(index.shape, x.dtype), *shape, n, axis), num_warps=n_warps
    )
    np.testing.assert_array_equal(result, np.take_along_axis(x, index, axis))


@triton.jit
def counts(x_ptr, all_ptr, some_ptr, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(all_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))
    tl.store(some_ptr + tl.arange(0, BINS), x.histogram(BINS, mask=x % 2 == 0))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize(("n", "n_bins", "n_warps"), [(8, 16, 1), (1024, 16, 1), (256, 1024, 4)])
def test_histograms(machine: vkcompute.Runtime | None, n: int, n_bins: int, n_warps: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, n_bins + 3, n).astype(dtype)
    x[0] = -1 if dtype == "int32" else 2**32 - 1
    zeros = np.zeros(n_bins, np.int32)
    _, every, some = run(machine, counts, (1,), (x, zeros, zeros.copy(), n, n_bins), num_warps=n_warps)
    inside = x[1:][x[1:] < n_bins]
    np.testing.assert_array_equal(every, np.bincount(inside, minlength=n_bins))
    np.testing.assert_array_equal(some, np.bincount(inside[inside % 2 == 0], minlength=n_bins))


@triton.jit
def beyond_the_axis(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    tl.store(x_ptr + tl.arange(0, 8), tl.gather(x, x + 1, 0))


@triton.jit
def sort_of_rows(x_ptr):
    tl.sort(tl.zeros((4, 4), tl.int32), 0)


@triton.jit
def halves(x_ptr):
    tl.split(tl.zeros((4, 4), tl.int32))


@triton.jit
def unlike(x_ptr):
    tl.cat(tl.zeros((4,), tl.int32), tl.zeros((8,), tl.int32))


@triton.jit
def wrong_k(x_ptr):
    tl.topk(tl.zeros((8,), tl.int32), 16)


@triton.jit
def counted_floats(x_ptr):
    tl.histogram(tl.zeros((8,), tl.float32), 16)


@triton.jit
def wrong_number_of_bins(x_ptr):
    tl.histogram(tl.zeros((8,), tl.int32), 12)


@triton.jit
def wrong_index(x_ptr):
    tl.gather(tl.zeros((4, 8), tl.int32), tl.zeros((8, 8), tl.int32), 1)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (beyond_the_axis, "index 8 is outside of the axis of 8"),
        (sort_of_rows, r"sorts along the last axis of a block; got a block of int32\[4, 4\]"),
        (halves, "whose last axis has length 2"),
        (unlike, "two blocks of one shape"),
        (wrong_k, "k is a power of two, at most the length of the axis, 8; got 16"),
        (wrong_number_of_bins, "num_bins is a power of two known at compile time; got 12"),
        (counted_floats, r"takes a block of integers with one axis; got a block of fp32\[8\]"),
        (wrong_index, "shapes differ along the axis 1 only"),
    ],
)
def test_errors_of_orders(program: triton.JITFunction, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        program.interpret[(1,)](np.arange(8, dtype=np.int32))


@triton.jit
def sorts_rows(x_ptr, y_ptr, DESCENDING: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x, y = tl.sort((tl.load(x_ptr + at), tl.load(y_ptr + at)), descending=DESCENDING)
    tl.store(x_ptr + at, x)
    tl.store(y_ptr + at, y)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "uint32"])
def test_a_tuple_is_sorted_by_the_first_block_and_then_the_next(
    machine: vkcompute.Runtime | None, dtype: str, descending: bool
) -> None:
    x = np.random.default_rng(0).integers(0, 4, (4, 32)).astype(dtype)
    y = np.random.default_rng(1).permutation(x.size).astype(np.int32).reshape(x.shape)
    if dtype == "float32":
        x[:, ::7] = np.nan
    result = run(machine, sorts_rows, (1,), (x, y, descending, *x.shape), num_warps=4)
    order = np.lexsort((y, x))[:, :: -1 if descending else 1]
    for got, given in zip(result, (x, y), strict=True):
        np.testing.assert_array_equal(got, np.take_along_axis(given, order, 1))


@triton.jit
def sorts_unlike(x_ptr, N: tl.constexpr):
    tl.sort((tl.load(x_ptr + tl.arange(0, N)), tl.arange(0, 2 * N)))


@pytest.mark.pure
def test_blocks_that_are_sorted_together_have_one_shape() -> None:
    with pytest.raises(KernelError, match=r"tl.sort takes blocks of one shape; got .*\[4\], a block of int32\[8\]"):
        run(None, sorts_unlike, (1,), (np.zeros(4, np.float32), 4))
