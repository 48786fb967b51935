"""The invocations of a simulated grid: workgroups run in sequence, their invocations one at a time, in turns."""

from __future__ import annotations

import contextvars
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.ir import WARP_SIZE, Memory, Scalar
from vkcompute.jit.simulator.callstack import Calls, CallStack, line_of
from vkcompute.jit.simulator.subgroup import SUBGROUP_SIZE, results

XYZ = tuple[int, int, int]
"""Sizes or an ID along x, y and z."""


class _Stopped(BaseException):
    """Ends an invocation of a launch that has failed."""


class Grid:
    """The invocations of a launch.

    Attributes:
        stack: the call stack of the kernel.
        current: the invocation that runs.
    """

    current: Invocation

    def __init__(self, name: str, stack: CallStack) -> None:
        self.stack, self._name = stack, name

    def groups(self, n_groups: XYZ, local_size: XYZ) -> Iterator[Workgroup]:
        """Yields the workgroups in order, along x first."""
        return (Workgroup(self, group_id, n_groups, local_size) for group_id in _ids(n_groups))

    def check(self) -> None:
        """Ends the current invocation, if there is one, where it must."""
        current = getattr(self, "current", None)
        if current is not None:
            current.check()

    def fault(self, message: str, invocation: Invocation | None = None, calls: Calls | None = None) -> KernelError:
        """Returns an error of an invocation at a place; by default of the current invocation at its current place."""
        who = invocation or self.current
        text = f"{self._name}, {who} of workgroup {who.group.id}: {message}"
        return self.stack.error(text, calls or self.stack.calls())


class Workgroup:
    """Invocations that share memory and barriers.

    Attributes:
        phase: number of barriers passed.
        cells: of its shared arrays.
        synchronizes: True if one of the invocations has changed an element by an atomic operation.
    """

    def __init__(self, grid: Grid, group_id: XYZ, n_groups: XYZ, local_size: XYZ) -> None:
        self.grid, self.id, self.n_groups, self.local_size = grid, group_id, n_groups, local_size
        self.phase, self.synchronizes = 0, False
        self.cells: dict[Any, Any] = {}
        self.turn = threading.Semaphore(0)
        self.invocations = [Invocation(self, local) for local in _ids(local_size)]

    def run(self, kernel: Callable[[], object], *, waits: bool) -> None:
        """Runs the kernel for each invocation. Invocations that wait for each other run in threads, one at a time."""
        if not waits:
            for invocation in self.invocations:
                self.grid.current = invocation
                kernel()
            return
        try:
            self.start(kernel)
            self.advance()
        finally:
            self.stop()

    def start(self, kernel: Callable[[], object]) -> None:
        """Creates the threads of the invocations."""
        for invocation in self.invocations:
            invocation.start(kernel)

    def advance(self) -> bool:
        """Runs the invocations to a barrier of the grid or to their ends; returns True at a barrier."""
        while self._step():
            self.phase += 1
            if any(invocation.waits_for_grid for invocation in self.invocations if not invocation.has_returned):
                return True
        return False

    def stop(self) -> None:
        """Ends the invocations where they wait."""
        for invocation in self.invocations:
            invocation.stop()

    def _step(self) -> bool:
        """Runs each invocation to a barrier or its end. Returns True if those that have not returned wait."""
        released = self.invocations
        while released:
            for invocation in released:
                invocation.resume()
            released = self._synchronized()
        present = [invocation for invocation in self.invocations if not invocation.has_returned]
        total = sum(invocation.addend for invocation in present)
        for invocation in present:
            first = present[0]
            if invocation.waits_at != first.waits_at:
                raise invocation.divergence(first) if invocation.waits_at else first.divergence(invocation)
            invocation.total, invocation.addend = total, 0
        return bool(present) and bool(present[0].waits_at)

    def _synchronized(self) -> list[Invocation]:
        """Performs an operation in each subgroup and warp, for its lanes with the least progress; returns these."""
        performed = []
        for of_warps, size in ((False, SUBGROUP_SIZE), (True, WARP_SIZE)):
            for start in range(0, len(self.invocations), size):
                lanes = self.invocations[start : start + size]
                waiting = [lane for lane in lanes if lane.request and lane.request[0].startswith("warp_") == of_warps]
                least = min((lane.progress for lane in waiting), default=())
                performed += _performed([lane for lane in waiting if lane.progress == least], size)
        return performed


def _performed(lanes: list[Invocation], size: int) -> list[Invocation]:
    """Performs the operation that these lanes of a subgroup or warp wait for, and gives each its result."""
    asked = {lane.builtin("local_index") % size: lane.request[1] for lane in lanes if lane.request}
    after = max((lane.warp_phase for lane in lanes), default=0) + 1
    by_lane = results(lanes[0].request[0], asked) if lanes and lanes[0].request else {}
    for lane in lanes:
        if lane.request is not None and lane.request[0] == "warp_barrier":
            lane.warp_phase = after
        lane.result, lane.request = by_lane.get(lane.builtin("local_index") % size), None
    return lanes


class Invocation:
    """One run of the kernel.

    Attributes:
        waits_at: the calls at which it waits; empty once it has ended.
        request: the subgroup operation for which it waits, and its arguments; None at a barrier.
        result: the result of the operation.
        progress: its progress when it started to wait, as `CallStack.progress`.
        has_returned: True if it has ended by a return, so that no barrier waits for it.
        warp_phase: number of barriers of its warp passed.
        waits_for_grid: True if the barrier where it waits is one of the grid.
        addend, total: its part of a sum over the workgroup, and that sum.
        stopped: True if it must end at its next operation, since the launch has failed.
        n_fences: number of memory fences passed.
        iterations: numbers of iterations of the loops that it is in, by depth of the call and first line.
        private: elements of its private arrays, as their own type (None) and as others.
    """

    def __init__(self, group: Workgroup, local: XYZ) -> None:
        self.group, self.local = group, local
        self.waits_at: Calls = ()
        self.request: tuple[str, list[Any]] | None = None
        self.result: Any = None
        self.progress: tuple[tuple[int, ...], ...] = ()
        self.iterations: dict[tuple[int, int], int] = {}
        self.private: dict[tuple[Memory, Scalar | None], Any] = {}
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._resumed = threading.Semaphore(0)
        self.stopped, self.n_fences, self.has_returned, self.waits_for_grid = False, 0, False, False
        self.addend, self.total, self.warp_phase = 0, 0, 0

    def builtin(self, name: str, axis: int = 0) -> int:
        """Returns a built-in variable: an ID or a size."""
        group, size = self.group, self.group.local_size
        match name:
            case "n_groups" | "num_groups":
                return group.n_groups[axis]
            case "local_size":
                return size[axis]
            case "group_id":
                return group.id[axis]
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
        return group.id[axis] * size[axis] + self.local[axis]

    def __str__(self) -> str:
        return f"invocation {tuple(self.builtin('global_id', axis) for axis in range(3))}"

    def start(self, kernel: Callable[[], object]) -> None:
        """Creates the thread; it runs at the first `resume`."""
        trace = sys.gettrace()

        def work() -> None:
            self._resumed.acquire()
            if trace is not None and sys.gettrace() is None:
                sys.settrace(trace)  # of a debugger
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

    def resume(self) -> None:
        """Runs it until it waits or ends.

        Raises:
            BaseException: the error that the kernel raised.
        """
        if self._thread is not None:
            self.group.grid.current = self
            self._resumed.release()
            self.group.turn.acquire()
            if self._error is not None:
                raise self._error

    def wait(self, *, for_grid: bool = False) -> None:
        """Waits at this place, and lets the others run."""
        self.waits_at, self.waits_for_grid = self.group.grid.stack.calls(), for_grid
        self.group.turn.release()
        self._resumed.acquire()
        self.check()

    def sum(self, value: Any) -> Any:
        """Waits as at a barrier; returns the sum of a uint32 over the invocations that have not returned."""
        self.addend = int(value)
        self.wait()
        return np.uint32(self.total & 0xFFFFFFFF)

    def fence(self) -> None:
        """Passes a memory fence."""
        self.n_fences += 1

    def check(self) -> None:
        """Ends it here if it must."""
        if self.stopped:
            raise _Stopped

    @property
    def warp(self) -> int:
        """The index of its warp."""
        return self.builtin("local_index") // WARP_SIZE

    def exchange(self, name: str, args: list[Any]) -> Any:
        """Performs an operation of a subgroup or a warp with the other lanes that reach this place."""
        grid = self.group.grid
        self.request, self.progress = (name, args), grid.stack.progress(self.iterations)
        self.wait()
        if self.result is None:
            raise grid.fault(f"this reads the value of lane {args[1]}, which is inactive here or does not exist")
        return self.result

    def divergence(self, other: Invocation) -> KernelError:
        """Returns the error for a barrier at which this invocation waits and another one does not."""
        where = f"waits at {line_of(other.waits_at[0])}" if other.waits_at else "has ended"
        return self.group.grid.fault(
            f"this invocation waits at this barrier, but {other} of the same workgroup {where}; all of its invocations "
            "must reach a barrier: put only loads and stores in branches, and barriers after them",
            self,
            self.waits_at,
        )

    def stop(self) -> None:
        """Ends it at the place where it waits."""
        thread, self.stopped = self._thread, True
        if thread is not None:
            self._resumed.release()
            thread.join(1)


def _ids(sizes: XYZ) -> Iterator[XYZ]:
    return ((x, y, z) for z, y, x in itertools.product(*map(range, sizes[::-1])))
