"""Formulas that are given as steps, as array expressions are; `Definition` gives them as functions of Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.frontend.source import Source
from vkcompute.ir import BOOL, SCALARS, UINT32, UINT64
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import INTRINSICS
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.jit.library import catalog  # noqa: F401
from vkcompute.jit.library import complex_functions as of_complex

_MAX_TEXT = 200  # characters: results that are used twice are written twice


Step = tuple[str, str, tuple[int, ...]]
"""One operation of an expression: (operation, dtype, operands).

The operation is a name in REAL_OPERATIONS. The operands are converted to the dtype of this name, which may be complex;
"" leaves them as they are. Operands from 0 on are parameters; -1 is the result of the first step, -2 of the second.
"""
Emit = Callable[..., Any]


def _binary(sign: str, of_bools: str, c: Compiler, x: Number, y: Number) -> Any:
    """Applies an operator; for bools another one, or none, as NumPy does."""
    return c.binary(of_bools if x.kind.type is BOOL else sign, x, y)


def _remainder(sign: str, c: Compiler, x: Number, y: Number) -> Any:
    """Returns an integer quotient or remainder; 0 for a division by 0, as NumPy does."""
    found = _call(sign, c, x, y) if sign == "fmod" else c.binary(sign, x, y)
    if x.kind.type.kind == "f":
        return found
    zero = c.builder.const(0, y.kind.type)
    is_zero = c.builder.compute("eq", y.value, zero)
    return Number(c.builder.select(is_zero, zero, found.value), found.kind)


def _floor_divide(c: Compiler, x: Number, y: Number) -> Any:
    """Returns the quotient rounded down; of infinite floats the quotient itself, as the Array API standard demands."""
    if x.kind.type.kind != "f":
        return _remainder("//", c, x, y)
    infinite = c.binary("|", _call("isinf", c, x), _call("isinf", c, y))
    return c.where(infinite, c.binary("/", x, y), c.binary("//", x, y))


def _power(c: Compiler, x: Number, y: Number) -> Any:
    """Returns the power; of integers with a negative exponent, it is rounded to zero: 0, or a power of 1 or -1."""
    found = c.binary("**", x, y)
    if x.kind.type.kind != "i":
        return found
    zero, one, minus = [Number(c.builder.const(n, x.kind.type), x.kind) for n in (0, 1, -1)]
    is_odd = c.compare("!=", c.binary("&", y, one), zero)
    of_minus = c.where(c.compare("==", x, minus), c.where(is_odd, minus, one), zero)
    return c.where(c.compare("<", y, zero), c.where(c.compare("==", x, one), one, of_minus), found)


def _extreme(name: str, of_bools: str, c: Compiler, x: Number, y: Number) -> Any:
    return c.binary(of_bools, x, y) if x.kind.type is BOOL else _call(name, c, x, y)


def _number_or(name: str, whole: str, of_bools: str, c: Compiler, x: Number, y: Number) -> Any:
    """Returns an extreme that is no NaN if one operand is none; integers and bools have none."""
    return _call(name, c, x, y) if x.kind.type.kind == "f" else _extreme(whole, of_bools, c, x, y)


def _call(name: str, c: Compiler, *args: Any) -> Any:
    """Calls NumPy's function of this name as kernels do."""
    return INTRINSICS[getattr(np, name)].emit(c, *args)


def _where(c: Compiler, condition: Number, x: Number, y: Number) -> Any:
    return c.where(condition, x, y)


def _logical(sign: str, c: Compiler, *args: Any) -> Any:
    return c.binary(sign, *[c.converted(each, BOOL) for each in args])


def _test(name: str, c: Compiler, x: Number) -> Any:
    """Tests a number; bools and integers are finite."""
    if x.kind.type.kind != "f":
        return Number(c.builder.const(name == "isfinite", BOOL), Kind(BOOL))
    return _call(name, c, x)


def _placed(c: Compiler, x: Number, place: Number, *, largest: bool) -> Any:
    """Returns a number's rank and place as uint64, the least for the first NaN, or else for the first extreme.

    The number has 32 bits. Floats rank as integers do whose bits below the sign are inverted for negative ones; 0 and
    -0 are equal.
    """
    b, kind = c.builder, x.kind.type
    rank, sign, ones, zero = b.bitcast(x.value, UINT32), *[b.const(each, UINT32) for each in (1 << 31, -1, 0)]
    if kind.kind == "f":
        rank = b.select(b.compute("eq", rank, sign), zero, rank)
        rank = b.compute("xor", rank, b.select(b.compute("ge", rank, sign), ones, sign))
    elif kind.kind == "i":
        rank = b.compute("xor", rank, sign)
    rank = b.compute("xor", rank, ones) if largest else rank
    rank = b.select(b.compute("ne", x.value, x.value), zero, rank) if kind.kind == "f" else rank
    high = b.compute("shl", b.cast(rank, UINT64), b.const(32, UINT64))
    return Number(b.compute("or", high, b.cast(b.bitcast(place.value, UINT32), UINT64)), Kind(UINT64))


def _sign_bit(c: Compiler, x: Number) -> Any:
    if x.kind.type.kind == "f":
        return _call("signbit", c, x)
    return c.compare("<", x, Number(c.builder.const(0, x.kind.type), x.kind))


_COMPARISONS = {
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_FUNCTIONS = (
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "arctan2", "cos", "cosh", "sin", "sinh", "tan",
    "tanh", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sqrt", "cbrt", "square", "reciprocal", "hypot",
    "logaddexp", "logaddexp2", "copysign", "nextafter", "spacing", "heaviside", "floor", "ceil",
    "trunc", "rint", "sign", "absolute", "deg2rad", "rad2deg", "sinc", "gcd", "lcm", "ldexp",
    "left_shift", "right_shift",
)  # fmt: skip
REAL_OPERATIONS: Mapping[str, Emit] = {
    **{name: partial(_call, name) for name in _FUNCTIONS},
    **{name: lambda c, x, y, sign=sign: c.compare(sign, x, y) for name, sign in _COMPARISONS.items()},
    **{name: partial(_test, name) for name in ("isfinite", "isinf", "isnan")},
    "add": partial(_binary, "+", "|"),
    "subtract": lambda c, x, y: c.binary("-", x, y),
    "multiply": partial(_binary, "*", "&"),
    "divide": lambda c, x, y: c.binary("/", x, y),
    "floor_divide": _floor_divide,
    "remainder": partial(_remainder, "%"),
    "fmod": partial(_remainder, "fmod"),
    "power": _power,
    "negative": lambda c, x: c.unary("-", x),
    "invert": lambda c, x: c.unary("not" if x.kind.type is BOOL else "~", x),
    "maximum": partial(_extreme, "maximum", "|"),
    "minimum": partial(_extreme, "minimum", "&"),
    "fmax": partial(_number_or, "fmax", "maximum", "|"),
    "fmin": partial(_number_or, "fmin", "minimum", "&"),
    "bitwise_and": lambda c, x, y: c.binary("&", x, y),
    "bitwise_or": lambda c, x, y: c.binary("|", x, y),
    "bitwise_xor": lambda c, x, y: c.binary("^", x, y),
    "logical_and": partial(_logical, "&"),
    "logical_or": partial(_logical, "|"),
    "logical_xor": partial(_logical, "^"),
    "logical_not": lambda c, x: c.unary("not", x),
    "signbit": _sign_bit,
    "bitwise_count": lambda c, x: c.converted(_call("bitwise_count", c, x), SCALARS["uint8"]),
    "where": _where,
    "first smallest": partial(_placed, largest=False),
    "first largest": partial(_placed, largest=True),
    "erfc": lambda c, x: Number(c.builder.compute("erfc", x.value), x.kind),
    "astype": lambda c, x: x,
    "complex": lambda c, x, y: (x, y),
}
"""Operation -> function that builds it, given the compiler and typed numbers."""


def _of_parts(function: Any, c: Compiler, *args: Any) -> Any:
    return c.call(function, *args)


def _of_floats(function: Any, c: Compiler, *args: Any) -> Any:
    """Calls a function that needs the limits of the type of floats."""
    return c.call(function, *args, of_complex.Double if args[0][0].kind.type.bits == 64 else of_complex.Single)


def _of_truths(operation: str, c: Compiler, *args: Any) -> Any:
    return REAL_OPERATIONS[operation](c, *[_truth(c, each) if type(each) is tuple else each for each in args])


def _truth(c: Compiler, x: Any) -> Any:
    return c.call(of_complex.truth, x)


_OF_PARTS = (
    "add", "subtract", "multiply", "divide", "reciprocal", "negative", "conjugate", "square", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin", "isnan", "isinf",
    "isfinite", "absolute", "angle", "sign", "rint",
)  # fmt: skip
_OF_FLOATS = (
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cosh", "sinh", "tanh", "cos", "sin", "tan",
    "arccos", "arcsin", "arcsinh", "arccosh", "arctanh", "arctan", "power",
)  # fmt: skip
COMPLEX_OPERATIONS: Mapping[str, Emit] = {
    **{name: partial(_of_parts, getattr(of_complex, name)) for name in _OF_PARTS},
    **{name: partial(_of_floats, getattr(of_complex, name)) for name in _OF_FLOATS},
    **{name: partial(_of_truths, name) for name in ("logical_and", "logical_or", "logical_xor", "logical_not")},
    "where": _where,
    "astype": lambda c, x: x,
    "real": lambda c, x: x[0],
    "imag": lambda c, x: x[1],
}
"""Operation -> function that builds it of complex numbers, which are tuples of two typed numbers."""
_PARTS = {"complex64": SCALARS["float32"], "complex128": SCALARS["float64"]}


def _converted(c: Compiler, x: Any, dtype: str) -> Any:
    """Converts a number, or a complex one to a complex dtype or to a bool."""
    part = _PARTS.get(dtype)
    if part is None:
        return c.converted(_truth(c, x) if type(x) is tuple else x, SCALARS[dtype])
    pair = x if type(x) is tuple else (x, Number(c.builder.const(0, part), Kind(part)))
    return tuple([c.converted(each, part) for each in pair])


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<", "right_shift": ">>", **_COMPARISONS,
}  # fmt: skip


def _written(steps: Sequence[Step], parameters: Sequence[str]) -> str:
    """Returns the formula as text, abbreviated if it is long."""
    results: list[str] = []
    infix: set[str] = set()
    for operation, dtype, operands in steps:
        given = [parameters[at] if at >= 0 else results[-1 - at] for at in operands]
        name = dtype if operation == "astype" else operation
        if len(given) == 2 and name in _SIGNS:
            text = f" {_SIGNS[name]} ".join([f"({each})" if each in infix else each for each in given])
            infix.add(text)
        else:
            text = f"{name}({', '.join(given)})" if name else given[0]
        if len(text) > _MAX_TEXT:
            return f"{text[:_MAX_TEXT]}… ({len(steps)} operations)"
        results.append(text)
    return results[-1]


class Expression:
    """A formula that is given as steps; its value is that of the last one. A complex value is a tuple of its parts.

    Args:
        n: the number of parameters.
    """

    def __init__(self, n: int, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.parameters = tuple([f"x{at}" for at in range(n)])
        self.name = _written(steps, self.parameters)
        self.functions: tuple[FunctionType, ...] = ()
        self.sources: dict[FunctionType, Source] = {}
        self.text = repr(list(steps))

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters."""
        return inspect.Signature(
            [inspect.Parameter(each, inspect.Parameter.POSITIONAL_ONLY) for each in self.parameters]
        )

    def call(self, c: Compiler, args: Sequence[Any]) -> Any:
        """Builds the steps, and returns the value of the last one."""
        results: list[Any] = []
        for operation, dtype, operands in self._steps:
            given = [args[at] if at >= 0 else results[-1 - at] for at in operands]
            if dtype:
                given = [_converted(c, x, dtype) for x in given]
            is_complex = any(type(x) is tuple for x in given)
            results.append((COMPLEX_OPERATIONS if is_complex else REAL_OPERATIONS)[operation](c, *given))
        return results[-1]

    def error(self, message: object) -> KernelError:
        """Returns an error that names the operations."""
        return KernelError(f"{self.name}: {message}")

    def too_deep(self) -> KernelError:
        """Returns the error of an expression that is nested too deeply."""
        return self.error("this expression has too many steps; look at a part of it before")
