"""Kernels: a program on a device, launched on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from vkcompute.core.buffer import Buffer
from vkcompute.core.descriptors import DescriptorSets
from vkcompute.errors import shorten_traceback
from vkcompute.runtime.launching.arguments import Bound, binding_slack, bound_range, first_index, whole_words
from vkcompute.runtime.launching.compiled_program import KINDS, CompiledProgram
from vkcompute.runtime.launching.grid import Grids
from vkcompute.runtime.launching.launch_config import DEFAULT, Launchable, LaunchConfig, grid_remedy, take_keywords
from vkcompute.runtime.launching.program import Program
from vkcompute.runtime.launching.push_constants import PushConstants
from vkcompute.runtime.launching.specialization import specialize
from vkcompute.runtime.launching.statistics import KernelStatistics
from vkcompute.runtime.memory.array import Array, alias
from vkcompute.runtime.memory.context import Context, kernel_of
from vkcompute.runtime.memory.window import Window, spans_of
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.cost import NOTHING, Cost, Costs, Grid
from vkcompute.runtime.scheduling.current import TaskRecorder
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter, Placeholder
from vkcompute.runtime.scheduling.task import Bindings, BufferMap, Dispatch, Task, Values, resolve, with_values

Launch = tuple[tuple[Any, ...], list[Range], list[Range], "tuple[Kernel, DescriptorSets, Cost, tuple[()]]"]


class Kernel(Launchable):
    """A compiled kernel, made by `Runtime.kernel`; `kernel(x, y, out, 2.0)` launches it.

    Attributes:
        name: for messages.
        bindings: those of the arrays, in the order of the arguments.
        local_size: invocations per workgroup along x, y and z.
        n_arrays, push: the arguments: first this many arrays, then the push constants.
        writes, reads: indices of the arrays that it writes and reads.
        program: handles of the pipeline and of its layout, and the number of descriptor sets.
        costs: of its launches.
        strided: index of each array that may be any view -> the push constant with the index of its first element.
        in_words: indices of the arrays whose bytes it accesses by words.
        windows: indices of the bindings of windows.
        binds_more: True if it binds bytes that may belong to other arrays: those beside a view, in words it writes, or
            between the arrays of a window.
        kinds: the supported kinds of bindings.

    `launch`, `packed`, `bound`, `ranges`, `ranges_among`, `sets`, `program`, `push`, `costs`, `strided`, `in_words`,
    `windows` and `binds_more` are internal and may change.
    """

    kinds: tuple[str, ...] = KINDS

    def __init__(
        self,
        runtime: Context,
        program: Program | None = None,
        special: Sequence[tuple[int, bytes]] = (),
        *,
        check_types: bool = True,
        strided: Sequence[tuple[int, int]] = (),
        in_words: tuple[int, ...] = (),
        windows: tuple[int, ...] = (),
    ) -> None:
        if program is None:
            raise TypeError("kernels are made by vc.kernel, of Python functions, or by runtime.kernel(vc.glsl(text))")
        interface = program.interface
        device = runtime.device
        self.runtime, self.name, self.bindings = runtime, program.name, interface.bindings
        self._check_types, self.strided, self.in_words = check_types, dict(strided), in_words
        self.windows = windows
        limit_s = runtime.scheduler.submit_limit_s
        compiled = CompiledProgram(device, program, special, self.kinds, divided=limit_s is not None)
        self._compiled, self.local_size = compiled, compiled.local_size
        self.push = PushConstants(self.name, interface.push_constants)
        self.costs = Costs(limit_s, divisible=compiled.divisible)
        self.program = compiled.pipeline.handle, compiled.layout.handle, compiled.layout.n_sets
        self.n_arrays = len(self.bindings)
        self.writes = [i for i, binding in enumerate(self.bindings) if binding.writes]
        self.reads = [i for i, binding in enumerate(self.bindings) if binding.reads]
        self.binds_more = bool(strided or windows) or not set(in_words).isdisjoint(self.writes)
        self._grids = Grids(self.name, device, self.local_size, self.bindings, program.group_axes)
        self._plans, self._plan_key = runtime.plans, object()  # the cache must not keep the kernel alive

    def __call__(
        self,
        *args: Any,
        grid: int | Sequence[int] | None = None,
        local_size: int | Sequence[int] | None = None,
        queue: int | str | None = None,
        **named: Any,
    ) -> Future:
        """Launches the kernel; returns at once.

        Args:
            args: one contiguous array per binding, ordered by (set, binding); then the push constants, in order, or
                the bytes of their block.
            grid: workgroups along x, y and z. Without it, one invocation per element of the first array that the
                kernel writes.
            local_size: invocations per workgroup, which the shader sets; another size is an error.
            queue: an index into `runtime.device.queues`, or "compute"; without it the scheduler chooses. Not allowed
                while a graph is recorded.
            named: push constants by name.

        Raises:
            TypeError: too few arrays, a dtype other than the binding's, or a value of the wrong type.
            ValueError: an array of another runtime, not contiguous, closed, or larger than a binding may be; a grid
                beyond the device's limits.
        """
        if local_size is not None:
            return self._launch_with(DEFAULT, *args, grid=grid, local_size=local_size, queue=queue, **named)
        scheduler = self.runtime.scheduler
        try:
            if scheduler.recordings and (recorder := scheduler.recording()) is not None:
                return self._record(recorder, args, named, grid, queue)
            command, writes, reads, launched = self.launch(args, named, grid)
            return scheduler.dispatch(command, writes, reads, queue, launched)
        except Exception as error:
            shorten_traceback(error)
            raise

    def _launch_with(self, config: LaunchConfig, *args: Any, **named: Any) -> Future:
        config, named = take_keywords(config, named)
        if config.local_size not in (None, self.local_size):
            raise ValueError(
                f"{self.name} has workgroups of {self.local_size}, as its shader says; got {config.local_size}; leave "
                f"the local size out, or set it by a specialization constant{grid_remedy(config)}"
            )
        return self(*args, grid=config.groups, queue=config.queue, **named)

    def launch(self, args: tuple[Any, ...], named: Mapping[str, Any], grid: int | Sequence[int] | None) -> Launch:
        """Prepares a launch: the arguments of `Scheduler.dispatch` but for the queue."""
        arrays = args[: self.n_arrays]
        try:
            key = self._plan_key, *[array.launch_key for array in arrays]
            plan = self._plans[key]
        except (KeyError, AttributeError, TypeError):
            plan = None
        sets, chosen, cost = plan or self._plan(arrays)  # not above: its errors would show the one of the lookup
        if grid is not None or chosen is None:
            chosen = self.grid(arrays, grid)
            cost = self.costs.of(chosen)
        push = self.packed(args[self.n_arrays :], named)
        if self.binds_more:
            writes, reads = self.ranges(arrays)
        else:
            writes, reads = [arrays[i].span for i in self.writes], [arrays[i].span for i in self.reads]
        return (*self.program, sets.handles, push, len(push), chosen), writes, reads, (self, sets, cost, ())

    def _record(
        self,
        recorder: TaskRecorder,
        args: tuple[Any, ...],
        named: Mapping[str, Any],
        grid: int | Sequence[int] | None,
        queue: int | str | None,
    ) -> Future:
        """Records a launch into a graph."""
        if queue is not None:
            raise ValueError(f"a graph runs as a whole on one queue; leave queue={queue!r} out of what it records")
        arrays, given = args[: self.n_arrays], args[self.n_arrays :]
        late = any(isinstance(value, Parameter) for value in (*given, *named.values()))
        if not late and not any(isinstance(x, Array) and _is_placeholder(x) for x in arrays):
            return recorder.add(Dispatch(*self.launch(args, named, grid)))
        return recorder.add(DeferredDispatch(self, arrays, self.push.in_order(given, named) if named else given, grid))

    def statistics(self) -> KernelStatistics:
        """Returns how the driver compiled the kernel: registers, spills, occupancy, instructions. Launches nothing.

        Raises:
            MissingFeature: the device has no VK_KHR_pipeline_executable_properties.
        """
        self.runtime.require_open()
        return self._compiled.statistics()

    def assembly(self) -> str:
        """Returns the kernel in the device's assembly language. Launches nothing.

        Raises:
            MissingFeature: the device has no VK_KHR_pipeline_executable_properties, or its driver shows no assembly.
        """
        self.runtime.require_open()
        return self._compiled.assembly()

    def packed(self, values: Sequence[Any], named: Mapping[str, Any]) -> bytes:
        """Packs the push constants; returns no bytes if the kernel has none."""
        try:
            return self.push.pack(values, named) if self.push.nbytes or values or named else b""
        except TypeError:
            if any(isinstance(value, Array) for value in values):
                raise TypeError(f"{self.name} takes {self.n_arrays} arrays; got more") from None
            raise

    def _plan(self, arrays: tuple[Any, ...]) -> tuple[DescriptorSets, Grid | None, Cost]:
        """Checks the arrays, and prepares launches on them: descriptor sets, default grid and cost."""
        ranges = self.bound(arrays)
        with self.runtime.scheduler.device.lock:
            self.runtime.require_open()
            self.runtime.scheduler.restore([buffer for buffer, _, _ in ranges])
            sets = self.sets(ranges)
            grid = self._grids.default(arrays)
            plan = sets, grid, NOTHING if grid is None else self.costs.of(grid)
            key = self._plan_key, *[array.launch_key for array in arrays]
            self._plans[key] = plan
        return plan

    def bound(self, arrays: Sequence[Any]) -> list[Bound]:
        """The range of each binding, after the checks of `__call__`."""
        self.runtime.require_open()
        if len(arrays) < self.n_arrays:
            names = ", ".join(binding.name or f"binding {binding.binding}" for binding in self.bindings)
            raise TypeError(f"{self.name} takes {self.n_arrays} arrays ({names}); got {len(arrays)}")
        ranges = []
        for at, (binding, array) in enumerate(zip(self.bindings, arrays, strict=True)):
            strided, in_words = at in self.strided, at in self.in_words
            types = self._check_types
            ranges.append(
                bound_range(
                    self.name, self.runtime, binding, array, check_type=types, strided=strided, in_words=in_words
                )
            )
        return ranges

    def ranges(self, arrays: Sequence[Any]) -> tuple[list[Range], list[Range]]:
        """The bytes that a launch binds to write and to read: of a view from an aligned byte, of words whole ones.

        A window has the range of its first array; those of its others follow the ranges of all bindings.
        """
        spans = [array.span for array in arrays]
        for i in self.strided:
            buffer, start, stop = spans[i]
            spans[i] = buffer, start - binding_slack(arrays[i]), stop
        for i in self.in_words if self.binds_more else ():
            spans[i] = whole_words(spans[i])
        writes, reads = [spans[i] for i in self.writes], [spans[i] for i in self.reads]
        if self.windows:
            writes += self._others(arrays, self.writes)
            reads += self._others(arrays, self.reads)
        return writes, reads

    def ranges_among(self, args: Sequence[Any]) -> tuple[list[Range], list[Range]]:
        """The ranges of a launch with these arguments, which have each array as often as it is bound."""
        return self.ranges([arg for arg in args if isinstance(arg, Array)])

    def _others(self, arrays: Sequence[Any], bound: Sequence[int]) -> list[Range]:
        """Returns the ranges of all but the first array of each window among these bindings."""
        windows = {id(arrays[i]): i for i in bound if i in self.windows}  # some are bound twice
        ranges = [(i in self.in_words, span) for i in windows.values() for span in arrays[i].others]
        return [whole_words(span) if in_words else span for in_words, span in ranges]

    def sets(self, ranges: Sequence[Bound]) -> DescriptorSets:
        """Makes descriptor sets for ranges of buffers that have memory. Requires the device's lock."""
        return DescriptorSets(self._compiled.layout, ranges)

    def grid(self, arrays: Sequence[Any], grid: int | Sequence[int] | None) -> Grid:
        """The grid of a launch on checked arrays; see `Grids.of`."""
        return self._grids.of(arrays, grid)

    def __repr__(self) -> str:
        return f"<kernel {self.name} on {self.runtime.device}>"


def _is_placeholder(array: Array) -> bool:
    return not array.closed and isinstance(array.buffer, Placeholder)


class DeferredDispatch(Task):
    """A launch with placeholders among its arrays or push constants."""

    __slots__ = ("_arrays", "_grid", "_kernel", "_values")

    def __init__(
        self, kernel: Kernel, arrays: Sequence[Any], values: Sequence[Any], grid: int | Sequence[int] | None
    ) -> None:
        written = [array for array in [arrays[i] for i in kernel.writes if i < len(arrays)] if isinstance(array, Array)]
        super().__init__(spans_of(written), ())  # a graph computes the lazy arrays that read these
        self._kernel, self._arrays, self._values, self._grid = kernel, arrays, values, grid

    @property
    def buffers(self) -> Sequence[Buffer]:
        windows = [array for array in self._arrays if isinstance(array, Window)]
        every = [array.buffer for array in self._arrays if isinstance(array, Array)]
        return every + [buffer for window in windows for buffer, _, _ in window.others]

    def snapshot(self) -> DeferredDispatch:
        grid = self._kernel.grid(self._arrays, self._grid)
        arrays = [array if isinstance(array, Window) else alias(array) for array in self._arrays]
        return DeferredDispatch(self._kernel, arrays, self._values, grid)

    def rebased(self, buffer_map: BufferMap, values: Values) -> DeferredDispatch:
        arrays = [on_memory(array, buffer_map) for array in self._arrays]
        given = with_values(self._values, values)
        views = self._kernel.strided.items() if given else ()  # parameters in a buffer are written by another task
        for at, push in views:  # its own buffer may begin elsewhere between aligned bytes
            given[push] = first_index(arrays[at])
        return DeferredDispatch(self._kernel, arrays, given, self._grid)

    def check(self) -> None:
        self._kernel.bound(self._arrays)
        self._kernel.packed(self._values, {})

    def resolved(self, buffer_map: BufferMap, bindings: Bindings) -> Task:
        kernel, arrays = self._kernel, self._arrays
        key = kernel, *[array.launch_key for array in arrays]
        if key not in bindings:
            ranges = []
            for buffer, offset, nbytes in kernel.bound(arrays):
                # Temporaries are checked as separate buffers, before they share memory.
                base, start, _ = resolve((buffer, offset, offset), buffer_map)
                ranges.append((base, start, nbytes))
            writes, reads = ([resolve(span, buffer_map) for span in ranges] for ranges in kernel.ranges(arrays))
            bindings[key] = kernel.sets(ranges), writes, reads
        sets, writes, reads = bindings[key]
        push = kernel.packed(self._values, {})
        grid = cast(Grid, self._grid)  # since `snapshot`
        launched = kernel, sets, kernel.costs.of(grid), ()
        return Dispatch((*kernel.program, sets.handles, push, len(push), grid), writes, reads, launched)


def on_memory(array: Any, buffer_map: BufferMap) -> Any:
    """Returns the array that an array on a placeholder stands for, and anything else unchanged."""
    target = buffer_map.get(array.buffer) if isinstance(array, Array) else None
    if target is None:
        return array
    return Array(array.runtime, target[0], target[1] + array.offset, array.shape, array.strides, array.dtype)


def specialized_kernel(
    context: Context,
    program: Program,
    constants: Mapping[int | str, Any],
    entry_point: str | None,
    *,
    check_types: bool,
) -> Kernel:
    """Returns the kernel of a program for specialization constants, one per context; as of `Runtime.kernel`."""
    special = specialize(program.name, program.interface.spec_constants, constants)
    # SPIR-V alone does not tell int64 from uint64, where pairs of words stand for both.
    key = (program.spirv, program.interface, program.name, entry_point, special, check_types)
    return kernel_of(context, key, lambda: Kernel(context, program, special, check_types=check_types))
