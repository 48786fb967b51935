"""Device profiles: fewer features and lower limits than a device has, and several queues on one of its own.

`VKCOMPUTE_PROFILE` names one of device_profiles.json, whose rows are reports of real devices, and "poor", the least
that Vulkan guarantees (scripts/device_profiles.py writes the file). `emulated` gives tests parts of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vkcompute.core.interrupts import BlockExit, begin_block

VARIABLE = "VKCOMPUTE_PROFILE"
DATA = Path(__file__).with_name("device_profiles.json")
# A device needs it to be enabled if it has it; a profile cannot take it away.
_REQUIRED_EXTENSIONS = frozenset({"VK_KHR_portability_subset"})

# Limits and properties by name -> how a device's value and a profile's are combined.
COMBINED: Mapping[str, Any] = {
    **dict.fromkeys(
        """
        maxComputeSharedMemorySize maxComputeWorkGroupInvocations maxStorageBufferRange maxUniformBufferRange
        maxTexelBufferElements maxPerStageDescriptorStorageBuffers maxPerStageDescriptorUniformBuffers
        maxPerStageDescriptorSampledImages maxPerStageDescriptorStorageImages maxPerStageResources
        maxDescriptorSetStorageBuffers maxDescriptorSetUniformBuffers maxDescriptorSetSampledImages
        maxPushConstantsSize maxBoundDescriptorSets maxMemoryAllocationSize maxBufferSize minSubgroupSize
        shaderSignedZeroInfNanPreserveFloat16 shaderSignedZeroInfNanPreserveFloat32
        shaderSignedZeroInfNanPreserveFloat64 shaderDenormPreserveFloat16 shaderDenormPreserveFloat32
        shaderDenormPreserveFloat64 shaderDenormFlushToZeroFloat16 shaderDenormFlushToZeroFloat32
        shaderDenormFlushToZeroFloat64 shaderRoundingModeRTEFloat16 shaderRoundingModeRTEFloat32
        shaderRoundingModeRTEFloat64 shaderRoundingModeRTZFloat16 shaderRoundingModeRTZFloat32
        shaderRoundingModeRTZFloat64
        """.split(),
        min,
    ),
    **dict.fromkeys(
        """
        minStorageBufferOffsetAlignment minUniformBufferOffsetAlignment minTexelBufferOffsetAlignment maxSubgroupSize
        """.split(),
        max,
    ),
    **dict.fromkeys(["maxComputeWorkGroupSize", "maxComputeWorkGroupCount"], lambda own, most: (*map(min, own, most),)),
    **dict.fromkeys(["subgroupSupportedOperations", "requiredSubgroupSizeStages"], lambda own, bits: own & bits),
}


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A device that another one pretends to be. Nothing is added but queues.

    Attributes:
        name: of a real device in the table; "" where only a part is emulated.
        label: the device and its driver.
        api: the version of Vulkan; None for the device's own.
        lacks: features that the device is taken not to have.
        limits: members of VkPhysicalDeviceLimits and of property structures, for `COMBINED`.
        extensions: those that the device has at most; None for its own.
        timelines: the fewest (compute, transfer) queues, and for a named profile the most. Where the device has fewer,
            several share one of its compute queues, each with a timeline semaphore of its own: work is ordered between
            them as between real queues.
        staging: treats device memory as invisible to the host, so that every transfer is staged.
    """

    name: str = ""
    label: str = ""
    api: tuple[int, int, int] | None = None
    lacks: frozenset[str] = frozenset()
    limits: Mapping[str, Any] = field(default_factory=dict)
    extensions: frozenset[str] | None = None
    timelines: tuple[int, int] = (1, 0)
    staging: bool = False

    def limited(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a device's limits or properties, with the profile's in their place where these are poorer.

        Raises:
            KeyError: no rule combines a limit.
        """
        limits = dict(own)
        for name, value in self.limits.items():
            combine = COMBINED[name]
            if name in own and (own[name] or name != "maxBufferSize"):  # 0 where the driver does not give it
                limits[name] = combine(own[name], value)
        return limits

    def allowed(self, extensions: frozenset[str]) -> frozenset[str]:
        """Returns the device's extensions that the profile has, too, or that must be enabled."""
        return extensions if self.extensions is None else extensions & (self.extensions | _REQUIRED_EXTENSIONS)

    def within(self, outer: DeviceProfile) -> DeviceProfile:
        """Returns this profile on a device that pretends to be `outer`."""
        return DeviceProfile(
            self.name or outer.name,
            self.label or outer.label,
            self.api or outer.api,
            self.lacks | outer.lacks,
            {**self.limits, **self.limited(outer.limits)},
            outer.extensions if self.extensions is None else outer.allowed(self.extensions),
            (max(self.timelines[0], outer.timelines[0]), max(self.timelines[1], outer.timelines[1])),
            self.staging or outer.staging,
        )


OWN = DeviceProfile()
current: ContextVar[DeviceProfile] = ContextVar("device_profile", default=OWN)
"""Read by `Device` when it is opened."""


@cache
def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
    return rows


def names() -> list[str]:
    """Returns the names of the profiles."""
    return [*_rows()]


@cache
def named(name: str) -> DeviceProfile:
    """Returns a profile of the table.

    Raises:
        ValueError: it has none of this name.
    """
    row = _rows().get(name)
    if row is None:
        near = get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
        raise ValueError(f"{VARIABLE} names a device profile; {name!r} is none; {hint}")
    return DeviceProfile(
        name,
        row["label"],
        (*row["api"],),
        frozenset(row["lacks"]),
        MappingProxyType(row["limits"]),
        frozenset(row["extensions"]),
        (*row["timelines"],),
        row["staging"],
    )


def of_environment() -> DeviceProfile:
    """Returns the profile that `VKCOMPUTE_PROFILE` names; the device's own without it.

    Raises:
        ValueError: there is none of this name.
    """
    name = os.environ.get(VARIABLE, "").strip()
    return named(name) if name else OWN


class emulated:  # noqa: N801 - called as a function
    """Emulates hardware on the devices opened in the block; see `DeviceProfile`. An int counts compute queues alone."""

    def __init__(
        self,
        *,
        timelines: int | tuple[int, int] = 1,
        staging: bool = False,
        limits: Mapping[str, Any] = MappingProxyType({}),
        profile: str = "",
    ) -> None:
        counts = (timelines, 0) if isinstance(timelines, int) else timelines
        part = DeviceProfile(limits=limits, timelines=counts, staging=staging)
        self._profile, self._outer = part.within(named(profile)) if profile else part, OWN

    def __enter__(self) -> None:
        self._outer = current.get()
        begin_block(self)
        current.set(self._profile)

    def _exit(self, *_: object) -> None:
        current.set(self._outer)

    __exit__ = BlockExit(_exit, _exit)
