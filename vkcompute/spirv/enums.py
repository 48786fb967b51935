"""The enumerants of SPIR-V that a compute shader can carry, of the kinds that are looked at.

Written by tools/generate_spirv_tables.py from the grammar of SPIR-V 1.6 revision 1; change the program instead.

Plain integers in a namespace per kind: an operand word is an integer, and an import stays cheap.
"""

from __future__ import annotations

# fmt: off

class ExecutionModel:
    """The values of SPIR-V's ExecutionModel."""

    (
        Vertex, TessellationControl, TessellationEvaluation, Geometry, Fragment, GLCompute, Kernel,
    ) = range(7)
    (
        RayGenerationKHR, IntersectionKHR, AnyHitKHR, ClosestHitKHR, MissKHR, CallableKHR,
    ) = range(5313, 5319)
    TaskEXT, MeshEXT = range(5364, 5366)


class ExecutionMode:
    """The values of SPIR-V's ExecutionMode."""

    LocalSize, LocalSizeHint = range(17, 19)
    LocalSizeId, LocalSizeHintId = range(38, 40)


class StorageClass:
    """The values of SPIR-V's StorageClass."""

    (
        UniformConstant, Input, Uniform, Output, Workgroup, CrossWorkgroup, Private, Function, Generic, PushConstant,
        AtomicCounter, Image, StorageBuffer,
    ) = range(13)
    PhysicalStorageBuffer = 5349


class Dim:
    """The values of SPIR-V's Dim."""

    Dim1D, Dim2D, Dim3D, Cube, Rect, Buffer, SubpassData = range(7)


class ImageFormat:
    """The values of SPIR-V's ImageFormat."""

    (
        Unknown, Rgba32f, Rgba16f, R32f, Rgba8, Rgba8Snorm, Rg32f, Rg16f, R11fG11fB10f, R16f, Rgba16, Rgb10A2, Rg16,
        Rg8, R16, R8, Rgba16Snorm, Rg16Snorm, Rg8Snorm, R16Snorm, R8Snorm, Rgba32i, Rgba16i, Rgba8i, R32i, Rg32i,
        Rg16i, Rg8i, R16i, R8i, Rgba32ui, Rgba16ui, Rgba8ui, R32ui, Rgb10a2ui, Rg32ui, Rg16ui, Rg8ui, R16ui, R8ui,
        R64ui, R64i,
    ) = range(42)


class Decoration:
    """The values of SPIR-V's Decoration."""

    SpecId, Block, BufferBlock, RowMajor = range(1, 5)
    ArrayStride, MatrixStride = range(6, 8)
    BuiltIn = 11
    NonWritable, NonReadable = range(24, 26)
    Binding, DescriptorSet, Offset = range(33, 36)


class BuiltIn:
    """The values of SPIR-V's BuiltIn."""

    NumWorkgroups, WorkgroupSize = range(24, 26)


def name(kind: type, value: int) -> str:
    """The name of `value` in the namespace `kind`, e.g. name(Dim, 5) == "Buffer"; "Dim 77" if unknown."""
    for key, number in vars(kind).items():
        if number == value and not key.startswith("_"):
            return key
    return f"{kind.__name__} {value}"
