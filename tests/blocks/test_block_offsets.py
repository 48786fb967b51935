"""Offsets of 64 bits: sums are exact, and an offset beyond all arrays is none of a smaller element."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError, ir, tile

FAR = 1 << 32


@triton.jit
def there_and_back(x_ptr, out_ptr, far, N: tl.constexpr):
    at = tl.arange(0, N).to(tl.int64)
    pointer = x_ptr + far * at
    tl.store(out_ptr + at, tl.load(pointer - (far - 1) * at, mask=at < N - 1, other=7))
    row = out_ptr + N + tl.arange(0, N)
    for i in range(2):
        tl.store(row, i)
        row += at * 0 + N


@pytest.mark.parametrize("far", [3, FAR + 4])
def test_sums_of_offsets_are_exact(machine: vkcompute.Runtime | None, far: int) -> None:
    x = np.arange(16, dtype=np.int32) + 100
    _, result = run(machine, there_and_back, (1,), (x, np.full((3, 16), -1, np.int32), far, 16))
    np.testing.assert_array_equal(result, [[*x[:15], 7], [0] * 16, [1] * 16])


@triton.jit
def divided(x_ptr, out_ptr, first, n, step, N: tl.constexpr, ROW: tl.constexpr, COLUMN: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    index = first + at
    row, column = index // ROW, index % ROW
    far = row * (COLUMN + ROW) + column % COLUMN + column // COLUMN * step
    inside = (at < n) & (row % 3 < 2)
    tl.store(out_ptr + at, tl.load(x_ptr + 512 + far, mask=inside, other=-1), mask=at < n)


@pytest.mark.parametrize(("row", "column"), [(32, 8), (64, 64), (12, 4), (20, 5), (6, 2), (8, 16), (1, 1)])
@pytest.mark.parametrize(("first", "step"), [(0, 8), (16, 4), (3, 7), (-40, 5)])
def test_quotients_and_remainders_of_indices(
    machine: vkcompute.Runtime | None, row: int, column: int, first: int, step: int
) -> None:
    """Elements that are adjacent in a row are loaded together, others one by one."""
    x, n = np.arange(4096, dtype=np.int32), 250
    index = first + np.arange(n)
    rows, columns = np.trunc(index / row).astype(int), np.fmod(index, row)
    far = rows * (column + row) + np.fmod(columns, column) + np.trunc(columns / column).astype(int) * step
    expected = np.where(np.fmod(rows, 3) < 2, 512 + far, -1)
    given = x, np.full(256, -2, np.int32), first, n, step, 64, row, column
    _, result = run(machine, divided, (4,), given)
    np.testing.assert_array_equal(result, [*expected, *[-2] * 6])


@triton.jit
def beyond(x_ptr, out_ptr, far, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + far + at))
    tl.store(x_ptr + (at + far), 5)
    tl.atomic_add(x_ptr + at.to(tl.uint64) * far + far, 5)
    window = tl.make_block_ptr(x_ptr, (far + N,), (1,), (far,), block_shape=(N,), order=(0,))
    tl.store(window, at, boundary_check=(0,))


@pytest.mark.parametrize("far", [FAR, 5 << 31, -FAR])
def test_offsets_beyond_all_arrays(machine: vkcompute.Runtime | None, far: int) -> None:
    """A device skips such accesses, as others out of bounds; the interpreter names the element."""
    x, out = np.arange(16, dtype=np.int32), np.full(16, -1, np.int32)
    if machine is None:
        with pytest.raises(KernelError, match=f"accesses element {far} of x_ptr, which has 16"):
            run(None, beyond, (1,), (x, out, far, 16))
        return
    unchanged, _ = run(machine, beyond, (1,), (x, out, far, 16))
    np.testing.assert_array_equal(unchanged, x)


@triton.jit
def adjacent_beyond(x_ptr, far: tl.int64, N: tl.constexpr):
    tl.store(x_ptr + far + tl.arange(0, N), 5)


def test_offsets_whose_bytes_exceed_32_bits(machine: vkcompute.Runtime | None) -> None:
    """Element 2**30 of float32 has the address of the first one, modulo 2**32."""
    x = np.zeros(64, np.float32)
    if machine is None:
        with pytest.raises(KernelError, match=f"accesses element {1 << 30} of x_ptr"):
            run(None, adjacent_beyond, (1,), (x, 1 << 30, 64))
    else:
        np.testing.assert_array_equal(run(machine, adjacent_beyond, (1,), (x, 1 << 30, 64))[0], x)


@pytest.mark.pure
def test_wide_offsets_are_loaded_by_wide_accesses() -> None:
    function = ir.Function("copy")
    x, out, start = function.buffer("x", ir.FLOAT32), function.buffer("out", ir.FLOAT32), function.push("n", ir.INT64)
    b = tile.Builder(function)
    at = b.compute("add", b.cast(b.arange(0, 1024), ir.INT64), b.full(start, (1024,)))
    b.store_block(out, at, b.load_block(x, at))
    lowered = tile.lower(function, tile.Target(), divisors={start: 16}, wide=[x, out])
    assert lowered.aliases == (0, 1)
