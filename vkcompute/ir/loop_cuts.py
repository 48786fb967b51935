"""Detection of loops that the driver cuts: lavapipe before Mesa 25 limits the iterations of an invocation."""

from __future__ import annotations

import math

from vkcompute.ir.builder import Builder
from vkcompute.ir.float_remainders import expand_float_remainders
from vkcompute.ir.function import Function, Op, Value, falls_through
from vkcompute.ir.types import UINT32


def with_cut_detection(function: Function) -> tuple[Function, list[Op]]:
    """Adds a buffer `status` (uint32) in which the kernel reports a loop that the driver has cut.

    Element 0 becomes the loop's number, counted from 1. All other results of such a launch are undefined.

    Returns:
        The instrumented kernel, and per number the loop to name in an error: the innermost one with a location.
    """
    built = function.empty_copy()
    builder, env = _Detecting(built), dict[Value, Value]()
    for op in expand_float_remainders(function).body.ops:
        builder.copy(op, env)
    return built, builder.loops


class _Detecting(Builder):
    """Copies operations, with a check after each loop.

    A break stores the loop's number in an element of workgroup memory that belongs to the invocation, and the code
    after the loop takes it back. An atomic exchange does so: to an optimizer the break is the only exit, and it would
    forward a plain store, or the value of a phi, to the check.

    Attributes:
        loops: per number the loop to name in an error.
    """

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.loops: list[Op] = []
        self._numbers: dict[Op, int] = {}
        self._enclosing: list[Op] = []
        self._exited = function.shared("exited", UINT32, math.prod(function.local_size))
        self._status = function.buffer("status", UINT32)
        self._zero, self._local_index = self.const(0, UINT32), self.builtin("local_index")
        self.store(self._exited, self._local_index, self._zero)

    def copy(self, op: Op, env: dict[Value, Value]) -> None:
        """Appends a copy, as `Builder.copy`."""
        if op.code == "loop":
            self._copy_loop(op, env)
        elif op.code == "break":
            self.store(self._exited, self._local_index, self.const(self._numbers[op.attribute], UINT32))
            super().copy(op, env)
        elif op.code != "unreachable" or self.reachable:
            super().copy(op, env)

    def _copy_loop(self, op: Op, env: dict[Value, Value]) -> None:
        named = op if op.loc is not None or not self._enclosing else self._enclosing[-1]
        self.loops.append(named)
        number = self.const(len(self.loops), UINT32)
        self._numbers[op] = len(self.loops)
        self._enclosing.append(named)
        super().copy(op, env)
        self._enclosing.pop()
        if falls_through(op):
            taken = self.atomic("exchange", self._exited, self._local_index, self._zero)
            with self.if_(self.compute("ne", taken, number)).then:
                self.store(self._status, self._zero, number)
        else:
            self._add_exit(env[op])  # type: ignore[arg-type]
            self.store(self._status, self._zero, number)
            self.return_()

    def _add_exit(self, loop: Op) -> None:
        """Begins a loop that has no break with one that is never taken, so that the code after it is reachable."""
        here, body = self.checkpoint(), loop.regions[0]
        ops = [*body.ops]
        self.rewind((body, 0))
        with self.if_(self.compute("eq", self.length(self._status), self._zero)).then:  # an opaque false
            self._append("break", (), loop)
        body.ops += ops
        self.rewind(here)
