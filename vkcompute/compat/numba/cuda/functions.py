"""Functions of numbers in kernels: those of bits, and those of Python whose types Numba chooses."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any

import numpy as np

import vkcompute.jit.library.bit_operations as bits
from vkcompute.compat.numba import part_functions
from vkcompute.compat.numba.kernel_names import NAMES, in_kernels, refuse_outside_kernel
from vkcompute.compat.numba.language import ARRAY_METHODS, NumbaKernels
from vkcompute.compat.numba.reductions import REDUCTIONS, reduced
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, FLOAT64, INT32, INT64, SCALARS, UINT64
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.array_choices import ArrayChoice, chosen
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number, is_complex, is_python
from vkcompute.jit.library.element_functions import fma as fused
from vkcompute.jit.library.element_functions import in_floats
from vkcompute.jit.library.functions import _decimals
from vkcompute.operations import FUNCTIONS

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and_": "&",
    "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~", "inv": "~", "not_": "not"}


def _counted(function: Any, c: NumbaKernels, x: Any) -> Number:
    """Counts bits of an integer; the count has its type, as in Numba."""
    number = c.converted(x, c.kind(x).type) if is_python(x) else x
    kind = c.kind(number).type
    result = c.call_intrinsic(function, [number])
    return c.converted(result, kind if function is bits.bit_reverse else INT32 if kind.bits <= 32 else INT64)


def _first_set(c: NumbaKernels, x: Any) -> Number:
    """Returns the position of the lowest set bit, from 1; 0 for 0."""
    kind, b = c.kind(x).type, c.builder
    number = Number(c.cast(x, kind), Kind(kind))
    trailing = b.cast(c.call_intrinsic(bits.ctz, [number]).value, INT32)
    is_any_set = b.compute("ne", number.value, b.const(0, kind))
    value = b.select(is_any_set, b.compute("add", trailing, b.const(1, INT32)), b.const(0, INT32))
    return Number(value, Kind(INT32))


@in_kernels(partial(_counted, bits.popcount))
def popc(x: Any) -> Any:
    """Number of set bits."""
    refuse_outside_kernel("cuda.popc")


@in_kernels(partial(_counted, bits.bit_reverse))
def brev(x: Any) -> Any:
    """The bits in reverse order."""
    refuse_outside_kernel("cuda.brev")


@in_kernels(partial(_counted, bits.clz))
def clz(x: Any) -> Any:
    """Number of zeros above the highest set bit."""
    refuse_outside_kernel("cuda.clz")


@in_kernels(_first_set)
def ffs(x: Any) -> Any:
    """Position of the lowest set bit, from 1; 0 for 0."""
    refuse_outside_kernel("cuda.ffs")


@in_kernels(lambda c, a, b, d: c.where(a, b, d))
def selp(a: Any, b: Any, c: Any) -> Any:
    """`b` if `a` is true, else `c`."""
    refuse_outside_kernel("cuda.selp")


@in_kernels(lambda c, x, y, z: c.call_intrinsic(fused, [x, y, z]))
def fma(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`, rounded once where the device can."""
    refuse_outside_kernel("cuda.fma")


@in_kernels(lambda c, x: in_floats("cbrt", c, x))
def cbrt(a: Any) -> Any:
    """The cube root."""
    refuse_outside_kernel("cuda.cbrt")


# -- functions of Python and math -------------------------------------------------------------------------------------


def _whole(name: str, c: NumbaKernels, x: Any) -> Any:
    """Rounds a number to an int64, as math does; whole numbers get 64 bits."""
    kind = c.kind(x).type
    if is_python(x) and kind.kind != "f":
        return x
    return c.converted(in_floats(name, c, x) if kind.kind == "f" else x, UINT64 if kind.kind == "u" else INT64)


def _int(c: NumbaKernels, x: Any = 0) -> Any:
    kind = c.kind(x).type
    if is_python(x):
        return int(x)
    return c.converted(x, INT64) if kind.kind in "fb" else x


def _round(c: NumbaKernels, x: Any, digits: Any = None) -> Any:
    if is_python(x) and (digits is None or is_python(digits)):
        return round(x) if digits is None else round(x, digits)
    kind = c.kind(x).type
    if digits is None:
        return c.converted(_whole("rint", c, x), INT64)
    if kind.kind != "f":
        x = c.converted(x, FLOAT32 if np.can_cast(kind.numpy, np.int16) else FLOAT64)
    return _decimals(c, x, digits) if is_python(digits) else c.call(rounded_to, x, digits)


def _power(c: NumbaKernels, x: Any, y: Any) -> Any:
    """Builds math.pow, in float64 if the exponent is an integer of 64 bits, as a constant is."""
    kind = c.kind(y).type
    if isinstance(x, Number) and kind.kind in "iu" and not np.can_cast(kind.numpy, np.int32):
        x = c.converted(x, FLOAT64)
    return c.call_intrinsic(math.pow, [x, y])


def _fmod(c: NumbaKernels, x: Any, y: Any) -> Any:
    return c.zero_by_zero(y, c.call_intrinsic(np.fmod, [x, y]))


def rounded_to(x: Any, digits: Any) -> Any:
    """Rounds a float to a number of decimal digits, as Numba does."""
    if math.isinf(x) or math.isnan(x):
        return x
    more = 1.0
    if digits >= 0:
        if digits > 22:
            power, more = 10.0 ** (digits - 22), 1e22
        else:
            power = 10.0**digits
        y = (x * power) * more
        if math.isinf(y):
            return x
    else:
        power = 10.0 ** (-digits)
        y = x / power
    z = np.rint(y)
    if digits >= 0:
        return (z / more) / power
    return z * power


def _divided(c: NumbaKernels, x: Any, y: Any) -> tuple[Any, Any]:
    return c.binary("//", x, y), c.binary("%", x, y)


def _len(c: NumbaKernels, x: Any) -> Any:
    return chosen(c, x, partial(_len, c)) if isinstance(x, ArrayChoice) else c.as_int64(c.call_intrinsic(len, [x]))


def _tuple(c: NumbaKernels, items: Any = ()) -> tuple[Any, ...]:
    if not isinstance(parts := c.items(items), tuple):
        raise UnsupportedError(
            f"tuple() takes a tuple, or an array of a shape known at compile time; got {c.describe(items)}"
        )
    return tuple(parts)


for _name in ("floor", "ceil", "trunc"):
    NAMES[getattr(math, _name)] = partial(_whole, _name)
NAMES.update({math.pow: _power, np.fmod: _fmod})


_CLASSES = {int: "iu", float: "f", bool: "b"}


def _is_instance(c: NumbaKernels, value: Any, kinds: Any) -> bool:
    """Returns whether a value has a type, which is known at compile time."""
    if isinstance(kinds, tuple):
        return any(_is_instance(c, value, kind) for kind in kinds)
    if isinstance(kinds, type) and isinstance(value, kinds):
        return True
    if not isinstance(value, (Number, bool, int, float, np.generic)):
        return kinds is complex and is_complex(value)
    kind = c.kind(value).type
    if isinstance(kinds, type) and kinds in _CLASSES:
        return kind.kind in _CLASSES[kinds]
    dtype = getattr(kinds, "dtype", kinds)
    return isinstance(dtype, (np.dtype, type)) and issubclass(np.dtype(kind.name).type, np.dtype(dtype).type)


def _part_of(c: NumbaKernels, x: Any, i: Any) -> Any:
    if not isinstance(x, ArrayValue):
        return x
    length = c.arrays.extent(x, 0)
    if isinstance(length, int):
        return c.item(x, 0 if length == 1 else i)
    return c.item(x, c.where(c.compare("!=", length, 1), i, 0))


def _ordered(name: str, c: NumbaKernels, x: Any, y: Any) -> Any:
    """Compares two numbers or takes one of them: of complex ones in the order of the real parts, as NumPy."""
    if is_complex(x) or is_complex(y):
        return complex_values.computed(c, FUNCTIONS[name], x, y)
    if name in ("fmax", "fmin") and "f" not in {c.kind(x).type.kind, c.kind(y).type.kind}:
        name = {"fmax": "maximum", "fmin": "minimum"}[name]
    return c.call_intrinsic(getattr(np, name), [x, y])


for _name in (*complex_values.ORDERED, "less", "less_equal", "greater", "greater_equal"):
    NAMES[getattr(np, _name)] = partial(_ordered, _name)
NAMES[abs] = lambda c, x: c.call_intrinsic(
    abs, [c.converted(x, SCALARS["int8"]) if isinstance(x, Number) and x.kind.type is BOOL else x]
)
NAMES[isinstance] = _is_instance
NAMES[part_functions.part_of] = _part_of
NAMES["popc"] = popc
NAMES[int] = _int
NAMES[len] = _len
NAMES[round] = _round
NAMES[tuple] = _tuple
NAMES[divmod] = _divided
for _table, _method in ((_SIGNS, "binary"), (_COMPARISONS, "compare"), (_UNARY, "unary")):
    for _name, _sign in _table.items():
        for _one in (_name, f"i{_name.rstrip('_')}") if _table is _SIGNS else (_name,):
            NAMES[getattr(operator, _one)] = partial(
                lambda method, sign, c, *args: getattr(c, method)(sign, *args), _method, _sign
            )
for _name in REDUCTIONS:
    NAMES[getattr(np, _name)] = partial(reduced, _name)
    if hasattr(np.ndarray, _name):
        ARRAY_METHODS[_name] = partial(reduced, _name)
