"""Tables of pointers on a device: where each array is in the windows that a launch binds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vkcompute.compat.triton.addresses import COLUMNS
from vkcompute.compat.triton.build import TableType
from vkcompute.compat.triton.pointer_table import PointerTable
from vkcompute.jit.compilation.arguments import kind_of_array
from vkcompute.jit.elementwise.block_access import Block as Words
from vkcompute.jit.elementwise.blocks import fits
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array, alias, empty
from vkcompute.runtime.memory.window import Place, Window, windows_over
from vkcompute.runtime.scheduling.current import paused
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.tile.registers import ADJACENT

_WORDS = Words(ADJACENT)


class TableMemory(NamedTuple):
    """The arrays that a launch binds for a table of pointers.

    Attributes:
        rows: of int32 for each array: its first element in units of the type, its number of elements, its window.
        windows: over the arrays of the table.
        members: the arrays of the table.
    """

    rows: Array
    windows: list[Window]
    members: list[Array]
    type: TableType


def memory_of(table: PointerTable) -> TableMemory:
    """Returns the memory of a table, which is made once.

    Raises:
        TypeError: it has arrays in host memory.
        ValueError: they are on several devices, made by a graph that is recorded, or views whose first element is not
            at their lowest address.
    """
    if table.memory is None:
        with paused():  # it belongs to no graph
            table.memory = _made(table)
    found: TableMemory = table.memory
    return found


def _made(table: PointerTable) -> TableMemory:
    arrays = table.arrays
    for each in arrays:
        _check(each)
    if any(each.runtime is not arrays[0].runtime for each in arrays):
        devices = dict.fromkeys(str(each.runtime.device) for each in arrays)
        raise ValueError(f"the arrays of a table of pointers are on one runtime; got arrays on {', '.join(devices)}")
    members = [alias(each) for each in arrays]
    windows, places = windows_over(members)
    is_wide = all(_is_wide(*each) for each in zip(members, places, strict=True))
    element = None if table.element is None else table.element.name
    kind = TableType(kind_of_array(arrays[0])[0], element, len(windows), is_wide)
    rows = np.zeros((len(arrays), COLUMNS), np.int32)
    for row, each, (window, start) in zip(rows, members, places, strict=True):
        row[:] = start // kind.unit, n_elements(each), window
    made = empty(arrays[0].runtime, rows.shape, rows.dtype)
    made.write(rows)
    return TableMemory(made, windows, members, kind)


def _check(array: object) -> None:
    if not isinstance(array, Array):
        raise TypeError(
            f"a table of pointers that a device uses has its arrays; got {type(array).__name__}; copy it there, by "
            "runtime.array(data)"
        )
    if isinstance(array.buffer, Placeholder):
        raise ValueError(
            f"a table of pointers has arrays in memory; got {array.buffer.what}, which has memory only while the graph "
            "runs; make the arrays and the table before the recording"
        )
    kind_of_array(array)
    needs_strides(array)
    if array.offset % array.dtype.itemsize or any(step < 0 for step in array.strides) or array.shares_elements:
        raise ValueError(
            "the pointer of an array in a table points at its first element, at its lowest address, and its elements "
            f"are apart; the strides of one are {array.strides}; pass a .copy()"
        )


def n_elements(array: Array) -> int:
    """Returns the number of elements from the first one of an array to its last one, with those between them."""
    return int(array.span[2] - array.span[1]) // array.dtype.itemsize


def _is_wide(array: Array, place: Place) -> bool:
    return not needs_strides(array) and array.contiguous and fits(array, _WORDS) and not place.start % ADJACENT
