"""Kernels that notice when a driver has ended one of their loops."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value
from vkcompute.ir.types import UINT32


def watched(function: Function) -> tuple[Function, list[Op]]:
    """A kernel that does the same, and notes after each loop whether it came there by a break of the loop's own.

    It has two more buffers of uint32: `left`, one element per invocation, zero at first, and `status`, whose element
    becomes the number of a loop, from 1, that an invocation left in another way. What it does after that means nothing.

    Returns:
        The kernel, and the loops of the given function by their numbers, less 1.
    """
    built = Function(function.name, function.local_size)
    built.buffers, built.pushes, built.shared_memory = [*function.buffers], function.pushes, function.shared_memory
    builder = _Watching(built)
    env: dict[Value, Value] = {}
    for op in function.body.ops:
        builder.copy(op, env)
    return built, builder.loops


class _Watching(Builder):
    """Copies what surrounds its loops with notes.

    A break writes the loop's number to memory, where no optimizer follows it, and the way out takes it from there.
    """

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.loops: list[Op] = []
        self._left, self._status = function.buffer("left", UINT32), function.buffer("status", UINT32)
        self._place, _ = self.linear_id()

    def copy(self, op: Op, env: dict[Value, Value]) -> None:
        """Appends a copy, as `Builder.copy`."""
        if op.code == "break":
            self.store(self._left, self._place, self.const(self.loops.index(op.attribute) + 1, UINT32))
        if op.code != "loop":
            super().copy(op, env)
            return
        self.loops.append(op)
        number = self.const(len(self.loops), UINT32)
        super().copy(op, env)
        if self.reachable:
            taken = self.atomic("exchange", self._left, self._place, self.const(0, UINT32))
            with self.if_(self.binary("ne", taken, number)).then:
                self.store(self._status, self.const(0, UINT32), number)
