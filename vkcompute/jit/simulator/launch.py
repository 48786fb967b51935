"""Simulated launches."""

from __future__ import annotations

import concurrent.futures
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import Signature as Parameters
from itertools import combinations
from types import NoneType
from typing import Any

import numpy as np

from vkcompute import dtypes, ir, locks
from vkcompute.compiled.arguments import bound, group_of, kind_of_array, kind_of_number, remedy
from vkcompute.compiled.composites import Forms, all_leaf_names, assembled, flattened
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.errors import KernelError, hides_calls
from vkcompute.frontend.source import Definition
from vkcompute.ir import Memory
from vkcompute.ir.function import Function, walk
from vkcompute.jit.compilation.annotations import annotations_of, annotations_of_leaves, typed
from vkcompute.jit.compilation.build import Rules, Signature, build, kernel_types
from vkcompute.jit.compilation.local_sizes import demand_tiles, tile_misfits
from vkcompute.jit.frontend.values import ArrayValue, Complex, Record
from vkcompute.jit.frontend.values_needed import ValuesNeededError, with_values
from vkcompute.jit.library.ids import SIMULATED
from vkcompute.jit.simulator.invocations import Workgroup
from vkcompute.jit.simulator.machine import Machine
from vkcompute.jit.simulator.recorder import NoteRecorder, type_of
from vkcompute.jit.simulator.rewriter import rewritten
from vkcompute.runtime.launching.launch_config import (
    ONE_INVOCATION,
    LaunchConfig,
    Sizes,
    declared,
    demand_axes,
    grid_over,
)
from vkcompute.runtime.launching.push_constants import demand_fit

_MOST_PRIVATE = 64 << 20
_USUAL_LIMITS = {"maxComputeSharedMemorySize": 32768, "maxComputeWorkGroupInvocations": 1024}
"""Limits of lavapipe, below which hardly any GPU is."""
_lock = locks.make(locks.Rank.SIMULATOR)  # so that launches by several threads on one array are ordered


def _renew_lock() -> None:
    """Replaces the lock in a forked child: a thread that held it does not exist there."""
    global _lock
    _lock = locks.make(locks.Rank.SIMULATOR)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


__tracebackhide__ = hides_calls


class Done(concurrent.futures.Future[None]):
    """The future of a simulated launch, which has completed."""

    def __init__(self) -> None:
        super().__init__()
        self.set_result(None)

    def result(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> None:
        """Returns None immediately."""

    def __await__(self) -> Iterator[None]:
        return iter(())


def simulate(
    definition: Definition,
    parameters: Parameters,
    local_size: tuple[int, int, int] | None,
    config: LaunchConfig,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    *,
    rules: Rules = kernel_types,
) -> Any:
    """Runs a kernel on host arrays; device arrays are downloaded before and uploaded afterwards.

    Args:
        rules: type the numbers of its language.

    Raises:
        KernelError: the function does something that kernels do not support, or that is undefined on a device.
    """
    function, name = definition.function, definition.function.__name__
    forms, args = flattened(bound(name, parameters, args, named))
    if (group := group_of(args)) is not None:
        part = partial(simulate, definition, parameters, local_size, config, rules=rules)
        return group.kernel(lambda *here: part(tuple(assembled(forms, here)), {}))(*args)
    config = declared(name, config, local_size)
    kinds, names = annotations_of(function), [*parameters.parameters]
    kinds = kinds if forms is None else annotations_of_leaves(name, names, kinds, forms)
    given = typed(name, all_leaf_names(names, forms), kinds, args)
    try:
        with _lock:
            _simulated(definition, rules, given, config, forms, is_declared=local_size is not None)
    except RecursionError:
        raise definition.source.too_deep() from None
    return Done()


def _simulated(
    definition: Definition,
    rules: Rules,
    given: list[Any],
    config: LaunchConfig,
    forms: Forms | None,
    *,
    is_declared: bool,
) -> None:
    """Downloads the device arrays, runs the kernel, and uploads what it has written."""
    # There are no device arrays before their module is imported.
    array_class = getattr(sys.modules.get("vkcompute.runtime.memory.array"), "Array", ())
    marks = _marks([arg for arg in given if isinstance(arg, array_class)])
    arrays = on_host(given, array_class)
    signature = tuple(map(_kind, arrays, all_leaf_names(definition.parameters, forms)))
    options = CompileOptions(config.local_size, forms=forms)
    try:
        recorder = _recorded(definition, rules, signature, options)
    except ValuesNeededError as needed:
        signature = with_values(signature, given, needed.positions)
        recorder = _recorded(definition, rules, signature, options)
    ids = recorder.id_axes
    demand_axes(recorder.function.name, config, ids)
    if config.groups is config.local_size is None and not ids.in_group:
        recorder = _recorded(definition, rules, signature, options._replace(local_size=ONE_INVOCATION))
    if not is_declared:
        demand_tiles(tile_misfits(recorder.function, definition), config.groups)
    _check_limits(recorder.function, next((arg for arg in given if isinstance(arg, array_class)), None))
    groups, first = config.groups, recorder.arrays.first_assigned
    if groups is None:
        shape = None if first is None else arrays[first].shape
        function = recorder.function
        groups = grid_over(function.name, shape, function.local_size, ids)
    marked = [_marked(arg, marks) if isinstance(arg, array_class) else None for arg in given]
    with _decoded(recorder.function.name, arrays) as numbers:
        _run(recorder, numbers, groups, marked, forms)
    for position in recorder.arrays.written:
        if isinstance(given[position], array_class):
            given[position].write(arrays[position])
            mark = marks.get(given[position].buffer)
            if mark is not None and not mark.all():
                given[position].buffer.history.written = mark  # the rest is still uninitialized


@contextmanager
def _decoded(name: str, arrays: list[Any]) -> Iterator[list[Any]]:
    """Gives the arguments with float32 in place of floats that numpy lacks, which are rounded back at the end.

    Raises:
        ValueError: such arrays share memory, so that the kernel would see two copies of it.
    """
    small = {at: arg for at, arg in enumerate(arrays) if isinstance(arg, np.ndarray) and dtypes.small_float(arg.dtype)}
    for one, other in combinations(small.values(), 2):
        if np.may_share_memory(one, other):
            raise ValueError(
                f"{name}: arrays of {dtypes.small_float(one.dtype)} that share memory are not simulated; pass copies"
            )
    numbers = [dtypes.numbers_of(arg) if at in small else arg for at, arg in enumerate(arrays)]
    for at, array in small.items():
        numbers[at].flags.writeable = array.flags.writeable
    yield numbers
    for at, array in small.items():
        if array.flags.writeable:
            array[...] = dtypes.host_cast(numbers[at], dtypes.small_float(array.dtype))


def _recorded(definition: Definition, rules: Rules, signature: Signature, options: CompileOptions) -> NoteRecorder:
    try:
        return build(NoteRecorder, definition, signature, options, rules)
    except KernelError as error:
        raise error.with_traceback(None) from None  # the message has the place; the compiler's calls say nothing


def _check_limits(function: Function, array: Any) -> None:
    """Raises ValueError for a kernel that the array's device refuses; without one, a usual device."""
    limits = _USUAL_LIMITS if array is None else array.runtime.device.physical.limits
    device = "a simulated device" if array is None else array.runtime.device
    private = {op.memory for op in walk(function.body) if op.memory is not None and op.memory.private}
    shared = _nbytes(function.shared_memory)
    invocations = 1 if ir.is_divisible(function) else math.prod(function.local_size)
    for n, most, what in (
        (shared, limits["maxComputeSharedMemorySize"], "bytes of shared memory per workgroup; make its arrays smaller"),
        (invocations, limits["maxComputeWorkGroupInvocations"], "invocations per workgroup; start fewer"),
        (_nbytes(private), _most_private(array), "bytes of variables per invocation; make its arrays smaller"),
    ):
        if n > most:
            raise ValueError(f"{function.name} has {n}, and {device} takes {most} {what}")


def _most_private(array: Any) -> int:
    """Returns the most bytes of variables per invocation."""
    if array is None:
        return _MOST_PRIVATE
    from vkcompute.core.quirks import quirks_of  # loads Vulkan

    return quirks_of(array.runtime.device.physical).max_private_nbytes


def _nbytes(memories: Iterable[Memory]) -> int:
    return sum(memory.nbytes for memory in memories)


def _marks(arrays: list[Any]) -> dict[Any, np.ndarray[Any, Any]]:
    """Returns buffer -> mask of the bytes that have been written, for buffers that are not written completely."""
    marks = {}
    for scheduler, buffer in {(array.runtime.scheduler, array.buffer) for array in arrays}:
        with scheduler.device.lock:
            written = scheduler.history(buffer).written
        if written is not True:
            marks[buffer] = np.array(np.broadcast_to(written, buffer.used_bytes))
    return marks


def _marked(array: Any, marks: dict[Any, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    """Returns an array's part of the mask, with a last axis of bytes; None if all of it has been written."""
    written = marks.get(array.buffer)
    if written is None or not array.size:
        return None
    shape, strides = (*array.shape, array.dtype.itemsize), (*array.strides, 1)
    mask: np.ndarray[Any, Any] = np.ndarray(shape, bool, written.data, array.offset, strides)
    return mask


def _run(recorder: NoteRecorder, arrays: list[Any], groups: Sizes, written: list[Any], forms: Forms | None) -> None:
    """Runs a kernel from its notes, workgroup by workgroup."""
    ops, local_size = walk(recorder.function.body), recorder.function.local_size
    is_volatile = any(memory.volatile for memory in recorder.function.shared_memory)
    counts = is_volatile or any(op.operation.active_lanes for op in ops)
    waits = is_volatile or any(op.operation.waits for op in ops)
    machine = Machine(recorder, rewritten, counts=counts)
    for table, array in recorder.tables.items():
        machine.memory.add_array(array.memory.of or array.memory, table.array, None)
    values = assembled(forms, _values(machine, recorder, arrays, written))
    kernel = partial(rewritten(recorder.notes, machine), *values)
    x, y, z = (*groups, 1, 1)[:3]
    token = SIMULATED.set(lambda name, axis: machine.grid.current.builtin(name, axis))
    try:
        with np.errstate(all="ignore"):
            workgroups = machine.grid.groups((x, y, z), local_size)
            if any(op.code == "grid_barrier" for op in ops):
                _run_together(machine, [*workgroups], kernel)
                return
            for group in workgroups:
                machine.memory.enter_group(group)
                group.run(kernel, waits=waits)
    finally:
        SIMULATED.reset(token)


def _run_together(machine: Machine, groups: list[Workgroup], kernel: Callable[[], object]) -> None:
    """Runs the workgroups in turns, from one barrier of the grid to the next."""
    waiting = groups
    try:
        for group in groups:
            group.start(kernel)
        while waiting:
            going = []
            for group in waiting:
                machine.memory.enter_group(group)
                if group.advance():
                    going.append(group)
            waiting = going
            machine.memory.pass_grid_barrier()
    finally:
        for group in groups:
            group.stop()


def on_host(args: list[Any], array_class: Any) -> list[Any]:
    """Returns the arguments with host arrays for device arrays, which share memory as those do.

    Raises:
        ValueError: a graph is being recorded.
    """
    arrays = [arg for arg in args if isinstance(arg, array_class)]
    for array in arrays:
        array.runtime.scheduler.refuse_recording(
            "a simulated launch", "launch it without gpu.record(), or set no VKCOMPUTE_SIMULATE"
        )
    memories = {}
    for buffer in {array.buffer: array for array in arrays}:
        spans = [array.span for array in arrays if array.buffer is buffer]
        start, stop = min(low for _, low, _ in spans), max(high for *_, high in spans)
        whole = array_class(arrays[0].runtime, buffer, start, (stop - start,), (1,), np.dtype(np.uint8))
        memories[buffer] = start, whole.numpy()
    return [_on_memory(arg, *memories[arg.buffer]) if isinstance(arg, array_class) else arg for arg in args]


def _on_memory(array: Any, start: int, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the NumPy array of a device array, on a copy of its buffer's bytes from `start` on."""
    dtype = dtypes.on_host(array.dtype)
    view: np.ndarray[Any, Any] = np.ndarray(array.shape, dtype, memory.data, array.offset - start, array.strides)
    view.flags.writeable = not array.shares_elements
    return view


def _kind(arg: Any, name: str) -> Any:
    """Returns the part of a signature for an argument."""
    if isinstance(arg, np.ndarray) and (small := dtypes.small_float(arg.dtype)):
        return small.name, arg.ndim
    if isinstance(arg, np.ndarray) and dtypes.is_in_kernels(arg.dtype):
        of_array = kind_of_array(arg)
        return (*of_array, True) if _needs_strides(arg, name) else of_array
    if isinstance(arg, np.void) and dtypes.is_record(arg.dtype):
        return arg.dtype, -1
    kind = NoneType if arg is None else kind_of_number(arg)
    if kind is None:
        got = f"{type(arg).__name__} for {name}{remedy(arg, name)}"
        if isinstance(arg, np.ndarray):
            got = f"an array of {arg.dtype} for {name}"
        raise TypeError(f"a simulated kernel takes NumPy arrays, device arrays and numbers; got {got}")
    return kind


def _needs_strides(array: np.ndarray[Any, Any], name: str) -> bool:
    """True for an array that is no contiguous one, and has steps that views of it count.

    Raises:
        ValueError: records whose distance is no multiple of the words that they have.
    """
    step = dtypes.step_bytes(array.dtype)
    if array.flags.c_contiguous or not array.size:
        return False
    is_counted = not any(stride % step for stride in array.strides)
    if not is_counted and array.dtype.kind == "V":
        raise ValueError(f"{name} has records at distances of {array.strides} bytes, no multiples of {step}; copy it")
    return is_counted


def _values(machine: Machine, recorder: NoteRecorder, given: list[Any], written: list[Any]) -> list[Any]:
    """Returns the simulated arguments."""
    values: list[Any] = []
    for position, (parameter, arg) in enumerate(zip(recorder.leaves, given, strict=True)):
        if parameter is None:
            values.append(None)
        elif isinstance(parameter, (int, np.integer)):  # known at compile time
            values.append(machine.constant(parameter))
        elif isinstance(parameter, Complex):
            values.append(machine.as_type(type_of(parameter), arg))
        elif isinstance(parameter, Record):
            values.append(machine.array(parameter, np.array(arg), None))
        elif not isinstance(parameter, ArrayValue):
            for index, dtype in sorted(recorder.numbers.limits):
                if index == parameter.kind.argument:
                    demand_fit(recorder.function.name, recorder.function.pushes[index].name, arg, dtype)
            values.append(machine.as_type(parameter.kind, arg))
        elif position in recorder.arrays.written and not arg.flags.writeable:
            raise ValueError(f"the kernel writes {parameter.name}, and the array given for it is read-only; copy it")
        else:
            values.append(machine.array(parameter, arg, written[position]))
    return values
