"""What launches leave in buffers for the host, once it is known that they have finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.future import Future
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduler import Range, Scheduler
from vkcompute.runtime.tensor import Tensor
from vkcompute.runtime.transfer import host_view

Land = Callable[[], Exception | None]
Words = npt.NDArray[np.uint32]
_MOST_PENDING = 64  # launches whose reports have not been read


def expect(
    runtime: Runtime, n_words: int, read: Callable[[Words], Exception | None], run: Callable[[Tensor], Future]
) -> Future:
    """Has `run` launch what leaves something in a buffer of so many zeros, a multiple of 64 (as `Graph.report`).

    `read` takes that when all has finished, fills it with zeros again, and gives an error if there is one.
    """
    scheduler = runtime.scheduler
    with scheduler.lock:
        if not isinstance(scheduler.arrivals, Arrivals):
            scheduler.arrivals = Arrivals(scheduler)
    if scheduler.n_recordings and (graph := scheduler.recording()) is not None:
        return run(graph.report(n_words, read))
    if len(scheduler.arrivals) >= _MOST_PENDING:
        scheduler.finish()
    free = _free(runtime).setdefault(n_words, [])
    buffer = free.pop() if free else _new(runtime, n_words)
    words = host_view(buffer.buffer, 0, buffer.nbytes).view(np.uint32)

    def land() -> Exception | None:
        error = read(words)
        free.append(buffer)  # if it was read to the end, it is zero
        return error

    return scheduler.arrivals.expect(buffer.buffer, land, lambda: run(buffer))


def _free(runtime: Runtime) -> dict[int, list[Tensor]]:
    """By their size the buffers that nothing uses, which are zero; dropped where memory is short."""
    memo = runtime.memo
    if "reports" not in memo:
        memo["reports"] = {}
        runtime.device.caches.append(lambda: memo.get("reports", {}).clear())
    return memo["reports"]  # type: ignore[no-any-return]


def _new(runtime: Runtime, n_words: int) -> Tensor:
    """A buffer of zeros that the host sees."""
    tensor = runtime.tensor_on(lambda nbytes: runtime.device.buffer(nbytes, "download"), n_words, np.uint32)
    host_view(tensor.buffer, 0, tensor.nbytes)[:] = 0
    return tensor


@dataclass(slots=True, eq=False)
class Arrival:
    """What a launch leaves in a buffer.

    Attributes:
        land: called once, when all that writes the buffer has finished; gives the error that this ended with, if any.
        tasks: (lane, task) of what writes it, and of what depends on that: they fail together.
        launched: whether all that writes it has been launched, as far as it will be.
        landed, error: whether `land` was called, and what it gave or raised.
    """

    buffer: Buffer
    land: Land
    tasks: dict[tuple[int, int], None] = field(default_factory=dict)
    launched: bool = False
    landed: bool = False
    error: BaseException | None = None

    @property
    def whole(self) -> list[Range]:
        """The range of the whole buffer."""
        return [(self.buffer, 0, self.buffer.nbytes)]


class Arrivals(list[Arrival]):
    """Those of one scheduler that have not landed, in the order of the launches."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler, self._is_landing = scheduler, False

    def expect(self, buffer: Buffer, land: Land, run: Callable[[], Future]) -> Future:
        """Has `run` launch work that leaves something in the buffer."""
        arrival = Arrival(buffer, land)
        try:  # with the append inside, and first: no interruption comes between
            self.append(arrival)
            return run()
        finally:
            arrival.launched = True
            if not arrival.tasks and arrival in self:  # nothing was launched
                self.remove(arrival)

    def follow(self, task: tuple[int, int], writes: Sequence[Range], reads: Sequence[Range]) -> None:
        """Notes a task that writes what is expected, or that depends on one which does; with the lock held."""
        writers, written = {*_writers(reads)}, [buffer for buffer, _, _ in writes]
        for arrival in self:
            if not writers.isdisjoint(arrival.tasks) or arrival.buffer in written:
                arrival.tasks[task] = None

    def land(self) -> None:
        """Lands what has arrived."""
        with self._scheduler.lock:
            if self._is_landing:  # which has led here
                return
            self._is_landing = True
            try:
                # Newest first: work may finish between two questions, and a launch never finishes before one that it
                # depends on. So what is found finished here can be landed in the order of the launches.
                finished = [each for each in reversed(self) if each.launched and self._finished(each)]
                for arrival in reversed(finished):
                    self._land(arrival)
            finally:
                self._is_landing = False

    def _finished(self, arrival: Arrival) -> bool:
        """True if all that writes the buffer has finished or failed; asks the driver."""
        lanes, whole = self._scheduler.lanes, arrival.whole
        if arrival.landed or self._scheduler.failure_of(whole) is not None:
            return True
        return all(task <= lanes[lane].finished_task() for lane, task in _writers(whole))

    def _land(self, arrival: Arrival) -> None:
        """Resumes where an interruption ended it, if one did: what is half noted is noted again."""
        lanes = self._scheduler.lanes
        if not arrival.landed:
            failed = self._scheduler.failure_of(arrival.whole) is not None
            try:
                arrival.error = None if failed else arrival.land()
            except BaseException as caught:  # nobody will know what it would have been
                arrival.error = caught
                raise
            finally:
                arrival.landed = True
        if arrival.error is not None:
            for lane, task in arrival.tasks:
                lanes[lane].fail(arrival.error, task)
        arrival.buffer.uses = None
        self.remove(arrival)


def _writers(ranges: Sequence[Range]) -> list[tuple[int, int]]:
    """(lane, task) of those that wrote these bytes last."""
    return [each for buffer, start, stop in ranges if buffer.uses for each in buffer.uses.writers(start, stop)]
