"""Graphs: launches, copies and transfers recorded once and replayed many times, with other inputs where wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.core.suballoc import assign_offsets
from vkcompute.errors import ClosedError
from vkcompute.runtime.graphs.host_arrays import Array, Arrays
from vkcompute.runtime.graphs.inputs import Inputs
from vkcompute.runtime.graphs.recordings import GraphRecording, Recordings
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.tensor import Tensor, allocate, empty
from vkcompute.runtime.scheduling import current
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.runtime.scheduling.scheduler import Scheduler
from vkcompute.runtime.scheduling.task import Places, Task

_MOST_RUNS = 100_000  # each run is a pointer in the submit, and a submit is not to take minutes


class Graph:
    """What `with runtime.record() as graph:` records, and what runs when the graph does.

    That is launches, copies, fills, `tensor.write(array)`, `tensor.read(array)`, and runs of other graphs.

    Runs are ordered against everything else by the data they touch, as a launch is. A graph holds the tensors and
    kernels that it uses.

    Inputs, by `with runtime.record(x=tensor, rate=0.1) as graph:`, are named `graph["x"]` and `graph["rate"]` in what
    is recorded; `graph.run(x=other)` is a run with another tensor of the same shape and dtype, or other push constants.
    The few last choices of inputs are kept in recorded form, with their tensors; a new one costs the host about as
    much as the recording did. What the device runs is never changed.

    `stage_upload`, `stage_download`, `report`, `add` and `recording` are the library's own, and may change.
    """

    def __init__(self, runtime: Context, inputs: Mapping[str, Any]) -> None:
        self.runtime = runtime
        self._owner = object()
        self._inputs = Inputs(runtime, self._owner, inputs)
        self._defaults = self._inputs.resolved({})
        self._tasks: list[Task] = []
        self._temporaries: list[Placeholder] = []
        self._arrays = Arrays(runtime, self._owner)
        self._recordings: Recordings | None = None
        self.recording = False
        self._state = "new"
        self._has_run = runtime.scheduler.submit_limit_s is None

    # -- recording ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise ValueError("a graph is recorded once; call runtime.record() for another")
        self.runtime.require_open()
        current.begin(self, self.runtime.scheduler)
        with self.runtime.scheduler.lock:
            self.runtime.scheduler.n_recordings += 1
        self._state, self.recording = "recording", True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.recording:
            raise ValueError("this graph is not being recorded; use `with runtime.record() as graph:`")
        scheduler = self.runtime.scheduler
        self.recording = False
        current.end(self)
        with scheduler.lock:
            scheduler.n_recordings -= 1
        if kind is not None or self._state == "closed":
            self.close()
            return
        try:
            with scheduler.lock:
                self.runtime.require_open()
                memory = self._shared_memory()
                self._recordings = Recordings(self.runtime, self._inputs, self._tasks, memory, self._arrays)
        except BaseException:
            self.close()
            raise
        self._state = "recorded"

    def __getitem__(self, name: str) -> Any:
        """What stands for an input in the recording: a tensor, of which views may be taken, or a push constant."""
        return self._inputs[name]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The inputs that are tensors, as `graph[name]` gives them, in the order of `record`."""
        return self._inputs.tensors

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Tensor:
        """A temporary: a tensor for what this graph records only, and whose content lasts as long as a run.

        It has memory from the first task that uses it, or a view of it, to the last. Temporaries of which no task needs
        both share memory; so the content is arbitrary until something is written.

        Raises:
            TypeError, ValueError: as `Runtime.empty`; or the graph is not being recorded.
        """
        self._require_recording()
        return allocate(self.runtime, self._temporary, shape, dtype)

    def stage_upload(self, array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        """Staging memory for a `Tensor.write`: each run takes what the array holds when it is submitted."""
        self._require_recording()
        return self._arrays.staged(self._arrays.up, shape, dtype, array).buffer

    def stage_download(self, array: Array) -> Buffer:
        """Staging memory for a `Tensor.read`: the array has the result once the run's future is seen to be done."""
        self._require_recording()
        return self._arrays.staged(self._arrays.down, array.shape, array.dtype, array).buffer

    def report(self, n_words: int, land: Callable[[Array], Exception | None]) -> Tensor:
        """A tensor of uint32 for the launch that is recorded next: `land` takes what it holds after each run.

        It is zero before the launch. The size is a multiple of 256 bytes, at which any device binds.
        """
        return self._arrays.staged(self._arrays.reports, (n_words,), np.dtype(np.uint32), land).fill(0)

    def add(self, task: Task) -> Future:
        """Records a task, after the checks of a run with the inputs that were given first."""
        self._check(task)
        self._tasks.append(task.held())
        return self._recorded()

    def _check(self, task: Task) -> None:
        self._require_recording()
        for buffer in task.buffers:
            if isinstance(buffer, Placeholder) and buffer.owner is not self._owner:
                raise ValueError(f"{buffer.what} is used in another graph's recording; copy it to a tensor in its own")
        task.rebased(*self._defaults).check()

    def _recorded(self) -> Future:
        """The future of the newest task, which has no moment of its own."""
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

    def _shared_memory(self) -> Places:
        """Where the temporaries are, by the first and the last task that use them."""
        used: dict[Buffer, tuple[int, int]] = {}
        for number, task in enumerate(self._tasks):
            for buffer in task.buffers:
                used[buffer] = used.get(buffer, (number, number))[0], number
        alive = [buffer for buffer in self._temporaries if buffer in used]
        for pairs in self._arrays.lists:  # what used the others could not be recorded
            pairs[:] = [pair for pair in pairs if pair[0].buffer in used]
        device = self.runtime.device
        offsets, nbytes = assign_offsets([(*used[buffer], buffer.nbytes) for buffer in alive], device.memory.align)
        if not alive:
            return {}
        memory = device.buffer(nbytes)
        return {buffer: (memory, offset) for buffer, offset in zip(alive, offsets, strict=True)}

    # -- running ------------------------------------------------------------------------------------------------------

    def submit(self, times: int = 1, **inputs: Any) -> Future:
        """Starts the recorded work, `times` times in a row; returns at once.

        The first submit of several runs waits for one of them, to learn how long it takes: runs are cut into submits
        that stay within the runtime's `submit_limit_s`, and the future is that of the last.

        With arrays of the host, it waits where three submits with the same inputs are pending, for the first of them.

        Args:
            inputs: in place of those that `record` was given, for these runs only.

        Raises:
            ValueError: the graph is still being recorded, `times` is not positive, or an input does not fit.
            TypeError: an input is unknown or of another type.
            ClosedError: it is closed, or its recording failed.
        """
        self._ready()
        if not isinstance(times, int) or not 1 <= times <= _MOST_RUNS:
            raise ValueError(f"a graph runs 1 to {_MOST_RUNS} times in a row; got times={times!r}")
        scheduler = self.runtime.scheduler
        if scheduler.n_recordings and (outer := recording_graph(scheduler)) is not None:
            return self._append_to(outer, times, inputs)
        if not self._arrays.used:
            return self._replay(times, inputs)
        for _ in range(times - 1 if self._arrays.reports else 0):  # what a run reports is seen before the next one
            self._submit_with_arrays(1, inputs).result()
        return self._submit_with_arrays(1 if self._arrays.reports else times, inputs)

    def _submit_with_arrays(self, times: int, inputs: Mapping[str, Any]) -> Future:
        self.runtime.require_open()  # in a forked child, the lock may be held by a thread that is not there
        with self._arrays.sending:
            with self.runtime.scheduler.lock:
                recording = self._ready().choose(inputs)
            staging = recording.staging
            assert staging is not None
            self._arrays.send(staging)
            run = self._arrays.launch(staging, lambda: self._replay(times, inputs, recording))
            return self._arrays.expect(staging, run)

    def _replay(self, times: int, inputs: Mapping[str, Any], recording: GraphRecording | None = None) -> Future:
        """Starts runs. Of several it waits for the first, where submits have a limit and it has not done so before.

        Args:
            recording: the one for `inputs` whose staging memory is filled, where there are arrays.
        """
        if times > 1 and not self._has_run:
            self._replay(1, inputs, recording).result()  # without the device's lock: other threads go on
            self._has_run = True
            times -= 1
        with self.runtime.scheduler.lock:  # against a close() on another thread, which is looked for again
            recordings = self._ready()
            recording = recording or (recordings.choose(inputs) if inputs else recordings.first)
            return recordings.replay(recording, times)

    def run(self, times: int = 1, *, until: Tensor | None = None, every: int | None = None, **inputs: Any) -> int:
        """Runs the recorded work, `times` times in a row, and waits for it; gives the number of runs made.

        Args:
            until: a tensor of one element, bool, int32 or uint32: runs end when it is not zero. It is looked at after
                each `every` runs, while the next `every` are on their way; so up to 2 * every - 1 runs may follow the
                one that sets it, and what is recorded must do no harm in them.
            every: how many runs are one submit; for `until`, 16 where it is not given.
            inputs: as for `submit`.

        Raises:
            as `submit`, and ValueError, TypeError for a flag that is none.
        """
        if until is not None:
            return self._run_until(until, times, 16 if every is None else every, inputs)
        if every is not None:
            raise ValueError(f"every={every!r} tells how often to look at `until`; give that too, or leave both out")
        future, scheduler = self.submit(times, **inputs), self.runtime.scheduler
        if not scheduler.n_recordings or scheduler.recording() is None:
            future.result()
        return times

    def _run_until(self, until: Tensor, times: int, every: int, inputs: Mapping[str, Any]) -> int:
        self.runtime.scheduler.refuse_recording("run(until=…) of a graph", "give the number of runs alone")
        if not isinstance(until, Tensor) or until.dtype.name not in ("bool", "int32", "uint32"):
            raise TypeError(f"until is a tensor of bool, int32 or uint32; got {until!r}")
        if until.size != 1 or until.runtime is not self.runtime or isinstance(until.buffer, Placeholder):
            raise ValueError(f"until is a tensor of one element in memory of {self.runtime.device}; got {until!r}")
        if not isinstance(every, int) or not isinstance(times, int) or min(times, every) < 1:
            raise ValueError(f"times and every are ints from 1; got times={times!r}, every={every!r}")
        made, flying = 0, deque[tuple[Future, Tensor]]()
        while made < times:
            n = min(every, times - made)
            run = self.submit(n, **inputs)
            made += n
            seen = empty(self.runtime, until.shape, until.dtype)
            seen.copy_from(until).point()  # submitted, or it would go with the next runs, and be finished with them
            flying.append((run, seen))
            if len(flying) > 1:
                first, flag = flying.popleft()
                first.result()
                if flag:
                    break
        for run, _ in flying:
            run.result()
        return made

    def _append_to(self, outer: Graph, times: int, given: Mapping[str, Any]) -> Future:
        """Records the work into another graph."""
        if self._arrays.reports and times > 1:  # of which each has its own
            return [self._append_to(outer, 1, given) for _ in range(times)][-1]
        self._inputs.key(given)
        places, values = self._inputs.resolved(given)
        for buffer in self._temporaries:
            places[buffer] = outer._temporary(buffer.used_bytes), 0
        for mine, theirs in zip(self._arrays.lists, outer._arrays.lists, strict=True):
            for tensor, array in mine:
                places[tensor.buffer] = outer._arrays.staged(theirs, tensor.shape, tensor.dtype, array).buffer, 0
        tasks = [task.rebased(places, values) for task in self._tasks]
        for task in tasks:  # before one is added: all of them are, or none
            outer._check(task)
        outer._tasks += tasks * times
        return outer._recorded()

    def _ready(self) -> Recordings:
        if (recordings := self._recordings) is not None:
            return recordings
        if self._state == "closed":
            raise ClosedError("this graph is closed, or its recording failed; record a new one")
        raise ValueError("the graph is still being recorded; run it after the `with` block")

    def close(self) -> None:
        """Lets go of what the graph holds, once no run of it is pending."""
        self._state = "closed"
        recordings, self._recordings = self._recordings, None
        if recordings is not None:
            recordings.close()
        self._tasks, self._temporaries = [], []

    def __repr__(self) -> str:
        return f"<graph of {len(self._tasks)} tasks, {self._state}>"


def temporary(context: Context, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Tensor:
    """Makes a tensor with arbitrary content: a temporary of the graph that is being recorded, if one is."""
    graph = recording_graph(context.scheduler)
    return empty(context, shape, dtype) if graph is None else graph.empty(shape, dtype)


def recording_graph(scheduler: Scheduler) -> Graph | None:
    """The graph that records what is launched here, if any."""
    recorder = scheduler.recording()
    return recorder if isinstance(recorder, Graph) else None
