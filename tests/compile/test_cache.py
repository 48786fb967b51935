"""The cache on disk: what it spares, what it must not hide, what becomes of it when it is damaged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vkcompute import disk
from vkcompute.compilers import discovery
from vkcompute.glsl import glsl

pytestmark = pytest.mark.pure

TEXT = '#include "a.glsl"\nvoid main() {}\n'
Fake = Callable[..., Any]


@pytest.fixture
def options(fake: Fake, empty_cache: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "a.glsl").write_text("// 1\n")
    return {"compiler": fake().path, "include_dirs": [tmp_path], "defines": {"A": 1}}


def n_runs(options: dict[str, Any]) -> int:
    log = Path(f"{options['compiler']}.log")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_second_compile_starts_no_program(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    first = glsl(TEXT, **options)
    discovery._find.cache_clear()  # as in a new process

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert glsl(TEXT, **options) == first


@pytest.mark.parametrize("change", ["text", "defines", "include", "target", "optimize", "compiler", "another compiler"])
def test_every_input_counts(options: dict[str, Any], change: str, fake: Fake, tmp_path: Path) -> None:
    text = TEXT
    glsl(text, **options)
    if change == "text":
        text += " "
    elif change == "defines":
        options["defines"] = {"A": 2}
    elif change == "include":
        (tmp_path / "a.glsl").write_text("// 2\n")
    elif change == "target":
        options["target"] = "vulkan1.1"
    elif change == "optimize":
        options["optimize"] = True
    elif change == "compiler":
        os.utime(options["compiler"], (1, 1))  # updated in its place
        discovery._find.cache_clear()
    else:
        options["compiler"] = fake(name="glslc").path
    before = n_runs(options)
    glsl(text, **options)
    assert n_runs(options) == before + 1
    glsl(text, **options)
    assert n_runs(options) == before + 1


def test_an_include_that_appears_or_vanishes_counts(options: dict[str, Any], tmp_path: Path) -> None:
    text = '#if 0\n#include "later.glsl"\n#endif\nvoid main() {}\n'
    for expected in (1, 2, 2):
        glsl(text, **options)
        assert n_runs(options) == expected
        (tmp_path / "later.glsl").write_text("// here\n")


def test_a_name_does_not_count(options: dict[str, Any]) -> None:
    glsl(TEXT, name="a", **options)
    glsl(TEXT, name="b", **options)
    assert n_runs(options) == 1


@pytest.mark.parametrize("damage", [b"", b"vkca", b"vkcache1" + bytes(100)])
def test_a_damaged_entry_is_compiled_anew(options: dict[str, Any], empty_cache: Path, damage: bytes) -> None:
    first = glsl(TEXT, **options)
    (entry,) = empty_cache.iterdir()
    entry.write_bytes(damage)
    assert glsl(TEXT, **options) == first
    assert n_runs(options) == 2
    assert disk.read_cached(entry) == first


@pytest.mark.parametrize("content", [b"", b"no SPIR-V", b"\x03\x02\x23\x07!"])
def test_an_entry_that_is_no_spirv_is_compiled_anew(options: dict[str, Any], empty_cache: Path, content: bytes) -> None:
    first = glsl(TEXT, **options)
    (entry,) = empty_cache.iterdir()
    disk.write_cached(entry, content)
    assert glsl(TEXT, **options) == first
    assert disk.read_cached(entry) == first


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / "file"))
    assert glsl(TEXT, **options) == glsl(TEXT, **options)
    assert n_runs(options) == 2


def test_the_cache_is_bounded(options: dict[str, Any], empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LIMIT_NBYTES", 1000)
    monkeypatch.setattr(disk, "PRUNING_DIGITS", "0123456789abcdef")
    for i in range(40):
        glsl(TEXT, **(options | {"defines": {"A": i}}))
    total = sum(path.stat().st_size for path in empty_cache.iterdir())
    assert 900 < total <= 1000
    glsl(TEXT, **(options | {"defines": {"A": 39}}))
    assert n_runs(options) == 40  # the newest are still there


def test_failures_are_not_cached(fake: Fake, empty_cache: Path) -> None:
    compiler = fake("echo \"ERROR: 0:1: 'x' : message\"; exit 2")
    for _ in range(2):
        with pytest.raises(ValueError, match="message"):
            glsl("x\n", compiler=compiler.path)
    assert not empty_cache.exists()
