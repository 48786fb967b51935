"""Functions of floats: exponentials, logarithms, trigonometry, and those of the bits of floats."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from vkcompute.ir.types import FLOAT16, INT32, SmallFloat
from vkcompute.operations import complex_numbers as of_complex
from vkcompute.operations.function import define


class _Format(NamedTuple):
    """The bits of a float type: those of the fraction, and the bits of infinity and of the sign."""

    shift: int
    inf: int
    sign: int


_FORMATS = {
    16: _Format(10, 0x7C00, 0x8000),
    32: _Format(23, 0x7F800000, 0x80000000),
    64: _Format(52, 0x7FF0000000000000, 0x8000000000000000),
}


def _format(x: Any) -> _Format:
    kind = x.kind
    if isinstance(kind, SmallFloat):
        return _Format(kind.format.mantissa, kind.format.infinity, 1 << kind.bits - 1)
    return _FORMATS[kind.bits]


def sign_bit(f: Any, x: Any) -> Any:
    """True if x is negative or -0."""
    return f.bits(x) >= _format(x).sign


def _size(f: Any, x: Any) -> Any:
    """The bits of |x|."""
    return f.bits(x) & _format(x).sign - 1


def _signed(f: Any, size: Any, x: Any) -> Any:
    """The non-negative number `size` with the sign of x."""
    return f.from_bits(f.bits(size) | f.bits(x) & _format(x).sign, x.kind)


def _copysign(f: Any, x: Any, y: Any) -> Any:
    return _signed(f, f.from_bits(_size(f, x), x.kind), y)


def _nextafter(f: Any, x: Any, y: Any) -> Any:
    """The next representable number from x towards y; y where they are equal, as -0.0 and 0.0 are."""
    form, size, other = _format(x), _size(f, x), _size(f, y)
    is_below = sign_bit(f, x)
    here = f.where(is_below, -f.bits(size, "int"), f.bits(size, "int"))
    there = f.where(sign_bit(f, y), -f.bits(other, "int"), f.bits(other, "int"))
    step = f.where(here < there, here + 1, here - 1)
    sign = f.where((step < 0) | ((step == 0) & is_below), f.number(form.sign, size.kind), 0)
    result = f.where(here == there, y, f.from_bits(f.bits(abs(step)) | sign, x.kind))
    return f.where((size > form.inf) | (other > form.inf), x + y, result)


def _ulp(f: Any, x: Any) -> Any:
    """The unit in the last place of x."""
    form, size = _format(x), _size(f, x)
    n = f.to(f.op("max", f.op("shr", size, form.shift), 1), INT32)
    above = f.op("max", n - form.shift, 0)
    normal = f.op("shl", f.to(above, size.kind), form.shift)
    below = f.to(f.op("min", n, form.shift) - 1, size.kind)
    unit = f.where(n > form.shift, normal, f.op("shl", f.number(1, size.kind), below))
    return f.from_bits(f.where(size >= form.inf, size, unit), x.kind)


def _spacing(f: Any, x: Any) -> Any:
    """The distance to the adjacent number of larger magnitude; of float16, to the next one above x, as NumPy has it."""
    form = _format(x)
    unit = f.where(_size(f, x) == form.inf - 1, f.number(math.inf, x.kind), _ulp(f, x))
    nan = f.number(math.nan, x.kind)
    result = f.where(f.isinf(x), nan, f.where(x == 0, unit, _signed(f, unit, x)))
    if x.kind is not FLOAT16:
        return result
    below = (x < 0) & f.op("not", f.isinf(x))
    return f.where(below, _ulp(f, f.from_bits(f.bits(x) - f.to(below, f.bits(x).kind), x.kind)), result)


def _heaviside(f: Any, x: Any, y: Any) -> Any:
    return f.where(f.isnan(x), x, f.where(x < 0, 0, f.where(x == 0, y, 1)))


def _sinc(f: Any, x: Any) -> Any:
    y = f.where(x == 0, 1, x) * math.pi
    return f.where(x == 0, 1, f.sin(y) / y)


def _xlogy(f: Any, x: Any, y: Any) -> Any:
    return f.where((x == 0) & ~f.isnan(y), 0.0, x * f.log(y))


def _logaddexp(f: Any, x: Any, y: Any) -> Any:
    return f.where(x == y, x + math.log(2), f.op("max", x, y) + f.log1p(f.exp(-abs(x - y))))


def _logaddexp2(f: Any, x: Any, y: Any) -> Any:
    return f.where(x == y, x + 1, f.op("max", x, y) + f.log1p(f.exp2(-abs(x - y))) / math.log(2))


# name, operation, meaning; where math and the Array API have another name, it is the operation's
for _name, _code, _meaning in (
    ("arccos", "acos", "the angle whose cosine is x"),
    ("arccosh", "acosh", "the inverse hyperbolic cosine of x"),
    ("arcsin", "asin", "the angle whose sine is x"),
    ("arcsinh", "asinh", "the inverse hyperbolic sine of x"),
    ("arctan", "atan", "the angle whose tangent is x"),
    ("arctanh", "atanh", "the inverse hyperbolic tangent of x"),
    ("cos", "cos", "the cosine of x, in radians"),
    ("cosh", "cosh", "the hyperbolic cosine of x"),
    ("sin", "sin", "the sine of x, in radians"),
    ("sinh", "sinh", "the hyperbolic sine of x"),
    ("tan", "tan", "the tangent of x, in radians"),
    ("tanh", "tanh", "the hyperbolic tangent of x"),
    ("exp", "exp", "e ** x"),
    ("exp2", "exp2", "2 ** x"),
    ("expm1", "expm1", "e ** x - 1, precise near 0"),
    ("log", "log", "the natural logarithm of x"),
    ("log10", "log10", "the decimal logarithm of x"),
    ("log1p", "log1p", "the logarithm of 1 + x, precise near 0"),
    ("log2", "log2", "the binary logarithm of x"),
):
    define(
        _name, 1, "float", _meaning, {"f": _code, "c": getattr(of_complex, _name)},
        aliases=(_code,) * (_code != _name), math=(_code,), blocks=(_code,), most_ulp=2,
    )  # fmt: skip
define(
    "sqrt", 1, "float", "the square root of x", {"f": "sqrt", "c": of_complex.sqrt},
    math=("sqrt",), blocks=("sqrt", "sqrt_rn"),
)  # fmt: skip
define("rsqrt", 1, "float", "1 / sqrt(x)", {"f": "rsqrt"}, blocks=("rsqrt",), public="", most_ulp=2)
define("cbrt", 1, "float", "the cube root of x", {"f": "cbrt"}, math=("cbrt",), blocks=("cbrt",), most_ulp=2)
define(
    "erf", 1, "float", "the error function of x", {"f": "erf"}, math=("erf",), blocks=("erf",), public="", most_ulp=2
)
define("erfc", 1, "float", "1 - erf(x)", {"f": "erfc"}, math=("erfc",), blocks=("erfc",), public="", most_ulp=5)
define(
    "gamma", 1, "float", "the gamma function of x", {"f": "gamma"},
    math=("gamma",), blocks=("tgamma",), public="", most_ulp=8,
)  # fmt: skip
define(
    "lgamma", 1, "float", "the logarithm of |gamma(x)|", {"f": "lgamma"},
    math=("lgamma",), blocks=("lgamma",), public="", most_ulp=5,
)  # fmt: skip
define(
    "arctan2", 2, "float", "the angle of the point (x2, x1)", {"f": "atan2"},
    aliases=("atan2",), math=("atan2",), blocks=("atan2",), most_ulp=2,
)  # fmt: skip
define(
    "hypot", 2, "float", "the hypotenuse sqrt(x1**2 + x2**2)", {"f": "hypot"},
    blocks=("hypot",), commutative=True, identity=0, most_ulp=2,
)  # fmt: skip
define("angle", 1, "angle", "the angle of x to the positive real axis", {"c": of_complex.angle})
define(
    "deg2rad", 1, "float", "an angle in radians, of degrees", {"f": lambda f, x: x * (math.pi / 180)},
    aliases=("radians",), math=("radians",), wide=True, most_ulp=2,
)  # fmt: skip
define(
    "rad2deg", 1, "float", "an angle in degrees, of radians", {"f": lambda f, x: x * (180 / math.pi)},
    aliases=("degrees",), math=("degrees",), wide=True, most_ulp=2,
)  # fmt: skip
define("sinc", 1, "float", "sin(pi x) / (pi x)", {"fc": _sinc}, wide=True)
define("xlogy", 2, "float", "x1 * log(x2), and 0 where x1 is 0", {"fc": _xlogy}, wide=True)
define(
    "heaviside", 2, "float", "0, x2 or 1: for x1 below 0, 0, above 0", {"f": _heaviside}, wide=True,
)  # fmt: skip
define(
    "logaddexp", 2, "float", "log(exp(x1) + exp(x2))", {"f": _logaddexp},
    wide=True, commutative=True, identity=-math.inf,
)  # fmt: skip
define(
    "logaddexp2", 2, "float", "log2(2**x1 + 2**x2)", {"f": _logaddexp2},
    wide=True, commutative=True, identity=-math.inf,
)  # fmt: skip
define("copysign", 2, "float", "x1 with the sign of x2", {"f": _copysign}, math=("copysign",))
define("nextafter", 2, "float", "the float after x1 towards x2", {"f": _nextafter}, math=("nextafter",))
define("spacing", 1, "float", "the distance from x to the next float", {"f": _spacing})
define("ulp", 1, "float", "the unit in the last place of x", {"f": _ulp}, math=("ulp",), public="")
