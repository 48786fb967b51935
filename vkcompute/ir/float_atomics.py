"""Atomic operations on floats: the features that they need, and their emulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vkcompute.ir.atomics import ATOMICS
from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand, replace_memories
from vkcompute.ir.types import SCALARS
from vkcompute.ir.words import retry_loop

_EXTREMA = "min", "max"
_INFINITY = {32: 0x7F800000, 64: 0x7FF0000000000000}
"""The bits of infinity, by the bits of a float."""


def float_atomics(function: Function) -> frozenset[str]:
    """The Vulkan features that the function's atomic operations on floats need."""
    return frozenset(
        f"shader{'Buffer' if memory.length is None else 'Shared'}Float{memory.element.bits}"
        f"{ATOMICS[name].float_feature}"
        for name, memory in _uses(function)
    )


def emulate_float_atomics(function: Function, *, every: bool = True) -> Function:
    """Emulates atomic operations on floats, in place: the memory that they change becomes one of unsigned integers.

    An addition is a loop of compare-exchanges. Minimum and maximum compare bits: as signed integers these are ordered
    like non-negative floats, as unsigned ones in reverse order of negative floats. They are always emulated, since
    devices differ in what their instructions make of NaN.

    Args:
        every: False to emulate no additions and exchanges, except on memory that has other emulated operations.
    """
    exchanged = [op.memory for op in walk(function.body) if op.code == "compare_exchange" and op.memory is not None]
    changed = [memory for memory in exchanged if memory.element.kind == "f"]
    changed += [memory for name, memory in _uses(function) if every or name in _EXTREMA]
    words: dict[Memory | None, Memory] = {
        memory: replace(memory, element=SCALARS[f"uint{memory.element.bits}"]) for memory in changed
    }
    if not words:
        return function
    replace_memories(function, words)
    return expand(function, lambda op: op.memory in words, lambda b, op: on_words(b, op, words[op.memory]))


def _uses(function: Function) -> Iterator[tuple[str, Memory]]:
    for op in walk(function.body):
        if op.code == "atomic" and op.attribute[1].element.kind == "f" and op.attribute[1].element.bits >= 32:
            yield op.attribute


def on_words(b: Builder, op: Op, words: Memory) -> Value | None:
    """The operation on memory that holds the bits of the floats, as unsigned integers."""
    if op.code == "length":
        return b.length(words)
    index, element = op.args[0], SCALARS[f"float{words.element.bits}"]
    if op.code == "load":
        return b.bitcast(b.load(words, index), element)
    if op.code == "compare_exchange":
        return b.bitcast(
            b.compare_exchange(words, index, *[b.bitcast(arg, words.element) for arg in op.args[1:]]), element
        )
    value = op.args[1]
    if op.code == "store":
        b.store(words, index, b.bitcast(value, words.element))
        return None
    name = op.attribute[0]
    if name == "exchange":
        return b.bitcast(b.atomic(name, words, index, b.bitcast(value, words.element)), element)
    emulate = _extremum if name in _EXTREMA and element.bits >= 32 else _updated
    return b.bitcast(emulate(b, name, words, index, value), element)


def _extremum(b: Builder, name: str, words: Memory, index: Value, value: Value) -> Value:
    """Builds a minimum or maximum of which NaN is the result where the element or the value is NaN.

    By its bits, a NaN with a minus sign is the least number, and one without it the greatest. An element that is a NaN
    of the other sign is replaced by the value, and then by NaN.
    """
    kind, infinity = words.element, _INFINITY[words.element.bits]
    sign = 1 << kind.bits - 1
    nan = b.const((0 if name == "max" else sign) | infinity | (infinity & -infinity) >> 1, kind)
    bits = b.select(b.compute("ne", value, value), nan, b.bitcast(value, kind))
    branch = b.if_(b.compute("ge", bits, b.const(sign, kind)))
    with branch.then:
        b.yield_(b.atomic({"min": "max", "max": "min"}[name], words, index, bits))
    with branch.otherwise:
        b.yield_(b.atomic(f"signed_{name}", words, index, bits))
    before = branch.results[0]
    payload = b.compute("sub", before, b.const(infinity + 1 if name == "min" else infinity + 1 + sign, kind))
    n_payloads = sign - infinity - 1
    with b.if_(b.compute("lt", payload, b.const(n_payloads, kind))).then:
        b.atomic(f"signed_{name}" if name == "max" else "max", words, index, nan)
    return before


def _updated(b: Builder, name: str, words: Memory, index: Value, value: Value) -> Value:
    return retry_loop(
        b, words, index, lambda _, word: b.bitcast(b.compute(name, b.bitcast(word, value.type), value), words.element)
    )
