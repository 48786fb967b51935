"""Physical devices as data: properties, limits, features, queue families, memory; how to choose one, and why not."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from vkcompute.core import device_profile, features, vk
from vkcompute.core.device_profile import OWN, DeviceProfile
from vkcompute.core.instance import Instance, remedy_without_driver
from vkcompute.errors import NoDevice

_TYPES = ("other", "integrated", "discrete", "virtual", "cpu")
_SCORES = {"discrete": 4, "integrated": 3, "virtual": 2, "other": 1, "cpu": 0}
_GROUPS = "cpu", "gpu"  # devices by kind; GPUs are all that are not CPUs
_QUEUE_GRAPHICS, _QUEUE_COMPUTE, _QUEUE_TRANSFER = 0x1, 0x2, 0x4
_QUEUE_PLAIN = 0x1F  # these, SPARSE_BINDING and PROTECTED
_SUBGROUP_OPERATIONS = (
    "basic vote arithmetic ballot shuffle shuffle_relative clustered quad".split()  # bits 0 to 7, in order
)
_SUBGROUP = 3  # VK_SCOPE_SUBGROUP_KHR
_COMPONENTS = dict(  # by VkComponentTypeKHR
    enumerate("float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())
) | {1000141000: "bfloat16"}
BASELINE = (1, 2, 0)


@dataclass(frozen=True, slots=True)
class QueueFamily:
    """A queue family: the number of its queues and their capabilities."""

    index: int
    count: int
    graphics: bool
    compute: bool
    transfer: bool
    timestamp_bits: int
    flags: tuple[str, ...]
    others: bool = False  # also supports video decoding, optical flow or the like


class MatrixProduct(NamedTuple):
    """A product of cooperative matrices of shapes (rows, inner) and (inner, columns), added to sums, by a subgroup.

    Attributes:
        left, right, sums, result: numpy's names of the types of their elements, or bfloat16.
    """

    rows: int
    columns: int
    inner: int
    left: str
    right: str
    sums: str
    result: str


@dataclass(frozen=True, slots=True)
class MemoryHeap:
    """A memory heap; `device_local` if it is the device's own memory."""

    index: int
    nbytes: int
    device_local: bool


@dataclass(frozen=True, slots=True)
class MemoryType:
    """A memory type: its heap and its properties, e.g. ("HOST_VISIBLE", "HOST_COHERENT")."""

    index: int
    heap: int
    properties: tuple[str, ...]
    bits: int

    @property
    def host_visible(self) -> bool:
        return bool(self.bits & 0x2)


@dataclass(frozen=True)
class PhysicalDevice:
    """A device as its driver describes it. All plain data; nothing is created on the device.

    Attributes:
        index: its position in the loader's order, as in `VKCOMPUTE_DEVICE` and `Runtime(1)`.
        name: the driver's name for it, e.g. "llvmpipe (LLVM 15.0.6, 256 bits)".
        kind: "discrete", "integrated", "virtual", "cpu" or "other".
        api_version: (major, minor, patch) of Vulkan.
        limits: the members of VkPhysicalDeviceLimits by name.
        properties: the members of the other property structures by name.
        profile: the device that it pretends to be, which is in the other attributes.
    """

    handle: Any = field(repr=False)
    instance: Instance = field(repr=False)
    index: int
    name: str
    kind: str
    api_version: tuple[int, int, int]
    driver_version: int
    vendor_id: int
    device_id: int
    pipeline_cache_uuid: bytes
    limits: Mapping[str, Any] = field(repr=False)
    profile: DeviceProfile = field(default=OWN, repr=False)

    @classmethod
    def read(cls, instance: Instance, handle: Any, index: int) -> PhysicalDevice:
        """Queries the driver."""
        properties = vk.ffi.new("VkPhysicalDeviceProperties*")
        vk.lib.vkGetPhysicalDeviceProperties(handle, properties)
        return cls(
            handle=handle,
            instance=instance,
            index=index,
            name=vk.ffi.string(properties.deviceName).decode(errors="replace"),
            kind=_TYPES[properties.deviceType] if properties.deviceType < len(_TYPES) else "other",
            api_version=vk.version(properties.apiVersion),
            driver_version=properties.driverVersion,
            vendor_id=properties.vendorID,
            device_id=properties.deviceID,
            pipeline_cache_uuid=bytes(properties.pipelineCacheUUID),
            limits=vk.to_python(properties.limits),
        )

    def under(self, profile: DeviceProfile) -> PhysicalDevice:
        """Returns the device as a profile has it."""
        if profile == OWN:
            return self
        version = self.api_version if profile.api is None else min(self.api_version, profile.api)
        limits = profile.limited(self.limits)
        return replace(self, api_version=version, limits=limits, profile=profile.within(self.profile))

    @cached_property
    def extensions(self) -> frozenset[str]:
        """The names of the device extensions."""
        available = vk.enumerate_all(
            "vkEnumerateDeviceExtensionProperties", "VkExtensionProperties", self.handle, vk.NULL
        )
        names = frozenset(vk.ffi.string(extension.extensionName).decode() for extension in available)
        return self.profile.allowed(names)

    @cached_property
    def features(self) -> dict[str, bool]:
        """Each known feature by name: True if the device has it, and neither its profile nor the environment lacks it.

        Raises:
            ValueError: `VKCOMPUTE_DISABLE_FEATURES` names one that is not known.
        """
        supported = features.query(self.handle, self.api_version, self.extensions)
        lacks = [name for name in self.profile.lacks if name in supported]
        lacks += features.disabled(os.environ.get(features.DISABLED, ""), supported)
        known = supported | dict.fromkeys(lacks, False)
        # With the memory model, atomic operations need the device's scope (VUID-RuntimeSpirv-vulkanMemoryModel-06265).
        return known | {"vulkanMemoryModel": known["vulkanMemoryModel"] and known["vulkanMemoryModelDeviceScope"]}

    @cached_property
    def matrix_products(self) -> tuple[MatrixProduct, ...]:
        """The products of cooperative matrices that the device has, without saturation."""
        if "VK_KHR_cooperative_matrix" not in self.extensions:
            return ()
        call = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
        function = self.instance.function(call)
        rows = vk.enumerate_all(call, "VkCooperativeMatrixPropertiesKHR", self.handle, function=function)
        return tuple(
            [
                MatrixProduct(row.MSize, row.NSize, row.KSize, *[_COMPONENTS[kind] for kind in kinds])
                for row in rows
                for kinds in [(row.AType, row.BType, row.CType, row.ResultType)]
                if row.scope == _SUBGROUP and not row.saturatingAccumulation and _COMPONENTS.keys() >= {*kinds}
            ]
        )

    @cached_property
    def properties(self) -> dict[str, Any]:
        """The members of the property structures of Vulkan 1.1 to 1.3 by name."""
        names = ["VkPhysicalDeviceVulkan11Properties", "VkPhysicalDeviceVulkan12Properties"]
        if self.api_version >= (1, 3):
            names.append("VkPhysicalDeviceVulkan13Properties")
        elif "VK_EXT_subgroup_size_control" in self.extensions:
            names.append("VkPhysicalDeviceSubgroupSizeControlProperties")
        if "VK_EXT_external_memory_host" in self.extensions:
            names.append("VkPhysicalDeviceExternalMemoryHostPropertiesEXT")
        structures = [vk.struct(name) for name in names]
        for this, following in pairwise(structures):
            this.pNext = following
        vk.lib.vkGetPhysicalDeviceProperties2(
            self.handle, vk.struct("VkPhysicalDeviceProperties2", pNext=structures[0])
        )
        merged: dict[str, Any] = {}
        for structure in structures:
            merged.update(vk.to_python(structure[0]))
        return self.profile.limited(merged)

    @property
    def driver(self) -> str:
        """The driver's name and version, e.g. "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)"."""
        return f"{self.properties['driverName']} {self.properties['driverInfo']}".strip()

    @property
    def subgroup_size(self) -> int:
        """Invocations per subgroup."""
        return int(self.properties["subgroupSize"])

    @property
    def min_subgroup_size(self) -> int:
        """The fewest invocations per subgroup for which a pipeline may ask."""
        return int(self.properties.get("minSubgroupSize", self.subgroup_size))

    @property
    def max_subgroup_size(self) -> int:
        """The most invocations per subgroup for which a pipeline may ask."""
        return int(self.properties.get("maxSubgroupSize", self.subgroup_size))

    @property
    def preserved_floats(self) -> tuple[int, ...]:
        """Widths of floats whose infinities, NaN and signs of zeros the device can be told to keep."""
        widths = 16, 32, 64
        return tuple([bits for bits in widths if self.properties[f"shaderSignedZeroInfNanPreserveFloat{bits}"]])

    @property
    def varies_subgroups(self) -> bool:
        """True if the driver chooses among several sizes of subgroups for each pipeline that asks for none."""
        return self.min_subgroup_size < self.max_subgroup_size

    @cached_property
    def subgroup_operations(self) -> frozenset[str]:
        """The subgroup operations of compute shaders: "basic", "arithmetic", "shuffle" and so on."""
        bits = self.properties["subgroupSupportedOperations"]
        return frozenset(name for i, name in enumerate(_SUBGROUP_OPERATIONS) if bits & (1 << i))

    def capabilities(self, enabled: Collection[str]) -> set[str]:
        """Returns these features, its subgroup operations ("subgroup.vote") and the names of its float controls."""
        subgroup = [f"subgroup.{name}" for name in self.subgroup_operations]
        controls = [name for name, value in self.properties.items() if name.startswith("shader") and value == 1]
        return {*enabled, *subgroup, *controls}

    @cached_property
    def queue_families(self) -> tuple[QueueFamily, ...]:
        """The queue families, in the driver's order."""
        call = "vkGetPhysicalDeviceQueueFamilyProperties"
        families = vk.enumerate_all(call, "VkQueueFamilyProperties", self.handle)
        return tuple(_family(index, entry) for index, entry in enumerate(families))

    @cached_property
    def _memory_properties(self) -> Any:
        properties = vk.ffi.new("VkPhysicalDeviceMemoryProperties*")
        vk.lib.vkGetPhysicalDeviceMemoryProperties(self.handle, properties)
        return properties

    @cached_property
    def memory_heaps(self) -> tuple[MemoryHeap, ...]:
        """The memory heaps, in the driver's order."""
        heaps = self._memory_properties.memoryHeaps[0 : self._memory_properties.memoryHeapCount]
        return tuple(MemoryHeap(i, heap.size, bool(heap.flags & 0x1)) for i, heap in enumerate(heaps))

    @cached_property
    def memory_types(self) -> tuple[MemoryType, ...]:
        """The memory types, in the driver's order: faster ones come first."""
        types = self._memory_properties.memoryTypes[0 : self._memory_properties.memoryTypeCount]
        return tuple(
            MemoryType(
                i,
                memory_type.heapIndex,
                vk.flags("VK_MEMORY_PROPERTY_", memory_type.propertyFlags),
                memory_type.propertyFlags,
            )
            for i, memory_type in enumerate(types)
        )

    @property
    def max_allocation_bytes(self) -> int:
        """The most bytes of one allocation."""
        return int(min(self.properties["maxMemoryAllocationSize"], self.properties.get("maxBufferSize") or 1 << 62))

    @property
    def score(self) -> tuple[int, int]:
        """The rank in the choice of a device: its kind, then its device-local memory in bytes. Higher is better."""
        return _SCORES[self.kind], self.memory_nbytes

    @property
    def memory_nbytes(self) -> int:
        """The bytes of the largest heap of its own memory."""
        return max((heap.nbytes for heap in self.memory_heaps if heap.device_local), default=0)

    def unfit(self) -> list[str]:
        """Returns the reasons why the device cannot be used; empty if it can."""
        reasons = []
        if self.api_version < BASELINE:
            version = ".".join(map(str, self.api_version))
            return [f"Vulkan {version}, at least 1.2 is needed"]
        if not self.features["timelineSemaphore"]:
            reasons.append("no timelineSemaphore")
        if not any(family.compute for family in self.queue_families):
            reasons.append("no compute queue")
        return reasons

    def __str__(self) -> str:
        return self.name


def _family(index: int, entry: Any) -> QueueFamily:
    bits = entry.queueFlags
    return QueueFamily(
        index=index,
        count=entry.queueCount,
        graphics=bool(bits & _QUEUE_GRAPHICS),
        compute=bool(bits & _QUEUE_COMPUTE),
        # Graphics and compute queues can copy, even if the driver does not report it (VkQueueFlagBits).
        transfer=bool(bits & (_QUEUE_TRANSFER | _QUEUE_COMPUTE | _QUEUE_GRAPHICS)),
        timestamp_bits=entry.timestampValidBits,
        flags=vk.flags("VK_QUEUE_", bits),
        others=bool(bits & ~_QUEUE_PLAIN),
    )


def enumerate_devices(instance: Instance) -> list[PhysicalDevice]:
    """Returns every physical device of the instance, usable or not, in the loader's order, under the user's profile.

    Raises:
        ValueError: `VKCOMPUTE_PROFILE` names no profile.
    """
    profile, handles = device_profile.of_environment(), instance.physical_handles()
    return [PhysicalDevice.read(instance, handle, i).under(profile) for i, handle in enumerate(handles)]


def gpus(devices: Iterable[PhysicalDevice]) -> list[PhysicalDevice]:
    """Returns the devices that are not CPUs."""
    return [device for device in devices if device.kind != "cpu"]


def choose(
    devices: Sequence[PhysicalDevice],
    wanted: int | str | None = None,
    *,
    environment: str | None = None,
    allow_cpu: bool = True,
) -> PhysicalDevice:
    """Chooses the device at index `wanted`, the best whose name contains it (in any case), or for None the best of all.

    Args:
        wanted: an index, part of a name, "cpu" for the best CPU, "gpu" for the best other device, or None.
        environment: the value of `VKCOMPUTE_DEVICE`, which replaces `wanted` if that is None.

    Raises:
        NoDevice: no device fits; the message gives the reasons for each.
        TypeError: `wanted` is neither an int, a str nor None.
    """
    if isinstance(wanted, bool) or not isinstance(wanted, (int, str, type(None))):
        raise TypeError(f'a device is chosen by index, part of its name, "cpu" or "gpu"; got {wanted!r}')
    if not devices:
        raise NoDevice(f"the Vulkan drivers on this machine offer no device; {remedy_without_driver()}")
    asked, remedy = "" if wanted is None else f" {wanted!r}", ""
    if wanted is None and environment:
        wanted, asked = environment, f" {environment!r}, from VKCOMPUTE_DEVICE"
        remedy = "; correct or unset the variable"
    fit, rejected = [], []
    for device in devices:
        reasons = reasons_against(device, wanted, allow_cpu=allow_cpu)
        if reasons:
            rejected.append(f"[{device.index}] {device.name} ({', '.join(reasons)})")
        else:
            fit.append(device)
    if not fit:
        raise NoDevice(f"no device fits{asked}: {'; '.join(rejected)}{remedy}")
    return max(fit, key=lambda device: (*device.score, -device.index))


def reasons_against(device: PhysicalDevice, wanted: int | str | None = None, *, allow_cpu: bool = True) -> list[str]:
    """Returns the reasons why `choose` rejects the device; empty if it is a candidate."""
    reasons = _mismatch(device, wanted) or device.unfit()
    return [*reasons, "a CPU, allow_cpu=False"] if device.kind == "cpu" and not allow_cpu else reasons


def _mismatch(device: PhysicalDevice, wanted: int | str | None) -> list[str]:
    if isinstance(wanted, str) and wanted.strip().isdecimal():
        wanted = int(wanted)
    if isinstance(wanted, int) and wanted != device.index:
        return [f"index {device.index}, not {wanted}"]
    if isinstance(wanted, str) and wanted.strip().lower() in _GROUPS:
        wanted = wanted.strip().lower()
        return [] if (device.kind == "cpu") is (wanted == "cpu") else [f"kind {device.kind}, not {wanted}"]
    if isinstance(wanted, str) and wanted.lower() not in device.name.lower():
        return [f"its name has no {wanted!r}"]
    return []


Verdicts = list[tuple[PhysicalDevice, list[str]]]


def verdicts(devices: list[PhysicalDevice], wanted: str | None = None) -> Verdicts:
    """Each device with the reasons against it; the chosen one has none."""
    verdicts = [(device, reasons_against(device, wanted)) for device in devices]
    if any(not reasons for _, reasons in verdicts):
        chosen = choose(devices, wanted)
        for device, reasons in verdicts:
            if device is not chosen and not reasons:
                reasons.append(_behind(device, chosen))
    return verdicts


def _behind(device: PhysicalDevice, chosen: PhysicalDevice) -> str:
    kinds, sizes = zip(device.score, chosen.score, strict=True)
    if kinds[0] != kinds[1]:
        return f"a device of kind {chosen.kind} is preferred to {device.kind}"
    if sizes[0] != sizes[1]:
        return f"it has less memory than [{chosen.index}]"
    return f"[{chosen.index}] is its equal, and has the lower index"
