"""Device features by name: the structure that holds each, how to query them, and how to enable them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from vkcompute.core import vk
from vkcompute.errors import MissingFeature

# One row per feature structure: its name, and the core version or the extension that defines it.
_STRUCTURES: tuple[tuple[str, tuple[int, int] | str], ...] = (
    ("VkPhysicalDeviceVulkan11Features", (1, 2)),
    ("VkPhysicalDeviceVulkan12Features", (1, 2)),
    ("VkPhysicalDeviceVulkan13Features", (1, 3)),
    ("VkPhysicalDeviceMaintenance4Features", "VK_KHR_maintenance4"),
    ("VkPhysicalDeviceShaderIntegerDotProductFeatures", "VK_KHR_shader_integer_dot_product"),
    ("VkPhysicalDeviceSubgroupSizeControlFeatures", "VK_EXT_subgroup_size_control"),
    ("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT", "VK_EXT_shader_atomic_float"),
    ("VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT", "VK_EXT_shader_atomic_float2"),
    ("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", "VK_KHR_cooperative_matrix"),
    ("VkPhysicalDeviceShaderBfloat16FeaturesKHR", "VK_KHR_shader_bfloat16"),
    ("VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR", "VK_KHR_workgroup_memory_explicit_layout"),
    ("VkPhysicalDeviceShaderClockFeaturesKHR", "VK_KHR_shader_clock"),
    ("VkPhysicalDeviceRobustness2FeaturesEXT", "VK_EXT_robustness2"),
    ("VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR", "VK_KHR_pipeline_executable_properties"),
)
# Extensions whose structures must not be chained with those of Vulkan 1.3 (VUID-VkDeviceCreateInfo-pNext-06532).
_CORE_IN_1_3 = {
    "VK_KHR_maintenance4",
    "VK_KHR_shader_integer_dot_product",
    "VK_EXT_subgroup_size_control",
}

DISABLED = "VKCOMPUTE_DISABLE_FEATURES"
"""The environment variable with the features that devices are taken not to have."""

# Enabled on every device that has them: kernels can do more with them, at no cost.
WANTED: frozenset[str] = frozenset(
    """
    shaderFloat64 shaderInt64 shaderInt16 shaderFloat16 shaderInt8
    storageBuffer8BitAccess uniformAndStorageBuffer8BitAccess storagePushConstant8
    storageBuffer16BitAccess uniformAndStorageBuffer16BitAccess storagePushConstant16
    variablePointers variablePointersStorageBuffer shaderSubgroupExtendedTypes
    vulkanMemoryModel vulkanMemoryModelDeviceScope bufferDeviceAddress hostQueryReset timelineSemaphore
    scalarBlockLayout uniformBufferStandardLayout shaderBufferInt64Atomics shaderSharedInt64Atomics
    shaderStorageImageReadWithoutFormat shaderStorageImageWriteWithoutFormat
    shaderUniformBufferArrayDynamicIndexing shaderStorageBufferArrayDynamicIndexing
    subgroupSizeControl computeFullSubgroups maintenance4 synchronization2 shaderIntegerDotProduct
    shaderZeroInitializeWorkgroupMemory
    workgroupMemoryExplicitLayout workgroupMemoryExplicitLayout8BitAccess workgroupMemoryExplicitLayout16BitAccess
    shaderBufferFloat32Atomics shaderBufferFloat32AtomicAdd shaderBufferFloat64Atomics shaderBufferFloat64AtomicAdd
    shaderSharedFloat32Atomics shaderSharedFloat32AtomicAdd shaderSharedFloat64Atomics shaderSharedFloat64AtomicAdd
    shaderBufferFloat32AtomicMinMax shaderSharedFloat32AtomicMinMax shaderBufferFloat16AtomicAdd
    cooperativeMatrix shaderBFloat16Type shaderBFloat16CooperativeMatrix
    shaderSubgroupClock shaderDeviceClock pipelineExecutableInfo
    """.split()
)

ROBUST = frozenset({"robustBufferAccess", "robustBufferAccess2"})  # checks of each access to a buffer

CALIBRATED_TIMESTAMPS = ("VK_KHR_calibrated_timestamps", "VK_EXT_calibrated_timestamps")
# Enabled on every device that has them. One that has the portability subset requires it to be enabled.
WANTED_EXTENSIONS = frozenset({"VK_EXT_memory_budget", "VK_KHR_portability_subset", *CALIBRATED_TIMESTAMPS})
EXTENSIONS = WANTED_EXTENSIONS | {
    "VK_EXT_external_memory_host",
    *[needs for _, needs in _STRUCTURES if needs[:1] == "V"],
}
"""All that change what the library does."""


def _chain(version: tuple[int, int, int], extensions: Collection[str]) -> tuple[Any, list[Any]]:
    """Returns a VkPhysicalDeviceFeatures2 and the structures chained to it."""
    structures = []
    for name, needs in _STRUCTURES:
        if isinstance(needs, str):
            present = needs in extensions and not (needs in _CORE_IN_1_3 and version >= (1, 3))
        else:
            present = version[:2] >= needs
        if present:
            structures.append(vk.struct(name))
    for this, following in pairwise(structures):
        this.pNext = following
    return vk.struct("VkPhysicalDeviceFeatures2", pNext=structures[0] if structures else vk.NULL), structures


def _names(structure: Any) -> list[str]:
    return [name for name, _ in vk.ffi.typeof(structure).item.fields if name not in ("sType", "pNext")]


def query(physical: Any, version: tuple[int, int, int], extensions: Collection[str]) -> dict[str, bool]:
    """Returns every known feature by name: True if the device has it."""
    head, structures = _chain(version, extensions)
    vk.lib.vkGetPhysicalDeviceFeatures2(physical, head)
    supported = {name: bool(value) for name, value in vk.to_python(head.features).items()}
    for structure in structures:
        supported.update((name, bool(getattr(structure, name))) for name in _names(structure))
    return supported


def disabled(text: str, known: Collection[str]) -> list[str]:
    """Returns the features that the environment takes from devices, as "shaderFloat64,shaderInt64".

    Raises:
        ValueError: one is not among those known.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "`vkcompute info` lists them"
            raise ValueError(f"{DISABLED} names features, separated by commas; {name!r} is none; {hint}")
    return names


def enabling_chain(
    names: Collection[str], version: tuple[int, int, int], extensions: Collection[str]
) -> tuple[Any, frozenset[str], list[Any]]:
    """Returns the pNext chain that enables `names`, the extensions that it requires, and objects to keep alive."""
    head, structures = _chain(version, extensions)
    core = {name for name, _ in vk.ffi.typeof(head.features).fields}
    for name in core.intersection(names):
        setattr(head.features, name, 1)
    by_structure = {end(name): needs for name, needs in _STRUCTURES for end in (str, vk.promoted)}
    needed: set[str] = set()
    for structure in structures:
        for name in set(_names(structure)).intersection(names):
            setattr(structure, name, 1)
            source = by_structure[vk.ffi.typeof(structure).item.cname.removeprefix("struct ")]
            if isinstance(source, str):
                needed.add(source)
    if "VK_EXT_shader_atomic_float2" in needed:
        needed.add("VK_EXT_shader_atomic_float")  # a dependency
    return head, frozenset(needed), structures


def require(names: Collection[str], present: Mapping[str, bool], device: str) -> None:
    """Raises MissingFeature that lists every name that the device lacks or that does not exist."""
    if isinstance(names, str):
        raise TypeError(f"features is a collection of names; got the string {names!r}; pass [{names!r}]")
    unknown = sorted(name for name in names if name not in present)
    missing = sorted(name for name in names if name in present and not present[name])
    if missing or unknown:
        reasons = [f"{device} has no {name}" for name in missing]
        reasons += [f"no feature of {device} is called {name}" for name in unknown]
        raise MissingFeature("; ".join(reasons) + "; `vkcompute info` lists the device's features")
