"""Output files: refused before the work where they cannot be written, and never half there."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vkcompute import disk
from vkcompute.cli.options import check_output

pytestmark = pytest.mark.pure

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")


def test_a_new_file_has_the_usual_mode(tmp_path: Path, listing: Callable[[], list[str]]) -> None:
    with disk.replacing(str(tmp_path / "x.csv")) as temporary:
        Path(temporary).write_text("new")
        assert Path(temporary).suffix == ".csv"
        assert not (tmp_path / "x.csv").exists()
    (tmp_path / "y.csv").touch()
    assert (tmp_path / "x.csv").read_text() == "new"
    assert (tmp_path / "x.csv").stat().st_mode == (tmp_path / "y.csv").stat().st_mode
    assert listing() == ["x.csv", "y.csv"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException], listing: Callable[[], list[str]]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")

    def fail_halfway() -> None:
        with disk.replacing(str(path)) as temporary:
            Path(temporary).write_text("half")
            raise error

    with pytest.raises(error):
        fail_halfway()
    assert path.read_text() == "old"
    assert listing() == ["x.csv"]


@posix
def test_a_replaced_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "x.csv", tmp_path / "link.csv"
    path.touch(0o600)
    link.symlink_to(path)
    with disk.replacing(str(link)) as temporary:
        Path(temporary).write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_long_name_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 240 + ".csv")
    with disk.replacing(str(path)) as temporary:
        Path(temporary).write_text("new")
    assert path.read_text() == "new"


def test_places_that_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").touch()
    for path in ("new", "./new", "old", str(tmp_path / "new")):
        check_output(path, "other", None)


def test_places_that_will_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").touch()
    os.link(tmp_path / "in", tmp_path / "also")
    for path, taken, says in [
        ("none/x", "", "the folder none does not exist"),
        (str(tmp_path), "", "is a folder"),
        ("in", "./in", "is also another input or output"),
        ("also", "in", "is also another input or output"),
        ("new", "./new", "is also another input or output"),
        ("in/x", "", "the folder in does not exist"),
    ]:
        with pytest.raises(ValueError, match=says):
            check_output(path, taken)


@posix
def test_devices_are_no_place() -> None:
    with pytest.raises(ValueError, match="device"):
        check_output(os.devnull)
