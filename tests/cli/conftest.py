"""The command under test, called in this process or run in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_done import Done, without_waits
from hang_limit import hang_limit_s

from vkcompute.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def vk(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """`vk("info", "--json")` calls the command in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Done(status, out, without_waits(err))

    return run


@pytest.fixture
def vk_process(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """`vk_process("info", env={…}, stdout=…)` starts the command; what is not said otherwise is piped."""

    def start(*arguments: object, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        added = dict(env or {})
        path = [*filter(None, [added.get("PYTHONPATH")]), str(ROOT)]
        added["PYTHONPATH"] = os.pathsep.join(path)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        command = [sys.executable, "-m", "vkcompute", *map(str, arguments)]
        return subprocess.Popen(command, cwd=tmp_path, env=os.environ | added, text=True, **(pipes | options))

    return start


@pytest.fixture
def vk_done(vk_process: Callable[..., subprocess.Popen[str]]) -> Callable[..., Done]:
    """`vk_done("info")` runs the command in a process of its own, to its end."""

    def run(*arguments: object, **options: Any) -> Done:
        with vk_process(*arguments, **options) as process:
            out, err = process.communicate(timeout=hang_limit_s())
        return Done(process.returncode, out or "", without_waits(err or ""))

    return run


@pytest.fixture
def listing(tmp_path: Path) -> Callable[[], list[str]]:
    """The names of all files in the command's folder, hidden ones too."""
    return lambda: sorted(path.name for path in tmp_path.iterdir())
