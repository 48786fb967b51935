"""Numba's rules for the types of numbers in kernels.

A Python int is an int64, or a uint64 where it has to be, and a Python float a float64. Operators on integers compute in
64 bits, which are signed if an operand is. A variable that has several types in a branch or a loop gets their common
type, which keeps the width of integers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, FLOAT64, INT64, SCALARS, UINT64, Scalar
from vkcompute.jit.frontend.values import Complex, Kind, describe, kind_of, like

_BITS = "&", "|", "^"
_SHIFTS = "<<", ">>"
_MOST = 2**63


def kind(value: Any) -> Any:
    """Returns the type of a value: a Kind, a tuple of types, or a constant itself."""
    if type(value) is int:
        if not -_MOST <= value < 2 * _MOST:
            raise UnsupportedError(f"integers have at most 64 bits in kernels; got {value}; write a float")
        return Kind(INT64 if value < _MOST else UINT64)
    return strong(kind_of(value, FLOAT64))


def strong(given: Any) -> Any:
    """Returns a type without weakness: a weak int is an int64, a weak float a float64."""
    if isinstance(given, Kind):
        if not given.weak:
            return Kind(given.type)
        return Kind(FLOAT64 if given.type.kind == "f" else INT64)
    return like(given, map(strong, given)) if isinstance(given, tuple) else given


@cache
def common(one: Scalar, other: Scalar) -> Scalar:
    """Returns the type that Numba unifies two types of numbers to."""
    if BOOL in (one, other):
        return other if one is BOOL else one
    return SCALARS[np.promote_types(as_dtype(one.name), as_dtype(other.name)).name]


@cache
def operated(sign: str, one: Scalar, other: Scalar) -> Scalar:
    """Returns the type in which an operator computes; for `/` of integers, that of its operands."""
    if sign in _BITS and one is other is BOOL:
        return BOOL
    if sign in _SHIFTS and one.kind in "biu":
        return UINT64 if one.kind == "u" else INT64
    if "f" not in (one.kind, other.kind):
        return UINT64 if one.kind == other.kind == "u" else INT64
    if sign == "**" and one.kind == "f" and other.kind in "biu":
        return one
    return common(one, other)


def joined(one: Any, other: Any) -> Any:
    """Returns the type of a variable that has either type, depending on the path taken.

    Raises:
        UnsupportedError: the types have no common type.
    """
    one, other = strong(one), strong(other)
    if isinstance(one, Kind) and isinstance(other, Kind):
        return Kind(common(one.type, other.type))
    if all(isinstance(given, (Kind, Complex)) for given in (one, other)):
        part = part_of(one, other)
        return Complex((Kind(part), Kind(part)))
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return like(one, [joined(a, b) for a, b in zip(one, other, strict=True)])
    if one is other or (isinstance(one, (str, type)) and one == other):
        return one
    raise UnsupportedError(f"Cannot unify {describe(one)} and {describe(other)}")


def part_of(*kinds: Any) -> Scalar:
    """Returns the type of the parts of a complex number that holds numbers of these types."""
    parts = [given[0].type if isinstance(given, Complex) else given.type for given in kinds]
    result = FLOAT32
    for part in parts:
        result = common(result, part)
    return result
