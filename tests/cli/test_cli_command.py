"""The command line itself: what it says, where, and with which exit status."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_done import Done
from hypothesis import given
from hypothesis import strategies as st

from vkcompute import __version__
from vkcompute.cli import COMMANDS, info, main, stderr
from vkcompute.errors import DeviceLost, NoCompiler, OutOfDeviceMemory, ValidationError, VulkanError

pytestmark = pytest.mark.pure

Run = Callable[..., Done]
BUFFERED = {"PYTHONUNBUFFERED": ""}  # unbuffered, argparse itself swallows the error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `vkcompute info` raise."""

    def install(error: BaseException) -> None:
        def run(_args: argparse.Namespace) -> int:
            raise error

        monkeypatch.setattr(info, "run", run)

    return install


def test_version(vk: Run) -> None:
    assert vk("--version") == Done(0, f"vkcompute {__version__}\n", "")


def test_help_names_every_command(vk: Run) -> None:
    done = vk("--help")
    assert done.status == 0
    assert all(f"\n    {command} " in done.out for command in COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, "logreg train", "logreg predict"])
def test_help_of_each_command_fits_80_columns(vk: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = vk(*command.split(), "--help")
    assert done.status == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert f"usage: vkcompute {command}" in done.out


def test_help_loads_neither_driver_nor_numpy(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run_python(
        "import sys; from vkcompute.cli import main; main(['--help']); main(['multiply', '--help'])\n"
        "print([name for name in ('numpy', 'vulkan', 'tqdm', 'matplotlib') if name in sys.modules])"
    )
    assert done.stderr == ""
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "COMMAND"),
        ("dance", "dance"),
        ("multiply a.npy", "B.npy"),
        ("multiply a.npy b.npy", "-o/--output"),
        ("info --jsn", "did you mean --json? (see `vkcompute info --help`)"),
        ("logreg train x.csv --target y --batchsize 5", "did you mean --batch-size? (see `vkcompute logreg train --h"),
        ("--device 0 info", "invalid choice: '0'"),
        ("--device 0 info", "; options of a command follow its name (see `vkcompute --help`)"),
        ("logreg", "required: train|predict"),
        ("bench --quick extra", "unrecognized arguments: extra (see `vkcompute bench --help`)"),
        ("multiply a b -o c --chunk-bytes 1x", "'1x'"),
    ],
)
def test_a_wrong_command_line_is_answered_in_one_line(vk: Run, line: str, says: str) -> None:
    done = vk(*line.split())
    assert says in done.error()
    assert "--help" in done.error()
    assert done.out == ""


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (ValueError("two\n  lines"), 2, "error: two lines"),
        (FileNotFoundError(2, "No such file or directory", "x.npy"), 2, "error: x.npy: No such file or directory"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device"),
        (MemoryError(), 2, "error: out of memory"),
        (NoCompiler("none;\n  tried\n  a"), 2, "error: none; tried a"),
        (OutOfDeviceMemory(9, 3, 5), 2, "asked for 9 bytes, 3 of 5 are free"),
        (VulkanError("VK_ERROR_UNKNOWN", "vkQueueSubmit"), 1, "error: vkQueueSubmit returned VK_ERROR_UNKNOWN"),
        (DeviceLost("VK_ERROR_DEVICE_LOST", "vkQueueSubmit"), 1, "VK_ERROR_DEVICE_LOST"),
        (ValidationError("text", "VUID-x", "a.py:3"), 1, "a.py:3: VUID-x: text"),
        (KeyError("spam"), 1, "internal error, KeyError: 'spam'; run with --verbose"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_end_in_one_line(
    vk: Run, failing: Callable[[BaseException], None], error: BaseException, status: int, says: str
) -> None:
    failing(error)
    done = vk("info")
    assert done.status == status
    assert done.out == ""
    assert done.err.startswith("vkcompute: ")
    assert done.err.count("\n") == 1
    assert says in done.err


@pytest.mark.parametrize("line", ["--verbose info", "info --verbose"])
def test_verbose_shows_the_traceback_before_the_line(
    vk: Run, failing: Callable[[BaseException], None], line: str
) -> None:
    failing(KeyError("spam"))
    done = vk(*line.split())
    assert done.err.startswith("Traceback")
    assert done.err.splitlines()[-1].startswith("vkcompute: error: internal error")


@pytest.mark.parametrize(
    ("options", "levels"),
    [([], ["warning", "error"]), (["-q"], ["error"]), (["--verbose"], ["debug", "warning", "error"])],
)
def test_what_is_logged_goes_to_stderr_by_level(
    vk: Run, monkeypatch: pytest.MonkeyPatch, options: list[str], levels: list[str]
) -> None:
    def run(_args: argparse.Namespace) -> int:
        logger = logging.getLogger("vkcompute.somewhere")
        logger.debug("one\ntwo")
        logger.warning("one\ntwo")
        logger.error("one\ntwo")
        return 0

    monkeypatch.setattr(info, "run", run)
    handlers = list(logging.getLogger("vkcompute").handlers)
    done = vk("info", *options)
    assert done.err.splitlines() == [f"vkcompute: {level}: one two" for level in levels]
    assert logging.getLogger("vkcompute").handlers == handlers


def test_warnings_are_one_line_and_silenced_by_quiet(vk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "run", lambda _args: warnings.warn("far\nout", stacklevel=1) or 0)
    assert vk("info").err == "vkcompute: warning: far out\n"
    assert vk("info", "-q").err == ""


def test_status_130_and_one_line_after_ctrl_c_anywhere(vk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", interrupted)
    assert vk("info") == Done(130, "", "vkcompute: interrupted\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_line(vk_done: Callable[..., Done]) -> None:
    with open("/dev/full", "w") as full:
        assert "No space left" in vk_done("--help", stdout=full, env=BUFFERED).error()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_output_that_nobody_reads_ends_the_command_silently(vk_done: Callable[..., Done]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = vk_done("--help", stdout=pipe, env=BUFFERED)
    assert done == Done(128 + 13, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="closing of descriptors by a shell")
def test_closed_streams_are_no_error(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent.parent
    line = f'PYTHONPATH="{root}" "{sys.executable}" -m vkcompute dance >&- 2>&-'
    assert subprocess.run(line, shell=True, cwd=tmp_path, check=False).returncode == 2


def test_the_entry_point_is_main() -> None:
    scripts = (Path(__file__).resolve().parent.parent.parent / "pyproject.toml").read_text()
    assert f'vkcompute = "{main.__module__}:{main.__name__}"' in scripts


@given(st.text())
def test_one_line_is_one_printable_line(text: str) -> None:
    line = stderr.one_line(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1
    if text.isprintable() and text == text.strip():
        assert line == text
