"""The numbers of a range: its start, its number of iterations and its step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, SCALARS, Constant, Scalar, Value
from vkcompute.jit.frontend.private import PrivateArrays
from vkcompute.jit.frontend.values import Kind, Number, describe, is_python


class Ranges(PrivateArrays):
    """Builds the ranges of for loops."""

    def counted(self, args: Sequence[Any]) -> tuple[Number, Number, Number]:
        """Returns start, number of iterations and step of `range(*args)`.

        They are int32 and uint32, or have 64 bits if an argument has. A start and a step are unsigned if the start is.
        """
        if not 1 <= len(args) <= 3:
            raise UnsupportedError(f"range takes 1 to 3 integers by position; got {len(args)}")
        kinds = [self.kind(each) for each in args]
        wrong = [describe(each) for each, kind in zip(args, kinds, strict=True) if kind.type.kind not in "iu"]
        if wrong:
            raise UnsupportedError(f"range takes integers; got {', '.join(wrong)}; write // for /, or int(…)")
        if len(args) == 3 and args[2] == 0 and is_python(args[2]):
            raise UnsupportedError("the step of a range is not 0")
        bounds = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        start, stop, step = map(self.converted, bounds, self.range_types(bounds))
        unsigned = SCALARS[f"uint{start.kind.type.bits}"]
        count = self._n_iterations(unsigned, start, stop, step)
        return start, count, self.converted(step, start.kind.type)

    def _n_iterations(self, unsigned: Scalar, start: Number, stop: Number, step: Number) -> Number:
        """Returns the length of a range by the values of its bounds, 0 for a step of 0."""
        b = self.builder
        first, end, size = [b.cast(each.value, unsigned) for each in (start, stop, step)]
        up: Value
        down: Value
        zero, one = b.const(0, unsigned), b.const(1, unsigned)
        if isinstance(step.value, Constant):
            n = int(step.value.value)
            up, down = b.const(n > 0, BOOL), b.const(n < 0, BOOL)
            size = b.const(max(abs(n), 1), unsigned)
        else:
            up, down = self._is_less(0, step), self._is_less(step, 0)
            size = b.select(up, size, b.select(down, b.compute("sub", zero, size), one))
        before, after = b.select(up, first, end), b.select(up, end, first)
        span = b.compute("sub", b.compute("sub", after, before), one)
        count = b.compute("add", b.compute("div", span, size), one)
        if start.kind.type is not stop.kind.type:
            signed, other = (stop, end) if start.kind.type is unsigned else (start, first)
            other = first if other is end else end
            beyond = b.compute("and", self._is_less(signed, 0), b.compute("lt", b.compute("sub", after, before), other))
            count = b.select(beyond, self._n_beyond(unsigned, span, size), count)
        forward, backward = self._is_less(start, stop), self._is_less(stop, start)
        runs = b.select(up, forward, b.compute("and", down, backward))
        return Number(b.select(runs, count, zero), Kind(unsigned))

    def _n_beyond(self, unsigned: Scalar, span: Value, size: Value) -> Value:
        """Returns the length of a range whose span, less one, is `span` and one beyond the type; at most its limit."""
        b, most = self.builder, self.builder.const(-1, unsigned)
        whole, rest = b.compute("div", most, size), b.compute("mod", most, size)
        more = b.compute("div", b.compute("add", b.compute("add", span, rest), b.const(1, unsigned)), size)
        count = b.compute("add", b.compute("add", whole, more), b.const(1, unsigned))
        return b.select(b.compute("eq", size, b.const(1, unsigned)), most, count)

    def _is_less(self, one: Any, other: Any) -> Value:
        """Compares integers by value."""
        return self.cast(self.compare("<", one, other), BOOL)
