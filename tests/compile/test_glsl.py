"""`glsl()` with each compiler of this machine: the same sources, the same answers."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vkcompute.errors import CompileError
from vkcompute.glsl import glsl

pytestmark = pytest.mark.pure

KERNEL = """layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer A { uint a[]; };
void main() { a[gl_GlobalInvocationID.x] = VALUE; }
"""
DEFINES = {"VALUE": 7}


def is_valid(spirv: bytes, tmp_path: Path, target: str) -> bool:
    """True if spirv-val accepts it; without spirv-val, if it is SPIR-V."""
    tool = shutil.which("spirv-val")
    if tool is None:
        return spirv[:4] == b"\x03\x02\x23\x07"
    (tmp_path / "x.spv").write_bytes(spirv)
    return subprocess.run([tool, "--target-env", target, tmp_path / "x.spv"], check=False).returncode == 0


@pytest.mark.parametrize("target", ["vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3"])
@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.usefixtures("empty_cache")
def test_a_kernel_compiles_for_every_target(compiler: str, target: str, optimize: bool, tmp_path: Path) -> None:
    spirv = glsl(KERNEL, defines=DEFINES, target=target, optimize=optimize, compiler=compiler)
    assert is_valid(spirv, tmp_path, target)
    minor = int(target[-1])
    assert spirv[4:8] == bytes([0, {0: 0, 1: 3, 2: 5, 3: 6}[minor], 1, 0])  # the SPIR-V version of each Vulkan version


def test_the_same_source_gives_the_same_bytes(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = set()
    for i in range(2):
        monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / str(i)))
        results.add(glsl(KERNEL, defines=DEFINES, compiler=compiler))
    assert len(results) == 1


# Each faulty text, with the place of its first error and a part of the message.
FAULTS = {
    "a name": ("void main() { int x = foo; }", "<glsl>:1:", "'foo' : undeclared identifier"),
    "after a blank line": ("\n\nvoid main() { foo = 1; }", "<glsl>:3:", "'foo'"),
    "own version": ("#version 450\n\nvoid main() { foo = 1; }", "<glsl>:3:", "'foo'"),
    "an #error": ("#error this does not do\nvoid main() {}", "<glsl>:1:", "this does not do"),
    "after an include": ('#include "fine.glsl"\nvoid main() { foo = 1; }', "<glsl>:2:", "'foo'"),
    "in an include": ('\n#include "bad.glsl"\nvoid main() {}', "{folder}/bad.glsl:2:", "'foo' : undeclared identifier"),
    "in an include's include": ('#include "outer.glsl"\nvoid main() {}', "{folder}/bad.glsl:2:", "'foo'"),
    "a missing include": ("void main() {}\n#include <no.glsl>\n", "<glsl>:2:", "cannot find the include 'no.glsl'"),
    "in a define": ("void main() { int x = VALUE; }", "<glsl>:1:", "'bar' : undeclared identifier"),
    "the end is missing": ("void main() {", "<glsl>:", "syntax error"),
    "an empty text": ("", "<glsl>:", "entry point"),
    "a function without a body": ("void f(); void main() { f(); }", "<glsl>:", "f("),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_are_shown_where_they_are(compiler: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "fine.glsl").write_text("#pragma once\n\n\n\n")
    (tmp_path / "bad.glsl").write_text("\nint x = foo;\n")
    (tmp_path / "outer.glsl").write_text('#include "fine.glsl"\n\n#include "bad.glsl"\n')
    text, place, message = FAULTS[fault]
    with pytest.raises(CompileError) as caught:
        glsl(text, defines={"VALUE": "bar"}, include_dirs=[tmp_path], compiler=compiler)
    lines = str(caught.value).split("\n")
    results = [line for line in lines if line.startswith(place.format(folder=tmp_path)) and message in line]
    assert results, caught.value
    if fault == "in an include":
        assert lines[lines.index(results[0]) + 1 :][:2] == ["    int x = foo;", "            ^"]


def test_every_error_of_a_text_is_named(compiler: str) -> None:
    text = "void main() {\n  a = 1;\n  b = 2;\n  c = 3;\n}\n"
    with pytest.raises(CompileError) as caught:
        glsl(text, compiler=compiler)
    for line, name in ((2, "a"), (3, "b"), (4, "c")):
        assert re.search(f"<glsl>:{line}:([0-9]+:)? '{name}'", str(caught.value))  # with the column from glslang 15 on


def test_the_same_include_is_found_for_every_compiler(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "kernels" / "parts").mkdir(parents=True)
    (tmp_path / "kernels" / "k.comp").write_text('#include "parts/a.glsl"\nvoid main() { f(); }')
    (tmp_path / "kernels" / "parts" / "a.glsl").write_text('#include "b.glsl"\nvoid f() { g(); }\n')
    (tmp_path / "kernels" / "parts" / "b.glsl").write_text("#pragma once\nvoid g() {}\n")
    path = tmp_path / "kernels" / "k.comp"
    assert glsl(path, compiler=compiler) == glsl(str(path), compiler=compiler)


@given(text=st.text(st.characters(codec="utf-8"), max_size=40) | st.text("#{}();=/*\"'\\\n x1", max_size=40))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("any_compiler")
def test_any_text_compiles_or_is_a_compile_error(text: str) -> None:
    try:
        result: bytes | str = glsl(text + "\n")[:4]
    except CompileError as error:
        result = str(error)[:6]
    assert result in (b"\x03\x02\x23\x07", "<glsl>")


@pytest.mark.usefixtures("empty_cache")
def test_threads_may_compile_the_same_text(compiler: str) -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(glsl(KERNEL, defines=DEFINES, compiler=compiler)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1


@pytest.mark.usefixtures("any_compiler")
def test_a_name_stands_for_a_text_and_a_path_for_itself(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"^mine does not compile"):
        glsl("x", name="mine")
    path = tmp_path / "bad.comp"
    path.write_text("x")
    with pytest.raises(CompileError) as caught:
        glsl(str(path), name="mine")
    assert str(caught.value).startswith(f"{path} does not compile")
    with pytest.raises(CompileError, match=r"^<glsl> does not compile"):
        glsl(f"\n{path}")  # two lines are a text


def test_what_is_neither_text_nor_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        glsl("absent.comp")
    with pytest.raises(FileNotFoundError):
        glsl(tmp_path / "absent.glsl")
    with pytest.raises(TypeError, match="bytes"):
        glsl(b"void main() {}")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"include_dirs is a sequence of folders; got 'include'"):
        glsl(KERNEL, include_dirs="include")
    with pytest.raises(ValueError, match=r"target is one of vulkan1\.0, .*; got 'opengl'"):
        glsl(KERNEL, target="opengl")
