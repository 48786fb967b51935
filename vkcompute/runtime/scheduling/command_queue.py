"""Command queues: a queue of the device, its open batch of commands, and the tasks submitted to it."""

from __future__ import annotations

import itertools
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vkcompute.core.command import CommandPool, Recorder
from vkcompute.core.queue import Point, Queue
from vkcompute.errors import DeviceLost, VkComputeError, again, refusal
from vkcompute.runtime.scheduling.access_history import AccessHistory, Dependencies, Range
from vkcompute.runtime.scheduling.cost import Cost, Mix

VectorClock = dict[int, int]
"""index of a queue -> a value of its timeline semaphore"""
_Timing = tuple[float, Mix, bool]
"""of a submit: its time (`time.perf_counter`), the cost of its tasks, True if it had nothing to wait for"""
FEW_BATCHES, _MAX_BATCHES = 2, 512
_PARTS = 16  # of the first launch of a kernel, if submits have a time limit
_MAX_AHEAD_S = 1.0
"""Work that a queue has at most, beyond a few batches: the end of the process waits for it."""


@dataclass(slots=True)
class Failure:
    """Tasks `first` to `last` of a queue have failed.

    Attributes:
        queue: index of the queue.
        error: the reason. Tasks of several queues that failed together have the same error object.
        reported: True once the error was raised to a caller.
    """

    queue: int
    first: int
    last: int
    error: Exception
    reported: bool = False

    def raised(self) -> Exception:
        """Returns the error to raise, and counts it as reported."""
        self.reported = True
        return again(self.error)


class Timeline:
    """Numbered tasks, recorded in order, with a barrier only where one depends on another.

    Attributes:
        index: the timeline's number in the access history.
        recorded: number of the newest task whose commands are recorded.
        ordered: tasks up to this number precede the next command.
        submitted: tasks up to this number have been submitted.
        recorder: the open command buffer, or None.
    """

    __slots__ = ("index", "ordered", "recorded", "recorder", "submitted")

    def __init__(self, index: int) -> None:
        self.index = index
        self.recorded = self.ordered = self.submitted = 0
        self.recorder: Recorder | None = None

    def order_after(self, task: int) -> None:
        """Makes the next command depend on this timeline's own `task`, by a barrier if there is none since."""
        if self.ordered < task <= self.submitted:  # a task known to have finished needs no barrier
            self.ordered = max(self.ordered, self.seen_task())
        if task > self.ordered and self.recorder is not None:
            self.recorder.barrier()
            self.ordered = self.recorded

    def seen_task(self) -> int:
        """The last task known to have finished, without asking the driver."""
        return 0


class CommandQueue(Timeline):
    """A queue of the device with its open batch: tasks are recorded into the batch, and submitted together.

    Ctrl-C at any moment leaves it consistent (see `vkcompute.core.interrupts`): a batch is either open, or in the lists
    of submitted ones, or failed.

    Attributes:
        device_queue: the core's queue.
        task: number of the newest task.
        n_batched: tasks in the open batch.
        n_early: with so many tasks in the open batch, an idle queue gets it; 0 for never. It doubles each time until
            the host waits: the first launch begins at once, and a long series takes few submits.
        fewest: `n_early` after a wait: 1 or 0.
        batched_bytes: bytes that its copies move.
        costs, load: its launches by their cost, and their sum as a fraction of a submit, if submits have a time limit.
        timed: True if they have.
        failures: of all queues of the scheduler, in the order in which they occurred.
        failure: the reason why the queue accepts no more work, or None.
        finished: the last task that was seen to have finished.
        ahead: a value for which the host waits before it launches more, or 0. It does so without locks.
    """

    _numbers = itertools.count(1)  # of submits, of all queues in this process

    __slots__ = (
        "_busy", "_clocks", "_failed", "_first", "_last_tasks", "_order", "_pool", "_sealed", "_seen_s",
        "_timings", "_values", "_waited", "_waits", "ahead", "batched_bytes", "costs", "device_queue", "failure",
        "failures", "fewest", "finished", "load", "n_batched", "n_early", "task", "timed",
    )  # fmt: skip

    def __init__(
        self, index: int, device_queue: Queue, failures: list[Failure], *, timed: bool, early: bool = False
    ) -> None:
        super().__init__(index)
        self.n_early = self.fewest = int(early)
        self.device_queue, self.failures = device_queue, failures
        self._pool = CommandPool(device_queue)
        self._sealed: Recorder | None = None  # of a batch that is complete and being submitted
        # Of each submit that is not known to have finished:
        self._last_tasks: list[int] = []
        self._values: list[int] = []  # on the queue's timeline semaphore
        self._clocks: list[VectorClock] = []  # its predecessors, on all queues
        self._timings: list[_Timing] = []  # if timed
        self._order: list[tuple[int, int]] = []  # of the latest submits: (last task, number among those of all queues)
        self._waits: dict[Queue, int] = {}  # of the next submit
        self._waited: VectorClock = {}  # predecessors of the next commands; replaced, never modified
        self._failed: list[Failure] = []  # of this queue, ordered by task
        self.task, self.finished, self._first = 0, 0, 1
        self.n_batched = self.batched_bytes = 0
        self.timed, self.load = timed, 0.0
        self.costs: dict[Cost | Mix, float] = {}
        self._seen_s = 0.0
        self._busy = 0, 0.0  # a value that was the first unfinished one, and the time then
        self.failure: Exception | None = None
        self.ahead = 0

    # -- recording ----------------------------------------------------------------------------------------------------

    def open(self) -> Recorder:
        """Returns the recorder of the open batch; begins a batch if there is none."""
        if self.failure is not None:
            raise refusal(self.failure)
        if self.recorder is None:
            if self._sealed is not None:
                self.flush()
            self.recorder = self._begin()
            self.device_queue.recording = True
        return self.recorder

    def _begin(self) -> Recorder:
        command_buffer = self._pool.acquire()
        try:
            return self.device_queue.device.retry(Recorder, self.device_queue, command_buffer)
        except BaseException:
            self._pool.discard(command_buffer)
            raise

    def add_cost(self, cost: Cost | Mix, n: float) -> None:
        """Adds the cost of `n` launches, or of a fraction of one, to the open batch."""
        self.costs[cost] = self.costs.get(cost, 0.0) + n
        self.load += n * cost.load

    def wait_for(self, queues: Sequence[CommandQueue], dependencies: Dependencies) -> None:
        """Makes the next commands depend on tasks of other queues.

        Skips waits that earlier ones or each other imply, and tasks that have finished.
        """
        wanted = {}
        for index, task in dependencies.items():
            other = queues[index]
            value = other.value_of(task)
            if value > self._waited.get(index, 0) and value > other.device_queue.poll():
                wanted[other] = value
        if not wanted:
            return
        self.flush()  # the tasks in the open batch need not wait
        waited = self._waited
        for other, value in minimal_waits(wanted).items():
            self._waits[other.device_queue] = value
            waited = _join(_join(waited, other._clock_of(value)), {other.index: value})
        self._waited = waited
        own = bisect_right(self._values, waited.get(self.index, 0))  # own submits that precede by way of other queues
        if own:
            self.ordered = max(self.ordered, self._last_tasks[own - 1])

    def follows(self, other: CommandQueue, task: int) -> bool:
        """True if the next commands come after a task of another queue without a new wait; asks no driver."""
        if task <= other.seen_task():
            return True
        return task <= other.submitted and other.value_of(task) <= self._waited.get(other.index, 0)

    # -- submitting ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submits the open batch, if there is one. If that fails, its tasks fail, and nothing is raised.

        Raises:
            DeviceLost, ClosedError: the queue accepts no more work.
        """
        if self.recorder is not None or self._sealed is not None or self.failure is not None:
            self._submit((), self.recorded)

    def submit(self, command_buffers: Sequence[Any]) -> None:
        """Submits the open batch and, behind it, the newest task: command buffers that begin with a barrier."""
        known = self.device_queue.last_value
        self._submit(command_buffers, self.task)
        if self.device_queue.last_value != known:
            self.ordered = self.task - 1  # everything before these command buffers

    def _submit(self, command_buffers: Sequence[Any], task: int) -> None:
        """Submits the open batch, then `command_buffers`; `task` is the last one in all of them."""
        if self.failure is not None:
            self.recorder = self._sealed = None
            raise refusal(self.failure)
        if self.recorder is not None:
            self._sealed, self.recorder = self.recorder, None  # indivisible
        queue, sealed, known = self.device_queue, self._sealed, self.device_queue.last_value
        buffers_in_use = () if sealed is None else ((known + 1, sealed.handle),)
        timing = ((time.perf_counter(), Mix(self.costs), not self._waits),) if self.timed else ()
        failed, replaced, order = None, slice(0), ((task, next(self._numbers)),)
        try:
            if sealed is not None:
                sealed.end()
                command_buffers = (sealed.handle, *command_buffers)
            queue.device.retry(queue.submit, command_buffers, tuple(self._waits.items()))
        except DeviceLost:
            raise
        except Exception as caught:
            if queue.last_value != known:  # it was submitted, and the validation layer objected then
                raise
            failed = Failure(self.index, self._first, task, again(caught))
            # It replaces the failures of single tasks of the batch.
            replaced = slice(*(bisect_left(self._failed, end, key=_first_of) for end in (self._first, task + 1)))
        finally:
            # Indivisible. If Ctrl-C strikes before it, the batch stays sealed, and the next flush submits it.
            submitted = queue.last_value != known
            if submitted:
                self._last_tasks += (task,)
                self._order += order
                self._values += (known + 1,)
                self._clocks += (self._waited,)
                self._timings += timing
                self._pool.pending += buffers_in_use
                self.submitted = task
            elif failed is not None:
                self.failures += (failed,)
                self._failed[replaced] = (failed,)
            if submitted | (failed is not None):
                self._sealed, self._waits, self._first, self.recorded = None, {}, task + 1, task
                self.n_batched, self.batched_bytes, self.costs, self.load = 0, 0, {}, 0.0
                self.n_early = self.fewest
                queue.recording = False
        if failed is not None and sealed is not None:
            self._pool.discard(sealed.handle)
        self._limit_submits()

    def _limit_submits(self) -> None:
        """Forgets submits that have finished; has the host wait for some of them if there is work for a long time."""
        few = FEW_BATCHES + (_PARTS if self.timed else 0)
        if self.timed or len(self._values) > few:
            self.poll_task()
        if len(self._values) > few:
            first, now_s = self._values[0], time.perf_counter()
            if now_s - self._busy[1] > _MAX_AHEAD_S:
                self._busy = first, now_s
            done = first - self._busy[0]  # before one has finished, nobody knows how long they take
            most = max(few, int(_MAX_AHEAD_S * done / (now_s - self._busy[1]))) if done else few
            if len(self._values) > most:
                self.ahead = self._values[-most - 1]
        if len(self._last_tasks) > _MAX_BATCHES:
            self.device_queue.wait(self._values[len(self._values) // 2])
            self.poll_task()
        if len(self._order) > _MAX_BATCHES:
            del self._order[: _MAX_BATCHES // 2]

    def order_of(self, task: int) -> tuple[int, int]:
        """Returns a key that orders the tasks of all queues by their submits, as far as these are still known."""
        if not task:
            return 0, 0
        position = bisect_left(self._order, (task, 0))
        number = self._order[position][1] if position < len(self._order) else sys.maxsize
        return number, task

    @property
    def is_idle(self) -> bool:
        """True if all submitted work has finished; queries the driver."""
        return self.device_queue.poll() >= self.device_queue.last_value

    def expect_wait(self) -> None:
        """Registers that the host is about to wait: what it launches next begins at once."""
        self.n_early = self.fewest

    # -- failing ------------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException, late: int = 0) -> None:
        """Marks the newest task as failed, or a `late` one; the rest of its batch is unaffected."""
        task = late or self.task
        if self.failure is None and self.failure_of(task) is None:
            if not isinstance(error, Exception):
                error = lost("this work was not launched", error)
            failed = Failure(self.index, task, task, error if late else again(error), reported=not late)
            at = bisect_right(self._failed, task, key=_first_of)
            self.failures += (failed,)  # indivisible with the next line
            self._failed[at:at] = (failed,)

    def fail_unrecorded(self, error: BaseException | None = None) -> None:
        """Marks the newest task as failed if it was not recorded: for `error`, or else by an interrupt."""
        if self.recorded != self.task:
            self.fail(error or KeyboardInterrupt())

    def failure_of(self, task: int) -> Failure | None:
        """The failure of `task`, or None if it has not failed so far."""
        failures = self._failed[max(0, (at := bisect_right(self._failed, task, key=_first_of)) - 1) : at]
        return failures[0] if failures and task <= failures[0].last else None

    # -- finishing ----------------------------------------------------------------------------------------------------

    def poll_task(self) -> int:
        """The last task that has finished; queries the driver."""
        self.device_queue.poll()
        return self.seen_task()

    def has_finished(self, task: int) -> bool:
        """True if a task has finished; queries the driver if its batch was submitted."""
        if task <= self.finished or not self._last_tasks or task > self._last_tasks[-1]:
            return task <= self.finished
        return task <= self.poll_task()

    def seen_task(self) -> int:
        done = bisect_right(self._values, self.device_queue.completed)
        if done:
            if self._timings:
                self._learn_costs(done)
            self.finished = self._last_tasks[done - 1]
            del self._last_tasks[:done], self._values[:done], self._clocks[:done], self._timings[:done]
        return self.finished

    def _learn_costs(self, done: int) -> None:
        """Updates the costs of the tasks in the first `done` submits, which have finished."""
        value, now_s = self.device_queue.observed_completion
        least_s, timings = 0.0, self._timings[:done]
        if value != self._values[done - 1]:
            now_s = time.perf_counter()
        elif all(immediate for *_, immediate in timings):  # the queue was busy with them all the time
            least_s = (now_s - max(self._seen_s, timings[0][0])) / done
        for start_s, mix, _ in timings:
            mix.learn(1, least_s, now_s - start_s)
        self._seen_s = now_s

    def value_of(self, task: int) -> int:
        """The value of the timeline semaphore at which `task` has finished; submits its batch if need be.

        If the task has failed, the value is reached no later than the next submit finishes.
        """
        if task <= self.finished:
            return 0
        position = bisect_left(self._last_tasks, task)
        if position == len(self._last_tasks):
            self.flush()
            return self.device_queue.last_value
        return self._values[position]

    def point(self, task: int) -> Point:
        """The point at which `task` has finished; submits its batch if need be.

        Raises:
            the error of the task, if it has failed.
        """
        point = Point(self.device_queue, self.value_of(task))
        self.expect_wait()
        if self._failed and (failure := self.failure_of(task)) is not None:
            raise failure.raised()
        return point

    def _clock_of(self, value: int) -> VectorClock:
        """The values that precede a value of this queue; none if it is known to be reached."""
        position = bisect_left(self._values, value)
        return self._clocks[position] if self._values[position : position + 1] == [value] else {}


def failure_of(queues: Sequence[CommandQueue], ranges: Sequence[Range]) -> Failure | None:
    """The failure of a task that was the last one to write some of these bytes, if there is one."""
    for buffer, start, stop in ranges:
        history: AccessHistory | None = buffer.history
        for writer, task in history.writers(start, stop) if history else ():
            if (failure := queues[writer].failure_of(task)) is not None:
                return failure
    return None


def lost(what: str, interrupt: BaseException) -> VkComputeError:
    """Returns the error of work that an exception such as KeyboardInterrupt has cut short."""
    return VkComputeError(f"{what}: interrupted by {type(interrupt).__name__}; repeat it")


def minimal_waits(values: dict[CommandQueue, int]) -> dict[CommandQueue, int]:
    """Leaves out values of queues that are implied by the others."""
    if len(values) > 1:
        clocks = [queue._clock_of(value) for queue, value in values.items()]
        values = {k: v for k, v in values.items() if all(clock.get(k.index, 0) < v for clock in clocks)}
    return values


def _first_of(failure: Failure) -> int:
    return failure.first


def _join(clock: VectorClock, other: VectorClock) -> VectorClock:
    return {**clock, **{k: value for k, value in other.items() if value > clock.get(k, 0)}}
