"""Atomic operations on floats, and what devices that have none do instead."""

from __future__ import annotations

from collections.abc import Iterator

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Memory, Op, Region, Value, walk
from vkcompute.ir.passes import rewrite
from vkcompute.ir.rules import FLOAT_ATOMICS
from vkcompute.ir.types import SCALARS


def float_atomics(function: Function) -> frozenset[str]:
    """Vulkan's features that the function's atomic operations on floats need."""
    return frozenset(
        f"shader{'Buffer' if memory.length is None else 'Shared'}Float{memory.element.bits}{FLOAT_ATOMICS[name]}"
        for name, memory in _uses(function)
    )


def without_float_atomics(function: Function) -> Function:
    """Makes the function one that needs none of these: in memory, floats that atomic operations change become integers.

    What adds tries again until nobody has come between: a loop of compare-exchanges. The smaller and the larger of two
    are found by their bits: as signed integers, these go up with floats from 0 on, and as unsigned ones down below 0.
    """
    words = {}
    for _, memory in _uses(function):
        words[memory] = Memory(memory.name, SCALARS[f"uint{memory.element.bits}"], memory.length)
    for memories in (function.buffers, function.shared_memory):
        memories[:] = [words.get(memory, memory) for memory in memories]
    builder = Builder(function)

    def instead(op: Op, replaced: dict[Value, Value]) -> list[Op] | None:
        memory = op.attribute[1] if op.code == "atomic" else op.attribute
        if not isinstance(memory, Memory) or memory not in words:
            return None
        region = Region()
        with builder.into(region), builder.at(op.loc):
            found = _on_words(builder, op, memory, words[memory])
        if found is not None:
            replaced[op] = found
        return region.ops[:-1]  # the last one ends the region

    rewrite(function, instead)
    return function


def _uses(function: Function) -> Iterator[tuple[str, Memory]]:
    for op in walk(function.body):
        if op.code == "atomic" and op.attribute[1].element.kind == "f":
            yield op.attribute


def _on_words(b: Builder, op: Op, floats: Memory, words: Memory) -> Value | None:
    """The operation on memory that holds the floats' bits."""
    if op.code == "length":
        return b.length(words)
    place, element = op.args[0], floats.element
    if op.code == "load":
        return b.bitcast(b.load(words, place), element)
    value = op.args[1]
    if op.code == "store":
        b.store(words, place, b.bitcast(value, words.element))
        return None
    name = op.attribute[0]
    if name == "exchange":
        return b.bitcast(b.atomic(name, words, place, b.bitcast(value, words.element)), element)
    if name in ("min", "max"):
        bits = b.bitcast(value, words.element)
        branch = b.if_(b.binary("ge", bits, b.const(1 << words.element.bits - 1, words.element)))
        with branch.then:
            b.yield_(b.atomic({"min": "max", "max": "min"}[name], words, place, bits))
        with branch.otherwise:
            b.yield_(b.atomic(f"signed_{name}", words, place, bits))
        return b.bitcast(branch.results[0], element)
    loop = b.loop(b.load(words, place))
    with loop.body:
        expected = loop.params[0]
        new = b.bitcast(b.binary(name, b.bitcast(expected, element), value), words.element)
        found = b.compare_exchange(words, place, expected, new)
        with b.if_(b.binary("eq", found, expected)).then:
            b.break_(loop, found)
        b.yield_(found)
    return b.bitcast(loop.results[0], element)
