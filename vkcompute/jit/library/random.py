"""Random numbers from a counter and a key: Philox 4x32-10, which keeps no state."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from vkcompute.array_namespace import namespace
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import SCALARS, UINT32, UINT64
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.values import Kind, Number, Row, Vector, describe, is_python
from vkcompute.jit.library.element_functions import KernelEmitter
from vkcompute.jit.library.ids import refuse_outside_kernel
from vkcompute.operations import philox as of_words

__all__ = ["default_rng", "normal", "philox", "uniform"]


def _words(what: str, n: int, c: Compiler, given: Any) -> list[Any]:
    """Returns `n` words of an integer, or of a tuple of integers with 32 bits, the lowest first; the rest are 0."""
    parts = list(given) if isinstance(given, tuple) else _halves(what, c, given)
    if not 1 <= len(parts) <= n:
        raise UnsupportedError(f"the {what} is an integer, or 1 to {n} of them; got {len(parts)}")
    return [_word(what, c, part) for part in parts] + [c.converted(0, UINT32)] * (n - len(parts))


def _halves(what: str, c: Compiler, given: Any) -> list[Any]:
    """Divides an integer of 64 bits into two words."""
    if isinstance(given, Row):
        raise UnsupportedError(f"the {what} is an integer, or a tuple of them; got {describe(given)}; index it")
    if is_python(given) and isinstance(given, int):
        return [given & 0xFFFFFFFF, given >> 32] if 0 <= given < 2**64 else [given]
    if c.kind(given).type.bits < 64:
        return [given]
    c.demand_kind("iu", c.kind(given), f"the {what}", given)
    wide = c.converted(given, UINT64)
    return [c.converted(wide, UINT32), c.converted(c.binary(">>", wide, 32), UINT32)]


def _word(what: str, c: Compiler, part: Any) -> Number:
    """Returns the low 32 bits of an integer; a constant must have no others."""
    kind = c.kind(part)
    c.demand_kind("iu", kind, f"the {what}", part)
    if kind.type.bits > 32:
        rule = f"each part of the {what} has at most 32 bits; got {describe(part)}"
        raise UnsupportedError(f"{rule}; write vc.uint32(x), or give x alone")
    signed = is_python(part) and part < 0
    return c.converted(c.converted(part, SCALARS["int32"]) if signed else part, UINT32)


def _philox(c: Compiler, counter: Any, key: Any) -> Vector:
    f = KernelEmitter(c)
    x = [f.operand(word.value) for word in _words("counter", 4, c, counter)]
    k = [f.operand(word.value) for word in _words("key", 2, c, key)]
    return Vector([Number(word.value, Kind(UINT32)) for word in of_words.philox(f, x, k)])


def fractions(words: Any) -> Any:
    """Multiples of 2**-24 in [0, 1), from the upper bits; conversion and product are exact."""
    return np.float32(np.int32(words >> 8)) * 2.0**-24


def normals(words: Any) -> Any:
    """Normal numbers from pairs of uniform ones.

    G. Box, M. Muller: A note on the generation of random normal deviates. Ann. Math. Stat. 29, 1958.
    """
    x, y, z, w = words
    r, s = radius(x), radius(z)
    a, b = angle(y), angle(w)
    return r * np.cos(a), r * np.sin(a), s * np.cos(b), s * np.sin(b)


def radius(word: Any) -> Any:
    """Length of a pair of normal numbers, of a uniform one in (0, 1] with all 32 bits."""
    upper, lower = np.float32(np.int32(word >> 8)), np.float32(np.int32(word & 255))
    return np.sqrt(-2 * np.log((upper + (lower + 0.5) * 2.0**-8) * 2.0**-24))


def angle(word: Any) -> Any:
    """Angle in [-pi, pi)."""
    return np.float32(np.int32(word) >> 8) * (math.pi * 2.0**-23)


def _floats(definition: Any, c: Compiler, counter: Any, key: Any) -> Vector:
    return Vector(c.call(definition, _philox(c, counter, key)))


@intrinsic(_philox)
def philox(counter: Any, key: Any) -> Any:
    """Four random uint32, a vector, that depend on the counter and the key only.

        bits = vc.random.philox((i, step), seed)

    It is Philox 4x32-10: numbers for different counters are independent, and so are those for different keys. The
    counter is an integer of up to 64 bits, or a tuple of up to four of 32 bits, the lowest first. The key is an integer
    of up to 64 bits, or a tuple of two. An invocation that takes several vectors counts them in the counter.
    """
    refuse_outside_kernel("random.philox(…)")


@intrinsic(partial(_floats, fractions))
def uniform(counter: Any, key: Any) -> Any:
    """Four random float32, uniform in [0, 1): multiples of 2**-24, the same bits on every device.

        x, y, z, w = vc.random.uniform((i, step), seed)

    Counter and key are those of `philox`.
    """
    refuse_outside_kernel("random.uniform(…)")


@intrinsic(partial(_floats, normals))
def normal(counter: Any, key: Any) -> Any:
    """Four random float32 of the standard normal distribution, up to 6.7 from 0.

    Counter and key are those of `philox`.
    """
    refuse_outside_kernel("random.normal(…)")


def default_rng(seed: Any = None, *, device: Any = None) -> Any:
    """Returns the generator of arrays `vkcompute.numpy.random.default_rng`; for code of the host."""
    return namespace().random.default_rng(seed, device=device)


def __dir__() -> list[str]:
    return __all__
