"""Blocks of adjacent elements, which an invocation loads and stores by wide accesses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vkcompute.ir import BOOL, SCALARS, UINT32, UINT64, Builder, Function, Memory, Scalar, Value
from vkcompute.ir.types import vector

_TEXEL_BITS = 128
_LEAST = 4  # elements of a block: a word of the narrowest


class ElementBlock(NamedTuple):
    """The number of adjacent elements per invocation, and how they are accessed.

    Attributes:
        word: the type of the words that are loaded and stored.
        texels: True to load blocks of whole texels through texel buffers.
        singly: indices of the arrays, results last, whose elements are loaded or stored one by one. If there are any, a
            block may begin in one row and end in another.
        pairs: True to take elements of 16 bits from a word as a vector of two, in place of shifts. AMD's compiler then
            needs two thirds of the instructions for `x + y`; lavapipe takes 1.3 times as long.
    """

    size: int = 1
    word: str = "uint32"
    texels: bool = False
    singly: tuple[int, ...] = ()
    pairs: bool = False

    def dividing(self, n: int) -> ElementBlock:
        """Returns the largest of these and smaller blocks that divides `n` elements; single elements if none does."""
        size = math.gcd(self.size, n)
        return self._replace(size=size) if size >= _LEAST else SINGLE


SINGLE = ElementBlock()


class BlockAccess:
    """Loads and stores of the blocks of an array.

    Args:
        element: the type of the array's elements in memory.
        is_result: True for an array that is stored.
        declare: returns an array in place of a buffer, and the index of the first word in it, given the type, lanes and
            number of the words of a block.
    """

    def __init__(
        self, function: Function, name: str, element: Scalar, block: ElementBlock, *, is_result: bool = False,
        declare: Callable[[Scalar, int, int], tuple[Memory, int]] | None = None,
    ) -> None:  # fmt: skip
        n_bits = element.bits * block.size
        texels = block.texels and not is_result and n_bits % _TEXEL_BITS == 0
        word = UINT32 if texels or n_bits < SCALARS[block.word].bits else SCALARS[block.word]
        self._lanes = min(n_bits // word.bits, 4)
        self._n = n_bits // word.bits // self._lanes
        self.element, self._pairs = element, block.pairs
        self.memory: Memory
        self.memory, self._first = (
            (function.buffer(name, word, lanes=self._lanes, texels=texels), 0)
            if declare is None
            else declare(word, self._lanes, self._n)
        )

    def load(self, b: Builder, number: Value) -> list[Value]:
        """Loads the elements of a block."""
        words: list[Value] = []
        for index in self._indices(b, number):
            loaded = b.load(self.memory, index)
            lanes = [loaded] if self._lanes == 1 else [b.extract(loaded, lane) for lane in range(self._lanes)]
            words += [word for lane in lanes for word in _halves(b, lane)]
        return _elements(b, words, self.element, pairs=self._pairs)

    def store(self, b: Builder, number: Value, elements: Sequence[Value]) -> None:
        """Stores the elements of a block."""
        words = _words(b, elements, pairs=self._pairs)
        if self.memory.element is UINT64:
            words = [b.bitcast(b.vector(*words[at : at + 2]), UINT64) for at in range(0, len(words), 2)]
        for k, index in enumerate(self._indices(b, number)):
            lanes = words[k * self._lanes : (k + 1) * self._lanes]
            b.store(self.memory, index, lanes[0] if self._lanes == 1 else b.vector(*lanes))

    def _indices(self, b: Builder, number: Value) -> list[Value]:
        first = b.compute("mul", number, b.const(self._n, UINT32))
        return [b.compute("add", first, b.const(self._first + k, UINT32)) for k in range(self._n)]


def _halves(b: Builder, word: Value) -> list[Value]:
    """Returns a word of 32 bits, or both halves of one of 64."""
    if word.type is UINT32:
        return [word]
    halves = b.bitcast(word, vector(UINT32, 2))
    return [b.extract(halves, 0), b.extract(halves, 1)]


def _elements(b: Builder, words: Sequence[Value], kind: Scalar, *, pairs: bool) -> list[Value]:
    """Returns the elements in words of 32 bits."""
    if kind.bits == 64:
        return [b.bitcast(b.vector(*words[at : at + 2]), kind) for at in range(0, len(words), 2)]
    if kind.bits == 32:
        return [b.bitcast(word, kind) for word in words]
    if kind.bits == 16 and pairs:
        return [b.extract(pair, at) for pair in [b.bitcast(word, vector(kind, 2)) for word in words] for at in (0, 1)]
    starts = range(0, 32, kind.bits)
    if kind is BOOL:  # without types of 8 bits, which a device may lack
        masks = [b.const(0xFF << start, UINT32) for start in starts]
        zero = b.const(0, UINT32)
        return [b.compute("ne", b.compute("and", word, mask), zero) for word in words for mask in masks]
    narrow = SCALARS[f"uint{kind.bits}"]
    parts = [b.compute("shr", word, b.const(start, UINT32)) for word in words for start in starts]
    return [b.bitcast(b.cast(part, narrow), kind) for part in parts]


def _words(b: Builder, elements: Sequence[Value], *, pairs: bool) -> list[Value]:
    """Returns elements as words of 32 bits."""
    kind = elements[0].type
    if kind.bits == 64:
        return [half for element in elements for half in _halves(b, element)]
    if kind.bits == 32:
        return [b.bitcast(element, UINT32) for element in elements]
    if kind.bits == 16 and pairs:
        return [b.bitcast(b.vector(*elements[at : at + 2]), UINT32) for at in range(0, len(elements), 2)]
    n, narrow, words = 32 // kind.bits, SCALARS[f"uint{kind.bits}"], []
    for at in range(0, len(elements), n):
        word: Value = b.const(0, UINT32)
        for k, element in enumerate(elements[at : at + n]):
            part = b.cast(element if kind is BOOL else b.bitcast(element, narrow), UINT32)
            word = b.compute("or", word, b.compute("shl", part, b.const(k * kind.bits, UINT32)))
        words.append(word)
    return words
