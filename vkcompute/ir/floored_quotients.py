"""Quotients by constants that are rounded down, as `operations.division` builds them from a division that truncates.

The pattern stays in the program, as drivers and the analysis of intervals know it. On pairs of words, a product that
rounds down is cheaper than the correction.
"""

from __future__ import annotations

from vkcompute.ir.function import Constant, Op, Value
from vkcompute.ir.types import INT64


def rounded_down(op: Op) -> tuple[str, Value, int] | None:
    """Returns "div" or "mod", the dividend and the constant divisor, if an int64 is computed so; None for others."""
    if op.type is INT64 and op.code == "sub":
        return _quotient(*op.args)
    if op.type is INT64 and op.code == "select":
        return _remainder(*op.args)
    return None


def _quotient(truncated: Value, less: Value) -> tuple[str, Value, int] | None:
    """Matches q - (x - q * n < 0) with q = x / n, or > 0 for a negative n."""
    x, n = _division(truncated)
    (condition,) = _args(less, "cast") or (less,)
    rest, zero = _args(condition, "lt" if n > 0 else "gt") or (less, less)
    return ("div", x, n) if n and _number(zero) == 0 and _is_rest(rest, truncated) else None


def _remainder(condition: Value, corrected: Value, rest: Value) -> tuple[str, Value, int] | None:
    """Matches rest + n if rest < 0 else rest, of a rest x - x / n * n and a positive n."""
    _, product = _args(rest, "sub") or (rest, rest)
    truncated, _ = _args(product, "mul") or (rest, rest)
    x, n = _division(truncated)
    compared, zero = _args(condition, "lt") or (condition, condition)
    one, more = _args(corrected, "add") or (condition, condition)
    is_corrected = compared is rest is one and _number(zero) == 0 and _number(more) == n
    return ("mod", x, n) if n > 0 and is_corrected and _is_rest(rest, truncated) else None


def _is_rest(rest: Value, truncated: Value) -> bool:
    """True for x - q * n of q = x / n."""
    x, n = _division(truncated)
    dividend, product = _args(rest, "sub") or (rest, rest)
    quotient, by = _args(product, "mul") or (rest, rest)
    return dividend is x and quotient is truncated and _number(by) == n


def _division(value: Value) -> tuple[Value, int]:
    """The operands of a division by a constant; 0 for what is none."""
    x, by = _args(value, "div") or (value, value)
    return x, _number(by) or 0


def _args(value: Value, code: str) -> list[Value] | None:
    """The operands of an operation of this kind; None for another value."""
    return list(value.args) if isinstance(value, Op) and value.code == code else None


def _number(value: Value) -> int | None:
    return int(value.value) if isinstance(value, Constant) else None
