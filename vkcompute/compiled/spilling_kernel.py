"""Kernels whose parameters or arrays exceed the push constants or the bindings of a device."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from itertools import combinations
from typing import Any

import numpy as np

from vkcompute.core.buffer import Buffer
from vkcompute.dtypes import is_record
from vkcompute.ir import ArrayBindings, Pack, Split
from vkcompute.runtime.graphs.aliasing import is_input
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.launching.arguments import (
    MAX_BINDING_SLACK,
    binding_slack,
    first_index,
    needs_strides,
    require_same_runtime,
)
from vkcompute.runtime.launching.kernel import Kernel, on_memory
from vkcompute.runtime.launching.program import Program
from vkcompute.runtime.launching.push_constants import PushConstants
from vkcompute.runtime.launching.statistics import KernelStatistics
from vkcompute.runtime.memory.array import Array, alias
from vkcompute.runtime.memory.window import Window, ranges_overlap, spans_of
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.cost import Grid
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.task import (
    Bindings,
    BufferMap,
    CopyPart,
    Task,
    Update,
    Values,
    copy_region,
    resolve,
    with_values,
)
from vkcompute.spirv.interface import InterfaceBlock

_ALIGN = 64
"""Of the members of a pack, in bytes. Kernels that load whole vectors may read up to the next member."""


class SpillingKernel:
    """A kernel with parameters in a buffer, or with arrays that share a binding or take several.

    A launch writes its parameters by a task of their own, to memory of their own. Arrays in a pack are copied to it
    before the kernel runs, and those that it writes are copied back.

    Args:
        array_bindings: those of the arrays, unless each has one of its own.
        strided: (index of the array, of the parameter with the index of its first element) for each that may be a view.
        in_words: indices of the bindings whose bytes it accesses by words.
        elementwise: True if each invocation reads an element before it writes it, and none that another writes.
        windows: indices of the arrays that are windows, of which none is packed or split.

    Attributes:
        n_arrays: the arguments: first this many arrays, then the parameters.
        writes: indices of the arrays that it writes.
        push: packs the parameters.
    """

    def __init__(
        self,
        runtime: Runtime,
        program: Program,
        array_bindings: ArrayBindings | None,
        strided: Sequence[tuple[int, int]],
        in_words: tuple[int, ...] = (),
        *,
        elementwise: bool = False,
        windows: tuple[int, ...] = (),
    ) -> None:
        bindings = program.interface.bindings
        block = bindings[-1].block if is_spilled(program) else None
        n_bound = len(bindings) - (block is not None)
        n_given, splits, self._packs = array_bindings or ArrayBindings(n_bound, (), ())
        self._splits, self._elementwise = {index: (n, shift) for index, n, shift in splits}, elementwise
        packed = {index: written for pack in self._packs for index, written, _ in pack.members}
        self._shared = [{index for index, *_ in pack.members} for pack in self._packs if pack.in_place]
        owners = [at for at in range(n_given) if at not in packed for _ in range(self._splits.get(at, (1,))[0])]
        n_more = n_bound - len(owners) - len(self._packs)  # buffers for the host, after the packs
        self.n_arrays, self._n_given, self._packed = n_given + n_more, n_given, packed
        self.strided = dict(strided)
        self._views = [(at, push) for at, push in strided if at not in packed and at not in self._splits]
        bound = tuple([(owners.index(at), push) for at, push in self._views])
        if splits:
            self._check_number(runtime, program.name, len(owners) + len(self._packs) + n_more)
        self._kernel = Kernel(
            runtime,
            program,
            (),
            check_types=False,
            strided=bound,
            in_words=in_words,
            windows=tuple(map(owners.index, windows)),
        )
        self.runtime, self.name, self.local_size = runtime, self._kernel.name, self._kernel.local_size
        self._block, self.push = block, self._kernel.push
        if block is not None:
            self.push = self._parameters_of(block)
        written = {owners[at] for at in self._kernel.writes if at < len(owners)}
        self.writes = [at for at in range(n_given) if at in written or packed.get(at)]

    def _check_number(self, runtime: Runtime, name: str, n_buffers: int) -> None:
        device = runtime.device
        most, nbytes = device.physical.limits["maxPerStageDescriptorStorageBuffers"], device.max_binding_bytes
        if n_buffers > most:
            raise ValueError(
                f"{name} has {self._n_given} arrays, with its tables and reports, that take {n_buffers} "
                f"bindings of {nbytes} bytes each; {device} binds {most}; pass parts of the arrays"
            )

    def _parameters_of(self, block: InterfaceBlock) -> PushConstants:
        device = self.runtime.device
        most = device.physical.limits["maxUniformBufferRange"]
        if block.nbytes > most:
            raise ValueError(
                f"{self.name} has {block.nbytes} bytes of numbers and shapes as arguments; {device} takes {most}; pass "
                "numbers in an array"
            )
        return PushConstants(self.name, block)

    def __call__(self, *args: Any, grid: int | Sequence[int] | None = None, queue: int | str | None = None) -> Future:
        """Launches the kernel, as `Kernel.__call__`."""
        arrays, values = args[: self.n_arrays], [*args[self.n_arrays :]]
        self._check(arrays)
        with self.runtime.scheduler.device.lock if self._packs else nullcontext():
            packs = [self._filled(pack, arrays) for pack in self._packs]
            values += [start for pack in packs for start in pack.starts]
            bound = [part for at in range(self._n_given) if at not in self._packed for part in self._parts(at, arrays)]
            bound += [pack.memory for pack in packs] + [*arrays[self._n_given :]]
            if self._block is not None:
                views = [(arrays[at], push) for at, push in self._views]
                bound, values = [*bound, self._parameters(self._block.nbytes, values, views)], []
            future = self._launched([span for pack in packs for span in pack.targets], (*bound, *values), grid, queue)
            for pack in packs:
                pack.copy_back()
        return future

    def _launched(
        self, targets: Sequence[Range], args: tuple[Any, ...], grid: int | Sequence[int] | None, queue: int | str | None
    ) -> Future:
        """Launches the kernel on what is bound.

        It counts as a writer of the memory to which its results are copied. One of these may be a buffer of which the
        host makes an error: then the launch fails with all that it writes. A run of a graph fails as a whole.
        """
        scheduler = self.runtime.scheduler
        if not targets or scheduler.recording() is not None:
            return self._kernel(*args, grid=grid, queue=queue)
        command, writes, reads, launched = self._kernel.launch(args, {}, grid)
        return scheduler.dispatch(command, [*writes, *targets], reads, queue, launched)

    def _filled(self, pack: Pack, arrays: Sequence[Array]) -> _Shared | _Filled:
        """Returns what is bound for a pack."""
        if pack.in_place:
            return _Shared(pack, arrays, self.strided)
        return _Filled(self.name, self.runtime, pack, arrays, self.strided)

    def _parts(self, at: int, arrays: Sequence[Array]) -> list[Array]:
        """Returns what is bound for an array: the array, or its parts."""
        array = arrays[at]
        if at not in self._splits:
            return [array]
        n, shift = self._splits[at]
        buffer, low, high = array.span
        low -= binding_slack(array) if at in self.strided else 0
        dtype = scalar_of(array.dtype)
        itemsize, step = dtype.itemsize, dtype.itemsize << shift
        sizes = [-(-min(step, high - start) // itemsize) for start in range(low, low + n * step, step)]
        return [
            Array(array.runtime, buffer, low + k * step, (max(size, 0),), (itemsize,), dtype)
            for k, size in enumerate(sizes)
        ]

    def _parameters(self, nbytes: int, values: Sequence[Any], views: Sequence[tuple[Array, int]]) -> Array:
        """Returns an array with the parameters of a launch."""
        memory, scheduler = temporary(self.runtime, nbytes, np.uint8), self.runtime.scheduler
        if scheduler.recording() is None:
            scheduler.launch(Update(memory.range, self.push.pack(values, {})))
        else:
            scheduler.launch(_DeferredUpdate(memory.range, self.push, values, views))
        return memory

    def _check(self, arrays: Sequence[Array]) -> None:
        """Raises ValueError if an array in a pack is another runtime's, or a copy of it would not do."""
        for at, written in self._packed.items():
            require_same_runtime(f"array {at} of {self.name}", self.runtime, arrays[at])
            if written:
                arrays[at].refuse_shared()
        if not self._packed or self._elementwise:
            return
        graph = recording_graph(self.runtime.scheduler)
        writes, packed = {*self.writes}, self._packed.keys()
        for one, other in _pairs(arrays[: self._n_given], everything=graph is not None):
            pair = {one, other}
            if not (writes & pair and packed & pair) or any(pair <= group for group in self._shared):
                continue
            if ranges_overlap([spans_of([arrays[at]]) for at in (one, other)]):
                raise ValueError(
                    f"{self.name} has {self._n_given} arrays, with its tables and reports; {self.runtime.device} binds "
                    f"fewer, so that some are copied; array {one} and array {other} share memory, and it writes one of "
                    "them; pass a .copy()"
                )
            if graph is not None:
                graph.require_apart(arrays[one], arrays[other], unless_same=False)

    def check_packs(self, arrays: Sequence[Array]) -> None:
        """Raises ValueError if arrays that share a binding have more bytes than it."""
        for pack in self._packs:
            if not pack.in_place:
                _offsets(self.name, self.runtime, pack, arrays, self.strided)

    def grid(self, arrays: Sequence[Any], grid: int | Sequence[int] | None) -> Grid:
        """Returns the grid of a launch, as `Kernel.grid`; for packed or split arrays it is given."""
        return self._kernel.grid(arrays, grid)

    def statistics(self) -> KernelStatistics:
        """Returns how the driver compiled it, as `Kernel.statistics`."""
        return self._kernel.statistics()

    def assembly(self) -> str:
        """Returns it in the device's assembly language, as `Kernel.assembly`."""
        return self._kernel.assembly()


AnyKernel = Kernel | SpillingKernel
"""A kernel in Python on a device."""


def is_spilled(program: Program) -> bool:
    """True for a kernel in Python whose parameters are in a buffer."""
    bindings = program.interface.bindings
    return bool(bindings) and bindings[-1].kind == "uniform_buffer"


def scalar_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype that kernels load: that of the parts of complex numbers, and words of records."""
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return np.dtype(np.uint32) if is_record(dtype) else dtype


def splits_of(runtime: Runtime, args: Sequence[Any]) -> tuple[Split, ...]:
    """Returns the arrays among the arguments of a launch that take several bindings.

    Raises:
        ValueError: the elements of a view are too far apart for indices of 32 bits.
    """
    most, arrays = runtime.device.max_binding_bytes, [arg for arg in args if type(arg) is Array]
    large = [(at, array) for at, array in enumerate(arrays) if array.span[2] - array.span[1] + MAX_BINDING_SLACK > most]
    sized = [
        (at, scalar_of(array.dtype).itemsize, array.span[2] - array.span[1] + _slack(array)) for at, array in large
    ]
    if too_far := [n for _, size, n in sized if n > size << 32]:
        raise ValueError(
            f"a view in a kernel in Python spans at most 2**32 elements; got one of {max(too_far)} bytes; pass parts "
            "of it, or a .copy()"
        )
    step = 1 << most.bit_length() - 1
    return tuple([(at, -(-n // step), (step // size).bit_length() - 1) for at, size, n in sized if n > most])


def together_of(runtime: Runtime, bindings: ArrayBindings | None, args: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Returns the arrays among the arguments of a launch that are in one buffer, if the kernel has to pack some.

    Inputs of a graph are left out: in a run, they begin elsewhere in a buffer.
    """
    if bindings is None or not bindings.packs:
        return ()
    buffers: dict[int, list[int]] = {}
    arrays = [arg for arg in args if type(arg) is Array]
    for at, array in enumerate(arrays):
        if array.size and not is_input(array.buffer):
            buffers.setdefault(id(array.buffer), []).append(at)
    groups = [tuple(group) for group in buffers.values() if len(group) > 1]
    most = runtime.device.max_binding_bytes - MAX_BINDING_SLACK
    return tuple([group for group in groups if _nbytes_spanned([arrays[at] for at in group]) <= most])


def _nbytes_spanned(arrays: Sequence[Array]) -> int:
    return int(max(array.span[2] for array in arrays) - min(array.span[1] for array in arrays))


def _slack(array: Array) -> int:
    """Returns the bytes that a kernel binds before the elements of an array."""
    return binding_slack(array) if needs_strides(array) else 0


def _pairs(arrays: Sequence[Array], *, everything: bool) -> list[tuple[int, int]]:
    """Returns the pairs of arrays on one buffer whose ranges follow each other without a gap, or all pairs."""
    if everything or any(isinstance(array, Window) for array in arrays):
        return [*combinations(range(len(arrays)), 2)]
    ranges = sorted(
        [(id(buffer), start, stop, at) for at, (buffer, start, stop) in enumerate(array.span for array in arrays)]
    )
    pairs = []
    for n, (buffer, _, stop, at) in enumerate(ranges):
        for its, start, _, other in ranges[n + 1 :]:
            if its != buffer or start >= stop:
                break
            pairs.append((at, other))
    return pairs


def _starts(pack: Pack, arrays: Sequence[Array], strided: dict[int, int], offsets: Sequence[int]) -> list[int]:
    """Returns the index of the first element of each member of a pack, given their offsets in its memory."""
    slacks = [binding_slack(arrays[at]) if at in strided else 0 for at, *_ in pack.members]
    sizes = [nbytes for *_, nbytes in pack.members]
    starts = [offset - slack for offset, slack in zip(offsets, slacks, strict=True)]
    return [start // nbytes & 0xFFFFFFFF for start, nbytes in zip(starts, sizes, strict=True)]


def _offsets(
    name: str, runtime: Runtime, pack: Pack, arrays: Sequence[Array], strided: Collection[int]
) -> tuple[dict[Range, int], int]:
    """Returns where in the memory of a pack each range of its members begins, and the bytes of the memory.

    Raises:
        ValueError: they are more than a binding has.
    """
    offsets: dict[Range, int] = {}
    nbytes = 0
    for at, _, index_bytes in pack.members:
        array = arrays[at]
        if array.span not in offsets:
            before = binding_slack(array) % index_bytes if at in strided else 0  # as where the array begins
            offsets[array.span] = nbytes + before
            nbytes += -(-(array.span[2] - array.span[1] + before) // _ALIGN) * _ALIGN
    most = runtime.device.max_binding_bytes
    if nbytes > most:
        raise ValueError(
            f"{name} has more arrays than {runtime.device} binds, and {len(pack.members)} of them, {nbytes} bytes, "
            f"share a binding of at most {most}; put several in one array"
        )
    return offsets, nbytes


class _Shared:
    """A pack whose members are in one buffer, bound where they are.

    Attributes:
        memory, starts, targets: as of `_Filled`.
    """

    targets: Sequence[Range] = ()

    def __init__(self, pack: Pack, arrays: Sequence[Array], strided: dict[int, int]) -> None:
        members = [arrays[at] for at, *_ in pack.members]
        first = min(members, key=lambda array: array.span[1])
        start = first.span[1] - binding_slack(first)
        nbytes = max(array.span[2] for array in members) - start
        self.memory = Array(first.runtime, first.buffer, start, (nbytes,), (1,), np.dtype(np.uint8))
        self.starts = _starts(pack, arrays, strided, [array.span[1] - start for array in members])

    def copy_back(self) -> None:
        """Does nothing: the kernel has written the members themselves."""


class _Filled:
    """A pack, filled with its members for one launch.

    Attributes:
        memory: its elements.
        starts: per member, the index of its first element.
        targets: the ranges to which results are copied back.
    """

    def __init__(
        self, name: str, runtime: Runtime, pack: Pack, arrays: Sequence[Array], strided: dict[int, int]
    ) -> None:
        self._written = [(arrays[at], written) for at, written, _ in pack.members]
        self.targets: Sequence[Range] = [array.span for array, written in self._written if written and array.size]
        offsets, nbytes = _offsets(name, runtime, pack, arrays, strided)
        self._offsets = [offsets[array.span] for array, _ in self._written]
        self.starts = _starts(pack, arrays, strided, self._offsets)
        self.memory = temporary(runtime, max(nbytes, _ALIGN), np.uint8)
        target = self.memory.buffer
        for source, offset in offsets.items():
            buffer, start, stop = source
            if stop > start:
                runtime.scheduler.restore([buffer, target])
                part = CopyPart(source, copy_region(buffer, start, target, offset, stop - start), 1)
                runtime.scheduler.copy([part], (target, offset, offset + stop - start))

    def copy_back(self) -> None:
        """Copies the members back that the kernel writes."""
        for (array, written), offset in zip(self._written, self._offsets, strict=True):
            if written:
                start = offset + array.offset - array.span[1]
                buffer = self.memory.buffer
                array.copy_from(Array(array.runtime, buffer, start, array.shape, array.strides, array.dtype))


class _DeferredUpdate(Task):
    """The parameters of a launch in a graph, which depend on its inputs: on numbers, and on where a view begins."""

    __slots__ = ("_push", "_values", "_views")

    def __init__(
        self, target: Range, push: PushConstants, values: Sequence[Any], views: Sequence[tuple[Array, int]]
    ) -> None:
        super().__init__((target,), ())
        self._push, self._values, self._views = push, values, views

    @property
    def buffers(self) -> Sequence[Buffer]:
        return [self.writes[0][0], *[array.buffer for array, _ in self._views]]

    def snapshot(self) -> _DeferredUpdate:
        views = [(alias(array), push) for array, push in self._views]
        return _DeferredUpdate(self.writes[0], self._push, self._values, views)

    def rebased(self, buffer_map: BufferMap, values: Values) -> _DeferredUpdate:
        given = with_values(self._values, values)
        views = [(on_memory(array, buffer_map), push) for array, push in self._views]
        for array, push in views:
            given[push] = first_index(array)
        return _DeferredUpdate(resolve(self.writes[0], buffer_map), self._push, given, views)

    def check(self) -> None:
        self._push.pack(self._values, {})

    def resolved(self, buffer_map: BufferMap, bindings: Bindings) -> Task:
        return Update(resolve(self.writes[0], buffer_map), self._push.pack(self._values, {}))
