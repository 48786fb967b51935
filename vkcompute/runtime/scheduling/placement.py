"""Which queue runs a task, and why."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.command_queue import Lane

ONLY = "no other queue could have been chosen"
PINNED = "the caller chose it"
DATA = "its data was written there last, by work that is unfinished"
FAR = "it is the least busy; on the queue that wrote its data last, many other tasks come first"
IDLE = "it is the least busy; the tasks that wrote its data are finished, or on queues that cannot run it"
RECORDED = "recorded into a graph, which runs as a whole on one queue: that of the future of its submit()"

_DETOUR = 8  # tasks: another queue takes a semaphore and two submits, which cost the host about as much as these


class Placement:
    """Chooses lanes: the one that the caller names; else the first that wrote some of the data last, while the writing
    is unfinished, unless so many tasks have been queued there since that going elsewhere, which takes a semaphore, is
    quicker; else the one with the fewest unfinished tasks. A task's reads are looked at before its writes.

    Attributes:
        reason: of the newest choice.
        recorded_for: a queue of the family of most of the compute queues, so that most of them can run recordings.
    """

    def __init__(self, device: Device, lanes: Sequence[Lane]) -> None:
        self._device, self._lanes = device, lanes
        self.compute = [lane for lane in lanes if lane.queue.role == "compute"]
        self.transfer = [lane for lane in lanes if lane.queue.role == "transfer"]
        families = [lane.queue.family for lane in self.compute]
        self.recorded_for = max(self.compute, key=lambda lane: families.count(lane.queue.family)).queue
        self.reason = ONLY

    def choose(
        self, writes: Sequence[Range], reads: Sequence[Range], queue: int | str | None, family: int | None = None
    ) -> Lane:
        """The lane for a task with these ranges: of those that `queue` allows, of a queue family if one is given."""
        lanes = self.allowed(queue)
        if family is not None:  # VUID-vkQueueSubmit-pCommandBuffers-00074
            lanes = [lane for lane in lanes if lane.queue.family == family]
        if len(lanes) > 1:
            lane, self.reason = self._weigh(lanes, writes, reads)
            return lane
        self.reason = ONLY if queue is None or isinstance(queue, str) else PINNED
        return lanes[0]

    def allowed(self, queue: int | str | None) -> Sequence[Lane]:
        """The lanes that the argument `queue` of a launch stands for.

        Raises:
            TypeError, ValueError: it stands for none.
        """
        if queue is None or isinstance(queue, str):
            if queue in (None, "compute"):
                return self.compute
            if queue == "transfer":
                return self.transfer or self.compute
            raise ValueError(f'a queue is an index, "compute" or "transfer"; got {queue!r}')
        try:
            number = index(queue)
        except TypeError:
            number = None
        if number is None or isinstance(queue, bool):
            raise TypeError(f'a queue is an index, "compute" or "transfer"; got {queue!r}')
        if not 0 <= number < len(self._lanes):
            raise ValueError(f"queue {number} does not exist; {self._device} has queues 0 to {len(self._lanes) - 1}")
        return [self._lanes[number]]

    def _weigh(self, lanes: Sequence[Lane], writes: Sequence[Range], reads: Sequence[Range]) -> tuple[Lane, str]:
        nearest: tuple[int, Lane] | None = None
        for buffer, start, stop in (*reads, *writes):
            if buffer.uses is None:
                continue
            for writer, task in buffer.uses.last_writers(start, stop).items():
                lane = self._lanes[writer]
                if task > lane.seen_task() and lane in lanes:
                    n_behind = lane.task - task
                    if n_behind <= _DETOUR:
                        return lane, DATA
                    if nearest is None or n_behind < nearest[0]:
                        nearest = n_behind, lane
        n_left, _, idle = min((lane.task - lane.finished_task(), lane.index, lane) for lane in lanes)
        if nearest is None:
            return idle, IDLE
        return (nearest[1], DATA) if nearest[0] <= n_left + _DETOUR else (idle, FAR)
