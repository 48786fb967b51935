"""Operations on blocks, compared with numpy for several shapes, types and sizes of workgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl


@triton.jit
def reductions(x_ptr, sums_ptr, largest_ptr, where_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    kept = columns if AXIS == 0 else rows
    tl.store(sums_ptr + kept, tl.sum(x, axis=AXIS))
    tl.store(largest_ptr + kept, tl.max(x, axis=AXIS))
    tl.store(where_ptr + kept, tl.argmin(x, axis=AXIS))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("shape", "n_warps"), [((4, 8), 1), ((1, 64), 1), ((32, 4), 4), ((16, 64), 4)])
def test_reductions_along_an_axis(
    machine: vkcompute.Runtime | None, shape: tuple[int, int], axis: int, dtype: str, n_warps: int
) -> None:
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    out = [np.zeros(shape[1 - axis], dtype), np.zeros(shape[1 - axis], dtype), np.zeros(shape[1 - axis], np.int32)]
    _, *result = run(machine, reductions, (1,), (x, *out, *shape, axis), num_warps=n_warps)
    for one, wanted in zip(result, (x.sum(axis), x.max(axis), x.argmin(axis)), strict=True):
        np.testing.assert_array_equal(one, wanted)


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scans(x_ptr, y_ptr, sums_ptr, one_ptr, other_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr,
          REVERSE: tl.constexpr):  # fmt: skip
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x, y = tl.load(x_ptr + places), tl.load(y_ptr + places)
    tl.store(sums_ptr + places, tl.cumsum(x, axis=AXIS, reverse=REVERSE))
    one, other = tl.associative_scan((x, y), AXIS, affine, reverse=REVERSE)
    tl.store(one_ptr + places, one)
    tl.store(other_ptr + places, other)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis", "n_warps"), [((8, 16), 0, 1), ((4, 32), 1, 1), ((2, 512), 1, 4)])
def test_scans(
    machine: vkcompute.Runtime | None, shape: tuple[int, int], axis: int, n_warps: int, reverse: bool
) -> None:
    random = np.random.default_rng(1)
    x, y = (random.integers(1, 4, shape).astype(np.uint32) for _ in range(2))
    given = x, y, *[np.zeros(shape, np.uint32) for _ in range(3)], *shape, axis, reverse
    _, _, sums, one, other = run(machine, scans, (1,), given, num_warps=n_warps)
    flipped = [np.flip(item, axis) if reverse else item for item in (x, y, sums, one, other)]
    x, y, sums, one, other = (np.moveaxis(item, axis, 0) for item in flipped)
    np.testing.assert_array_equal(sums, np.cumsum(x, 0, dtype=np.uint32))
    a, b = x[0], y[0]
    for row in range(len(x)):
        if row:
            a, b = a * x[row], b * x[row] + y[row]
        np.testing.assert_array_equal(one[row], a)
        np.testing.assert_array_equal(other[row], b)


@triton.jit
def first_words(a, b, c, d):
    return tl.where(a >= 0, a, c), d


@triton.jit
def ordered(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    x, y = tl.load(x_ptr + tl.arange(0, N)), tl.load(y_ptr + tl.arange(0, N))
    first, last = tl.reduce((x, y), 0, first_words)
    tl.store(out_ptr, first)
    tl.store(out_ptr + 1, last)


@pytest.mark.parametrize(("n", "n_warps"), [(8, 1), (64, 1), (512, 2)])
def test_a_reduction_by_a_function_that_is_not_commutative(
    machine: vkcompute.Runtime | None, n: int, n_warps: int
) -> None:
    x, y = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32) * 3
    x[: n // 2 - 1] = -1
    *_, result = run(machine, ordered, (1,), (x, y, np.zeros(2, np.int32), n), num_warps=n_warps)
    assert result.tolist() == [n // 2 - 1, 3 * (n - 1)]


@triton.jit
def shapes(x_ptr, out_ptr, flat_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    y = x.T + tl.sum(x, 1)[None, :] - tl.max(x, 0, keep_dims=True).trans()
    tl.store(out_ptr + columns[:, None] * M + rows[None, :], y)
    tl.store(flat_ptr + tl.arange(0, M * N), tl.ravel(x + columns))


@pytest.mark.parametrize(("shape", "n_warps"), [((4, 8), 1), ((32, 16), 4)])
def test_changes_of_shape(machine: vkcompute.Runtime | None, shape: tuple[int, int], n_warps: int) -> None:
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.int32)
    given = x, np.zeros(shape[::-1], np.int32), np.zeros(x.size, np.int32), *shape
    _, result, flat = run(machine, shapes, (1,), given, num_warps=n_warps)
    np.testing.assert_array_equal(result, x.T + x.sum(1)[None, :] - x.max(0)[:, None])
    np.testing.assert_array_equal(flat, (x + np.arange(shape[1])).ravel())


@triton.jit
def integers(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, x // y)
    tl.store(out_ptr + N + at, x % y)
    tl.store(out_ptr + 2 * N + at, (x >> 2) ^ (x << 1))
    tl.store(out_ptr + 3 * N + at, tl.where((x > y) | (x == 3), tl.maximum(x, y), -x))
    tl.store(out_ptr + 4 * N + at, tl.cdiv(tl.abs(x), y + 8))


def test_integers_divide_as_in_c(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(-32, 32, dtype=np.int32)
    y = np.resize(np.array([-7, -3, -1, 1, 2, 5], np.int32), 64)
    *_, result = run(machine, integers, (1,), (x, y, np.zeros((5, 64), np.int32), 64))
    quotient = np.trunc(x / y).astype(np.int32)
    wanted = quotient, x - quotient * y, (x >> 2) ^ (x << 1), np.where((x > y) | (x == 3), np.maximum(x, y), -x)
    np.testing.assert_array_equal(result, [*wanted, -(-abs(x) // (y + 8))])


@triton.jit
def floats(x_ptr, out_ptr, n, scale, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at, at < n, other=1.0)
    y = tl.exp(x) + tl.log(x) * tl.sqrt(x) - tl.sin(x) / scale
    tl.store(out_ptr + at, tl.sigmoid(y) + tl.minimum(x, 0.5), at < n)


def test_functions_of_floats(machine: vkcompute.Runtime | None) -> None:
    x = np.linspace(0.1, 2, 100).astype(np.float32)
    _, result = run(machine, floats, (4,), (x, np.zeros_like(x), 100, 3.0), N=32)
    y = np.exp(x) + np.log(x) * np.sqrt(x) - np.sin(x) / np.float32(3)
    np.testing.assert_allclose(result, 1 / (1 + np.exp(-y)) + np.minimum(x, np.float32(0.5)), rtol=2e-6)


@triton.jit
def counts(x_ptr, bins_ptr, total_ptr, before_ptr, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at, at < n, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=at < n)
    before = tl.atomic_add(total_ptr, tl.sum(x, 0))
    tl.store(before_ptr + tl.program_id(0), before)


@pytest.mark.parametrize(("n", "block"), [(100, 4), (1000, 256)])
def test_atomic_operations(machine: vkcompute.Runtime | None, n: int, block: int) -> None:
    x = np.random.default_rng(3).integers(0, 10, n).astype(np.int32)
    grid = (triton.cdiv(n, block),)
    given = x, np.zeros(10, np.int32), np.zeros(1, np.int32), np.zeros(grid, np.int32), n
    _, bins, total, before = run(machine, counts, grid, given, N=block)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=10))
    assert total[0] == x.sum()
    parts = [x[at : at + block].sum() for at in range(0, n, block)]
    assert sorted(np.diff([*sorted(before), x.sum()])) == sorted(parts)


@triton.jit
def in_place(x_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for _ in range(n):
        x = tl.load(x_ptr + at)
        tl.store(x_ptr + N - 1 - at, x)
        y = tl.load(x_ptr + (at + 1) % N)
        tl.store(x_ptr + at, y + 1)


def test_accesses_are_in_program_order(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(256, dtype=np.int32)
    (result,) = run(machine, in_place, (1,), (x, 5), N=256)
    for _ in range(5):
        x = np.roll(x[::-1], -1) + 1
    np.testing.assert_array_equal(result, x)


@triton.jit
def control(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    total = tl.zeros((N,), tl.int32)
    k = 0
    while k < n:
        x = tl.load(x_ptr + k * N + at)
        if tl.max(x, 0) > 90:
            total += x
        elif k % 2 == 0:
            total -= x
        k += 1
    for j in tl.static_range(3):
        total += j
    tl.store(out_ptr + at, total)


def test_control_flow(machine: vkcompute.Runtime | None) -> None:
    x = np.random.default_rng(4).integers(0, 100, (7, 16)).astype(np.int32)
    x[3] = np.minimum(x[3], 90)
    x[4] = np.minimum(x[4], 90)
    _, result = run(machine, control, (1,), (x, np.zeros(16, np.int32), 7), N=16)
    signs = [1 if row.max() > 90 else -1 if k % 2 == 0 else 0 for k, row in enumerate(x)]
    np.testing.assert_array_equal(result, (x * np.array(signs)[:, None]).sum(0) + 3)


@triton.jit
def online_maximum(x_ptr, out_ptr, n, N: tl.constexpr):
    largest = float("-inf")
    for start in range(0, n, N):
        at = start + tl.arange(0, N)
        largest = tl.maximum(largest, tl.max(tl.load(x_ptr + at, mask=at < n, other=float("-inf")), 0))
    tl.store(out_ptr, largest)


def test_a_loop_that_begins_at_infinity(machine: vkcompute.Runtime | None) -> None:
    x = np.random.default_rng(5).normal(size=100).astype(np.float32)
    _, result = run(machine, online_maximum, (1,), (x, np.zeros(1, np.float32), 100, 16))
    assert result[0] == x.max()


@triton.jit
def of_views(x_ptr, stride, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at * stride))


def test_views_and_numpy_arrays(gpu: vkcompute.Runtime) -> None:
    x = np.arange(64, dtype=np.float32)
    out = gpu.zeros(8, np.float32)
    of_views[(1,)](gpu.array(x)[3:51:6], 6, out, N=8)
    np.testing.assert_array_equal(out.numpy(), x[3:51:6])
    host = np.zeros(8, np.float32)
    with pytest.warns(vkcompute.HostCopyWarning):
        of_views[(1,)](x, 2, host, N=8)
    np.testing.assert_array_equal(host, x[:16:2])


@triton.jit
def copied(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


def test_arguments_that_overlap(gpu: vkcompute.Runtime) -> None:
    x = np.arange(1100, dtype=np.int32)
    array = gpu.array(x)
    copied[(1,)](array[:1024], array[3:1027], N=1024)
    x[3:1027] = x[:1024].copy()
    np.testing.assert_array_equal(array.numpy(), x)
    with pytest.raises(ValueError, match="overlap"):
        copied.interpret[(1,)](x[:1024], x[3:1027], 1024)
    twice = np.arange(16, dtype=np.int32)
    in_place_of_two.interpret[(1,)](twice, twice)
    np.testing.assert_array_equal(twice, np.arange(16) + 2)


@triton.jit
def in_place_of_two(x_ptr, y_ptr):
    at = tl.arange(0, 16)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)
    tl.store(y_ptr + at, tl.load(y_ptr + at) + 1)


@triton.jit
def types(a_ptr, b_ptr, out_ptr, i, f, flag, OUT: tl.constexpr):
    a, b = tl.load(a_ptr + tl.arange(0, 8)), tl.load(b_ptr + tl.arange(0, 8))
    tl.static_assert((a + b).dtype == OUT)
    tl.static_assert((a + 1).dtype == a.dtype)
    tl.static_assert((a < b).dtype == tl.int1)
    tl.static_assert((a / b.to(OUT)).dtype == (OUT if OUT.is_floating() else tl.float32))
    result = (a + b).to(tl.float32) * f + i
    tl.store(out_ptr + tl.arange(0, 8), tl.where(flag, result, 0))


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("int32", "float32", "float32"),
        ("uint32", "int32", "uint32"),
        ("int32", "int32", "int32"),
    ],
)
def test_promotion(machine: vkcompute.Runtime | None, one: str, other: str, wanted: str) -> None:
    a, b = np.arange(8).astype(one), np.arange(1, 9).astype(other)
    given: tuple[Any, ...] = (a, b, np.zeros(8, np.float32), 5, 0.5, True, getattr(tl, wanted))
    *_, result = run(machine, types, (1,), given)
    np.testing.assert_array_equal(result, (a + b).astype(np.float32) * np.float32(0.5) + 5)


def test_repeated_launches_use_plans_and_the_disk(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(8, np.float32)
    of_views[(1,)](x, 3, out, N=8)
    for stride in (2, 4, 6):
        of_views[(1,)](x, stride, out, N=8)
        np.testing.assert_array_equal(out.numpy(), np.arange(8) * stride)
    fresh = triton.JITFunction(of_views.fn)  # finds the entry on the disk
    monkeypatch.setattr("vkcompute.blocks.launching.block_source.specialize", None)
    fresh[(1,)](x, 7, out, N=8)
    np.testing.assert_array_equal(out.numpy(), np.arange(8) * 7)


@triton.jit
def divided(x_ptr, quotients_ptr, remainders_ptr, rows, columns, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    at = row * N + column
    x = tl.load(x_ptr + at)
    divisor = tl.where((row < rows) & (column < columns), columns - column, 1)
    tl.store(quotients_ptr + at, x // divisor)
    tl.store(remainders_ptr + at, x % divisor)


@pytest.mark.parametrize("columns", range(9))
def test_divisors_that_a_mask_replaces(machine: vkcompute.Runtime | None, columns: int) -> None:
    x, zeros = np.arange(64, dtype=np.int32).reshape(8, 8) + 50, np.zeros((8, 8), np.int32)
    result: Any = run(machine, divided, (1,), (x, zeros, zeros.copy(), 5, columns), M=8, N=8)
    row, column = np.indices((8, 8))
    divisor = np.where((row < 5) & (column < columns), columns - column, 1)
    np.testing.assert_array_equal(result[1], x // divisor)
    np.testing.assert_array_equal(result[2], x % divisor)
