"""Random numbers of the block language: Philox 4x32 on a seed and a block of offsets, the bits of Triton's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe, describe_dynamic
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.language.elementwise import emitted
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, INT32, INT64, UINT32, UINT64, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import Number
from vkcompute.operations import philox as of_words
from vkcompute.operations.philox import ROUNDS
from vkcompute.tile import shape_of
from vkcompute.tile.builder import BlockEmitter

_SCALE = 4.6566127342e-10  # Triton's, just below 2**-31
_WIDE_SCALE = 1.0842020432385337e-19  # below 2**-63
_LEAST = 1.0e-7  # of the uniform number whose logarithm is taken


def _key(c: BlockCompiler, seed: Any) -> tuple[Value, Value]:
    """Returns the words of a seed, the low one first; narrower ints are extended by their sign."""
    b = c.builder
    if not isinstance(seed, Number) and isinstance(seed, int):
        return b.const(seed & 0xFFFFFFFF, UINT32), b.const(seed >> 32 & 0xFFFFFFFF, UINT32)
    kind, shape = c.element_type(seed), c.shape(seed)
    if kind.kind not in "iu":
        raise UnsupportedError(f"a seed is an int; got {describe(seed)}")
    if kind.bits == 64:
        wide = b.cast(seed.value, UINT64)
        return b.cast(wide, UINT32), b.cast(b.compute("shr", wide, b.full(b.const(32, UINT64), shape)), UINT32)
    word = b.cast(seed.value, INT32)
    sign = b.compute("shr", word, b.full(b.const(31, INT32), shape)) if kind.kind == "i" else b.const(0, INT32)
    return b.bitcast(word, UINT32), b.bitcast(sign, UINT32)


def _philox(c: BlockCompiler, seed: Any, offset: Any, n_rounds: Any) -> list[Value]:
    """Returns four words of random bits for each offset."""
    b, kind = c.builder, c.element_type(offset)
    if kind.kind not in "iu":
        raise UnsupportedError(f"offsets are integers; got {describe(offset)}")
    shape = c.common_shape(offset, seed)
    counter = c.spread(c.cast(offset, kind), shape)
    zero = b.full(b.const(0, UINT32), shape)
    high = zero
    if kind.bits == 64:
        high = b.cast(b.compute("shr", counter, b.full(b.const(32, kind), shape)), UINT32)
    key = [c.spread(word, shape) if shape_of(word.type) else word for word in _key(c, seed)]
    return _rounds(c, [b.cast(counter, UINT32), high, zero, zero], key, n_rounds)


def _rounds(c: BlockCompiler, counter: Sequence[Value], key: Sequence[Value], n_rounds: Any) -> list[Value]:
    """Encrypts counters, four words of one shape, by a key."""
    if type(n_rounds) is not int or n_rounds < 0:
        raise UnsupportedError(f"n_rounds is a constant; got {describe_dynamic(n_rounds)}")
    f = BlockEmitter(c.builder, shape_of(counter[0].type))
    words = [BlockEmitter(c.builder, shape_of(word.type)).operand(word) for word in key]
    return [word.value for word in of_words.philox(f, list(map(f.operand, counter)), words, n_rounds)]


def _uniform(c: BlockCompiler, word: Value, scale: float = _SCALE) -> Value:
    """Returns floats in [0, 1) of words, as Triton makes them."""
    b, shape = c.builder, shape_of(word.type)
    kind = INT64 if element_of(word.type).bits == 64 else INT32
    number = b.bitcast(word, kind)
    zero = b.full(b.const(0, kind), shape)
    folded = b.select(b.compute("lt", number, zero), b.compute("not", number), number)
    return b.compute("mul", b.cast(folded, FLOAT32), b.full(b.const(scale, FLOAT32), shape))


def _normal(c: BlockCompiler, one: Value, other: Value) -> tuple[Value, Value]:
    """Returns two normal numbers of two uniform ones (Box and Muller)."""
    b, shape = c.builder, shape_of(one.type)
    least = emitted(c, "fmax", one, b.full(b.const(_LEAST, FLOAT32), shape)).value
    radius = b.compute("sqrt", b.compute("mul", b.full(b.const(-2.0, FLOAT32), shape), b.compute("log", least)))
    angle = b.compute("mul", b.full(b.const(6.283185307179586, FLOAT32), shape), other)
    return b.compute("mul", radius, b.compute("cos", angle)), b.compute("mul", radius, b.compute("sin", angle))


@block_function
def randint4x(c: BlockCompiler, seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four blocks of random uint32, for each offset."""
    return tuple(map(c.number, _philox(c, seed, offset, n_rounds)))


@block_function
def randint(c: BlockCompiler, seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """A block of random uint32, for each offset."""
    return c.number(_philox(c, seed, offset, n_rounds)[0])


@block_function
def rand4x(c: BlockCompiler, seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four blocks of random float32, uniform in [0, 1)."""
    return tuple([c.number(_uniform(c, word)) for word in _philox(c, seed, offset, n_rounds)])


@block_function
def rand(c: BlockCompiler, seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """A block of random float32, uniform in [0, 1)."""
    return c.number(_uniform(c, _philox(c, seed, offset, n_rounds)[0]))


@block_function
def randn4x(c: BlockCompiler, seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four blocks of random float32 of the standard normal distribution."""
    words = [_uniform(c, word) for word in _philox(c, seed, offset, n_rounds)]
    return tuple(map(c.number, (*_normal(c, *words[:2]), *_normal(c, *words[2:]))))


@block_function
def randn(c: BlockCompiler, seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """A block of random float32 of the standard normal distribution."""
    words = _philox(c, seed, offset, n_rounds)
    return c.number(_normal(c, _uniform(c, words[0]), _uniform(c, words[1]))[0])


def _words(c: BlockCompiler, *values: Any) -> list[Value]:
    """Returns integers of 32 bits as uint32, in their common shape."""
    for value in values:
        if c.element_type(value).kind not in "iu" or c.element_type(value).bits != 32:
            raise UnsupportedError(f"counters and keys are integers of 32 bits; got {describe(value)}")
    shape = c.common_shape(*values)
    return [c.builder.bitcast(c.spread(c.cast(value, c.element_type(value)), shape), UINT32) for value in values]


@block_function
def philox_impl(c: BlockCompiler, c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four words of random bits of four words of a counter and two of a key."""
    *counter, low, high = _words(c, c0, c1, c2, c3, k0, k1)
    return tuple(map(c.number, _rounds(c, counter, (low, high), n_rounds)))


@block_function
def philox(c: BlockCompiler, seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four words of random bits of a seed and four words of a counter."""
    return tuple(map(c.number, _rounds(c, _words(c, c0, c1, c2, c3), _key(c, seed), n_rounds)))


@block_function
def uint_to_uniform_float(c: BlockCompiler, x: Any) -> Any:
    """Floats in [0, 1) of words, or of integers of 64 bits."""
    kind = c.element_type(x)
    if kind.kind in "iu" and kind.bits == 64:
        return c.number(_uniform(c, c.builder.bitcast(c.cast(x, kind), INT64), _WIDE_SCALE))
    return c.number(_uniform(c, _words(c, x)[0]))


@block_function
def pair_uniform_to_normal(c: BlockCompiler, u1: Any, u2: Any) -> Any:
    """Two normal numbers of two uniform ones, float32 (Box and Muller)."""
    return tuple(map(c.number, _normal(c, *c.alike(FLOAT32, u1, u2))))
