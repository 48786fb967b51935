"""The devices with the reasons against those that are not chosen. Imports the driver's package."""

from __future__ import annotations

from vkcompute.core.physical import PhysicalDevice, choose, reasons_against

Verdicts = list[tuple[PhysicalDevice, list[str]]]


def verdicts(devices: list[PhysicalDevice], wanted: str | None = None) -> Verdicts:
    """Each device with the reasons against it; the chosen one has none."""
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
        return f"a device of kind {chosen.kind} is preferred to {device.kind}"
    if sizes[0] != sizes[1]:
        return f"it has less memory than [{chosen.index}]"
    return f"[{chosen.index}] is its equal, and has the lower index"
