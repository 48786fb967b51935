"""Functions of the bits of integers, and the greatest common divisor.

Vulkan counts and reverses bits of 32-bit words only. Wider integers are divided into words, narrower ones are extended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.ir.types import INT32, SCALARS, UINT32, UINT64
from vkcompute.operations import division, loops
from vkcompute.operations.function import define


def _words(f: Any, x: Any) -> list[Any]:
    """Returns the words of an integer, uint32, the lowest first; the bits above a narrow integer are 0."""
    pattern = f.bits(x)
    low = f.to(pattern, UINT32)
    return [low] if pattern.kind is not UINT64 else [low, f.to(f.op("shr", pattern, 32), UINT32)]


def popcount(f: Any, x: Any) -> Any:
    """The number of bits that are set, int32."""
    first, *others = [f.op("bit_count", word) for word in _words(f, x)]
    return f.to(f.op("add", first, others[0]) if others else first, INT32)


def clz(f: Any, x: Any) -> Any:
    """The number of zeros above the highest bit that is set, int32."""
    words, width = _words(f, x), x.kind.bits

    def zeros(above: int, word: Any) -> Any:  # of no bit, find_msb is -1
        return f.op("sub", f.number(above, UINT32), f.op("find_msb", word))

    if width < 64:
        return f.to(zeros(width - 1, words[0]), INT32)
    return f.to(f.choose(f.op("eq", words[1], 0), zeros(63, words[0]), zeros(31, words[1])), INT32)


def ctz(f: Any, x: Any) -> Any:
    """The number of zeros below the lowest bit that is set, int32."""
    words, width = _words(f, x), x.kind.bits
    counts = [f.op("min", f.op("find_lsb", word), min(width, 32)) for word in words]
    if width < 64:
        return f.to(counts[0], INT32)
    return f.to(f.choose(f.op("eq", words[0], 0), f.op("add", counts[1], 32), counts[0]), INT32)


def bit_reverse(f: Any, x: Any) -> Any:
    """The bits in reverse order."""
    words = [f.op("bit_reverse", word) for word in _words(f, x)]
    if x.kind.bits == 64:
        low, high = [f.to(word, UINT64) for word in words[::-1]]
        pattern = f.op("or", low, f.op("shl", high, 32))
    else:
        pattern = words[0] if x.kind.bits == 32 else f.op("shr", words[0], 32 - x.kind.bits)
    return f.bits(f.to(pattern, SCALARS[f"uint{x.kind.bits}"]), x.kind.name.rstrip("0123456789"))


def absolute_popcount(f: Any, x: Any) -> Any:
    """The number of bits of |x| that are set, int32, as NumPy counts them."""
    return popcount(f, abs(x))


def _bitwise_count(f: Any, x: Any) -> Any:
    return f.to(absolute_popcount(f, x), SCALARS["uint8"])


def _of_sizes(definition: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of the absolute values of integers, which are computed as unsigned ones."""

    def function(f: Any, *operands: Any) -> Any:
        kind = operands[0].kind
        unsigned = SCALARS[f"uint{kind.bits}"]
        return f.to(f.call(definition, *[f.to(abs(operand), unsigned) for operand in operands]), kind)

    return function


def _ranked(largest: bool) -> Callable[..., Any]:
    """Returns a function of a number and its index: both as uint64, the least for the first NaN or extreme.

    The number has 32 bits. Floats rank as integers do whose bits below the sign are inverted for negative ones; 0 and
    -0 are equal.
    """

    def rank(f: Any, x: Any, index: Any) -> Any:
        kind, key = x.kind.kind, f.bits(x)
        sign, ones, zero = [f.number(number, UINT32) for number in (1 << 31, -1, 0)]
        if kind == "f":
            key = f.choose(f.op("eq", key, sign), zero, key)
            key = f.op("xor", key, f.choose(f.op("ge", key, sign), ones, sign))
        elif kind == "i":
            key = f.op("xor", key, sign)
        key = f.op("xor", key, ones) if largest else key
        key = f.choose(f.op("ne", x, x), zero, key) if kind == "f" else key
        return f.op("or", f.op("shl", f.to(key, UINT64), 32), f.to(f.bits(index), UINT64))

    return rank


for _name, _sign, _code in (("bitwise_and", "&", "and"), ("bitwise_or", "|", "or"), ("bitwise_xor", "^", "xor")):
    define(
        _name, 2, "bits", f"x1 {_sign} x2; bools, too", {"biu": _code},
        sign=_sign, cost=1, commutative=True, identity=-1 if _code == "and" else 0,
    )  # fmt: skip
define(
    "invert", 1, "bits", "~x; bools, too", {"biu": "not"},
    sign="~", aliases=("bitwise_invert", "bitwise_not"), cost=1,
)  # fmt: skip
define(
    "left_shift", 2, "integers", "x1 << x2", {"iu": division.shifted_left},
    sign="<<", aliases=("bitwise_left_shift",),
)  # fmt: skip
define(
    "right_shift", 2, "integers", "x1 >> x2", {"iu": division.shifted_right},
    sign=">>", aliases=("bitwise_right_shift",),
)  # fmt: skip
define("bitwise_count", 1, "bit counts", "the number of bits of |x| that are one", {"iu": _bitwise_count})
define(
    "gcd", 2, "integers", "the greatest common divisor", {"iu": _of_sizes(loops.gcd)}, commutative=True, identity=0,
)  # fmt: skip
define("lcm", 2, "integers", "the least common multiple", {"iu": _of_sizes(loops.lcm)}, commutative=True)
define(
    "first smallest", 2, "index", "the rank of x1 and its index x2", {"iuf": _ranked(largest=False)}, public="",
)  # fmt: skip
define(
    "first largest", 2, "index", "the rank of x1 and its index x2", {"iuf": _ranked(largest=True)}, public="",
)  # fmt: skip
