"""The runtime: an open device, and the factory of everything on it."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Protocol, overload

import numpy as np
import numpy.typing as npt

from vkcompute import deferred_calls, dtypes
from vkcompute.core import cpu_fallback
from vkcompute.core.device import Device
from vkcompute.core.instance import Instance
from vkcompute.core.interrupts import Guarded
from vkcompute.core.lifetime import forked_error, process_id
from vkcompute.core.physical import PhysicalDevice, choose, enumerate_devices
from vkcompute.core.quirks import quirks_of
from vkcompute.errors import ClosedError, KernelError, VulkanError, end_other_threads, warn_caller
from vkcompute.locks import Rank
from vkcompute.representation import html_facts, nbytes
from vkcompute.runtime.devices import DeviceInfo
from vkcompute.runtime.graphs.graph import Graph, recording_graph
from vkcompute.runtime.launching import program
from vkcompute.runtime.launching.kernel import Kernel, specialized_kernel
from vkcompute.runtime.launching.reloading import ReloadingKernel
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.memory.context import Context, contexts, register
from vkcompute.runtime.memory.host_data import HostArray, host_array
from vkcompute.runtime.profiling.profile import Profile
from vkcompute.runtime.scheduling import current
from vkcompute.runtime.scheduling.residency import MemoryInfo
from vkcompute.runtime.streams import stream as streaming
from vkcompute.runtime.tuning import tuning_of

_ALL = 1 << 30, 1 << 30  # queues
_parent = 0  # the process that forked this one with a device open


class Runtime(Context):
    """An open device.

    Attributes:
        device: the device.

    Args:
        device: an index, part of a name, "cpu" or "gpu" for the best of these, one of `vc.devices()`, or None for the
            best of all; `VKCOMPUTE_DEVICE` replaces None. A CPU that nobody asked for gives a `CPUFallbackWarning`.
        features: names of Vulkan features that the device must have; its other useful ones are enabled anyway.
        allow_cpu: True accepts a software device.
        memory_limit_bytes: the most device memory to allocate. While it is full, the least recently used arrays are on
            the host, which one SpillWarning tells. Staging memory for their moves may exceed it.
        spill_limit_bytes: the most host memory for these arrays; beyond it, allocations raise OutOfDeviceMemory. None
            is `VKCOMPUTE_SPILL_LIMIT_BYTES`, or half of the memory that the machine or container has. They also leave a
            sixteenth of it, or 512 MiB, to other programs.
        queues: the most compute queues, or (compute, transfer) queues, to use; or "all". None uses up to four and two,
            without transfer queues if device and host share their memory.
        submit_limit_s: the time that one submit may take: desktops kill work that occupies their GPU for seconds (2 on
            Windows), and the device is lost. Costs are learned from earlier submits. Fewer launches or runs of a graph
            share one then, and a launch or run that takes too long is split, between workgroups at the finest. "auto"
            is 0.5, and None, which is no limit, on CPUs.
        robust: True lets the driver check each access of a kernel to a buffer, so that one beyond an array spares
            others. It enables robustBufferAccess, and robustBufferAccess2 where the device has it. The former alone
            permits writes elsewhere in the same block of memory. SwiftShader discards them, except for atomic
            operations. None checks where that costs less than 2 %, on lavapipe. On SwiftShader, kernels that mostly
            load and store take 9 to 15 % longer. Kernels in Python have `check_bounds`, which reports the index.

    Raises:
        NoDevice: none is suitable; the message gives the reasons for each.
        MissingFeature: the device lacks one of `features`.
        ClosedError: a device was open when the parent forked this process, which few drivers survive.

    `scheduler`, `transfers` and `plans` are internal and may change.
    """

    def __init__(
        self,
        device: int | str | DeviceInfo | None = None,
        *,
        features: Collection[str] = (),
        allow_cpu: bool = True,
        memory_limit_bytes: int | None = None,
        spill_limit_bytes: int | None = None,
        queues: int | tuple[int, int] | str | None = None,
        submit_limit_s: float | str | None = "auto",
        robust: bool | None = None,
    ) -> None:
        if memory_limit_bytes is not None and (not isinstance(memory_limit_bytes, int) or memory_limit_bytes <= 0):
            raise ValueError(f"memory_limit_bytes is a positive int or None; got {memory_limit_bytes!r}")
        spill_limit = _spill_limit(spill_limit_bytes)
        most = None if queues is None else _queue_counts(queues)
        with ExitStack() as undo:
            self._instance = undo.enter_context(Instance())
            devices, environment = enumerate_devices(self._instance), os.environ.get("VKCOMPUTE_DEVICE")
            wanted = device.index if isinstance(device, DeviceInfo) else device
            physical = choose(devices, wanted, environment=environment, allow_cpu=allow_cpu)
            if wanted is None and not environment:
                cpu_fallback.warn_once(physical, devices)
            if _parent:
                if not quirks_of(physical).survives_forks:
                    raise forked_error(f"the driver of {physical.name}", _parent)
                _skip_exit_handlers()
            opened = undo.enter_context(
                Device(
                    physical,
                    require=features,
                    robust=quirks_of(physical).checks_are_free if robust is None else robust,
                    queues=most,
                    memory_limit_bytes=memory_limit_bytes,
                )
            )
            super().__init__(opened, _limit_s(submit_limit_s, physical))
            self.scheduler.residency.spill_limit_bytes = spill_limit
            undo.pop_all()
        self._opened()
        register(self)

    def __enter__(self) -> Runtime:
        super().__enter__()
        current.enter(self)
        return self

    def memory(self) -> MemoryInfo:
        """Returns the bytes of device memory that are used, free, spilled to the host, and pooled; and the peak."""
        self.require_open()
        with self.device.lock:
            return self.scheduler.residency.memory()

    def trim(self) -> None:
        """Frees device memory that is kept for later results, for other programs. Waits for the work that uses it."""
        self.require_open()
        with self.device.lock:
            self.device.memory.trim()

    # -- arrays ------------------------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
        """Returns an array with arbitrary content.

        Raises:
            OutOfDeviceMemory: it does not fit.
            TypeError: the dtype is not supported.
            ValueError: a length is negative.
        """
        return empty(self, shape, dtype)

    def array(self, data: npt.ArrayLike | Array, dtype: npt.DTypeLike | None = None) -> Array:
        """Returns an array with a copy of `data`: a NumPy array, nested sequences, or a device array (of any runtime).

        The default dtype is that of the data. Python floats become float32, the default of `zeros`, and ints int64. In
        a function by `vc.graph`, each call begins with the data of the first one.
        """
        graph = recording_graph(self.scheduler) if self.scheduler.recordings else None
        if graph is not None and graph.function is not None:
            if isinstance(data, Array) and data.runtime is self:
                return data.copy() if dtype is None else data.astype(dtype)
            return graph.constant(lambda: self.array(data, dtype))
        self.scheduler.refuse_recording("array()", "make arrays before the recording")
        host = host_array(data, dtype)
        result = self.empty(host.shape, host.dtype)
        result.write(host)
        return result

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
        """Returns an array of zeros. The shape is one argument: `zeros((2, 3))`."""
        return self.empty(shape, dtype).fill(0)

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: npt.DTypeLike | None = None) -> Array:
        """Returns an array whose elements are all `value`, by default of the dtype that `array(value)` has."""
        return self.empty(shape, host_array(value).dtype if dtype is None else dtype).fill(value)

    # -- kernels ------------------------------------------------------------------------------------------------------

    @overload
    def kernel(
        self,
        source: program.Source,
        *,
        name: str | None = None,
        constants: Mapping[int | str, Any] | None = None,
        entry_point: str | None = None,
        check_types: bool = True,
        reload: Literal[False] = False,
    ) -> Kernel: ...

    @overload
    def kernel(
        self,
        source: program.Source,
        *,
        name: str | None = None,
        constants: Mapping[int | str, Any] | None = None,
        entry_point: str | None = None,
        check_types: bool = True,
        reload: Literal[True],
    ) -> ReloadingKernel: ...

    def kernel(
        self,
        source: program.Source,
        *,
        name: str | None = None,
        constants: Mapping[int | str, Any] | None = None,
        entry_point: str | None = None,
        check_types: bool = True,
        reload: bool = False,
    ) -> Kernel | ReloadingKernel:
        """Returns a kernel compiled for this device; equal arguments give the same one, of the newest 1,024.

        Args:
            source: a built-in's name, a path to a .comp or .spv file, or SPIR-V bytes, as from `vc.glsl(source)`.
            name: for messages and profiles; by default the built-in's or the file's, or a checksum of the bytes.
            constants: specialization constants by name or id.
            entry_point: required if the SPIR-V has several.
            check_types: True requires that an array has the dtype that its binding declares.
            reload: True, for a path, looks at the file and its includes before each launch, and compiles them again if
                they have changed. It is for development: a launch takes longer, and an error is raised by the launch.

        Raises:
            SpirvError, CompileError: the source is invalid.
            MissingFeature: the device lacks a feature that it requires.
            ValueError: there is no built-in or specialization constant of this name; a constant does not fit its type,
                or makes a local size beyond the device's limits.
        """
        self.require_open()
        if constants is not None and not isinstance(constants, Mapping):
            raise TypeError(f"constants is a dict of names or ids to values; got {type(constants).__name__}")
        if reload:
            if not isinstance(source, (str, os.PathLike)) or Path(source).suffix not in (".comp", ".spv"):
                raise ValueError(f"reload=True is for a path to a .comp or .spv file; got {str(source)[:80]!r}")
            options = {"name": name, "constants": constants, "entry_point": entry_point, "check_types": check_types}
            return ReloadingKernel(Path(source), partial(self.kernel, source, **options))
        loaded = program.load(source, entry_point, name)
        return specialized_kernel(self, loaded, constants or {}, entry_point, check_types=check_types)

    def record(self, **inputs: Any) -> Graph:
        """Returns a graph to record: `with runtime.record(x=array, rate=0.1) as graph: …`, then `graph.run()`.

        Args:
            inputs: arrays, and values of push constants, that may be replaced for a run. The recorded work uses
                `graph["x"]`; `graph.run(x=other)` runs with another array.

        Raises:
            TypeError, ValueError: an input is no device array, number or NumPy array, or not acceptable.
        """
        return Graph(self, inputs)

    def recording(self) -> Graph | None:
        """Returns the graph that records what this thread launches, also for a function by `vc.graph`; or None."""
        return recording_graph(self.scheduler)

    def stream(
        self,
        source: streaming.Source,
        work: streaming.Work,
        sink: streaming.Sink | Sequence[streaming.Sink] | None = None,
        *,
        outputs: Any = None,
        depth: int = streaming.DEPTH,
        chunk_bytes: int = streaming.CHUNK_BYTES,
        halo: int | tuple[int, int] = 0,
        edge: float | str = "nearest",
        progress: streaming.Progress | bool | None = None,
    ) -> int:
        """Processes host data of any size in chunks of rows, with uploads, work and downloads at the same time.

        Args:
            source: an array (memory-mapped, say), or a tuple of arrays of one length, split along the first axis. Or an
                iterable of chunks, each an array or a tuple of arrays, that differ only in length. An array without
                axes is one row. A chunk from an iterable may be overwritten once the next one is requested.
            work: a kernel, or a function that launches work: called for each chunk with one contiguous array per
                source, then one per sink, of the chunk's length and in order. It may use them until the chunk is done.
                A function stores its results in the arrays of the sinks, or returns an array for each.
                Or a graph with inputs for these arrays, by `record(x=x, out=out)`; chunks then have their length.
            sink: an array of the source's length, filled in order, or a function called in order with (rows: slice,
                array), which may keep the array. A tuple for several; None if work keeps its results on the device.
                An array may be the source itself.
            outputs: the dtype of a function's rows if it differs from the first source's, with a shape as in numpy:
                `("float32", (3,))`. For a tuple of sinks a tuple, with None for arrays.
            depth: the most chunks that have been read and are not done.
            chunk_bytes: of the widest array per chunk, if arrays are split; at least a row, at most a binding.
            halo: rows of the sources before and after each chunk that work gets, too, as for filters: an int, or
                (before, after). Its arrays of sources are longer than those of sinks by both.
            edge: the rows beyond both ends of the sources: "nearest" for the first and the last one, or a number.
            progress: called after each chunk with (rows done, all rows, or None for an iterable); True draws a bar.

        Returns:
            the number of rows, once every chunk is done.

        Raises:
            ValueError: lengths differ, chunks differ in more than length, an array sink overlaps a source partly, or
                at all with a halo.
            TypeError: an argument is not a numpy array or not callable, or a dtype is not supported.
            OutOfDeviceMemory: `depth` chunks do not fit.

        Errors of source, work, sink and progress, and Ctrl-C, are raised unchanged after all launched work has finished
        and the arrays are freed. A note on the error names the chunk and its rows (before Python 3.11, its cause).
        """
        return streaming.stream(self, source, work, sink, outputs, depth, chunk_bytes, halo, edge, progress)

    def profile(self) -> Profile:
        """Returns a profile, which measures the tasks launched in `with runtime.profile() as profile: …`."""
        return Profile(self)

    def _destroy(self) -> None:
        for kept in (self.plans, self._kernels, self._cache):
            kept.clear()
        # There is no work left on a lost device, or on one that the garbage collector has finalized.
        if not self.device.closed and not self.scheduler.failed:
            try:
                self.transfers.finish()
                self.scheduler.wait()  # after Ctrl-C, a second close() waits for the rest
            except VulkanError:
                pass
            except Exception as error:  # not reported to a caller before, as an index that is out of range
                name = "" if isinstance(error, KernelError) else f"{type(error).__name__}: "
                warn_caller(f"{name}{error}", RuntimeWarning)
        with ExitStack() as last:
            last.callback(self._instance.close)
            last.callback(self.device.close)
            last.callback(self.transfers.close)
            last.callback(self.scheduler.close, ClosedError("the runtime is closed; open a new one"))

    def __repr__(self) -> str:
        return f"<runtime on {self.device}{'' if self._open else ', closed'}>"

    def _repr_html_(self) -> str:
        if not self._open or self.inherited:
            return html_facts("Runtime, closed", [("device", self.device)])
        physical = self.device.physical
        facts: list[tuple[str, object]] = [
            ("device", f"[{physical.index}] {physical.name}, {physical.kind}"),
            ("driver", f"{physical.driver}, Vulkan {'.'.join(map(str, physical.api_version))}"),
            ("queues", ", ".join(f"{queue.index} ({queue.role})" for queue in self.device.queues)),
            ("kernels take", ", ".join(dtypes.kernel_dtypes(physical.features))),
        ]
        allocated, total = sum(block.nbytes for block in self.device.memory.blocks), physical.memory_nbytes
        return html_facts("Runtime", [*facts, ("memory", f"{nbytes(allocated)} allocated of {nbytes(total)}")])


def _queue_counts(given: Any) -> tuple[int, int]:
    """The most (compute, transfer) queues."""
    if isinstance(given, str) and given == "all":
        return _ALL
    counts = given if isinstance(given, tuple) else (given, 0)
    if len(counts) != 2 or not all(isinstance(n, int) and n >= 0 for n in counts) or counts[0] < 1:
        raise ValueError(f'queues is an int from 1, or (compute from 1, transfer from 0), or "all"; got {given!r}')
    return counts


def _limit_s(given: float | str | None, physical: PhysicalDevice) -> float | None:
    if given == "auto":
        return tuning_of(physical).submit_limit_s
    if given is not None and (isinstance(given, str) or not given > 0):
        raise ValueError(f'submit_limit_s is a positive number of seconds, "auto" or None; got {given!r}')
    return given


def _spill_limit(given: int | None) -> int | None:
    """Returns the limit of host memory for spilled arrays, in bytes; None if neither program nor user sets it."""
    name: str = "spill_limit_bytes"
    text = os.environ.get("VKCOMPUTE_SPILL_LIMIT_BYTES", "") if given is None else ""
    if text:
        name, given = "VKCOMPUTE_SPILL_LIMIT_BYTES", int(text) if text.isascii() and text.isdigit() else -1
    if given is not None and (type(given) is not int or given < 0):
        raise ValueError(
            f"{name} is a number of bytes, 0 or more; got {text or given!r}; leave it out for half of the host's memory"
        )
    return given


_default: list[Runtime] = []
_opening = Guarded(Rank.OPENING)


def default_runtime() -> Runtime:
    """Returns the default runtime: the one that was set, or one opened on first use, and again after a close or a fork.

    New arrays, and launches without arrays, are on the runtime of the innermost `with` on a runtime or its recording.
    Outside of these, they are on the only one that is open, else on the default one.
    """
    if (known := _default[:]) and known[0]._open and known[0]._pid == process_id[0]:  # as below, in no call
        return known[0]
    with _opening.lock:
        if not _default or _default[0].closed or _default[0].inherited:
            _default[:] = [Runtime()]
        runtime = _default[0]
    if deferred_calls.waiting:
        deferred_calls.run()
    return runtime


def set_default_runtime(runtime: Runtime | None) -> None:
    """Sets the runtime that `default_runtime()` returns until it is closed; None for one opened on first use.

    Raises:
        TypeError: it is no runtime.
        ClosedError: it is closed.
    """
    if runtime is not None:
        if not isinstance(runtime, Runtime):
            raise TypeError(f"the default is a Runtime, as vc.Runtime() opens one, or None; got {runtime!r}")
        runtime.require_open()
    with _opening.lock:
        _default[:] = [] if runtime is None else [runtime]


def current_runtime(operand: _Holder | None = None) -> Runtime:
    """Returns the runtime of what is made without one.

    It is the runtime of the innermost `with` on a runtime or its recording. Outside of these, it is that of the
    operand, else the only open one, else the default one.
    """
    entered = current.innermost()
    if entered is None and operand is not None:
        return runtime_of(operand)
    if entered is None:
        usable = _usable()
        if len(usable) > 1 and not set(_default).intersection(usable):
            gc.collect()  # frees those that nobody holds any more, as after a notebook's cell has run again
            usable = _usable()
        entered = usable[0] if len(usable) == 1 else default_runtime()
    assert isinstance(entered, Runtime)
    return entered


def constant(runtime: Runtime, data: HostArray) -> Array:
    """Returns an array with data that the library has computed; in a recording, each run begins with them."""
    graph = recording_graph(runtime.scheduler) if runtime.scheduler.recordings else None
    if graph is None or graph.function is not None:
        return runtime.array(data)
    return graph.constant(lambda: runtime.array(data))


def _usable() -> list[Runtime]:
    """Returns the open runtimes of this process."""
    return [
        context for context in contexts() if isinstance(context, Runtime) and not (context.closed or context.inherited)
    ]


def _close_all() -> None:
    end_other_threads()
    for runtime in contexts():
        runtime.close()
    deferred_calls.run()


def _abandon_all() -> None:
    """Abandons the parent's runtimes in a forked child, which lacks the driver's threads: nothing may be submitted."""
    global _parent
    _opening.renew_locks()
    error = forked_error("this Runtime", os.getppid())
    for runtime in contexts():
        if isinstance(runtime, Runtime) and runtime._instance.in_use:  # also if it is closed, but has lent memory
            _parent = os.getppid()
        runtime.scheduler.abandon(error)


@cache
def _skip_exit_handlers() -> None:
    """Makes a forked child exit without the C handlers registered so far, with its status and all of its output.

    Mesa's handler joins the threads of all devices (atexit_handler in util/u_queue.c). Those of the parent's do not
    exist in the child, and their memory may have been reused: the child would crash.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)  # the last one registered runs first


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


class _Holder(Protocol):
    @property
    def runtime(self) -> Context: ...


def runtime_of(holder: _Holder) -> Runtime:
    """The runtime of an array or of a kernel."""
    assert isinstance(holder.runtime, Runtime)
    return holder.runtime
