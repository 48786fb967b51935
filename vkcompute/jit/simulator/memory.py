"""The elements of a tensor or of a shared array: who touched them last, and whether anyone has written them."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vkcompute.jit.simulator.invocations import Invocation, line_of

if TYPE_CHECKING:
    from vkcompute.jit.simulator.machine import Machine

READ, WRITE, ATOMIC = range(3)
_RACES_WITH = {READ: range(3, 9), WRITE: range(9), ATOMIC: range(6)}  # where `Touched` keeps the others
_PAST = {READ: "read", WRITE: "wrote", ATOMIC: "changed (atomically)"}
_PRESENT = {READ: "reads", WRITE: "writes", ATOMIC: "changes (atomically)"}


class Access(NamedTuple):
    """Who did it, after how many barriers of its workgroup, and at which file and line."""

    invocation: Invocation
    phase: int
    place: tuple[CodeType, int, int]


class Touched:
    """Of each element, those accesses of each kind that a later one may race with.

    Workgroups are simulated one after the other, and so are what lies between barriers. Of one kind of access it is
    enough to keep the last, one by another invocation between the same barriers, and one by another workgroup: of all
    that came before, a later access races with one of these if it races with any.
    """

    def __init__(self) -> None:
        self._elements: dict[int, list[Access | None]] = {}

    def add(self, address: int, kind: int, access: Access) -> tuple[int, Access] | None:
        """Notes an access; gives the one that it races with, and of which kind that is."""
        kept = self._elements.get(address)
        if kept is None:
            kept = self._elements[address] = [None] * 9  # of each kind three
        me, phase = access.invocation, access.phase
        for at in _RACES_WITH[kind]:
            each = kept[at]
            if each is None or each.invocation is me:
                continue
            if each.invocation.group is not me.group or each.phase == phase:
                return at // 3, each
        last, beside, elsewhere = kept[3 * kind : 3 * kind + 3]
        if last is not None and last.invocation is not me:
            if last.invocation.group is not me.group:
                beside, elsewhere = None, last
            else:
                beside = last if last.phase == phase else None
        kept[3 * kind : 3 * kind + 3] = access, beside, elsewhere
        return None


class Cells:
    """Memory of one launch, or of one workgroup.

    Attributes:
        data: the elements in order.
    """

    def __init__(
        self,
        machine: Machine,
        name: str,
        data: np.ndarray[Any, Any],
        shape: tuple[int, ...],
        touched: Touched | None,
        written: np.ndarray[Any, Any] | None,
    ) -> None:
        """Of a tensor with what its launch has touched, or else of a shared array.

        Args:
            written: for each element, or for its bytes, whether it has been written; None if all have been.
        """
        self.data, self._machine, self._name, self._shape = data, machine, name, shape
        self._touched, self._written = touched or Touched(), written
        self._address = data.ctypes.data if touched else 0

    def load(self, index: Any) -> Any:
        """An element."""
        self._touch(int(index), READ)
        return self.data[int(index)]

    def store(self, index: Any, value: Any) -> None:
        """Writes an element."""
        self._touch(int(index), WRITE)
        self.data[int(index)] = value

    def exchange(self, index: Any) -> Any:
        """An element that is about to be changed in the same step."""
        self._touch(int(index), ATOMIC)
        return self.data[int(index)]

    def _touch(self, index: int, kind: int) -> None:
        machine, written = self._machine, self._written
        if kind == WRITE and written is not None:
            written[index] = True
        calls = machine.calls(1)
        if not calls:  # a debugger looks
            return
        if written is not None and not written[index].all():
            raise machine.fault(
                f"{self._element(index)} is read, and "
                + (
                    "nothing has written it since gpu.empty, which gives memory that holds anything: write all of it "
                    "first, or take gpu.zeros"
                    if self._address
                    else "no invocation of the workgroup has written it; a shared array holds anything at first: "
                    "write it, and put vc.barrier() between"
                )
            )
        access = Access(machine.current, machine.current.group.phase, calls[0])
        found = self._touched.add(self._address + index * self.data.itemsize, kind, access)
        if found is not None:
            raise machine.fault(self._race(index, kind, *found))

    def _race(self, index: int, kind: int, before: int, access: Access) -> str:
        same = access.invocation.group is self._machine.current.group
        remedy = (
            "put vc.barrier() between, or use vc.atomic_add and the like"
            if same
            else "workgroups run in no order: use vc.atomic_add and the like, or another launch"
        )
        return (
            f"a race: this {_PRESENT[kind]} {self._element(index)}, which {access.invocation} {_PAST[before]} at "
            f"{line_of(access.place)} with nothing that orders the two; {remedy}"
        )

    def _element(self, index: int) -> str:
        along = np.unravel_index(index, self._shape) if self._shape else ()
        return f"{self._name}[{', '.join(map(str, along)) or '()'}]"
