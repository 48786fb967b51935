"""Tables of pointers on a device: where each array is in the windows that a launch binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vkcompute.blocks.language.addresses import COLUMNS
from vkcompute.blocks.launching.build import TableType
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.compiled.arguments import kind_of_array, refuse_complex
from vkcompute.compiled.target import target_of
from vkcompute.runtime.launching.arguments import require_aligned
from vkcompute.runtime.memory.array import Array, alias, empty
from vkcompute.runtime.memory.window import Window, windows_over
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.scheduling.current import unrecorded
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.tile.launch_arrays import is_wide
from vkcompute.tile.registers import ADJACENT


class TableMemory(NamedTuple):
    """The arrays that a launch binds for a table of pointers.

    Attributes:
        rows: of int32 for each array: its first element in units of the type, its number of elements, its window.
        windows: over the arrays of the table; none if an earlier table of the launch has them.
        members: the arrays under the windows.
    """

    rows: Array
    windows: list[Window]
    members: list[Array]
    type: TableType


def memories_of(tables: Sequence[PointerTable], n_arrays: int) -> list[TableMemory]:
    """Returns the memory of the tables of a launch, which has so many arrays beside them; makes it on first use.

    Where the device binds fewer, tables of one dtype share windows over all their arrays. The first table has them.

    Raises:
        TypeError: a table has arrays in host memory.
        ValueError: they are on several devices, made by a graph that is recorded, or views whose first element is not
            at their lowest address.
    """
    memories = [_memory_of(table) for table in tables]
    runtimes = {runtime_of(memory.rows) for memory in memories}
    most = target_of(runtime_of(memories[0].rows)).max_storage_buffers
    n_bound = n_arrays + sum(1 + len(memory.windows) for memory in memories) + 1  # a launch may have a report
    if most is None or n_bound <= most or len(runtimes) > 1:
        return memories
    alike: dict[tuple[str, str | None], list[int]] = {}
    for at, memory in enumerate(memories):
        alike.setdefault((memory.type.character, memory.type.element), []).append(at)
    for group in alike.values():
        for at, shared in zip(group, _shared([tables[at] for at in group]), strict=True):
            memories[at] = shared
    return memories


def _memory_of(table: PointerTable) -> TableMemory:
    if table.memory is None:
        (table.memory,) = unrecorded(_made, [table])  # it belongs to no graph
    memory: TableMemory = table.memory
    return memory


def _shared(tables: Sequence[PointerTable]) -> Sequence[TableMemory]:
    """Returns the memory of tables that share windows. The first one keeps that of its last launch.

    Plans of launches before have the windows of other tables, whose arrays may move: a new key ends these plans.
    """
    first = tables[0]
    if len(tables) == 1:
        return [_memory_of(first)]
    if first.shared is None or first.shared[0] != tuple([table.key for table in tables]):
        memories, first.key = unrecorded(_made, tables), object()
        first.shared = tuple([table.key for table in tables]), memories
    shared: Sequence[TableMemory] = first.shared[1]
    return shared


def _made(tables: Sequence[PointerTable]) -> list[TableMemory]:
    """Makes the memory of tables of one dtype, with windows over all their arrays."""
    arrays, first = [array for table in tables for array in table.arrays], tables[0]
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
    element = None if first.element is None else first.element.long_name
    kind = TableType(kind_of_array(arrays[0])[0], element, len(windows), fits)
    rows = np.zeros((len(arrays), COLUMNS), np.int32)
    for row, array, (window, start) in zip(rows, members, locations, strict=True):
        row[:] = start // kind.unit, _n_elements(array), window
    memories, at = [], 0
    for table in tables:
        own = rows[at : at + len(table)]
        made = empty(arrays[0].runtime, own.shape, own.dtype)
        made.write(own)
        of_table = kind._replace(n_windows=0) if at else kind
        memories.append(TableMemory(made, [] if at else windows, members, of_table))
        at += len(table)
    return memories


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
