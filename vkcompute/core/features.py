"""Device features by name: which structure carries each one, how to ask for them and how to switch them on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from vkcompute.core import vk
from vkcompute.errors import MissingFeature

# One row per feature structure: its name, the core version that has it, or the extension that does.
_STRUCTURES: tuple[tuple[str, tuple[int, int] | str], ...] = (
    ("VkPhysicalDeviceVulkan11Features", (1, 2)),
    ("VkPhysicalDeviceVulkan12Features", (1, 2)),
    ("VkPhysicalDeviceVulkan13Features", (1, 3)),
    ("VkPhysicalDeviceMaintenance4FeaturesKHR", "VK_KHR_maintenance4"),
    ("VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR", "VK_KHR_shader_integer_dot_product"),
    ("VkPhysicalDeviceSubgroupSizeControlFeaturesEXT", "VK_EXT_subgroup_size_control"),
    ("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT", "VK_EXT_shader_atomic_float"),
    ("VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT", "VK_EXT_shader_atomic_float2"),
    ("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", "VK_KHR_cooperative_matrix"),
    ("VkPhysicalDeviceShaderClockFeaturesKHR", "VK_KHR_shader_clock"),
)
# Extensions whose features are core in the version: not asked for twice (VUID-VkDeviceCreateInfo-pNext-06532).
_CORE_IN_1_3 = {
    "VK_KHR_maintenance4",
    "VK_KHR_shader_integer_dot_product",
    "VK_EXT_subgroup_size_control",
}

# Switched on wherever the device has them: they widen what kernels can do and cost nothing.
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
    shaderBufferFloat32Atomics shaderBufferFloat32AtomicAdd shaderBufferFloat64Atomics shaderBufferFloat64AtomicAdd
    shaderSharedFloat32Atomics shaderSharedFloat32AtomicAdd shaderSharedFloat64Atomics shaderSharedFloat64AtomicAdd
    shaderBufferFloat32AtomicMinMax shaderSharedFloat32AtomicMinMax shaderBufferFloat16AtomicAdd
    cooperativeMatrix shaderSubgroupClock shaderDeviceClock
    """.split()
)


def _chain(version: tuple[int, int, int], extensions: Collection[str]) -> tuple[Any, list[Any]]:
    """VkPhysicalDeviceFeatures2, and the structures that follow it."""
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
    """Every feature that the library knows of, and whether the device has it."""
    head, structures = _chain(version, extensions)
    vk.lib.vkGetPhysicalDeviceFeatures2(physical, head)
    found = {name: bool(value) for name, value in vk.to_python(head.features).items()}
    for structure in structures:
        found.update((name, bool(getattr(structure, name))) for name in _names(structure))
    return found


def enabling(
    names: Collection[str], version: tuple[int, int, int], extensions: Collection[str]
) -> tuple[Any, frozenset[str], list[Any]]:
    """The pNext chain that switches `names` on, the extensions it needs, and what must stay alive with it."""
    head, structures = _chain(version, extensions)
    core = {name for name, _ in vk.ffi.typeof(head.features).fields}
    for name in core.intersection(names):
        setattr(head.features, name, 1)
    by_structure = dict(_STRUCTURES)
    needed: set[str] = set()
    for structure in structures:
        for name in set(_names(structure)).intersection(names):
            setattr(structure, name, 1)
            source = by_structure[vk.ffi.typeof(structure).item.cname.removeprefix("struct ")]
            if isinstance(source, str):
                needed.add(source)
    if "VK_EXT_shader_atomic_float2" in needed:
        needed.add("VK_EXT_shader_atomic_float")  # it depends on the first one
    return head, frozenset(needed), structures


def require(names: Collection[str], present: Mapping[str, bool], device: str) -> None:
    """Raises MissingFeature, naming every one of `names` that the device lacks or that does not exist."""
    if isinstance(names, str):
        raise TypeError(f"features are a collection of names; got {names!r}; write [{names!r}]")
    unknown = sorted(name for name in names if name not in present)
    missing = sorted(name for name in names if name in present and not present[name])
    if missing or unknown:
        reasons = [f"{device} has no {name}" for name in missing]
        reasons += [f"no feature of {device} is called {name}" for name in unknown]
        raise MissingFeature("; ".join(reasons) + "; `vkcompute info` lists what the device has")
