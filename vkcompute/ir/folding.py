"""Constant folding, and simplification of operations with an operand that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkcompute.ir.function import Constant, Function, Value
from vkcompute.ir.operation import Operation
from vkcompute.ir.operations import OPERATIONS
from vkcompute.ir.types import Scalar, SmallFloat, Type, element_of


def fold(function: Function, code: str, args: Sequence[Value], attribute: Any, kind: Type | None) -> Value | None:
    """The value of an operation with a result of type `kind`; None if the device must compute it."""
    operation = OPERATIONS[code]
    if kind is not None and isinstance(element_of(kind), SmallFloat):  # each result is rounded
        return None
    if any(isinstance(element_of(arg.type), SmallFloat) for arg in args):
        return None
    if code == "select" and isinstance(args[0], Constant):
        return args[1] if args[0].value else args[2]
    numbers = [arg.value for arg in args if isinstance(arg, Constant)]
    if numbers and len(numbers) == len(args):
        return _evaluated(function, operation, numbers, attribute, kind)
    return _simplified(operation, args) if operation.identity is not None else None


def _evaluated(
    function: Function, operation: Operation, numbers: Sequence[Any], attribute: Any, kind: Type | None
) -> Value | None:
    if operation.evaluate is None or operation.foldable is None or not isinstance(kind, Scalar):
        return None
    with np.errstate(all="ignore"):
        if not operation.foldable(numbers, attribute):
            return None
        return function.constant(operation.evaluate(numbers, attribute), kind)


def _simplified(operation: Operation, args: Sequence[Value]) -> Value | None:
    one, other = args
    is_float = getattr(one.type, "kind", "f") == "f"
    if is_float and operation.identity == 0:  # x + 0 turns -0 into 0
        return None
    if isinstance(other, Constant) and other.value == operation.identity:
        return one
    if operation.commutative and isinstance(one, Constant) and one.value == operation.identity:
        return other
    return None
