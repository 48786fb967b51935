"""Products of stacked matrices, by a kernel in which each invocation computes a tile of the result in registers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.jit.library.private import local
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array

if TYPE_CHECKING:
    from typing import Any

ROWS, COLUMNS = 4, 8  # of a tile; larger ones spill registers on CPUs
_UNROLLED = 4
_INVOCATIONS = 64  # of a workgroup
MOST_GROUPS = 65535  # along an axis of a grid, on every device
_BUSY = 4096  # invocations that keep a device busy
_SHORTEST, _LONGEST = 256, 32768  # terms of a part; lavapipe runs at most 65,535 iterations


def _tiles(a: Any, b: Any, out: Any, depth: int) -> None:
    """Computes a tile of the sums over `depth` terms; `out` has the axes (matrix, part, row, column).

    The columns of a tile are far apart, so that neighbouring invocations load neighbouring elements.
    """
    apart = (out.shape[3] + COLUMNS - 1) // COLUMNS
    column, row, stacked = global_id(0), global_id(1) * ROWS, global_id(2)
    if column < apart and row < out.shape[2]:
        matrix, part = stacked // out.shape[1], stacked % out.shape[1]
        start = part * depth
        stop = min(start + depth, a.shape[2])
        total, right = local((ROWS, COLUMNS), out.dtype), local(COLUMNS, out.dtype)
        rows, columns = local(ROWS, "int32"), local(COLUMNS, "int32")
        for i in range(ROWS):
            rows[i] = min(row + i, out.shape[2] - 1)
        for j in range(COLUMNS):
            columns[j] = min(column + j * apart, out.shape[3] - 1)
        whole = start + (stop - start) // _UNROLLED * _UNROLLED
        for first in range(start, whole, _UNROLLED):
            for k in range(_UNROLLED):
                for j in range(COLUMNS):
                    right[j] = b[matrix, first + k, columns[j]]
                for i in range(ROWS):
                    left = a[matrix, rows[i], first + k]
                    for j in range(COLUMNS):
                        total[i, j] += left * right[j]
        for k in range(whole, stop):
            for j in range(COLUMNS):
                right[j] = b[matrix, k, columns[j]]
            for i in range(ROWS):
                left = a[matrix, rows[i], k]
                for j in range(COLUMNS):
                    total[i, j] += left * right[j]
        for i in range(ROWS):
            for j in range(COLUMNS):
                if row + i < out.shape[2] and column + j * apart < out.shape[3]:
                    out[matrix, part, row + i, column + j * apart] = total[i, j]


@cache
def _kernel() -> PythonKernel:
    return kernel(fast_math=True)(_tiles)


def stacked_product(a: Array, b: Array) -> Array:
    """Returns the products of matrices: parts of their sums, which the caller adds.

    Args:
        a, b: stacks of matrices, of shapes (n, rows, terms) and (n, terms, columns), of one 32- or 64-bit dtype.

    Returns:
        An array of shape (n, parts, rows, columns). Long sums of few elements have several parts.
    """
    n, rows, terms = a.shape
    columns = b.shape[2]
    across, down = -(-columns // COLUMNS), -(-rows // ROWS)
    depth = _depth(n * across * down, terms)
    parts = -(-terms // depth)
    out = temporary(a.runtime, (n, parts, rows, columns), a.dtype)
    x = min(16, 1 << (across - 1).bit_length())
    y = _INVOCATIONS // x
    for k in slices(n, MOST_GROUPS // parts):
        for i in slices(rows, MOST_GROUPS * y * ROWS):
            for j in slices(columns, MOST_GROUPS * x * COLUMNS):
                _launch(a[k, i], b[k, :, j], out[k, :, i, j], depth, (x, y))
    return out


def _launch(a: Array, b: Array, out: Array, depth: int, local: tuple[int, int]) -> None:
    """Computes as much as one grid covers."""
    n, parts, rows, columns = out.shape
    groups = -(-columns // (COLUMNS * local[0])), -(-rows // (ROWS * local[1])), n * parts
    _kernel()(a, b, out, depth, grid=groups, local_size=(*local, 1))


def slices(n: int, most: int) -> Iterator[slice]:
    """Yields slices of an axis, of `most` elements each."""
    return (slice(start, min(start + most, n)) for start in range(0, n, most))


def _depth(n_tiles: int, terms: int) -> int:
    """Returns the terms that an invocation sums: fewer of them where tiles are few."""
    parts = min(-(-_BUSY // n_tiles), -(-terms // _SHORTEST))
    return min(-(-terms // parts), _LONGEST)
