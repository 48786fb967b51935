"""Writes the tables of docs/gpu_reports.md from the reports in benchmarks/results/gpu.

Strangers send them: `read` checks their structure, and their texts are escaped.
"""

from __future__ import annotations

import html
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from page_tables import replaced, table  # noqa: E402

from vkcompute.cli.stderr import one_line  # noqa: E402
from vkcompute.gpu_report.report import read  # noqa: E402

PAGE, REPORTS = ROOT / "docs" / "gpu_reports.md", ROOT / "benchmarks" / "results" / "gpu"
START, END = "<!-- tables: scripts/gpu_reports.py -->", "<!-- end of the tables -->"
Data = dict[str, Any]
_FAULTS = "wrong", "failed", "crashed", "hung"
_MAX_TEXT = 120


def reports(folder: Path = REPORTS) -> list[Data]:
    """Reads the reports: GPUs first, then software drivers, each by name and date."""
    results = [read(path) for path in sorted(folder.glob("*.json"))]
    return sorted(results, key=lambda data: (_device(data)["is_software"], _device(data)["name"], data["date"]))


def _device(data: Data) -> Data:
    device: Data = {"name": "unknown", "kind": "", "driver": "", "is_software": False} | data["device"]
    return device


def escaped(text: str) -> str:
    """Returns a text on one line that Markdown and HTML show as it is."""
    line = re.sub(r"([\\`*\[\]|#~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", html.escape(_shortened(text), quote=False))
    return line.replace("://", ":&#47;&#47;")


def _shortened(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]} …"


def items(data: Data, name: str) -> dict[str, Data]:
    """Returns the figures of a part's items by the case that they have measured, or by their names."""
    rows = [item for part in data["parts"] if part["name"] == name for item in part["items"]]
    return {item["figures"].get("case", item["name"]): item["figures"] for item in rows if item.get("figures")}


def tables(reports: Sequence[Data]) -> str:
    """Returns everything between the marks of the page."""
    sections = [_overview(reports), _faults(reports)]
    for part, title, cell in _FIGURES:
        sections.append(_figures(reports, part, title, cell))
    return "\n\n".join([START, *filter(None, sections), END])


def _overview(reports: Sequence[Data]) -> str:
    rows = []
    for number, data in enumerate(reports, 1):
        device, counts = _device(data), Counter(item["outcome"] for part in data["parts"] for item in part["items"])
        mark = ", a **software driver**: its times tell nothing about GPUs" * device["is_software"]
        n_left = sum(part["state"] != "done" for part in data["parts"])
        outcomes = ", ".join(f"{counts[name]} {name}" for name in ("right", "missing", *_FAULTS) if counts[name])
        rest = f"; {n_left} of {len(data['parts'])} parts not complete" if n_left else ""
        system = f"{data['machine']['system']}, {data['machine']['architecture']}"
        name = f"{escaped(device['name'])} ({escaped(device['kind'])}{mark})"
        rows.append((f"{number}", name, escaped(device["driver"]), escaped(system), escaped(data["date"][:10]),
                     f"{outcomes}{rest}"))  # fmt: skip
    return f"## The devices\n\n{table(('', 'device', 'driver', 'system', 'date', 'results'), rows)}"


def _faults(reports: Sequence[Data]) -> str:
    lines = []
    for number, data in enumerate(reports, 1):
        for part in data["parts"]:
            lines += [
                f"- {number}, {escaped(part['name'])}: {escaped(item['name'])} {item['outcome']}: `{_first_line(item)}`"
                for item in part["items"]
                if item["outcome"] in _FAULTS
            ]
    return "\n".join(["## What is wrong\n", *(lines or ["Nothing."])])


def _first_line(item: Data) -> str:
    line = (item.get("text", "").splitlines() or [""])[0]
    return _shortened(line).replace("`", "'").replace("<!--", "< !--")  # in a code span


def _figures(reports: Sequence[Data], part: str, title: str, cell: Callable[[Data, Data], str]) -> str:
    columns = [items(data, part) for data in reports]
    used = [number for number, figures in enumerate(columns) if figures]
    names = list(dict.fromkeys(name for number in used for name in columns[number]))
    rows = [
        (escaped(name), *(cell(columns[n][name], reports[n]) if name in columns[n] else "" for n in used))
        for name in names
    ]
    rows = [row for row in rows if any(row[1:])]
    heads = [f"{number + 1}: {_short(reports[number])}" for number in used]
    return f"## {title}\n\n{table(('', *heads), rows)}" if rows else ""


def _short(data: Data) -> str:
    name: str = _device(data)["name"]
    return escaped(name.partition(" (")[0])


def _rate(figures: Data, data: Data) -> str:
    if "with_wait_us" in figures:
        return (
            f"{_digits(figures['host_us'])} us to enqueue, {_digits(figures['with_wait_us'])} with a wait, "
            f"{_digits(figures['of_100_recorded_us'])} recorded"
        )
    by_mib = figures.get("gb_per_s_by_mib", {})
    sizes = ", ".join(f"{_digits(rate)} of {size} MiB" for size, rate in by_mib.items()) if len(by_mib) > 1 else ""
    return f"{_with_unit(figures)}{f' ({sizes})' * bool(sizes)}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _with_unit(figures: Data) -> str:
    for name, unit in (("gb_per_s", "GB/s"), ("gop_per_s", "Gop/s")):
        if name in figures:
            return f"{_digits(figures[name])} {unit}{', matrices' if figures.get('cooperative') else ''}"
    return ""


def _function(figures: Data, data: Data) -> str:
    """Returns the device's time, that with the host's, the share of the copy's rate, and PyTorch's time."""
    parts = [f"{_digits(figures['device_ms'])} / {_digits(figures['ms'])}", *filter(None, [_share(figures, data)])]
    peers = (("torch_ms", "PyTorch"), ("triton_ms", "Triton"))
    parts += [f"{title} {_digits(figures[name])}" for name, title in peers if name in figures]
    return "; ".join(parts)


def _share(figures: Data, data: Data) -> str:
    """Returns the rate, and its share of the rate of copies of about its size, or of matrices of its type."""
    rates = {name: rate for name, rate in items(data, "rates").items() if rate.get("clock") == "device_ms"}
    if "gop_per_s" in figures:
        name, title = "gop_per_s", "the matrices' rate"
        whole = rates.get(f"matrices {figures.get('case', '').rpartition(' ')[2]}", {}).get(name, 0)
    else:
        name = "gb_per_s"
        whole, title = _copy(figures, rates.get("copy", {}))
    share = f", {figures[name] / whole:.0%} of {title}" if whole and name in figures else ""
    return f"{_with_unit(figures)}{share}"


def _copy(figures: Data, copy: Data) -> tuple[float, str]:
    """Returns the rate of the copy whose bytes, read and written, are nearest to a function's; with a title.

    A small copy stays in a cache, whose rate no larger function reaches. Earlier reports have the fastest copy alone.
    """
    mib = figures.get("gb_per_s", 0) * figures.get("device_ms", 0) * 1e6 / 2**20
    by_mib = {int(size): rate for size, rate in copy.get("gb_per_s_by_mib", {}).items()}
    if not by_mib or not mib:
        size = f", of {copy['size_mib']:g} MiB" if "size_mib" in copy else ""
        return copy.get("gb_per_s", 0), f"the fastest copy{size}"
    nearest = min(by_mib, key=lambda size: abs(math.log(2 * size / mib)))
    return by_mib[nearest], f"a copy of {nearest} MiB"


def _overlap(figures: Data, data: Data) -> str:
    bound = f"; full overlap is estimated as {figures['bound']}" if "bound" in figures else ""
    return f"{figures['gain']}{bound}" if "gain" in figures else ""


def _call(figures: Data, data: Data) -> str:
    return f"{_digits(figures['host_us'])} us, {_digits(figures['launches'])} launches" if "launches" in figures else ""


def _statistics(figures: Data, data: Data) -> str:
    names = "registers", "spills", "instructions"
    return ", ".join(f"{figures[name]} {name}" for name in names if name in figures)


_FIGURES: tuple[tuple[str, str, Callable[[Data, Data], str]], ...] = (
    ("rates", "Rates", _rate),
    ("functions", "Functions: milliseconds on the device / with the host", _function),
    ("triton", "Triton's programs: milliseconds on the device / with the host", _function),
    ("overlap", "Overlap: the time one after the other over the time together", _overlap),
    ("calls", "Time of the host per call, and in bare launches", _call),
    ("statistics", "Statistics of the driver's compiler", _statistics),
)


def page(text: str, reports: Sequence[Data]) -> str:
    """Returns the page with its tables made anew."""
    return replaced(text, START, END, tables(reports))


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), reports()), encoding="utf-8")
    print(f"{PAGE}: {len(reports())} reports")


if __name__ == "__main__":
    main()
