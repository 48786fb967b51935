"""A description of the machine, the device, the driver and all versions."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from peers import load

import vkcompute as vc

_OURS = ("vkcompute", "numpy", "vulkan", "cffi")


def describe(runtime: vc.Runtime) -> dict[str, Any]:
    """The machine and the device as JSON data."""
    physical = runtime.device.physical
    return {
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "memory_bytes": _memory_bytes(),
            "architecture": platform.machine(),
            "system": platform.platform(),
        },
        "device": {
            "name": physical.name,
            "kind": physical.kind,
            "driver": physical.driver,
            "api_version": ".".join(map(str, physical.api_version)),
        },
    }


def versions(peers: Iterable[str]) -> dict[str, str]:
    """Versions of Python and of all packages that are measured."""
    names = [*_OURS, *(name for peer in peers for name in load(peer).DISTRIBUTIONS)]
    versions = {"python": platform.python_version()} | {name: _version(name) for name in names}
    return {name: version for name, version in versions.items() if version} | {"vkcompute": vc.__version__}


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _cpu() -> str:
    """The CPU's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _memory_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
