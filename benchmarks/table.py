"""Output of results: tables of 80 columns, and JSON."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from goals import Goal
from measure import Case, Row

WIDTH = 80
_NAME = 26
_COLUMNS = ("median_s", "min_s", "q1_s", "q3_s")
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
MIB = 1 << 20


def duration(seconds: float) -> str:
    """A time with three significant digits and a unit."""
    rounded = float(f"{seconds:.2e}")
    scale, unit = next(((s, u) for s, u in _UNITS if abs(rounded) >= s), _UNITS[-1])
    value = rounded / scale
    decimals = max(0, 3 - len(str(int(abs(value)))))
    return f"{value:.{decimals}f} {unit}"


def introduction(about: dict[str, Any]) -> str:
    """A description of device, machine and versions."""
    machine, device = about["machine"], about["device"]
    gib = (machine["memory_bytes"] or 0) / (1 << 30)
    packages = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = (device["name"], device["driver"], f"{machine['cpu']}, {machine['cores']} cores, {gib:.1f} GiB", packages)
    return "\n".join(textwrap.fill(text, WIDTH) for text in lines)


def headline(case: Case) -> str:
    """The case's title and the column names."""
    against = f"/ {case.baseline}"[:14]
    columns = "".join(f"{name:>10}" for name in ("median", "min", "25 %", "75 %"))
    return f"\n{case.title}\n{'':{_NAME}}{columns}{against:>14}"


def line(row: Row, baseline: Row | None) -> str:
    """A row of the table, with a note if there are no samples."""
    label = f"  {row.program}"
    if not row.samples:
        return textwrap.fill(
            f"{label:{_NAME}}  {row.note}", WIDTH, subsequent_indent=" " * (_NAME + 2), break_on_hyphens=False
        )
    spread = row.spread()
    times = "".join(f"{duration(spread[name]):>10}" for name in _COLUMNS)
    reference = baseline.spread() if baseline and baseline is not row else {}
    against = f"{_digits(spread['median_s'] / reference['median_s'])} x" if reference else ""
    more = "".join(f"\n{'':4}{name.removesuffix('_bytes')}: {value / MIB:.1f} MiB" for name, value in row.extra.items())
    return f"{label:{_NAME}}{times}{against:>14}{more}"


def _digits(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"


def summary(reached: list[Goal]) -> str:
    """The goals, one line each."""
    lines = [str(goal) for goal in reached]
    return "\n".join(["", "goals (stated for lavapipe, at full size)", *(f"  {each}" for each in lines)])


def as_json(about: dict[str, Any], results: list[tuple[Case, list[Row]]], reached: list[Goal]) -> str:
    """The run as JSON: its description, all cases with their samples in seconds, and the goals."""
    cases = [
        {
            "key": case.key,
            "title": case.title,
            "baseline": case.baseline,
            "rows": [asdict(row) | row.spread() for row in rows],
        }
        for case, rows in results
    ]
    outcome = [asdict(goal) | {"reached": goal.reached} for goal in reached]
    return json.dumps(about | {"cases": cases, "goals": outcome}, indent=1) + "\n"


def record_path(folder: Path, device: str, date: str) -> Path:
    """The path of a saved run, DEVICE-DATE.json, with the device's name as letters, digits and dashes."""
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return folder / f"{slug}-{date}.json"
