"""The requirements of SPIR-V capabilities and extensions on a device: the tables of Vulkan's appendix "spirvenv".

A requirement lists alternatives, separated by "|". Each is a feature's name, a Vulkan version, or a device extension
(VK_...). "" means that every device has it, "OpenCL" that none has. "subgroup.*" are the bits of
VkPhysicalDeviceSubgroupProperties.supportedOperations.
"""

from __future__ import annotations

from collections.abc import Collection

from vkcompute.spirv.interface import Interface

_ON_EVERY_DEVICE = """
    Matrix Shader InputAttachment Sampled1D Image1D SampledBuffer ImageBuffer
    StorageImageExtendedFormats ImageQuery DerivativeControl
""".split()
_OF_OPENCL = """
    Addresses Linkage Kernel Vector16 Float16Buffer ImageBasic ImageReadWrite ImageMipmap LiteralSampler
    GenericPointer SubgroupDispatch NamedBarrier
""".split()
# The feature has the capability's name, after "shader", or with a small first letter.
_SHADER_FEATURES = """
    Float64 Int64 Int16 ImageGatherExtended StorageImageMultisample UniformBufferArrayDynamicIndexing
    SampledImageArrayDynamicIndexing StorageBufferArrayDynamicIndexing StorageImageArrayDynamicIndexing Int8
    InputAttachmentArrayDynamicIndexing UniformTexelBufferArrayDynamicIndexing
    StorageTexelBufferArrayDynamicIndexing UniformBufferArrayNonUniformIndexing
    SampledImageArrayNonUniformIndexing StorageBufferArrayNonUniformIndexing
    StorageImageArrayNonUniformIndexing InputAttachmentArrayNonUniformIndexing
    UniformTexelBufferArrayNonUniformIndexing StorageTexelBufferArrayNonUniformIndexing
    DemoteToHelperInvocation FloatControls2
""".split()
_FEATURES = """
    ImageCubeArray StorageBuffer16BitAccess UniformAndStorageBuffer16BitAccess StoragePushConstant16
    StorageInputOutput16 VariablePointersStorageBuffer VariablePointers StorageBuffer8BitAccess
    UniformAndStorageBuffer8BitAccess StoragePushConstant8 RuntimeDescriptorArray VulkanMemoryModel
    VulkanMemoryModelDeviceScope
""".split()
# Capability -> requirement.
CAPABILITIES: dict[str, str] = {
    **dict.fromkeys(_ON_EVERY_DEVICE, ""),
    **dict.fromkeys(_OF_OPENCL, "OpenCL"),
    **{name: f"shader{name}" for name in _SHADER_FEATURES},
    **{name: name[0].lower() + name[1:] for name in _FEATURES},
    **dict.fromkeys(
        ("DotProductInputAll", "DotProductInput4x8Bit", "DotProductInput4x8BitPacked", "DotProduct"),
        "shaderIntegerDotProduct",
    ),
    "Float16": "shaderFloat16|VK_AMD_gpu_shader_half_float",
    "Int64Atomics": "shaderBufferInt64Atomics|shaderSharedInt64Atomics|shaderImageInt64Atomics",
    "Groups": "VK_AMD_shader_ballot",
    "SparseResidency": "shaderResourceResidency",
    "MinLod": "shaderResourceMinLod",
    "SampledCubeArray": "imageCubeArray",
    "ImageMSArray": "shaderStorageImageMultisample",
    "StorageImageReadWithoutFormat": "shaderStorageImageReadWithoutFormat|1.3|VK_KHR_format_feature_flags2",
    "StorageImageWriteWithoutFormat": "shaderStorageImageWriteWithoutFormat|1.3|VK_KHR_format_feature_flags2",
    "GroupNonUniform": "subgroup.basic",
    "GroupNonUniformVote": "subgroup.vote",
    "GroupNonUniformArithmetic": "subgroup.arithmetic",
    "GroupNonUniformBallot": "subgroup.ballot",
    "GroupNonUniformShuffle": "subgroup.shuffle",
    "GroupNonUniformShuffleRelative": "subgroup.shuffle_relative",
    "GroupNonUniformClustered": "subgroup.clustered",
    "GroupNonUniformQuad": "subgroup.quad",
    "CoreBuiltinsARM": "shaderCoreBuiltins",
    "Float8EXT": "shaderFloat8",
    "Float8CooperativeMatrixEXT": "shaderFloat8CooperativeMatrix",
    "SubgroupBallotKHR": "VK_EXT_shader_subgroup_ballot",
    "DrawParameters": "shaderDrawParameters|VK_KHR_shader_draw_parameters",
    "WorkgroupMemoryExplicitLayoutKHR": "workgroupMemoryExplicitLayout",
    "WorkgroupMemoryExplicitLayout8BitAccessKHR": "workgroupMemoryExplicitLayout8BitAccess",
    "WorkgroupMemoryExplicitLayout16BitAccessKHR": "workgroupMemoryExplicitLayout16BitAccess",
    "SubgroupVoteKHR": "VK_EXT_shader_subgroup_vote",
    "DeviceGroup": "1.1|VK_KHR_device_group",
    "MultiView": "multiview",
    "DenormPreserve": "shaderDenormPreserveFloat16|shaderDenormPreserveFloat32|shaderDenormPreserveFloat64",
    "DenormFlushToZero": (
        "shaderDenormFlushToZeroFloat16|shaderDenormFlushToZeroFloat32|shaderDenormFlushToZeroFloat64"
    ),
    "SignedZeroInfNanPreserve": (
        "shaderSignedZeroInfNanPreserveFloat16|shaderSignedZeroInfNanPreserveFloat32|"
        "shaderSignedZeroInfNanPreserveFloat64"
    ),
    "RoundingModeRTE": "shaderRoundingModeRTEFloat16|shaderRoundingModeRTEFloat32|shaderRoundingModeRTEFloat64",
    "RoundingModeRTZ": "shaderRoundingModeRTZFloat16|shaderRoundingModeRTZFloat32|shaderRoundingModeRTZFloat64",
    "RayQueryKHR": "rayQuery",
    "UntypedPointersKHR": "shaderUntypedPointers",
    "ImageGatherBiasLodAMD": "VK_AMD_texture_gather_bias_lod",
    "ImageReadWriteLodAMD": "VK_AMD_shader_image_load_store_lod",
    "Int64ImageEXT": "shaderImageInt64Atomics",
    "ShaderClockKHR": "VK_KHR_shader_clock",
    "QuadControlKHR": "shaderQuadControl",
    "BFloat16TypeKHR": "shaderBFloat16Type",
    "BFloat16DotProductKHR": "shaderBFloat16DotProduct",
    "BFloat16CooperativeMatrixKHR": "shaderBFloat16CooperativeMatrix",
    "ComputeDerivativeGroupQuadsKHR": "computeDerivativeGroupQuads",
    "GroupNonUniformPartitionedNV": "subgroup.partitioned",
    "ShaderNonUniform": "1.2|VK_EXT_descriptor_indexing",
    "PhysicalStorageBufferAddresses": "bufferDeviceAddress",
    "ComputeDerivativeGroupLinearKHR": "computeDerivativeGroupLinear",
    "CooperativeMatrixNV": "cooperativeMatrix",
    "ShaderSMBuiltinsNV": "shaderSMBuiltins",
    "AtomicFloat16VectorNV": "shaderFloat16VectorAtomics",
    "RawAccessChainsNV": "shaderRawAccessChains",
    "Shader64BitIndexingEXT": "shader64BitIndexing",
    "CooperativeMatrixReductionsNV": "cooperativeMatrixReductions",
    "CooperativeMatrixConversionsNV": "cooperativeMatrixConversions",
    "CooperativeMatrixPerElementOperationsNV": "cooperativeMatrixPerElementOperations",
    "CooperativeMatrixTensorAddressingNV": "cooperativeMatrixTensorAddressing",
    "CooperativeMatrixBlockLoadsNV": "cooperativeMatrixBlockLoads",
    "TensorAddressingNV": "cooperativeMatrixTensorAddressing",
    "AtomicFloat32MinMaxEXT": (
        "shaderBufferFloat32AtomicMinMax|shaderSharedFloat32AtomicMinMax|shaderImageFloat32AtomicMinMax"
    ),
    "AtomicFloat64MinMaxEXT": "shaderBufferFloat64AtomicMinMax|shaderSharedFloat64AtomicMinMax",
    "AtomicFloat16MinMaxEXT": "shaderBufferFloat16AtomicMinMax|shaderSharedFloat16AtomicMinMax",
    "ExpectAssumeKHR": "shaderExpectAssume",
    "CooperativeMatrixKHR": "cooperativeMatrix",
    "ReplicatedCompositesEXT": "shaderReplicatedComposites",
    "BitInstructions": "maintenance9",
    "GroupNonUniformRotateKHR": "shaderSubgroupRotate",
    "FMAKHR": "shaderFmaFloat16|shaderFmaFloat32|shaderFmaFloat64",
    "AtomicFloat32AddEXT": "shaderBufferFloat32AtomicAdd|shaderSharedFloat32AtomicAdd|shaderImageFloat32AtomicAdd",
    "AtomicFloat64AddEXT": "shaderBufferFloat64AtomicAdd|shaderSharedFloat64AtomicAdd",
    "AtomicFloat16AddEXT": "shaderBufferFloat16AtomicAdd|shaderSharedFloat16AtomicAdd",
}
# SPIR-V extension -> requirement.
EXTENSIONS: dict[str, str] = {
    "SPV_KHR_variable_pointers": "1.1|VK_KHR_variable_pointers",
    "SPV_KHR_storage_buffer_storage_class": "1.1|VK_KHR_storage_buffer_storage_class",
    "SPV_KHR_16bit_storage": "1.1|VK_KHR_16bit_storage",
    "SPV_KHR_8bit_storage": "1.2|VK_KHR_8bit_storage",
    "SPV_KHR_float_controls": "1.2|VK_KHR_shader_float_controls",
    "SPV_KHR_float_controls2": "1.4|VK_KHR_shader_float_controls2",
    "SPV_KHR_vulkan_memory_model": "1.2|VK_KHR_vulkan_memory_model",
    "SPV_KHR_physical_storage_buffer": "1.2|VK_KHR_buffer_device_address",
    "SPV_EXT_physical_storage_buffer": "1.2|VK_KHR_buffer_device_address|VK_EXT_buffer_device_address",
    "SPV_EXT_descriptor_indexing": "1.2|VK_EXT_descriptor_indexing",
    "SPV_KHR_non_semantic_info": "1.3|VK_KHR_shader_non_semantic_info",
    "SPV_KHR_relaxed_extended_instruction": "VK_KHR_shader_relaxed_extended_instruction",
    "SPV_KHR_terminate_invocation": "1.3|VK_KHR_shader_terminate_invocation",
    "SPV_KHR_integer_dot_product": "1.3|VK_KHR_shader_integer_dot_product",
    "SPV_KHR_expect_assume": "1.4|VK_KHR_shader_expect_assume",
    "SPV_KHR_subgroup_rotate": "1.4|VK_KHR_shader_subgroup_rotate",
    "SPV_KHR_subgroup_uniform_control_flow": "1.3|VK_KHR_shader_subgroup_uniform_control_flow",
    "SPV_KHR_maximal_reconvergence": "VK_KHR_shader_maximal_reconvergence",
    "SPV_KHR_quad_control": "VK_KHR_shader_quad_control",
    "SPV_KHR_shader_ballot": "VK_EXT_shader_subgroup_ballot",
    "SPV_KHR_subgroup_vote": "VK_EXT_shader_subgroup_vote",
    "SPV_KHR_shader_clock": "VK_KHR_shader_clock",
    "SPV_KHR_device_group": "1.1|VK_KHR_device_group",
    "SPV_KHR_multiview": "1.1|VK_KHR_multiview",
    "SPV_KHR_shader_draw_parameters": "1.1|VK_KHR_shader_draw_parameters",
    "SPV_KHR_workgroup_memory_explicit_layout": "VK_KHR_workgroup_memory_explicit_layout",
    "SPV_KHR_cooperative_matrix": "VK_KHR_cooperative_matrix",
    "SPV_KHR_bfloat16": "VK_KHR_shader_bfloat16",
    "SPV_KHR_untyped_pointers": "VK_KHR_shader_untyped_pointers",
    "SPV_KHR_ray_query": "VK_KHR_ray_query",
    "SPV_KHR_compute_shader_derivatives": "VK_KHR_compute_shader_derivatives",
    "SPV_KHR_fma": "VK_KHR_shader_fma",
    "SPV_EXT_shader_64bit_indexing": "VK_EXT_shader_64bit_indexing",
    "SPV_EXT_float8": "VK_EXT_shader_float8",
    "SPV_EXT_replicated_composites": "VK_EXT_shader_replicated_composites",
    "SPV_EXT_shader_atomic_float_add": "VK_EXT_shader_atomic_float",
    "SPV_EXT_shader_atomic_float16_add": "VK_EXT_shader_atomic_float2",
    "SPV_EXT_shader_atomic_float_min_max": "VK_EXT_shader_atomic_float2",
    "SPV_EXT_shader_image_int64": "VK_EXT_shader_image_atomic_int64",
    "SPV_EXT_demote_to_helper_invocation": "1.3|VK_EXT_shader_demote_to_helper_invocation",
    "SPV_GOOGLE_hlsl_functionality1": "VK_GOOGLE_hlsl_functionality1",
    "SPV_GOOGLE_decorate_string": "VK_GOOGLE_decorate_string",
    "SPV_GOOGLE_user_type": "VK_GOOGLE_user_type",
    "SPV_AMD_gpu_shader_half_float": "VK_AMD_gpu_shader_half_float",
    "SPV_AMD_gpu_shader_int16": "VK_AMD_gpu_shader_int16",
    "SPV_AMD_shader_ballot": "VK_AMD_shader_ballot",
    "SPV_AMD_gcn_shader": "VK_AMD_gcn_shader",
    "SPV_AMD_shader_trinary_minmax": "VK_AMD_shader_trinary_minmax",
    "SPV_AMD_shader_image_load_store_lod": "VK_AMD_shader_image_load_store_lod",
    "SPV_AMD_texture_gather_bias_lod": "VK_AMD_texture_gather_bias_lod",
    "SPV_ARM_core_builtins": "VK_ARM_shader_core_builtins",
    "SPV_NV_compute_shader_derivatives": "VK_NV_compute_shader_derivatives|VK_KHR_compute_shader_derivatives",
    "SPV_NV_cooperative_matrix": "VK_NV_cooperative_matrix",
    "SPV_NV_cooperative_matrix2": "VK_NV_cooperative_matrix2",
    "SPV_NV_tensor_addressing": "VK_NV_cooperative_matrix2",
    "SPV_NV_raw_access_chains": "VK_NV_raw_access_chains",
    "SPV_NV_shader_atomic_fp16_vector": "VK_NV_shader_atomic_float16_vector",
    "SPV_NV_shader_sm_builtins": "VK_NV_shader_sm_builtins",
    "SPV_NV_shader_subgroup_partitioned": "VK_NV_shader_subgroup_partitioned",
}
# Vulkan version -> the newest SPIR-V version that it accepts.
_VERSIONS = {(1, 0): (1, 0), (1, 1): (1, 3), (1, 2): (1, 5), (1, 3): (1, 6), (1, 4): (1, 6)}


def missing_features(
    interface: Interface, features: Collection[str], extensions: Collection[str], vulkan_version: tuple[int, int]
) -> list[str]:
    """The requirements of a module that a device does not meet, one sentence each.

    Args:
        features: names of Vulkan's features as the structures spell them ("shaderFloat64"); "subgroup.basic",
            "subgroup.vote" etc. for subgroup operations; for float controls, names of the properties
            ("shaderDenormPreserveFloat32").
        extensions: names of Vulkan's device extensions.
        vulkan_version: (major, minor).
    """

    def has(requirement: str) -> bool:
        if requirement[:1].isdigit():
            major, minor = map(int, requirement.split("."))
            return vulkan_version >= (major, minor)
        return requirement in (extensions if requirement.startswith("VK_") else features)

    sentences = _version(interface.version, extensions, vulkan_version)
    rows = [("capability", name, CAPABILITIES) for name in dict.fromkeys(interface.capabilities)]
    rows += [("SPIR-V extension", name, EXTENSIONS) for name in dict.fromkeys(interface.extensions)]
    for noun, name, table in rows:
        requirement = table.get(name)
        if requirement is None:
            sentences.append(f"{noun} {name} is unknown to vkcompute, so no device counts as having it")
        elif requirement == "OpenCL":
            sentences.append(f"{noun} {name} belongs to OpenCL; no Vulkan device has it")
        elif requirement and not any(map(has, requirement.split("|"))):
            sentences.append(f"{noun} {name} needs {' or '.join(map(_spell, requirement.split('|')))}")
    return [
        *sentences,
        *[
            f"a mode for floats needs the property {float_control}"
            for float_control in interface.float_controls
            if not has(float_control)
        ],
    ]


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
        f"SPIR-V {was} is newer than {is_}, the newest of Vulkan {target}; compile with --target-env vulkan{target}"
    ]
