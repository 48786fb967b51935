"""Copies of transposed matrices by block programs, which read rows of a block and store its columns.

On a CPU, an elementwise kernel takes three to four times as long: each of its elements is in another cache line.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import NamedTuple

from vkcompute import ir
from vkcompute.arrays.block_offsets import between, grid, is_too_large, offsets, repeated, scaled, span
from vkcompute.arrays.matrix_product import MOST_GROUPS
from vkcompute.blocks.launching.built import Built, Program, is_wide
from vkcompute.ir import INT32
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.builder import Builder
from vkcompute.tile.registers import ADJACENT

_ROWS, _COLUMNS = 64, 16
"""The most rows, and the columns, of a block that is copied at once."""


class Matrices(NamedTuple):
    """A stack of contiguous matrices, and its shape."""

    array: Array
    n: int
    n_rows: int
    n_columns: int


def _transposed(dtype: str, rows: int, columns: int) -> Built:
    """Builds the copy of a block to the transposed matrix. All numbers are multiples of four."""
    function = ir.Function("transposed")
    x, out = (function.buffer(name, ir.SCALARS[dtype]) for name in ("x", "out"))
    names = "n_rows", "n_columns", "last_row", "last_column"
    n_rows, n_columns, last_row, last_column = pushes = [function.push(name, INT32) for name in names]
    c = Builder(function)
    at_row, at_column, matrix = (c.cast(c.builtin("group_id", axis), INT32) for axis in (1, 0, 2))
    row, column = c.compute("mul", at_row, c.const(rows, INT32)), c.compute("mul", at_column, c.const(columns, INT32))
    first = c.compute("min", row, last_row)  # the last blocks overlap, and one of them stores
    below, across = span(c, first, rows), span(c, c.compute("min", column, last_column), columns)
    stack = c.compute("mul", matrix, c.compute("mul", n_rows, n_columns))
    block = c.load_block(x, offsets(c, scaled(c, below, n_columns), across, stack))
    some = c.compute(
        "add", c.full(first, (rows // ADJACENT,)), scaled(c, c.arange(0, rows // ADJACENT), c.const(ADJACENT, INT32))
    )
    own = grid(c, "and", between(c, across, column, n_columns), between(c, some, row, n_rows))
    places = offsets(c, scaled(c, across, n_rows), below, stack)
    c.store_block(out, places, c.permute(block, (1, 0)), repeated(c, own, ADJACENT))
    return Built(function, [x, out], dict.fromkeys(pushes, ADJACENT))


_PROGRAM = Program(_transposed)


def copy_transposed(source: Array, out: Array) -> bool:
    """Copies transposed matrices to a contiguous array of the same shape and dtype; returns False for other views."""
    found = _matrices(source) if out.contiguous and source.dtype == out.dtype and source.dtype.itemsize >= 4 else None
    if found is None or source.overlaps(out):
        return False
    x, n, n_rows, n_columns = found
    rows = min(_ROWS, 1 << n_rows.bit_length() - 1)
    groups = -(-n_columns // _COLUMNS), -(-n_rows // rows), n
    if min(rows, n_columns) < _COLUMNS or n_rows % ADJACENT or n_columns % ADJACENT:
        return False
    if max(groups) > MOST_GROUPS or is_too_large(x, [x.size]) or not (is_wide(x) and is_wide(out)):
        return False
    numbers = n_rows, n_columns, n_rows - rows, n_columns - _COLUMNS
    _PROGRAM.launch((x.dtype.name, rows, _COLUMNS), [x, out], numbers, groups)
    return True


def _matrices(view: Array) -> Matrices | None:
    """Returns the matrices that a view transposes; None for a view that does something else."""
    order = sorted(range(view.ndim), key=lambda axis: -view.strides[axis])
    x = view.transpose(tuple(order))
    axes = [axis for axis in range(view.ndim) if view.shape[axis] > 1]
    places = [axes.index(axis) for axis in order if axis in axes]
    starts = [0, *[at for at in range(1, len(places)) if places[at] != places[at - 1] + 1], len(places)]
    runs = [places[start:stop] for start, stop in pairwise(starts)]
    if (
        not x.contiguous
        or not 2 <= len(runs) <= 3
        or (len(runs) == 3 and not runs[0][0] == 0 < runs[2][0] < runs[1][0])
    ):
        return None
    lengths = [prod([view.shape[axes[at]] for at in run]) for run in runs]
    return Matrices(x, *(1, *lengths)[-3:])
