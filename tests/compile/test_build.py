"""`build_shaders.py`: what is compiled when, what is said, and what is left behind when it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build_shaders import BUILT_IN_SHADERS, MANIFEST, BuiltInShader, ShaderBuild
from vkcompute.errors import CompileError, NoCompiler
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Dim
from vkcompute.spirv.module import Module

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
NAMES = ["a_1", "a_2", "b"]
Fake = Callable[..., Any]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "shaders"
    (folder / "include").mkdir(parents=True)
    (folder / "a.comp").write_text('#include "common.glsl"\nvoid main() { int x = N; }\n')
    (folder / "b.comp").write_text("void main() {}\n")
    (folder / "include" / "common.glsl").write_text("// common\n")
    return folder


@pytest.fixture
def build(sources: Path, tmp_path: Path) -> ShaderBuild:
    table = (
        BuiltInShader("a_2", "a.comp", {"N": 2}),
        BuiltInShader("a_1", "a.comp", {"N": 1}),
        BuiltInShader("b", "b.comp"),
    )
    return ShaderBuild(sources, tmp_path / "out", table)


@pytest.fixture
def built(build: ShaderBuild, fake: Fake) -> ShaderBuild:
    build.run(compiler=str(fake().path), validate=False)
    return build


def outputs(build: ShaderBuild) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in build.outputs.iterdir()}


def with_table(build: ShaderBuild, *table: BuiltInShader) -> ShaderBuild:
    return ShaderBuild(build.sources, build.outputs, table)


def test_a_build_is_complete_and_the_next_does_nothing(build: ShaderBuild, fake: Fake) -> None:
    assert build.check().missing == NAMES
    compiler = fake()
    build.run(compiler=str(compiler.path), validate=False)
    assert sorted(outputs(build)) == sorted([MANIFEST, *(f"{name}.spv" for name in NAMES)])
    assert build.check().is_complete
    before, n_runs = outputs(build), len(compiler.runs)
    build.run(compiler="no compiler is needed", validate=False)
    assert outputs(build) == before
    assert len(compiler.runs) == n_runs
    build.run(compiler=str(compiler.path), validate=False, force=True)
    assert len(compiler.runs) == n_runs + 3 + 1  # and one for its version
    assert outputs(build) == before


def test_the_manifest_says_what_each_was_made_from(built: ShaderBuild) -> None:
    manifest = json.loads((built.outputs / MANIFEST).read_text())
    assert list(manifest) == NAMES
    assert manifest["a_1"]["source"] == "a.comp"
    assert manifest["a_1"]["defines"] == {"N": "1"}
    assert manifest["a_1"]["source_sha256"] != manifest["a_2"]["source_sha256"]
    assert str(built.sources) not in (built.outputs / MANIFEST).read_text()


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        ("the source", ["b"]),
        ("an include", ["a_1", "a_2"]),
        ("an output", ["a_1"]),
        ("an output's length", ["a_1"]),
        ("the manifest", NAMES),
        ("the manifest's shape", NAMES),
        ("no manifest", NAMES),
        ("a define", ["b"]),
        ("the target", ["b"]),
        ("times only", []),
    ],
)
def test_what_makes_an_output_stale(built: ShaderBuild, fake: Fake, change: str, stale: list[str]) -> None:
    build, first = built, outputs(built)
    manifest, output = build.outputs / MANIFEST, build.outputs / "a_1.spv"
    if change == "the source":
        (build.sources / "b.comp").write_text("void main() { }\n")
    elif change == "an include":
        (build.sources / "include" / "common.glsl").write_text("// changed\n")
    elif change == "an output":
        output.write_bytes(bytes([output.read_bytes()[0] ^ 1]) + output.read_bytes()[1:])
    elif change == "an output's length":
        output.write_bytes(output.read_bytes()[:-1])
    elif change == "the manifest":
        manifest.write_bytes(manifest.read_bytes()[:-20])
    elif change == "the manifest's shape":
        manifest.write_text('{"a_1": {"other": 1}}')
    elif change == "no manifest":
        manifest.unlink()
    elif change == "a define":
        build = with_table(build, *build.table[:2], BuiltInShader("b", "b.comp", {"A": 1}))
    elif change == "the target":
        build = with_table(build, *build.table[:2], BuiltInShader("b", "b.comp", target="vulkan1.0"))
    else:
        for path in (*build.sources.rglob("*"), *build.outputs.iterdir()):
            os.utime(path, (1, 1))
    assert build.check().stale == stale
    compiler = fake(name="glslc")
    build.run(compiler=str(compiler.path), validate=False)
    assert len([run for run in compiler.runs if "--version" not in run]) == len(stale)
    assert build.check().is_complete
    if change in ("an output", "an output's length"):
        assert outputs(build)["a_1.spv"] == first["a_1.spv"]


def test_what_is_surplus_is_named_and_removed(built: ShaderBuild) -> None:
    (built.outputs / "old.spv").write_bytes(b"")
    build = with_table(built, *built.table[:2])
    assert build.check().surplus == ["b.spv", "old.spv"]
    build.run(compiler="no compiler is needed")
    assert sorted(outputs(build)) == ["a_1.spv", "a_2.spv", MANIFEST]
    assert build.check().is_complete


def test_a_shader_that_fails_leaves_its_output_and_spares_the_others(built: ShaderBuild, fake: Fake) -> None:
    before = outputs(built)
    for name in ("a.comp", "b.comp"):
        (built.sources / name).write_text((built.sources / name).read_text() + "\n")
    body = "case \"$text\" in *'N 2'*) echo \"ERROR: 0:2: 'x' : message\"; exit 2;; esac; "
    compiler = fake(f"{body} printf '\\003\\002\\043\\007new.' > \"$out\"")
    with pytest.raises(CompileError, match=r"a\.comp:2: 'x' : message"):
        built.run(compiler=str(compiler.path), validate=False, n_jobs=3)
    after = outputs(built)
    assert after["a_2.spv"] == before["a_2.spv"]
    assert after["a_1.spv"] == after["b.spv"] == b"\x03\x02\x23\x07new."
    assert built.check().stale == ["a_2"]
    assert sorted(after) == sorted(before)


def test_no_compiler_is_an_error_only_if_one_is_needed(built: ShaderBuild) -> None:
    built.run(compiler="absent")
    (built.outputs / "b.spv").unlink()
    with pytest.raises(NoCompiler):
        built.run(compiler="absent")


def test_what_spirv_val_rejects_is_not_written(build: ShaderBuild, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, validator = fake(), fake("echo 'error: line 3: wrong'; exit 1", name="spirv-val")
    monkeypatch.setenv("PATH", os.pathsep.join([str(validator.path.parent), os.environ["PATH"]]))
    with pytest.raises(CompileError, match=r"b: spirv-val rejects .*: error: line 3: wrong"):
        build.run(compiler=str(compiler.path))
    assert sorted(outputs(build)) == [MANIFEST]
    build.run(compiler=str(compiler.path), validate=False)
    assert build.check().is_complete


def run_script(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-S", str(checkout / "build_shaders.py"), *arguments]  # -S: no numpy, no vulkan
    env = {name: value for name, value in os.environ.items() if name != "VKCOMPUTE_GLSLC"} | environment
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a shader build needs, without outputs."""
    folder = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("_spv", "__pycache__")
    for name in ("vkcompute", "shaders"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "build_shaders.py", folder)
    return folder


def test_the_script_builds_checks_and_fails_in_plain_words(checkout: Path, fake: Fake) -> None:
    compiler = str(fake().path)
    names = sorted(row.name for row in BUILT_IN_SHADERS)
    check = run_script(checkout, "--check")
    assert (check.returncode, check.stdout.split()) == (1, [word for name in names for word in ("missing:", name)])
    done = run_script(checkout, "--compiler", compiler, "--no-validate", "-j", "3")
    assert (done.returncode, done.stderr) == (0, "")
    check = run_script(checkout, "--check")
    assert (check.returncode, check.stdout) == (0, "")

    (checkout / "vkcompute" / "_spv" / "old.spv").write_bytes(b"")
    (checkout / "vkcompute" / "_spv" / f"{names[0]}.spv").write_bytes(b"")
    check = run_script(checkout, "--check")
    assert (check.returncode, check.stdout.split("\n")) == (1, [f"stale: {names[0]}", "surplus: old.spv", ""])

    failing = str(fake("echo \"ERROR: 0:2: 'x' : message\"; exit 2", name="glslc").path)
    failed = run_script(checkout, "--compiler", failing)
    assert failed.returncode == 1
    assert ".comp:2: 'x' : message" in failed.stderr  # of whichever shader comes first
    assert "Traceback" not in failed.stderr
    absent = run_script(checkout, "--compiler", "absent")
    assert absent.returncode == 1
    assert absent.stderr.startswith("compiler='absent' is no executable program")
    assert "Traceback" not in absent.stderr
    assert run_script(checkout, "-j", "0").returncode == 2


def test_a_source_that_is_absent_is_named_without_a_traceback(checkout: Path) -> None:
    (checkout / "shaders" / "multiply.comp").unlink()
    done = run_script(checkout)
    assert done.returncode == 1
    assert "multiply.comp" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.rotates
def test_the_real_shaders_compile_the_same_twice(compiler: str, checkout: Path) -> None:
    """With spirv-val where it is installed, and one job or many."""
    results = []
    for n_jobs in ("1", "4"):
        done = run_script(checkout, "--force", "--compiler", compiler, "-j", n_jobs)
        assert (done.returncode, done.stderr) == (0, "")
        results.append({path.name: path.read_bytes() for path in (checkout / "vkcompute" / "_spv").iterdir()})
    assert results[0] == results[1]


def test_every_source_is_in_the_table_and_every_name_is_unique() -> None:
    assert sorted({row.source for row in BUILT_IN_SHADERS}) == sorted(
        path.name for path in (ROOT / "shaders").glob("*.comp")
    )
    assert len({row.name for row in BUILT_IN_SHADERS}) == len(BUILT_IN_SHADERS)


@pytest.mark.parametrize("name", [row.name for row in BUILT_IN_SHADERS])
def test_texel_buffers_come_without_a_sampler(name: str) -> None:
    """A sampled image of Dim Buffer is invalid from SPIR-V 1.6 on, and Mesa 25.0.7 warns on stderr of earlier ones."""
    module = Module.parse((ROOT / "vkcompute" / "_spv" / f"{name}.spv").read_bytes())
    types = {instruction.operands[0]: instruction for instruction in module.declarations}
    sampled = [
        types[instruction.operands[1]] for instruction in types.values() if instruction.opcode == op.OpTypeSampledImage
    ]
    assert not [image for image in sampled if image.operands[2] == Dim.Buffer]
