"""The iterations of `range(…)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, SCALARS, Constant, Scalar, Value
from vkcompute.jit.frontend.arithmetic import Arithmetic
from vkcompute.jit.frontend.values import Kind, Number, describe, is_python


class Range:
    """The iterations of `range(*args)`.

    The start and the step are int32, and the counter is uint32; or they have 64 bits if an argument has. A start and a
    step are unsigned if the start is.

    Attributes:
        length: the number of iterations, if it is known at compile time.
    """

    def __init__(self, c: Arithmetic, args: Sequence[Any]) -> None:
        if not 1 <= len(args) <= 3:
            raise UnsupportedError(f"range takes 1 to 3 integers by position; got {len(args)}")
        kinds = [c.kind(argument) for argument in args]
        wrong = [describe(argument) for argument, kind in zip(args, kinds, strict=True) if kind.type.kind not in "iu"]
        if wrong:
            raise UnsupportedError(f"range takes integers; got {', '.join(wrong)}; write // for /, or int(…)")
        if len(args) == 3 and args[2] == 0 and is_python(args[2]):
            raise UnsupportedError("the step of a range is not 0")
        bounds = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        start, stop, step = map(c.converted, bounds, c.rules.range_types(bounds))
        self._c, self._start = c, start
        self._count = self._n_iterations(SCALARS[f"uint{start.kind.type.bits}"], start, stop, step)
        self._step = c.converted(step, start.kind.type)
        count = self._count.value
        self.length = int(count.value) if isinstance(count, Constant) else None

    def start(self) -> Number:
        """Returns the counter's first value."""
        return self._c.converted(0, self._count.kind.type)

    def first(self) -> Number:
        """Returns the variable's first value."""
        return self._start

    def goes_on(self, counter: Any) -> Any:
        """Returns whether there is an iteration of this number."""
        return self._c.host.compare("<", counter, self._count)

    def item(self, counter: Any) -> Any:
        """Returns the variable's value in an iteration."""
        number = self._c.converted(counter, self._start.kind.type)
        return self._c.host.binary("+", self._start, self._c.host.binary("*", number, self._step))

    def next(self, counter: Any) -> Any:
        """Returns the number of the next iteration."""
        return self._c.host.binary("+", counter, 1)

    def _n_iterations(self, unsigned: Scalar, start: Number, stop: Number, step: Number) -> Number:
        """Returns the length of a range by the values of its bounds, 0 for a step of 0."""
        b = self._c.builder
        first, end, size = [b.cast(number.value, unsigned) for number in (start, stop, step)]
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
        b, most = self._c.builder, self._c.builder.const(-1, unsigned)
        whole, rest = b.compute("div", most, size), b.compute("mod", most, size)
        more = b.compute("div", b.compute("add", b.compute("add", span, rest), b.const(1, unsigned)), size)
        count = b.compute("add", b.compute("add", whole, more), b.const(1, unsigned))
        return b.select(b.compute("eq", size, b.const(1, unsigned)), most, count)

    def _is_less(self, one: Any, other: Any) -> Value:
        """Compares integers by value."""
        return self._c.host.cast(self._c.host.compare("<", one, other), BOOL)
