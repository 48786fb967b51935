"""Ranges of for loops: their type, and their number of iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.ir import INT32, INT64, SCALARS, Scalar, Value
from vkcompute.jit.frontend.arithmetic import Arithmetic
from vkcompute.jit.frontend.source import UnsupportedError
from vkcompute.jit.frontend.values import Kind, Number, describe, is_python


def counted(c: Arithmetic, args: Sequence[Any]) -> tuple[Number, Number, Number]:
    """Returns start, number of iterations and step of `range(*args)`: int32 and uint32; 64 bits if an argument has."""
    if not 1 <= len(args) <= 3:
        raise UnsupportedError(f"range takes 1 to 3 integers by position; got {len(args)}")
    kinds = [c.kind(each) for each in args]
    wrong = [describe(each) for each, kind in zip(args, kinds, strict=True) if kind.type.kind not in "iu"]
    if wrong:
        raise UnsupportedError(f"range takes integers; got {', '.join(wrong)}; write int(x)")
    if len(args) == 3 and args[2] == 0 and is_python(args[2]):
        raise UnsupportedError("the step of a range is not 0")
    kind = INT64 if any(each.type.bits == 64 for each in kinds) else INT32
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    numbers = [c.converted(each, kind) for each in (start, stop, step)]
    return numbers[0], _n_iterations(c, kind, *[each.value for each in numbers]), numbers[2]


def _n_iterations(c: Arithmetic, kind: Scalar, start: Value, stop: Value, step: Value) -> Number:
    """Returns the length of a range, 0 for a step of 0; unsigned, since a range may exceed the signed type."""
    b, unsigned = c.builder, SCALARS[f"u{kind}"]
    zero, one = b.const(0, kind), b.const(1, kind)
    up, down = b.binary("gt", step, zero), b.binary("lt", step, zero)
    before, after = b.select(up, start, stop), b.select(up, stop, start)
    size = b.select(up, step, b.select(down, b.binary("sub", zero, step), one))
    span = b.bitcast(b.binary("sub", b.binary("sub", after, before), one), unsigned)
    count = b.binary("add", b.binary("div", span, b.bitcast(size, unsigned)), b.const(1, unsigned))
    runs = b.binary("and", b.binary("lt", before, after), b.binary("ne", step, zero))
    return Number(b.select(runs, count, b.const(0, unsigned)), Kind(unsigned))
