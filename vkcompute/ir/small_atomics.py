"""Atomic operations on numbers of 8 and 16 bits: compare-exchanges of the word that holds the number."""

from __future__ import annotations

from vkcompute.ir.builder import Builder, Loop
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand, replace_memories
from vkcompute.ir.types import SCALARS, UINT32, Scalar, element_of
from vkcompute.ir.words import bits_at, clearing_mask, retry_loop, store_bits, word_and_shift, words_of


def expand_small_atomics(function: Function) -> Function:
    """Replaces memory with atomic operations on small numbers by memory of words, in place."""
    words: dict[Memory | None, Memory] = {
        op.memory: words_of(op.memory)
        for op in walk(function.body)
        if op.code in ("atomic", "compare_exchange") and op.memory is not None and op.memory.element.bits < 32
    }
    if not words:
        return function
    replace_memories(function, words)
    return expand(function, lambda op: op.memory in words, lambda b, op: _on_words(b, op, words[op.memory]))


def _on_words(b: Builder, op: Op, words: Memory) -> Value | None:
    kind, index = op.memory.element, op.args[0]  # type: ignore[union-attr]
    if op.code == "store":
        store_bits(b, words, index, _bits(b, op.args[1]), kind)
        return None
    number, shift = word_and_shift(b, index, kind)
    if op.code == "load":
        return _of_bits(b, bits_at(b, b.load(words, number), shift, kind), kind)
    return _updated(b, op, words, number, shift, kind)


def _updated(b: Builder, op: Op, words: Memory, number: Value, shift: Value, kind: Scalar) -> Value:
    """Builds an atomic operation; returns the previous number."""

    def change(loop: Loop, word: Value) -> Value:
        before = _of_bits(b, bits_at(b, word, shift, kind), kind)
        if op.code == "compare_exchange":
            _, expected, new = op.args
            with b.if_(b.compute("ne", before, expected)).then:
                b.break_(loop, word)
        else:
            new = op.args[1] if op.attribute[0] == "exchange" else _combined(b, op.attribute[0], before, op.args[1])
        others = b.compute("and", word, clearing_mask(b, shift, kind))
        return b.compute("or", others, b.compute("shl", _bits(b, new), shift))

    return _of_bits(b, bits_at(b, retry_loop(b, words, number, change), shift, kind), kind)


def _combined(b: Builder, name: str, before: Value, value: Value) -> Value:
    """Builds an operation on two numbers; of floats, a minimum or maximum is NaN if one of them is."""
    result = b.compute(name, before, value)
    if name in ("min", "max") and element_of(value.type).kind == "f":
        for number in (value, before):
            result = b.select(b.compute("ne", number, number), number, result)
    return result


def _bits(b: Builder, value: Value) -> Value:
    return b.cast(b.bitcast(value, SCALARS[f"uint{value.type.bits}"]), UINT32)


def _of_bits(b: Builder, bits: Value, kind: Scalar) -> Value:
    return b.bitcast(b.cast(bits, SCALARS[f"uint{kind.bits}"]), kind)
