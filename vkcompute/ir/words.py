"""Words of memory that hold numbers as bits: several of 8 or 16 bits, or one that is changed by compare-exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vkcompute.ir.builder import Builder, Loop
from vkcompute.ir.function import Value
from vkcompute.ir.memory import Memory
from vkcompute.ir.types import UINT32, Scalar


def words_of(memory: Memory) -> Memory:
    """Returns the memory of words that holds the numbers of a buffer or of workgroup memory."""
    n = 32 // memory.element.bits
    length = None if memory.length is None else -(-memory.length // n)
    return replace(memory, element=UINT32, length=length, parts=n)


def word_and_shift(b: Builder, index: Value, kind: Scalar) -> tuple[Value, Value]:
    """Returns the index of the word that holds a number, and the shift of the number's bits there."""
    log2 = (32 // kind.bits).bit_length() - 1
    at = b.compute("and", b.cast(index, UINT32), b.const((1 << log2) - 1, UINT32))
    word = b.compute("shr", index, b.const(log2, index.type))  # type: ignore[arg-type]
    return word, b.compute("mul", at, b.const(kind.bits, UINT32))


def bits_at(b: Builder, word: Value, shift: Value, kind: Scalar) -> Value:
    """Returns the bits of a number in a word, as uint32."""
    return b.compute("and", b.compute("shr", word, shift), b.const((1 << kind.bits) - 1, UINT32))


def clearing_mask(b: Builder, shift: Value, kind: Scalar) -> Value:
    """Returns the mask that clears the bits of a number in a word."""
    return b.compute("not", b.compute("shl", b.const((1 << kind.bits) - 1, UINT32), shift))


def store_bits(b: Builder, words: Memory, index: Value, bits: Value, kind: Scalar) -> None:
    """Stores the bits of a number.

    Two atomic operations keep the other bits of the word, which other invocations may store.
    """
    number, shift = word_and_shift(b, index, kind)
    b.atomic("and", words, number, clearing_mask(b, shift, kind))
    b.atomic("or", words, number, b.compute("shl", bits, shift))


def retry_loop(b: Builder, words: Memory, index: Value, change: Callable[[Loop, Value], Value]) -> Value:
    """Builds a loop of compare-exchanges that changes a word; returns the previous word.

    Args:
        change: builds the new word from the previous one; may leave the loop with that.
    """
    loop = b.loop(b.load(words, index))
    with loop.body:
        (word,) = loop.params
        before = b.compare_exchange(words, index, word, change(loop, word))
        with b.if_(b.compute("eq", before, word)).then:
            b.break_(loop, word)
        b.yield_(before)
    return loop.results[0]
