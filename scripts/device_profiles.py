"""Writes vkcompute/core/device_profiles.json: the features and limits of real devices, and of the poorest one.

Usage: python scripts/device_profiles.py CHECKOUT   (of https://github.com/KhronosGroup/Vulkan-Profiles)

The reports in profiles/LunarG are exports of https://vulkan.gpuinfo.org by Sascha Willems, under Apache-2.0. Facts are
taken from them, no text. The names of devices and the file of each are in `REPORTS`. `SMALL` has what Android demands,
and devices by the sources of Mesa's drivers, which state features and limits as constants.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vkcompute.core.device_profile import COMBINED, DATA
from vkcompute.core.features import EXTENSIONS, ROBUST, WANTED

FOLDER = "profiles/LunarG/VP_LUNARG_desktop_"
REPORTS = {
    "apple-m1-moltenvk": "baseline_2026/vp_gpuinfo_apple_m1_0_2_2209_macos_26_5_1",
    "apple-m5-moltenvk": "baseline_2026/vp_gpuinfo_apple_m5_0_2_2210_macos_26_4_1",
    "apple-m5-kosmickrisp": "baseline_2026/vp_gpuinfo_apple_m5_26_0_99_macos_26_4_1",
    "intel-arc-a380-windows": "baseline_2026/vp_gpuinfo_intel_r__arc_tm__a380_graphics_0_406_634_windows_10",
    "intel-arc-a770-mesa": "baseline_2026/vp_gpuinfo_intel_r__arc_tm__a770_graphics__dg2__26_1_2_arch_unknown",
    "intel-arc-b580-windows": "baseline_2026/vp_gpuinfo_intel_r__arc_tm__b580_graphics_0_406_632_windows_10",
    "intel-arc-140t": "baseline_2026/vp_gpuinfo_intel_r__arc_tm__140t_gpu__16gb__0_406_634_windows_11",
    "intel-xe-tgl-mesa": "baseline_2026/vp_gpuinfo_intel_r__iris_r__xe_graphics__tgl_gt2__26_1_3_void_unknown",
    "intel-hd-620-mesa": "baseline_2026/vp_gpuinfo_intel_r__hd_graphics_620__kbl_gt2__26_1_2_debian_unknown",
    "amd-rx-570-radv": "baseline_2026/vp_gpuinfo_amd_radeon_rx_570_series__radv_polaris10__26_0_6_linuxmint_22_3",
    "amd-rx-5700-windows": "baseline_2026/vp_gpuinfo_amd_radeon_rx_5700_2_0_353_windows_10",
    "amd-rx-7800-xt-windows": "baseline_2024/vp_gpuinfo_amd_radeon_rx_7800_xt_2_0_294_windows_11",
    "amd-rx-9070-xt-radv": "baseline_2026/vp_gpuinfo_amd_radeon_rx_9070_xt__radv_gfx1201__26_1_99_cachyos_unknown",
    "amd-rx-9070-xt-windows": "baseline_2026/vp_gpuinfo_amd_radeon_rx_9070_xt_2_0_395_windows_10",
    "nvidia-gtx-1650": "baseline_2026/vp_gpuinfo_nvidia_geforce_gtx_1650_610_43_2_0_ubuntu_24_04",
    "nvidia-rtx-5080": "baseline_2026/vp_gpuinfo_nvidia_geforce_rtx_5080_610_62_0_0_windows_11",
    "nvidia-gtx-1060": "baseline_2024/vp_gpuinfo_nvidia_geforce_gtx_1060_537_13_0_0_windows_10",
}
DISCRETE = "arc-a", "arc-b", "amd-rx", "nvidia"  # reports have no kind of device
KNOWN = WANTED | ROBUST
POOR: dict[str, Any] = {
    "label": "the least that Vulkan 1.2 guarantees",
    "source": "Vulkan 1.4.329, chapters 'Required Limits' and 'Feature Requirements'",
    "api": [1, 2, 0],
    # Vulkan 1.2 requires these, and robustBufferAccess of every device.
    "lacks": sorted(
        KNOWN
        - {"timelineSemaphore", "hostQueryReset", "uniformBufferStandardLayout", "shaderSubgroupExtendedTypes"}
        - {"robustBufferAccess"}
    ),
    "limits": {
        "maxComputeSharedMemorySize": 16384, "maxComputeWorkGroupInvocations": 128,
        "maxComputeWorkGroupSize": [128, 128, 64], "maxComputeWorkGroupCount": [65535] * 3,
        "maxStorageBufferRange": 1 << 27, "maxUniformBufferRange": 16384, "maxTexelBufferElements": 65536,
        "maxPerStageDescriptorStorageBuffers": 4, "maxPerStageDescriptorUniformBuffers": 12,
        "maxPerStageDescriptorSampledImages": 16, "maxPerStageDescriptorStorageImages": 4,
        "maxPerStageResources": 128, "maxDescriptorSetStorageBuffers": 24, "maxDescriptorSetUniformBuffers": 72,
        "maxDescriptorSetSampledImages": 96, "maxPushConstantsSize": 128, "maxBoundDescriptorSets": 4,
        "minStorageBufferOffsetAlignment": 256, "minUniformBufferOffsetAlignment": 256,
        "minTexelBufferOffsetAlignment": 256, "maxMemoryAllocationSize": 1 << 30, "subgroupSupportedOperations": 1,
        "requiredSubgroupSizeStages": 0,
        **{name: 0 for name in COMBINED if name.startswith("shader")},
    },
    "timelines": [1, 0],
    "extensions": [],
    "staging": False,  # so that tests of memory that the host shares run
}  # fmt: skip


_COMPUTE = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT


def poorest_with(
    label: str, source: str, api: list[int], features: str, limits: dict[str, Any], controls: str, extensions: str = ""
) -> dict[str, Any]:
    """The row of a device with more than the least: features, limits, and controls of float16 and float32."""
    modes = {f"shader{control}Float{bits}": 1 for control in controls.split() for bits in (16, 32)}
    return POOR | {
        "label": label,
        "source": source,
        "api": api,
        "lacks": sorted({*POOR["lacks"]} - {*features.split()}),
        "limits": POOR["limits"] | limits | modes,
        "extensions": sorted({*extensions.split()} & EXTENSIONS),
    }


ANDROID = poorest_with(
    "the least that Android 16 demands of new devices",
    "profiles/VP_ANDROID_15_minimums.json, profiles/VP_ANDROID_16_minimums.json",
    [1, 3, 276],
    """bufferDeviceAddress computeFullSubgroups maintenance4 scalarBlockLayout shaderFloat16 shaderInt16 shaderInt8
    shaderIntegerDotProduct shaderStorageBufferArrayDynamicIndexing shaderStorageImageReadWithoutFormat
    shaderStorageImageWriteWithoutFormat shaderUniformBufferArrayDynamicIndexing shaderZeroInitializeWorkgroupMemory
    storageBuffer16BitAccess storageBuffer8BitAccess subgroupSizeControl synchronization2 vulkanMemoryModel""",
    {
        "maxComputeWorkGroupInvocations": 256, "maxComputeWorkGroupSize": [256, 256, 64],
        "maxPerStageDescriptorStorageBuffers": 12, "maxPerStageDescriptorUniformBuffers": 15,
        "maxPerStageDescriptorSampledImages": 128, "maxPerStageResources": 200, "maxDescriptorSetStorageBuffers": 96,
        "maxDescriptorSetUniformBuffers": 90, "maxUniformBufferRange": 65536, "subgroupSupportedOperations": 0b111111,
    },
    "SignedZeroInfNanPreserve",
)  # fmt: skip
PI = poorest_with(
    "Raspberry Pi 4 (V3D 4.2) driver Mesa 23.3.6",
    "Mesa 23.3.6, src/broadcom/vulkan/v3dv_device.c",
    [1, 2, 255],
    """bufferDeviceAddress maintenance4 shaderStorageBufferArrayDynamicIndexing shaderUniformBufferArrayDynamicIndexing
    storageBuffer16BitAccess storageBuffer8BitAccess storagePushConstant16 storagePushConstant8 synchronization2
    uniformAndStorageBuffer16BitAccess uniformAndStorageBuffer8BitAccess variablePointersStorageBuffer vulkanMemoryModel
    vulkanMemoryModelDeviceScope""",
    {
        "maxComputeWorkGroupInvocations": 256, "maxComputeWorkGroupSize": [256] * 3, "maxStorageBufferRange": 1 << 30,
        "maxUniformBufferRange": 1 << 30, "maxTexelBufferElements": 1 << 28, "maxBoundDescriptorSets": 16,
        "maxPerStageDescriptorStorageBuffers": 8, "maxPerStageDescriptorUniformBuffers": 16,
        "maxDescriptorSetStorageBuffers": 48, "maxDescriptorSetUniformBuffers": 96,
        "minStorageBufferOffsetAlignment": 32, "minUniformBufferOffsetAlignment": 32,
        "minTexelBufferOffsetAlignment": 64, "maxBufferSize": 1 << 30, "minSubgroupSize": 16, "maxSubgroupSize": 16,
    },
    "SignedZeroInfNanPreserve DenormPreserve RoundingModeRTE",
    "VK_KHR_maintenance4",
)  # fmt: skip
ADRENO = poorest_with(
    "Adreno 660 (turnip) driver Mesa 23.3.6",
    "Mesa 23.3.6, src/freedreno/vulkan/tu_device.cc",
    [1, 3, 255],
    """bufferDeviceAddress computeFullSubgroups maintenance4 pipelineExecutableInfo robustBufferAccess2
    scalarBlockLayout
    shaderFloat16 shaderInt16 shaderIntegerDotProduct shaderStorageBufferArrayDynamicIndexing
    shaderStorageImageReadWithoutFormat shaderStorageImageWriteWithoutFormat shaderUniformBufferArrayDynamicIndexing
    shaderZeroInitializeWorkgroupMemory storageBuffer16BitAccess subgroupSizeControl synchronization2 variablePointers
    variablePointersStorageBuffer vulkanMemoryModel vulkanMemoryModelDeviceScope""",
    {
        "maxComputeSharedMemorySize": 32768, "maxComputeWorkGroupInvocations": 2048,
        "maxComputeWorkGroupSize": [1024] * 3, "maxUniformBufferRange": 65536, "maxTexelBufferElements": 1 << 27,
        "maxPerStageDescriptorStorageBuffers": 1 << 20, "maxPerStageDescriptorUniformBuffers": 1 << 20,
        "maxPerStageDescriptorSampledImages": 1 << 20, "maxPerStageDescriptorStorageImages": 1 << 20,
        "maxPerStageResources": 1 << 20, "maxDescriptorSetStorageBuffers": 1 << 20,
        "maxDescriptorSetUniformBuffers": 1 << 20, "maxDescriptorSetSampledImages": 1 << 20,
        "maxPushConstantsSize": 256, "minStorageBufferOffsetAlignment": 4, "minUniformBufferOffsetAlignment": 64,
        "minTexelBufferOffsetAlignment": 64, "maxMemoryAllocationSize": 0xFFFFFFFF, "maxBufferSize": 1 << 32,
        "minSubgroupSize": 64, "maxSubgroupSize": 128, "subgroupSupportedOperations": 0b10111111,
        "requiredSubgroupSizeStages": _COMPUTE,
    },
    "SignedZeroInfNanPreserve DenormFlushToZero RoundingModeRTE",
    """VK_EXT_memory_budget VK_EXT_robustness2 VK_EXT_subgroup_size_control VK_KHR_maintenance4
    VK_KHR_pipeline_executable_properties VK_KHR_shader_integer_dot_product""",
)  # fmt: skip
MALI = poorest_with(
    "Mali-G610 (panvk) driver Mesa 26",
    "Mesa 26, src/panfrost/vulkan/panvk_vX_physical_device.c",
    [1, 4, 0],
    """bufferDeviceAddress computeFullSubgroups maintenance4 pipelineExecutableInfo scalarBlockLayout
    shaderBufferFloat32Atomics shaderBufferInt64Atomics shaderFloat16 shaderInt16 shaderInt64 shaderInt8
    shaderIntegerDotProduct shaderSharedFloat32Atomics shaderSharedInt64Atomics shaderStorageBufferArrayDynamicIndexing
    shaderStorageImageReadWithoutFormat shaderStorageImageWriteWithoutFormat shaderUniformBufferArrayDynamicIndexing
    shaderZeroInitializeWorkgroupMemory storageBuffer16BitAccess storageBuffer8BitAccess storagePushConstant16
    storagePushConstant8 subgroupSizeControl synchronization2 uniformAndStorageBuffer16BitAccess
    uniformAndStorageBuffer8BitAccess variablePointers variablePointersStorageBuffer vulkanMemoryModel
    vulkanMemoryModelDeviceScope""",
    {
        "maxComputeSharedMemorySize": 32768, "maxComputeWorkGroupInvocations": 1024,
        "maxComputeWorkGroupSize": [1024] * 3, "maxStorageBufferRange": 0xFFFFFFFF, "maxUniformBufferRange": 1 << 20,
        "maxTexelBufferElements": 1 << 28, "maxPerStageDescriptorStorageBuffers": 1 << 16,
        "maxPerStageDescriptorUniformBuffers": 256, "maxPerStageDescriptorSampledImages": 1 << 16,
        "maxPerStageResources": 1 << 16, "maxDescriptorSetStorageBuffers": 1 << 16, "maxPushConstantsSize": 256,
        "minStorageBufferOffsetAlignment": 16, "minUniformBufferOffsetAlignment": 16,
        "minTexelBufferOffsetAlignment": 16, "maxMemoryAllocationSize": 0xFFFFFFFF, "minSubgroupSize": 16,
        "maxSubgroupSize": 16, "subgroupSupportedOperations": 0xFF, "requiredSubgroupSizeStages": _COMPUTE,
    },
    "SignedZeroInfNanPreserve DenormPreserve DenormFlushToZero RoundingModeRTE RoundingModeRTZ",
    """VK_EXT_memory_budget VK_EXT_shader_atomic_float VK_EXT_subgroup_size_control VK_KHR_maintenance4
    VK_KHR_pipeline_executable_properties VK_KHR_shader_integer_dot_product""",
)  # fmt: skip
SMALL = {"android-16": ANDROID, "raspberry-pi-4-v3dv": PI, "adreno-660-turnip": ADRENO, "mali-g610-panvk": MALI}


def main() -> int:
    checkout = Path(sys.argv[1])
    profiles = {"poor": POOR}
    for name, path in REPORTS.items():
        source = f"{FOLDER}{path}.json"
        profiles[name] = profile_of(name, source, json.loads((checkout / source).read_text(encoding="utf-8")))
    profiles |= SMALL
    rows = [f"{json.dumps(name)}: {json.dumps(profile)}" for name, profile in profiles.items()]
    DATA.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    return 0


def profile_of(name: str, source: str, report: dict[str, Any]) -> dict[str, Any]:
    """The row of a report."""
    [profile] = report["profiles"].values()
    device = report["capabilities"]["device"]
    features = {feature: value for row in device["features"].values() for feature, value in row.items()}
    properties: dict[str, Any] = {}
    for row in device["properties"].values():
        properties |= {**row, **row.get("limits", {})}
    families = [row["VkQueueFamilyProperties"] for row in device["queueFamiliesProperties"]]
    return {
        "label": profile["label"],
        "source": source,
        "api": [int(part) for part in profile["api-version"].split(".")],
        "lacks": sorted(feature for feature in KNOWN if not features.get(feature)),
        "limits": {limit: number(properties[limit]) for limit in sorted(COMBINED) if limit in properties},
        "timelines": timelines(families),
        "extensions": sorted({*device["extensions"]} & EXTENSIONS),
        "staging": any(part in name for part in DISCRETE),
    }


def number(value: Any) -> Any:
    """A limit as its number: flags as their bits."""
    if isinstance(value, list) and not (value and isinstance(value[0], int)):
        stages = {"VK_SHADER_STAGE_COMPUTE_BIT": 0x20, "VK_SHADER_STAGE_ALL": 0x20}
        operations = "BASIC VOTE ARITHMETIC BALLOT SHUFFLE SHUFFLE_RELATIVE CLUSTERED QUAD".split()
        bits = stages | {f"VK_SUBGROUP_FEATURE_{name}_BIT": 1 << n for n, name in enumerate(operations)}
        return sum(bits.get(item, 0) for item in value)
    return int(value) if isinstance(value, bool) else value


def timelines(families: list[dict[str, Any]]) -> list[int]:
    """The numbers of compute queues, at most 4, and of queues that only copy, at most 2, as a device opens them."""
    flags = [({*row["queueFlags"]}, row["queueCount"]) for row in families]
    compute = sum(count for bits, count in flags if "VK_QUEUE_COMPUTE_BIT" in bits)
    plain = {"VK_QUEUE_TRANSFER_BIT", "VK_QUEUE_SPARSE_BINDING_BIT", "VK_QUEUE_PROTECTED_BIT"}
    copies = sum(count for bits, count in flags if "VK_QUEUE_TRANSFER_BIT" in bits <= plain)
    return [min(4, compute), min(2, copies)]


if __name__ == "__main__":
    sys.exit(main())
