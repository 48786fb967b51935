"""Short loops with a known number of trips become what their bodies do, one trip after the other."""

from __future__ import annotations

import math

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Constant, Function, Op, Region, Value, walk
from vkcompute.ir.intervals import Intervals, only_exit
from vkcompute.ir.passes import decide, rewrite

MOST_TRIPS, MOST_OPS = 32, 512
"""Of a loop, and of what it becomes. SwiftShader then takes a half to a tenth of the time; lavapipe's compiler does the
same itself up to 32 trips, and beyond takes up to three times as long for straight code as for the loop."""
MOST_LOADS = 2048
"""Of what a loop becomes in a kernel with barriers, in all invocations of a workgroup together. Between two barriers
all of them are under way, and for each load of straight code SwiftShader takes 6 bytes of each one's stack. A tiled
matrix product with 8192 of them, more than a core's nearest cache holds, runs at 0.8 to 0.93 of the loop's speed."""


def unroll(function: Function) -> None:
    """Unrolls what is left in one place only and is short, inner loops first; then those that thereby become so."""
    while any(op.code == "loop" for op in walk(function.body)) and _Unrolling(function).any:
        decide(function)


class _Unrolling:
    """One walk through a function.

    Attributes:
        any: whether a loop has been unrolled.
    """

    def __init__(self, function: Function) -> None:
        self.any = False
        self._builder = Builder(function)
        waits = any(op.code == "barrier" for op in walk(function.body))
        self._most_loads = MOST_LOADS // math.prod(function.local_size) if waits else MOST_OPS
        rewrite(function, self._unrolled)

    def _unrolled(self, loop: Op, replaced: dict[Value, Value]) -> list[Op] | None:
        """What a loop becomes; None if it stays."""
        if loop.code != "loop":
            return None
        codes, leaves = [op.code for op in walk(loop.regions[0])], only_exit(loop)
        trips = Intervals(Region([loop]), {}).trips(loop) if leaves is not None else None
        if leaves is None or trips is None or trips > MOST_TRIPS or trips * len(codes) > MOST_OPS:
            return None
        if trips * codes.count("load") > self._most_loads:
            return None
        instead, carried = Region(), list(loop.args)
        with self._builder.into(instead):
            for _ in range(trips + 1):
                env: dict[Value, Value] = dict(zip(loop.params, carried, strict=True))
                end = self._trip(loop, leaves, env)
                if end is None:
                    return None
                carried = [env.get(value, value) for value in end.args]
                if end.code == "break":
                    break
            else:
                return None
        replaced.update(zip(loop.results, carried, strict=False))
        self.any = True
        return instead.ops[:-1]  # the last one ends the region

    def _trip(self, loop: Op, leaves: Op, env: dict[Value, Value]) -> Op | None:
        """Copies one trip; how it ends, or None if it is not known whether it leaves."""
        for op in loop.regions[0].ops:
            if op is leaves:
                condition = env.get(op.args[0], op.args[0])
                if not isinstance(condition, Constant):
                    return None
                taken = op.regions[0 if condition.value else 1]
                end = taken.end()
                for each in taken.ops[: -1 if end else None]:
                    self._builder.copy(each, env)
                if end is not None and end.code == "break":
                    return end
                given = end.args if end is not None else ()
                env.update({value: env.get(each, each) for value, each in zip(op.results, given, strict=False)})
            elif op.code == "yield":
                return op
            else:
                self._builder.copy(op, env)
        return None
