"""Whose turn it is: the workgroups one after the other, and their invocations, which wait for each other."""

from __future__ import annotations

import contextvars
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.jit.simulator.lanes import SUBGROUP_SIZE, together

if TYPE_CHECKING:
    from vkcompute.jit.simulator.machine import Machine

Place = tuple[int, int, int]
Calls = tuple[tuple[CodeType, int, int], ...]
"""Of functions of the kernel's: the code, and the line and the instruction where it is."""


class _Stopped(BaseException):
    """Ends an invocation whose launch has failed."""


class Workgroup:
    """Invocations that share memory and barriers.

    Attributes:
        phase: barriers that have been passed.
    """

    def __init__(self, machine: Machine, place: Place, n_groups: Place, local_size: Place) -> None:
        self.machine, self.place, self.n_groups, self.local_size = machine, place, n_groups, local_size
        self.phase = 0
        self.turn = threading.Semaphore(0)
        self.invocations = [Invocation(self, local) for local in _places(local_size)]

    def run(self, kernel: Callable[[], object], *, waits: bool) -> None:
        """Runs the kernel for each invocation; in threads of their own, one at a time, if they wait for each other."""
        if not waits:
            for each in self.invocations:
                self.machine.current = each
                kernel()
            return
        try:
            for each in self.invocations:
                each.start(kernel)
            while self._step():
                self.phase += 1
        finally:
            for each in self.invocations:
                each.stop()

    def _step(self) -> bool:
        """Lets each go on to a barrier or its end; whether all wait at one barrier."""
        released = self.invocations
        while released:
            for each in released:
                each.go_on()
            released = self._met()
        first = self.invocations[0]
        for each in self.invocations:
            if each.waits_at != first.waits_at:
                raise each.divergence(first) if each.waits_at else first.divergence(each)
        return bool(first.waits_at)

    def _met(self) -> list[Invocation]:
        """Of each subgroup those that have come the least far, with what they compute together."""
        found = []
        for _, lanes in itertools.groupby(self.invocations, lambda each: each.builtin("subgroup_id")):
            waiting = [each for each in lanes if each.asks is not None]
            least = min((each.progress for each in waiting), default=())
            found += _answer([each for each in waiting if each.progress == least])
        return found


def _answer(lanes: list[Invocation]) -> list[Invocation]:
    """Gives these, which wait at one place, their results."""
    asked = {each.builtin("subgroup_local_id"): each.asks[1] for each in lanes if each.asks}
    answers = together(lanes[0].asks[0], asked) if lanes and lanes[0].asks else {}
    for each in lanes:
        each.answer, each.asks = answers.get(each.builtin("subgroup_local_id")), None
    return lanes


class Invocation:
    """One run of the kernel.

    Attributes:
        waits_at: the calls that led to where it waits, the innermost first; empty once it has ended.
        asks: the operation of its subgroup and the arguments for which it waits; None at a barrier.
        answer: its result.
        progress: how far it has come there: of two that wait, the lesser one is behind.
        stopped: whether it is to end at its next operation, as the launch has failed.
        trips: iterations of the loops that it is in, by how deep the call is and the line where they start.
    """

    def __init__(self, group: Workgroup, local: Place) -> None:
        self.group, self.local = group, local
        self.waits_at: Calls = ()
        self.asks: tuple[str, list[Any]] | None = None
        self.answer: Any = None
        self.progress: tuple[tuple[int, ...], ...] = ()
        self.trips: dict[tuple[int, int], int] = {}
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._go_on = threading.Semaphore(0)
        self.stopped = False

    def builtin(self, name: str, axis: int = 0) -> int:
        """An id or a size."""
        group, size = self.group, self.group.local_size
        match name:
            case "n_groups" | "num_groups":
                return group.n_groups[axis]
            case "local_size":
                return size[axis]
            case "group_id":
                return group.place[axis]
            case "local_id":
                return self.local[axis]
            case "local_index":
                return self.local[0] + size[0] * (self.local[1] + size[1] * self.local[2])
            case "subgroup_size":
                return SUBGROUP_SIZE
            case "n_subgroups":
                return -(-len(group.invocations) // SUBGROUP_SIZE)
            case "subgroup_id":
                return self.builtin("local_index") // SUBGROUP_SIZE
            case "subgroup_local_id":
                return self.builtin("local_index") % SUBGROUP_SIZE
        return group.place[axis] * size[axis] + self.local[axis]

    def __str__(self) -> str:
        return f"invocation {tuple(self.builtin('global_id', axis) for axis in range(3))}"

    def start(self, kernel: Callable[[], object]) -> None:
        """Makes the thread; it begins with the first `go_on`."""
        trace = sys.gettrace()

        def work() -> None:
            self._go_on.acquire()
            if trace is not None and sys.gettrace() is None:
                sys.settrace(trace)  # a debugger's
            try:
                with np.errstate(all="ignore"):
                    if not self.stopped:
                        kernel()
            except BaseException as error:
                self._error = None if isinstance(error, _Stopped) else error
            self._thread = None
            self.waits_at = ()
            self.group.turn.release()

        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Runs it until it waits or ends.

        Raises:
            BaseException: whatever the kernel raised.
        """
        if self._thread is not None:
            self.group.machine.current = self
            self._go_on.release()
            self.group.turn.acquire()
            if self._error is not None:
                raise self._error

    def wait(self) -> None:
        """Lets the others come to this place, too."""
        self.waits_at = self.group.machine.calls()
        self.group.turn.release()
        self._go_on.acquire()
        self.check()

    def check(self) -> None:
        """Ends it here if it is to end."""
        if self.stopped:
            raise _Stopped

    def ask(self, name: str, args: list[Any]) -> Any:
        """What the subgroup computes together, of those that come to this place."""
        machine = self.group.machine
        self.asks, self.progress = (name, args), machine.progress()
        self.wait()
        if self.answer is None:
            raise machine.fault(f"this asks for the value of lane {args[1]}, which does not come here, or is none")
        return self.answer

    def divergence(self, other: Invocation) -> KernelError:
        """The error of this one, which waits where the other does not come."""
        where = f"waits at {line_of(other.waits_at[0])}" if other.waits_at else "has ended"
        return self.group.machine.fault(
            f"this barrier is waited at, but {other} of the same workgroup {where}; all of its invocations come to a "
            "barrier together: put loads and stores alone in branches, and barriers after them",
            self,
            self.waits_at,
        )

    def stop(self) -> None:
        """Ends it where it waits."""
        thread, self.stopped = self._thread, True
        if thread is not None:
            self._go_on.release()
            thread.join(1)


def line_of(call: tuple[CodeType, int, int]) -> str:
    """File and line."""
    return f"{call[0].co_filename}:{call[1]}"


def grid(machine: Machine, n_groups: Place, local_size: Place) -> Iterator[Workgroup]:
    """The workgroups in order, along x first."""
    return (Workgroup(machine, place, n_groups, local_size) for place in _places(n_groups))


def _places(sizes: Place) -> Iterator[Place]:
    return ((x, y, z) for z, y, x in itertools.product(*map(range, sizes[::-1])))
