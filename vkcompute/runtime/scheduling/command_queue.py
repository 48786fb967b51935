"""A lane: one queue, the batch of commands being recorded for it, and which of its tasks have been submitted."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vkcompute.core.command import CommandPool, Recorder
from vkcompute.core.queue import Point, Queue
from vkcompute.errors import DeviceLost, VkComputeError, again
from vkcompute.runtime.scheduling.access_history import After, Range, Uses
from vkcompute.runtime.scheduling.cost import Cost, Mix

Clock = dict[int, int]
"""lane -> a value of its queue's timeline"""
_Sent = tuple[float, Mix, bool]
"""of a submit: when (`time.perf_counter`), what it takes, whether it could start at once"""
_MANY_BATCHES, _MOST_BATCHES = 64, 512


@dataclass(slots=True)
class Failure:
    """Tasks `first` to `last` of a lane came to nothing, and why; `told` once somebody has been told.

    What failed together, on several lanes, has one and the same error.
    """

    lane: int
    first: int
    last: int
    error: Exception
    told: bool = False

    def raised(self) -> Exception:
        """The error, to be raised."""
        self.told = True
        return again(self.error)


class Strand:
    """Tasks recorded one after the other, with a barrier only where one needs the results of another.

    Attributes:
        index: the strand's number among those that hazards tell apart.
        recorded: number of the newest task whose commands are recorded.
        ordered: tasks up to this number come before whatever is recorded next.
        submitted: tasks up to this number have been submitted.
    """

    __slots__ = ("index", "ordered", "recorded", "recorder", "submitted")

    def __init__(self, index: int) -> None:
        self.index = index
        self.recorded = self.ordered = self.submitted = 0
        self.recorder: Recorder | None = None

    def order(self, task: int) -> None:
        """Makes what is recorded next come after the strand's own `task`."""
        if self.ordered < task <= self.submitted:  # what the host has seen finished needs no barrier
            self.ordered = max(self.ordered, self.seen_task())
        if task > self.ordered and self.recorder is not None:
            self.recorder.barrier()
            self.ordered = self.recorded

    def seen_task(self) -> int:
        """The last task that the host knows to be finished."""
        return 0


class Lane(Strand):
    """A strand that is submitted to a queue in batches.

    Ctrl-C at any moment leaves it in order. The interpreter looks for signals after calls, in loops, where functions
    begin and, before Python 3.11, where a condition jumps. So where things must change together, they do so in
    statements without any of these.

    Attributes:
        task: number of the newest task.
        n_batched: tasks in the open batch.
        batched_bytes: bytes that its copies move.
        costs, load: its launches, how many of each kind, and what they are of a submit, where that has a limit.
        timed: whether it has.
        failures: of all lanes of the scheduler, in the order in which they happened.
        failure: why the queue takes no more work, or None.
    """

    __slots__ = ("_clocks", "_ended", "_failed", "_finished", "_first", "_marks", "_pool", "_seen_s", "_sent",
                 "_values", "_waited", "_waits", "batched_bytes", "costs", "failure", "failures", "load",
                 "n_batched", "queue", "task", "timed")  # fmt: skip

    def __init__(self, index: int, queue: Queue, failures: list[Failure], *, timed: bool) -> None:
        super().__init__(index)
        self.queue, self.failures = queue, failures
        self._pool = CommandPool(queue)
        self._ended: Recorder | None = None  # of a batch whose submission was interrupted
        self._marks: list[int] = []  # the last task of each submitted batch that is not known to be finished,
        self._values: list[int] = []  # the value of the queue's timeline when it is,
        self._clocks: list[Clock] = []  # what comes before it on all lanes,
        self._sent: list[_Sent] = []  # and if it is timed when, and what
        self._waits: dict[Queue, int] = {}
        self._waited: Clock = {}  # what comes before all that is recorded next; replaced, never changed
        self._failed: list[Failure] = []  # the lane's own, by their tasks
        self.task, self._finished, self._first = 0, 0, 1
        self.n_batched = self.batched_bytes = 0
        self.timed, self.load = timed, 0.0
        self.costs: dict[Cost | Mix, float] = {}
        self._seen_s = 0.0
        self.failure: Exception | None = None

    def open(self) -> Recorder:
        """The recorder of the open batch; a new one if there is none."""
        if self.failure is not None:
            raise again(self.failure)
        if self.recorder is None:
            if self._ended is not None:
                self.flush()
            self.recorder = self._begin()
            self.queue.recording = True
        return self.recorder

    def _begin(self) -> Recorder:
        command_buffer = self._pool.take()
        try:
            return self.queue.device.retry(Recorder, self.queue, command_buffer)
        except BaseException:
            self._pool.discard(command_buffer)
            raise

    def take(self, cost: Cost | Mix, n: float) -> None:
        """Notes that the open batch has `n` more launches (or a part of one) that cost so much each."""
        self.costs[cost] = self.costs.get(cost, 0.0) + n
        self.load += n * cost.load

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
        """Submits the open batch, if there is one. If it cannot be, its tasks fail, and this does not raise.

        Raises:
            DeviceLost, ClosedError: the queue takes no more work.
        """
        if self.recorder is not None or self._ended is not None or self.failure is not None:
            self._submit((), self.recorded)

    def submit(self, command_buffers: Sequence[Any]) -> None:
        """Submits the open batch and, behind it, the newest task: command buffers that begin with a barrier."""
        known = self.queue.last_value
        self._submit(command_buffers, self.task)
        if self.queue.last_value != known:
            self.ordered = self.task - 1  # all but themselves

    def _submit(self, command_buffers: Sequence[Any], task: int) -> None:
        """Submits what is recorded, then `command_buffers`; `task` is the last one of them all."""
        if self.failure is not None:
            self.recorder = self._ended = None
            raise again(self.failure)
        queue, recorder = self.queue, self._ended or self.recorder
        known, alone = queue.last_value, slice(0)
        failed: tuple[Failure, ...] = ()
        own, n_own = (None, 0) if recorder is None else (recorder.handle, 1)
        sent = ((time.perf_counter(), Mix(self.costs), not self._waits),) if self.timed else ()
        try:
            if recorder is not None:
                recorder.end()
                command_buffers = (recorder.handle, *command_buffers)
            queue.device.retry(queue.submit, command_buffers, tuple(self._waits.items()))
        except DeviceLost:
            raise
        except Exception as caught:
            if queue.last_value != known:  # it was submitted, and then objected to
                raise
            failed = (Failure(self.index, self._first, task, again(caught)),)
            # In place of its tasks that had failed by themselves.
            alone = slice(*(bisect_left(self._failed, end, key=_first_of) for end in (self._first, task + 1)))
        finally:
            value = queue.last_value
            went = value != known
            if went | (failed != ()):
                self._marks += (task,) * went
                self._values += (value,) * went
                self._clocks += (self._waited,) * went
                self._sent += sent * went
                self.submitted = (self.submitted, task)[went]
                self._pool.pending += ((value, own),) * (n_own * went)
                self.failures += failed
                self._failed[alone] = failed
                self._first, self.recorded = task + 1, task
                self.recorder, self._ended, self._waits = None, None, {}
                self.n_batched = self.batched_bytes = 0
                self.costs, self.load = {}, 0.0
                queue.recording = False
            elif recorder is not None and recorder.ended:
                self.recorder, self._ended = None, recorder
        if failed and recorder is not None:
            self._pool.discard(recorder.handle)
        if self.timed or len(self._marks) > _MANY_BATCHES:
            self.finished_task()
        if len(self._marks) > _MOST_BATCHES:  # the host is far ahead: command buffers would fill its memory
            queue.wait(self._values[len(self._values) // 2])
            self.finished_task()

    def fail(self, error: BaseException, late: int = 0) -> None:
        """Notes that the newest task came to nothing, or a `late` one; its batch goes on without it."""
        task = late or self.task
        if self.failure is None and self.failure_of(task) is None:
            if not isinstance(error, Exception):
                error = VkComputeError(f"this work was not launched: interrupted by {type(error).__name__}; repeat it")
            failed = Failure(self.index, task, task, error if late else again(error), told=not late)
            at = bisect_right(self._failed, task, key=_first_of)
            self.failures += (failed,)
            self._failed[at:at] = (failed,)

    def settle(self, error: BaseException | None = None) -> None:
        """Notes a newest task that came to nothing: for `error`, or interrupted before that could be noted of it."""
        if self.recorded != self.task:
            self.fail(error or KeyboardInterrupt())

    def failure_of(self, task: int) -> Failure | None:
        """Why `task` came to nothing, or None: it has not, so far."""
        found = self._failed[max(0, (at := bisect_right(self._failed, task, key=_first_of)) - 1) : at]
        return found[0] if found and task <= found[0].last else None

    def finished_task(self) -> int:
        """The last task that is finished; asks the driver."""
        self.queue.poll()
        return self.seen_task()

    def seen_task(self) -> int:
        done = bisect_right(self._values, self.queue.completed)
        if done:
            if self._sent:
                self._learn(done)
            self._finished = self._marks[done - 1]
            del self._marks[:done], self._values[:done], self._clocks[:done], self._sent[:done]
        return self._finished

    def _learn(self, done: int) -> None:
        """Takes note of how long the first `done` submits took, which are finished."""
        value, now_s = self.queue.observed_completion
        least_s, sent = 0.0, self._sent[:done]
        if value != self._values[done - 1]:
            now_s = time.perf_counter()
        elif all(at_once for *_, at_once in sent):  # the queue was busy with them all the time
            least_s = (now_s - max(self._seen_s, sent[0][0])) / done
        for start_s, mix, _ in sent:
            mix.note(1, least_s, now_s - start_s)
        self._seen_s = now_s

    def value_of(self, task: int) -> int:
        """The value of the queue's timeline at which `task` is finished; submits the batch that holds it if need be.

        That of a task that has failed is passed at the latest with what was submitted after it.
        """
        if task <= self._finished:
            return 0
        position = bisect_left(self._marks, task)
        if position == len(self._marks):
            self.flush()
            return self.queue.last_value
        return self._values[position]

    def point(self, task: int) -> Point:
        """The moment when `task` is finished; submits the batch that holds it if need be.

        Raises:
            the error that it ended with, where it has failed.
        """
        point = Point(self.queue, self.value_of(task))
        if self._failed and (failure := self.failure_of(task)) is not None:
            raise failure.raised()
        return point

    def _before(self, value: int) -> Clock:
        """What comes before a value of the queue's timeline, as far as it is not known to be finished."""
        position = bisect_left(self._values, value)
        return self._clocks[position] if self._values[position : position + 1] == [value] else {}


def _first_of(failure: Failure) -> int:
    return failure.first


def failure_of(lanes: Sequence[Lane], ranges: Sequence[Range]) -> Failure | None:
    """Why some of these bytes are not what they should be: the task that was to write them failed."""
    for buffer, start, stop in ranges:
        uses: Uses | None = buffer.uses
        for writer, task in uses.writers(start, stop) if uses else ():
            if (failure := lanes[writer].failure_of(task)) is not None:
                return failure
    return None


def fewest(moments: dict[Lane, int]) -> dict[Lane, int]:
    """Those of the values of lanes' timelines that are to be waited for, if all are to be reached."""
    if len(moments) > 1:
        clocks = [lane._before(value) for lane, value in moments.items()]
        moments = {k: v for k, v in moments.items() if all(clock.get(k.index, 0) < v for clock in clocks)}
    return moments


def _join(clock: Clock, other: Clock) -> Clock:
    return {**clock, **{k: value for k, value in other.items() if value > clock.get(k, 0)}}
