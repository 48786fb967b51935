"""The meaning of each function of elements, the first line of its docstring."""

from __future__ import annotations

_DTYPES = {
    "same": "The result has the common dtype.",
    "float": "The result is of the float dtype; of the default one for integers and bools.",
    "bool": "The result is of bools.",
    "whole": "Operands are integers; the result has their common dtype.",
}
_ROWS = {
    "same": {
        "absolute": "the absolute value of x", "add": "x1 + x2; of bools, the logical or",
        "ceil": "the least whole number that is not less than x", "floor": "the greatest whole number not above x",
        "floor_divide": "x1 // x2, rounded down", "fmax": "the larger number; the other one beside NaN",
        "fmin": "the smaller number; the other one beside NaN", "fmod": "the remainder with the sign of x1",
        "maximum": "the larger number; NaN beside NaN", "minimum": "the smaller number; NaN beside NaN",
        "multiply": "x1 * x2; of bools, the logical and", "negative": "-x", "positive": "x",
        "power": "x1 ** x2", "remainder": "the remainder with the sign of x2, x1 % x2",
        "reciprocal": "1 / x; of integers, rounded towards 0",
        "sign": "-1, 0 or 1, the sign of x",
        "square": "x * x", "subtract": "x1 - x2", "trunc": "x rounded towards 0",
    },
    "float": {
        "arccos": "the angle whose cosine is x", "arccosh": "the inverse hyperbolic cosine of x",
        "arcsin": "the angle whose sine is x", "arcsinh": "the inverse hyperbolic sine of x",
        "arctan": "the angle whose tangent is x", "arctan2": "the angle of the point (x2, x1)",
        "arctanh": "the inverse hyperbolic tangent of x", "cbrt": "the cube root of x",
        "copysign": "x1 with the sign of x2", "cos": "the cosine of x, in radians",
        "cosh": "the hyperbolic cosine of x",
        "deg2rad": "an angle in radians, of degrees", "divide": "x1 / x2", "exp": "e ** x", "exp2": "2 ** x",
        "fabs": "the absolute value of x",
        "expm1": "e ** x - 1, precise near 0", "heaviside": "0, x2 or 1: for x1 below 0, 0, above 0",
        "hypot": "the hypotenuse sqrt(x1**2 + x2**2)", "log": "the natural logarithm of x",
        "log10": "the decimal logarithm of x", "log1p": "the logarithm of 1 + x, precise near 0",
        "log2": "the binary logarithm of x", "logaddexp": "log(exp(x1) + exp(x2))",
        "logaddexp2": "log2(2**x1 + 2**x2)", "nextafter": "the float after x1 towards x2",
        "rad2deg": "an angle in degrees, of radians",
        "rint": "the nearest whole number, of halves the even one", "sin": "the sine of x, in radians",
        "sinc": "sin(pi x) / (pi x)", "sinh": "the hyperbolic sine of x",
        "spacing": "the distance from x to the next float", "sqrt": "the square root of x",
        "tan": "the tangent of x, in radians", "tanh": "the hyperbolic tangent of x",
    },
    "bool": {
        "equal": "x1 == x2", "greater": "x1 > x2", "greater_equal": "x1 >= x2", "isfinite": "True if x is finite",
        "isinf": "True if x is infinite", "isnan": "True if x is NaN", "less": "x1 < x2", "less_equal": "x1 <= x2",
        "logical_and": "True if both are true", "logical_not": "True if x is false",
        "logical_or": "True if one or both are true", "logical_xor": "True if one is true", "not_equal": "x1 != x2",
        "signbit": "True if x has a minus sign, also -0.0",
    },
    "whole": {
        "bitwise_and": "x1 & x2; bools, too", "bitwise_or": "x1 | x2; bools, too", "bitwise_xor": "x1 ^ x2; bools, too",
        "gcd": "the greatest common divisor", "invert": "~x; bools, too", "lcm": "the least common multiple",
        "left_shift": "x1 << x2", "bitwise_count": "the number of bits of |x| that are one", "right_shift": "x1 >> x2",
    },
}  # fmt: skip


def docstring(row: str) -> str:
    """Returns the docstring of a function of elements."""
    for kind, rows in _ROWS.items():
        if row in rows:
            return f"Returns {rows[row]}.\n\n{_DTYPES[kind]}"
    return f"Returns NumPy's {row} of each element."
