"""Numba's rules for the types of numbers in kernels; `TypeRules`.

A Python int is an int64, or a uint64 where it has to be, and a Python float a float64. Operators on integers compute in
64 bits, which are signed if an operand is. A variable that has several types in a branch or a loop gets their common
type, which keeps the width of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, FLOAT64, INT32, INT64, SCALARS, UINT64, Scalar
from vkcompute.jit.frontend.type_rules import number_kind
from vkcompute.jit.frontend.values import Kind, is_python

_BITS = "&", "|", "^"
_SHIFTS = "<<", ">>"
_MOST = 2**63
_KINDS = {kind: Kind(kind) for kind in SCALARS.values()}
_AS_DOUBLE = {SCALARS["uint16"], FLOAT32}
"""Types whose operators are float64: Numba has no safe conversion of one to the other."""


class NumbaTypes:
    """The types of numbers in Numba's kernels.

    Attributes:
        real: float64.
        integer: int64.
    """

    real, integer = FLOAT64, INT64

    def constant(self, number: bool | int | float) -> Kind:
        """Returns the type of a Python number: bool, int64, uint64 or float64."""
        if isinstance(number, bool):
            return _KINDS[BOOL]
        if isinstance(number, float):
            return _KINDS[FLOAT64]
        if not -_MOST <= number < 2 * _MOST:
            raise UnsupportedError(f"integers have at most 64 bits in kernels; got {number}; write a float")
        return _KINDS[INT64 if number < _MOST else UINT64]

    def fitted(self, number: int, target: Scalar) -> int:
        """Returns an int constant modulo the range of the type."""
        low: int = -(2 ** (target.bits - 1)) if target.kind == "i" else 0
        n_values: int = 2**target.bits
        return (int(number) - low) % n_values + low

    def common(self, *operands: Any) -> Kind:
        """Returns the type that Numba unifies the types of arguments to."""
        return Kind(reduce(common, [number_kind(operand, self).type for operand in operands]))

    def binary(self, sign: str, one: Any, other: Any) -> Kind:
        """Returns the type in which an operator computes."""
        return _KINDS[operated(sign, number_kind(one, self).type, number_kind(other, self).type)]

    def unary(self, sign: str, operand: Any) -> Kind:
        """Returns the type of an operator of one number: 64 bits for an integer; `~` of a bool is a bool."""
        kind = number_kind(operand, self).type
        is_kept = kind.kind == "f" or (sign == "~" and kind is BOOL)
        return Kind(kind if is_kept else operated("-", kind, kind))

    def compared(self, one: Any, other: Any) -> Scalar:
        """Returns the type in which numbers are compared."""
        kinds = [number_kind(operand, self).type for operand in (one, other)]
        if "f" in (kinds[0].kind, kinds[1].kind):
            return operated("+", *kinds)
        signed = [kind for kind in kinds if kind.kind == "i"]
        return common(*kinds) if len(signed) in (0, 2) or kinds[0] is kinds[1] else INT64

    def joined(self, one: Kind, other: Kind) -> Kind:
        """Returns the type that Numba unifies two types to."""
        return Kind(common(self.variable(one).type, self.variable(other).type))

    def variable(self, kind: Kind) -> Kind:
        """Returns the type of a variable with a value of this type; that of a weak one is that of a constant."""
        if not kind.weak:
            return Kind(kind.type)
        return Kind(FLOAT64 if kind.type.kind == "f" else INT64)

    def accumulator(self, kind: Kind) -> Kind:
        """Returns the same type."""
        return kind

    def assigned(self, before: Any, value: Any) -> Kind | None:
        """Returns None: a variable takes the type of each value."""
        return None

    def floating(self, kind: Scalar) -> Scalar:
        """Returns the type of functions of floats: float64 for integers."""
        return kind if kind.kind == "f" else FLOAT64

    def whole(self, kind: Scalar) -> Scalar:
        """Returns the type of `int(x)` of a float: int64."""
        return INT64

    def index(self, kind: Scalar) -> Scalar | None:
        """Returns int32, as arrays have fewer than 2**31 elements; bools are indices, too."""
        return INT32 if kind.kind in "biu" else None

    def range_types(self, bounds: Sequence[Any]) -> list[Scalar]:
        """Returns the types of the start, stop and step of a range: int32 if the variables among them are narrow."""
        kinds = [number_kind(bound, self).type for bound in bounds if not is_python(bound)]
        if any(kind is UINT64 for kind in kinds):
            return [UINT64, UINT64, INT64]
        narrow = kinds and all(kind.bits < 32 or kind is INT32 for kind in kinds)
        return [INT32 if narrow else INT64] * 3


def numba_types(signature: Sequence[Any]) -> NumbaTypes:
    """Returns the rules for a kernel; they are the same for all arguments."""
    return NumbaTypes()


@cache
def common(one: Scalar, other: Scalar) -> Scalar:
    """Returns the type that Numba unifies two types of numbers to."""
    if BOOL in (one, other):
        return other if one is BOOL else one
    return SCALARS[np.promote_types(as_dtype(one.name), as_dtype(other.name)).name]


@cache
def operated(sign: str, one: Scalar, other: Scalar) -> Scalar:
    """Returns the type in which an operator computes."""
    if sign in _BITS and one is other is BOOL:
        return BOOL
    if sign in _SHIFTS and one.kind in "biu":
        return UINT64 if one.kind == "u" else INT64
    if "f" not in (one.kind, other.kind):
        if sign == "/":
            return FLOAT64
        return UINT64 if one.kind == other.kind == "u" else INT64
    if sign == "**" and one.kind == "f" and other.kind in "biu":
        return one
    return FLOAT64 if {one, other} == _AS_DOUBLE else common(one, other)
