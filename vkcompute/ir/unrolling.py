"""Loop unrolling."""

from __future__ import annotations

import math

from vkcompute.ir.builder import Builder
from vkcompute.ir.elimination import fold_branches
from vkcompute.ir.function import Constant, Function, Op, Region, Value, walk
from vkcompute.ir.intervals import Intervals, only_exit
from vkcompute.ir.rewriting import rewrite

MAX_TRIPS, MAX_OPS = 32, 512
"""Of an unrolled loop. SwiftShader then takes a tenth to a half of the time. Lavapipe's compiler unrolls up to 32 trips
itself; beyond, straight-line code takes up to three times as long as the loop."""
MAX_LOADS = 2048
"""Of an unrolled loop in a kernel with barriers, over all invocations of a workgroup. Between two barriers all of them
are in flight, and SwiftShader takes 6 bytes of stack per invocation for each load of straight-line code. A tiled matrix
product with 8192 of them, more than a core's L1 cache holds, runs at 0.8 to 0.93 of the loop's speed. GPUs gain nothing
from more either: for navi21, AMD's compiler then needs 32 registers in place of 16 for the n-body kernel."""


def unroll_loops(function: Function) -> Function:
    """Unrolls short loops with one exit and a known trip count in place, inner loops first."""
    while any(op.code == "loop" for op in walk(function.body)) and _Unrolling(function).changed:
        fold_branches(function)
    return function


class _Unrolling:
    """One pass over a function.

    Attributes:
        changed: True if a loop has been unrolled.
    """

    def __init__(self, function: Function) -> None:
        self.changed = False
        self._builder = Builder(function)
        has_barriers = any(op.code == "barrier" for op in walk(function.body))
        self._max_loads = MAX_LOADS // math.prod(function.local_size) if has_barriers else MAX_OPS
        rewrite(function, self._unrolled)

    def _unrolled(self, loop: Op, replaced: dict[Value, Value]) -> list[Op] | None:
        """The operations of all iterations; None to keep the loop."""
        exit_ = only_exit(loop) if loop.code == "loop" else None
        if exit_ is None or (trips := self._trips(loop)) is None:
            return None
        unrolled, carried = Region(), list(loop.args)
        with self._builder.into(unrolled):
            for _ in range(trips + 1):
                env: dict[Value, Value] = dict(zip(loop.params, carried, strict=True))
                end = self._copy_iteration(loop, exit_, env)
                if end is None:
                    return None
                carried = [env.get(value, value) for value in end.args]
                if end.code == "break":
                    break
            else:
                return None
        replaced.update(zip(loop.results, carried, strict=False))
        self.changed = True
        return unrolled.ops[:-1]  # without the terminator

    def _trips(self, loop: Op) -> int | None:
        """The trip count of a loop that is short enough."""
        codes, trips = [op.code for op in walk(loop.regions[0])], Intervals(Region([loop]), {}).trips(loop)
        if trips is None or trips > MAX_TRIPS or trips * len(codes) > MAX_OPS:
            return None
        return None if trips * codes.count("load") > self._max_loads else trips

    def _copy_iteration(self, loop: Op, exit_: Op, env: dict[Value, Value]) -> Op | None:
        """Copies one iteration, and returns its terminator; None if the condition of the exit is unknown."""
        for op in loop.regions[0].ops:
            if op is exit_:
                condition = env.get(op.args[0], op.args[0])
                if not isinstance(condition, Constant):
                    return None
                end = self._copy_taken(op, op.regions[0 if condition.value else 1], env)
                if end is not None:
                    return end
            elif op.code == "yield":
                return op
            else:
                self._builder.copy(op, env)
        return None

    def _copy_taken(self, branch: Op, taken: Region, env: dict[Value, Value]) -> Op | None:
        """Copies the taken region of a branch; returns the break that ends it."""
        end = taken.terminator
        for op in taken.ops[: -1 if end else None]:
            self._builder.copy(op, env)
        if end is not None and end.code == "break":
            return end
        given = end.args if end is not None else ()
        env.update({value: env.get(result, result) for value, result in zip(branch.results, given, strict=False)})
        return None
