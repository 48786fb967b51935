"""Complex numbers in kernels: pairs of floats, computed by the definitions that complex arrays have.

A complex number is a `Complex` of two numbers of one float type. Beside a real number it promotes as in numpy, with the
exception that `values` states: int32 and smaller integers take the kernel's default float.
"""

from __future__ import annotations

from typing import Any, NoReturn

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, Scalar, Value
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.frontend.values import Complex, Kind, Number, describe, is_complex, parts_of
from vkcompute.operations import FUNCTIONS, ElementFunction, Emitter

_SIGNS = {row.sign: row for row in FUNCTIONS.values() if row.sign and row.arity == 2}
_REMEDIES = {
    "//": "round the parts of x / y",
    "%": "compute with the parts, z.real and z.imag",
    **dict.fromkeys(("<", "<=", ">", ">="), "complex numbers have no order; compare abs(z), z.real or z.imag"),
}
ORDERED = "maximum", "minimum", "fmax", "fmin"
"""Functions that take complex numbers in arrays, but not in kernels of `vc.kernel`."""
_PARTS = "real", "imag"
NUMBER_ATTRIBUTES = (*_PARTS, "conjugate", "conj")
"""Attributes of numbers; real ones have them, too."""


def part_kind(c: Any, *values: Any) -> Kind:
    """Returns the common type of the parts of numbers: float32 at least."""
    kind: Kind = c.host.common_type(*[part for value in values for part in parts_of(value)])
    return Kind(FLOAT32, kind.weak) if kind.type.bits < 32 else kind


def converted(c: Any, value: Any, part: Scalar, *, weak: bool = False) -> Complex:
    """Converts a number to a complex one with parts of this type."""
    return Complex([Number(c.host.cast(x, part), Kind(part, weak)) for x in parts_of(value)])


def computed(c: Any, row: ElementFunction, *values: Any) -> Any:
    """Builds a function of the registry of numbers in their common complex type."""
    kind = part_kind(c, *values)
    pairs = [converted(c, value, kind.type) for value in values]
    result = Emitter(c.builder).emit(row, *[tuple([part.value for part in pair]) for pair in pairs])
    return Complex([_number(part, kind) for part in result]) if type(result) is tuple else _number(result, kind)


def _number(value: Value, kind: Kind) -> Number:
    return Number(value, Kind(kind.type, kind.weak) if value.type is kind.type else Kind(value.type))  # type: ignore[arg-type]


def binary(c: Any, sign: str, one: Any, other: Any) -> Any:
    """Returns `one sign other`; == and != give a bool.

    Raises:
        UnsupportedError: the operator has no meaning for complex numbers.
    """
    row = row_of_sign(sign)
    if row is None:
        refuse(sign, one, other)
    return computed(c, row, one, other)


def row_of_sign(sign: str) -> ElementFunction | None:
    """Returns the row of an operator of two complex numbers; None for operators that these do not have."""
    row = _SIGNS.get(sign)
    return row if row is not None and sign not in _REMEDIES and row.takes("c") else None


def unary(c: Any, sign: str, value: Any) -> Any:
    """Returns `sign value`."""
    if sign == "~":
        refuse(sign, value)
    return value if sign == "+" else computed(c, FUNCTIONS["negative"], value)


def truth(c: Any, value: Complex) -> Value:
    """Returns True where a number is not 0."""
    f = Emitter(c.builder)
    result: Value = f.truth(f.operand(tuple([part.value for part in value]))).value
    return result


def attribute(c: Any, value: Any, name: str) -> Any:
    """Returns `real`, `imag` or the method `conjugate` of a number.

    Raises:
        UnsupportedError: numbers have no other attributes.
    """
    if name in _PARTS:
        return parts_of(value)[_PARTS.index(name)] if is_complex(value) else real_parts(c, value)[_PARTS.index(name)]
    if name in NUMBER_ATTRIBUTES:
        return Intrinsic(lambda _: conjugate(c, value), 0, 0)
    raise UnsupportedError(f"{describe(value)} has no attribute {name}; it has real, imag and conjugate()")


def real_parts(c: Any, value: Any) -> tuple[Any, Any]:
    """Returns a real number, and a zero of its type."""
    kind = c.kind(value)
    return value, Number(c.builder.const(0, kind.type), kind)


def conjugate(c: Any, value: Any) -> Any:
    """Returns the complex conjugate of a number; a real number unchanged."""
    return computed(c, FUNCTIONS["conjugate"], value) if is_complex(value) else value


def refuse(what: str, *values: Any) -> NoReturn:
    """Raises UnsupportedError for an operation that complex numbers do not have."""
    got = " and ".join(map(describe, values))
    remedy = _REMEDIES.get(what, _REMEDIES["<"] if what in ORDERED else "take z.real, z.imag or abs(z)")
    raise UnsupportedError(f"{what} takes real numbers; got {got}; {remedy}")
