"""Graphs: launches recorded once and replayed many times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.core.buffer import Buffer
from vkcompute.core.command import CommandPool, Recorder
from vkcompute.errors import ClosedError
from vkcompute.runtime.future import Future
from vkcompute.runtime.hazards import After, Uses
from vkcompute.runtime.lane import Strand

if TYPE_CHECKING:
    from vkcompute.runtime.runtime import Runtime
    from vkcompute.runtime.scheduler import Range


_MOST_RUNS = 100_000  # each run is a pointer in the submit, and a submit is not to take minutes


class Graph:
    """What `with runtime.record() as graph:` records: launches, copies and fills, which run when the graph does.

    Replays are ordered against everything else by the data they touch, as a launch is. A graph holds the tensors and
    kernels that it uses.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._pool: CommandPool | None = None
        self._handle: Any = None
        self._strand = Strand(0)
        self._uses: dict[Buffer, Uses] = {}
        self._writes: dict[Buffer, list[tuple[int, int]]] = {}
        self._reads: dict[Buffer, list[tuple[int, int]]] = {}
        self._footprint: tuple[list[Range], list[Range]] = ([], [])
        self._state = "new"

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise ValueError("a graph is recorded once; call runtime.record() for another")
        scheduler = self.runtime.scheduler
        self.runtime.require_open()
        scheduler.record_into(self)
        try:
            with scheduler.lock:
                self.runtime.require_open()
                queue = scheduler.compute[0].queue
                self._pool = CommandPool(queue)
                self._handle = self._pool.take()
                self._strand.recorder = Recorder(queue, self._handle, reusable=True)
                self._strand.recorder.barrier()  # against whatever comes before a replay
        except BaseException:
            scheduler.record_into(None)
            self.close()
            raise
        self._state = "recording"
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._state in ("new", "recorded"):
            raise ValueError("this graph is not being recorded; use `with runtime.record() as graph:`")
        scheduler = self.runtime.scheduler
        scheduler.record_into(None)
        recorder, self._strand.recorder = self._strand.recorder, None
        self._uses.clear()
        if kind is not None or recorder is None or self.runtime.closed:
            self.close()
            if kind is None:
                self.runtime.require_open()
            return
        try:
            with scheduler.lock:
                recorder.barrier()  # against whatever follows
                recorder.end()
        except BaseException:
            self.close()
            raise
        self._footprint = _ranges(self._writes), _ranges(self._reads)
        self._state = "recorded"

    def begin(self, writes: Sequence[Range], reads: Sequence[Range]) -> Strand:
        """Makes place for a task with these ranges; for the scheduler."""
        self.runtime.require_open()
        strand, after = self._strand, After()
        if strand.recorder is None:
            raise ClosedError("this graph was closed while it is recorded; record a new one")
        task = strand.task + 1
        for buffer, start, stop in writes:
            self._uses.setdefault(buffer, Uses()).write(start, stop, 0, task, after)
            self._writes.setdefault(buffer, []).append((start, stop))
        for buffer, start, stop in reads:
            self._uses.setdefault(buffer, Uses()).read(start, stop, 0, task, after)
            self._reads.setdefault(buffer, []).append((start, stop))
        if after:
            strand.order(after[0])
        strand.task = task
        return strand

    def submit(self, times: int = 1) -> Future:
        """Starts the recorded work, `times` times in a row; returns at once.

        Raises:
            ValueError: the graph is still being recorded, or `times` is not positive.
            ClosedError: it is closed, or its recording failed.
        """
        if self._state == "closed":
            raise ClosedError("this graph is closed, or its recording failed; record a new one")
        if self._state != "recorded":
            raise ValueError("the graph is still being recorded; run it after the `with` block")
        if not isinstance(times, int) or not 1 <= times <= _MOST_RUNS:
            raise ValueError(f"a graph runs 1 to {_MOST_RUNS} times in one submit; got times={times!r}")
        self.runtime.refuse_in_graph("run() of a graph", "run it before or after the recording")
        with self.runtime.scheduler.lock:  # against a close() on another thread
            if self._pool is None:
                raise ClosedError("this graph is closed; record a new one")
            family = self._pool.queue.family
            return self.runtime.scheduler.replay([self._handle] * times, family, *self._footprint)

    def run(self, times: int = 1) -> None:
        """Runs the recorded work, `times` times in a row, and waits for it."""
        self.submit(times).result()

    def close(self) -> None:
        """Lets go of what the graph holds, once no run of it is pending."""
        self._state = "closed"
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._strand = Strand(0)
        self._writes, self._reads, self._footprint = {}, {}, ([], [])

    def __repr__(self) -> str:
        return f"<graph of {self._strand.task} tasks, {self._state}>"


def _ranges(touched: dict[Buffer, list[tuple[int, int]]]) -> list[Range]:
    """The touched ranges with overlapping and adjoining ones merged."""
    merged = []
    for buffer, ranges in touched.items():
        ranges.sort()
        start, stop = ranges[0]
        for low, high in ranges[1:]:
            if low > stop:
                merged.append((buffer, start, stop))
                start, stop = low, high
            stop = max(stop, high)
        merged.append((buffer, start, stop))
    return merged
