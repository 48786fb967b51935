"""`vkcompute cache`: the folder, its size, and what is deleted: compiled files and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_done import Done

import vkcompute as vc
from vkcompute import disk

pytestmark = pytest.mark.pure

Run = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two entries, in a folder with files of the user."""
    folder = tmp_path / "cache" / "vkcompute"
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(folder.parent))
    disk.write_cached(folder / "python" / ("0" * 64), b"x" * 984)
    disk.write_cached(folder / "pipelines" / f"{'a' * 32}.bin", b"")
    (tmp_path / "mine").write_text("mine")
    (folder / "python" / "thesis.tex").write_text("mine")
    (folder / "python" / ("2" * 64)).write_text("a file named after its digest")
    os.symlink(tmp_path / "mine", folder / "python" / ("1" * 64))
    return folder


def test_path_and_size(vk: Run, folder: Path) -> None:
    assert vk("cache", "path").out == f"{folder}\n"
    assert vk("cache", "size").out == "2 entries, 1.0 KiB\n"
    words = vk("cache").out.split()
    assert words[0] == str(folder)
    assert " ".join(words[1:]) == "pipelines 1 entry, 40 bytes python 1 entry, 1 KiB total 2 entries, 1.0 KiB"
    assert "dance" in vk("cache", "dance").error()


def test_clear_deletes_entries_only(vk: Run, folder: Path, tmp_path: Path) -> None:
    assert vk("cache", "clear").out == "deleted 2 entries, 1.0 KiB\n"
    assert {path.name for path in folder.rglob("*")} == {"python", "thesis.tex", "1" * 64, "2" * 64}
    assert (tmp_path / "mine").read_text() == "mine"
    assert vk("cache", "size").out == "0 entries, 0 bytes\n"


def test_a_cache_of_compiled_kernels_is_deleted_with_its_folder(
    vk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / "new"))
    assert vk("cache", "clear").out == "deleted 0 entries, 0 bytes\n"
    with vc.Runtime() as gpu:
        assert vc.elementwise("x + 7")(gpu.zeros(3)).numpy().tolist() == [7, 7, 7]
    entries = disk.cache_entries()
    names = {entry.path.parent.name for entry in entries}  # lavapipe's pipeline cache is empty
    assert "python" in names <= {"pipelines", "python", "rewritten"}
    assert len(entries) == len([path for path in (tmp_path / "new").rglob("*") if path.is_file()])
    vk("cache", "clear")
    assert [*(tmp_path / "new").iterdir()] == []


def test_a_folder_that_cannot_be_listed_is_no_empty_cache(
    vk: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.write_cached(folder / "tuning" / ("3" * 64), b"x")
    assert " tuning 1 entry, 41 bytes " in " ".join(vk("cache").out.split())

    def refuse(path: os.PathLike[str]) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    for action in (["clear"], ["size"], []):
        assert vk("cache", *action).error().endswith("glsl: Permission denied")
    assert vk("cache", "path").out == f"{folder}\n"
