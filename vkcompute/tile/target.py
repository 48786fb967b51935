"""Targets: what is known of the device for which a block program is lowered."""

from __future__ import annotations

from typing import NamedTuple


class MatrixShape(NamedTuple):
    """Cooperative matrices that a device multiplies: of shapes (rows, inner) and (inner, columns), added to sums.

    Attributes:
        operand, sums: names of the types of their elements. Blocks hold operands of bfloat16 as their bits in uint16.
    """

    rows: int
    columns: int
    inner: int
    operand: str
    sums: str


class Target(NamedTuple):
    """The properties of a device that layouts and lowering depend on; the default is right on all devices.

    Attributes:
        subgroup_size: lanes that can shuffle; 1 if the device has no shuffles, or subgroups of several sizes.
        max_invocations: the most invocations of a workgroup.
        shared_nbytes: workgroup memory.
        overlays: True if arrays of different types can overlap in workgroup memory.
        texels: True if loads are fastest through texel buffers.
        word: the type of the words that are stored fastest. Programs with products store those of 32 bits: with others,
            one of 1024^3 takes 103 ms of CPU time on lavapipe, and not 86.
        own_elements: elements of a block that an invocation holds before a program takes another subgroup. On a CPU,
            subgroups of a workgroup run one after the other, and each barrier costs more than spilled registers.
        sums: sums of a product that an invocation holds, as far as the block has so many.
        spreads: True if blocks are spread over as many invocations as there are, each with few elements.
        stages: True if workgroup memory is faster than the caches, so that operands of products pass through it.
        matrices: the cooperative matrices by which products are computed where their types and shapes allow; the best
            first.
        shuffles: True if changes of layout within subgroups are shuffles, and do not pass through workgroup memory.
    """

    subgroup_size: int = 1
    max_invocations: int = 128
    shared_nbytes: int = 16384
    overlays: bool = False
    texels: bool = False
    word: str = "uint32"
    own_elements: int = 1
    sums: int = 64
    spreads: bool = False
    stages: bool = False
    matrices: tuple[MatrixShape, ...] = ()
    shuffles: bool = False
