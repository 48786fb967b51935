"""Functions of libdevice that are programs of the language themselves.

Inverse error functions: M. Giles, Approximating the erfinv function (GPU Computing Gems, 2010), table 5.
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
from vkcompute.blocks.language.math import log, sqrt
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
