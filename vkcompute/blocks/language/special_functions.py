"""Functions of libdevice that are programs of the language themselves.

Inverse error functions: M. Giles, Approximating the erfinv function (GPU Computing Gems, 2010), table 5. Bessel
functions: M. Abramowitz, I. Stegun, Handbook of Mathematical Functions (1964), sections 9.4 and 9.8, whose errors are
below 2e-7.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import BlockFunction, block_function
from vkcompute.blocks.compiler.types import DTYPES
from vkcompute.blocks.language.elementwise import abs, fma, maximum, minimum, real_function, umulhi, where
from vkcompute.blocks.language.math import cos, exp, log, rsqrt, sin, sqrt
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32
from vkcompute.operations import FUNCTIONS

FLOAT = DTYPES["float32"]
erfc, cbrt = (real_function(name, FUNCTIONS[name], is_method=False) for name in ("erfc", "cbrt"))

_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


def _polynomial(x: Any, coefficients: Any) -> Any:
    total = x * 0.0 + coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _quantile(x: Any, product: Any) -> Any:
    """Returns erfinv(x), given (1 - x) * (1 + x)."""
    w = -log(product)
    near, far = _polynomial(w - 2.5, _CENTRAL), _polynomial(sqrt(w) - 3.0, _TAIL)
    result = where(w < 5.0, near, far) * x
    return where(product == 0.0, x * float("inf"), result)


def _erfinv(x: Any) -> Any:
    """The inverse of erf."""
    return _quantile(x, (1.0 - x) * (1.0 + x))


def _erfcinv(x: Any) -> Any:
    """The inverse of erfc."""
    return _quantile(1.0 - x, x * (2.0 - x))


def _phase(size: Any, coefficients: Any, angles: Any) -> Any:
    """Returns the amplitude and the angle of a Bessel function of an argument from 3 on."""
    z = 3.0 / size
    return _polynomial(z, coefficients) * rsqrt(size), size + _polynomial(z, angles)


_J0 = 0.00021, -0.0039444, 0.0444479, -0.3163866, 1.2656208, -2.2499997, 1.0
_F0 = 0.00014476, -0.00072805, 0.00137237, -0.0000952, -0.0055274, -0.00000077, 0.79788456
_T0 = 0.00013558, -0.00029333, -0.00054125, 0.00262573, -0.00003954, -0.04166397, -0.78539816
_J1 = 0.00001109, -0.00031761, 0.00443319, -0.03954289, 0.21093573, -0.56249985, 0.5
_F1 = -0.00020033, 0.00113653, -0.00249511, 0.00017105, 0.01659667, 0.00000156, 0.79788456
_T1 = -0.00029166, 0.00079824, 0.00074348, -0.00637879, 0.0000565, 0.12499612, -2.35619449
_Y0 = -0.00024846, 0.00427916, -0.04261214, 0.25300117, -0.74350384, 0.60559366, 0.36746691
_I0 = 0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0
_E0 = (
    0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228,
)  # fmt: skip


def _j0(x: Any) -> Any:
    """The Bessel function of the first kind of order 0."""
    size = abs(x)
    amplitude, angle = _phase(where(size < 3.0, 3.0, size), _F0, _T0)
    return where(size < 3.0, _polynomial(x * x / 9.0, _J0), amplitude * cos(angle))


def _j1(x: Any) -> Any:
    """The Bessel function of the first kind of order 1."""
    size = abs(x)
    amplitude, angle = _phase(where(size < 3.0, 3.0, size), _F1, _T1)
    far = where(x < 0.0, -amplitude, amplitude) * cos(angle)
    return where(size < 3.0, x * _polynomial(x * x / 9.0, _J1), far)


def _y0(x: Any) -> Any:
    """The Bessel function of the second kind of order 0; NaN for negative numbers."""
    amplitude, angle = _phase(where(x < 3.0, 3.0, x), _F0, _T0)
    near = 0.63661977 * log(x * 0.5) * _j0(x) + _polynomial(x * x / 9.0, _Y0)
    return where(x < 3.0, near, amplitude * sin(angle))


def _cyl_bessel_i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0."""
    size = abs(x)
    far = where(size < 3.75, 3.75, size)
    scaled = exp(far * 0.5)  # its square may be infinite where the result is not
    beyond = _polynomial(3.75 / far, _E0) * rsqrt(far) * scaled * scaled
    return where(size < 3.75, _polynomial(x * x / 14.0625, _I0), beyond)


_Y1 = 0.0027873, -0.0400976, 0.3123951, -1.3164827, 2.1682709, 0.2212091, -0.6366198
_I1 = 0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5
_E1 = (
    -0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018, -0.03988024, 0.39894228,
)  # fmt: skip


def _y1(x: Any) -> Any:
    """The Bessel function of the second kind of order 1; NaN for negative numbers."""
    amplitude, angle = _phase(where(x < 3.0, 3.0, x), _F1, _T1)
    near = 0.63661977 * log(x * 0.5) * _j1(x) + _polynomial(x * x / 9.0, _Y1) / x
    return where(x < 3.0, near, amplitude * sin(angle))


def _cyl_bessel_i1(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 1."""
    size = abs(x)
    far = where(size < 3.75, 3.75, size)
    scaled = exp(far * 0.5)
    beyond = _polynomial(3.75 / far, _E1) * rsqrt(far) * scaled * scaled
    return where(size < 3.75, x * _polynomial(x * x / 14.0625, _I1), where(x < 0.0, -beyond, beyond))


def _normcdf(x: Any) -> Any:
    """The distribution function of normal numbers."""
    return 0.5 * erfc(x * -0.70710678)


def _rcbrt(x: Any) -> Any:
    """1 / cbrt(x)."""
    return 1.0 / cbrt(x)


def _rsqrt_rn(x: Any) -> Any:
    """1 / sqrt(x), corrected once to the nearest number."""
    y = 1.0 / sqrt(x)
    high = y * y
    error = fma(-x, high, 1.0) - x * fma(y, y, -high)
    return where((x > 0.0) & (x < float("inf")), fma(y * 0.5, error, y), y)


def _function(definition: Callable[[Any], Any]) -> BlockFunction:
    """Makes a function of float32 of a program."""
    name = definition.__name__[1:]

    def emit(c: BlockCompiler, x: Any) -> Any:
        if c.element_type(x) is not FLOAT32:
            raise UnsupportedError(f"libdevice.{name} takes float32; got {describe(x)}; convert, as x.to(tl.float32)")
        return c.called(definition, [x])

    emit.__name__, emit.__doc__ = name, definition.__doc__
    return block_function(emit)


erfinv, erfcinv, normcdf, rcbrt, rsqrt_rn = map(_function, (_erfinv, _erfcinv, _normcdf, _rcbrt, _rsqrt_rn))
j0, j1, y0, y1 = map(_function, (_j0, _j1, _y0, _y1))
cyl_bessel_i0, cyl_bessel_i1 = map(_function, (_cyl_bessel_i0, _cyl_bessel_i1))


def _ldexp(x: Any, n: Any) -> Any:
    """x times 2 to the power of n, rounded once."""
    for _ in range(2):  # steps down end above the subnormal numbers
        x = where(n > 127, x * 1.7014118346046923e38, where(n < -126, x * 1.9721522630525295e-31, x))
        n = where(n > 127, n - 127, where(n < -126, n + 102, n))
    n = minimum(maximum(n, -126), 127)
    return x * ((n + 127) << 23).to(FLOAT, bitcast=True)


def _remainder(x: Any, y: Any) -> Any:
    """x less the nearest multiple of y, to even ones between two."""
    size, step = abs(x), abs(y)
    rest = where(step < 1.7e38, size % (step + step), size)
    less = rest - step
    rest = where(rest > step * 0.5, where(less >= step * 0.5, less - step, less), rest)
    return where(x < 0.0, -rest, rest)


def _mul24(x: Any, y: Any) -> Any:
    """The lower 32 bits of the product of the lower 24 bits of two integers."""
    return (x << 8 >> 8) * (y << 8 >> 8)


def _sad(x: Any, y: Any, z: Any) -> Any:
    """|x - y| + z."""
    return where(x > y, x - y, y - x) + z


def _mulhi(x: Any, y: Any) -> Any:
    """The upper half of the product of two integers of 32 or 64 bits."""
    high = umulhi(x, y)
    return high - where(x < 0, y, 0) - where(y < 0, x, 0)


def _byte_perm(x: Any, y: Any, s: Any) -> Any:
    """Four bytes of the eight of x and y, whose numbers are the lowest hexadecimal digits of s modulo 8."""
    result = s & 0
    for at in (0, 1, 2, 3):
        digit = s >> (4 * at)
        word = where((digit & 4) != 0, y, x)
        result |= ((word >> ((digit & 3) * 8)) & 0xFF) << (8 * at)
    return result


def _of(definition: Callable[..., Any], kinds: str) -> BlockFunction:
    """Makes a function of several blocks of a program.

    Args:
        kinds: of each operand, "f" for float32, "i" for integers of 32 bits, "l" for those of 32 or 64 bits.
    """
    name, operands = definition.__name__[1:], [*inspect.signature(definition).parameters.values()]
    taken = {"f": "float32", "i": "integers of 32 bits", "l": "integers of 32 or 64 bits"}

    def emit(c: BlockCompiler, *args: Any) -> Any:
        numbers = [c.number(c.cast(arg, c.common_type(arg).type)) for arg in args]
        for arg, letter in zip(numbers, kinds, strict=True):
            kind = c.element_type(arg)
            is_integer = kind.kind in "iu" and kind.bits in ((32,) if letter == "i" else (32, 64))
            if not (kind is FLOAT32 if letter == "f" else is_integer):
                raise UnsupportedError(f"libdevice.{name} takes {taken[letter]}; got {describe(arg)}; convert it")
        return c.called(definition, numbers)

    emit.__name__, emit.__doc__ = name, definition.__doc__
    context = inspect.Parameter("c", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    emit.__signature__ = inspect.Signature([context, *operands])  # type: ignore[attr-defined]
    return block_function(emit)


ldexp, remainder, mul24, sad = _of(_ldexp, "fi"), _of(_remainder, "ff"), _of(_mul24, "ii"), _of(_sad, "iii")
mulhi, byte_perm = _of(_mulhi, "ll"), _of(_byte_perm, "iii")
nextafter = real_function("nextafter", FUNCTIONS["nextafter"], is_method=False)
fast_powf = real_function("fast_powf", FUNCTIONS["power"], is_method=False)
fast_tanhf = real_function("fast_tanhf", FUNCTIONS["tanh"], is_method=False)
