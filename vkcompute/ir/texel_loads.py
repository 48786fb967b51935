"""Loads through texel buffers, for targets where they are faster than those through storage buffers."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand
from vkcompute.ir.target import Target
from vkcompute.ir.types import UINT32


def load_texels(function: Function, target: Target) -> Function:
    """Makes buffers of 32-bit numbers that are only loaded from texel buffers, in place, as many as the target binds.

    Drivers may merge and reorder loads of texels. So buffers that may share their memory with a written one stay.
    Kernels with atomic operations on shared memory, as histograms, keep all: lavapipe fetches texels more slowly there.
    """
    ops = [op for op in walk(function.body) if op.memory is not None]
    if any(op.code == "atomic" and op.memory in function.shared_memory for op in ops):
        return function
    other = {op.memory for op in ops if op.code != "load" or op.args[0].type.bits != 32}
    loaded = dict.fromkeys(op.memory for op in ops if op.memory in function.buffers and op.memory not in other)
    fitting = [memory for memory in loaded if memory not in function.aliased and memory is not None and _fits(memory)]
    texels = {buffer: Memory(buffer.name, UINT32, texels=True) for buffer in fitting[: target.max_texel_buffers]}
    function.buffers = [texels.get(memory, memory) for memory in function.buffers]

    def load(b: Builder, op: Op) -> Value:
        return b.bitcast(b.load(texels[op.attribute], op.args[0]), op.type)

    return expand(function, lambda op: op.memory in texels, load) if texels else function


def _fits(memory: Memory) -> bool:
    return memory.element.bits == 32 and memory.lanes == 1 and memory.binding is None and not memory.for_host
