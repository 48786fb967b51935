"""Runs workgroups of a function of the intermediate form in Python: barriers, shared memory, atomic operations.

The simulator's invocations wait for each other, and its memory sees races and elements that nothing has written. All
other operations are those of interpreter.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import interpreter
import numpy as np

from vkcompute.errors import KernelError
from vkcompute.ir import Function
from vkcompute.ir.function import Op, walk
from vkcompute.jit.simulator.invocations import Grid
from vkcompute.jit.simulator.memory import DeviceMemory
from vkcompute.jit.simulator.operations import OPERATIONS, State

_SIMULATED = {"load", "store", "length", "atomic", "compare_exchange", "barrier", "workgroup_sum", "fence"}


class _Place(NamedTuple):
    """An operation in the place of a line of source, for messages and for barriers that are told from each other."""

    co_filename: str
    number: int


class _Operations:
    """The call stack of a function without source: the operation that runs."""

    def __init__(self) -> None:
        self.current = _Place("", 0)

    def calls(self, most: int = 1) -> Any:
        """Returns the current place, as calls of one function."""
        return ((self.current, self.current.number, 0),)

    def error(self, message: str, calls: Any) -> KernelError:
        """Returns an error at a place."""
        return KernelError(f"operation {calls[0][1]}: {message}")


class _Invocation(interpreter._Invocation):
    """An invocation whose memory and barriers are the simulator's."""

    def __init__(self, function: Function, arrays: Mapping[str, Any], state: State, pushes: Mapping[str, Any]) -> None:
        me = state.grid.current
        n_invocations = me.group.n_groups[0] * function.local_size[0]
        super().__init__(function, arrays, me.builtin("global_id"), n_invocations, pushes)
        self._state = state
        self._numbers = {op: number for number, op in enumerate(walk(function.body))}

    def _op(self, op: Op, args: tuple[Any, ...]) -> None:
        memory = op.memory
        if op.code not in _SIMULATED or (memory is not None and memory.private):
            super()._op(op, args)
            return
        if memory is not None and args and args[0] < 0:
            raise IndexError(args[0])
        grid: Any = self._state.grid
        grid.stack.current = _Place(grid.stack.current.co_filename, self._numbers[op])
        result = OPERATIONS[op.code](self._state, [*args], op.attribute)
        if op.has_result:
            self._values[op] = result


def run(function: Function, arrays: Mapping[str, np.ndarray[Any, Any]], n: int, pushes: Mapping[str, Any]) -> None:
    """Runs `n` invocations along x on the arrays, by name of the memory; they are changed.

    Raises:
        KernelError: a race, a read of an uninitialized element, or a barrier that not all invocations reach.
        AssertionError, IndexError: as of the interpreter.
    """
    ops: Any = _Operations()
    grid = Grid(function.name, ops)
    memory = DeviceMemory(grid, by_bytes=any(op.memory is not None and op.memory.of for op in walk(function.body)))
    state = State(grid, memory)
    for buffer in function.buffers:
        memory.add_array(buffer, arrays[buffer.name], None)
    for shared in function.shared_memory:
        memory.add_shared(shared, (shared.length or 0,), 1)

    def kernel() -> None:
        with contextlib.suppress(interpreter._Left):  # by a return
            _Invocation(function, arrays, state, pushes).region(function.body)

    waits = any(op.operation.waits for op in walk(function.body))
    for group in grid.groups((n // function.local_size[0], 1, 1), function.local_size):
        memory.enter_group(group)
        group.run(kernel, waits=waits)
