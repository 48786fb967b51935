"""Typed expressions, as texts in the language of kernels, and C's operators on them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vkcompute.c import functions, types
from vkcompute.c.tokens import require_count
from vkcompute.c.types import BOOL, DType
from vkcompute.errors import KernelError


class Term(NamedTuple):
    """An expression.

    Attributes:
        text: an expression of a kernel in Python, with a value of exactly this type.
        type: its dtype.
        value: the value of a constant; None for others.
    """

    text: str
    type: DType
    value: Any = None


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_SHIFTS: dict[str, Callable[[Any, Any], Any]] = {"<<": operator.lshift, ">>": operator.rshift}
PRECEDENCE = {
    sign: precedence for precedence, signs in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
    ) for sign in signs.split()
}  # fmt: skip
"""The precedence of binary operators."""


def constant(value: Any) -> Term:
    """Returns the term of a NumPy scalar."""
    kind = value.dtype
    if kind == BOOL:
        return Term(str(bool(value)), kind, value)
    number = value.item()
    text = repr(number)
    if kind.kind == "f" and not math.isfinite(number):
        text = "math.nan" if math.isnan(number) else "math.inf" if number > 0 else "-math.inf"
    return Term(f"np.{kind.name}({text})", kind, value)


def converted(term: Term, kind: DType) -> Term:
    """Returns an expression converted to a type."""
    if term.type == kind:
        return term
    if term.type.kind == "c" and kind.kind != "c":
        raise KernelError(f"C converts no complex number to {kind.name}; write x.real(), x.imag() or abs(x)")
    if term.value is not None:
        return constant(types.constant(term.value, kind))
    name = "bool" if kind == BOOL else f"np.{kind.name}"
    return Term(f"{name}({term.text})", kind)


def binary(sign: str, left: Term, right: Term) -> Term:
    """Returns `left sign right`."""
    if sign in ("&&", "||"):
        return _logical(sign, left, right)
    if sign in _SHIFTS:
        kind = types.promoted(left.type)
        _demand_integers(sign, left, right)
        return _computed(sign, _SHIFTS[sign], converted(left, kind), converted(right, kind), kind)
    kind = types.common(left.type, right.type)
    one, other = converted(left, kind), converted(right, kind)
    if sign in _COMPARISONS:
        if kind.kind == "c" and sign not in ("==", "!="):
            raise KernelError(f"complex numbers have no order for {sign}; compare abs(x)")
        return _computed(sign, _COMPARISONS[sign], one, other, BOOL)
    if sign in ("&", "|", "^", "%"):
        _demand_integers(sign, left, right)
    if sign in ("/", "%"):
        return _divided(sign, one, other, kind)
    return _computed(sign, _ARITHMETIC[sign], one, other, kind)


def _demand_integers(sign: str, *terms: Term) -> None:
    for term in terms:
        if term.type.kind not in "biu":
            raise KernelError(f"{sign} takes integers; got {term.type.name}; write fmod(x, y), or convert it")


def _logical(sign: str, left: Term, right: Term) -> Term:
    one, other = truth(left), truth(right)
    if one.value is not None and bool(one.value) == (sign == "||"):
        return one
    if one.value is not None:
        return other
    return Term(f"({one.text} {'and' if sign == '&&' else 'or'} {other.text})", BOOL)


def _computed(sign: str, function: Callable[[Any, Any], Any], one: Term, other: Term, kind: DType) -> Term:
    """Returns an operation; that of two constants is computed here."""
    if one.value is not None and other.value is not None:
        with np.errstate(all="ignore"):
            return constant(types.constant(function(one.value, other.value), kind))
    return Term(f"({one.text} {sign} {other.text})", kind)


def _divided(sign: str, one: Term, other: Term, kind: DType) -> Term:
    """Returns a quotient or a remainder; those of integers round towards zero."""
    if kind.kind in "iu" and other.value is not None and not other.value:
        raise KernelError(f"the integer division {one.text} {sign} 0 has no result; divide by a float, as 0.0")
    if kind.kind == "f" and other.value is not None and not other.value:
        infinite = constant(np.copysign(kind.type(math.inf), other.value))
        return _computed("*", operator.mul, one, infinite, kind)  # as x / 0, which kernels refuse
    if kind.kind in "fc":
        return _computed("/", operator.truediv, one, other, kind)
    if sign == "%":
        if one.value is not None and other.value is not None:
            return constant(np.fmod(one.value, other.value))
        is_unsigned = kind.kind == "u"
        return Term(f"({one.text} % {other.text})" if is_unsigned else f"np.fmod({one.text}, {other.text})", kind)
    if kind.kind == "u":
        return _computed("//", operator.floordiv, one, other, kind)
    if one.value is not None and other.value is not None:
        return constant(types.constant(functions.NAMESPACE["c_quotient"](one.value, other.value), kind))
    return Term(f"c_quotient({one.text}, {other.text})", kind)


def truth(term: Term) -> Term:
    """Returns whether an expression is not 0."""
    if term.type.kind == "c":
        raise KernelError("a complex number is neither true nor false; compare it with 0")
    return converted(term, BOOL)


def unary(sign: str, operand: Term) -> Term:
    """Returns `sign operand`, for -, +, ~ and !."""
    if sign == "!":
        value = truth(operand)
        return constant(np.bool_(not value.value)) if value.value is not None else Term(f"(not {value.text})", BOOL)
    if sign == "~":
        _demand_integers(sign, operand)
    term = converted(operand, types.promoted(operand.type))
    if sign == "+":
        return term
    if term.value is not None:
        with np.errstate(all="ignore"):
            return constant(-term.value if sign == "-" else ~term.value)
    return Term(f"({sign}{term.text})", term.type)


def chosen(condition: Term, one: Term, other: Term) -> Term:
    """Returns `condition ? one : other`. Two values of one type are not promoted, as in C++."""
    kind = one.type if one.type == other.type else types.common(one.type, other.type)
    one, other, condition = converted(one, kind), converted(other, kind), truth(condition)
    if condition.value is not None:
        return one if condition.value else other
    return Term(f"({one.text} if {condition.text} else {other.text})", kind)


def call(name: str, arguments: list[Term]) -> Term | None:
    """Returns a call of a function of C's library or of CUDA; None for an unknown one."""
    if name in ("min", "max"):
        return _extreme(name, *_counted(name, arguments, 2))
    if name == "abs":
        return _absolute(*_counted(name, arguments, 1))
    if name in ("real", "imag", "arg", "norm"):
        return of_complex(name, *_counted(name, arguments, 1))
    if name in ("ldexp", "ldexpf", "scalbn", "scalbnf"):
        x, n = _counted(name, arguments, 2)
        kind = types.FLOAT if name.endswith("f") else types.floating(x.type)
        return Term(f"math.ldexp({converted(x, kind).text}, {converted(n, types.INT).text})", kind)
    function = functions.FUNCTIONS.get(name)
    if function is not None:
        return _called(name, function, arguments)
    plain = name.removeprefix("__")
    for suffix in ("f", "_rn", "f_rn"):
        short = plain.removesuffix(suffix).removeprefix("f" if "_rn" in suffix else "")
        if plain.endswith(suffix) and short in functions.FUNCTIONS:
            return _called(name, functions.FUNCTIONS[short], [converted(term, types.FLOAT) for term in arguments])
    if name == "fabsf":
        return _called(name, functions.FUNCTIONS["fabs"], [converted(term, types.FLOAT) for term in arguments])
    return None


_ARITY = {"fma": 3, **dict.fromkeys(
    (
        "copysign", "hypot", "fmin", "fmax", "nextafter", "fdim", "pow", "atan2", "fmod", "remainder", "fdivide",
        "fdividef",
    ), 2,
)}  # fmt: skip


def _counted(name: str, arguments: list[Term], n: int) -> list[Term]:
    require_count(name, n, len(arguments))
    return arguments


def _called(name: str, function: functions.Function, arguments: list[Term]) -> Term:
    plain = next(key for key, value in functions.FUNCTIONS.items() if value is function)
    _counted(name, arguments, _ARITY.get(plain, 1))
    if function.result:
        kind, result = np.dtype(function.rule), np.dtype(function.result)
    else:
        kind = types.floating(*[term.type for term in arguments])
        result = {"truth": BOOL, "long": types.LONG}.get(function.rule, kind)
    text = f"{function.text}({', '.join(converted(term, kind).text for term in arguments)})"
    return Term(f"bool({text})" if result == BOOL else f"np.{result.name}({text})", result)


def _extreme(name: str, one: Term, other: Term) -> Term:
    """Returns the minimum or the maximum, in CUDA's overload for the usual arithmetic conversions."""
    kind = types.common(one.type, other.type)
    one, other = converted(one, kind), converted(other, kind)
    text = f"np.f{name}" if kind.kind == "f" else name
    return Term(f"{text}({one.text}, {other.text})", kind)


def _absolute(term: Term) -> Term:
    kind = types.promoted(term.type)
    if kind.kind == "u":
        return converted(term, kind)
    return Term(f"abs({converted(term, kind).text})", types.part(kind))


def of_complex(name: str, term: Term) -> Term:
    """Returns a part of a complex number, its angle, or the square of its absolute value."""
    kind = types.part(term.type)
    if name in ("real", "imag"):
        return Term(f"({term.text}).{name}", kind) if term.type.kind == "c" else (
            term if name == "real" else constant(types.constant(0, kind))
        )  # fmt: skip
    if term.type.kind != "c":
        raise KernelError(f"{name} takes a complex number; got {term.type.name}")
    if name == "arg":
        return Term(f"np.angle({term.text})", kind)
    return Term(f"c_squared_size({term.text})", kind)
