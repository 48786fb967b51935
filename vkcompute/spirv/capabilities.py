"""What a device must have for each SPIR-V capability and extension; the tables of Vulkan's appendix "spirvenv"."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vkcompute.spirv.instruction import Instruction, string_at
from vkcompute.spirv.interface import Interface
from vkcompute.spirv.module import Module

# Rows of "number name requirement": what a device must have, alternatives separated by "|": a feature's name, a Vulkan
# version, an extension (VK_...); nothing where every device has it, OpenCL where none has. "subgroup.*" are the bits of
# VkPhysicalDeviceSubgroupProperties.supportedOperations.
_CAPABILITIES = """
0 Matrix
1 Shader
4 Addresses OpenCL
5 Linkage OpenCL
6 Kernel OpenCL
7 Vector16 OpenCL
8 Float16Buffer OpenCL
9 Float16 shaderFloat16|VK_AMD_gpu_shader_half_float
10 Float64 shaderFloat64
11 Int64 shaderInt64
12 Int64Atomics shaderBufferInt64Atomics|shaderSharedInt64Atomics|shaderImageInt64Atomics
13 ImageBasic OpenCL
14 ImageReadWrite OpenCL
15 ImageMipmap OpenCL
18 Groups VK_AMD_shader_ballot
20 LiteralSampler OpenCL
22 Int16 shaderInt16
25 ImageGatherExtended shaderImageGatherExtended
27 StorageImageMultisample shaderStorageImageMultisample
28 UniformBufferArrayDynamicIndexing shaderUniformBufferArrayDynamicIndexing
29 SampledImageArrayDynamicIndexing shaderSampledImageArrayDynamicIndexing
30 StorageBufferArrayDynamicIndexing shaderStorageBufferArrayDynamicIndexing
31 StorageImageArrayDynamicIndexing shaderStorageImageArrayDynamicIndexing
34 ImageCubeArray imageCubeArray
38 GenericPointer OpenCL
39 Int8 shaderInt8
40 InputAttachment
41 SparseResidency shaderResourceResidency
42 MinLod shaderResourceMinLod
43 Sampled1D
44 Image1D
45 SampledCubeArray imageCubeArray
46 SampledBuffer
47 ImageBuffer
48 ImageMSArray shaderStorageImageMultisample
49 StorageImageExtendedFormats
50 ImageQuery
51 DerivativeControl
55 StorageImageReadWithoutFormat shaderStorageImageReadWithoutFormat|1.3|VK_KHR_format_feature_flags2
56 StorageImageWriteWithoutFormat shaderStorageImageWriteWithoutFormat|1.3|VK_KHR_format_feature_flags2
58 SubgroupDispatch OpenCL
59 NamedBarrier OpenCL
61 GroupNonUniform subgroup.basic
62 GroupNonUniformVote subgroup.vote
63 GroupNonUniformArithmetic subgroup.arithmetic
64 GroupNonUniformBallot subgroup.ballot
65 GroupNonUniformShuffle subgroup.shuffle
66 GroupNonUniformShuffleRelative subgroup.shuffle_relative
67 GroupNonUniformClustered subgroup.clustered
68 GroupNonUniformQuad subgroup.quad
4165 CoreBuiltinsARM shaderCoreBuiltins
4212 Float8EXT shaderFloat8
4213 Float8CooperativeMatrixEXT shaderFloat8CooperativeMatrix
4423 SubgroupBallotKHR VK_EXT_shader_subgroup_ballot
4427 DrawParameters shaderDrawParameters|VK_KHR_shader_draw_parameters
4428 WorkgroupMemoryExplicitLayoutKHR workgroupMemoryExplicitLayout
4429 WorkgroupMemoryExplicitLayout8BitAccessKHR workgroupMemoryExplicitLayout8BitAccess
4430 WorkgroupMemoryExplicitLayout16BitAccessKHR workgroupMemoryExplicitLayout16BitAccess
4431 SubgroupVoteKHR VK_EXT_shader_subgroup_vote
4433 StorageBuffer16BitAccess storageBuffer16BitAccess
4434 UniformAndStorageBuffer16BitAccess uniformAndStorageBuffer16BitAccess
4435 StoragePushConstant16 storagePushConstant16
4436 StorageInputOutput16 storageInputOutput16
4437 DeviceGroup 1.1|VK_KHR_device_group
4439 MultiView multiview
4441 VariablePointersStorageBuffer variablePointersStorageBuffer
4442 VariablePointers variablePointers
4448 StorageBuffer8BitAccess storageBuffer8BitAccess
4449 UniformAndStorageBuffer8BitAccess uniformAndStorageBuffer8BitAccess
4450 StoragePushConstant8 storagePushConstant8
4464 DenormPreserve shaderDenormPreserveFloat16|shaderDenormPreserveFloat32|shaderDenormPreserveFloat64
4465 DenormFlushToZero shaderDenormFlushToZeroFloat16|shaderDenormFlushToZeroFloat32|shaderDenormFlushToZeroFloat64
4466 SignedZeroInfNanPreserve shaderSignedZeroInfNanPreserveFloat16|shaderSignedZeroInfNanPreserveFloat32|
shaderSignedZeroInfNanPreserveFloat64
4467 RoundingModeRTE shaderRoundingModeRTEFloat16|shaderRoundingModeRTEFloat32|shaderRoundingModeRTEFloat64
4468 RoundingModeRTZ shaderRoundingModeRTZFloat16|shaderRoundingModeRTZFloat32|shaderRoundingModeRTZFloat64
4472 RayQueryKHR rayQuery
4473 UntypedPointersKHR shaderUntypedPointers
5009 ImageGatherBiasLodAMD VK_AMD_texture_gather_bias_lod
5015 ImageReadWriteLodAMD VK_AMD_shader_image_load_store_lod
5016 Int64ImageEXT shaderImageInt64Atomics
5055 ShaderClockKHR VK_KHR_shader_clock
5087 QuadControlKHR shaderQuadControl
5116 BFloat16TypeKHR shaderBFloat16Type
5117 BFloat16DotProductKHR shaderBFloat16DotProduct
5118 BFloat16CooperativeMatrixKHR shaderBFloat16CooperativeMatrix
5288 ComputeDerivativeGroupQuadsKHR computeDerivativeGroupQuads
5297 GroupNonUniformPartitionedNV subgroup.partitioned
5301 ShaderNonUniform 1.2|VK_EXT_descriptor_indexing
5302 RuntimeDescriptorArray runtimeDescriptorArray
5303 InputAttachmentArrayDynamicIndexing shaderInputAttachmentArrayDynamicIndexing
5304 UniformTexelBufferArrayDynamicIndexing shaderUniformTexelBufferArrayDynamicIndexing
5305 StorageTexelBufferArrayDynamicIndexing shaderStorageTexelBufferArrayDynamicIndexing
5306 UniformBufferArrayNonUniformIndexing shaderUniformBufferArrayNonUniformIndexing
5307 SampledImageArrayNonUniformIndexing shaderSampledImageArrayNonUniformIndexing
5308 StorageBufferArrayNonUniformIndexing shaderStorageBufferArrayNonUniformIndexing
5309 StorageImageArrayNonUniformIndexing shaderStorageImageArrayNonUniformIndexing
5310 InputAttachmentArrayNonUniformIndexing shaderInputAttachmentArrayNonUniformIndexing
5311 UniformTexelBufferArrayNonUniformIndexing shaderUniformTexelBufferArrayNonUniformIndexing
5312 StorageTexelBufferArrayNonUniformIndexing shaderStorageTexelBufferArrayNonUniformIndexing
5345 VulkanMemoryModel vulkanMemoryModel
5346 VulkanMemoryModelDeviceScope vulkanMemoryModelDeviceScope
5347 PhysicalStorageBufferAddresses bufferDeviceAddress
5350 ComputeDerivativeGroupLinearKHR computeDerivativeGroupLinear
5357 CooperativeMatrixNV cooperativeMatrix
5373 ShaderSMBuiltinsNV shaderSMBuiltins
5379 DemoteToHelperInvocation shaderDemoteToHelperInvocation
5404 AtomicFloat16VectorNV shaderFloat16VectorAtomics
5414 RawAccessChainsNV shaderRawAccessChains
5426 Shader64BitIndexingEXT shader64BitIndexing
5430 CooperativeMatrixReductionsNV cooperativeMatrixReductions
5431 CooperativeMatrixConversionsNV cooperativeMatrixConversions
5432 CooperativeMatrixPerElementOperationsNV cooperativeMatrixPerElementOperations
5433 CooperativeMatrixTensorAddressingNV cooperativeMatrixTensorAddressing
5434 CooperativeMatrixBlockLoadsNV cooperativeMatrixBlockLoads
5439 TensorAddressingNV cooperativeMatrixTensorAddressing
5612 AtomicFloat32MinMaxEXT shaderBufferFloat32AtomicMinMax|shaderSharedFloat32AtomicMinMax|
shaderImageFloat32AtomicMinMax
5613 AtomicFloat64MinMaxEXT shaderBufferFloat64AtomicMinMax|shaderSharedFloat64AtomicMinMax
5616 AtomicFloat16MinMaxEXT shaderBufferFloat16AtomicMinMax|shaderSharedFloat16AtomicMinMax
5629 ExpectAssumeKHR shaderExpectAssume
6016 DotProductInputAll shaderIntegerDotProduct
6017 DotProductInput4x8Bit shaderIntegerDotProduct
6018 DotProductInput4x8BitPacked shaderIntegerDotProduct
6019 DotProduct shaderIntegerDotProduct
6022 CooperativeMatrixKHR cooperativeMatrix
6024 ReplicatedCompositesEXT shaderReplicatedComposites
6025 BitInstructions maintenance9
6026 GroupNonUniformRotateKHR shaderSubgroupRotate
6029 FloatControls2 shaderFloatControls2
6030 FMAKHR shaderFmaFloat16|shaderFmaFloat32|shaderFmaFloat64
6033 AtomicFloat32AddEXT shaderBufferFloat32AtomicAdd|shaderSharedFloat32AtomicAdd|shaderImageFloat32AtomicAdd
6034 AtomicFloat64AddEXT shaderBufferFloat64AtomicAdd|shaderSharedFloat64AtomicAdd
6095 AtomicFloat16AddEXT shaderBufferFloat16AtomicAdd|shaderSharedFloat16AtomicAdd
"""
# SPIR-V extension, requirement as above.
_EXTENSIONS = """
SPV_KHR_variable_pointers 1.1|VK_KHR_variable_pointers
SPV_KHR_storage_buffer_storage_class 1.1|VK_KHR_storage_buffer_storage_class
SPV_KHR_16bit_storage 1.1|VK_KHR_16bit_storage
SPV_KHR_8bit_storage 1.2|VK_KHR_8bit_storage
SPV_KHR_float_controls 1.2|VK_KHR_shader_float_controls
SPV_KHR_float_controls2 1.4|VK_KHR_shader_float_controls2
SPV_KHR_vulkan_memory_model 1.2|VK_KHR_vulkan_memory_model
SPV_KHR_physical_storage_buffer 1.2|VK_KHR_buffer_device_address
SPV_EXT_physical_storage_buffer 1.2|VK_KHR_buffer_device_address|VK_EXT_buffer_device_address
SPV_EXT_descriptor_indexing 1.2|VK_EXT_descriptor_indexing
SPV_KHR_non_semantic_info 1.3|VK_KHR_shader_non_semantic_info
SPV_KHR_relaxed_extended_instruction VK_KHR_shader_relaxed_extended_instruction
SPV_KHR_terminate_invocation 1.3|VK_KHR_shader_terminate_invocation
SPV_KHR_integer_dot_product 1.3|VK_KHR_shader_integer_dot_product
SPV_KHR_expect_assume 1.4|VK_KHR_shader_expect_assume
SPV_KHR_subgroup_rotate 1.4|VK_KHR_shader_subgroup_rotate
SPV_KHR_subgroup_uniform_control_flow 1.3|VK_KHR_shader_subgroup_uniform_control_flow
SPV_KHR_maximal_reconvergence VK_KHR_shader_maximal_reconvergence
SPV_KHR_quad_control VK_KHR_shader_quad_control
SPV_KHR_shader_ballot VK_EXT_shader_subgroup_ballot
SPV_KHR_subgroup_vote VK_EXT_shader_subgroup_vote
SPV_KHR_shader_clock VK_KHR_shader_clock
SPV_KHR_device_group 1.1|VK_KHR_device_group
SPV_KHR_multiview 1.1|VK_KHR_multiview
SPV_KHR_shader_draw_parameters 1.1|VK_KHR_shader_draw_parameters
SPV_KHR_workgroup_memory_explicit_layout VK_KHR_workgroup_memory_explicit_layout
SPV_KHR_cooperative_matrix VK_KHR_cooperative_matrix
SPV_KHR_bfloat16 VK_KHR_shader_bfloat16
SPV_KHR_untyped_pointers VK_KHR_shader_untyped_pointers
SPV_KHR_ray_query VK_KHR_ray_query
SPV_KHR_compute_shader_derivatives VK_KHR_compute_shader_derivatives
SPV_KHR_fma VK_KHR_shader_fma
SPV_EXT_shader_64bit_indexing VK_EXT_shader_64bit_indexing
SPV_EXT_float8 VK_EXT_shader_float8
SPV_EXT_replicated_composites VK_EXT_shader_replicated_composites
SPV_EXT_shader_atomic_float_add VK_EXT_shader_atomic_float
SPV_EXT_shader_atomic_float16_add VK_EXT_shader_atomic_float2
SPV_EXT_shader_atomic_float_min_max VK_EXT_shader_atomic_float2
SPV_EXT_shader_image_int64 VK_EXT_shader_image_atomic_int64
SPV_EXT_demote_to_helper_invocation 1.3|VK_EXT_shader_demote_to_helper_invocation
SPV_GOOGLE_hlsl_functionality1 VK_GOOGLE_hlsl_functionality1
SPV_GOOGLE_decorate_string VK_GOOGLE_decorate_string
SPV_GOOGLE_user_type VK_GOOGLE_user_type
SPV_AMD_gpu_shader_half_float VK_AMD_gpu_shader_half_float
SPV_AMD_gpu_shader_int16 VK_AMD_gpu_shader_int16
SPV_AMD_shader_ballot VK_AMD_shader_ballot
SPV_AMD_gcn_shader VK_AMD_gcn_shader
SPV_AMD_shader_trinary_minmax VK_AMD_shader_trinary_minmax
SPV_AMD_shader_image_load_store_lod VK_AMD_shader_image_load_store_lod
SPV_AMD_texture_gather_bias_lod VK_AMD_texture_gather_bias_lod
SPV_ARM_core_builtins VK_ARM_shader_core_builtins
SPV_NV_compute_shader_derivatives VK_NV_compute_shader_derivatives|VK_KHR_compute_shader_derivatives
SPV_NV_cooperative_matrix VK_NV_cooperative_matrix
SPV_NV_cooperative_matrix2 VK_NV_cooperative_matrix2
SPV_NV_tensor_addressing VK_NV_cooperative_matrix2
SPV_NV_raw_access_chains VK_NV_raw_access_chains
SPV_NV_shader_atomic_fp16_vector VK_NV_shader_atomic_float16_vector
SPV_NV_shader_sm_builtins VK_NV_shader_sm_builtins
SPV_NV_shader_subgroup_partitioned VK_NV_shader_subgroup_partitioned
"""


def _rows(text: str) -> Iterator[list[str]]:
    """The words of each row; one that ends with "|" goes on in the next line."""
    return map(str.split, text.replace("|\n", "|").strip().splitlines())


NAMES = {int(number): name for number, name, *_ in _rows(_CAPABILITIES)}
CAPABILITIES = {name: requirement[0] if requirement else "" for _, name, *requirement in _rows(_CAPABILITIES)}
EXTENSIONS = {row[0]: row[1] for row in _rows(_EXTENSIONS)}
# Newest SPIR-V version that a Vulkan version takes.
_VERSIONS = {(1, 0): (1, 0), (1, 1): (1, 3), (1, 2): (1, 5), (1, 3): (1, 6), (1, 4): (1, 6)}


def name_of(capability: Instruction) -> str:
    """The name that an OpCapability gives; "Capability 9999" for one that is unknown here."""
    number = capability.operands[0]
    return NAMES.get(number, f"Capability {number}")


def missing_features(
    source: Interface | Module,
    features: Collection[str],
    extensions: Collection[str],
    vulkan_version: tuple[int, int],
) -> list[str]:
    """What a device lacks for `source`, one sentence each; empty if nothing.

    Args:
        source: a module, or the interface of one.
        features: names of Vulkan's features as the structures spell them ("shaderFloat64"), and "subgroup.basic",
            "subgroup.vote" and so on for the subgroup operations; for the float controls, the names of the properties
            ("shaderDenormPreserveFloat32").
        extensions: names of Vulkan's device extensions.
        vulkan_version: (major, minor).
    """
    if isinstance(source, Module):
        capabilities = tuple(map(name_of, source.capabilities))
        spirv_extensions = tuple(string_at(each.operands, 0, each)[0] for each in source.extensions)
    else:
        capabilities, spirv_extensions = source.capabilities, source.extensions

    def has(requirement: str) -> bool:
        if requirement[:1].isdigit():
            major, minor = map(int, requirement.split("."))
            return vulkan_version >= (major, minor)
        return requirement in (extensions if requirement.startswith("VK_") else features)

    sentences = _version(source.version, extensions, vulkan_version)
    rows = [("capability", name, CAPABILITIES) for name in dict.fromkeys(capabilities)]
    rows += [("SPIR-V extension", name, EXTENSIONS) for name in dict.fromkeys(spirv_extensions)]
    for noun, name, table in rows:
        requirement = table.get(name)
        if requirement is None:
            sentences.append(f"{noun} {name} is unknown here, so that no device can be said to have it")
        elif requirement == "OpenCL":
            sentences.append(f"{noun} {name} belongs to OpenCL; no Vulkan device takes it")
        elif requirement and not any(map(has, requirement.split("|"))):
            sentences.append(f"{noun} {name} needs {' or '.join(map(_spell, requirement.split('|')))}")
    return sentences


def _spell(requirement: str) -> str:
    if requirement[:1].isdigit():
        return f"Vulkan {requirement}"
    if requirement.startswith("subgroup."):
        return f"the subgroup operation {requirement.removeprefix('subgroup.')}"
    return f"the {'extension' if requirement.startswith('VK_') else 'feature'} {requirement}"


def _version(spirv: tuple[int, int], extensions: Collection[str], vulkan: tuple[int, int]) -> list[str]:
    newest = _VERSIONS.get(vulkan, (1, 6) if vulkan > (1, 4) else (0, 0))
    if vulkan == (1, 1) and "VK_KHR_spirv_1_4" in extensions:
        newest = (1, 4)
    if spirv <= newest:
        return []
    was, is_ = ".".join(map(str, spirv)), ".".join(map(str, newest))
    target = ".".join(map(str, vulkan))
    return [
        f"SPIR-V {was} is newer than the {is_} that Vulkan {target} takes; compile with --target-env vulkan{target}"
    ]
