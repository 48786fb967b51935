"""Bools in memory: a byte each in a buffer and in workgroup memory, a uint32 each in private memory."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand, replace_memories
from vkcompute.ir.types import BOOL, UINT8, UINT32


def expand_bools(function: Function) -> Function:
    """Replaces memory of bools by memory of integers, in place. Any byte but 0 is True."""
    used = (*function.buffers, *function.shared_memory, *[op.memory for op in walk(function.body)])
    numbers: dict[Memory | None, Memory] = {
        memory: _numbers(memory) for memory in used if memory is not None and memory.element is BOOL
    }
    if not numbers:
        return function
    replace_memories(function, numbers)

    def replaced(b: Builder, op: Op) -> Value | None:
        memory = numbers[op.attribute]
        if op.code == "load":
            return b.cast(b.load(memory, op.args[0]), BOOL)
        value = b.cast(op.args[-1], memory.element)
        if op.code == "fill":
            b.fill(memory, value)
        else:
            b.store(memory, op.args[0], value)
        return None

    return expand(function, lambda op: op.memory in numbers, replaced)


def _numbers(memory: Memory) -> Memory:
    element = UINT32 if memory.private else UINT8
    return Memory(memory.name, element, memory.length, memory.binding, private=memory.private)
