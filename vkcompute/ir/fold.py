"""What an operation on constants gives, and on others where it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vkcompute.ir.function import Constant, Function, Value
from vkcompute.ir.types import BOOL, Scalar

# The operations whose results numpy has to the bit; the device rounds the others in its own way.
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative, "abs": np.abs, "not": np.invert, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "isnan": np.isnan, "isinf": np.isinf,
}  # fmt: skip
_DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {"mod": np.mod, "rem": np.fmod}


def fold(function: Function, code: str, args: Sequence[Value], attribute: Any) -> Value | None:
    """The value of an operation that need not be computed on the device; None for any other."""
    if code == "select" and isinstance(args[0], Constant):
        return args[1] if args[0].value else args[2]
    if args and all(isinstance(value, Constant) for value in args):
        with np.errstate(all="ignore"):
            return _of_constants(function, code, [value.value for value in args], args[0].type, attribute)  # type: ignore[attr-defined]
    if code in _NEUTRAL and len(args) == 2:
        return _neutral(code, *args)
    return None


def _of_constants(function: Function, code: str, numbers: list[Any], kind: Any, attribute: Any) -> Value | None:
    if code == "cast" and isinstance(attribute, Scalar):
        exact = kind.kind != "f" or attribute.kind == "f" or _fits(numbers[0], attribute)
        return function.constant(numbers[0], attribute) if exact else None
    if code == "bitcast" and isinstance(attribute, Scalar):
        return function.constant(numbers[0].view(attribute.numpy), attribute)
    if code in _BINARY and len(numbers) == 2:
        found = _BINARY[code](*numbers)
    elif code in _UNARY:
        found = _UNARY[code](*numbers)
    elif code in (*_DIVISIONS, "div") and kind.kind in "iu" and numbers[1] > 0:
        found = _DIVISIONS[code](*numbers) if code != "div" else _truncated(*numbers)
    elif code == "rem" and kind.kind == "f":
        found = np.fmod(*numbers)
    else:
        return None
    return function.constant(found, BOOL if found.dtype == np.bool_ else kind)


def _fits(number: Any, kind: Scalar) -> bool:
    """Whether a float's whole part is a number of this type; bools take anything."""
    return kind.kind == "b" or bool(
        np.isfinite(number) and np.iinfo(kind.name).min <= int(number) <= np.iinfo(kind.name).max
    )


def _truncated(number: Any, divisor: Any) -> Any:
    return (number - np.fmod(number, divisor)) // divisor


# Code -> the operand that changes nothing: on the right, and for those that commute on the left. Not for floats, where
# x + 0 turns -0 into 0.
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1, "or": 0, "xor": 0, "shl": 0, "shr": 0}
_COMMUTE = frozenset({"add", "mul", "or", "xor"})


def _neutral(code: str, one: Value, other: Value) -> Value | None:
    if getattr(one.type, "kind", "f") == "f" and code not in ("mul", "div"):
        return None
    if isinstance(other, Constant) and other.value == _NEUTRAL[code]:
        return one
    if code in _COMMUTE and isinstance(one, Constant) and one.value == _NEUTRAL[code]:
        return other
    return None
