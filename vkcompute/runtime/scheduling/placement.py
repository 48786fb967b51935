"""Placement: the choice of the queue for a task."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.command_queue import CommandQueue

ONLY = "no other queue could have been chosen"
PINNED = "the caller chose it"
DATA = "it has unfinished tasks that were the last to write the data"
FAR = "it is the least busy; on the queue that wrote the data last, many other tasks are queued before it"
IDLE = "it is the least busy; the tasks that wrote the data have finished, or are on queues that cannot run this task"
RECORDED = "recorded into a graph, which runs as a whole on one queue: that of the future of its submit()"

_DETOUR = 8  # tasks: changing the queue takes a semaphore and two submits, which cost the host about as much as these


class Placement:
    """Chooses command queues for tasks.

    A queue named by the caller is used. Else the task follows its data, to the first queue with unfinished writes to
    it, reads before writes. If many tasks were queued there since, a semaphore is cheaper. Then, and without such
    data, it goes to the queue with the fewest unfinished tasks.

    Attributes:
        compute, transfer: the queues for kernels, and those that only copy.
        reason: for the last choice.
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
            return queue
        self.reason = ONLY if wanted is None or isinstance(wanted, str) else PINNED
        return queues[0]

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
        for buffer, start, stop in (*reads, *writes):
            if buffer.history is None:
                continue
            for writer, task in buffer.history.last_writers(start, stop).items():
                queue = self._queues[writer]
                if task > queue.seen_task() and queue in queues:
                    n_behind = queue.task - task
                    if n_behind <= _DETOUR:
                        return queue, DATA
                    if nearest is None or n_behind < nearest[0]:
                        nearest = n_behind, queue
        n_left, _, idle = min((queue.task - queue.poll_task(), queue.index, queue) for queue in queues)
        if nearest is None:
            return idle, IDLE
        return (nearest[1], DATA) if nearest[0] <= n_left + _DETOUR else (idle, FAR)
