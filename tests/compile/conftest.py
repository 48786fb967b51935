"""Compilers to test with: those of this machine, and made-up ones whose every word is known."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vkcompute.compilers import discovery, shaderc
from vkcompute.compilers.compiler import Compiler
from vkcompute.errors import NoCompiler

# A fake compiler notes each run in its log and then runs BODY, with the output path in $out and the text in $text.
_FAKE = """#!/bin/sh
echo "$*" >> "$0.log"
case "$1" in --version) echo "{version}"; exit ;; esac
for out; do :; done
text=$(cat)
{body}
"""
WRITES_SPIRV = """printf '\\003\\002\\043\\007' > "$out"
printf '%s' "$text" | cksum | cut -c1-4 | tr -d '\\n' >> "$out"
"""


class FakeCompiler:
    """A shell script that passes for a compiler."""

    def __init__(self, path: Path, body: str, version: str) -> None:
        self.path = path
        path.write_text(_FAKE.format(body=body, version=version))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def runs(self) -> list[str]:
        """The arguments of each run so far."""
        log = Path(f"{self.path}.log")
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., FakeCompiler]:
    """Make a compiler: `fake(body, name="glslc")`. Without a body it writes 8 bytes that depend on the text."""
    if sys.platform == "win32":
        pytest.skip("the made-up compilers are shell scripts")

    def make(body: str = WRITES_SPIRV, name: str = "glslangValidator", version: str = "none") -> FakeCompiler:
        folder = tmp_path / "fakes"
        folder.mkdir(exist_ok=True)
        return FakeCompiler(folder / name, body, version)

    return make


@pytest.fixture(params=["shaderc", "glslc", "glslangValidator", "glslang"])
def compiler(request: pytest.FixtureRequest) -> str:
    """Each compiler of this machine in turn."""
    name: str = request.param
    if name == "shaderc":
        loadable = [item for item in shaderc.LIBRARY_NAMES if not isinstance(shaderc.load(item), str)]
        if not loadable:
            pytest.skip("no shaderc library can be loaded here")
        return loadable[0]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


@pytest.fixture
def any_compiler() -> Compiler:
    """The compiler that discovery finds."""
    try:
        return discovery.find()
    except NoCompiler as missing:
        pytest.skip(str(missing))


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache for this test alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(folder))
    return folder / "vkcompute" / "glsl"
