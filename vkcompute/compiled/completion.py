"""Buffers that launches write for the host, read by a callback when the launch has completed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.memory.array import Array, allocate
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.memory.transfers import host_view
from vkcompute.runtime.runtime import Runtime

_T = TypeVar("_T")
Words = npt.NDArray[np.uint32]
_Report = tuple[Array, Buffer, Words]
"""An array for the host, its buffer, and its words on the host; the buffer never moves."""
_MOST_PENDING = 64  # launches whose reports have not been read


def expect(runtime: Runtime, n_words: int, read: Callable[[Words], Exception | None], run: Callable[[Array], _T]) -> _T:
    """Launches work by `run` on a buffer of zeros for the host, as `Graph.report`.

    Args:
        n_words: size of the buffer, a multiple of 64.
        read: is called with the buffer on completion; fills it with zeros again, and returns the error of the launch,
            if any.
    """
    scheduler = runtime.scheduler
    if scheduler.recordings and (graph := recording_graph(scheduler)) is not None:
        return run(graph.report(n_words, read))
    if len(scheduler.callbacks) >= _MOST_PENDING:
        scheduler.finish()
    # By numbers of words, unused buffers of zeros; they are freed when memory runs short.
    free = cached(runtime, "reports", dict[int, list[_Report]], release=dict.clear).setdefault(n_words, [])
    try:
        report = free.pop()
    except IndexError:  # there is none, or another thread has taken it
        report = _new(runtime, n_words)
    buffer, memory, words = report

    def on_completion() -> Exception | None:
        error = read(words)
        free.append(report)  # not reached if `read` raises: the buffer may not be zero then
        return error

    launch: Callable[[], _T] = partial(run, buffer)
    if scheduler.tracers and (tracer := scheduler.tracer()) is not None:
        launch = partial(tracer.reported, memory, n_words, read, launch)
    return scheduler.callbacks.register(memory, on_completion, launch)


def _new(runtime: Runtime, n_words: int) -> _Report:
    """Allocates a host-visible buffer of zeros."""
    array = allocate(runtime, lambda nbytes: runtime.device.buffer(nbytes, "download"), n_words, np.uint32)
    words = host_view(array.buffer, 0, array.nbytes).view(np.uint32)
    words[:] = 0
    return array, array.buffer, words
