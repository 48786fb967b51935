"""Buffers that launches write for the host, read by a callback when the launch has completed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.memory.array import Array, allocate
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.memory.transfers import host_view
from vkcompute.runtime.runtime import Runtime

_T = TypeVar("_T")
Words = npt.NDArray[np.uint32]
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
    free = _free(runtime).setdefault(n_words, [])
    try:
        buffer = free.pop()
    except IndexError:  # there is none, or another thread has taken it
        buffer = _new(runtime, n_words)
    memory = buffer.buffer
    words = host_view(memory, 0, buffer.nbytes).view(np.uint32)

    def on_completion() -> Exception | None:
        error = read(words)
        free.append(buffer)  # not reached if `read` raises: the buffer may not be zero then
        return error

    launch: Callable[[], _T] = partial(run, buffer)
    if scheduler.tracers and (tracer := scheduler.tracer()) is not None:
        launch = partial(tracer.reported, memory, n_words, read, launch)
    return scheduler.callbacks.register(memory, on_completion, launch)


def _free(runtime: Runtime) -> dict[int, list[Array]]:
    """Returns number of words -> unused buffers of zeros; they are freed when memory runs short."""
    return cached(runtime, "reports", dict[int, list[Array]], release=dict.clear)


def _new(runtime: Runtime, n_words: int) -> Array:
    """Allocates a host-visible buffer of zeros."""
    array = allocate(runtime, lambda nbytes: runtime.device.buffer(nbytes, "download"), n_words, np.uint32)
    host_view(array.buffer, 0, array.nbytes)[:] = 0
    return array
