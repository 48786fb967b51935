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
def test_a_kernel_that_ends_the_compiler_is_named_and_the_others_are_compiled(amd: Run, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(ATOMIC)
    done = amd("kernels.py", "--assembly")
    assert done.out.startswith("copied on "), "assembly has the name of its kernel"
    assert "(RADV NAVI21):\n\n" in done.out
    assert "buffer_store_dword" in done.out
    if done.status:  # Mesa before 23 does not know the instruction
        assert done.error().startswith("total: the compiler for navi21 ended with status -6: ")
        total, copied = json.loads(amd("kernels.py", "--statistics", "--json").out)
        assert (total["name"], copied["name"]) == ("total", "copied")
        assert "status -6" in total["error"]
        assert copied["registers"] > 0


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
