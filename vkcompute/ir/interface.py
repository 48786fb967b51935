"""The interface of a kernel that is lowered, as reflection reads it from the module."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from vkcompute.ir.assembler import Assembler
from vkcompute.ir.function import Function, Op, Push
from vkcompute.ir.memory import Memory
from vkcompute.spirv import enums
from vkcompute.spirv.interface import (
    Binding,
    Element,
    Interface,
    InterfaceBlock,
    LocalSize,
    Member,
    SharedMemoryTerm,
    Texel,
    WorkgroupMemory,
)


class KernelModule(NamedTuple):
    """A module, and the interface of its entry point."""

    spirv: bytes
    interface: Interface


def interface_of(
    function: Function,
    ops: Sequence[Op],
    out: Assembler,
    private: Sequence[Memory],
    *,
    parameters: tuple[int, int] | None,
) -> Interface:
    """Returns the interface of a function.

    Args:
        ops: all of its operations.
        out: what it is lowered to.
        private: the memories of an invocation.
        parameters: set and binding of the uniform buffer with the push constants; None if they are push constants.
    """
    accesses = [(op.memory, op.operation) for op in ops if op.memory is not None]
    reads = {memory for memory, operation in accesses if operation.reads}
    writes = {memory for memory, operation in accesses if operation.writes}
    used = {memory for memory, _ in accesses}
    bindings = [
        _binding(memory, *(memory.binding or (0, number)), reads=memory in reads, writes=memory in writes)
        for number, memory in enumerate(function.buffers)
    ]
    block = _block(function.pushes)
    if block is not None and parameters is not None:
        bindings.append(Binding(*parameters, "parameters", "uniform_buffer", 1, True, False, None, block))
        block = None
    x, y, z = function.local_size
    return Interface(
        entry_point="main",
        version=out.version,
        local_size=LocalSize((x, y, z), (None, None, None)),
        workgroup_memory=_workgroup_memory(function, used),
        private_memory=_memory([variable.nbytes for variable in private]),
        bindings=tuple(sorted(bindings, key=lambda binding: (binding.set, binding.binding))),
        push_constants=block,
        spec_constants=(),
        capabilities=tuple([enums.name(enums.Capability, capability) for capability in out.capabilities]),
        extensions=tuple(out.extensions),
        reads_num_workgroups=out.reads_num_workgroups,
        float_controls=tuple([f"shaderSignedZeroInfNanPreserveFloat{bits}" for _, bits in out.modes]),
    )


def _binding(memory: Memory, set_number: int, number: int, *, reads: bool, writes: bool) -> Binding:
    if memory.texels:
        texel = Texel("uint32", "Buffer", "R32ui" if memory.lanes == 1 else "Unknown", False, False)
        return Binding(set_number, number, memory.name, "uniform_texel_buffer", 1, reads, False, texel=texel)
    dtype, nbytes = memory.element.name, memory.element.bits // 8
    stride, vector = memory.type.bits // 8, memory.lanes > 1
    shape, strides = ((0, memory.lanes), (stride, nbytes)) if vector else ((0,), (stride,))
    element = Element(dtype, memory.lanes, stride)
    block = InterfaceBlock("", (Member(memory.name, 0, dtype, shape, strides, 0),), 0)
    return Binding(set_number, number, memory.name, "storage_buffer", 1, reads, writes, element, block)


def _block(pushes: Sequence[Push]) -> InterfaceBlock | None:
    """The block of the push constants, each at the next multiple of its size."""
    members, offset = [], 0
    for push in pushes:
        kind = push.host
        nbytes = kind.bits // 8
        offset = -(-offset // nbytes) * nbytes
        members.append(Member(push.name, offset, kind.name, (), (), nbytes))
        offset += nbytes
    return InterfaceBlock("", tuple(members), offset + -offset % 4) if members else None


def _workgroup_memory(function: Function, used: Collection[Memory | None]) -> WorkgroupMemory:
    """The lower bound that reflection finds, too: of blocks, the largest size (spirv/workgroup_memory.py)."""
    sizes = [memory.nbytes for memory in function.shared_memory if memory in used]
    return _memory([max(sizes)] if sizes and function.aliased.intersection(function.shared_memory) else sizes)


def _memory(sizes: Sequence[int]) -> WorkgroupMemory:
    return WorkgroupMemory((SharedMemoryTerm(sum(sizes), ()),) if sizes else ())
