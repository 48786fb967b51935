"""The door to the binding: names of results, structures that keep what they point to, tables of functions."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest

import vkcompute as vc
from vkcompute.core import features, vk

# The specification's own numbers (VkResult).
RESULTS = {
    0: "VK_SUCCESS",
    1: "VK_NOT_READY",
    2: "VK_TIMEOUT",
    5: "VK_INCOMPLETE",
    -1: "VK_ERROR_OUT_OF_HOST_MEMORY",
    -2: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
    -3: "VK_ERROR_INITIALIZATION_FAILED",
    -4: "VK_ERROR_DEVICE_LOST",
    -5: "VK_ERROR_MEMORY_MAP_FAILED",
    -7: "VK_ERROR_EXTENSION_NOT_PRESENT",
    -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
    -12: "VK_ERROR_FRAGMENTED_POOL",
    -13: "VK_ERROR_UNKNOWN",
    -1000069000: "VK_ERROR_OUT_OF_POOL_MEMORY",
    -1000072003: "VK_ERROR_INVALID_EXTERNAL_HANDLE",
    -1000257000: "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS",
    -123456: "VkResult -123456",
}


@pytest.mark.parametrize("result", RESULTS)
def test_names_of_results(result: int) -> None:
    assert vk.result_name(result) == RESULTS[result]


def test_check_raises_what_is_negative() -> None:
    assert vk.check(0, "vkX") == 0
    assert vk.check(2, "vkX") == 2
    with pytest.raises(vc.VulkanError, match=r"vkX on here returned VK_ERROR_OUT_OF_HOST_MEMORY") as error:
        vk.check(-1, "vkX", "here")
    assert (error.value.result, error.value.call, error.value.target) == ("VK_ERROR_OUT_OF_HOST_MEMORY", "vkX", "here")
    with pytest.raises(vc.DeviceLost, match="open a new one"):
        vk.check(-4, "vkX")


def test_structures_keep_what_they_point_to() -> None:
    """The binding's own constructors leave pName dangling when the inner structure's Python object goes."""
    infos = []
    for i in range(200):
        stage = vk.struct("VkPipelineShaderStageCreateInfo", pName=f"entry point {i}")
        infos.append(vk.struct("VkComputePipelineCreateInfo", stage=stage))
        del stage
    gc.collect()
    assert [vk.ffi.string(info.stage.pName) for info in infos] == [b"entry point %d" % i for i in range(200)]


def test_arrays_of_structures_and_strings_keep_what_they_point_to() -> None:
    queues = [vk.struct("VkDeviceQueueCreateInfo", pQueuePriorities=[0.25 * i, 1.0]) for i in range(4)]
    info = vk.struct("VkDeviceCreateInfo", pQueueCreateInfos=queues, ppEnabledExtensionNames=["one", "two"])
    del queues
    gc.collect()
    assert [info.pQueueCreateInfos[i].pQueuePriorities[0] for i in range(4)] == [0, 0.25, 0.5, 0.75]
    assert [vk.ffi.string(info.ppEnabledExtensionNames[i]) for i in range(2)] == [b"one", b"two"]
    assert info.sType == 3  # VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO


def test_every_structure_that_the_core_makes_has_its_type() -> None:
    for name, kind in {
        "VkPhysicalDeviceVulkan12Features": 51,
        "VkPhysicalDeviceFeatures2": 1000059000,
        "VkSubmitInfo": 4,
        "VkTimelineSemaphoreSubmitInfo": 1000207003,
        "VkDebugUtilsMessengerCreateInfoEXT": 1000128004,
        "VkWriteDescriptorSet": 35,
        "VkBufferCopy": None,
        "VkPhysicalDeviceMemoryBudgetPropertiesEXT": 1000237000,
        "VkPhysicalDeviceMaintenance4FeaturesKHR": 1000413000,  # a part of Vulkan 1.3, for devices with 1.2
        "VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR": 1000280000,
        "VkPhysicalDeviceSubgroupSizeControlFeaturesEXT": 1000225002,
    }.items():
        assert vk.structure_type(name) == kind, name


@pytest.mark.parametrize("version", [(1, 2, 0), (1, 3, 0)])
def test_every_feature_can_be_enabled(version: tuple[int, int, int]) -> None:
    """Also on a device of Vulkan 1.2 with extensions that Vulkan 1.3 took over, whose structures were renamed."""
    head, needed, structures = features.enabling_chain(features.WANTED, version, features.EXTENSIONS)
    assert head.sType == vk.structure_type("VkPhysicalDeviceFeatures2")
    assert all(structure.sType for structure in structures)
    enabled = {name for one in structures for name in features._names(one) if getattr(one, name)}
    core = {name for name, value in vk.to_python(head.features).items() if value}
    newer = {"synchronization2", "shaderZeroInitializeWorkgroupMemory"} if version < (1, 3) else set()
    assert features.WANTED - enabled - core == newer
    assert ("VK_EXT_subgroup_size_control" in needed) is (version < (1, 3))


def test_a_function_that_the_driver_lacks_is_named() -> None:
    table = vk.Functions(lambda name: vk.NULL)
    with pytest.raises(AttributeError, match="vkNoSuchFunction"):
        table.vkNoSuchFunction  # noqa: B018


def test_a_function_is_loaded_once_when_it_is_first_asked_for() -> None:
    asked = []

    def address(name: Any) -> Any:
        asked.append(vk.ffi.string(name).decode())
        return vk.ffi.cast("PFN_vkVoidFunction", 8)

    table = vk.Functions(address, [lambda name, function: (name, function)])
    assert asked == []
    assert table.vkQueueSubmit is table.vkQueueSubmit
    assert table.vkQueueSubmit[0] == "vkQueueSubmit"
    assert asked == ["vkQueueSubmit"]
    assert not hasattr(copy.copy(table), "__wrapped__")
    assert asked == ["vkQueueSubmit"]


def test_versions_and_flags() -> None:
    assert vk.version(1 << 22 | 3 << 12 | 239) == (1, 3, 239)
    assert set(vk.flags("VK_QUEUE_", 0b110)) == {"COMPUTE", "TRANSFER"}
