"""The Vulkan instance: its layers, its extensions, and its drivers' physical devices."""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from typing import Any

from vkcompute import deferred_calls
from vkcompute.core import manifests, validation, vk
from vkcompute.core.lifetime import Deletion, Handle, run_deletions
from vkcompute.errors import MissingFeature, NoDevice, VulkanError

logger = logging.getLogger(__name__)

_API_VERSION = 1 << 22 | 3 << 12  # 1.3
_PORTABILITY_BIT = 0x1  # VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
_DEBUG_UTILS = "VK_EXT_debug_utils"
_PORTABILITY = "VK_KHR_portability_enumeration"

_INSTALL = (
    "install the GPU vendor's driver, or a software one (Debian and Ubuntu: `apt install mesa-vulkan-drivers`); in a "
    "container with an NVIDIA GPU set NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics"
)
DRIVER_SELECTORS = "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE"
"""Environment variables by which the loader restricts the drivers: Vulkan-Loader, docs/LoaderDriverInterface.md"""


def remedy_without_driver() -> str:
    """The remedy where there is no driver or device: to correct a variable that hides it, or to install one."""
    names = [name for name in DRIVER_SELECTORS if os.environ.get(name)]
    names += [name for name in manifests.SELECTED_BY if os.environ.get(name) == ""]  # by which the loader takes none
    given = " and ".join(f"{name}={os.environ[name]}" for name in names)
    remedy = f"{given} restricts the choice: correct or unset it, or {_INSTALL}" if given else _INSTALL
    return "; ".join(
        [*[f"{manifest.path} {manifest.problem}" for manifest in manifests.find() if manifest.problem], remedy]
    )


def layers() -> list[str]:
    """Returns the names of the layers that the loader finds."""
    layers = vk.enumerate_all("vkEnumerateInstanceLayerProperties", "VkLayerProperties")
    return [vk.ffi.string(layer.layerName).decode() for layer in layers]


def extensions() -> list[str]:
    """Returns the names of the instance extensions of the loader and its drivers."""
    extensions = vk.enumerate_all("vkEnumerateInstanceExtensionProperties", "VkExtensionProperties", vk.NULL)
    return [vk.ffi.string(extension.extensionName).decode() for extension in extensions]


class Instance(Handle):
    """A connection to the loader and its drivers.

    Attributes:
        validation: "off", "log" or "error", as `VKCOMPUTE_VALIDATION` requests.

    Raises:
        MissingFeature: validation is requested, and the layer is not installed.
        NoDevice: the loader finds no driver.
    """

    def __init__(self) -> None:
        self.validation = validation.mode_from_environment()
        self._users: list[list[Deletion]] = []
        self._deletions: list[Deletion] = []
        try:
            self.handle: Any = self._create()
        except VulkanError as error:
            self.handle = self._create_without_broken_manifests(error)
        self._deletions.append((vk.lib.vkDestroyInstance, self.handle, vk.NULL))
        self._opened()
        if self.validation != "off":
            self._create_messenger()

    def _create(self) -> Any:
        pointer = vk.ffi.new("VkInstance*")
        vk.check(vk.lib.vkCreateInstance(self._create_info(), vk.NULL, pointer), "vkCreateInstance")
        return pointer[0]

    def _create_without_broken_manifests(self, error: VulkanError) -> Any:
        """Creates the VkInstance after an error by the other drivers, which this process selects from then on.

        If a manifest is not JSON, a loader of Vulkan 1.3.239 says that memory runs out, and takes no driver.
        """
        every = manifests.find()
        broken, usable = (
            [manifest for manifest in every if bool(manifest.problem) is wrong] for wrong in (True, False)
        )
        exhausted = error.result == "VK_ERROR_OUT_OF_HOST_MEMORY" and bool(broken)
        if exhausted and usable:
            for manifest in broken:
                text = "the driver manifest %s %s; it is left out"
                deferred_calls.call(partial(logger.warning, text, manifest.path, manifest.problem))
            selected = os.pathsep.join(str(manifest.path) for manifest in usable)
            os.environ.update(dict.fromkeys(manifests.SELECTED_BY, selected))
            manifests.left_out += broken
            return self._create()
        if exhausted or error.result == "VK_ERROR_INCOMPATIBLE_DRIVER":
            raise NoDevice(f"the Vulkan loader finds no driver; {remedy_without_driver()}") from error
        raise error

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
        """Returns a function of one of the instance's extensions."""
        pointer = vk.lib.vkGetInstanceProcAddr(self.handle, vk.ffi.new("char[]", name.encode()))
        return vk.ffi.cast(f"PFN_{name}", pointer)

    def _create_messenger(self) -> None:
        pointer = vk.ffi.new("VkDebugUtilsMessengerEXT*")
        create = self.function("vkCreateDebugUtilsMessengerEXT")
        vk.check(
            create(self.handle, validation.messenger_info(self.validation), vk.NULL, pointer),
            "vkCreateDebugUtilsMessengerEXT",
            self,
        )
        destroy = self.function("vkDestroyDebugUtilsMessengerEXT")
        self._deletions.append((destroy, self.handle, pointer[0], vk.NULL))

    def physical_handles(self) -> list[Any]:
        """Returns the VkPhysicalDevice handles, in the loader's order.

        Raises:
            NoDevice: no driver starts, as if variables leave all of them out.
        """
        try:
            return vk.enumerate_all("vkEnumeratePhysicalDevices", "VkPhysicalDevice", self.handle)
        except VulkanError as error:
            if error.result != "VK_ERROR_INITIALIZATION_FAILED":
                raise
            raise NoDevice(f"no driver starts; {remedy_without_driver()}") from error

    def add_user(self, deletions: list[Deletion]) -> None:
        """Keeps the VkInstance until these deletions of a device have run."""
        self._users.append(deletions)

    @property
    def in_use(self) -> bool:
        """True while a device of the instance exists."""
        return any(self._users)

    def destroy_if_unused(self) -> None:
        """Destroys the VkInstance if it is closed and no device needs it."""
        if not self._open and not self.in_use:
            run_deletions(self._deletions)

    def _destroy(self) -> None:
        self.destroy_if_unused()

    def __str__(self) -> str:
        return f"the instance (validation {self.validation})"
