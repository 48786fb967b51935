"""Comparisons of tuples, by the operators that a language has for their items."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Scalar, Value
from vkcompute.jit.frontend.values import describe

ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class TupleOperators(Protocol):
    """The operators that comparisons of tuples need."""

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """Selects one of two values."""

    def items(self, value: Any) -> Any:
        """Returns the elements of an array as a tuple; other values unchanged."""


class Operators(TupleOperators, Protocol):
    """The operators of a language, by which others compute with the parts of their operands."""

    def cast(self, value: Any, target: Scalar) -> Value:
        """Converts a number."""

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the type of a variable that has either type."""

    def common_type(self, *values: Any) -> Any:
        """Returns the common type of operands."""

    def to_common_type(self, *values: Any) -> tuple[Any, list[Value]]:
        """Converts numbers to their common type."""

    def demand_kind(self, allowed: str, kind: Any, sign: str, *operands: Any) -> None:
        """Refuses operands of another kind than the allowed ones."""

    def truth(self, value: Any) -> Value | bool:
        """Returns the truth of a value."""

    def element(self, values: tuple[Any, ...], index: Any) -> Any:
        """Returns an element of a tuple."""

    def unary(self, sign: str, value: Any) -> Any:
        """Returns `sign value`."""


def compared_in_order(c: TupleOperators, sign: str, one: tuple[Any, ...], other: tuple[Any, ...]) -> Any:
    """Compares tuples by their first items that differ, or else by their lengths."""
    result: Any = ORDERS[sign](len(one), len(other))
    for first, second in reversed([*zip(one, other, strict=False)]):
        differ = c.compare("!=", first, second)
        if isinstance(differ, bool):
            result = c.compare(sign, first, second) if differ else result
        else:
            result = c.where(differ, c.compare(sign, first, second), result)
    return result


def contains(c: TupleOperators, one: Any, values: Any, *, is_in: bool) -> Any:
    """Returns whether a number is in a tuple or vector, or is not in it."""
    values = c.items(values)
    if not isinstance(values, tuple):
        raise UnsupportedError(f"'in' takes a tuple or a vector in kernels; got {describe(values)}")
    result: Any = not is_in
    for item in values:
        result = c.binary("|" if is_in else "&", result, c.compare("==" if is_in else "!=", one, item))
    return result
