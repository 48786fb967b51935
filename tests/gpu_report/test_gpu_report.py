"""Reports of GPUs: files that are complete at any cut, items that crash, hang or fail, and checks that can fail."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hang_limit import hang_limit_s

from vkcompute.errors import DataError
from vkcompute.gpu_report import command
from vkcompute.gpu_report.anonymizer import Anonymizer
from vkcompute.gpu_report.parts import PARTS, Part
from vkcompute.gpu_report.process import PartRun
from vkcompute.gpu_report.report import Report, read
from vkcompute.gpu_report.temporary import remove_abandoned

MODULES = sorted({part.module for part in PARTS})


@pytest.mark.pure
def test_a_module_that_does_not_import_fails_its_part(tmp_path: Path) -> None:
    part = Part("absent", "no module", "no_such_module_of_items", 60)
    made = Report(tmp_path / "report.json", [part])
    PartRun(part, made.part("absent"), None, made.save, os.environ).run(60)
    entry = read(made.path)["parts"][0]
    assert entry["state"] == "failed"
    assert "no_such_module_of_items" in entry["items"][0]["text"]


ENDLESS = """
import os, sys
from pathlib import Path
from vkcompute.gpu_report import command
from vkcompute.gpu_report.parts import Part

parts = [Part("device", "a device", "fake_device", 60), Part("endless", "no end", "endless_items", 60),
         Part("last", "never begun", "fake_device", 60)]
command.PARTS = tuple(parts)
command.BY_NAME = {part.name: part for part in parts}
sys.exit(command.main(["--out", "report.json"]))
"""
ENDLESS_ITEMS = """
import os, pathlib, time
from fake_device import chosen

def endless(session):
    pathlib.Path("child").write_text(str(os.getpid()))
    time.sleep(60)

def items():
    return {"chosen": chosen, "other": chosen, "endless": endless}
"""


@pytest.mark.pure
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("number", "state"), [(signal.SIGKILL, "running"), (signal.SIGINT, "stopped")])
def test_a_report_that_is_killed_is_complete(tmp_path: Path, number: int, state: str) -> None:
    (tmp_path / "fake_device.py").write_text(DEVICE)
    (tmp_path / "endless_items.py").write_text(ENDLESS_ITEMS)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    mark = tmp_path / "child"
    assert _within(30, lambda: mark.exists() and bool(mark.read_text()))
    assert _within(30, lambda: len(read(tmp_path / "report.json")["parts"][1]["items"]) == 2)
    process.send_signal(number)
    output, _ = process.communicate(timeout=hang_limit_s(30))
    data = read(tmp_path / "report.json")
    assert data["state"] == state
    assert data["device"]["name"] == "a device"
    assert [(part["state"], len(part["items"]), part["left"]) for part in data["parts"]] == [
        ("done", 1, []), ("running", 2, ["endless"]), ("waiting", 0, ["chosen"])
    ]  # fmt: skip
    assert b"discrete" in output
    assert b"1/3" in output
    assert _within(30, lambda: not _is_alive(int(mark.read_text())))


def _within(seconds: float, holds: Any) -> bool:
    stop = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > stop:
            return False
        time.sleep(0.05)
    return True


def _is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    if Path("/proc").exists():
        return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def anonymous(monkeypatch: pytest.MonkeyPatch) -> Anonymizer:
    """An anonymizer of the user alice on the host q7."""
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    monkeypatch.setattr("platform.node", lambda: "q7.example.org")
    return Anonymizer()


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/data/alice/x.json: no", "[hidden]: no"),
        ("in /Volumes/x, /opt/y and (/export/home/bob)", "in [hidden], [hidden] and ([hidden])"),
        (r"\\server\bob\x, C:\Users\bob\y and c:/bob", "[hidden], [hidden] and [hidden]"),
        (repr("\\\\server\\bob"), "'[hidden]'"),
        ("'/srv/my dir/x' and \"C:\\Program Files\\b's\"", "'[hidden]' and \"[hidden]\""),
        ("/srv/my dir/x: 8 GB/s", "[hidden]: 8 GB/s"),
        ("-I/opt/x lib=/opt/y error:/opt/z", "-I[hidden] lib=[hidden] error:[hidden]"),
        ("a\\n/opt/x ~bob/x, file:///opt/x", "a\\n[hidden] [hidden], file:[hidden]"),
        ("/usr/a:/usr/b.", "[hidden]."),
        ("alice@q7: malice of q7.example.org", "[hidden]@[hidden]: malice of [hidden]"),
        ("ALICE Alice_lap Q7 q7_gpu alice2", "[hidden] [hidden]_lap [hidden] [hidden]_gpu alice2"),
        ("\x1b[0m/home/bob/y \x1b[31merror\x1b[0m: \x1b]0;t\x07/home/b", "[hidden] error: [hidden]"),
        ("f(x)/home/bob/y: a[1]/Users/bob/y", "f(x)[hidden]: a[1][hidden]"),
        (r"b'\x1b[0m/home/bob/y'", "b'[hidden]'"),
        ("/home/bob's files/x: y", "[hidden]: y"),
        ("no '/home/bob's files/x' here", "no '[hidden]' here"),
        ("GPU-8f3a2c1e-0b1d-4c5e-9f00-0123456789ab, MIG-8f3a2c1e-…, 8F3A2C1E-0b1d-4c5e-9f00-0123456789ab",
         "[hidden], [hidden], [hidden]"),
        ("uuid=8f3a2c1e0b1d, deviceUUID: 8f3a2c1e0b1d, serial=AB12CD34",
         "uuid=[hidden], deviceUUID: [hidden], serial=[hidden]"),
        ("02:42:ac:11:00:02 02-42-AC-11-00-02", "[hidden] [hidden]"),
        ("to 10.0.0.5:8786 or 192.168.1.20. fe80::1ff:fe23:4567:890a", "to [hidden]:8786 or [hidden]. [hidden]"),
        ("1.3.5.0, 580.159.04, 31.0.101.4502, version 5.1.2.3, 12:34:56, std::add, a.py:3:4, uuid of 3", None),
        ("1 / 2, 3/4, GB/s, and/or, a) / b, GT1)/PCIe/SSE2, // a comment, ./x, ../x, a/b.py:3", None),
        ("https://github.com/vkcompute/vkcompute/issues", None),
        ("element 3 of (2, 3): x[0] / y", None),
    ],
)  # fmt: skip
def test_paths_and_names_are_hidden(anonymous: Anonymizer, text: str, hidden: str | None) -> None:
    assert anonymous(text) == (text if hidden is None else hidden)


@pytest.mark.pure
def test_every_string_of_a_report_is_anonymous(anonymous: Anonymizer) -> None:
    own = str(Path(command.__file__))
    data = {"figures": {"/opt/x": ["alice", {"driver": "/data/bob/x"}], "ms": 1.5}, "text": own, "name": "alice"}
    figures = {"[hidden]": ["[hidden]", {"driver": "[hidden]"}], "ms": 1.5}
    package = os.path.join("vkcompute", "gpu_report", "command.py")
    assert anonymous(data) == {"figures": figures, "text": package, "name": "alice"}


@pytest.mark.pure
def test_folders_with_spaces_that_the_environment_names_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", os.pathsep.join(["/opt/x.json", os.path.abspath("/opt/my own/x y.json")]))
    assert Anonymizer()(f"no {os.path.abspath('/opt/my own/x y.json')} here") == "no [hidden] here"


@pytest.mark.pure
def test_a_user_without_a_home_gets_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.setattr("getpass.getuser", none)
    monkeypatch.setattr("os.getcwd", lambda: os.stat(tmp_path / "deleted"))
    Report(tmp_path / "report.json", []).save()
    assert "[hidden]" in Anonymizer()("/opt/x")


@pytest.mark.pure
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99, "parts": []}', '{"parts": [{"name": 1}]}'])
def test_other_files_are_no_reports(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"other\.json"):
        read(path)


@pytest.mark.pure
def test_the_options_name_what_there_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main(["--list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(PARTS)
    for wrong in (["--only", "rate"], ["--minutes", "0"], ["--minutes", "x"]):
        with pytest.raises(SystemExit):
            command.main(wrong)
    assert "no part is called 'rate'; did you mean rates? --list" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--device", ""])
    assert "leave --device out" in capsys.readouterr().err
    assert command.main(["--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


SLOW = """
import time
from fake_device import chosen

def slow(session):
    time.sleep(0.3)

def items():
    return {"one": slow, "two": slow, "three": slow}
"""
DEVICE = """
from vkcompute.gpu_report.items import Unavailable

def chosen(session):
    return {"name": "a device", "kind": "discrete", "driver": "a driver", "api_version": "1.3", "is_software": False}

def absent(session):
    raise Unavailable("there is no driver")

def others(session):
    return {"another device": ["its name has no 'x'"]}

def items():
    return {"chosen": chosen} if __name__ == "fake_device" else {"chosen": absent, "others": others}
"""


@pytest.fixture
def fake_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that puts other parts in place of those of a report."""
    modules = {"fake_device": DEVICE, "no_device": DEVICE, "slow_items": SLOW}
    for name, source in modules.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(*parts: Part) -> None:
        monkeypatch.setattr(command, "PARTS", parts)
        monkeypatch.setattr(command, "BY_NAME", {part.name: part for part in parts})

    return install


@pytest.mark.pure
def test_parts_that_their_limits_cut_continue_in_the_end(
    fake_parts: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, device = Part("slow", "slow items", "slow_items", 0.4), Part("device", "a device", "fake_device", 60)
    fake_parts(device, slow, Part("last", "the last part", "fake_device", 60))
    path = tmp_path / "report.json"
    assert command.main(["--out", str(path), "--only", "slow,slow,last"]) == 0
    data = read(path)
    assert data["state"] == "finished"
    ends = [("done", 1), ("done", 3), ("done", 1)]
    assert [(part["state"], len(part["items"])) for part in data["parts"]] == ends
    assert "https://github.com/vkcompute/vkcompute/issues" in capsys.readouterr().out


@pytest.mark.pure
def test_what_the_time_has_cut_is_named(
    fake_parts: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [Part(name, name, "slow_items", 60) for name in ("device", "first", "last")]
    fake_parts(*parts)
    device = {"name": "a device", "kind": "discrete", "driver": "x", "api_version": "1.3", "is_software": False}
    chosen = {"name": "chosen", "outcome": "right", "seconds": 0, "figures": device}
    wrong = {"name": "wrong", "outcome": "wrong", "seconds": 0, "text": "element 3 is 7, " + "not 8 " * 100}

    def run(self: PartRun, limit_s: float, progress: Any) -> None:
        self._entry["items"] = [chosen if self._part is parts[0] else wrong]
        self._entry["state"] = "done"

    monkeypatch.setattr(PartRun, "run", run)
    monkeypatch.setattr(Report, "seconds", property(lambda made: 600 * bool(made.data["parts"][1]["items"])))
    path = tmp_path / "report.json"
    assert command.main(["--out", str(path)]) == 1
    data = read(path)
    assert data["state"] == "cut"
    assert data["parts"][2]["left"] == ["one", "two", "three"]
    out = capsys.readouterr().out
    assert "wrong: wrong: element 3 is 7, not 8" in out
    assert "ended after its 8 minutes: 1 part not run" in " ".join(out.split())
    assert all(len(line) <= 80 or " " not in line.strip() for line in out.splitlines())


@pytest.mark.pure
def test_without_a_device_there_is_nothing_to_send(
    fake_parts: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_parts(Part("device", "a device", "no_device", 60), Part("last", "the last part", "fake_device", 60))
    assert command.main(["--out", str(tmp_path / "none.json")]) == 2
    assert not (tmp_path / "none.json").exists(), "the corrected command may name the same file"
    written = capsys.readouterr()
    assert "no device: there is no driver" in written.err
    assert "issues" not in written.out
    fake_parts(Part("device", "a device", "slow_items", 60))
    assert command.main(["--out", str(tmp_path / "cut.json"), "--minutes", "1e-9"]) == 2
    assert "give more than --minutes 1e-09" in " ".join(capsys.readouterr().err.split())


@pytest.mark.pure
def test_a_driver_that_crashes_or_hangs_at_its_start_is_told(
    fake_parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_parts(Part("device", "a device", "slow_items", 60))

    crash = {"name": "chosen", "outcome": "crashed", "seconds": 0, "text": "the process ended by SIGSEGV"}
    for items, words, is_kept in (([crash], "SIGSEGV", True), ([], "not answered within 30 s, and may hang", False)):

        def run(self: PartRun, limit_s: float, progress: Any, items: Any = items) -> None:
            self._entry |= {"state": "cut", "seconds": 30.0, "items": items}

        monkeypatch.setattr(PartRun, "run", run)
        path = tmp_path / f"{is_kept}.json"
        assert command.main(["--out", str(path), "--minutes", "0.5"]) == 2
        assert words in " ".join(capsys.readouterr().err.split())
        assert path.exists() is is_kept


BEGUN = """
import sys, threading
from pathlib import Path
from vkcompute.gpu_report import command
from vkcompute.gpu_report.parts import Part

def names(self):
    print("imports", flush=True)
    threading.Event().wait(60)

Part.item_names = names
sys.exit(command.main(["--out", "report.json"]))
"""


@pytest.mark.pure
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    ("number", "status", "state"), [(signal.SIGKILL, -9, "running"), (signal.SIGINT, 130, "stopped")]
)
def test_a_report_is_complete_before_the_modules_are_imported(
    tmp_path: Path, number: int, status: int, state: str
) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", BEGUN], cwd=tmp_path, env=env, **pipes)
    assert process.stdout is not None
    assert any(line == b"imports\n" for line in process.stdout)
    process.send_signal(number)
    _, errors = process.communicate(timeout=hang_limit_s(30))
    assert (process.returncode, errors) == (status, b"")
    data = read(tmp_path / "report.json")
    assert data["state"] == state
    assert [part["name"] for part in data["parts"]] == [part.name for part in PARTS]


@pytest.mark.pure
def test_a_report_replaces_no_file(fake_parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_parts(Part("device", "a device", "no_device", 60))
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    assert command.main(["--out", str(path)]) == 2
    assert path.read_text() == "notes"
    monkeypatch.chdir(tmp_path)
    names = {command._created(None, []).path for _ in range(3)}
    assert len(names) == 3


@pytest.mark.pure
@pytest.mark.parametrize("deleted", [True, False])
def test_a_file_that_cannot_be_written_ends_the_report(
    fake_parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], deleted: bool
) -> None:
    fake_parts(Part("device", "a device", "no_device", 60))
    folder = tmp_path / "folder"
    folder.mkdir()

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def run(self: PartRun, limit_s: float, progress: Any) -> None:
        if deleted:
            shutil.rmtree(folder)
        else:
            monkeypatch.setattr("vkcompute.disk.write_atomic", full)
        self._save()

    monkeypatch.setattr(PartRun, "run", run)
    assert command.main(["--out", str(folder / "report.json")]) == 2
    assert "report.json: No s" in capsys.readouterr().err


@pytest.mark.pure
@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_reader_of_the_output_may_end(tmp_path: Path) -> None:
    (tmp_path / "fake_device.py").write_text(DEVICE)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    reading, writing = os.pipe()
    os.close(reading)
    code = [sys.executable, "-c", ENDLESS]
    done = subprocess.run(
        code, cwd=tmp_path, env=env, stdout=writing, stderr=subprocess.PIPE, timeout=hang_limit_s(120), check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
    assert read(tmp_path / "report.json")["state"] == "stopped"


@pytest.mark.pure
@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_folders_that_killed_reports_left_are_deleted_after_a_day(tmp_path: Path) -> None:
    names = "vkcompute-report-old", "vkcompute-report-new", "others", "kept"
    for name in names:
        (tmp_path / name / "cache").mkdir(parents=True)
    (tmp_path / "vkcompute-report-link").symlink_to(tmp_path / "kept")
    (tmp_path / "vkcompute-report-file").write_text("")
    for path in tmp_path.iterdir():
        if path.name != names[1]:
            os.utime(path, (0, 0), follow_symlinks=False)
    remove_abandoned(tmp_path)
    left = {"vkcompute-report-new", "vkcompute-report-link", "vkcompute-report-file", "others", "kept"}
    assert {path.name for path in tmp_path.iterdir()} == left
    assert (tmp_path / "kept" / "cache").exists()
