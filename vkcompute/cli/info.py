"""`vkcompute info`: the devices of this machine, and which of them would be used. Nothing is opened on a device."""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vkcompute._version import __version__
from vkcompute.cli import page
from vkcompute.cli.options import Commands, Parser

if TYPE_CHECKING:
    from vkcompute.core.physical import PhysicalDevice

    Verdicts = list[tuple[PhysicalDevice, list[str]]]


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    text = "Shows the devices of this machine, what each one can do, and which one would be used."
    parser: Parser = commands.add_parser("info", help="show devices, drivers, limits and features", description=text)
    parser.add_argument("--json", action="store_true", help="all there is to know, as JSON")
    parser.add_device_option()
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        NoVulkanLoader, NoDevice: there is nothing to show, or no device that would be used (after showing all).
    """
    from vkcompute.core.instance import Instance
    from vkcompute.core.physical import choose, enumerate_devices

    environment = os.environ.get("VKCOMPUTE_DEVICE")
    with Instance() as instance:
        devices = enumerate_devices(instance)
        if devices:
            verdicts = _verdicts(devices, args.device or environment or None)
            page.show(_json(verdicts) if args.json else _text(verdicts))
        choose(devices, args.device or None, environment=environment)  # which says why none would be used
    return 0


def _verdicts(devices: list[PhysicalDevice], wanted: str | None) -> Verdicts:
    """Each device with the reasons why it would not be used; the one without any would."""
    from vkcompute.core.physical import choose, reasons_against

    verdicts = [(device, reasons_against(device, wanted)) for device in devices]
    if any(not reasons for _, reasons in verdicts):
        chosen = choose(devices, wanted)
        for device, reasons in verdicts:
            if device is not chosen and not reasons:
                reasons.append(_behind(device, chosen))
    return verdicts


def _behind(device: PhysicalDevice, chosen: PhysicalDevice) -> str:
    kinds, sizes = zip(device.score, chosen.score, strict=True)
    if kinds[0] != kinds[1]:
        return f"its kind, {device.kind}, comes after {chosen.kind}"
    if sizes[0] != sizes[1]:
        return f"has less memory than [{chosen.index}]"
    return f"is no better than [{chosen.index}], which comes first"


def _json(verdicts: Verdicts) -> str:
    from vkcompute.core.instance import extensions, layers

    chosen = next((device.index for device, reasons in verdicts if not reasons), None)
    found = {
        "vkcompute": __version__,
        "chosen": chosen,
        "layers": layers(),
        "instance_extensions": extensions(),
        "devices": [_inventory(device) | {"not_chosen_because": reasons} for device, reasons in verdicts],
    }
    return json.dumps(found, indent=2, allow_nan=False)


def _inventory(device: PhysicalDevice) -> dict[str, Any]:
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


def _text(verdicts: Verdicts) -> str:
    return "\n\n".join(_device(device, reasons) for device, reasons in verdicts)


def _device(device: PhysicalDevice, reasons: list[str]) -> str:
    lines = [page.fit(f"{' ' if reasons else '*'} [{device.index}] {device.name}", page.width())]
    lines.append(page.field("chosen", f"no: {', '.join(reasons)}" if reasons else "yes"))
    lines.append(page.field("kind", device.kind))
    version = ".".join(map(str, device.api_version))
    if device.unfit():  # its driver may not know the structures that the rest is asked by
        lines.append(page.field("Vulkan", version))
        return "\n".join(lines)
    lines.append(page.field("driver", f"{device.driver}, Vulkan {version}"))
    lines += [page.field(label, items) for label, items in (*_shape(device), *_limits(device), *_abilities(device))]
    return "\n".join(lines)


def _shape(device: PhysicalDevice) -> list[tuple[str, list[str]]]:
    """What the device consists of."""
    heaps, types = device.memory
    rows = []
    for heap in heaps:
        visible = any(kind.heap == heap.index and kind.host_visible for kind in types)
        words = [page.nbytes(heap.nbytes), *(["device local"] if heap.device_local else [])]
        rows.append((f"heap {heap.index}", page.listed([*words, *(["host visible"] if visible else [])])))
    for family in device.queue_families:
        flags = [flag.lower().replace("_", " ") for flag in family.flags]
        clock = f"{family.timestamp_bits}-bit timestamps" if family.timestamp_bits else "no timestamps"
        rows.append((f"queues {family.index}", page.listed([page.count(family.count, "queue"), *flags, clock])))
    operations = [name.replace("_", " ") for name in sorted(device.subgroup_operations)]
    rows.append(("subgroup", page.listed([page.count(device.subgroup_size, "invocation"), *operations])))
    return rows


def _limits(device: PhysicalDevice) -> list[tuple[str, str | list[str]]]:
    """The limits that a kernel's author runs into."""
    limits = device.limits
    sizes = [" x ".join(f"{n:,}" for n in limits[f"maxComputeWorkGroup{what}"]) for what in ("Size", "Count")]
    invocations = page.count(limits["maxComputeWorkGroupInvocations"], "invocation")
    return [
        ("workgroup", page.listed([f"at most {invocations}", sizes[0]])),
        ("shared", [f"{page.nbytes(limits['maxComputeSharedMemorySize'])} per workgroup"]),
        ("grid", [f"at most {sizes[1]} workgroups"]),
        ("allocation", [f"at most {page.nbytes(device.max_allocation_bytes)}"]),
        (
            "binding",
            [
                f"at most {page.nbytes(limits['maxStorageBufferRange'])},",
                f"at multiples of {page.nbytes(limits['minStorageBufferOffsetAlignment'])}",
            ],
        ),
        ("push", [f"at most {page.nbytes(limits['maxPushConstantsSize'])} of push constants"]),
        *_silent_limits(device),
    ]


def _silent_limits(device: PhysicalDevice) -> list[tuple[str, str]]:
    """What the driver does not say of itself, and a kernel's author would hardly find out."""
    from vkcompute.core.quirks import quirks_of

    iterations = quirks_of(device).max_loop_iterations
    if iterations is None:
        return []
    return [("loops", f"an invocation's loops end after {iterations:,} iterations in all, without a word")]


def _abilities(device: PhysicalDevice) -> list[tuple[str, list[str]]]:
    """What kernels can compute with, and the features that matter to them."""
    from vkcompute.core.features import WANTED
    from vkcompute.dtypes import TABLE

    def has(features: tuple[str, ...]) -> bool:
        return all(device.features.get(name) for name in features)

    features = sorted(name for name in WANTED if device.features.get(name))
    lacking = sorted(WANTED.difference(features))
    return [
        ("kernel types", [row.name for row in TABLE if has(row.features)]),
        ("features", features),
        ("lacks", lacking or ["nothing that is of use here"]),
    ]
