"""`vkcompute info`: versions, and the devices of this machine with the one that is chosen. Opens no device."""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

from vkcompute._version import __version__
from vkcompute.cli import terminal
from vkcompute.cli.checkup import environment
from vkcompute.cli.options import Commands, Parser
from vkcompute.cli.trial import Record, write
from vkcompute.cli.trials import in_a_process
from vkcompute.errors import NoDevice, NoVulkanLoader, VkComputeError

if TYPE_CHECKING:
    from vkcompute.core.physical import PhysicalDevice, Verdicts

logger = logging.getLogger("vkcompute")

_ERRORS: dict[str, type[Exception]] = {
    "NoDevice": NoDevice, "NoVulkanLoader": NoVulkanLoader, "ValueError": ValueError,
}  # fmt: skip


def add_parser(commands: Commands) -> None:
    """Adds the command's parser."""
    text = (
        "Shows the versions of Python and packages, the Vulkan loader, the GLSL compiler and the cache; then the "
        "devices of this machine, their limits and features, and the one that a Runtime chooses."
    )
    parser: Parser = commands.add_parser("info", help="show versions, devices, drivers and limits", description=text)
    parser.add_argument("--json", action="store_true", help="write everything as JSON")
    parser.add_device_option()
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command. A driver that crashes ends another process.

    Raises:
        NoVulkanLoader, NoDevice: no loader, or no usable device (after showing all devices); or a driver crashes.
    """
    os.environ["COLUMNS"] = str(terminal.width())  # of this process's terminal
    form = "json" if args.json else "text"
    answer = in_a_process("the list of devices", "page", args.device or "", form, main=write_page)
    for line in answer.said.splitlines():
        logger.debug("%s", line)
    error: Record = {}
    for record in answer.records:
        if "text" in record:
            terminal.write(record["text"])
        error = record if "error" in record else error
    if error:
        raise _ERRORS.get(error["error"], VkComputeError)(error["message"])
    if answer.problem:
        raise NoDevice(f"the devices cannot be listed: {answer.problem}; `vkcompute doctor` names the driver")
    return 0


def write_page(answer: BinaryIO, _: str, device: str, form: str) -> None:
    """Runs in another process: writes the records of the page."""
    write(answer, _page(device, form))


def _page(device: str, form: str) -> Iterator[Record]:
    """Yields the command's output, as text or as JSON, and the error with which it ends."""
    environment = os.environ.get("VKCOMPUTE_DEVICE")
    try:
        from vkcompute.core.instance import Instance
        from vkcompute.core.physical import choose, enumerate_devices, verdicts

        with Instance() as instance:
            devices = enumerate_devices(instance)
            if devices:
                results = verdicts(devices, device or environment or None)
                yield {"text": _json(results) if form == "json" else f"{_environment()}\n\n{_text(results)}"}
            choose(devices, device or None, environment=environment)  # raises NoDevice with the reasons
    except (VkComputeError, ValueError) as error:
        yield {"error": type(error).__name__, "message": str(error)}


def _json(verdicts: Verdicts) -> str:
    from vkcompute.core.instance import extensions, layers

    chosen = next((device.index for device, reasons in verdicts if not reasons), None)
    page = {
        "vkcompute": __version__,
        "environment": environment(),
        "chosen": chosen,
        "layers": layers(),
        "instance_extensions": extensions(),
        "devices": [inventory(device) | {"not_chosen_because": reasons} for device, reasons in verdicts],
    }
    return json.dumps(page, indent=2, allow_nan=False)


def inventory(device: PhysicalDevice) -> dict[str, Any]:
    """A device as JSON: limits, properties and features under Vulkan's names, the rest as in `PhysicalDevice`.

    A device too old for the library has fewer entries, since its driver does not support the other queries.
    """
    from vkcompute.core.quirks import quirks_of

    unfit = device.unfit()
    heaps, types = device.memory_heaps, device.memory_types
    record: dict[str, Any] = {
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
        record["driver"] = device.driver
        record["profile"] = device.profile.name
        record["subgroup_size"] = device.subgroup_size
        record["subgroup_operations"] = sorted(device.subgroup_operations)
        record["matrix_products"] = [product._asdict() for product in device.matrix_products]
        record["properties"] = plain(device.properties)
        record["features"] = dict(sorted(device.features.items()))
        record["quirks"] = asdict(quirks_of(device))
    return record


def plain(value: Any, name: str = "") -> Any:
    """Converts to JSON types: bytes and UUIDs to hexadecimal digits, numbers that are not finite to null."""
    if isinstance(value, dict):
        return {key: plain(entry, key) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        if name.endswith(("UUID", "LUID")):
            return bytes(value).hex()
        return [plain(entry) for entry in value]
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _environment() -> str:
    return "\n".join(terminal.field(name, text, indent=0, label_columns=17) for name, text in environment().items())


def _text(verdicts: Verdicts) -> str:
    return "\n\n".join(_device(device, reasons) for device, reasons in verdicts)


def _device(device: PhysicalDevice, reasons: list[str]) -> str:
    lines = [terminal.truncate(f"{' ' if reasons else '*'} [{device.index}] {device.name}", terminal.width())]
    lines.append(terminal.field("chosen", f"no: {', '.join(reasons)}" if reasons else "yes"))
    lines.append(terminal.field("kind", device.kind))
    version = ".".join(map(str, device.api_version))
    if device.unfit():  # its driver may not support the other queries
        lines.append(terminal.field("Vulkan", version))
        return "\n".join(lines)
    lines.append(terminal.field("driver", f"{device.driver}, Vulkan {version}"))
    if device.profile.name:
        lines.append(terminal.field("pretends", f"to be {device.profile.name}: {device.profile.label}"))
    lines += [terminal.field(label, items) for label, items in (*_shape(device), *_limits(device), *_abilities(device))]
    return "\n".join(lines)


def _shape(device: PhysicalDevice) -> list[tuple[str, list[str]]]:
    """Memory heaps, queue families, subgroups."""
    heaps, types = device.memory_heaps, device.memory_types
    rows = []
    for heap in heaps:
        visible = any(kind.heap == heap.index and kind.host_visible for kind in types)
        words = [terminal.nbytes(heap.nbytes), *(["device local"] if heap.device_local else [])]
        rows.append((f"heap {heap.index}", terminal.with_commas([*words, *(["host visible"] if visible else [])])))
    for family in device.queue_families:
        flags = [flag.lower().replace("_", " ") for flag in family.flags]
        clock = f"{family.timestamp_bits}-bit timestamps" if family.timestamp_bits else "no timestamps"
        items = [terminal.count(family.count, "queue"), *flags, clock]
        rows.append((f"queues {family.index}", terminal.with_commas(items)))
    operations = [name.replace("_", " ") for name in sorted(device.subgroup_operations)]
    rows.append(("subgroup", terminal.with_commas([terminal.count(device.subgroup_size, "invocation"), *operations])))
    products = [
        f"{product.rows} x {product.columns} x {product.inner} of {product.left} to {product.result}"
        for product in device.matrix_products
        if product.left == product.right and product.sums == product.result
    ]
    return [*rows, *[("matrices", terminal.with_commas(products))] * bool(products)]


def _limits(device: PhysicalDevice) -> list[tuple[str, str | list[str]]]:
    """Limits that matter to kernels."""
    limits = device.limits
    sizes = [" x ".join(f"{n:,}" for n in limits[f"maxComputeWorkGroup{what}"]) for what in ("Size", "Count")]
    invocations = terminal.count(limits["maxComputeWorkGroupInvocations"], "invocation")
    return [
        ("workgroup", terminal.with_commas([f"at most {invocations}", sizes[0]])),
        ("shared", [f"{terminal.nbytes(limits['maxComputeSharedMemorySize'])} per workgroup"]),
        ("grid", [f"at most {sizes[1]} workgroups"]),
        ("allocation", [f"at most {terminal.nbytes(device.max_allocation_bytes)}"]),
        (
            "binding",
            [
                f"at most {terminal.nbytes(limits['maxStorageBufferRange'])},",
                f"at multiples of {terminal.nbytes(limits['minStorageBufferOffsetAlignment'])}",
            ],
        ),
        ("push", [f"at most {terminal.nbytes(limits['maxPushConstantsSize'])} of push constants"]),
        *_silent_limits(device),
    ]


def _silent_limits(device: PhysicalDevice) -> list[tuple[str, str]]:
    """Limits that the driver does not report."""
    from vkcompute.core.quirks import quirks_of

    iterations = quirks_of(device).max_loop_iterations
    if iterations is None:
        return []
    return [("loops", f"an invocation's loops silently end after {iterations:,} iterations in all")]


def _abilities(device: PhysicalDevice) -> list[tuple[str, list[str]]]:
    """Dtypes and features for kernels."""
    from vkcompute.core.features import ROBUST, WANTED
    from vkcompute.dtypes import emulated_dtypes, kernel_dtypes

    features = sorted(name for name in WANTED | ROBUST if device.features.get(name))
    missing = sorted((WANTED | ROBUST).difference(features))
    return [
        ("kernel types", kernel_dtypes(device.features)),
        ("emulated", emulated_dtypes(device.features) or ["none of them"]),
        ("features", features),
        ("lacks", missing or ["none that vkcompute uses"]),
    ]
