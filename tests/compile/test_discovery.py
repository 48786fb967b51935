"""The search for a compiler, its errors, and compilers that misbehave."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hang_limit import hang_limit_s

from vkcompute.compilers import command_line, discovery, shaderc
from vkcompute.errors import CompileError, NoCompiler
from vkcompute.glsl import glsl

pytestmark = pytest.mark.pure

Fake = Callable[..., Any]


@pytest.fixture(autouse=True)
def only_fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with no compiler but those that a test makes."""
    (tmp_path / "fakes").mkdir()
    # The fakes need cat, cksum, cut and tr, so these are linked to where the compilers of this machine are not.
    for tool in ("cat", "cksum", "cut", "tr"):
        result = next((Path(p, tool) for p in os.environ["PATH"].split(os.pathsep) if Path(p, tool).exists()), None)
        if result is not None:
            (tmp_path / "fakes" / tool).symlink_to(result)
    monkeypatch.setenv("PATH", str(tmp_path / "fakes"))
    monkeypatch.delenv("VKCOMPUTE_GLSLC", raising=False)
    monkeypatch.delenv("VULKAN_SDK", raising=False)
    monkeypatch.setattr(shaderc, "LIBRARY_NAMES", ("libabsent_shaderc.so.1",))
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / "cache"))
    discovery._find.cache_clear()


def test_no_compiler_says_what_was_tried_and_what_to_do() -> None:
    with pytest.raises(NoCompiler) as caught:
        glsl("void main() {}")
    message = str(caught.value)
    for part in ("libabsent_shaderc.so.1", "glslc: not on PATH", "glslangValidator", "glslang:"):
        assert part in message
    for part in (
        "apt install glslang-tools",
        "dnf install glslang",
        "brew install glslang",
        "Vulkan SDK",
        "VKCOMPUTE_GLSLC",
    ):
        assert part in message


def test_the_order_of_the_search(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("glslang", "glslangValidator", "glslc"):
        fake(name=name)
        discovery._find.cache_clear()  # the folder changed, not its name
        assert Path(discovery.find().path).name == name
    other = fake(name="other-glslang")
    other.path.rename(tmp_path / "glslang-15")
    monkeypatch.setenv("VKCOMPUTE_GLSLC", str(tmp_path / "glslang-15"))
    assert (discovery.find().path, discovery.find().name) == (str(tmp_path / "glslang-15"), "glslang")
    assert discovery.find("glslc").name == "glslc"  # the argument before the environment
    assert discovery.find(tmp_path / "fakes" / "glslangValidator").name == "glslang"


def test_a_program_of_the_working_folder_is_no_compiler(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake(name="glslc")
    monkeypatch.chdir(tmp_path / "fakes")
    monkeypatch.setenv("PATH", "")
    for sdk in ("", str(tmp_path / "sdk")):
        monkeypatch.setenv("VULKAN_SDK", sdk)
        with pytest.raises(NoCompiler):
            discovery.find()


def test_messages_without_end(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "_MAX_LOG_NBYTES", 1 << 20)
    endless = fake(f"while :; do echo {'a word ' * 1000}; done", name="glslc").path
    with pytest.raises(CompileError, match="glslc wrote more than 1 MiB of messages and was stopped"):
        glsl("void main() {}", compiler=endless)


def test_the_sdk_is_looked_into(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sdk = tmp_path / "sdk" / ("Bin" if sys.platform == "win32" else "bin")
    sdk.mkdir(parents=True)
    fake(name="glslc").path.rename(sdk / "glslc")
    monkeypatch.setenv("VULKAN_SDK", str(tmp_path / "sdk"))
    assert discovery.find().path == str(sdk / "glslc")


def test_a_wrapper_is_known_by_its_version(fake: Fake) -> None:
    assert discovery.find(fake(name="cc1", version="Glslang Version: 11:15.0.0").path).name == "glslang"
    assert discovery.find(fake(name="cc2", version="shaderc v2024.1\\nglslang 15.0.0").path).name == "glslc"


@pytest.mark.parametrize("name", ["absent", "/no/such/glslc", "libabsent_shaderc.so", "absent.dll", "absent.1.dylib"])
def test_a_named_compiler_that_is_absent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoCompiler, match=r"compiler='.*absent|compiler='/no/such"):
        glsl("void main() {}", compiler=name)
    monkeypatch.setenv("VKCOMPUTE_GLSLC", name)
    with pytest.raises(NoCompiler, match=r"VKCOMPUTE_GLSLC='.*absent|VKCOMPUTE_GLSLC='/no/such"):
        glsl("void main() {}")


def test_a_named_program_that_is_no_compiler(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(NoCompiler, match="neither glslc nor glslang"):
        glsl("void main() {}", compiler=fake(name="ls", version="ls 9.1").path)
    broken = tmp_path / "fakes" / "broken"
    broken.write_bytes(b"\0\1\2\3")
    broken.chmod(0o755)
    with pytest.raises(NoCompiler, match="neither glslc nor glslang"):
        glsl("void main() {}", compiler=broken)


def test_a_library_that_is_none(tmp_path: Path) -> None:
    library = tmp_path / "libshaderc.so.1"
    library.write_bytes(b"\x7fELF and then nothing")
    with pytest.raises(NoCompiler, match="no usable shaderc library"):
        glsl("void main() {}", compiler=library)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 0", "failed without naming an error"),
        ("exit 3", "failed without naming an error"),
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ('printf "abc" > "$out"', "are not SPIR-V"),
        (': > "$out"', "are not SPIR-V"),
        ('printf "\\003\\002\\043\\007" > "$out"; exit 1', "failed without naming an error"),
        ("printf 'ERROR: 0:1: \\377\\376 : bad\\n'; exit 1", "bad"),
        ("printf '\\000\\000'; exit 1", "failed without naming an error"),
    ],
)
@pytest.mark.parametrize("name", ["glslc", "glslangValidator"])
def test_compilers_that_misbehave(fake: Fake, name: str, body: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        glsl("void main() {}", compiler=fake(body, name=name).path)


def test_columns_are_asked_for_and_old_versions_forgiven(fake: Fake) -> None:
    new = fake(
        'case "$*" in *error-column*) p=0:1:5;; *) p=0:1;; esac; echo "ERROR: $p: \'\' : message"; exit 2', "glslang"
    )
    with pytest.raises(CompileError, match=r"<glsl>:1:5: message\n    abc def\n        \^"):
        glsl("abc def", compiler=new.path)
    old = fake(
        'case "$*" in *error-column*) echo unrecognized; exit 1;; esac; echo "ERROR: 0:1: \'\' : message"; exit 2'
    )
    with pytest.raises(CompileError, match=r"<glsl>:1: message\n    abc def$"):
        glsl("abc def", compiler=old.path)


def test_a_crash_on_the_way_to_more_errors_shows_the_first_ones(fake: Fake) -> None:
    body = 'case "$*" in *-C*) kill -SEGV $$;; esac; echo "ERROR: 0:1: \'x\' : message"; exit 2'
    with pytest.raises(CompileError, match="<glsl>:1: 'x' : message"):
        glsl("x", compiler=fake(body).path)


def test_a_compiler_that_reads_nothing(fake: Fake) -> None:
    """A program that ends before a long text is in its pipe."""
    body = "echo \"ERROR: 0:1: 'x' : message\"; exit 2"
    compiler = fake(body)
    compiler.path.write_text(f"#!/bin/sh\n{body}\n")
    with pytest.raises(CompileError, match="message"):
        glsl("x" * 1_000_000, compiler=compiler.path)


HANG = f"exec {shutil.which('sleep')} 600"  # takes no time of other tests


@pytest.mark.parametrize("name", ["glslc", "glslangValidator"])
def test_a_compiler_that_hangs_is_stopped(fake: Fake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_GLSLC_TIMEOUT_S", "0.1")
    with pytest.raises(CompileError, match=rf"{name} exceeded 0.1 s and was stopped; VKCOMPUTE_GLSLC_TIMEOUT_S sets"):
        glsl("void main() {}", compiler=fake(HANG, name=name).path)


@pytest.mark.rotates
def test_a_compiler_that_hangs_later_is_stopped(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said before is the error."""
    monkeypatch.setenv("VKCOMPUTE_GLSLC_TIMEOUT_S", str(hang_limit_s(5)))  # for its first process, too
    later = fake(f'case "$*" in *-C*) {HANG};; esac; echo "ERROR: 0:1: \'x\' : message"; exit 2')
    with pytest.raises(CompileError, match="<glsl>:1: 'x' : message"):
        glsl("x", compiler=later.path)


def test_a_wrapper_that_hangs_is_no_compiler(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_GLSLC_TIMEOUT_S", "0.1")
    wrapper = fake(name="cc1")
    wrapper.path.write_text(f"#!/bin/sh\n{HANG}\n")
    with pytest.raises(NoCompiler, match="neither glslc nor glslang"):
        glsl("void main() {}", compiler=wrapper.path)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e9", "soon"])
def test_a_time_limit_that_is_none(fake: Fake, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_GLSLC_TIMEOUT_S", text)
    with pytest.raises(ValueError, match=f"VKCOMPUTE_GLSLC_TIMEOUT_S is a number of seconds.*; got '{text}'"):
        glsl("void main() {}", compiler=fake().path)


@pytest.mark.parametrize("content", [b"\x7fELF and then nothing", b"", b"#!/no/such/interpreter\n", b"text"])
def test_a_compiler_that_cannot_be_run(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "fakes" / "glslc"
    broken.write_bytes(content)
    broken.chmod(0o755)
    for options in ({"compiler": broken}, {}):
        with pytest.raises(CompileError, match=rf"^{broken} cannot be run: [^\n]*; use another compiler$"):
            glsl("void main() {}", **options)
    broken.chmod(0o644)
    discovery._find.cache_clear()
    with pytest.raises(NoCompiler, match="is no executable program"):
        glsl("void main() {}", compiler=broken)


def test_an_optimizer_that_cannot_be_run_is_left_out(fake: Fake, tmp_path: Path) -> None:
    optimizer = tmp_path / "fakes" / "spirv-opt"
    optimizer.write_bytes(b"\x7fELF and then nothing")
    optimizer.chmod(0o755)
    compiler = fake().path
    assert glsl("void main() {}", optimize=True, compiler=compiler) == glsl("void main() {}", compiler=compiler)
