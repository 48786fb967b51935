"""Graphs: launches, copies and transfers that are recorded once and replayed many times."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer, compute_readers
from vkcompute.core.interrupts import BlockExit, begin_block
from vkcompute.core.suballoc import assign_offsets
from vkcompute.errors import ClosedError, shorten_traceback
from vkcompute.runtime.graphs.aliasing import Apart, apart, apart_from_writes
from vkcompute.runtime.graphs.function_state import FunctionState
from vkcompute.runtime.graphs.host_arrays import HostArray, HostArrays
from vkcompute.runtime.graphs.inputs import Choice, Inputs
from vkcompute.runtime.graphs.ports import Port, Ports
from vkcompute.runtime.graphs.recording_cache import GraphRecording, RecordingCache
from vkcompute.runtime.memory.array import Array, allocate, empty
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.scheduling import current
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.runtime.scheduling.scheduler import Scheduler
from vkcompute.runtime.scheduling.task import BufferMap, Task, buffers_of

_MAX_RUNS = 100_000  # each run is a pointer in the submit, and a submit must not take minutes


class Graph:
    """Records the work launched in `with runtime.record() as graph:`, to run it any number of times.

    It records launches, copies, fills, `x.write(data)`, `x.read(out)`, and runs of other graphs. A run is
    ordered by the data that it accesses, like a launch. A graph keeps its arrays and kernels alive.

    Inputs are given as `with runtime.record(x=array, rate=0.1) as graph:` and named `graph["x"]` and `graph["rate"]`
    in the block; `graph.run(x=other)` runs with another array of the same shape and dtype, or other push constants.
    Other arrays are copied to memory of the graph before a run, and back if it writes them. From 1 MiB on, arrays that
    are given again are bound by a recording of their own. So are new numbers. It costs the host about as much as the
    first one, and a few are kept, with their arrays. A recording never changes while the device may run it. An input
    that overlaps memory which the graph writes before it has read the input is refused, as the graph would read what
    it wrote.

    A lazy array that the block makes is computed where the block needs its memory, and not at all if it never does.
    Only the recording computes it: to other threads it has no elements.

    `constant`, `copied`, `stage_upload`, `stage_download`, `report`, `require_apart`, `require_unchanged`, `own`,
    `owns`, `add`, `start`, `buffers`, `input_buffers`, `function` and `recording` are internal and may change.

    Args:
        of_function: True for the recording of a function, without default inputs.
    """

    def __init__(self, runtime: Context, inputs: Mapping[str, Any] | None = None, *, of_function: bool = False) -> None:
        if inputs is None:
            raise TypeError("graphs are recorded by a runtime, as in `with runtime.record() as graph: …`")
        self.runtime = runtime
        self._owner = object()
        self._inputs = Inputs(runtime, self._owner, inputs)
        choice = self._inputs.choice({})
        self._defaults = {} if of_function else self._inputs.buffer_map(choice), choice.values
        self.function: FunctionState | None = None
        if of_function:
            self.function = FunctionState(runtime, self._owner)
            self._inputs.drop_defaults()
        self._tasks: list[Task] = []
        self._temporaries: list[Placeholder] = []
        self._apart: list[Apart] = []
        self._arrays = HostArrays(runtime, self._owner)
        self._recordings: RecordingCache | None = None
        self._own: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._made_after: dict[int, int] = {}  # tasks, by the ids of those arrays
        self.recording = False
        self._state = "new"
        self._has_run = runtime.scheduler.submit_limit_s is None

    # -- recording ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise ValueError("a graph is recorded once; call runtime.record() for another")
        self.runtime.require_open()
        self.runtime.compute_pending()
        begin_block(self)
        current.begin(self, self.runtime.scheduler)
        with self.runtime.scheduler.device.lock:
            self.runtime.scheduler.recordings += (weakref.ref(self),)
        self._state, self.recording = "recording", True
        current.enter(self.runtime, self)
        return self

    def _exit(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.recording:
            raise ValueError("this graph is not being recorded; use `with runtime.record() as graph:`")
        done = False
        try:
            for array in [*self._own.values()]:  # nobody has needed their elements, and only a run would have them
                array.discard(self._temporary(array.nbytes))
            self._made_after.clear()
            done = kind is None and self._state != "closed"
        finally:
            self._end_recording()
            if not done:
                self.close()
        if not done:
            return
        try:
            with self.runtime.scheduler.device.lock:
                self.runtime.require_open()
                memory = self._shared_memory()
                ports = Ports(self.runtime, self._ports(), self._tasks)
                default = self._inputs.choice({}) if self.function is None else None
                self._recordings = RecordingCache(
                    self.runtime, default, self._tasks, self._apart, memory, self._arrays, ports
                )
        except BaseException:
            self.close()
            raise
        self._state = "recorded"

    def _end_recording(self) -> None:
        """Has the thread record no more; does nothing the second time."""
        self.recording = False
        current.end(self)
        if self.function is not None:
            self.function.end()
        scheduler = self.runtime.scheduler
        with scheduler.device.lock:
            scheduler.recordings = tuple(
                [recording for recording in scheduler.recordings if recording() not in (None, self)]
            )

    def _leave(self) -> None:
        """Ends a recording whose end was interrupted."""
        self._end_recording()
        if self._state != "recorded":
            self.close()

    __exit__ = BlockExit(_exit, _leave)

    def on_this_thread(self) -> AbstractContextManager[None]:
        """Records what another thread launches in a `with` block, for a library that computes on threads of its own.

        The thread that records must wait for that block, as PyTorch's does for a backward pass. There,
        `runtime.recording()` returns the graph.

        Raises:
            ValueError: the graph is not being recorded.
        """
        self._require_recording()
        return current.on_this_thread(self, self.runtime.scheduler)

    def __getitem__(self, name: str) -> Any:
        """The placeholder of an input in the recording: an array, which may have views, or a push constant."""
        return self._inputs[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Permits `graph["x"] += 1`, which writes the elements of an input.

        Raises:
            TypeError: the value is another object than the input's placeholder.
        """
        if value is not self._inputs[name]:
            raise TypeError(
                f"an input of a graph is given with the run; write its elements by graph[{name!r}][...] = …"
            )

    @property
    def arrays(self) -> dict[str, Array]:
        """The placeholders of the inputs that are arrays, in the order of `record`."""
        return self._inputs.arrays

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
        """Returns a temporary: an array whose content lasts as long as a run, for use in this recording only.

        It has memory from the first task that uses it, or a view of it, to the last. Temporaries with disjoint live
        ranges share memory, so the content is arbitrary until it is written.

        Raises:
            TypeError, ValueError: as `Runtime.empty`; or the graph is not being recorded.
        """
        self._require_recording()
        array = allocate(self.runtime, self._temporary, shape, dtype)
        return array if self.function is None else self.function.register(array)

    def result(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array | None:
        """Returns a temporary for a result of a function's launches; None for those of `record`, which keep theirs."""
        return None if self.function is None else self.empty(shape, dtype)

    def constant(self, make: Callable[[], Array]) -> Array:
        """Returns a temporary with the elements of what `make` returns now, in each run."""
        return self.copied(current.unrecorded(make))

    def copied(self, source: Array) -> Array:
        """Returns a temporary with the elements of an array, by a recorded copy."""
        array = self.empty(source.shape, source.dtype)
        if array.size:
            array.copy_from(source)
        return array

    def stage_upload(self, array: HostArray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        """Returns a buffer that each run fills with the array as it is at the submit."""
        self._require_recording()
        self._arrays.refuse_filled([array])
        host = np.asarray(array)  # a run calls no method of a subclass
        return self._arrays.staged(self._arrays.up, shape, dtype, host).buffer

    def stage_download(self, array: HostArray) -> Buffer:
        """Returns a buffer that is copied to the array once the run's future is known to be done."""
        self._require_recording()
        return self._arrays.staged(self._arrays.down, array.shape, array.dtype, np.asarray(array)).buffer

    def require_apart(self, read: Array, written: Array, *, unless_same: bool) -> None:
        """Requires that two arrays do not overlap in a run; they may be the same if `unless_same`."""
        self._apart += apart(read, written, unless_same=unless_same)

    def require_unchanged(self, array: Array, operands: Iterable[Any]) -> None:
        """Requires that in a run no write since a lazy array was made overlaps its operands that are in memory.

        What is known to overlap in the recording was computed before the write.
        """
        if self._inputs.arrays and self.owns(array):
            tasks = self._tasks[self._made_after[id(array)] :]
            for operand in operands:
                if isinstance(operand, Array) and not operand.is_pending:
                    self._apart += apart_from_writes(operand, tasks)

    def report(self, n_words: int, read: Callable[[HostArray], Exception | None]) -> Array:
        """Returns an array of uint32 for the next launch, which is zero before it; `read` is called with it after.

        Its size must be a multiple of 256 bytes, the largest alignment of bindings.
        """
        return self._arrays.staged(self._arrays.reports, (n_words,), np.dtype(np.uint32), read).fill(0)

    @property
    def buffers(self) -> set[Buffer]:
        """The memory that the tasks access."""
        return set(chain.from_iterable(map(buffers_of, self._tasks)))

    @property
    def input_buffers(self) -> list[Buffer]:
        """The memory of the inputs that are arrays, and of what is fed."""
        fed = [] if self.function is None else self.function.fed
        return [*(array.buffer for array in self._inputs.arrays.values()), *fed]

    def own(self, array: Any) -> None:
        """Registers an array that this recording has made, and that is still to be computed."""
        self._own[id(array)] = array
        if self.function is not None:
            self.function.register(array)
        self._made_after[id(array)] = len(self._tasks)

    def owns(self, array: Any) -> bool:
        """Returns True if this recording has made the array."""
        return self._own.get(id(array)) is array

    def add(self, task: Task) -> Future:
        """Records a task, after checks with the default inputs."""
        compute_readers(task.writes)
        self._check(task)
        self._pin(buffers_of(task))
        self._tasks.append(task.snapshot())
        return self._recorded()

    def _pin(self, buffers: Iterable[Buffer]) -> None:
        """Keeps buffers where they are as long as there is the graph, whose tasks refer to addresses."""
        with self.runtime.scheduler.device.lock:
            kept = [buffer for buffer in buffers if not isinstance(buffer, Placeholder)]
            self.runtime.scheduler.residency.pin(self, kept)

    def _check(self, task: Task) -> None:
        self._require_recording()
        for buffer in task.buffers:
            if isinstance(buffer, Placeholder) and buffer.owner is not self._owner:
                raise ValueError(f"{buffer.what} is used in another graph's recording; copy it to an array in its own")
        task.rebased(*self._defaults).check()

    def _recorded(self) -> Future:
        """The future of the newest task, which has no point of its own."""
        return Future(self.runtime.scheduler.tracker, None, len(self._tasks))

    def _require_recording(self) -> None:
        self.runtime.require_open()
        if self._state == "closed":
            raise ClosedError("this graph was closed while it is recorded; record a new one")
        if not self.recording:
            raise ValueError("this graph is not being recorded; temporaries are made inside of its `with` block")

    def _temporary(self, nbytes: int) -> Placeholder:
        self._temporaries.append(Placeholder(self._owner, f"a temporary of {nbytes} bytes of a graph", nbytes))
        return self._temporaries[-1]

    def _shared_memory(self) -> BufferMap:
        """Assigns memory to the temporaries by their live ranges, from the first to the last task that uses them."""
        used: dict[Buffer, tuple[int, int]] = {}
        for number, task in enumerate(self._tasks):
            for buffer in task.buffers:
                used[buffer] = used.get(buffer, (number, number))[0], number
        results = [] if self.function is None else self.function.results
        alive = [buffer for buffer in self._temporaries if buffer in used and buffer not in results]
        for pairs in self._arrays.lists:  # others were staged for tasks that could not be recorded
            pairs[:] = [pair for pair in pairs if pair[0].buffer in used]
        device = self.runtime.device
        offsets, nbytes = assign_offsets([(*used[buffer], buffer.nbytes) for buffer in alive], device.memory.align)
        if not alive:
            return {}
        memory = device.buffer(nbytes)
        return {buffer: (memory, offset) for buffer, offset in zip(alive, offsets, strict=True)}

    def _ports(self) -> list[Port]:
        """The inputs, then what is fed, then the results."""
        written = {span[0] for task in self._tasks for span in task.writes}
        ports = [Port(buffer, True, buffer in written) for buffer in self.input_buffers]
        results = [] if self.function is None else self.function.results
        return ports + [Port(buffer, False, True) for buffer in results]

    # -- running ------------------------------------------------------------------------------------------------------

    def submit(self, times: int = 1, **inputs: Any) -> Future:
        """Starts `times` runs in a row; returns at once.

        The first submit of several runs waits for one of them, to measure it. Runs are split into submits within the
        runtime's `submit_limit_s`, and the future is that of the last submit.

        With host arrays, this waits for the first of three pending submits with the same inputs.

        Args:
            inputs: replace the inputs of `record` in these runs.

        Raises:
            ValueError: the graph is still being recorded, `times` is not positive, or an input is not acceptable.
            TypeError: an input is unknown or of another type.
            ClosedError: it is closed, or its recording failed.
        """
        try:
            future = self._submit(times, inputs)
            self.runtime.scheduler.unlocked()
        except Exception as error:
            shorten_traceback(error)
            raise
        return future

    def start(self, choice: Choice) -> Future:
        """Starts a run of a function's recording, not into another recording."""
        return self._submit_with_arrays(1, choice) if self._arrays.used else self._replay(1, choice)

    def _submit(self, times: int, inputs: Mapping[str, Any]) -> Future:
        self._ready()
        if not isinstance(times, int) or not 1 <= times <= _MAX_RUNS:
            raise ValueError(f"a graph runs 1 to {_MAX_RUNS} times in a row; got times={times!r}")
        scheduler = self.runtime.scheduler
        if scheduler.recordings and (outer := recording_graph(scheduler)) is not None:
            return self._append_to(outer, times, inputs)
        if not self._arrays.used:
            return self._replay(times, inputs)
        if self._arrays.reports or self._arrays.feed_back:  # these are read before the next run
            for _ in range(times - 1):
                self._submit_with_arrays(1, inputs).result()
            times = 1
        return self._submit_with_arrays(times, inputs)

    def _submit_with_arrays(self, times: int, inputs: Mapping[str, Any] | Choice) -> Future:
        self.runtime.require_open()  # in a forked child, the lock may be held by a thread that does not exist there
        with self._arrays.lock:
            with self.runtime.scheduler.device.lock:
                recordings, choice = self._ready(), self._choice(inputs)
                recording = recordings.choose(choice)
            staging = recording.staging
            assert staging is not None
            self._arrays.upload(staging)
            run = self._arrays.launch(staging, lambda: self._replay(times, choice, recording))
            return self._arrays.register_run(staging, run)

    def _choice(self, inputs: Mapping[str, Any] | Choice) -> Choice:
        return inputs if isinstance(inputs, Choice) else self._inputs.choice(inputs)

    def _replay(
        self, times: int, inputs: Mapping[str, Any] | Choice, recording: GraphRecording | None = None
    ) -> Future:
        """Starts runs. Waits for the first of several if submits have a limit, once per graph.

        Args:
            recording: the one for `inputs` with filled staging memory, if the graph has arrays.
        """
        if times > 1 and not self._has_run:
            self._replay(1, inputs, recording).result()  # without the device's lock
            self._has_run = True
            times -= 1
        with self.runtime.scheduler.device.lock:  # another thread may close the graph before this
            recordings = self._ready()
            if not inputs and recordings.first is not None and recording is None:
                return recordings.replay(recordings.first, None, times)
            choice = self._choice(inputs)
            return recordings.replay(recording or recordings.choose(choice), choice, times)

    def run(self, times: int = 1, *, until: Array | None = None, every: int | None = None, **inputs: Any) -> int:
        """Runs the recorded work `times` times in a row and waits for it; returns the number of runs.

        Args:
            until: an array of one element, bool, int32 or uint32: runs stop when it is not zero. It is read after each
                `every` runs, while the next `every` are running. So up to 2 * every - 1 runs may follow the one that
                sets it, and must be harmless.
            every: the number of runs per submit, with `until`; 16 by default.
            inputs: as for `submit`.

        Raises:
            as `submit`, and ValueError, TypeError: `until`, `every` or `times` is not acceptable.
        """
        if until is not None:
            return self._run_until(until, times, 16 if every is None else every, inputs)
        if every is not None:
            raise ValueError(f"every={every!r} is the number of runs per read of `until`; pass both, or neither")
        future, scheduler = self.submit(times, **inputs), self.runtime.scheduler
        if not scheduler.recordings or scheduler.recording() is None:
            future.result()
        return times

    def _run_until(self, until: Array, times: int, every: int, inputs: Mapping[str, Any]) -> int:
        self.runtime.scheduler.refuse_recording("run(until=…) of a graph", "give the number of runs alone")
        if not isinstance(until, Array) or until.dtype.name not in ("bool", "int32", "uint32"):
            raise TypeError(f"until is a device array of bool, int32 or uint32; got {until!r}")
        if until.size != 1 or until.runtime is not self.runtime or isinstance(until.buffer, Placeholder):
            raise ValueError(
                f"until is a device array of one element in memory of {self.runtime.device}; got {until!r}"
            )
        if not isinstance(every, int) or not isinstance(times, int) or min(times, every) < 1:
            raise ValueError(f"times and every are ints from 1; got times={times!r}, every={every!r}")
        made, pending = 0, deque[tuple[Future, Array]]()
        while made < times:
            n = min(every, times - made)
            run = self.submit(n, **inputs)
            made += n
            seen = empty(self.runtime, until.shape, until.dtype)
            seen.copy_from(until).point()  # submitted now: it must not finish with the next runs
            pending.append((run, seen))
            if len(pending) > 1:
                first, flag = pending.popleft()
                first.result()
                if flag:
                    break
        for run, _ in pending:
            run.result()
        return made

    def _append_to(self, outer: Graph, times: int, given: Mapping[str, Any]) -> Future:
        """Records the work into another graph."""
        if self._arrays.reports and times > 1:  # each run has its own report
            return [self._append_to(outer, 1, given) for _ in range(times)][-1]
        outer._arrays.refuse_filled(
            [host for _, host in self._arrays.up], feed_back=times > 1 and self._arrays.feed_back
        )
        choice = self._inputs.choice(given)
        buffer_map, values = self._inputs.buffer_map(choice), choice.values
        for buffer in self._temporaries:
            buffer_map[buffer] = outer._temporary(buffer.used_bytes), 0
        for mine, theirs in zip(self._arrays.lists, outer._arrays.lists, strict=True):
            for array, host in mine:
                buffer_map[array.buffer] = outer._arrays.staged(theirs, array.shape, array.dtype, host).buffer, 0
        outer._pin([*(buffer for buffer, _ in buffer_map.values()), *chain.from_iterable(map(buffers_of, self._tasks))])
        tasks = [task.rebased(buffer_map, values) for task in self._tasks]
        for task in tasks:
            compute_readers(task.writes)
        for task in tasks:  # first: all of them are added, or none
            outer._check(task)
        outer._apart += [constraint.rebased(buffer_map) for constraint in self._apart]
        outer._tasks += tasks * times
        return outer._recorded()

    def _ready(self) -> RecordingCache:
        if (recordings := self._recordings) is not None:
            return recordings
        if self._state == "closed":
            raise ClosedError("this graph is closed, or its recording failed; record a new one")
        raise ValueError("the graph is still being recorded; run it after the `with` block")

    def close(self) -> None:
        """Releases the graph's arrays and kernels, once no run is pending."""
        self._state = "closed"
        recordings, self._recordings = self._recordings, None
        if recordings is not None:
            recordings.close()
        self._tasks, self._temporaries = [], []

    def __repr__(self) -> str:
        return f"<graph of {len(self._tasks)} tasks, {self._state}>"


def recording_graph(scheduler: Scheduler) -> Graph | None:
    """The graph that records launches on this thread, or None."""
    recorder = scheduler.recording()
    return recorder if isinstance(recorder, Graph) else None
