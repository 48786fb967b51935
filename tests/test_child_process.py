"""Limits of child processes, and what becomes of those that exceed them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from vkcompute import child_process
from vkcompute.child_process import Limits, run

pytestmark = pytest.mark.pure

LIMITS = Limits(timeout_s=30, output_nbytes=1 << 20)


def python(text: str, *arguments: str) -> list[str]:
    return [sys.executable, "-S", "-c", text, *arguments]


def test_status_and_outputs() -> None:
    echo = "import sys; data = sys.stdin.read(); print(len(data)); print('said', file=sys.stderr); sys.exit(3)"
    done = run(python(echo), LIMITS, data=b"x" * 1_000_000)
    assert (done.status, done.output.split(), done.errors.split(), done.problem) == (3, [b"1000000"], [b"said"], "")
    done = run(python(echo), LIMITS, errors_in_output=True)
    assert (done.status, sorted(done.output.split()), done.errors) == (3, [b"0", b"said"], b"")
    assert run(python("print('early')"), LIMITS, data=b"x" * 10_000_000).output.split() == [b"early"]
    with pytest.raises(OSError, match="No such file"):
        run(["/nowhere"], LIMITS)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_without_end(stream: str) -> None:
    done = run(python(f"import sys\nwhile True: sys.{stream}.write('x' * 100)"), LIMITS)
    assert done.problem == "it wrote more than 1,024 KiB"
    assert done.status != 0
    assert len(done.output + done.errors) < 1 << 21


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/PID/statm")
def test_memory_without_end() -> None:
    done = run(python("x = []\nwhile True: x.append(b'x' * 1_000_000)"), Limits(30, 1 << 20, 200 << 20))
    assert done.problem == "it took more than 200 MiB of memory"


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_a_process_that_hangs_ends_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[bool] = []
    monkeypatch.setattr(child_process, "_SILENT_S", 0.1)
    command = ["/bin/sh", "-c", f"sleep 100 & echo $! > {tmp_path / 'child'}; wait"]
    done = run(command, Limits(timeout_s=1, output_nbytes=100), waiting=lambda: waited.append(True))
    assert (done.problem, done.status, waited) == ("no answer within 1 s", -9, [True])
    pid = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not os.path.exists(f"/proc/{pid}") or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.05)
    pytest.fail("its child lives")


def test_a_child_that_keeps_the_output_open_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_GRACE_S", 0.2)
    child = "import time; time.sleep(5)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {child!r}]); print('done')"
    done = run(python(parent), Limits(timeout_s=15, output_nbytes=100))
    assert (done.status, done.output.split(), done.problem) == (0, [b"done"], "")
