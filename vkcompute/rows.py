"""Rows of tables on a device: groups of equal rows, joins, distinct rows.

    from vkcompute import rows

    groups = rows.group([country, year])
    totals = groups.sum(sales)
    pairs = rows.join(customer, customers)

A table is an array or a sequence of arrays with an element per row, or several: an array of two axes has a row of its
own per row. Rows are equal if all of their elements are; all NaN are equal, and zeros of both signs. Results are row
numbers, int32. They are the same in each run, and so are sums of floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.arrays.algorithms import grouping, joining
from vkcompute.arrays.algorithms.grouping import Groups
from vkcompute.arrays.algorithms.joining import Pairs
from vkcompute.runtime.memory.array import Array

__all__ = ["Groups", "Pairs", "group", "isin", "join", "unique"]

Table = Array | Sequence[Array]


def group(table: Table) -> Groups:
    """Groups equal rows, in the order of their first rows; it waits for the number of groups.

    Raises:
        TypeError, ValueError: the table has no columns, or these have different lengths or more than two axes.
    """
    return grouping.group(_columns("group", table))


def unique(table: Table) -> Array:
    """Returns the first of each group of equal rows, in order; it waits for their number.

    Raises:
        TypeError, ValueError: as `group`.
    """
    return grouping.first_rows(_columns("unique", table))


def join(left: Table, right: Table, how: str = "inner") -> Pairs:
    """Pairs equal rows of two tables, ordered by left rows and then by right ones; it waits for their number.

    Args:
        left, right: tables with as many columns.
        how: "inner", or "left" to pair left rows that no right one is equal to with -1.

    Raises:
        TypeError, ValueError: as `group`; the tables have different numbers of columns, or there are too many pairs.
    """
    if how not in ("inner", "left"):
        raise ValueError(f"how is 'inner' or 'left'; got {how!r}; for other joins, exchange the tables")
    return joining.join(*_both("join", left, right), keeps_left=how == "left")


def isin(table: Table, others: Table) -> Array:
    """Returns True for each row that is equal to one of other rows.

    Raises:
        TypeError, ValueError: as `join`.
    """
    return joining.isin(*_both("isin", table, others))


def _both(name: str, left: Table, right: Table) -> tuple[list[Array], list[Array]]:
    columns = _columns(name, left), _columns(name, right)
    if len(columns[0]) != len(columns[1]):
        raise ValueError(f"{name} takes tables with as many columns; got {len(columns[0])} and {len(columns[1])}")
    return columns


def _columns(name: str, table: Table) -> list[Array]:
    """Returns the columns of a table, each with an element per row."""
    given = [table] if isinstance(table, Array) else list(table)
    if not given:
        raise ValueError(f"{name} takes at least one column; got none")
    for column in given:
        if not isinstance(column, Array):
            text = f"{name} takes arrays of a device; got {type(column).__name__}"
            raise TypeError(f"{text}; upload it by vkcompute.numpy.asarray")
        if column.ndim not in (1, 2):
            raise ValueError(f"{name} takes columns of one axis, or of two; got the shape {column.shape}; reshape it")
    if len({column.shape[0] for column in given}) > 1:
        raise ValueError(f"{name} takes columns of one length; got the shapes {[column.shape for column in given]}")
    columns = [part for column in given for part in ([column] if column.ndim == 1 else list(column.T))]
    if not columns:
        raise ValueError(f"{name} takes at least one column; got the shape {given[0].shape}")
    return columns
