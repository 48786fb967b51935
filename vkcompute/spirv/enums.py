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
    RayGenerationKHR, IntersectionKHR, AnyHitKHR, ClosestHitKHR, MissKHR, CallableKHR = range(5313, 5319)
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

    WorkgroupSize = 25


class Capability:
    """The values of SPIR-V's Capability."""

    Matrix, Shader = range(2)
    (
        Addresses, Linkage, Kernel, Vector16, Float16Buffer, Float16, Float64, Int64, Int64Atomics, ImageBasic,
        ImageReadWrite, ImageMipmap,
    ) = range(4, 16)
    Groups = 18
    LiteralSampler, AtomicStorage, Int16 = range(20, 23)
    ImageGatherExtended = 25
    (
        StorageImageMultisample, UniformBufferArrayDynamicIndexing, SampledImageArrayDynamicIndexing,
        StorageBufferArrayDynamicIndexing, StorageImageArrayDynamicIndexing,
    ) = range(27, 32)
    ImageCubeArray = 34
    (
        ImageRect, SampledRect, GenericPointer, Int8, InputAttachment, SparseResidency, MinLod, Sampled1D, Image1D,
        SampledCubeArray, SampledBuffer, ImageBuffer, ImageMSArray, StorageImageExtendedFormats, ImageQuery,
        DerivativeControl,
    ) = range(36, 52)
    StorageImageReadWithoutFormat, StorageImageWriteWithoutFormat = range(55, 57)
    SubgroupDispatch, NamedBarrier = range(58, 60)
    (
        GroupNonUniform, GroupNonUniformVote, GroupNonUniformArithmetic, GroupNonUniformBallot,
        GroupNonUniformShuffle, GroupNonUniformShuffleRelative, GroupNonUniformClustered, GroupNonUniformQuad,
    ) = range(61, 69)
    UniformDecoration = 71
    CoreBuiltinsARM = 4165
    Float8EXT, Float8CooperativeMatrixEXT = range(4212, 4214)
    SubgroupBallotKHR = 4423
    (
        DrawParameters, WorkgroupMemoryExplicitLayoutKHR, WorkgroupMemoryExplicitLayout8BitAccessKHR,
        WorkgroupMemoryExplicitLayout16BitAccessKHR, SubgroupVoteKHR,
    ) = range(4427, 4432)
    (
        StorageBuffer16BitAccess, UniformAndStorageBuffer16BitAccess, StoragePushConstant16, StorageInputOutput16,
        DeviceGroup,
    ) = range(4433, 4438)
    MultiView = 4439
    VariablePointersStorageBuffer, VariablePointers = range(4441, 4443)
    AtomicStorageOps = 4445
    StorageBuffer8BitAccess, UniformAndStorageBuffer8BitAccess, StoragePushConstant8 = range(4448, 4451)
    (
        DenormPreserve, DenormFlushToZero, SignedZeroInfNanPreserve, RoundingModeRTE, RoundingModeRTZ,
    ) = range(4464, 4469)
    RayQueryProvisionalKHR, RayQueryKHR, UntypedPointersKHR = range(4471, 4474)
    Float16ImageAMD, ImageGatherBiasLodAMD = range(5008, 5010)
    ImageReadWriteLodAMD, Int64ImageEXT = range(5015, 5017)
    ShaderClockKHR = 5055
    QuadControlKHR = 5087
    BFloat16TypeKHR, BFloat16DotProductKHR, BFloat16CooperativeMatrixKHR = range(5116, 5119)
    ComputeDerivativeGroupQuadsKHR = 5288
    ShadingRateNV = 5291
    GroupNonUniformPartitionedNV = 5297
    (
        ShaderNonUniform, RuntimeDescriptorArray, InputAttachmentArrayDynamicIndexing,
        UniformTexelBufferArrayDynamicIndexing, StorageTexelBufferArrayDynamicIndexing,
        UniformBufferArrayNonUniformIndexing, SampledImageArrayNonUniformIndexing,
        StorageBufferArrayNonUniformIndexing, StorageImageArrayNonUniformIndexing,
        InputAttachmentArrayNonUniformIndexing, UniformTexelBufferArrayNonUniformIndexing,
        StorageTexelBufferArrayNonUniformIndexing,
    ) = range(5301, 5313)
    VulkanMemoryModel, VulkanMemoryModelDeviceScope, PhysicalStorageBufferAddresses = range(5345, 5348)
    ComputeDerivativeGroupLinearKHR = 5350
    CooperativeMatrixNV = 5357
    ShaderSMBuiltinsNV = 5373
    DemoteToHelperInvocation = 5379
    BindlessTextureNV = 5390
    AtomicFloat16VectorNV = 5404
    RawAccessChainsNV = 5414
    Shader64BitIndexingEXT = 5426
    (
        CooperativeMatrixReductionsNV, CooperativeMatrixConversionsNV, CooperativeMatrixPerElementOperationsNV,
        CooperativeMatrixTensorAddressingNV, CooperativeMatrixBlockLoadsNV,
    ) = range(5430, 5435)
    TensorAddressingNV = 5439
    AtomicFloat32MinMaxEXT, AtomicFloat64MinMaxEXT = range(5612, 5614)
    AtomicFloat16MinMaxEXT = 5616
    ExpectAssumeKHR = 5629
    DotProductInputAll, DotProductInput4x8Bit, DotProductInput4x8BitPacked, DotProduct = range(6016, 6020)
    CooperativeMatrixKHR = 6022
    ReplicatedCompositesEXT, BitInstructions, GroupNonUniformRotateKHR = range(6024, 6027)
    FloatControls2, FMAKHR = range(6029, 6031)
    AtomicFloat32AddEXT, AtomicFloat64AddEXT = range(6033, 6035)
    AtomicFloat16AddEXT = 6095
    GroupUniformArithmeticKHR = 6400


def name(kind: type, value: int) -> str:
    """The name of `value` in the namespace `kind`, e.g. name(Dim, 5) == "Buffer"; "Dim 77" if unknown."""
    for key, number in vars(kind).items():
        if number == value and not key.startswith("_"):
            return key
    return f"{kind.__name__} {value}"
