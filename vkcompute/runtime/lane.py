"""A lane: one queue, the batch of commands being recorded for it, and which of its tasks have been submitted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from vkcompute.core.command import CommandPool, Recorder
from vkcompute.core.queue import Point, Queue
from vkcompute.errors import VkComputeError
from vkcompute.runtime.hazards import After

Clock = dict[int, int]
"""lane -> a value of its queue's timeline"""
_MANY_BATCHES, _MOST_BATCHES = 64, 512


def _interrupted(error: BaseException) -> VkComputeError:
    return VkComputeError(
        f"a submission was interrupted ({type(error).__name__}), its work is lost; open a new runtime"
    )


class Strand:
    """Tasks recorded one after the other, with a barrier only where one needs the results of another.

    Attributes:
        index: the strand's number among those that hazards tell apart.
        task: number of the newest task.
        ordered: tasks up to this number come before whatever is recorded next.
        submitted: tasks up to this number have been submitted.
    """

    __slots__ = ("index", "ordered", "recorder", "submitted", "task")

    def __init__(self, index: int) -> None:
        self.index = index
        self.task = self.ordered = self.submitted = 0
        self.recorder: Recorder | None = None

    def order(self, task: int) -> None:
        """Makes what is recorded next come after the strand's own `task`."""
        if self.ordered < task <= self.submitted:  # what the host has seen finished needs no barrier
            self.ordered = max(self.ordered, self.seen_task())
        if task > self.ordered and self.recorder is not None:
            self.recorder.barrier()
            self.ordered = self.task

    def seen_task(self) -> int:
        """The last task that the host knows to be finished."""
        return 0


class Lane(Strand):
    """A strand that is submitted to a queue in batches.

    Attributes:
        n_batched: tasks in the open batch.
        batched_bytes: bytes that its copies move.
        failure: why the queue takes no more work, or None.
    """

    __slots__ = ("_clocks", "_command_buffer", "_finished", "_marks", "_pool", "_values", "_waited", "_waits",
                 "batched_bytes", "failure", "n_batched", "queue")  # fmt: skip

    def __init__(self, index: int, queue: Queue) -> None:
        super().__init__(index)
        self.queue = queue
        self._pool = CommandPool(queue)
        self._command_buffer: Any = None
        self._marks: list[int] = []  # the last task of each submitted batch that is not known to be finished,
        self._values: list[int] = []  # the value of the queue's timeline when it is,
        self._clocks: list[Clock] = []  # and what comes before it on all lanes
        self._waits: dict[Queue, int] = {}
        self._waited: Clock = {}  # what comes before all that is recorded next; replaced, never changed
        self._finished = 0
        self.n_batched = self.batched_bytes = 0
        self.failure: Exception | None = None

    def open(self) -> Recorder:
        """The recorder of the open batch; a new one if there is none."""
        if self.failure is not None:
            raise self.failure
        if self.recorder is None:
            self._command_buffer = self._pool.take()
            try:
                self.recorder = Recorder(self.queue, self._command_buffer)
            except BaseException:
                self._pool.give(0, self._command_buffer)
                raise
            self.queue.recording = True
        return self.recorder

    def wait_for(self, lanes: Sequence[Lane], after: After) -> None:
        """Makes what is recorded next come after the tasks in `after`, which are of other lanes.

        What earlier waits, or one of these, already include is not waited for, nor what is finished.
        """
        wanted = {}
        for index, task in after.items():
            other = lanes[index]
            value = other.value_of(task)
            if value > self._waited.get(index, 0) and value > other.queue.poll():
                wanted[other] = value
        if not wanted:
            return
        self.flush()  # or the tasks in the open batch would wait with it
        waited = self._waited
        for other, value in fewest(wanted).items():
            self._waits[other.queue] = value
            waited = _join(_join(waited, other._before(value)), {other.index: value})
        self._waited = waited
        own = bisect_right(self._values, waited.get(self.index, 0))  # what waited for this lane comes before, too
        if own:
            self.ordered = max(self.ordered, self._marks[own - 1])

    def flush(self) -> None:
        """Submits the open batch, if there is one."""
        if self.recorder is not None or self.failure is not None:
            self._submit(())

    def submit(self, command_buffers: Sequence[Any]) -> None:
        """Submits the open batch and, behind it, the newest task: command buffers that begin with a barrier."""
        self._submit(command_buffers)
        self.ordered = self.task - 1  # all but themselves

    def _submit(self, command_buffers: Sequence[Any]) -> None:
        """Submits what is recorded, then `command_buffers`. If that fails, the lane takes no more work."""
        if self.failure is not None:
            self.recorder = None
            raise self.failure
        queue = self.queue
        try:
            recorder, self.recorder = self.recorder, None
            waits, self._waits = self._waits, {}
            if recorder is None:
                value = queue.submit(command_buffers, waits.items())
            else:
                recorder.end()
                value = queue.submit((self._command_buffer, *command_buffers), waits.items())
                self._pool.give(value, self._command_buffer)
            self._marks.append(self.task)
            self._values.append(value)
            self._clocks.append(self._waited)
            self.submitted = self.task
        except BaseException as error:
            self.failure = error if isinstance(error, Exception) else _interrupted(error)
            raise
        finally:
            queue.recording = False
            self.n_batched = self.batched_bytes = 0
        if len(self._marks) > _MANY_BATCHES:
            self.finished_task()
        if len(self._marks) > _MOST_BATCHES:  # the host is far ahead: command buffers would fill its memory
            queue.wait(self._values[len(self._values) // 2])
            self.finished_task()

    def finished_task(self) -> int:
        """The last task that is finished; asks the driver."""
        self.queue.poll()
        return self.seen_task()

    def seen_task(self) -> int:
        done = bisect_right(self._values, self.queue.completed)
        if done:
            self._finished = self._marks[done - 1]
            del self._marks[:done], self._values[:done], self._clocks[:done]
        return self._finished

    def value_of(self, task: int) -> int:
        """The value of the queue's timeline at which `task` is finished; submits the batch that holds it if need be."""
        if task <= self._finished:
            return 0
        position = bisect_left(self._marks, task)
        if position == len(self._marks):
            if self.failure is not None:
                raise self.failure
            self.flush()
            return self.queue.last_value
        return self._values[position]

    def point(self, task: int) -> Point:
        """The moment when `task` is finished; submits the batch that holds it if need be."""
        return Point(self.queue, self.value_of(task))

    def _before(self, value: int) -> Clock:
        """What comes before a value of the queue's timeline, as far as it is not known to be finished."""
        position = bisect_left(self._values, value)
        return self._clocks[position] if self._values[position : position + 1] == [value] else {}


def fewest(moments: dict[Lane, int]) -> dict[Lane, int]:
    """Those of the values of lanes' timelines that are to be waited for, if all are to be reached."""
    if len(moments) > 1:
        clocks = [lane._before(value) for lane, value in moments.items()]
        moments = {k: v for k, v in moments.items() if all(clock.get(k.index, 0) < v for clock in clocks)}
    return moments


def _join(clock: Clock, other: Clock) -> Clock:
    return {**clock, **{k: value for k, value in other.items() if value > clock.get(k, 0)}}
