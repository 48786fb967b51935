"""Quotients and remainders of numbers of one type, rounded down as NumPy's and Python's, and shifts."""

from __future__ import annotations

from typing import Any

from vkcompute.ir.function import Constant


def quotient(f: Any, x: Any, y: Any) -> Any:
    """x // y. For integers y is not 0."""
    if x.kind.kind == "f":
        return f.widened(_float_quotient, x, y)
    if n := _constant(y):
        return _quotient_by(f, x, n)
    if x.kind.kind == "u":
        return f.op("div", x, y)
    safe = divisor(f, y)
    result = _rounded_down(f, x, safe)
    return result if safe is y else f.choose(f.op("ne", safe, y), f.op("neg", x), result)


def remainder(f: Any, x: Any, y: Any) -> Any:
    """x % y. For integers y is not 0."""
    if x.kind.kind == "f":
        return f.widened(_float_remainder, x, y)
    n = _constant(y)
    return _remainder_by(f, x, n) if n > 0 else f.op("mod", x, divisor(f, y))


def truncated_remainder(f: Any, x: Any, y: Any) -> Any:
    """The remainder with the sign of x. For integers y is not 0."""
    return f.op("rem", x, divisor(f, y))


def divisor(f: Any, y: Any) -> Any:
    """A divisor with 1 for -1, which leaves the same remainder.

    SPIR-V leaves the quotient and the remainder of the least integer and -1 undefined. NumPy's quotient wraps.
    """
    if y.kind.kind != "i" or (isinstance(y.value, Constant) and y.value.value != -1):
        return y
    return f.choose(f.op("eq", y, -1), f.number(1, y.kind), y)


def _constant(y: Any) -> int:
    """Returns the value of an integer constant; 0 for others."""
    return int(y.value.value) if isinstance(y.value, Constant) else 0


def _quotient_by(f: Any, x: Any, n: int) -> Any:
    """x // n of a constant. A shift to the right rounds down; a division rounds to zero."""
    if n == -1:
        return f.op("neg", x)
    if n > 0 and n & (n - 1) == 0:
        return f.op("shr", x, n.bit_length() - 1)
    result = f.op("div", x, n)
    if x.kind.kind == "u":
        return result
    below = f.op("lt" if n > 0 else "gt", f.op("sub", x, f.op("mul", result, n)), 0)
    return f.op("sub", result, f.to(below, x.kind))


def _remainder_by(f: Any, x: Any, n: int) -> Any:
    """x % n of a positive constant."""
    if n & (n - 1) == 0:
        return f.op("and", x, n - 1)
    if x.kind.kind == "u":
        return f.op("mod", x, n)
    rest = f.op("sub", x, f.op("mul", f.op("div", x, n), n))
    return f.choose(f.op("lt", rest, 0), f.op("add", rest, n), rest)


def _rounded_down(f: Any, x: Any, y: Any) -> Any:
    """The quotient of signed integers, rounded down; y is not -1."""
    result = f.op("div", x, y)
    rest = f.op("sub", x, f.op("mul", result, y))
    opposed = f.op("lt", f.op("xor", rest, y), 0)
    return f.op("sub", result, f.to(f.op("and", f.op("ne", rest, 0), opposed), x.kind))


def _float_quotient(f: Any, x: Any, y: Any) -> Any:
    """x // y of floats, as numpy.floor_divide."""
    rest = f.op("rem", x, y)
    exact = (x - rest) / y
    exact = f.where((rest != 0) & ((rest < 0) != (y < 0)), exact - 1, exact)
    whole = f.floor(exact)
    whole = f.where(exact - whole > 0.5, whole + 1, whole)  # the exact quotient was an integer before rounding
    return f.where((x == 0) | (y == 0), x / y, f.where(exact == 0, 0.0, whole))


def _float_remainder(f: Any, x: Any, y: Any) -> Any:
    """x % y of floats, as numpy.remainder."""
    rest = f.op("rem", x, y)
    zero = f.where(y < 0, f.number(-0.0, x.kind), 0.0)
    return f.where(rest == 0, zero, f.where((rest < 0) != (y < 0), rest + y, rest))


def shifted_left(f: Any, x: Any, y: Any) -> Any:
    """x << y; 0 where y is the width of the type or more."""
    inside, zero = _is_inside(f, y), f.number(0, x.kind)
    return f.choose(inside, f.op("shl", x, f.choose(inside, y, zero)), zero)


def shifted_right(f: Any, x: Any, y: Any) -> Any:
    """x >> y; by the width of the type or more, only the sign remains."""
    inside, is_signed = _is_inside(f, y), x.kind.kind == "i"
    moved = f.op("shr", x, f.choose(inside, y, f.number(x.kind.bits - 1 if is_signed else 0, x.kind)))
    return moved if is_signed else f.choose(inside, moved, f.number(0, x.kind))


def _is_inside(f: Any, y: Any) -> Any:
    """True where a count is less than the width of its type."""
    return f.op("lt", f.bits(y), y.kind.bits)
