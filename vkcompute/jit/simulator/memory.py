"""Memory of a simulated kernel, with detection of races and of reads of uninitialized elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vkcompute.ir import Memory, Scalar
from vkcompute.ir.types import SmallFloat
from vkcompute.jit.simulator.callstack import Call, line_of
from vkcompute.jit.simulator.invocations import Grid, Invocation, Workgroup

READ, WRITE, ATOMIC = range(3)
_RACES_WITH = {READ: range(3, 9), WRITE: range(9), ATOMIC: range(6)}  # indices
_PAST = {READ: "read", WRITE: "wrote", ATOMIC: "changed (atomically)"}
_PRESENT = {READ: "reads", WRITE: "writes", ATOMIC: "changes (atomically)"}


_UNWRITTEN = {
    True: "nothing has written it since gpu.empty, whose memory is uninitialized: write all of it, or use gpu.zeros",
    False: "no invocation of the workgroup has written it; a shared array is uninitialized: write it first, and put "
    "vc.barrier() in between",
}
"""Error for an uninitialized element of an array argument (True) or of a shared array (False)."""


class Access(NamedTuple):
    """An access by an invocation, and its place in the source.

    Attributes:
        phase: number of barriers that its workgroup had passed.
        released: number of memory fences after which an atomic operation publishes the access.
        warp_phase: number of barriers that its warp had passed.
    """

    invocation: Invocation
    phase: int
    call: Call
    released: int
    warp_phase: int = 0

    def precedes(self, other: Access) -> bool:
        """True if the access is ordered before a later one by barriers, or may be by fences and atomic operations."""
        mine, its = self.invocation, other.invocation
        if mine.group is its.group and self.phase != other.phase:
            return True
        if mine.group is its.group and self.warp_phase < other.warp_phase and mine.warp == its.warp:
            return True
        return its.group.synchronizes and mine.n_fences >= self.released


class ElementAccesses:
    """For each element, the accesses of each kind with which a later one may race.

    Workgroups are simulated one after the other, and within a workgroup the phases between barriers. So of each kind of
    access three are enough: the last one, one by another invocation in the same phase, and one by another workgroup. A
    later access that races with any earlier one races with one of these, unless an invocation has passed a fence.
    """

    def __init__(self) -> None:
        self._elements: dict[int, list[Access | None]] = {}

    def clear(self) -> None:
        """Forgets all accesses."""
        self._elements.clear()

    def add(self, address: int, kind: int, access: Access) -> tuple[int, Access] | None:
        """Records an access; returns the kind of an access with which it races, and that access."""
        kept = self._elements.get(address)
        if kept is None:
            kept = self._elements[address] = [None] * 9  # three of each kind
        me, phase = access.invocation, access.phase
        for at in _RACES_WITH[kind]:
            other = kept[at]
            if other is not None and other.invocation is not me and not other.precedes(access):
                return at // 3, other
        last, beside, elsewhere = kept[3 * kind : 3 * kind + 3]
        if last is not None and last.invocation is not me:
            if last.invocation.group is not me.group:
                beside, elsewhere = None, last
            else:
                beside = last if last.phase == phase else None
        kept[3 * kind : 3 * kind + 3] = access, beside, elsewhere
        return None


class Cells:
    """The elements of an array argument or of a workgroup's shared array.

    Attributes:
        data: the elements; in order unless they are strided.
    """

    def __init__(
        self,
        grid: Grid,
        name: str,
        data: np.ndarray[Any, Any],
        shape: tuple[int, ...],
        history: ElementAccesses | None,
        written: np.ndarray[Any, Any] | None,
        n_axes: int = 1,
        *,
        by_bytes: bool = False,
    ) -> None:
        """Wraps the elements.

        Args:
            history: accesses to all arrays of the launch; None for a shared array.
            written: for each element, or each of its bytes, True if it has been written, shaped as `data`; None if all
                have been.
            n_axes: of the array, whose complex elements have an axis of parts more.
            by_bytes: True if accesses to elements of several types may overlap.
        """
        self.data, self._grid, self._name, self._shape = data, grid, name, shape
        self._history, self._written, self._n_axes = history or ElementAccesses(), written, n_axes
        self._address, self._of_argument = data.ctypes.data if history else 0, history is not None
        self._bytes_recorded = range(data.dtype.itemsize if by_bytes else 1)

    def as_type(self, kind: Scalar) -> Cells:
        """Returns the bytes of these elements as elements of another type."""
        if isinstance(kind, SmallFloat):
            raise self._grid.fault(f"{self._name} is not simulated as {kind}; run the kernel on a device")
        nbytes, data = kind.numpy.itemsize, _bytes_of(self.data)
        n = data.size // nbytes * nbytes
        typed = data[:n].view(kind.numpy)
        written = None if self._written is None else _bytes_of(self._written)[:n].view(bool).reshape(-1, nbytes)
        cells = Cells(self._grid, self._name, typed, typed.shape, self._history, written, 0, by_bytes=True)
        cells._of_argument = self._of_argument
        if not self._of_argument:
            cells._address = 0
        return cells

    def load(self, index: Any) -> Any:
        """Loads an element."""
        return self.data[self._record(int(index), READ)]

    def store(self, index: Any, value: Any) -> None:
        """Stores an element."""
        self.data[self._record(int(index), WRITE)] = value

    def exchange(self, index: Any, change: Callable[[Any], Any]) -> Any:
        """Replaces an element by `change(element)`, atomically; returns the old element."""
        at = self._record(int(index), ATOMIC)
        before = self.data[at]
        self.data[at] = change(before)
        return before

    def _record(self, index: int, kind: int) -> Any:
        """Records an access; returns the index in `data`."""
        grid, written = self._grid, self._written
        at: Any = (index,) if self.data.ndim == 1 else np.unravel_index(index, self._shape)
        if kind == WRITE and written is not None:
            written[at] = True
        calls = grid.stack.calls(1)
        if not calls:  # a debugger reads it
            return at
        if written is not None and not written[at].all():
            raise grid.fault(f"{self._element(index)} is read, and {_UNWRITTEN[self._of_argument]}")
        me = grid.current
        me.group.synchronizes |= kind == ATOMIC
        # A fence comes after a write and before the atomic operation that publishes it, which may itself be the access.
        access = Access(
            me, me.group.phase, calls[0], max(me.n_fences, 1) if kind == ATOMIC else me.n_fences + 1, me.warp_phase
        )
        offset = sum(int(n) * step for n, step in zip(at, self.data.strides, strict=True))
        for byte in self._bytes_recorded:
            race = self._history.add(self._address + offset + byte, kind, access)
            if race is not None:
                raise grid.fault(self._race(index, kind, *race))
        return at

    def _race(self, index: int, kind: int, before: int, access: Access) -> str:
        same = access.invocation.group is self._grid.current.group
        remedy = (
            "put vc.barrier() in between, or use atomic operations, as vc.atomic.add"
            if same
            else "workgroups run in no order: use atomic operations, as vc.atomic.add, or another launch"
        )
        return (
            f"a race: this {_PRESENT[kind]} {self._element(index)}, which {access.invocation} {_PAST[before]} at "
            f"{line_of(access.call)} and nothing orders the two; {remedy}"
        )

    def _element(self, index: int) -> str:
        if not self._n_axes and self._shape:
            return f"byte {index * self.data.dtype.itemsize} of {self._name}"
        along = np.unravel_index(index, self._shape)[: self._n_axes] if self._shape else ()
        return f"{self._name}[{', '.join(map(str, along)) or '()'}]"


def _bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns all bytes from the first to the last of an array, in memory."""
    if not array.size:
        return np.zeros(0, np.uint8)
    array = array.reshape(1) if array.ndim == 0 else array
    forward = array[tuple([slice(None, None, -1 if step < 0 else 1) for step in array.strides])]
    n = sum((length - 1) * step for length, step in zip(forward.shape, forward.strides, strict=True))
    first = np.lib.stride_tricks.as_strided(forward, (1,), (array.itemsize,)).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (n + array.itemsize,), (1,))


class DeviceMemory:
    """The cells of a launch, by memory: those of arguments, and those of the current workgroup's shared arrays.

    Args:
        by_bytes: True if the kernel has records, or views of arrays by type.
    """

    def __init__(self, grid: Grid, *, by_bytes: bool) -> None:
        self._grid, self._history, self._by_bytes = grid, ElementAccesses(), by_bytes
        self._records: set[Memory] = set()
        self._arrays, self._cells = dict[Memory, Cells](), dict[tuple[Memory, Scalar | None], Cells]()
        self._shapes: dict[Memory, tuple[tuple[int, ...], int]] = {}

    def add_array(self, memory: Memory, data: np.ndarray[Any, Any], written: np.ndarray[Any, Any] | None) -> None:
        """Adds an array argument with these elements; `written` as in `Cells`."""
        n_axes = data.ndim
        if data.dtype.kind == "V":  # only parts of records are accessed
            self._records.add(memory)
            self._arrays[memory] = Cells(self._grid, memory.name, data, data.shape, self._history, written, n_axes)
            return
        if data.dtype.kind == "c":  # the parts are a last axis
            data = data[..., np.newaxis].view(memory.element.numpy)
            written = None if written is None else written.reshape(*data.shape, -1)
        shape = data.shape
        if data.flags.c_contiguous:
            data, written = data.reshape(-1), None if written is None else written.reshape(data.size, -1)
        typed = data.view(memory.element.numpy)
        self._arrays[memory] = Cells(
            self._grid, memory.name, typed, shape, self._history, written, n_axes, by_bytes=self._by_bytes
        )

    def add_shared(self, memory: Memory, shape: tuple[int, ...], n_axes: int) -> None:
        """Declares a shared array of this shape; in messages, it has its first axes only."""
        self._shapes[memory] = shape, n_axes

    def fill(self, memory: Memory, value: Any) -> None:
        """Writes all elements of a private array of the current invocation."""
        data = np.full(memory.length or 0, value, memory.element.numpy)
        private = self._grid.current.private
        for view in [key for key in private if key[0] is memory]:
            del private[view]
        private[memory, None] = Cells(self._grid, memory.name, data, data.shape, None, None)

    def enter_group(self, group: Workgroup) -> None:
        """Takes the shared arrays of a workgroup, which are made at their first use."""
        if not group.cells:
            group.cells = {(memory, None): cells for memory, cells in self._arrays.items()}
        self._cells = group.cells

    def pass_grid_barrier(self) -> None:
        """Forgets the accesses to arguments before a barrier of the grid, with which no later one races."""
        self._history.clear()

    def cells(self, memory: Memory) -> Cells:
        """Returns the cells of a memory; shared arrays are uninitialized at first."""
        known = self._grid.current.private if memory.private else self._cells
        base = memory.of or memory
        key = base, None if memory is base and base not in self._records else memory.element
        cells = known.get(key)
        if cells is None and key[1] is None:
            cells = known[key] = self._shared(memory)
        elif cells is None:
            whole = known[base, None] if base in self._records else self.cells(base)
            cells = known[key] = whole.as_type(memory.element)
        return cells

    def _shared(self, memory: Memory) -> Cells:
        data = np.zeros(memory.length or 0, memory.element.numpy)
        unwritten = np.zeros((data.size, data.itemsize), bool)
        shape, n_axes = self._shapes[memory]
        return Cells(self._grid, memory.name, data, shape, None, unwritten, n_axes, by_bytes=self._by_bytes)
