"""Placement: the choice of the queue for a task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import index

from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.access_history import AccessHistory, Range
from vkcompute.runtime.scheduling.command_queue import CommandQueue

ONLY = "no other queue could have been chosen"
PINNED = "the caller chose it"
DATA = "it has unfinished tasks that this one depends on"
FAR = "it is the least busy; on the queue of the tasks that this one depends on, many others are queued before it"
IDLE = "it is the least busy; what this task depends on has finished, or is on queues that cannot run it"
RECORDED = "recorded into a graph, which runs as a whole on one queue: that of the future of its submit()"

_DETOUR = 8  # tasks: changing the queue takes a semaphore and two submits, which cost the host about as much as these
_AHEAD = 128  # tasks, two batches: so far behind the host, a device has work enough for several queues


class Placement:
    """Chooses command queues for tasks.

    A queue named by the caller is used. Else the task follows its data, to the first queue with unfinished tasks that
    it depends on, by reads before writes. If many tasks were queued there since, a semaphore is cheaper; but where it
    only overwrites data, what reads that next would need another one. Then, and without such data, it goes to the queue
    with the fewest unfinished tasks.

    Attributes:
        compute, transfer: the queues for kernels, and those that only copy.
        reason: for the last choice.
        latest: the compute queue that was chosen last.
        recording_queue: a queue of the most common family among the compute queues, so that most of them can run
            recordings.
    """

    def __init__(self, device: Device, queues: Sequence[CommandQueue]) -> None:
        self._device, self._queues = device, queues
        self.compute = [queue for queue in queues if queue.device_queue.role == "compute"]
        self.transfer = [queue for queue in queues if queue.device_queue.role == "transfer"]
        families = [queue.device_queue.family for queue in self.compute]
        self.recording_queue = max(
            self.compute, key=lambda queue: families.count(queue.device_queue.family)
        ).device_queue
        self.reason = ONLY
        self.latest = self.compute[0]

    def choose(
        self, writes: Sequence[Range], reads: Sequence[Range], wanted: int | str | None, family: int | None = None
    ) -> CommandQueue:
        """Chooses the queue for a task with these ranges.

        Args:
            wanted: the `queue` argument of a launch.
            family: the queue family to choose from, or None for any.
        """
        queues = self.allowed(wanted)
        if family is not None:  # VUID-vkQueueSubmit-pCommandBuffers-00074
            queues = [queue for queue in queues if queue.device_queue.family == family]
        if len(queues) > 1:
            queue, self.reason = self._weigh(queues, writes, reads)
        else:
            queue, self.reason = queues[0], ONLY if wanted is None or isinstance(wanted, str) else PINNED
        if queue.device_queue.role == "compute":
            self.latest = queue
        return queue

    def may_reuse(self, history: AccessHistory | None) -> bool:
        """True if a launch may wait for the tasks in the history of the memory that it is to write.

        They have finished, or are on the queue where the launch is likely to be.
        """
        latest = self.latest
        if history is None or (history.is_on(latest.index) and latest.task - latest.finished <= _AHEAD):
            return True
        with self._device.lock:
            return self._precedes(history)

    def _precedes(self, history: AccessHistory) -> bool:
        """True if the tasks in a history have finished, or precede what the latest queue does next."""
        uses, latest = history.last_accesses(0, sys.maxsize), self.latest
        if not all(latest.follows(self._queues[index], task) for index, task in uses.items() if index != latest.index):
            return False
        if latest.task - latest.seen_task() <= _AHEAD or latest.task - latest.poll_task() <= _AHEAD:
            return True
        return uses.get(latest.index, 0) <= latest.seen_task()

    def allowed(self, wanted: int | str | None) -> Sequence[CommandQueue]:
        """The queues that the `queue` argument of a launch permits.

        Raises:
            TypeError, ValueError: there is none.
        """
        if wanted is None or isinstance(wanted, str):
            if wanted in (None, "compute"):
                return self.compute
            if wanted == "transfer":
                return self.transfer or self.compute
            raise ValueError(f'a queue is an index, "compute" or "transfer"; got {wanted!r}')
        try:
            number = index(wanted)
        except TypeError:
            number = None
        if number is None or isinstance(wanted, bool):
            raise TypeError(f'a queue is an index, "compute" or "transfer"; got {wanted!r}')
        if not 0 <= number < len(self._queues):
            raise ValueError(f"queue {number} does not exist; {self._device} has queues 0 to {len(self._queues) - 1}")
        return [self._queues[number]]

    def _weigh(
        self, queues: Sequence[CommandQueue], writes: Sequence[Range], reads: Sequence[Range]
    ) -> tuple[CommandQueue, str]:
        nearest: tuple[int, CommandQueue] | None = None
        for number, (buffer, start, stop) in enumerate((*reads, *writes)):
            history: AccessHistory | None = buffer.history
            if history is None:
                continue
            is_read = number < len(reads)
            find, most_behind = (history.last_writers, _DETOUR) if is_read else (history.last_accesses, _AHEAD)
            users = {self._queues[index]: task for index, task in find(start, stop).items()}
            for queue, task in users.items():
                if any(other.follows(queue, task) for other in users if other is not queue):
                    continue
                if task > queue.seen_task() and queue in queues:
                    n_behind = queue.task - task
                    if n_behind <= most_behind:
                        return queue, DATA
                    if nearest is None or n_behind < nearest[0]:
                        nearest = n_behind, queue
        n_left, _, idle = min((queue.task - queue.poll_task(), queue.index, queue) for queue in queues)
        if nearest is None:
            return idle, IDLE
        return (nearest[1], DATA) if nearest[0] <= n_left + _DETOUR else (idle, FAR)
