"""Arithmetic: sums, products, quotients, powers, extremes and roundings."""

from __future__ import annotations

from typing import Any

from vkcompute.operations import complex_numbers as of_complex
from vkcompute.operations import division, loops
from vkcompute.operations.function import define


def _negative(f: Any, x: Any) -> Any:
    return f.op("sub", f.number(0, x.kind), x)


def _unless_zero(definition: Any) -> Any:
    """Returns a division of integers that gives 0 for a division by 0, as NumPy does."""

    def guarded(f: Any, x: Any, y: Any) -> Any:
        zero = f.number(0, y.kind)
        result = definition(f, x, y)
        return f.choose(f.op("eq", y, zero), zero, result)

    return guarded


def _floor_divide(f: Any, x: Any, y: Any) -> Any:
    """The quotient rounded down; of infinite floats the quotient itself, as the Array API standard demands."""
    infinite = f.isinf(x) | f.isinf(y)
    return f.where(infinite, x / y, division.quotient(f, x, y))


def _integer_power(f: Any, x: Any, y: Any) -> Any:
    return f.call(loops.integer_power, x, y, f.number(1, x.kind))


def _signed_power(f: Any, x: Any, y: Any) -> Any:
    """The power; with a negative exponent it is rounded to zero: 0, or a power of 1 or -1."""
    result, zero, one, minus = _integer_power(f, x, y), *[f.number(n, x.kind) for n in (0, 1, -1)]
    is_odd = (y & one) != zero
    of_minus = f.where(x == minus, f.where(is_odd, minus, one), zero)
    return f.where(y < zero, f.where(x == one, one, of_minus), result)


def _itself(f: Any, x: Any) -> Any:
    return x


def _sign(f: Any, x: Any) -> Any:
    return f.where(f.isnan(x), x, f.op("sign", x))


def _square(f: Any, x: Any) -> Any:
    return x * x


def _reciprocal(f: Any, x: Any) -> Any:
    return 1 / x


def _integer_reciprocal(f: Any, x: Any) -> Any:
    """1 / x, truncated: 0 except for 1 and -1, and for 0: as in NumPy, the least int32 and int64."""
    result = f.where(abs(x) == 1, x, 0)
    if x.kind.kind == "u" or x.kind.bits < 32:
        return result
    return f.where(x == 0, -(1 << x.kind.bits - 1), result)


def _maximum(f: Any, x: Any, y: Any) -> Any:
    """The larger of two floats; NaN if one is NaN, which the instruction may lose."""
    return f.where((x > y) | f.isnan(x), x, y)


def _minimum(f: Any, x: Any, y: Any) -> Any:
    return f.where((x < y) | f.isnan(x), x, y)


def _fmax(f: Any, x: Any, y: Any) -> Any:
    return f.where((x > y) | f.isnan(y), x, y)


def _fmin(f: Any, x: Any, y: Any) -> Any:
    return f.where((x < y) | f.isnan(y), x, y)


define(
    "add", 2, "common", "x1 + x2; of bools, the logical or", {"b": "or", "iuf": "add", "c": of_complex.add},
    sign="+", cost=1, commutative=True, identity=0,
)  # fmt: skip
define("subtract", 2, "numbers", "x1 - x2", {"iuf": "sub", "c": of_complex.subtract}, sign="-", cost=1)
define(
    "multiply", 2, "common", "x1 * x2; of bools, the logical and", {"b": "and", "iuf": "mul", "c": of_complex.multiply},
    sign="*", cost=1, commutative=True, identity=1,
)  # fmt: skip
define(
    "divide", 2, "float", "x1 / x2", {"f": "div", "c": of_complex.divide},
    sign="/", aliases=("true_divide",),
)  # fmt: skip
define(
    "floor_divide", 2, "counted", "x1 // x2, rounded down",
    {"iu": _unless_zero(division.quotient), "f": _floor_divide}, sign="//",
)  # fmt: skip
define(
    "remainder", 2, "counted", "the remainder with the sign of x2, x1 % x2",
    {"iu": _unless_zero(division.remainder), "f": division.remainder}, sign="%", aliases=("mod",),
)  # fmt: skip
define(
    "fmod", 2, "counted", "the remainder with the sign of x1",
    {"iu": _unless_zero(division.truncated_remainder), "f": "rem"}, blocks=("fmod",),
)  # fmt: skip
define(
    "power", 2, "counted", "x1 ** x2", {"i": _signed_power, "u": _integer_power, "f": "pow", "c": of_complex.power},
    sign="**", aliases=("pow",), blocks=("pow",), most_ulp=2,
)  # fmt: skip
define("negative", 1, "numbers", "-x", {"if": "neg", "u": _negative, "c": of_complex.negative}, sign="-", cost=1)
define("positive", 1, "positive", "x", {}, sign="+")
define(
    "absolute", 1, "absolute", "the absolute value of x", {"u": _itself, "if": "abs", "c": of_complex.absolute},
    aliases=("abs",), cost=1,
)  # fmt: skip
define("fabs", 1, "magnitude", "the absolute value of x", {}, math=("fabs",))
define(
    "sign", 1, "numbers", "-1, 0 or 1, the sign of x",
    {"i": "sign", "u": lambda f, x: f.op("min", x, 1), "f": _sign, "c": of_complex.sign}, cost=1,
)  # fmt: skip
define("square", 1, "counted", "x * x", {"iuf": _square, "c": of_complex.square}, cost=1)
define(
    "reciprocal", 1, "reciprocal", "1 / x; of integers, rounded towards 0",
    {"iu": _integer_reciprocal, "f": _reciprocal, "c": of_complex.reciprocal},
)  # fmt: skip
define(
    "conjugate", 1, "conjugate", "the complex conjugate of x", {"c": of_complex.conjugate}, aliases=("conj",), cost=1
)
define(
    "maximum", 2, "common", "the larger number; NaN beside NaN",
    {"b": "or", "iu": "max", "f": _maximum, "c": of_complex.maximum},
    cost=1, commutative=True, identity="lowest",
)  # fmt: skip
define(
    "minimum", 2, "common", "the smaller number; NaN beside NaN",
    {"b": "and", "iu": "min", "f": _minimum, "c": of_complex.minimum},
    cost=1, commutative=True, identity="highest",
)  # fmt: skip
define(
    "fmax", 2, "common", "the larger number; the other one beside NaN",
    {"b": "or", "iu": "max", "f": _fmax, "c": of_complex.fmax}, commutative=True,
)  # fmt: skip
define(
    "fmin", 2, "common", "the smaller number; the other one beside NaN",
    {"b": "and", "iu": "min", "f": _fmin, "c": of_complex.fmin}, commutative=True,
)  # fmt: skip
define(
    "floor", 1, "rounded", "the greatest whole number not above x", {"f": "floor"},
    blocks=("floor",), cost=1,
)  # fmt: skip
define(
    "ceil", 1, "rounded", "the least whole number that is not less than x", {"f": "ceil"},
    blocks=("ceil",), cost=1,
)  # fmt: skip
define("trunc", 1, "rounded", "x rounded towards 0", {"f": "trunc"}, blocks=("trunc",), cost=1)
define(
    "rint", 1, "nearest", "the nearest whole number, of halves the even one", {"f": "round", "c": of_complex.rint},
    blocks=("rint", "nearbyint"), cost=1,
)  # fmt: skip
