"""Which graph is being recorded here: on this thread and, under asyncio, in this task or what it was started from."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkcompute.runtime.graph import Graph
    from vkcompute.runtime.scheduler import Scheduler

# With the thread, since threads and executors may be given a copy of the context in which they were started.
_recorded: ContextVar[tuple[tuple[weakref.ref[Graph], int], ...]] = ContextVar("vkcompute graphs", default=())


def find(scheduler: Scheduler) -> Graph | None:
    """The graph that takes the work given here to this scheduler, if any."""
    for reference, thread in _recorded.get():
        graph = reference()
        if graph is not None and graph.recording and graph.runtime.scheduler is scheduler and thread == get_ident():
            return graph
    return None


def begin(graph: Graph) -> None:
    """Sends the work given here into a graph from now on.

    Raises:
        ValueError: another graph takes it already.
    """
    if find(graph.runtime.scheduler) is not None:
        raise ValueError("this thread is recording a graph already; leave that `with gpu.record()` first")
    end(graph)
    _recorded.set((*_recorded.get(), (weakref.ref(graph), get_ident())))


def end(graph: Graph) -> None:
    """Forgets the graph, and those that are gone."""
    _recorded.set(tuple(entry for entry in _recorded.get() if entry[0]() not in (None, graph)))
