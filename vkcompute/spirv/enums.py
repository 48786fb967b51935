"""The enumerants of SPIR-V that a compute shader can carry.

Written by tools/generate_spirv_tables.py from the grammar of SPIR-V 1.6 revision 1; change the program instead.

Plain integers in a namespace per kind: an operand word is an integer, and an import stays cheap.
"""

from __future__ import annotations


class ExecutionModel:
    """The values of SPIR-V's ExecutionModel."""

    Vertex = 0
    TessellationControl = 1
    TessellationEvaluation = 2
    Geometry = 3
    Fragment = 4
    GLCompute = 5
    Kernel = 6
    RayGenerationKHR = 5313
    IntersectionKHR = 5314
    AnyHitKHR = 5315
    ClosestHitKHR = 5316
    MissKHR = 5317
    CallableKHR = 5318
    TaskEXT = 5364
    MeshEXT = 5365


class AddressingModel:
    """The values of SPIR-V's AddressingModel."""

    Logical = 0
    Physical32 = 1
    Physical64 = 2
    PhysicalStorageBuffer64 = 5348


class MemoryModel:
    """The values of SPIR-V's MemoryModel."""

    Simple = 0
    GLSL450 = 1
    OpenCL = 2
    Vulkan = 3


class ExecutionMode:
    """The values of SPIR-V's ExecutionMode."""

    LocalSize = 17
    LocalSizeHint = 18
    ContractionOff = 31
    SubgroupSize = 35
    SubgroupsPerWorkgroup = 36
    SubgroupsPerWorkgroupId = 37
    LocalSizeId = 38
    LocalSizeHintId = 39
    SubgroupUniformControlFlowKHR = 4421
    DenormPreserve = 4459
    DenormFlushToZero = 4460
    SignedZeroInfNanPreserve = 4461
    RoundingModeRTE = 4462
    RoundingModeRTZ = 4463
    MaximallyReconvergesKHR = 6023


class StorageClass:
    """The values of SPIR-V's StorageClass."""

    UniformConstant = 0
    Input = 1
    Uniform = 2
    Output = 3
    Workgroup = 4
    CrossWorkgroup = 5
    Private = 6
    Function = 7
    Generic = 8
    PushConstant = 9
    AtomicCounter = 10
    Image = 11
    StorageBuffer = 12
    PhysicalStorageBuffer = 5349


class Dim:
    """The values of SPIR-V's Dim."""

    Dim1D = 0
    Dim2D = 1
    Dim3D = 2
    Cube = 3
    Rect = 4
    Buffer = 5
    SubpassData = 6


class ImageFormat:
    """The values of SPIR-V's ImageFormat."""

    Unknown = 0
    Rgba32f = 1
    Rgba16f = 2
    R32f = 3
    Rgba8 = 4
    Rgba8Snorm = 5
    Rg32f = 6
    Rg16f = 7
    R11fG11fB10f = 8
    R16f = 9
    Rgba16 = 10
    Rgb10A2 = 11
    Rg16 = 12
    Rg8 = 13
    R16 = 14
    R8 = 15
    Rgba16Snorm = 16
    Rg16Snorm = 17
    Rg8Snorm = 18
    R16Snorm = 19
    R8Snorm = 20
    Rgba32i = 21
    Rgba16i = 22
    Rgba8i = 23
    R32i = 24
    Rg32i = 25
    Rg16i = 26
    Rg8i = 27
    R16i = 28
    R8i = 29
    Rgba32ui = 30
    Rgba16ui = 31
    Rgba8ui = 32
    R32ui = 33
    Rgb10a2ui = 34
    Rg32ui = 35
    Rg16ui = 36
    Rg8ui = 37
    R16ui = 38
    R8ui = 39
    R64ui = 40
    R64i = 41


class Decoration:
    """The values of SPIR-V's Decoration."""

    RelaxedPrecision = 0
    SpecId = 1
    Block = 2
    BufferBlock = 3
    RowMajor = 4
    ColMajor = 5
    ArrayStride = 6
    MatrixStride = 7
    GLSLShared = 8
    GLSLPacked = 9
    CPacked = 10
    BuiltIn = 11
    NoPerspective = 13
    Flat = 14
    Patch = 15
    Centroid = 16
    Sample = 17
    Invariant = 18
    Restrict = 19
    Aliased = 20
    Volatile = 21
    Constant = 22
    Coherent = 23
    NonWritable = 24
    NonReadable = 25
    Uniform = 26
    UniformId = 27
    SaturatedConversion = 28
    Stream = 29
    Location = 30
    Component = 31
    Index = 32
    Binding = 33
    DescriptorSet = 34
    Offset = 35
    XfbBuffer = 36
    XfbStride = 37
    FuncParamAttr = 38
    FPRoundingMode = 39
    FPFastMathMode = 40
    LinkageAttributes = 41
    NoContraction = 42
    InputAttachmentIndex = 43
    Alignment = 44
    MaxByteOffset = 45
    AlignmentId = 46
    MaxByteOffsetId = 47
    NoSignedWrap = 4469
    NoUnsignedWrap = 4470
    PerPrimitiveEXT = 5271
    PerVertexKHR = 5285
    NonUniform = 5300
    RestrictPointer = 5355
    AliasedPointer = 5356
    CounterBuffer = 5634
    UserSemantic = 5635


class BuiltIn:
    """The values of SPIR-V's BuiltIn."""

    NumWorkgroups = 24
    WorkgroupSize = 25
    WorkgroupId = 26
    LocalInvocationId = 27
    GlobalInvocationId = 28
    LocalInvocationIndex = 29
    GlobalSize = 31
    GlobalOffset = 33
    GlobalLinearId = 34
    SubgroupSize = 36
    SubgroupMaxSize = 37
    NumSubgroups = 38
    NumEnqueuedSubgroups = 39
    SubgroupId = 40
    SubgroupLocalInvocationId = 41
    SubgroupEqMask = 4416
    SubgroupGeMask = 4417
    SubgroupGtMask = 4418
    SubgroupLeMask = 4419
    SubgroupLtMask = 4420
    DeviceIndex = 4438


class Scope:
    """The values of SPIR-V's Scope."""

    CrossDevice = 0
    Device = 1
    Workgroup = 2
    Subgroup = 3
    Invocation = 4
    QueueFamily = 5
    ShaderCallKHR = 6


class GroupOperation:
    """The values of SPIR-V's GroupOperation."""

    Reduce = 0
    InclusiveScan = 1
    ExclusiveScan = 2
    ClusteredReduce = 3


class MemorySemantics:
    """The bits of SPIR-V's MemorySemantics."""

    Relaxed = 0
    Acquire = 2
    Release = 4
    AcquireRelease = 8
    SequentiallyConsistent = 16
    UniformMemory = 64
    SubgroupMemory = 128
    WorkgroupMemory = 256
    CrossWorkgroupMemory = 512
    AtomicCounterMemory = 1024
    ImageMemory = 2048
    OutputMemory = 4096
    MakeAvailable = 8192
    MakeVisible = 16384
    Volatile = 32768


class MemoryAccess:
    """The bits of SPIR-V's MemoryAccess."""

    None_ = 0
    Volatile = 1
    Aligned = 2
    Nontemporal = 4
    MakePointerAvailable = 8
    MakePointerVisible = 16
    NonPrivatePointer = 32


class ImageOperands:
    """The bits of SPIR-V's ImageOperands."""

    None_ = 0
    Bias = 1
    Lod = 2
    Grad = 4
    ConstOffset = 8
    Offset = 16
    ConstOffsets = 32
    Sample = 64
    MinLod = 128
    MakeTexelAvailable = 256
    MakeTexelVisible = 512
    NonPrivateTexel = 1024
    VolatileTexel = 2048
    SignExtend = 4096
    ZeroExtend = 8192
    Nontemporal = 16384
    Offsets = 65536


class FunctionControl:
    """The bits of SPIR-V's FunctionControl."""

    None_ = 0
    Inline = 1
    DontInline = 2
    Pure = 4
    Const = 8


class LoopControl:
    """The bits of SPIR-V's LoopControl."""

    None_ = 0
    Unroll = 1
    DontUnroll = 2
    DependencyInfinite = 4
    DependencyLength = 8
    MinIterations = 16
    MaxIterations = 32
    IterationMultiple = 64
    PeelCount = 128
    PartialCount = 256


class SelectionControl:
    """The bits of SPIR-V's SelectionControl."""

    None_ = 0
    Flatten = 1
    DontFlatten = 2


class Capability:
    """The values of SPIR-V's Capability."""

    Matrix = 0
    Shader = 1
    Addresses = 4
    Linkage = 5
    Kernel = 6
    Vector16 = 7
    Float16Buffer = 8
    Float16 = 9
    Float64 = 10
    Int64 = 11
    Int64Atomics = 12
    ImageBasic = 13
    ImageReadWrite = 14
    ImageMipmap = 15
    Groups = 18
    LiteralSampler = 20
    AtomicStorage = 21
    Int16 = 22
    ImageGatherExtended = 25
    StorageImageMultisample = 27
    UniformBufferArrayDynamicIndexing = 28
    SampledImageArrayDynamicIndexing = 29
    StorageBufferArrayDynamicIndexing = 30
    StorageImageArrayDynamicIndexing = 31
    ImageCubeArray = 34
    ImageRect = 36
    SampledRect = 37
    GenericPointer = 38
    Int8 = 39
    InputAttachment = 40
    SparseResidency = 41
    MinLod = 42
    Sampled1D = 43
    Image1D = 44
    SampledCubeArray = 45
    SampledBuffer = 46
    ImageBuffer = 47
    ImageMSArray = 48
    StorageImageExtendedFormats = 49
    ImageQuery = 50
    DerivativeControl = 51
    StorageImageReadWithoutFormat = 55
    StorageImageWriteWithoutFormat = 56
    SubgroupDispatch = 58
    NamedBarrier = 59
    GroupNonUniform = 61
    GroupNonUniformVote = 62
    GroupNonUniformArithmetic = 63
    GroupNonUniformBallot = 64
    GroupNonUniformShuffle = 65
    GroupNonUniformShuffleRelative = 66
    GroupNonUniformClustered = 67
    GroupNonUniformQuad = 68
    UniformDecoration = 71
    CoreBuiltinsARM = 4165
    Float8EXT = 4212
    Float8CooperativeMatrixEXT = 4213
    SubgroupBallotKHR = 4423
    DrawParameters = 4427
    WorkgroupMemoryExplicitLayoutKHR = 4428
    WorkgroupMemoryExplicitLayout8BitAccessKHR = 4429
    WorkgroupMemoryExplicitLayout16BitAccessKHR = 4430
    SubgroupVoteKHR = 4431
    StorageBuffer16BitAccess = 4433
    UniformAndStorageBuffer16BitAccess = 4434
    StoragePushConstant16 = 4435
    StorageInputOutput16 = 4436
    DeviceGroup = 4437
    MultiView = 4439
    VariablePointersStorageBuffer = 4441
    VariablePointers = 4442
    AtomicStorageOps = 4445
    StorageBuffer8BitAccess = 4448
    UniformAndStorageBuffer8BitAccess = 4449
    StoragePushConstant8 = 4450
    DenormPreserve = 4464
    DenormFlushToZero = 4465
    SignedZeroInfNanPreserve = 4466
    RoundingModeRTE = 4467
    RoundingModeRTZ = 4468
    RayQueryProvisionalKHR = 4471
    RayQueryKHR = 4472
    UntypedPointersKHR = 4473
    Float16ImageAMD = 5008
    ImageGatherBiasLodAMD = 5009
    ImageReadWriteLodAMD = 5015
    Int64ImageEXT = 5016
    ShaderClockKHR = 5055
    QuadControlKHR = 5087
    BFloat16TypeKHR = 5116
    BFloat16DotProductKHR = 5117
    BFloat16CooperativeMatrixKHR = 5118
    ComputeDerivativeGroupQuadsKHR = 5288
    ShadingRateNV = 5291
    GroupNonUniformPartitionedNV = 5297
    ShaderNonUniform = 5301
    RuntimeDescriptorArray = 5302
    InputAttachmentArrayDynamicIndexing = 5303
    UniformTexelBufferArrayDynamicIndexing = 5304
    StorageTexelBufferArrayDynamicIndexing = 5305
    UniformBufferArrayNonUniformIndexing = 5306
    SampledImageArrayNonUniformIndexing = 5307
    StorageBufferArrayNonUniformIndexing = 5308
    StorageImageArrayNonUniformIndexing = 5309
    InputAttachmentArrayNonUniformIndexing = 5310
    UniformTexelBufferArrayNonUniformIndexing = 5311
    StorageTexelBufferArrayNonUniformIndexing = 5312
    VulkanMemoryModel = 5345
    VulkanMemoryModelDeviceScope = 5346
    PhysicalStorageBufferAddresses = 5347
    ComputeDerivativeGroupLinearKHR = 5350
    CooperativeMatrixNV = 5357
    ShaderSMBuiltinsNV = 5373
    DemoteToHelperInvocation = 5379
    BindlessTextureNV = 5390
    AtomicFloat16VectorNV = 5404
    RawAccessChainsNV = 5414
    Shader64BitIndexingEXT = 5426
    CooperativeMatrixReductionsNV = 5430
    CooperativeMatrixConversionsNV = 5431
    CooperativeMatrixPerElementOperationsNV = 5432
    CooperativeMatrixTensorAddressingNV = 5433
    CooperativeMatrixBlockLoadsNV = 5434
    TensorAddressingNV = 5439
    AtomicFloat32MinMaxEXT = 5612
    AtomicFloat64MinMaxEXT = 5613
    AtomicFloat16MinMaxEXT = 5616
    ExpectAssumeKHR = 5629
    DotProductInputAll = 6016
    DotProductInput4x8Bit = 6017
    DotProductInput4x8BitPacked = 6018
    DotProduct = 6019
    CooperativeMatrixKHR = 6022
    ReplicatedCompositesEXT = 6024
    BitInstructions = 6025
    GroupNonUniformRotateKHR = 6026
    FloatControls2 = 6029
    FMAKHR = 6030
    AtomicFloat32AddEXT = 6033
    AtomicFloat64AddEXT = 6034
    AtomicFloat16AddEXT = 6095
    GroupUniformArithmeticKHR = 6400


def name(kind: type, value: int) -> str:
    """The name of `value` in the namespace `kind`, e.g. name(Dim, 5) == "Buffer"; "Dim 77" if unknown."""
    for key, number in vars(kind).items():
        if number == value and not key.startswith("_"):
            return key
    return f"{kind.__name__} {value}"
