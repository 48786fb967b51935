"""`vkcompute compile --statistics` and `--assembly`: of the device in use, and of AMD GPUs that may be absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_done import Done

import vkcompute as vc

Run = Callable[..., Done]
SHADER = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { float a[]; };
shared float parts[64];
void main() {
    parts[gl_LocalInvocationIndex] = a[gl_GlobalInvocationID.x];
    barrier();
    a[gl_GlobalInvocationID.x] = parts[gl_LocalInvocationIndex ^ 1];
}
"""
KERNELS = """
from math import pi

import vkcompute as vc
from elsewhere import other


@vc.kernel
def scaled(x: vc.float32[:], out: vc.float32[:], factor: float):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * factor * pi


again = scaled

@vc.kernel
def counted(out: vc.uint32[:]):
    out[vc.global_id(0)] = vc.global_id(0)


if __name__ == "__main__":
    raise SystemExit("this is not the main program")
"""
ELSEWHERE = """
import vkcompute as vc

@vc.kernel
def other(x):
    x[0] = 1
"""


@pytest.fixture
def amd(vk: Run) -> Run:
    """`amd("x.comp", "--statistics")` compiles for a GPU that is not here, or skips the test."""

    def run(*arguments: str) -> Done:
        done = vk("compile", *arguments, "--on", "navi21")
        if "radv, which is not installed" in done.err:
            pytest.skip(done.err)
        return done

    return run


@pytest.mark.pure
def test_statistics_and_assembly_of_a_shader(amd: Run, tmp_path: Path, listing: Callable[[], list[str]]) -> None:
    (tmp_path / "x.comp").write_text(SHADER)
    done = amd("x.comp", "--statistics", "--assembly")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "NAVI21" in lines[0]
    assert "shared bytes 512" in lines or "shared bytes 256" in lines
    assert "spills 0" in lines
    assert any(line.startswith("Instructions") and line.endswith("Instruction count") for line in lines)
    assert any(line.startswith("ds_write_b32") for line in lines)
    assert listing() == ["x.comp"], "no file is written"


@pytest.mark.pure
def test_kernels_in_python_as_json(amd: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    (tmp_path / "kernels.py").write_text(KERNELS)
    scaled, counted = json.loads(amd("kernels.py", "--assembly", "--json").out)
    assert (scaled["name"], counted["name"]) == ("scaled", "counted")
    assert "v_mul_f32" in scaled["assembly"]
    assert scaled["spills"] == 0
    assert scaled["figures"]["VGPRs"] == scaled["registers"]


@pytest.mark.pure
def test_kernels_without_types_are_left_out(amd: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    (tmp_path / "kernels.py").write_text(KERNELS + ELSEWHERE)
    done = amd("kernels.py", "--statistics", "--json")
    assert len(json.loads(done.out)) == 2
    assert "is left out: without arguments" in done.err


ATOMIC = """
import vkcompute as vc

@vc.kernel
def total(x: vc.float32[:], out: vc.float32[:]):
    vc.atomic.add(out, 0, x[vc.global_id(0)])

@vc.kernel
def copied(x: vc.float32[:], out: vc.float32[:]):
    out[vc.global_id(0)] = x[vc.global_id(0)]
"""


@pytest.mark.pure
def test_atomic_operations_that_the_gpu_lacks_are_emulated_and_assembly_has_names(amd: Run, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(ATOMIC)
    done = amd("kernels.py", "--assembly")
    assert (done.status, done.err) == (0, "")
    heads = [line for line in done.out.splitlines() if line.endswith("(RADV NAVI21):")]
    assert [head.split()[0] for head in heads] == ["total", "copied"]
    assert "atomic" in done.out


BLOCKS = """
import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

@vc.kernel
def copied(x: vc.float32[:], out: vc.float32[:]):
    out[vc.global_id(0)] = x[vc.global_id(0)]

@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def add(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

@triton.jit
def total(x, out, factor, BLOCK: tl.constexpr = 64):
    tl.atomic_add(out, tl.sum(tl.load(x + tl.arange(0, BLOCK))) * factor)
"""


@pytest.mark.pure
def test_block_programs_are_compiled_for_a_signature(amd: Run, tmp_path: Path) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    types = "--signature", "add(*i32, *i64, i32:16)", "--signature", "*fp32, *fp32, fp32"
    copied, add, total = json.loads(amd("blocks.py", "--statistics", "--json", *types).out)
    assert [item["name"] for item in (copied, add, total)] == ["copied", "add", "total"]
    assert "error" not in add
    assert "error" not in total
    done = amd("blocks.py", "--statistics", "--signature", "add(*fp32, *fp32, i32)")
    assert "total is left out: total is a block program, compiled for types of its arguments; give them" in done.err
    assert "copied on" in done.out
    for types_of_add, says in {
        "*fp32, *fp32": "the signature of add lacks n",
        "*fp32, *fp32, i32, 64, 64": "add has 4 parameters; the signature has '64' beyond them",
        "*fp32, *fp32, 1 +, 64": "the signature of add has '1 +', which is no type (i1, bf16, ",
    }.items():
        assert says in amd("blocks.py", "--statistics", "--signature", f"add({types_of_add})").error()


def test_block_programs_on_the_device_in_use(vk: Run, gpu: vc.Runtime, tmp_path: Path) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    done = vk("compile", "blocks.py", "--statistics", "--signature", "*fp32, *fp32, i32")
    if "pipelineExecutableInfo" in gpu.device.features:
        assert "add on" in done.out
    else:
        assert "has no VK_KHR_pipeline_executable_properties" in done.err


def test_the_device_in_use(vk: Run, gpu: vc.Runtime, tmp_path: Path) -> None:
    (tmp_path / "x.spv").write_bytes(vc.glsl(SHADER))
    done = vk("compile", "x.spv", "--statistics")
    if "pipelineExecutableInfo" in gpu.device.features:
        assert gpu.device.name in done.out
    else:
        assert "has no VK_KHR_pipeline_executable_properties" in done.error()


@pytest.mark.pure
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x.comp --on navi21", "give one of them, too"),
        ("empty.py --statistics", "empty.py defines no kernel"),
        ("elsewhere.py --statistics", "annotate x, as x: vc.float32[:]"),
        ("wrong.py --statistics", "wrong.py:2: NameError: name 'vkc' is not defined"),
        ("unread.py --statistics", "SyntaxError: "),
        ("elsewhere.py", "elsewhere.py is Python"),
        ("elsewhere.py --reflect --statistics", "elsewhere.py is Python"),
        ("elsewhere.py --statistics -o x.spv", "write no file"),
        ("none.py --statistics", "none.py: No such file"),
        ("x.comp --statistics --reflect --json", "leave out --reflect"),
        ("x.spv", "SPIR-V already; --reflect and --statistics"),
    ],
)
def test_wrong_input(vk: Run, tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "x.comp").write_text(SHADER)
    (tmp_path / "x.spv").write_bytes(b"")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "wrong.py").write_text("import vkcompute as vc\nvkc.kernel\n")
    (tmp_path / "unread.py").write_text("def f(:\n")
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    assert says in vk("compile", *line.split()).error()
