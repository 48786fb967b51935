"""Processes of a part: faults cost one item, and limits end what takes too long."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vkcompute.gpu_report import command
from vkcompute.gpu_report.parts import Part
from vkcompute.gpu_report.process import PartRun
from vkcompute.gpu_report.report import Report, read

FAULTY = """
import os, signal, time
from vkcompute.gpu_report.items import Unavailable

def right(session): return {"ms": 1.5}
def wrong(session): raise AssertionError("element 3 is 7, not 8")
def missing(session): raise Unavailable("no such unit")
def failed(session): raise ValueError(f"in {os.path.expanduser('~')}/secret.py")
def crashed(session): print("words of a driver"); os.kill(os.getpid(), signal.SIGSEGV)
def hung(session): time.sleep(60)
def exits(session): os._exit(7)

def items():
    return {each.__name__: each for each in (right, wrong, missing, failed, crashed, hung, exits)} | {"last": right}
"""


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of processes that import the module `faulty_items`."""
    (tmp_path / "faulty_items.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(tmp_path)
    return os.environ | {"PYTHONFAULTHANDLER": ""}  # the fault handler writes behind a process's last words


@pytest.mark.pure
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_crash_and_a_hang_cost_one_item(tmp_path: Path, faulty: dict[str, str]) -> None:
    part = Part("faulty", "items with faults", "faulty_items", 60, 1.5)
    made = Report(tmp_path / "report.json", [part])
    PartRun(part, made.part("faulty"), None, made.save, faulty).run(60)
    entry = read(made.path)["parts"][0]
    assert [item["outcome"] for item in entry["items"]] == [
        "right", "wrong", "missing", "failed", "crashed", "hung", "crashed", "right",
    ]  # fmt: skip
    texts = {item["name"]: item.get("text", "") for item in entry["items"]}
    assert entry["items"][0]["figures"] == {"ms": 1.5}
    assert "not 8" in texts["wrong"]
    assert "SIGSEGV" in texts["crashed"]
    assert "words of a driver" in texts["crashed"]
    assert "status 7" in texts["exits"]
    assert str(Path.home()) not in texts["failed"]
    assert (entry["state"], entry["left"]) == ("done", [])


@pytest.mark.pure
def test_the_time_of_a_part_ends_it(tmp_path: Path, faulty: dict[str, str]) -> None:
    part = Part("faulty", "items with faults", "faulty_items", 60)
    made = Report(tmp_path / "report.json", [part])
    PartRun(part, made.part("faulty"), None, made.save, faulty).run(0)
    entry = read(made.path)["parts"][0]
    assert entry["state"] == "cut"


CRASHING = """
import json, os, sys
task = json.loads(sys.stdin.readline())
names = list("abcdefgh")
send = lambda **message: print(json.dumps(message), flush=True)
send(items=names)
for name in names[len(task["skipped"]):]:
    send(start=name)
    if name < "h":
        os._exit(9)
    send(end={"name": name, "outcome": "right", "seconds": 0})
send(done=True)
"""


@pytest.mark.pure
def test_no_number_of_crashes_keeps_later_items_from_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.gpu_report.process.python_command", lambda main: [sys.executable, "-Sc", CRASHING])
    part = Part("crashing", "items that crash", "no_such_module_of_items", 60)
    made = Report(tmp_path / "report.json", [part])
    PartRun(part, made.part("crashing"), "²", made.save, os.environ).run(60)
    entry = read(made.path)["parts"][0]
    assert [item["outcome"] for item in entry["items"]] == ["crashed"] * 7 + ["right"]
    assert (entry["state"], entry["left"]) == ("done", [])


LONG = """
import json, sys, time
task = json.loads(sys.stdin.readline())
send = lambda **message: print(json.dumps(message), flush=True)
names = "name kind driver api_version".split()
chosen = dict.fromkeys(names, "x") | {"is_software": SOFTWARE}
item = {"name": "chosen", "outcome": "right", "seconds": 0, "figures": chosen}
if task["module"] == "slow" and not task["skipped"]:
    item = {"name": "slow", "outcome": "right", "seconds": 2}
    send(start="slow")
    time.sleep(2)
if not task["skipped"]:
    send(end=item)
send(done=True)
"""


@pytest.mark.pure
@pytest.mark.parametrize(("is_software", "outcome"), [(True, "right"), (False, "hung")])
def test_a_software_driver_compiles_longer_before_an_item_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_software: bool, outcome: str
) -> None:
    code = LONG.replace("SOFTWARE", f"{is_software}")
    monkeypatch.setattr("vkcompute.gpu_report.process.python_command", lambda main: [sys.executable, "-Sc", code])
    parts = [Part("device", "the device", "device", 60), Part("slow", "an item of 2 seconds", "slow", 60, 1)]
    made = Report(tmp_path / "report.json", parts)
    command._make(made, parts, None, 1)
    assert [item["outcome"] for item in made.part("slow")["items"]] == [outcome]
