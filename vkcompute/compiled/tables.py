"""Constant tables of kernels on a device."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from vkcompute.compiled.captured import Table
from vkcompute.runtime.graphs.graph import recording_graph, temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime


def table_on(runtime: Runtime, table: Table) -> Array:
    """Returns the device array of a table, uploaded once; a graph that is recorded before that uploads its own."""
    arrays = _arrays(runtime)
    array = arrays.get(table)
    if array is None:
        array = temporary(runtime, table.array.shape, table.array.dtype)
        array.write(table.array)
        if recording_graph(runtime.scheduler) is None:
            arrays[table] = array
    return array


def _arrays(runtime: Runtime) -> WeakKeyDictionary[Table, Array]:
    """Returns the tables on a device; they are freed when memory runs short, and uploaded again."""
    return cached(runtime, "tables", WeakKeyDictionary[Table, Array], release=WeakKeyDictionary.clear)
