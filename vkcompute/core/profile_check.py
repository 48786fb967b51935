"""The check of what a device creates and launches against the profile that it pretends to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from vkcompute.core import vk
from vkcompute.core.physical import PhysicalDevice
from vkcompute.core.validation import users_line
from vkcompute.errors import ValidationError
from vkcompute.spirv.capabilities import missing_features
from vkcompute.spirv.interface import Interface
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

# VkDescriptorType -> the limits on the number of such bindings of a stage.
_PER_STAGE = {
    7: ("maxPerStageDescriptorStorageBuffers", "maxDescriptorSetStorageBuffers"),
    6: ("maxPerStageDescriptorUniformBuffers", "maxDescriptorSetUniformBuffers"),
    4: ("maxPerStageDescriptorSampledImages", "maxDescriptorSetSampledImages"),
    3: ("maxPerStageDescriptorStorageImages",),
}
# VkDescriptorType -> the limits on the alignment and on the size of its range.
_RANGES = {
    7: ("minStorageBufferOffsetAlignment", "maxStorageBufferRange"),
    6: ("minUniformBufferOffsetAlignment", "maxUniformBufferRange"),
}


class ProfileCheck:
    """Wraps functions of a device (a `vk.Wrapper`): they raise ValidationError where a call exceeds its profile.

    The validation layer judges by the device's real limits, this by those that it pretends to have. It reads what the
    driver is given, so it does not depend on the checks that precede a launch.
    """

    def __init__(self, physical: PhysicalDevice, features: Collection[str], extensions: Collection[str]) -> None:
        self._physical, self._features, self._extensions = physical, features, extensions
        self._noted: dict[Any, Any] = {}  # by the handles of modules and of layouts of sets
        self._notes = {"vkCreateShaderModule": self._module, "vkCreateDescriptorSetLayout": _kinds}
        self._checks: dict[str, Callable[..., list[str]]] = {
            "vkCreateComputePipelines": lambda _, cache, n, infos, *rest: self._pipeline(infos),
            "vkCreatePipelineLayout": lambda _, info, *rest: self._layout(info),
            "vkUpdateDescriptorSets": lambda _, n, writes, *rest: self._ranges(n, writes),
            "vkCmdDispatch": lambda _, *grid: self._grid(grid),
            "vkCmdDispatchBase": lambda _, x, y, z, *grid: self._grid(grid),
        }

    def __call__(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        check = self._checks.get(name)
        if name in self._notes:
            return self._noting(self._notes[name], function)
        if name in ("vkDestroyShaderModule", "vkDestroyDescriptorSetLayout"):
            return self._forgetting(function)
        if check is None:
            return function

        def call(*args: Any) -> Any:
            self._raise(check(*args))
            return function(*args)

        return call

    def _noting(self, note: Callable[[Any], Any], function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a function that creates an object, of which later calls have the handle alone."""

        def call(device: Any, info: Any, allocator: Any, pointer: Any) -> Any:
            noted = note(info)
            result = function(device, info, allocator, pointer)
            self._noted[pointer[0]] = noted
            return result

        return call

    def _forgetting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(device: Any, handle: Any, allocator: Any) -> Any:
            self._noted.pop(handle, None)  # before another thread can get the handle
            return function(device, handle, allocator)

        return call

    def _raise(self, excess: Sequence[str]) -> None:
        if excess:
            profile = self._physical.profile
            text = f"the profile {profile.name} ({profile.label}) has less: {'; '.join(excess)}"
            raise ValidationError(text, "VKCOMPUTE_PROFILE", users_line())

    def _limit(self, name: str) -> Any:
        return self._physical.limits[name]

    def _over(self, what: str, value: int, limit: str) -> list[str]:
        most = self._limit(limit)
        return [f"{what} {value} exceeds {limit} of {most}"] if value > most else []

    def _module(self, info: Any) -> Interface:
        interface = reflect(Module.parse(bytes(vk.ffi.buffer(info.pCode, info.codeSize))))
        capabilities, version = self._physical.capabilities(self._features), self._physical.api_version[:2]
        self._raise(missing_features(interface, capabilities, self._extensions, version))
        return interface

    def _pipeline(self, infos: Any) -> list[str]:
        stage = infos[0].stage
        interface, values = self._noted[stage.module], _constants(stage.pSpecializationInfo)
        size = interface.local_size.effective(values)
        excess = self._over("invocations", size[0] * size[1] * size[2], "maxComputeWorkGroupInvocations")
        for axis, length, most in zip("xyz", size, self._limit("maxComputeWorkGroupSize"), strict=True):
            excess += [f"local size {length} along {axis} exceeds {most}"] if length > most else []
        shared = interface.workgroup_memory.effective(values)
        excess += self._over("bytes of shared memory", shared, "maxComputeSharedMemorySize")
        push = interface.push_constants
        return excess + self._over("bytes of push constants", push.nbytes if push else 0, "maxPushConstantsSize")

    def _layout(self, info: Any) -> list[str]:
        excess = self._over("descriptor sets", info.setLayoutCount, "maxBoundDescriptorSets")
        kinds: Counter[int] = Counter()
        for layout in info.pSetLayouts[0 : info.setLayoutCount]:
            kinds.update(self._noted[layout])
        for kind, count in kinds.items():
            for limit in _PER_STAGE[kind]:
                excess += self._over("bindings", count, limit)
        excess += self._over("bindings", kinds.total(), "maxPerStageResources")
        nbytes = max([info.pPushConstantRanges[i].size for i in range(info.pushConstantRangeCount)], default=0)
        return excess + self._over("bytes of push constants", nbytes, "maxPushConstantsSize")

    def _ranges(self, count: int, writes: Any) -> list[str]:
        excess: list[str] = []
        for write in writes[0:count]:
            if write.descriptorType in _RANGES and write.pBufferInfo != vk.NULL:
                alignment, most = _RANGES[write.descriptorType]
                offset = write.pBufferInfo.offset
                if offset % self._limit(alignment):
                    excess.append(f"offset {offset} is no multiple of {alignment}, {self._limit(alignment)}")
                excess += self._over("bytes of a binding", write.pBufferInfo.range, most)
        return excess

    def _grid(self, grid: Sequence[int]) -> list[str]:
        limits = self._limit("maxComputeWorkGroupCount")
        return [f"grid {(*grid,)} exceeds {limits}"] if any(map(int.__gt__, grid, limits)) else []


def _kinds(info: Any) -> Counter[int]:
    """Returns the number of descriptors of each VkDescriptorType in the layout of a set."""
    kinds: Counter[int] = Counter()
    for binding in info.pBindings[0 : info.bindingCount]:
        kinds[binding.descriptorType] += binding.descriptorCount
    return kinds


def _constants(special: Any) -> Mapping[int, int]:
    """Returns the values of specialization constants by their ids."""
    if special == vk.NULL:
        return {}
    data = bytes(vk.ffi.buffer(special.pData, special.dataSize)) if special.dataSize else b""
    entries = special.pMapEntries[0 : special.mapEntryCount]
    return {
        entry.constantID: int.from_bytes(data[entry.offset : entry.offset + entry.size], "little") for entry in entries
    }
