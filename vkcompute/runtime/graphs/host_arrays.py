"""Host arrays that the runs of a graph upload and download, through staging memory of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.core.interrupts import Guarded
from vkcompute.locks import Rank
from vkcompute.runtime.memory.array import Array, allocate
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.downloads import Download, Spans, settle_spans, spans_of
from vkcompute.runtime.memory.layout import shares_memory
from vkcompute.runtime.scheduling.future import Future, timed_out
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.runtime.scheduling.task import BufferMap

HostArray = npt.NDArray[Any]
Pairs = Sequence[tuple[Array, Any]]
Report = Callable[[HostArray], Exception | None]
"""reads the words that a launch reports; returns its error, if any"""


class DownloadFuture(Future):
    """The future of a run that downloads: it is done once the results are in the host arrays."""

    def __init__(self, run: Future, download: Download) -> None:
        super().__init__(run._tracker, run._queue, run._task, run._reason)
        self._download = download

    def done(self) -> bool:
        return super().done() and self._download.finish(0.0)

    def result(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> None:
        seconds, start = timeout if timeout_s is None else timeout_s, time.monotonic()
        super().result(seconds)
        if not self._download.finish(None if seconds is None else max(0.0, start + seconds - time.monotonic())):
            raise timed_out(seconds)


class Staging:
    """Staging memory of one recording: for one run at a time.

    Attributes:
        buffer_map: placeholder -> (buffer, offset in bytes) in the staging memory.
        run, number: the last run and its number among those of the graph, or None and 0.
        download: of the results of that run, or None.
        up, down: the memory for uploads, and for downloads and reports.
    """

    def __init__(self, runtime: Context, up: Pairs, down: Pairs) -> None:
        self.buffer_map: BufferMap = {}
        self.run: Future | None = None
        self.download: Download | None = None
        self.number = 0
        self.up, self.down = self._make(runtime, "upload", up), self._make(runtime, "download", down)

    def _make(self, runtime: Context, use: str, pairs: Pairs) -> Buffer | None:
        if not pairs:
            return None
        memory, at = runtime.device.buffer(sum(array.buffer.nbytes for array, _ in pairs), use), 0
        for array, _ in pairs:
            self.buffer_map[array.buffer] = memory, at
            at += array.buffer.nbytes
        return memory


class HostArrays(Guarded):
    """The host arrays of one graph. A run holds the lock from its uploads to its launch.

    Attributes:
        up, down: pairs of a staging array and the host array to upload or to fill.
        reports: pairs of a staging array, which launches write, and the function that reads it.
        lists: all three.
    """

    def __init__(self, runtime: Context, owner: object) -> None:
        super().__init__(Rank.GRAPH)
        self._runtime, self._owner = runtime, owner
        self._numbers = count(1)  # of the runs
        self.up: list[tuple[Array, HostArray]] = []
        self.down: list[tuple[Array, HostArray]] = []
        self.reports: list[tuple[Array, Report]] = []
        self.lists: tuple[list[tuple[Array, Any]], ...] = self.up, self.down, self.reports

    @property
    def used(self) -> bool:
        """True if there are any."""
        return any(self.lists)

    @cached_property
    def _spans(self) -> tuple[Spans, Spans]:
        """The memory of the arrays to upload, and of those to fill."""
        return spans_of(array for _, array in self.up), spans_of(array for _, array in self.down)

    @cached_property
    def feed_back(self) -> bool:
        """True if a run reads the results of the one before, in host memory."""
        return self._fills(array for _, array in self.up)

    def _fills(self, arrays: Iterable[HostArray]) -> bool:
        return any(shares_memory(array, filled) for array in arrays for _, filled in self.down)

    def refuse_filled(self, arrays: Iterable[HostArray], *, feed_back: bool = False) -> None:
        """Raises ValueError if an array to upload is filled by an earlier task of the graph."""
        if feed_back or self._fills(arrays):
            raise ValueError(
                "a graph that reads into an array cannot write from the same memory after it: runs copy such an array "
                "when they are submitted; use copy_from() between device arrays, or a second graph"
            )

    def staged(self, pairs: list[tuple[Array, Any]], shape: tuple[int, ...], dtype: np.dtype[Any], host: Any) -> Array:
        """Adds a staging array for a host array, or for the function that reads it."""
        what = "the staging memory of a graph"
        array = allocate(self._runtime, lambda n: Placeholder(self._owner, what, n), shape, dtype)
        pairs.append((array, host))
        return array

    def upload(self, staging: Staging) -> None:
        """Copies the arrays to the staging memory, once the previous run has read it and has its results copied."""
        if staging.download is not None:
            staging.download.finish()
        if staging.up is not None:
            settle_spans(self._spans[0])
            self._runtime.transfers.use(staging.up, partial(self._fill, staging), write=True)

    def _fill(self, staging: Staging, memory: npt.NDArray[np.uint8]) -> None:
        for array, host in self.up:
            np.copyto(_part(memory, staging, array), host, casting="same_kind")

    def register_run(self, staging: Staging, run: Future) -> Future:
        """Registers a run, in the order of the runs; returns a future that downloads its results."""
        staging.run, staging.number = run, next(self._numbers)
        if not self.down:
            return run
        copy = partial(_download, self._runtime, staging, self.down)
        staging.download = Download(run, self._spans[1], copy, self._runtime.transfers.downloads)
        return DownloadFuture(run, staging.download)

    def launch(self, staging: Staging, run: Callable[[], Future]) -> Future:
        """Starts a run by `run`; its reports are read when it has finished."""
        if not self.reports:
            return run()
        assert staging.down is not None
        return self._runtime.scheduler.callbacks.register(staging.down, lambda: self._reported(staging), run)

    def _reported(self, staging: Staging) -> Exception | None:
        """Reads the reports of a finished run; returns the first error."""
        assert staging.down is not None
        errors = self._runtime.transfers.use(staging.down, partial(self._read_reports, staging), write=False)
        return next(filter(None, errors), None)

    def _read_reports(self, staging: Staging, memory: npt.NDArray[np.uint8]) -> list[Exception | None]:
        return [report(_part(memory, staging, array)) for array, report in self.reports]


def _download(runtime: Context, staging: Staging, down: Pairs) -> None:
    """Copies the results of a finished run to the arrays."""
    assert staging.down is not None
    runtime.transfers.use(staging.down, partial(_copy_parts, staging, down), write=False)


def _copy_parts(staging: Staging, down: Pairs, memory: npt.NDArray[np.uint8]) -> None:
    for array, host in down:
        host[...] = _part(memory, staging, array)


def _part(memory: npt.NDArray[np.uint8], staging: Staging, array: Array) -> HostArray:
    start = staging.buffer_map[array.span[0]][1]  # not by `buffer`, which raises while the runtime is being closed
    part: HostArray = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    return part
