"""The warning of a runtime on a CPU that nobody asked for, with the likely reason why there is no GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vkcompute.core import manifests
from vkcompute.errors import CPUFallbackWarning, warn_caller

if TYPE_CHECKING:  # `vkcompute doctor` imports this module where there is no loader
    from vkcompute.core.physical import PhysicalDevice

NO_RENDER_NODE = "there is no /dev/dri/renderD*: no GPU, or the container or virtual machine does not pass one on"
NO_ACCESS = "belongs to a group that this user is not in"
_FILTERS = "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE"

_warned = False


def warn_once(chosen: PhysicalDevice, devices: Sequence[PhysicalDevice]) -> None:
    """Warns at the caller's line, once per process, if `chosen` is a CPU and the environment does not ask for one."""
    global _warned
    if chosen.kind != "cpu" or _warned or asked_for_cpu(devices):
        return
    _warned = True
    warn_caller(
        f"computing on a CPU, {chosen.name}: {reason(devices)}. `vkcompute doctor` examines this machine; "
        'vc.Runtime("cpu") or VKCOMPUTE_DEVICE=cpu asks for a CPU without a warning',
        CPUFallbackWarning,
    )


def asked_for_cpu(devices: Sequence[PhysicalDevice]) -> bool:
    """Returns True if the environment restricts the loader to drivers of CPUs.

    A variable with files does so if each of them is a driver that offers a CPU, and none offers a GPU. A driver that
    cannot be loaded, or that finds no GPU, is a surprise.
    """
    if any(device.kind != "cpu" for device in devices) or manifests.left_out:
        return False
    if any(name in os.environ for name in manifests.SELECTED_BY):
        return len(manifests.find()) <= len({device.vendor_id for device in devices})
    return any(os.environ.get(name) for name in _FILTERS)


def reason(devices: Sequence[PhysicalDevice]) -> str:
    """Returns the likely reason why there is no GPU, in one line."""
    unfit = [f"{device.name} is not usable ({', '.join(device.unfit())})" for device in devices if device.kind != "cpu"]
    broken = [f"the driver manifest {problem.path} {problem.problem}" for problem in problems()]
    reasons = [*unfit, *broken, *render_node_problems()]
    return "; ".join(reasons) or "no driver offers a GPU"


def problems() -> list[manifests.Manifest]:
    """Returns the manifests that no driver can be loaded from."""
    return [*manifests.left_out, *[manifest for manifest in manifests.find() if manifest.problem]]


def render_node_problems(folder: Path = Path("/dev/dri")) -> list[str]:
    """Returns the reasons why the device files of GPUs cannot be opened on Linux."""
    if sys.platform != "linux":
        return []
    nodes = render_nodes(folder)
    return [f"{node} {NO_ACCESS}" for node in nodes if not is_accessible(node)] if nodes else [NO_RENDER_NODE]


def render_nodes(folder: Path = Path("/dev/dri")) -> list[Path]:
    """Returns the device files of GPUs."""
    return sorted(folder.glob("renderD*"))


def is_accessible(node: Path) -> bool:
    """Returns True if this user may open the device file."""
    return os.access(node, os.R_OK | os.W_OK)
