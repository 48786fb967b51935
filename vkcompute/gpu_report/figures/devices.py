"""The devices of the machine: the chosen one with its limits and features, and the names of the others."""

from __future__ import annotations

import os
from typing import Any

from vkcompute.cli.info import inventory
from vkcompute.core.instance import Instance
from vkcompute.core.physical import enumerate_devices, verdicts
from vkcompute.gpu_report.items import Items, Session, Unavailable

# Identifiers of one piece of hardware, and texts that depend on the machine.
_PRIVATE = "pipeline_cache_uuid", "deviceUUID", "driverUUID", "deviceLUID", "index"


def items() -> Items:
    """Returns the items by name."""
    return {"chosen": chosen, "others": others, "queues": queues}


def chosen(session: Session) -> dict[str, Any]:
    """Describes the device, without identifiers of the single piece of hardware."""
    with Instance() as instance:
        devices = verdicts(enumerate_devices(instance), _wanted(session))
        device = next((device for device, reasons in devices if not reasons), None)
        if device is None:
            reasons = "; ".join(f"{device.name}: {', '.join(reasons)}" for device, reasons in devices)
            raise Unavailable(reasons or "there is no Vulkan driver; `vkcompute doctor` tells why")
        facts: dict[str, Any] = _without(inventory(device), _PRIVATE)
    return facts | {"is_software": facts["kind"] == "cpu"}


def others(session: Session) -> dict[str, Any]:
    """Names the devices that were not chosen, with the reasons."""
    with Instance() as instance:
        devices = verdicts(enumerate_devices(instance), _wanted(session))
        return {device.name: reasons for device, reasons in devices if reasons}


def queues(session: Session) -> dict[str, Any]:
    """Lists the queues that a runtime opens, and its memory."""
    gpu = session.gpu
    return {
        "queues": [f"{queue.role}, family {queue.family}" for queue in gpu.device.queues],
        "features": sorted(gpu.device.features),
    }


def _wanted(session: Session) -> str | None:
    wanted = os.environ.get("VKCOMPUTE_DEVICE") if session.device is None else str(session.device)
    return wanted or None


def _without(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _without(entry, names) for key, entry in value.items() if key not in names}
    return [_without(entry, names) for entry in value] if isinstance(value, list) else value
