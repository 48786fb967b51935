"""Copies of transposed matrices by block programs, which read rows of a block and store its columns.

On a CPU, an elementwise kernel takes three to four times as long: each of its elements is in another cache line.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import NamedTuple

from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.matrices import transpose
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.launch_arrays import is_too_large, is_wide
from vkcompute.tile.registers import ADJACENT

_ROWS, _COLUMNS = 64, 16
"""The most rows, and the columns, of a block that is copied at once."""


class Matrices(NamedTuple):
    """A stack of contiguous matrices, and its shape."""

    array: Array
    n: int
    n_rows: int
    n_columns: int


def copy_transposed(source: Array, out: Array) -> bool:
    """Copies transposed matrices to a contiguous array of the same shape and dtype; returns False for other views."""
    is_copy = out.contiguous and source.dtype == out.dtype and source.dtype.itemsize >= 4
    matrices = _matrices(source) if is_copy else None
    if matrices is None or source.overlaps(out):
        return False
    x, n, n_rows, n_columns = matrices
    rows = min(_ROWS, 1 << n_rows.bit_length() - 1)
    grid = -(-n_columns // _COLUMNS), -(-n_rows // rows), n
    if min(rows, n_columns) < _COLUMNS or n_rows % ADJACENT or n_columns % ADJACENT:
        return False
    if max(grid) > MOST_GROUPS or is_too_large(x, [x.size]) or not (is_wide(x) and is_wide(out)):
        return False
    transpose[grid](x, out, n_rows, n_columns, rows, _COLUMNS)
    return True


def _matrices(view: Array) -> Matrices | None:
    """Returns the matrices that a view transposes; None for a view that does something else."""
    order = sorted(range(view.ndim), key=lambda axis: -view.strides[axis])
    x = view.transpose(tuple(order))
    axes = [axis for axis in range(view.ndim) if view.shape[axis] > 1]
    positions = [axes.index(axis) for axis in order if axis in axes]
    starts = [0, *[at for at in range(1, len(positions)) if positions[at] != positions[at - 1] + 1], len(positions)]
    runs = [positions[start:stop] for start, stop in pairwise(starts)]
    if (
        not x.contiguous
        or not 2 <= len(runs) <= 3
        or (len(runs) == 3 and not runs[0][0] == 0 < runs[2][0] < runs[1][0])
    ):
        return None
    lengths = [prod([view.shape[axes[at]] for at in run]) for run in runs]
    return Matrices(x, *(1, *lengths)[-3:])
