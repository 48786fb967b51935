"""Vulkan devices and layers of this machine, found through ctypes, before anything is installed.

`probe()` searches in a subprocess, in case a driver crashes. Run as a program, this file prints the result as JSON,
for the present VK_ICD_FILENAMES and VK_DRIVER_FILES.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

LOADERS = {"win32": ("vulkan-1.dll",), "darwin": ("libvulkan.1.dylib", "libvulkan.dylib")}
DEVICE_TYPES = ("other", "integrated", "discrete", "virtual", "cpu")
TIMEOUT_S = 60


@dataclass(frozen=True)
class Device:
    """A physical device: its name, its VkPhysicalDeviceType as a word, its Vulkan version as (major, minor)."""

    name: str
    kind: str
    api: tuple[int, int]

    @property
    def usable(self) -> bool:
        """True from Vulkan 1.2 on, which requires timeline semaphores."""
        return self.api >= (1, 2)


@dataclass(frozen=True)
class Probe:
    """The result of a search. `error` is "" or the reason why it is incomplete."""

    loader: bool
    devices: tuple[Device, ...] = ()
    layers: tuple[str, ...] = ()
    error: str = ""

    @property
    def usable(self) -> tuple[Device, ...]:
        """The devices that vkcompute can use."""
        return tuple(device for device in self.devices if device.usable)

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The usable devices that are not CPUs."""
        return tuple(device for device in self.usable if device.kind != "cpu")


def probe(env: Mapping[str, str] | None = None) -> Probe:
    """Search for devices in a subprocess with the environment `env` (default: this process's)."""
    command = [sys.executable, os.path.abspath(__file__)]
    environ = None if env is None else dict(env)
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Probe(loader=True, error=f"a Vulkan driver gave no answer within {TIMEOUT_S} s")
    if done.returncode != 0:
        return Probe(loader=True, error=f"a Vulkan driver ended the search (status {done.returncode})")
    report = json.loads(done.stdout.splitlines()[-1])  # a driver may have printed something first
    devices = tuple(Device(d["name"], d["kind"], (d["api"][0], d["api"][1])) for d in report["devices"])
    return Probe(report["loader"], devices, tuple(report["layers"]), report["error"])


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("sType", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("pApplicationName", ctypes.c_char_p),
        ("applicationVersion", ctypes.c_uint32),
        ("pEngineName", ctypes.c_char_p),
        ("engineVersion", ctypes.c_uint32),
        ("apiVersion", ctypes.c_uint32),
    )


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("sType", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("pApplicationInfo", ctypes.POINTER(_ApplicationInfo)),
        ("enabledLayerCount", ctypes.c_uint32),
        ("ppEnabledLayerNames", ctypes.POINTER(ctypes.c_char_p)),
        ("enabledExtensionCount", ctypes.c_uint32),
        ("ppEnabledExtensionNames", ctypes.POINTER(ctypes.c_char_p)),
    )


def _load() -> ctypes.CDLL | None:
    """The Vulkan loader, or None."""
    for name in LOADERS.get(sys.platform, ("libvulkan.so.1",)):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def _layers(lib: ctypes.CDLL) -> list[str]:
    """Names of the instance layers."""
    count = ctypes.c_uint32(0)
    lib.vkEnumerateInstanceLayerProperties(ctypes.byref(count), None)
    # VkLayerProperties: char layerName[256]; two uint32_t; char description[256].
    properties = ctypes.create_string_buffer(520 * count.value)
    lib.vkEnumerateInstanceLayerProperties(ctypes.byref(count), properties)
    return [_text(properties.raw[520 * i : 520 * i + 256]) for i in range(count.value)]


def _create_instance(lib: ctypes.CDLL) -> tuple[int, ctypes.c_void_p]:
    """Create an instance. Returns the VkResult and the handle."""
    application = _ApplicationInfo(0, None, None, 0, None, 0, (1 << 22) | (2 << 12))
    info = _InstanceCreateInfo(sType=1, pApplicationInfo=ctypes.pointer(application))
    if sys.platform == "darwin":
        # MoltenVK is a portability driver: loaders from 1.3.207 hide it unless the instance enables it.
        info.flags = 1  # VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
        info.enabledExtensionCount = 1
        info.ppEnabledExtensionNames = (ctypes.c_char_p * 1)(b"VK_KHR_portability_enumeration")
    instance = ctypes.c_void_p()
    return lib.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)), instance


def _devices(lib: ctypes.CDLL, instance: ctypes.c_void_p) -> list[dict[str, object]]:
    """Name, kind and version of every physical device of `instance`."""
    count = ctypes.c_uint32(0)
    lib.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    handles = (ctypes.c_void_p * count.value)()
    lib.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
    devices: list[dict[str, object]] = []
    for handle in handles[: count.value]:
        # VkPhysicalDeviceProperties, 824 bytes: five uint32_t, the name (256 bytes), and more.
        properties = ctypes.create_string_buffer(1024)
        lib.vkGetPhysicalDeviceProperties(ctypes.c_void_p(handle), properties)
        api, _driver, _vendor, _device, kind = struct.unpack_from("5I", properties.raw)
        word = DEVICE_TYPES[kind] if kind < len(DEVICE_TYPES) else "other"
        devices.append(
            {"name": _text(properties.raw[20:276]), "kind": word, "api": [(api >> 22) & 0x7F, (api >> 12) & 0x3FF]}
        )
    return devices


def _text(field: bytes) -> str:
    """A fixed-size, zero-terminated char array as text."""
    return field.split(b"\0", 1)[0].decode(errors="replace")


def _search() -> dict[str, object]:
    """The result of `probe()` as JSON data."""
    lib = _load()
    if lib is None:
        return {"loader": False, "devices": [], "layers": [], "error": "no Vulkan loader"}
    result, instance = _create_instance(lib)
    if result != 0:
        # -9 is VK_ERROR_INCOMPATIBLE_DRIVER: there is no driver.
        return {"loader": True, "devices": [], "layers": _layers(lib), "error": f"vkCreateInstance returned {result}"}
    devices = _devices(lib, instance)
    lib.vkDestroyInstance(instance, None)
    return {"loader": True, "devices": devices, "layers": _layers(lib), "error": ""}


if __name__ == "__main__":
    print(json.dumps(_search()))
