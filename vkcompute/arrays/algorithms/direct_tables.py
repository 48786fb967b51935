"""Tables with a slot for each integer of a range: which rows have equal keys, without hashes or sorting.

A slot keeps the least row with its key, so the result does not depend on the order in which invocations run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.axis_reductions import reduce
from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings, exceeds_bindings
from vkcompute.arrays.algorithms.lines import contiguous, converted, launch
from vkcompute.arrays.algorithms.selection import Selected
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library import atomic
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result

_EMPTY = 2**31 - 1
"""A slot without a row; greater than all rows."""
_MOST_SLOTS, _FEWEST_ROWS = 1 << 16, 1 << 10
"""Slots of a table of fewer rows, and rows from which it is worth to wait for their limits."""


@kernel
def _enter(x: Any, low: Any, table: Any, n_items: int) -> None:
    """Stores the least row of each key."""
    row = global_id(0)
    if row < n_items:
        slot = np.int32(x[row] - low[0])
        if row < table[slot]:
            atomic.min(table, slot, row)


@kernel
def _read(x: Any, limits: Any, table: Any, out: Any, n_items: int) -> None:
    """Stores what the table has for each key, -1 for those outside its limits."""
    row = global_id(0)
    if row < n_items:
        key, low, result = x[row], limits[0], -1
        if low <= key <= limits[1]:
            result = table[np.int32(key - low)]
        out[row] = result


@kernel
def _number_slots(x: Any, low: Any, firsts: Any, table: Any, n_items: int) -> None:
    """Stores the number of each first row in the slot of its key."""
    i = global_id(0)
    if i < n_items:
        table[np.int32(x[firsts[i]] - low[0])] = i


_is_row = Elementwise(f"row != {_EMPTY}", "row")
_known_row = Elementwise(f"-1 if row == {_EMPTY} else row", "row")


class DirectTable(NamedTuple):
    """A table of the first rows of a column of integers.

    Attributes:
        x: the keys of all rows, of 32 or 64 bits.
        limits: the least and the greatest key of the table.
        rows: the least row of each key from the least one on; _EMPTY if there is none.
    """

    x: Array
    limits: Array
    rows: Array

    def least_equal_rows(self, x: Array) -> Array:
        """Returns for each of some keys of this dtype the least equal row of the table; -1 if there is none."""
        out = temporary(x.runtime, x.size, np.int32)
        return self._look_up(_known_row(self.rows), _keys(x), out)

    def first_rows(self) -> Array:
        """Returns the rows of the table in the order of their keys; it waits for their number."""
        return Selected(_is_row(self.rows)).elements(self.rows)

    def numbers(self, firsts: Array, dtype: npt.DTypeLike = np.int32) -> Array:
        """Returns for each row the index in `firsts` of the first row with its key.

        Args:
            firsts: the rows of the table, in any order.
        """
        table = temporary(self.x.runtime, self.rows.size, np.int32)
        launch(_number_slots, firsts.size, self.x, self.limits, firsts, table, firsts.size)
        return self._look_up(table, self.x, empty_result(self.x.runtime, self.x.size, dtype))

    def _look_up(self, table: Array, x: Array, out: Array) -> Array:
        """Stores what the table has for each key; by halves of these if a launch does not reach all."""
        if x.size > 1 and exceeds_bindings(x, self.limits, table, out):
            for half in halves(x.size):
                self._look_up(table, x[half], out[half])
        else:
            launch(_read, out.size, x, self.limits, table, out, out.size)
        return out


def _keys(x: Array) -> Array:
    """Returns integers of 32 or 64 bits: differences of shorter ones need more bits than these have."""
    return contiguous(x) if x.dtype.itemsize >= 4 else converted(x, np.int32)


def direct_table(x: Array, n_known: int) -> DirectTable | None:
    """Returns the table of the first rows of a column, or None; waits for the limits of the keys.

    There is none for few rows, for more than a launch reaches, and for keys of a wider range.
    """
    if x.dtype.kind not in "iu" or n_known < _FEWEST_ROWS or bytes_exceed_bindings(x, *[8 * x.size] * 4):
        return None
    x = _keys(x)
    limits = temporary(x.runtime, 2, x.dtype)
    for at, name in enumerate(("minimum", "maximum")):
        limits[at : at + 1].copy_from(reduce(name, x[:n_known], (0,), x.dtype, False).reshape(1))
    low, high = (int(value) for value in limits.numpy())
    if high - low >= max(_MOST_SLOTS, n_known):
        return None
    table = temporary(x.runtime, high - low + 1, np.int32).fill(_EMPTY)
    launch(_enter, n_known, x, limits, table, n_known)
    return DirectTable(x, limits, table)
