"""The Vulkan instance: layers, extensions, and the physical devices that its drivers offer."""

from __future__ import annotations

import sys
from typing import Any

from vkcompute.core import validation, vk
from vkcompute.core.lifetime import Handle, Owned, destroy_all
from vkcompute.errors import MissingFeature, NoDevice, VulkanError

_API_VERSION = 1 << 22 | 3 << 12  # 1.3
_PORTABILITY_BIT = 0x1  # VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
_DEBUG_UTILS = "VK_EXT_debug_utils"
_PORTABILITY = "VK_KHR_portability_enumeration"

INSTALL_A_DRIVER = (
    "install the GPU vendor's driver, or a software one (Debian and Ubuntu: `apt install mesa-vulkan-drivers`); in a "
    "container with an NVIDIA GPU set NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics"
)


def layers() -> list[str]:
    """Names of the layers that the loader finds."""
    found = vk.enumerate_all("vkEnumerateInstanceLayerProperties", "VkLayerProperties")
    return [vk.ffi.string(layer.layerName).decode() for layer in found]


def extensions(layer: str | None = None) -> list[str]:
    """Names of the instance extensions of the loader and drivers, or of one layer."""
    name = vk.ffi.new("char[]", layer.encode()) if layer else vk.NULL
    found = vk.enumerate_all("vkEnumerateInstanceExtensionProperties", "VkExtensionProperties", name)
    return [vk.ffi.string(extension.extensionName).decode() for extension in found]


class Instance(Handle):
    """A connection to the loader and its drivers.

    Args:
        mode: "off", "log" or "error" (see `validation`); None asks the environment.

    Raises:
        MissingFeature: validation is asked for and the layer is not installed.
        NoDevice: the loader has no driver at all.

    Attributes:
        users: what devices of this instance own as long as they need the driver's object.
    """

    def __init__(self, mode: str | None = None) -> None:
        self.validation = validation.mode_from_environment() if mode is None else mode
        self.users: list[list[Owned]] = []
        self._owned: list[Owned] = []
        info = self._create_info()
        pointer = vk.ffi.new("VkInstance*")
        try:
            vk.check(vk.lib.vkCreateInstance(info, vk.NULL, pointer), "vkCreateInstance")
        except VulkanError as error:
            if error.result == "VK_ERROR_INCOMPATIBLE_DRIVER":
                raise NoDevice(f"the Vulkan loader finds no driver; {INSTALL_A_DRIVER}") from error
            raise
        self.handle: Any = pointer[0]
        self._owned.append((vk.lib.vkDestroyInstance, self.handle, vk.NULL))
        self._opened()
        if self.validation != "off":
            self._listen()

    def _create_info(self) -> Any:
        offered = extensions()
        wanted = [_PORTABILITY] if _PORTABILITY in offered else []
        flags = _PORTABILITY_BIT if wanted and sys.platform == "darwin" else 0
        names: list[str] = []
        following: Any = vk.NULL
        if self.validation != "off":
            if validation.LAYER not in layers():
                raise MissingFeature(
                    f"VKCOMPUTE_VALIDATION={self.validation} needs the layer {validation.LAYER}; install it (Debian "
                    "and Ubuntu: `apt install vulkan-validationlayers`) or unset the variable"
                )
            names = [validation.LAYER]
            wanted = [*wanted, _DEBUG_UTILS, "VK_EXT_validation_features"]
            following = validation.synchronization_info()
        application = vk.struct(
            "VkApplicationInfo", pApplicationName="vkcompute", pEngineName="vkcompute", apiVersion=_API_VERSION
        )
        return vk.struct(
            "VkInstanceCreateInfo",
            flags=flags,
            pNext=following,
            pApplicationInfo=application,
            enabledLayerCount=len(names),
            ppEnabledLayerNames=names,
            enabledExtensionCount=len(wanted),
            ppEnabledExtensionNames=wanted,
        )

    def function(self, name: str) -> Any:
        """An extension's function of this instance."""
        pointer = vk.lib.vkGetInstanceProcAddr(self.handle, vk.ffi.new("char[]", name.encode()))
        return vk.ffi.cast(f"PFN_{name}", pointer)

    def _listen(self) -> None:
        pointer = vk.ffi.new("VkDebugUtilsMessengerEXT*")
        create = self.function("vkCreateDebugUtilsMessengerEXT")
        vk.check(
            create(self.handle, validation.messenger_info(), vk.NULL, pointer), "vkCreateDebugUtilsMessengerEXT", self
        )
        destroy = self.function("vkDestroyDebugUtilsMessengerEXT")
        self._owned.append((destroy, self.handle, pointer[0], vk.NULL))

    def physical_handles(self) -> list[Any]:
        """The VkPhysicalDevice handles, in the loader's order."""
        return vk.enumerate_all("vkEnumeratePhysicalDevices", "VkPhysicalDevice", self.handle)

    def settle(self) -> None:
        """Ends the driver's object if nobody needs it any more."""
        if not self._open and not any(self.users):
            destroy_all(self._owned)

    def _destroy(self) -> None:
        self.settle()

    def __str__(self) -> str:
        return f"the instance (validation {self.validation})"
