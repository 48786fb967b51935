"""Devices as users see them: a list with the facts by which one is chosen. Opens none of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from vkcompute import dtypes
from vkcompute.core.instance import Instance
from vkcompute.core.physical import PhysicalDevice, choose, enumerate_devices
from vkcompute.errors import NoDevice
from vkcompute.representation import html_facts, html_rows, nbytes


@dataclass(frozen=True, repr=False)
class DeviceInfo:
    """A device of this machine, as `vc.devices()` lists it; `vc.Runtime(info)` opens it.

    Attributes:
        index: its position in the loader's order, as in `vc.Runtime(1)` and `VKCOMPUTE_DEVICE=1`.
        name: the driver's name for it.
        kind: "discrete", "integrated", "virtual", "cpu" or "other".
        driver: the driver's name and version; empty if the device is not usable.
        vulkan: its version of Vulkan.
        memory_nbytes: the bytes of its own memory.
        dtypes: the dtypes that its kernels take.
        problems: the reasons why vkcompute cannot use it; empty if it can.
        is_default: True for the device that `vc.Runtime()` opens.
    """

    index: int
    name: str
    kind: str
    driver: str
    vulkan: str
    memory_nbytes: int
    dtypes: tuple[str, ...]
    problems: tuple[str, ...] = ()
    is_default: bool = False

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        unfit = f", not usable: {', '.join(self.problems)}" if self.problems else ""
        default = ", the default" if self.is_default else ""
        about = f"{self.kind}, Vulkan {self.vulkan}, {nbytes(self.memory_nbytes)}"
        return f"<device {self.index}: {self.name}, {about}{unfit}{default}>"

    def _repr_html_(self) -> str:
        return html_facts(self.name, [(field.name, getattr(self, field.name)) for field in fields(self)])


class DeviceList(list[DeviceInfo]):
    """A list of devices, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        rows = [
            (
                device.index,
                device.name,
                device.kind,
                device.driver,
                device.vulkan,
                nbytes(device.memory_nbytes),
                _use(device),
            )
            for device in self
        ]
        return html_rows(("", "name", "kind", "driver", "Vulkan", "memory", ""), rows)


def _use(device: DeviceInfo) -> str:
    return "the default" if device.is_default else ", ".join(device.problems)


def devices() -> DeviceList:
    """Returns the devices of this machine, usable or not, in the loader's order; empty if the drivers have none.

    Raises:
        NoVulkanLoader, NoDevice: the Vulkan loader, or every driver, is missing.
    """
    with Instance() as instance:
        physical_devices = enumerate_devices(instance)
        try:
            default = choose(physical_devices, environment=os.environ.get("VKCOMPUTE_DEVICE")).index
        except NoDevice:
            default = -1
        return DeviceList([_info(device, device.index == default) for device in physical_devices])


def _info(device: PhysicalDevice, is_default: bool) -> DeviceInfo:
    problems = tuple(device.unfit())
    return DeviceInfo(
        index=device.index,
        name=device.name,
        kind=device.kind,
        driver="" if problems else device.driver,
        vulkan=".".join(map(str, device.api_version)),
        memory_nbytes=device.memory_nbytes,
        dtypes=() if problems else tuple(dtypes.kernel_dtypes(device.features)),
        problems=problems,
        is_default=is_default,
    )
