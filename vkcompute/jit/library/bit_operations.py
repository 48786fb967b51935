"""Functions of the bits of numbers: counts, bit reversal and bitcasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, INT32, SCALARS, UINT32, UINT64, Scalar, Value
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import register
from vkcompute.jit.frontend.values import NATURAL, Kind, Number, Vector, describe, fits, is_python

_KEEPS_BITS = "bitcast keeps the number of bits, and takes no bools"

# -- in kernels -------------------------------------------------------------------------------------------------------
# Vulkan has these operations for 32 bits only. Wider numbers are divided into words, narrower ones are extended.


def _words(name: str, c: Compiler, x: Any) -> list[Value]:
    """Returns the words of an integer, uint32, the lowest first; the bits above a narrow integer are 0."""
    b, kind = c.builder, c.kind(x)
    c.demand_kind("iu", kind, name, x)
    pattern = b.bitcast(c.cast(x, kind.type), SCALARS[f"uint{kind.type.bits}"])
    words = [b.cast(pattern, UINT32)]
    if pattern.type is UINT64:
        words.append(b.cast(b.compute("shr", pattern, b.const(32, UINT64)), UINT32))
    return words


def _count(c: Compiler, value: Value) -> Number:
    return Number(c.builder.cast(value, INT32), Kind(INT32, True, NATURAL))


def _popcount(c: Compiler, x: Any) -> Number:
    b = c.builder
    first, *others = [b.compute("bit_count", word) for word in _words("popcount", c, x)]
    return _count(c, b.compute("add", first, others[0]) if others else first)


def _clz(c: Compiler, x: Any) -> Number:
    b, words, width = c.builder, _words("clz", c, x), c.kind(x).type.bits

    def zeros(above: int, word: Value) -> Value:  # of no bit, find_msb is -1
        return b.compute("sub", b.const(above, UINT32), b.compute("find_msb", word))

    if width < 64:
        return _count(c, zeros(width - 1, words[0]))
    is_low = b.compute("eq", words[1], b.const(0, UINT32))
    return _count(c, b.select(is_low, zeros(63, words[0]), zeros(31, words[1])))


def _ctz(c: Compiler, x: Any) -> Number:
    b, words, width = c.builder, _words("ctz", c, x), c.kind(x).type.bits
    found = [b.compute("min", b.compute("find_lsb", word), b.const(min(width, 32), UINT32)) for word in words]
    if width < 64:
        return _count(c, found[0])
    is_high = b.compute("eq", words[0], b.const(0, UINT32))
    return _count(c, b.select(is_high, b.compute("add", found[1], b.const(32, UINT32)), found[0]))


def _bit_reverse(c: Compiler, x: Any) -> Number:
    b, kind = c.builder, c.kind(x).type
    words = [b.compute("bit_reverse", word) for word in _words("bit_reverse", c, x)]
    if kind.bits == 64:
        low, high = [b.cast(word, UINT64) for word in words[::-1]]
        pattern = b.compute("or", low, b.compute("shl", high, b.const(32, UINT64)))
    else:
        pattern = b.compute("shr", words[0], b.const(32 - kind.bits, UINT32))
    return Number(b.bitcast(b.cast(pattern, SCALARS[f"uint{kind.bits}"]), kind), Kind(kind))


def _bitwise_count(c: Compiler, x: Any) -> Number:
    """numpy's bitwise_count, which counts the bits of the absolute value."""
    kind = c.kind(x).type
    return _popcount(c, x if kind.kind != "i" else Number(c.builder.compute("abs", c.cast(x, kind)), Kind(kind)))


def _bitcast(c: Compiler, x: Any, dtype: Any) -> Any:
    if isinstance(x, Vector):
        return Vector([_bitcast(c, each, dtype) for each in x])
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
            return SCALARS[np.dtype(dtype).name]
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


_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    popcount: _popcount,
    clz: _clz,
    ctz: _ctz,
    bit_reverse: _bit_reverse,
}
for _function, _emit in _FUNCTIONS.items():
    register([_function], _emit, 1, folds=True)
register([bitcast], _bitcast, 2, usage=": a number and its new type, as vc.bitcast(x, vc.float32)")
if hasattr(np, "bitwise_count"):  # since numpy 2
    register([np.bitwise_count], _bitwise_count, 1, folds=True)
