"""Driver manifests: those that the loader reads, in its order, and the reason why one cannot be used."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from vkcompute.core.manifests import find, read

pytestmark = pytest.mark.pure


def written(path: Path, library: object = "libsome.so") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": library}}))
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="drivers are listed in the registry")
def test_folders_of_the_loader_and_files_that_variables_add(tmp_path: Path) -> None:
    last = written(tmp_path / "data" / "vulkan" / "icd.d" / "b.json")
    first = written(tmp_path / "home" / ".config" / "vulkan" / "icd.d" / "c.json")
    added = written(tmp_path / "added.json")
    environ = {"HOME": str(tmp_path / "home"), "XDG_DATA_DIRS": str(tmp_path / "data")}
    paths = [item.path for item in find(environ)]
    assert [path for path in paths if tmp_path in path.parents] == [first, last]
    assert next(iter(find(environ | {"VK_ADD_DRIVER_FILES": str(added)}))).path == added


def test_a_variable_replaces_the_folders(tmp_path: Path) -> None:
    one, other = written(tmp_path / "x" / "b.json"), written(tmp_path / "x" / "a.json")
    alone = written(tmp_path / "alone.json")
    listed = os.pathsep.join([str(alone), str(tmp_path / "x"), str(alone)])
    assert [item.path for item in find({"VK_DRIVER_FILES": listed, "VK_ICD_FILENAMES": "y"})] == [alone, other, one]
    assert [item.path for item in find({"VK_ICD_FILENAMES": str(alone)})] == [alone]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ('{"ICD": {"libr', "is not JSON: Unterminated string"),
        ("[]", "names no library"),
        ('{"ICD": {}}', "names no library: it has no ICD.library_path"),
        ('{"ICD": {"library_path": 3}}', "names no library: its ICD.library_path is 3"),
        ('{"ICD": {"library_path": "./no.so"}}', "names the library .*no.so, which does not exist"),
    ],
)
def test_problems(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "driver.json"
    path.write_text(text)
    result = read(path)
    assert not result.library
    assert re.match(problem, result.problem)


def test_libraries_are_names_or_paths_relative_to_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "lib.so").touch()
    assert read(written(tmp_path / "a.json", "./lib.so")).library == str(tmp_path / "lib.so")
    assert read(written(tmp_path / "b.json")).library == "libsome.so"
    assert read(tmp_path / "c.json").problem == "does not exist"
