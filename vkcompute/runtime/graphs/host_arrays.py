"""Host arrays that the runs of a graph upload and download, through staging memory of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.context import Context, cached
from vkcompute.runtime.memory.tensor import Tensor, allocate
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.runtime.scheduling.task import BufferMap

Array = npt.NDArray[Any]
Pairs = Sequence[tuple[Tensor, Any]]
Report = Callable[[Array], Exception | None]
"""reads the words that a launch reports; returns its error, if any"""


class DownloadFuture(Future):
    """The future of a run that downloads: it is done once the results are in the host arrays."""

    def __init__(self, run: Future, download: Callable[[], None]) -> None:
        super().__init__(run._tracker, run._queue, run._task)
        self._reason, self._download = run._reason, download

    def done(self) -> bool:
        if finished := super().done():
            self.exception()  # unless it has failed, this downloads
        return finished

    def result(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> None:
        super().result(timeout_s, timeout=timeout)
        self._download()


class Staging:
    """Staging memory of one recording: for one run at a time.

    Attributes:
        buffer_map: placeholder -> (buffer, offset in bytes) in the staging memory.
        run, number: the last run and its number in the runtime, or None and 0.
        pending: True if the results of that run have not been copied to the arrays.
        up, down: the memory for uploads, and for downloads and reports.
    """

    def __init__(self, runtime: Context, up: Pairs, down: Pairs) -> None:
        self.buffer_map: BufferMap = {}
        self.run: Future | None = None
        self.number, self.pending = 0, False
        self.up, self.down = self._make(runtime, "upload", up), self._make(runtime, "download", down)

    def _make(self, runtime: Context, use: str, pairs: Pairs) -> Buffer | None:
        if not pairs:
            return None
        memory, at = runtime.device.buffer(sum(tensor.buffer.nbytes for tensor, _ in pairs), use), 0
        for tensor, _ in pairs:
            self.buffer_map[tensor.buffer] = memory, at
            at += tensor.buffer.nbytes
        return memory


class _Downloads:
    """The order of downloads by all graphs of a runtime.

    Attributes:
        numbers: of the runs.
        done: id of an array -> the last run that it has results of; guarded by `lock`.
    """

    def __init__(self) -> None:
        self.lock, self.numbers = threading.Lock(), count(1)
        self.done: dict[int, int] = {}  # a new array with the id of an old one has later runs


class HostArrays:
    """The host arrays of one graph.

    Attributes:
        up, down: pairs of a tensor in staging memory and the array to upload or to fill.
        reports: pairs of a tensor in staging memory, which launches write, and the function that reads it.
        lists: all three.
    """

    def __init__(self, runtime: Context, owner: object) -> None:
        self._runtime, self._owner = runtime, owner
        self._downloads = cached(runtime, _Downloads, _Downloads)
        self.up: list[tuple[Tensor, Array]] = []
        self.down: list[tuple[Tensor, Array]] = []
        self.reports: list[tuple[Tensor, Report]] = []
        self.lists: tuple[list[tuple[Tensor, Any]], ...] = self.up, self.down, self.reports
        self.upload_lock = threading.Lock()

    @property
    def used(self) -> bool:
        """True if there are any."""
        return any(self.lists)

    def staged(
        self, pairs: list[tuple[Tensor, Any]], shape: tuple[int, ...], dtype: np.dtype[Any], array: Any
    ) -> Tensor:
        """Adds a tensor in staging memory for an array, or for the function that reads it."""
        what = "the staging memory of a graph"
        tensor = allocate(self._runtime, lambda n: Placeholder(self._owner, what, n), shape, dtype)
        pairs.append((tensor, array))
        return tensor

    def upload(self, staging: Staging) -> None:
        """Copies the arrays to the staging memory, once the previous run has read it."""
        if staging.run is not None and staging.run.exception() is None:
            self.download(staging, staging.number)
        if staging.up is not None:
            with self._runtime.transfers.view(staging.up, write=True) as memory:
                for tensor, array in self.up:
                    np.copyto(_part(memory, staging, tensor), array, casting="same_kind")

    def register_run(self, staging: Staging, run: Future) -> Future:
        """Registers a run, in the order of the runs; returns a future that downloads its results."""
        number = staging.number = next(self._downloads.numbers)
        staging.run, staging.pending = run, staging.down is not None
        return DownloadFuture(run, lambda: self.download(staging, number)) if staging.pending else run

    def download(self, staging: Staging, number: int) -> None:
        """Copies the results of a finished run to the arrays, unless a later run of any graph has done so."""
        done = self._downloads.done
        with self._downloads.lock:
            if staging.down is None or staging.number != number or not staging.pending:
                return
            with self._runtime.transfers.view(staging.down, write=False) as memory:
                for tensor, array in self.down:
                    if number > done.get(id(array), 0):
                        array[...] = _part(memory, staging, tensor)
                        done[id(array)] = number
            staging.pending = False

    def launch(self, staging: Staging, run: Callable[[], Future]) -> Future:
        """Starts a run by `run`; its reports are read when it has finished."""
        if not self.reports:
            return run()
        assert staging.down is not None
        return self._runtime.scheduler.callbacks.register(staging.down, lambda: self._reported(staging), run)

    def _reported(self, staging: Staging) -> Exception | None:
        """Reads the reports of a finished run; returns the first error."""
        assert staging.down is not None
        with self._runtime.transfers.view(staging.down, write=False) as memory:
            errors = [report(_part(memory, staging, tensor)) for tensor, report in self.reports]
        return next(filter(None, errors), None)


def _part(memory: npt.NDArray[np.uint8], staging: Staging, tensor: Tensor) -> Array:
    start = staging.buffer_map[tensor.span[0]][1]  # not by `buffer`, which raises while the runtime is being closed
    part: Array = memory[start : start + tensor.nbytes].view(tensor.dtype).reshape(tensor.shape)
    return part
