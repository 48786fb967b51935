"""What launches leave in buffers for the host, once it is known that they have finished."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.memory.context import kept
from vkcompute.runtime.memory.tensor import Tensor, allocate
from vkcompute.runtime.memory.transfers import host_view
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.future import Future

Words = npt.NDArray[np.uint32]
_MOST_PENDING = 64  # launches whose reports have not been read


def expect(
    runtime: Runtime, n_words: int, read: Callable[[Words], Exception | None], run: Callable[[Tensor], Future]
) -> Future:
    """Has `run` launch what leaves something in a buffer of so many zeros, a multiple of 64 (as `Graph.report`).

    `read` takes that when all has finished, fills it with zeros again, and gives an error if there is one.
    """
    scheduler = runtime.scheduler
    if scheduler.n_recordings and (graph := recording_graph(scheduler)) is not None:
        return run(graph.report(n_words, read))
    if len(scheduler.callbacks) >= _MOST_PENDING:
        scheduler.finish()
    free = _free(runtime).setdefault(n_words, [])
    buffer = free.pop() if free else _new(runtime, n_words)
    words = host_view(buffer.buffer, 0, buffer.nbytes).view(np.uint32)

    def land() -> Exception | None:
        error = read(words)
        free.append(buffer)  # if it was read to the end, it is zero
        return error

    return scheduler.callbacks.expect(buffer.buffer, land, lambda: run(buffer))


def _free(runtime: Runtime) -> dict[int, list[Tensor]]:
    """By their size the buffers that nothing uses, which are zero; dropped where memory is short."""
    return kept(runtime, "reports", dict[int, list[Tensor]], release=dict.clear)


def _new(runtime: Runtime, n_words: int) -> Tensor:
    """A buffer of zeros that the host sees."""
    tensor = allocate(runtime, lambda nbytes: runtime.device.buffer(nbytes, "download"), n_words, np.uint32)
    host_view(tensor.buffer, 0, tensor.nbytes)[:] = 0
    return tensor
