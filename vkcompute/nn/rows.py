"""Launches of block programs on the lines of an array along an axis.

A block has whole lines, and adjacent ones where lines are short. Its length is a power of two, and lines may be
shorter, so one program serves many lengths. On lavapipe, a program per length would take up to 5 % less CPU time, but
0.3 to 0.6 s to compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.arrays.algorithms.lines import lines_along
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.expressions.ufunc import astype
from vkcompute.blocks.launching.program import JITFunction
from vkcompute.runtime.graphs.results import reshaped, temporary
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.launch_arrays import LARGEST
from vkcompute.tile.registers import ADJACENT

LONGEST = 4096  # elements of a line that fit in the registers of a workgroup
_BLOCK = 1024  # elements of a block of short lines
_ALIGNED = 256  # lines, of which parts of an array have multiples: any device binds them
_WIDTH = 64  # columns of a block, at most
_BUSY = 16  # programs that keep a device busy whose programs have several blocks


def over_lines(
    program: JITFunction, x: Array, axis: int, others: Sequence[Array | None] = (), *, reduces: int = 0,
    **constants: Any,
) -> Array | None:  # fmt: skip
    """Returns what a program computes of an array along an axis; None if its lines do not fit in a block.

    Args:
        x: an array with elements.
        others: arrays with an element per index along the lines; None for one that is left out.
        constants: further ones of the program.
        reduces: elements of the result per line, along the axis; 0 for as many as the line has.
    """
    rows, length, columns = lines_along(x.shape, axis)
    most = min(x.runtime.device.max_binding_bytes // x.dtype.itemsize, LARGEST - 1) // (max(length, reduces) * columns)
    if length > LONGEST or most < min(rows, _ALIGNED):
        return None
    height, n, width = _lengths(rows, length, columns)
    x, others = bindable(x), [other if other is None else bindable(other) for other in others]
    given = x.reshape((rows, length, columns))
    out = temporary(x.runtime, (rows, reduces or length, columns), x.dtype)
    step = min(most, MOST_GROUPS * height) // _ALIGNED * _ALIGNED or rows
    repeats = 1
    if "REPEATS" in program.arg_names:
        many = tuning_of(x.runtime.device.physical).weight_blocks
        loads_weights = any(other is not None for other in others)
        constants["REPEATS"] = repeats = many if loads_weights and rows >= _BUSY * many * height else 1
    aligned = (length if columns == 1 else columns) % ADJACENT == 0
    for start in range(0, rows, step):
        one, result = [whole if rows <= step else whole[start : start + step] for whole in (given, out)]
        grid = -(-len(one) // (height * repeats)), -(-columns // width), 1
        program[grid](
            one, *others, result, len(one), length, columns, **constants,
            ROWS=height, LENGTH=n, COLUMNS=width, WHOLE=n == length, ALIGNED=aligned,
        )  # fmt: skip
    return reshaped(out, (*x.shape[:axis], reduces or length, *x.shape[axis + 1 :]))


def bindable(x: Array) -> Array:
    """Returns an array, or a copy if a program cannot have it as it is."""
    return astype(x, x.dtype) if needs_strides(x) or not x.contiguous else x


def _lengths(rows: int, length: int, columns: int) -> tuple[int, int, int]:
    """Returns the lengths of a block: whole lines, of adjacent columns, and of several rows where they are short."""
    n = 1 << (length - 1).bit_length()
    width = min(1 << (columns - 1).bit_length(), _WIDTH)
    return min(max(_BLOCK // (n * width), 1), 1 << (rows - 1).bit_length()), n, width
