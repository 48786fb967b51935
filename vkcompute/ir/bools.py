"""Bools in memory: a byte each in a buffer, which a device without storage of bytes accesses by words of 32 bits."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand
from vkcompute.ir.target import Target
from vkcompute.ir.types import BOOL, UINT8, UINT32


def expand_bools(function: Function, target: Target) -> Function:
    """Replaces memory of bools by memory of integers, in place. Any byte but 0 is True."""
    used = (*function.buffers, *function.shared_memory, *[op.memory for op in walk(function.body)])
    numbers = {each: _numbers(each, target) for each in used if each is not None and each.element is BOOL}
    for memories in (function.buffers, function.shared_memory):
        memories[:] = [numbers.get(each, each) for each in memories]
    function.aliased = frozenset([numbers.get(each, each) for each in function.aliased])

    def replaced(b: Builder, op: Op) -> Value | None:
        memory = numbers[op.attribute]
        in_words = memory.length is None and memory.element is UINT32
        return (_on_bytes_of_words if in_words else _on_numbers)(b, op, memory)

    return expand(function, lambda op: op.memory in numbers, replaced)


def bools_in_words(function: Function, target: Target) -> tuple[int, ...]:
    """Returns the indices of the buffers whose bools `expand_bools` accesses by words."""
    bools = [n for n, memory in enumerate(function.buffers) if memory.element is BOOL]
    return () if target.byte_storage else tuple(bools)


def _numbers(memory: Memory, target: Target) -> Memory:
    """Returns the memory of integers; only a buffer has a layout that others see."""
    element = UINT8 if target.byte_storage and not memory.private else UINT32
    return Memory(memory.name, element, memory.length, memory.binding, private=memory.private)


def _on_numbers(b: Builder, op: Op, memory: Memory) -> Value | None:
    """The operation where each bool has an integer of its own."""
    if op.code == "load":
        return b.cast(b.load(memory, op.args[0]), BOOL)
    value = b.cast(op.args[-1], memory.element)
    if op.code == "fill":
        b.fill(memory, value)
    else:
        b.store(memory, op.args[0], value)
    return None


def _on_bytes_of_words(b: Builder, op: Op, words: Memory) -> Value | None:
    """The operation on a byte of a word.

    Atomic operations store it: they leave the other bytes of the word, which other invocations may store, as they are.
    """
    index, lane = op.args[0], b.compute("and", b.cast(op.args[0], UINT32), b.const(3, UINT32))
    shift = b.compute("mul", lane, b.const(8, UINT32))
    mask = b.compute("shl", b.const(0xFF, UINT32), shift)
    word = b.compute("shr", index, b.const(2, index.type))  # type: ignore[arg-type]
    if op.code == "load":
        return b.compute("ne", b.compute("and", b.load(words, word), mask), b.const(0, UINT32))
    b.atomic("and", words, word, b.compute("xor", mask, b.const(0xFFFFFFFF, UINT32)))
    b.atomic("or", words, word, b.compute("shl", b.cast(op.args[1], UINT32), shift))
    return None
