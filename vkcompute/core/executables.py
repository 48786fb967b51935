"""Executables of a compiled pipeline: the driver's figures and texts (VK_KHR_pipeline_executable_properties)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vkcompute.core import vk
from vkcompute.core.pipeline import ComputePipeline

Figure = bool | int | float
_MEMBERS = (
    "b32",
    "i64",
    "u64",
    "f64",
)  # of VkPipelineExecutableStatisticValueKHR, by VkPipelineExecutableStatisticFormatKHR


@dataclass(frozen=True, slots=True)
class Executable:
    """One executable of a pipeline.

    Attributes:
        name: the driver's, e.g. "Compute Shader".
        subgroup_size: invocations per subgroup; 0 if the driver does not give it.
        figures: statistics by the driver's names, in its order.
        descriptions: their meaning, by the same names.
        texts: its internal representations as text, by the driver's names, from the first to the last stage.
    """

    name: str
    subgroup_size: int
    figures: dict[str, Figure]
    descriptions: dict[str, str]
    texts: dict[str, str]


def executables_of(pipeline: ComputePipeline) -> list[Executable]:
    """Returns the executables of a pipeline that was created with `captured=True`."""
    device, call = pipeline.device, "vkGetPipelineExecutablePropertiesKHR"
    info = vk.struct("VkPipelineInfoKHR", pipeline=pipeline.handle)
    function = getattr(device.fn, call)
    executables = vk.enumerate_all(call, "VkPipelineExecutablePropertiesKHR", device.handle, info, function=function)
    return [_executable(pipeline, index, properties) for index, properties in enumerate(executables)]


def _executable(pipeline: ComputePipeline, index: int, properties: Any) -> Executable:
    device, call = pipeline.device, "vkGetPipelineExecutableStatisticsKHR"
    info = vk.struct("VkPipelineExecutableInfoKHR", pipeline=pipeline.handle, executableIndex=index)
    function = getattr(device.fn, call)
    statistics = vk.enumerate_all(call, "VkPipelineExecutableStatisticKHR", device.handle, info, function=function)
    figures = {_text(statistic.name): _figure(statistic) for statistic in statistics}
    descriptions = {_text(statistic.name): _text(statistic.description) for statistic in statistics}
    return Executable(
        _text(properties.name), properties.subgroupSize, figures, descriptions, _representations(pipeline, info)
    )


def _figure(statistic: Any) -> Figure:
    value: Figure = getattr(statistic.value, _MEMBERS[statistic.format])
    return bool(value) if statistic.format == 0 else value


def _representations(pipeline: ComputePipeline, info: Any) -> dict[str, str]:
    """Reads the representations that are text: their number, their sizes, then their content."""
    device, call = pipeline.device, "vkGetPipelineExecutableInternalRepresentationsKHR"
    function, count = getattr(device.fn, call), vk.ffi.new("uint32_t*")
    vk.check(function(device.handle, info, count, vk.NULL), call, device)
    entries = vk.ffi.new("VkPipelineExecutableInternalRepresentationKHR[]", count[0])
    for entry in entries:
        entry.sType = vk.structure_type("VkPipelineExecutableInternalRepresentationKHR")
    vk.check(function(device.handle, info, count, entries), call, device)
    contents = [vk.ffi.new("char[]", entry.dataSize + 1) for entry in entries]
    for entry, content in zip(entries, contents, strict=True):
        entry.pData = content
    vk.check(function(device.handle, info, count, entries), call, device)
    return {_text(entry.name): _text(content) for entry, content in zip(entries, contents, strict=True) if entry.isText}


def _text(characters: Any) -> str:
    return str(vk.ffi.string(characters).decode(errors="replace"))
