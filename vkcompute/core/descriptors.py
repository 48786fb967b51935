"""Pipeline layouts and descriptor sets. Sets are pooled per layout and reused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from vkcompute.core import vk
from vkcompute.core.buffer_view import BufferView
from vkcompute.core.device_child import DeviceChild
from vkcompute.core.lifetime import live
from vkcompute.core.logical_device import LogicalDevice

DESCRIPTOR_TYPES = {"storage_buffer": 7, "uniform_buffer": 6, "uniform_texel_buffer": 4, "storage_image": 3}
_LAYOUT_GENERAL = 1
_COMPUTE_STAGE = 0x20
_WRITE_TYPE = vk.structure_type("VkWriteDescriptorSet")
_FIRST_POOL_SETS, _MAX_POOL_SETS = 8, 512

LayoutBinding = tuple[int, int, str, str]
"""(set, binding, descriptor type of `DESCRIPTOR_TYPES`, texel, as in `BufferView`, or "")"""


class PipelineLayout(DeviceChild):
    """The bindings and push constants of a kernel, and the pools of its descriptor sets.

    Args:
        bindings: sorted by set and binding.
        push_bytes: size of the push constants in bytes, a multiple of 4; 0 for none.
    """

    def __init__(self, device: LogicalDevice, bindings: Sequence[LayoutBinding], push_bytes: int) -> None:
        super().__init__(device)
        self.bindings, self.push_bytes = tuple(bindings), push_bytes
        self.n_sets = 1 + max((binding[0] for binding in bindings), default=-1)
        self._free: list[Any] = []
        self._n_pools = 0
        set_layouts = [self._make_set_layout(number) for number in range(self.n_sets)]
        self._layouts_array = vk.ffi.new("VkDescriptorSetLayout[]", set_layouts)
        self.handle = self._make_layout()

    def _make_set_layout(self, number: int) -> Any:
        bindings = [
            vk.struct(
                "VkDescriptorSetLayoutBinding",
                binding=binding,
                descriptorType=DESCRIPTOR_TYPES[kind],
                descriptorCount=1,
                stageFlags=_COMPUTE_STAGE,
            )
            for set_number, binding, kind, _ in self.bindings
            if set_number == number
        ]
        info = vk.struct("VkDescriptorSetLayoutCreateInfo", bindingCount=len(bindings), pBindings=bindings)
        return self.create("DescriptorSetLayout", info)

    def _make_layout(self) -> Any:
        ranges = [vk.struct("VkPushConstantRange", stageFlags=_COMPUTE_STAGE, size=self.push_bytes)]
        info = vk.struct(
            "VkPipelineLayoutCreateInfo",
            setLayoutCount=self.n_sets,
            pSetLayouts=self._layouts_array,
            pushConstantRangeCount=1 if self.push_bytes else 0,
            pPushConstantRanges=ranges if self.push_bytes else (),
        )
        return self.create("PipelineLayout", info)

    def acquire(self) -> Any:
        """Returns an array of `n_sets` VkDescriptorSet handles. Write them before use; return them to `release`."""
        if not self._free:
            self._grow()
        return self._free.pop()

    def release(self, sets: Any) -> None:
        """Takes back sets that no pending work uses."""
        if self._open:
            self._free += (sets,)

    def _grow(self) -> None:
        n_groups = min(_FIRST_POOL_SETS << self._n_pools, _MAX_POOL_SETS)
        kinds = Counter(binding[2] for binding in self.bindings)
        sizes = [
            vk.struct("VkDescriptorPoolSize", type=DESCRIPTOR_TYPES[kind], descriptorCount=n * n_groups)
            for kind, n in kinds.items()
        ]
        info = vk.struct(
            "VkDescriptorPoolCreateInfo",
            maxSets=n_groups * self.n_sets,
            poolSizeCount=len(sizes),
            pPoolSizes=sizes,
        )
        pool = self.create("DescriptorPool", info)
        self._n_pools += 1
        for _ in range(n_groups):
            sets = vk.ffi.new("VkDescriptorSet[]", self.n_sets)
            request = vk.struct(
                "VkDescriptorSetAllocateInfo",
                descriptorPool=pool,
                descriptorSetCount=self.n_sets,
                pSetLayouts=self._layouts_array,
            )
            self.device.retry(self._allocate, request, sets)
            self._free.append(sets)

    def _allocate(self, request: Any, sets: Any) -> None:
        call = self.device.fn.vkAllocateDescriptorSets
        vk.check(call(self.device.handle, request, sets), "vkAllocateDescriptorSets", self.device)


class Placed(Protocol):
    """A buffer, or an image in its place: see `Buffer`."""

    block: Any
    offset: int
    location: int


class DescriptorSets:
    """The sets of one launch, with a range (buffer, offset in it, nbytes) per binding; reused after their last use.

    Attributes:
        ranges: (location of the first byte, nbytes) of each binding.
        successor: the sets for the same launch on buffers in other places, or None.
    """

    __slots__ = ("__weakref__", "_layout", "_views", "handles", "ranges", "successor")

    def __init__(self, layout: PipelineLayout, ranges: Sequence[tuple[Placed, int, int]]) -> None:
        self.ranges = [(buffer.location + offset, nbytes) for buffer, offset, nbytes in ranges]
        self.successor: DescriptorSets | None = None
        self._views: list[BufferView] = []  # destroyed with these sets
        self.handles = layout.acquire() if layout.n_sets else vk.NULL
        self._layout = layout  # now the finalizer has sets to give back
        live[id(self)] = "DescriptorSets"
        writes = vk.ffi.new("VkWriteDescriptorSet[]", len(ranges))
        infos = vk.ffi.new("VkDescriptorBufferInfo[]", len(ranges))
        images = vk.ffi.new("VkDescriptorImageInfo[]", len(ranges))
        views = vk.ffi.new("VkBufferView[]", len(ranges))
        for i, (layout_binding, (buffer, start, nbytes)) in enumerate(zip(layout.bindings, ranges, strict=True)):
            block, offset = buffer.block, buffer.offset + start
            set_number, binding, kind, texel = layout_binding
            write = writes[i]
            write.sType, write.dstSet, write.dstBinding = _WRITE_TYPE, self.handles[set_number], binding
            write.descriptorCount, write.descriptorType = 1, DESCRIPTOR_TYPES[kind]
            if kind == "storage_image":  # its "block" is a VkImageView's owner
                images[i].imageView, images[i].imageLayout = block.handle, _LAYOUT_GENERAL
                write.pImageInfo = images + i
            elif texel:
                self._views.append(BufferView(layout.device, block, offset, nbytes, texel))
                views[i] = self._views[-1].handle
                write.pTexelBufferView = views + i
            else:
                info = infos[i]
                info.buffer, info.offset, info.range = block.handle, offset, nbytes
                write.pBufferInfo = infos + i
        if ranges:
            layout.device.fn.vkUpdateDescriptorSets(layout.device.handle, len(ranges), writes, 0, vk.NULL)

    def __del__(self) -> None:
        layout: PipelineLayout | None = getattr(self, "_layout", None)
        if layout is not None:
            live.pop(id(self), None)  # an interrupt may have come before it was there
            layout.device.deletion_queue.append((layout.release, self.handles))
