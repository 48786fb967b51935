"""A lane: one queue, the batch of commands being recorded for it, and which of its tasks have been submitted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from vkcompute.core.command import CommandPool, Recorder
from vkcompute.core.queue import Point, Queue
from vkcompute.errors import VkComputeError

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
    """

    __slots__ = ("index", "ordered", "recorder", "task")

    def __init__(self, index: int) -> None:
        self.index = index
        self.task = self.ordered = 0
        self.recorder: Recorder | None = None

    def order(self, task: int) -> None:
        """Makes what is recorded next come after the strand's own `task`."""
        if task > self.ordered and self.recorder is not None:
            self.recorder.barrier()
            self.ordered = self.task


class Lane(Strand):
    """A strand that is submitted to a queue in batches.

    Attributes:
        n_batched: tasks in the open batch.
        batched_bytes: bytes that its copies move.
        failure: why the queue takes no more work, or None.
    """

    __slots__ = ("_command_buffer", "_finished", "_marks", "_pool", "_values", "_waited", "_waits", "batched_bytes",
                 "failure", "n_batched", "queue")  # fmt: skip

    def __init__(self, index: int, queue: Queue) -> None:
        super().__init__(index)
        self.queue = queue
        self._pool = CommandPool(queue)
        self._command_buffer: Any = None
        self._marks: list[int] = []  # the last task of each submitted batch that is not known to be finished,
        self._values: list[int] = []  # and the value of the queue's timeline when it is
        self._waits: dict[Queue, int] = {}
        self._waited: dict[int, int] = {}
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

    def wait_for(self, other: Lane, task: int) -> None:
        """Makes what is recorded next come after `task` of another lane."""
        value = other.value_of(task)
        if value <= other.queue.completed or value <= self._waited.get(other.index, 0):
            return
        self.flush()  # or the tasks in the open batch would wait with it
        self._waits[other.queue] = self._waited[other.index] = value

    def flush(self) -> None:
        """Submits the open batch, if there is one."""
        if self.recorder is not None or self.failure is not None:
            self._submit(())

    def submit(self, command_buffers: Sequence[Any]) -> None:
        """Submits the open batch and, behind it, command buffers that order themselves against all before and after."""
        self._submit(command_buffers)
        self.ordered = self.task

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
        done = bisect_left(self._values, self.queue.poll() + 1)
        if done:
            self._finished = self._marks[done - 1]
            del self._marks[:done], self._values[:done]
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
