"""PyShader's functions, to be imported where a shader is written; the shader finds them by name in any case.

Of vectors they are taken element by element, but for the geometric ones (`length` to `reflect`). The compiler has those
that come from elsewhere, and compiles the others from here.
"""

from __future__ import annotations

import math
from builtins import abs, max, min, pow, round  # noqa: UP029
from math import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    cos,
    cosh,
    degrees,
    exp,
    floor,
    log,
    log2,
    radians,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from typing import Any

GEOMETRIC = ("length", "distance", "cross", "normalize", "face_forward", "reflect")
__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clamp", "cos", "cosh", "degrees", "exp",
    "exp2", "floor", "fract", "log", "log2", "max", "min", "mix", "nclamp", "nmax", "nmin", "pow", "radians", "round",
    "round_even", "sign", "sin", "sinh", "smooth_step", "sqrt", "step", "tan", "tanh", "trunc", *GEOMETRIC,
]  # fmt: skip


def exp2(x: Any) -> Any:
    """2 to the power of x."""
    return 2.0**x


def round_even(x: Any) -> Any:
    """The nearest whole number, the even one of two; so does `round`."""
    return round(x)


def sign(x: Any) -> Any:
    """1, 0 or -1."""
    return (x > 0) - (x < 0)


def fract(x: Any) -> Any:
    """What is above the whole number below."""
    return x - floor(x)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """x, within bounds."""
    return min(max(x, low), high)


def mix(x: Any, y: Any, a: Any) -> Any:
    """x for a = 0, y for a = 1, and what lies on the line between."""
    return x * (1.0 - a) + y * a


def step(edge: Any, x: Any) -> Any:
    """0 below the edge, else 1."""
    return 0.0 if x < edge else 1.0


def smooth_step(edge0: Any, edge1: Any, x: Any) -> Any:
    """0 up to the first edge, 1 from the second on, and Hermite's cubic between."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def nmin(x: Any, y: Any) -> Any:
    """The smaller one, or that which is a number."""
    return y if math.isnan(x) else x if math.isnan(y) else min(x, y)


def nmax(x: Any, y: Any) -> Any:
    """The larger one, or that which is a number."""
    return y if math.isnan(x) else x if math.isnan(y) else max(x, y)


def nclamp(x: Any, low: Any, high: Any) -> Any:
    """x within bounds, whichever of the three are numbers."""
    return nmin(nmax(x, low), high)


def length(v: Any) -> Any:
    """The Euclidean norm of a vector."""
    return sqrt(v @ v)


def distance(p: Any, q: Any) -> Any:
    """The distance of two points."""
    return length(p - q)


def normalize(v: Any) -> Any:
    """The vector of length 1 in this direction."""
    return v / length(v)


def cross(p: Any, q: Any) -> Any:
    """The vector product of two vectors of three."""
    return p.yzx * q.zxy - p.zxy * q.yzx


def face_forward(n: Any, i: Any, n_ref: Any) -> Any:
    """n if n_ref points against i, else -n."""
    return n if n_ref @ i < 0.0 else -n


def reflect(i: Any, n: Any) -> Any:
    """The direction i, reflected by a surface with the normal n of length 1."""
    return i - 2.0 * (n @ i) * n
