"""A device's inventory: everything that its driver says of it, and what is known besides, as data for JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vkcompute.core.physical import PhysicalDevice


def inventory(device: PhysicalDevice) -> dict[str, Any]:
    """Limits, properties and features under Vulkan's own names; quirks as in `Quirks`; the rest as in `PhysicalDevice`.

    A device that is too old for the library has fewer entries: its driver cannot be asked for the others.
    """
    from vkcompute.core.quirks import quirks_of

    unfit = device.unfit()
    heaps, types = device.memory
    found: dict[str, Any] = {
        "index": device.index,
        "name": device.name,
        "kind": device.kind,
        "usable": not unfit,
        "api_version": ".".join(map(str, device.api_version)),
        "driver_version": device.driver_version,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "pipeline_cache_uuid": device.pipeline_cache_uuid.hex(),
        "limits": plain(device.limits),
        "extensions": sorted(device.extensions),
        "queue_families": [asdict(family) for family in device.queue_families],
        "memory_heaps": [asdict(heap) for heap in heaps],
        "memory_types": [asdict(kind) for kind in types],
    }
    if not unfit:
        found["driver"] = device.driver
        found["subgroup_size"] = device.subgroup_size
        found["subgroup_operations"] = sorted(device.subgroup_operations)
        found["properties"] = plain(device.properties)
        found["features"] = dict(sorted(device.features.items()))
        found["quirks"] = asdict(quirks_of(device))
    return found


def plain(value: Any, name: str = "") -> Any:
    """`value` in JSON's terms: identifiers of bytes as hexadecimal digits, and null for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: plain(entry, key) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        if name.endswith(("UUID", "LUID")):
            return bytes(value).hex()
        return [plain(entry) for entry in value]
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not math.isfinite(value) else value
