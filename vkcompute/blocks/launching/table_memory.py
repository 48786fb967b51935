"""Tables of pointers on a device: where each array is in the windows that a launch binds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vkcompute.blocks.language.addresses import COLUMNS
from vkcompute.blocks.launching.build import TableType
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.compiled.arguments import kind_of_array, refuse_complex
from vkcompute.runtime.launching.arguments import require_aligned
from vkcompute.runtime.memory.array import Array, alias, empty
from vkcompute.runtime.memory.window import Window, windows_over
from vkcompute.runtime.scheduling.current import unrecorded
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.tile.launch_arrays import is_wide
from vkcompute.tile.registers import ADJACENT


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
    """Returns the memory of a table; makes it on first use.

    Raises:
        TypeError: it has arrays in host memory.
        ValueError: they are on several devices, made by a graph that is recorded, or views whose first element is not
            at their lowest address.
    """
    if table.memory is None:
        table.memory = unrecorded(_made, table)  # it belongs to no graph
    memory: TableMemory = table.memory
    return memory


def _made(table: PointerTable) -> TableMemory:
    arrays = table.arrays
    for array in arrays:
        _check(array)
    if any(array.runtime is not arrays[0].runtime for array in arrays):
        devices = dict.fromkeys(str(array.runtime.device) for array in arrays)
        raise ValueError(f"the arrays of a table of pointers are on one runtime; got arrays on {', '.join(devices)}")
    members = [alias(array) for array in arrays]
    windows, locations = windows_over(members)
    fits = all(
        is_wide(member) and not location.start % ADJACENT for member, location in zip(members, locations, strict=True)
    )
    element = None if table.element is None else table.element.long_name
    kind = TableType(kind_of_array(arrays[0])[0], element, len(windows), fits)
    rows = np.zeros((len(arrays), COLUMNS), np.int32)
    for row, array, (window, start) in zip(rows, members, locations, strict=True):
        row[:] = start // kind.unit, _n_elements(array), window
    made = empty(arrays[0].runtime, rows.shape, rows.dtype)
    made.write(rows)
    return TableMemory(made, windows, members, kind)


def _check(array: object) -> None:
    if not isinstance(array, Array):
        remedy = "pass its shards" if hasattr(array, "shards") else "copy it there, by runtime.array(data)"
        raise TypeError(f"a launch takes tables of pointers to device arrays; got {type(array).__name__}; {remedy}")
    if isinstance(array.buffer, Placeholder):
        raise ValueError(
            f"a table of pointers has arrays in memory; got {array.buffer.what}, which has memory only while the graph "
            "runs; make the arrays and the table before the recording"
        )
    refuse_complex(array)
    kind_of_array(array)  # raises for dtypes and sizes that kernels do not take
    require_aligned(array)
    if array.offset % array.dtype.itemsize or any(step < 0 for step in array.strides) or array.shares_elements:
        raise ValueError(
            "an array in a table of pointers has its first element at its lowest address, and shares no elements; "
            f"the strides of one are {array.strides}; pass a .copy()"
        )


def _n_elements(array: Array) -> int:
    """Returns the number of elements from the first one of an array to its last one, including gaps."""
    return int(array.span[2] - array.span[1]) // array.dtype.itemsize
