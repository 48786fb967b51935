"""The structure of a report that is read: strangers send them, so nothing in a file is taken for granted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OUTCOMES = ("right", "wrong", "missing", "failed", "crashed", "hung")
"""Of items: results are right, or wrong; the device or the machine lacks something; an error was raised; the process
ended; the item took too long."""
PART_STATES = ("waiting", "running", "done", "cut", "failed")
"""Of parts: cut by the time, and failed if a process has ended before it began an item."""
_LARGEST = 1e15
_TIMES = "device_ms", "ms"
_NUMBERS = (
    *_TIMES, "host_ms", "torch_ms", "triton_ms", "gb_per_s", "gop_per_s", "host_us", "with_wait_us", "of_100_us",
    "of_100_recorded_us", "launches", "gain", "bound", "size_mib", "registers", "spills", "instructions",
)  # fmt: skip
_REQUIRED = {"functions": _TIMES, "triton": _TIMES}
"""Figures of all items of a part that have some."""
_BESIDE = {"with_wait_us": ("host_us", "of_100_recorded_us"), "launches": ("host_us",)}
"""Figures that a figure has beside it."""


def require_structure(data: Any) -> None:
    """Checks the types of everything that has a meaning in a report.

    Raises:
        ValueError: one is wrong; the message names the entry.
    """
    _require(isinstance(data, dict), "the report", "a dict", data)
    _texts(data, "the report", "date")
    _texts(_dict(data, "the report", "machine"), "machine", "system", "architecture")
    device = _dict(data, "the report", "device")
    if device:
        _texts(device, "device", "name", "kind", "driver")
        _require(
            isinstance(device.get("is_software"), bool), "device: is_software", "a bool", device.get("is_software")
        )
    names = [_part(part, f"parts[{at}]") for at, part in enumerate(_list(data, "the report", "parts"))]
    for name in names:
        _require(names.count(name) == 1, "parts", "names that differ", name)


def _part(part: Any, entry: str) -> str:
    _require(isinstance(part, dict), entry, "a dict", part)
    _texts(part, entry, "name", "state")
    name: str = part["name"]
    _require(part["state"] in PART_STATES, f"{entry}: state", f"one of {', '.join(PART_STATES)}", part["state"])
    for item in _list(part, entry, "items"):
        _require(isinstance(item, dict), f"an item of {name}", "a dict", item)
        _texts(item, f"an item of {name}", "name", "outcome")
        _item(item, f"{name}: {item['name']}", _REQUIRED.get(name, ()))
    return name


def _item(item: dict[str, Any], entry: str, required: tuple[str, ...]) -> None:
    _require(item["outcome"] in OUTCOMES, f"{entry}: outcome", f"one of {', '.join(OUTCOMES)}", item["outcome"])
    if "text" in item:
        _texts(item, entry, "text")
    if not item.get("figures"):
        return
    figures = _dict(item, entry, "figures")
    if "case" in figures:
        _texts(figures, entry, "case")
    beside = [other for name, others in _BESIDE.items() if name in figures for other in others]
    for name in (*required, *beside, *[name for name in _NUMBERS if name in figures]):
        _number(figures.get(name), f"{entry}: {name}")
    if "gb_per_s_by_mib" in figures:
        for size, rate in _dict(figures, entry, "gb_per_s_by_mib").items():
            _require(size.isdecimal() and 0 < int(size) <= _LARGEST, f"{entry}: gb_per_s_by_mib", "sizes in MiB", size)
            _number(rate, f"{entry}: gb_per_s_by_mib: {size}")


def _number(value: Any, entry: str) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    _require(is_number and 0 <= value <= _LARGEST, entry, "a number from 0 to 1e15", value)


def _texts(data: Mapping[str, Any], entry: str, *names: str) -> None:
    for name in names:
        _require(isinstance(data.get(name), str), f"{entry}: {name}", "a text", data.get(name))


def _dict(data: Mapping[str, Any], entry: str, name: str) -> dict[str, Any]:
    value = data.get(name)
    _require(isinstance(value, dict), f"{entry}: {name}", "a dict", value)
    return value  # type: ignore[return-value]  # as required


def _list(data: Mapping[str, Any], entry: str, name: str) -> list[Any]:
    value = data.get(name)
    _require(isinstance(value, list), f"{entry}: {name}", "a list", value)
    return value  # type: ignore[return-value]  # as required


def _require(holds: bool, entry: str, wanted: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{ascii(entry)[1:-1]:.120} is {wanted}; the file has {value!a:.60}")
