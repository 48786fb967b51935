"""Wheel and sdist carry the compiled shaders, and a wheel is made from an sdist on a machine without a compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build_shaders import BUILT_IN_SHADERS
from vkcompute._version import __version__

pytest.importorskip("hatchling")
pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
SPIRV = {f"{row.name}.spv" for row in BUILT_IN_SHADERS}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("_spv", "__pycache__")
    for name in ("vkcompute", "shaders"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    texts = "pyproject.toml", "README.md", "LICENSE", ".gitignore", "vkcompute_keras.pth"
    for name in (*texts, "build_shaders.py", "hatch_build.py"):
        shutil.copy(ROOT / name, folder)
    return folder


def run_hatchling(folder: Path, kind: str, compiler: Path | None) -> subprocess.CompletedProcess[str]:
    """Build in `folder`, into its `dist`, with `compiler` as the only one there is."""
    env = {name: value for name, value in os.environ.items() if name not in ("VKCOMPUTE_GLSLC", "VULKAN_SDK")}
    env |= {"PATH": str(folder), "VKCOMPUTE_GLSLC": str(compiler or "absent")}
    if compiler is not None:  # a shell script, and beside it what stands in for spirv-val
        env["PATH"] = os.pathsep.join([str(compiler.parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_wheel_and_sdist(checkout: Path, fake: Callable[..., Any], tmp_path: Path) -> None:
    fake("exit 0", name="spirv-val")
    done = run_hatchling(checkout, "sdist", fake().path)
    assert done.returncode == 0, done.stderr
    (sdist,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python before 3.11.4 has none
        archive.extractall(tmp_path / "unpacked", **filters)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    done = run_hatchling(unpacked, "wheel", None)
    assert done.returncode == 0, done.stderr
    (wheel,) = (unpacked / "dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))
        spirv = {Path(name).name: archive.read(name) for name in names if name.startswith("vkcompute/_spv/")}
    assert set(spirv) == SPIRV
    for line in (
        "Author: the vkcompute developers",
        "License-Expression: Apache-2.0",
        "Description-Content-Type: text/markdown",
    ):
        assert f"\n{line}" in metadata
    assert metadata.count("\nProject-URL: ") >= 4
    assert metadata.endswith((ROOT / "README.md").read_text("utf-8"))
    assert spirv == {path.name: path.read_bytes() for path in (checkout / "vkcompute" / "_spv").glob("*.spv")}
    assert not [name for name in names if not name.startswith("vkcompute")]


def test_a_wheel_without_shaders_is_refused_in_plain_words(checkout: Path) -> None:
    done = run_hatchling(checkout, "wheel", None)
    assert done.returncode != 0
    assert "the shaders of vkcompute could not be compiled" in done.stderr
    assert "apt install glslang-tools" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(checkout.glob("dist/*"))


def test_files_on_licence_and_citation_agree_with_the_package() -> None:
    """`reuse lint` finds the licence of all files by REUSE.toml, and its text in LICENSES."""
    assert (ROOT / "LICENSES/Apache-2.0.txt").read_text() == (ROOT / "LICENSE").read_text()
    assert 'path = "**"' in (ROOT / "REUSE.toml").read_text()
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {__version__}\n" in citation
    urls = set(re.findall(r"https://github.com/[\w-]+/[\w-]+", citation + (ROOT / "pyproject.toml").read_text()))
    assert urls == {"https://github.com/vkcompute/vkcompute"}
