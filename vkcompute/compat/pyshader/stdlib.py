"""PyShader's functions. Modules with shaders may import them, for linters; shaders find them without an import.

On vectors they are elementwise, except for the geometric ones (`length` to `reflect`). Functions defined here are
compiled from this source; those imported here are built into the compiler.
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
    """Returns 2 to the power of x."""
    return 2.0**x


def round_even(x: Any) -> Any:
    """Rounds half to even, as `round`."""
    return round(x)


def sign(x: Any) -> Any:
    """Returns 1, 0 or -1."""
    return (x > 0) - (x < 0)


def fract(x: Any) -> Any:
    """Returns x - floor(x)."""
    return x - floor(x)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """Limits x to bounds."""
    return min(max(x, low), high)


def mix(x: Any, y: Any, a: Any) -> Any:
    """Interpolates linearly between x (a = 0) and y (a = 1)."""
    return x * (1.0 - a) + y * a


def step(edge: Any, x: Any) -> Any:
    """Returns 0 below the edge, else 1."""
    return 0.0 if x < edge else 1.0


def smooth_step(edge0: Any, edge1: Any, x: Any) -> Any:
    """Interpolates from 0 at the first edge to 1 at the second by Hermite's cubic; constant outside."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def nmin(x: Any, y: Any) -> Any:
    """Returns the smaller argument; if one is NaN, the other."""
    return y if math.isnan(x) else x if math.isnan(y) else min(x, y)


def nmax(x: Any, y: Any) -> Any:
    """Returns the larger argument; if one is NaN, the other."""
    return y if math.isnan(x) else x if math.isnan(y) else max(x, y)


def nclamp(x: Any, low: Any, high: Any) -> Any:
    """Limits x to bounds; ignores arguments that are NaN."""
    return nmin(nmax(x, low), high)


def length(v: Any) -> Any:
    """Returns the Euclidean norm of a vector."""
    return sqrt(v @ v)


def distance(p: Any, q: Any) -> Any:
    """Returns the Euclidean distance of two points."""
    return length(p - q)


def normalize(v: Any) -> Any:
    """Scales a vector to length 1."""
    return v / length(v)


def cross(p: Any, q: Any) -> Any:
    """Returns the cross product of two vectors of three numbers."""
    return p.yzx * q.zxy - p.zxy * q.yzx


def face_forward(n: Any, i: Any, n_ref: Any) -> Any:
    """Returns n if n_ref and i point in opposite directions, else -n."""
    return n if n_ref @ i < 0.0 else -n


def reflect(i: Any, n: Any) -> Any:
    """Reflects direction i at a surface with normal n of length 1."""
    return i - 2.0 * (n @ i) * n
