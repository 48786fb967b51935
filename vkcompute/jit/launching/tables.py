"""Constant tables of kernels on a device."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from vkcompute.jit.frontend.captured import Table
from vkcompute.runtime.graphs.graph import recording_graph, temporary
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime


def table_on(runtime: Runtime, table: Table) -> Tensor:
    """Returns a table's tensor, uploaded once; a graph that is recorded before that uploads its own."""
    tensors = _tensors(runtime)
    found = tensors.get(table)
    if found is None:
        found = temporary(runtime, table.array.shape, table.array.dtype)
        found.write(table.array)
        if recording_graph(runtime.scheduler) is None:
            tensors[table] = found
    return found


def _tensors(runtime: Runtime) -> WeakKeyDictionary[Table, Tensor]:
    """Returns the tables on a device; they are freed when memory runs short, and uploaded again."""
    return cached(runtime, "tables", WeakKeyDictionary[Table, Tensor], release=WeakKeyDictionary.clear)
