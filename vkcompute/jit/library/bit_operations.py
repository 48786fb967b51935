"""Functions of the bits of numbers: counts, bit reversal and bitcasts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, INT32, SCALARS, Scalar
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import register
from vkcompute.jit.frontend.values import NATURAL, Kind, Number, Vector, describe, fits, is_python
from vkcompute.jit.library.element_functions import KernelEmitter
from vkcompute.operations import bits

_KEEPS_BITS = "bitcast keeps the number of bits, and takes no bools"

# -- in kernels -------------------------------------------------------------------------------------------------------


def _built(definition: Callable[..., Any], name: str, c: Compiler, x: Any) -> Number:
    """Builds a function of the bits of an integer; counts are natural."""
    kind, f = c.kind(x), KernelEmitter(c)
    c.demand_kind("iu", kind, name, x)
    result = definition(f, f.operand(c.cast(x, kind.type))).value
    return Number(result, Kind(kind.type) if definition is bits.bit_reverse else Kind(INT32, True, NATURAL))


def _bitcast(c: Compiler, x: Any, dtype: Any) -> Any:
    if isinstance(x, Vector):
        return Vector([_bitcast(c, element, dtype) for element in x])
    target = _scalar(dtype)
    number = c.cast(x, _source(c, x, target))
    if BOOL in (number.type, target) or number.type.bits != target.bits:
        raise UnsupportedError(f"{_KEEPS_BITS}; got {describe(x)} for {target}; convert it before or after that")
    return Number(c.builder.bitcast(number, target), Kind(target))


def _source(c: Compiler, x: Any, target: Scalar) -> Scalar:
    """Returns the type whose bits are taken: a Python number has the width of the target."""
    kind = c.kind(x).type
    if not is_python(x) or kind is BOOL:
        return kind
    if kind.kind == "f":
        return SCALARS.get(f"float{target.bits}", kind)
    signed = SCALARS[f"int{target.bits}"]
    return signed if fits(x, signed) else SCALARS[f"uint{target.bits}"]


def _scalar(dtype: Any) -> Scalar:
    if dtype is not None and dtype is not int and dtype is not float:  # their width is ambiguous
        try:
            return SCALARS[as_dtype(dtype).name]
        except (TypeError, KeyError):
            pass
    raise UnsupportedError(f"bitcast takes a type of numbers, as vc.float32; got {describe(dtype)}")


# -- on the host ------------------------------------------------------------------------------------------------------


def _pattern(name: str, x: Any) -> tuple[int, int]:
    """Returns the bits of an integer, and their number."""
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
        raise TypeError(f"{name} takes integers; got {type(x).__name__}; write int(x)")
    width = x.dtype.itemsize * 8 if isinstance(x, np.integer) else 32 if -(2**31) <= x < 2**32 else 64
    if not -(2 ** (width - 1)) <= x < 2**width:
        raise ValueError(f"{name} takes integers of at most 64 bits; got {x}")
    return int(x) & ((1 << width) - 1), width


def popcount(x: Any) -> int:
    """Number of bits of an integer that are set; those of a negative one are its two's complement.

    This function, `clz`, `ctz` and `bit_reverse` take integers of 8 to 64 bits. A Python int has 32 bits if these hold
    it, else 64.
    """
    return _pattern("popcount", x)[0].bit_count()


def clz(x: Any) -> int:
    """Number of zeros above the highest set bit of an integer; all of its bits for 0."""
    pattern, width = _pattern("clz", x)
    return width - pattern.bit_length()


def ctz(x: Any) -> int:
    """Number of zeros below the lowest set bit of an integer; all of its bits for 0."""
    pattern, width = _pattern("ctz", x)
    return (pattern & -pattern).bit_length() - 1 if pattern else width


def bit_reverse(x: Any) -> Any:
    """Integer with the bits in reverse order, of the same type."""
    pattern, width = _pattern("bit_reverse", x)
    unsigned = int(f"{pattern:0{width}b}"[::-1], 2)
    if isinstance(x, np.integer):
        return np.dtype(f"uint{width}").type(unsigned).view(x.dtype)
    is_signed = -(2 ** (width - 1)) <= x < 2 ** (width - 1)
    return unsigned - (1 << width) if is_signed and unsigned >> (width - 1) else unsigned


def bitcast(x: Any, dtype: Any) -> Any:
    """Number of another type with the same bits: `vc.bitcast(x, vc.uint32)` of a float32.

    Both types have the same number of bits; a Python number has that of `dtype`. It is `x.view(dtype)` of numpy.
    """
    target = np.dtype(dtype)
    if isinstance(x, (int, float)) and not isinstance(x, (bool, np.generic)):
        kinds = ["f"] if isinstance(x, float) else ["i", "u"] if x < 1 << (8 * target.itemsize - 1) else ["u"]
        x = np.dtype(f"{kinds[0]}{target.itemsize}").type(x)
    if x.dtype.itemsize != target.itemsize or bool in (x.dtype, target):
        raise TypeError(f"{_KEEPS_BITS}; got {x.dtype} for {target}; convert it before or after that")
    return x.view(target)


for _function, _definition in (
    (popcount, bits.popcount), (clz, bits.clz), (ctz, bits.ctz), (bit_reverse, bits.bit_reverse),
):  # fmt: skip
    register([_function], partial(_built, _definition, _function.__name__), 1, folds=True)
register([bitcast], _bitcast, 2, usage=": a number and its new type, as vc.bitcast(x, vc.float32)")
if hasattr(np, "bitwise_count"):  # since numpy 2
    register([np.bitwise_count], partial(_built, bits.absolute_popcount, "popcount"), 1, folds=True)
