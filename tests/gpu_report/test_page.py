"""The page of reports: it is current, and shows faults, rates and software drivers."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from vkcompute.errors import DataError
from vkcompute.gpu_report.parts import PARTS
from vkcompute.gpu_report.report import read, text

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import cut_reports  # noqa: E402
import gpu_reports  # noqa: E402

pytestmark = pytest.mark.pure


def test_the_page_is_made_from_the_reports_that_are_there() -> None:
    page = gpu_reports.PAGE.read_text(encoding="utf-8")
    assert gpu_reports.page(page, gpu_reports.reports()) == page, "run python scripts/gpu_reports.py"


@pytest.mark.parametrize("path", sorted(gpu_reports.REPORTS.glob("*.json")), ids=lambda path: path.stem)
def test_reports_have_known_parts_and_are_written_as_they_are_read(path: Path) -> None:
    data = read(path)
    assert {part["name"] for part in data["parts"]} <= {part.name for part in PARTS}
    assert text(data) == path.read_text(encoding="utf-8")


def _report(name: str, *, software: bool, items: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    device = {"name": name, "kind": "cpu" if software else "discrete", "driver": "a driver", "is_software": software}
    parts = [{"name": part, "state": "done", "items": result} for part, result in items.items()]
    return {
        "date": "2026-01-02 03:04",
        "machine": {"system": "Linux 6.1", "architecture": "x86_64"},
        "device": device,
        "parts": parts,
    }


def test_tables_show_faults_shares_and_software_drivers(tmp_path: Path) -> None:
    rates = [{"name": "copy", "outcome": "right", "figures": {"gb_per_s": 400.0, "clock": "device_ms"}}]
    rates.append({"name": "matrices float16", "outcome": "right", "figures": {"gop_per_s": 80.0, "clock": "device_ms"}})
    matmul = {"case": "matmul 64 float16", "ms": 0.5, "device_ms": 0.25, "gop_per_s": 20.0}
    add = {"case": "add 1", "ms": 0.5, "device_ms": 0.25, "gb_per_s": 300.0, "torch_ms": 0.2}
    faulty = [
        {"name": "add", "outcome": "right", "figures": add},
        {"name": "matmul", "outcome": "right", "figures": matmul},
        {"name": "sort", "outcome": "crashed", "text": "by `x|y`"},
    ]
    gpu = _report("a GPU", software=False, items={"rates": rates, "functions": faulty})
    cpu = _report("a CPU", software=True, items={"functions": []})
    for number, data in enumerate((cpu, gpu)):
        (tmp_path / f"{number}.json").write_text(text({"format": 1, **data}))
    result = gpu_reports.reports(tmp_path)
    tables = gpu_reports.tables(result)
    assert "| 1 | a GPU (discrete) |" in tables
    assert "| 2 | a CPU (cpu, a **software driver**" in tables
    assert "- 1, functions: sort crashed: `by 'x|y'`" in tables
    assert "| add 1 | 0.25 / 0.5; 300 GB/s, 75% of the fastest copy; PyTorch 0.2 |" in tables
    assert "| matmul 64 float16 | 0.25 / 0.5; 20 Gop/s, 25% of the matrices' rate |" in tables


def _sent(**figures: Any) -> dict[str, Any]:
    item = {"name": "add", "outcome": "right", "figures": {"ms": 1.5, "device_ms": 1.0, "gb_per_s": 3.0, **figures}}
    return {"format": 1, **_report("a GPU", software=False, items={"functions": [item]})}


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        ("functions: add: device_ms", lambda data: data["parts"][0]["items"][0]["figures"].pop("device_ms")),
        ("functions: add: ms", lambda data: data["parts"][0]["items"][0]["figures"].update(ms="fast")),
        ("functions: add: ms", lambda data: data["parts"][0]["items"][0]["figures"].update(ms=float("nan"))),
        ("functions: add: ms", lambda data: data["parts"][0]["items"][0]["figures"].update(ms=True)),
        ("functions: add: figures", lambda data: data["parts"][0]["items"][0].update(figures=[1])),
        ("functions: add: text", lambda data: data["parts"][0]["items"][0].update(text=3)),
        ("functions: add: case", lambda data: data["parts"][0]["items"][0]["figures"].update(case=[])),
        ("an item of functions", lambda data: data["parts"][0]["items"].append("add")),
        ("parts[0]: items", lambda data: data["parts"][0].update(items=None)),
        ("device: name", lambda data: data["device"].update(name=["a GPU"])),
        ("the report: machine", lambda data: data.update(machine="Linux")),
        ("names that differ", lambda data: data["parts"].append(data["parts"][0])),
    ],
)
def test_an_entry_of_another_type_is_named(tmp_path: Path, entry: str, change: Any) -> None:
    path, data = tmp_path / "sent.json", _sent()
    path.write_text(json.dumps(data))
    assert read(path) == data
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(DataError) as caught:
        read(path)
    assert "sent.json" in str(caught.value)
    assert entry in str(caught.value)


def test_texts_of_a_report_are_no_markup() -> None:
    evil = "x\n\n# head <script>alert(1)</script> [a](https://b) `c` **d** | e"
    data = _sent(case=evil)
    data["device"] |= {"name": evil, "kind": evil, "driver": evil}
    data["machine"]["system"] = evil
    data["parts"][0]["items"].append({"name": evil, "outcome": "wrong", "text": f"{gpu_reports.END} {evil}"})
    tables = gpu_reports.tables([data])
    outside = re.sub(r"(?<!\\)`[^`]*`", "", tables)
    assert "<script" not in outside
    assert not re.search(r"(?<!\\)\[a|(?<!\\)`c|\n# head|(?<!\\)\*\*d|://", outside)
    assert tables.count(gpu_reports.END) == 1
    assert gpu_reports.escaped("layer_norm (4, 1), x86_64 _a_") == r"layer_norm (4, 1), x86_64 \_a\_"


def test_shares_are_of_copies_of_about_the_size() -> None:
    by_mib = {"1": 900.0, "8": 4000.0, "512": 600.0}
    copy = {"gb_per_s": 4000.0, "size_mib": 8, "clock": "device_ms", "gb_per_s_by_mib": by_mib}
    small, large = ({"gb_per_s": 300.0, "device_ms": ms, "ms": 1.0} for ms in (0.05, 3.0))  # 14 and 858 MiB
    functions = [
        {"name": name, "outcome": "right", "figures": figures} for name, figures in (("small", small), ("large", large))
    ]
    rates = [{"name": "copy", "outcome": "right", "figures": copy}]
    tables = gpu_reports.tables([_report("a GPU", software=False, items={"rates": rates, "functions": functions})])
    assert "| copy | 4,000 GB/s (900 of 1 MiB, 4,000 of 8 MiB, 600 of 512 MiB) |" in tables
    assert "300 GB/s, 8% of a copy of 8 MiB" in tables
    assert "300 GB/s, 50% of a copy of 512 MiB" in tables


def test_reports_that_were_cut_on_purpose_were_read() -> None:
    """`scripts/cut_reports.py` has cut reports of software drivers, which took some minutes."""
    rows = json.loads(cut_reports.RECORD.read_text())
    endings = {signal.SIGINT: (130, "stopped"), signal.SIGKILL: (-signal.SIGKILL, "running")}
    for row in rows:
        assert (row["status"], row["state"]) == endings[signal.Signals[row["by"]]], row
    assert rows
    for row in rows:
        assert (row["cut_s"], signal.Signals[row["by"]]) in cut_reports.CUTS
        assert row["items"] > 0
