"""Views of one memory as elements of several types: all of them access the same words.

A kernel may view an array as another type, and fields of a record have several. Each type is a `Memory` whose `of` is
the memory itself. The pass replaces all of them by one memory of unsigned integers: of 32 bits, or of the width that
all types have. A store to a part of a word leaves the rest as it is, by atomic operations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vkcompute.errors import IrError
from vkcompute.ir.builder import Builder
from vkcompute.ir.float_atomics import on_words
from vkcompute.ir.function import Constant, Function, Op, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand, replace_memories
from vkcompute.ir.types import BOOL, SCALARS, UINT8, UINT32, Scalar, vector
from vkcompute.ir.words import bits_at, clearing_mask, store_bits, word_and_shift

_SIGNED = "min", "max"


def merge_views(function: Function) -> Function:
    """Replaces memory that has views, and the views, by one memory of unsigned integers each, in place."""
    viewed: dict[Memory, set[Memory]] = {}
    for op in walk(function.body):
        if op.memory is not None and op.memory.of is not None:
            viewed.setdefault(op.memory.of, {op.memory.of}).add(op.memory)
    if not viewed:
        return function
    words: dict[Memory | None, Memory] = {base: _words_of(base, kinds) for base, kinds in viewed.items()}
    replace_memories(function, words)
    by_memory = {memory: words[base] for base, kinds in viewed.items() for memory in kinds}
    return expand(
        function,
        lambda op: op.memory in by_memory,
        lambda b, op: _accessed(b, op, by_memory[op.memory]),  # type: ignore[index]
    )


def _words_of(base: Memory, kinds: set[Memory]) -> Memory:
    """Returns the memory of unsigned integers that holds the bytes of a memory with views."""
    widths = {memory.element.bits for memory in kinds}
    bits = max(32, min(widths))
    length = None if base.length is None else -(-base.length * base.lanes * base.element.bits // bits)
    parts = max(1, 32 // min(widths), base.parts)
    return replace(base, element=SCALARS[f"uint{bits}"], length=length, lanes=1, parts=parts)


def _accessed(b: Builder, op: Op, words: Memory) -> Value | None:
    """Builds an access to elements of a type in memory of words."""
    kind = op.memory.element  # type: ignore[union-attr]
    if op.code == "load":
        return of_integer(b, _loaded(b, words, op.args[0], kind), kind)
    if op.code == "store":
        _store(b, words, op.args[0], to_integer(b, op.args[1]), kind)
        return None
    if op.code == "fill":
        _fill(b, words, op.args[0])
        return None
    if kind.bits != words.element.bits or words.private:
        raise IrError(f"{op.code} of {words.name} is not known: {kind} is a part of a word")
    if kind.kind == "f":
        return on_words(b, op, words)
    args = [to_integer(b, arg) for arg in op.args[1:]]
    if op.code == "compare_exchange":
        return of_integer(b, b.compare_exchange(words, op.args[0], *args), kind)
    name = op.attribute[0]
    signed = kind.kind == "i" and name in _SIGNED
    return of_integer(b, b.atomic(f"signed_{name}" if signed else name, words, op.args[0], *args), kind)


def to_integer(b: Builder, value: Value) -> Value:
    """Returns the bits of a number as an unsigned integer of its width."""
    kind = value.type
    if kind is BOOL:
        return b.cast(value, UINT8)
    return b.bitcast(value, SCALARS[f"uint{kind.bits}"])


def of_integer(b: Builder, bits: Value, kind: Scalar) -> Value:
    """Returns the number of a type with these bits."""
    return b.cast(bits, BOOL) if kind is BOOL else b.bitcast(bits, kind)


def _loaded(b: Builder, words: Memory, index: Value, kind: Scalar) -> Value:
    """Loads the bits of an element, as an unsigned integer of its width."""
    if kind.bits == words.element.bits:
        return b.load(words, index)
    if kind.bits < 32:
        number, shift = word_and_shift(b, index, kind)
        return b.cast(bits_at(b, b.load(words, number), shift, kind), SCALARS[f"uint{kind.bits}"])
    first, second = _pair(b, index)
    return b.bitcast(b.vector(b.load(words, first), b.load(words, second)), SCALARS["uint64"])


def _store(b: Builder, words: Memory, index: Value, bits: Value, kind: Scalar) -> None:
    if kind.bits == words.element.bits:
        b.store(words, index, bits)
    elif kind.bits < 32:
        wide = b.cast(bits, UINT32)
        if not words.private:
            store_bits(b, words, index, wide, kind)
            return
        number, shift = word_and_shift(b, index, kind)
        rest = b.compute("and", b.load(words, number), clearing_mask(b, shift, kind))
        b.store(words, number, b.compute("or", rest, b.compute("shl", wide, shift)))
    else:
        halves = b.bitcast(bits, vector(UINT32, 2))
        for at, where in enumerate(_pair(b, index)):
            b.store(words, where, b.extract(halves, at))


def _pair(b: Builder, index: Value) -> tuple[Value, Value]:
    """Returns the indices of the two words of a number of 64 bits."""
    one = b.const(1, index.type)  # type: ignore[arg-type]
    first = b.compute("shl", index, one)
    return first, b.compute("add", first, one)


def _fill(b: Builder, words: Memory, value: Value) -> None:
    """Fills private memory with the bits of a number."""
    if not isinstance(value, Constant):
        if value.type.bits != words.element.bits:
            raise IrError(f"fill of {words.name} is not known: {value.type} is a part of a word, and no constant")
        b.fill(words, b.bitcast(value, words.element))
        return
    pattern = np.asarray(value.value).tobytes()
    nbytes = words.element.bits // 8
    if len(pattern) > nbytes and pattern[:nbytes] != pattern[nbytes:]:
        raise IrError(f"fill of {words.name} is not known: {value.value} is no repeated word")
    b.fill(words, b.const(int.from_bytes((pattern * nbytes)[:nbytes], "little"), words.element))
