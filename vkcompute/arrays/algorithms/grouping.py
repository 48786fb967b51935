"""Groups of equal rows, and the sums and extremes of their values.

Groups are numbered by their first rows, so the result is the same in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.direct_tables import DirectTable, direct_table
from vkcompute.arrays.algorithms.equal_rows import keys_of, least_equal_rows
from vkcompute.arrays.algorithms.gather import gather_elements, take
from vkcompute.arrays.algorithms.lines import contiguous, converted, iota, launch, lines_along
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.segments import count_indices, scatter_add, scatter_by_sorting
from vkcompute.arrays.algorithms.selection import Selected
from vkcompute.arrays.algorithms.sorting import sort
from vkcompute.arrays.expressions.promotion import accumulated
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result

_is_true = Elementwise("value != 0", "value")
_is_first = Elementwise("1 if row == at else 0", "row, at")
_number_of_rank = Elementwise("rank - 1 if row >= 0 else -1", "rank, row")


@kernel
def _mark_firsts(rows: Any, marks: Any, n_items: int) -> None:
    i = global_id(0)
    if i < n_items:
        marks[i] = 1 if rows[i] == i else 0


@kernel
def _number(rows: Any, ranks: Any, numbers: Any, n_items: int) -> None:
    """Stores the number of the group with this first row, and -1 if there is none."""
    i = global_id(0)
    if i < n_items:
        row = rows[i]
        numbers[i] = ranks[max(row, 0)] - 1 if row >= 0 else -1


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of equal rows, in the order of their first rows. All are int32.

    Attributes:
        numbers: of the groups of all rows.
        rows: the first row of each group.
    """

    numbers: Array
    rows: Array

    @cached_property
    def counts(self) -> Array:
        """The numbers of rows of each group."""
        return count_indices(self.numbers, self.rows.size)

    def sum(self, values: Array) -> Array:
        """Returns the sums of the values of each group, which are the same in each run; integers have NumPy's dtype.

        Args:
            values: one per row, or an array of them.
        """
        self._check("sum", values)
        dtype = accumulated(values.runtime, values.dtype)
        out = empty_result(values.runtime, (self.rows.size, *values.shape[1:]), dtype).fill(0)
        given = contiguous(values) if values.dtype == dtype else converted(values, dtype)
        scatter_add(out, self.numbers, lines_along(out.shape, 0), given)
        return out

    def min(self, values: Array) -> Array:
        """Returns the minima of the values of each group; NaN if there is one."""
        return self._extremes("min", values)

    def max(self, values: Array) -> Array:
        """Returns the maxima of the values of each group; NaN if there is one."""
        return self._extremes("max", values)

    def _extremes(self, operation: str, values: Array) -> Array:
        self._check(operation, values)
        given = converted(values, np.uint8) if values.dtype == bool else contiguous(values)
        out = take(given, self.rows, 0)
        if out.size:
            scatter_by_sorting(operation, out, self.numbers, lines_along(out.shape, 0), given)
        return _is_true(out) if values.dtype == bool else out

    def _check(self, name: str, values: Array) -> None:
        if values.shape[:1] != self.numbers.shape:
            text = f"{name} takes a value for each of {self.numbers.size} rows along the first axis"
            raise ValueError(f"{text}; got the shape {values.shape}")
        if values.dtype.kind == "c" and name != "sum":
            raise TypeError(f"{name} takes no complex numbers, which have no order; take their real parts")


def group(columns: Sequence[Array]) -> Groups:
    """Returns the groups of rows that are equal in all columns; it waits for their number."""
    if table := _direct_table(columns):
        firsts = sort(table.first_rows())
        return Groups(table.numbers(firsts), firsts)
    rows = least_equal_rows(keys_of(columns), columns[0].size)
    return Groups(*numbered(rows, rows))


def _direct_table(columns: Sequence[Array]) -> DirectTable | None:
    return direct_table(columns[0], columns[0].size) if len(columns) == 1 else None


def numbered(rows: Array, known: Array) -> tuple[Array, Array]:
    """Returns the numbers of the groups whose first rows are given, and the first rows of all groups.

    Args:
        rows: -1 for those without a group.
        known: the first of `rows`, among which are all first rows.
    """
    marks = _firsts(known)
    numbers = empty_result(rows.runtime, rows.size, np.int32)
    if known.size:
        _store_numbers(rows, cumulative(marks, "sum", 0, np.int32), numbers)
    elif rows.size:
        numbers.fill(-1)
    return numbers, Selected(marks).indices()


def _store_numbers(rows: Array, ranks: Array, numbers: Array) -> None:
    if exceeds_bindings(rows, ranks, numbers):
        gather_elements(ranks, rows, numbers)
        _number_of_rank(numbers, rows, out=numbers)
    else:
        launch(_number, rows.size, rows, ranks, numbers, rows.size)


def _firsts(rows: Array) -> Array:
    """Returns 1 for each row that is its own first one, and 0 for the others."""
    marks = temporary(rows.runtime, rows.size, np.int32)
    if exceeds_bindings(rows, marks):
        _is_first(rows, iota(rows.runtime, rows.size), out=marks)
    else:
        launch(_mark_firsts, rows.size, rows, marks, rows.size)
    return marks


def first_rows(columns: Sequence[Array], *, grows: bool = True) -> Array:
    """Returns the rows that are equal to none before them, in order, as int32; it waits for their number.

    Args:
        grows: as of `least_equal_rows`.
    """
    if table := _direct_table(columns):
        return sort(table.first_rows())
    return Selected(_firsts(least_equal_rows(keys_of(columns), columns[0].size, grows=grows))).indices()
