"""The table of compilers without their GPUs: what is counted, how reasons are told, and that the page has it."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import vkcompute as vc
from vkcompute.core.device_profile import named
from vkcompute.errors import MissingFeature, VkComputeError
from vkcompute.runtime.launching.imitated_gpu import Compilation, ImitatedGPU, Shader, outcomes_on
from vkcompute.runtime.launching.program import load
from vkcompute.runtime.launching.statistics import KernelStatistics

pytestmark = pytest.mark.pure
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

import compilers_table  # noqa: E402

WIDE = {"Float64", "Int64", "Int16", "Int8", "Float16"}
"""SPIR-V's names of types that a device may lack."""
DOUBLED = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { float a[]; };
void main() { a[gl_GlobalInvocationID.x] *= 2; }
"""


@pytest.fixture(scope="module")
def compilers() -> ModuleType:
    """The module of the table, which finds its neighbours in its folder."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return __import__("compilers")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def compilation(**figures: Any) -> Compilation:
    names = "subgroup_size registers spills occupancy shared_nbytes scratch_nbytes instructions latency busy_cycles"
    common = dict.fromkeys(names.split()) | figures
    return Compilation(KernelStatistics("Arc", "anv", figures={}, descriptions={}, **common), "")


def test_a_reason_is_not_cut_in_a_word(compilers: ModuleType) -> None:
    reason = compilers.reason("cannot run wide: " + "capability " * 30, "wide")
    assert reason.endswith("capability …")
    assert len(reason) <= 200
    many = "sums has 10 storage buffers; V3D binds 8 at a time; pack several in one"
    assert compilers.reason(many, "sums") == "has 10 storage buffers"
    narrow = "sums needs subgroups of 32 invocations; Adreno has 64 to 128; build it for such a device"
    assert compilers.reason(narrow, "sums") == "needs subgroups of 32 invocations"
    late = "sums: the compiler for freedreno 740 no answer within 60 s: words of a driver"
    assert compilers.reason(late, "sums") == "the compiler for freedreno 740 gave no answer within 60 s"


def test_spills_and_refusals_are_counted_by_their_reasons(compilers: ModuleType) -> None:
    outcomes = {
        "lean": compilation(spills=0, scratch_nbytes=0),
        "spilled": compilation(spills=3),
        "scratch": compilation(scratch_nbytes=64),
        "wide": MissingFeature("[0] Arc cannot run wide: capability Float64 needs the feature shaderFloat64"),
        "wider": MissingFeature("[0] Arc cannot run wider: capability Float64 needs the feature shaderFloat64"),
        "ended": VkComputeError("ended: the compiler for dg2 was ended by SIGSEGV\nand more"),
    }
    row = compilers.summary("dg2", [Shader(name, b"") for name in outcomes], [*outcomes.values()])
    assert row == {
        "device": "Arc",
        "driver": "anv",
        "kind": "gpu",
        "kernels": 6,
        "own": [3, 6],
        "spills": {"spilled": 3, "scratch": "64 bytes"},
        "refused": {
            "capability Float64 needs the feature shaderFloat64": ["wide", "wider"],
            "the compiler for dg2 was ended by SIGSEGV": ["ended"],
        },
    }
    assert "3 of 6 kernels compiled" in compilers.text("dg2", row)
    page = compilers_table.page(compilers_table.START + compilers_table.END, [row])
    assert (
        "| anv | Arc | 3 of 6 | 3 of 6 | spilled, scratch | 2: shaderFloat64; 1: the compiler for dg2 was ended" in page
    )


def test_kernels_for_a_poorer_device_are_counted_apart(compilers: ModuleType) -> None:
    """Those for a larger device may be refused; the others are what the library makes for such a device."""
    shaders = [Shader(name, b"") for name in ("sum", "wide", "sum, poor", "wide, poor", "poor")]
    outcomes = [compilation(spills=9), MissingFeature("no"), compilation(spills=1), MissingFeature("no"), compilation()]
    row = compilers.summary("freedreno 660", shaders, outcomes)
    assert (row["kind"], row["kernels"], row["own"]) == ("poor", 5, [1, 2])
    page = compilers_table.page(compilers_table.START + compilers_table.END, [row])
    assert "| anv | Arc | 3 of 5 | 1 of 2 | sum, poor | 2: no |" in page


@pytest.mark.parametrize(("kind", "lacks"), [("apple", {"Float64"}), ("poor", {*WIDE})])
def test_a_poorer_device_gets_no_type_that_it_lacks(compilers: ModuleType, kind: str, lacks: set[str]) -> None:
    amd = compilers.amd
    vendor = amd.AMD.like(named(compilers.recorded.PROFILES[kind]))
    listed = [amd.elementwise(vendor.options, expression, dtypes.split()) for expression, dtypes in amd.ELEMENTWISE]
    used = {name for shader in listed for name in load(shader.spirv).interface.capabilities}
    assert used & WIDE == WIDE - lacks
    block = load(next(amd.block_programs(vendor)).spirv).interface
    assert not any(name.startswith("GroupNonUniform") for name in block.capabilities)
    assert block.local_size.effective({})[0] <= vendor.target.max_invocations


def test_a_kernel_at_which_the_compiler_ends_is_tried_again_alone(
    compilers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process for all, time that others took may have ended it; a refusal by name is no end."""
    asked: list[tuple[int, float]] = []
    refused = MissingFeature("no int64")

    def outcomes(gpu: ImitatedGPU, shaders: list[Shader], *, with_assembly: bool) -> list[Any]:
        asked.append((len(shaders), gpu.timeout_s))
        ended = VkComputeError("the compiler ended")
        return [compilation(), ended, refused] if len(shaders) == 3 else [compilation(instructions=7)]

    monkeypatch.setattr(compilers, "outcomes_on", outcomes)
    result = compilers.outcomes_of(ImitatedGPU("dg2", "Arc", {}, 900), [Shader(name, b"") for name in "abc"])
    assert asked == [(3, 900), (1, 120)]
    assert result[1].statistics.instructions == 7
    assert result[2] is refused


def test_a_driver_that_is_not_here_is_named(compilers: ModuleType, tmp_path: Path) -> None:
    """A manifest of a library that does not exist, and a variable that ends no other driver."""
    imitated = [gpu for gpu in compilers.gpus(tmp_path, tmp_path) if gpu.name.startswith("intel")]
    assert [gpu.name for gpu in imitated] == [f"intel {name}" for name in ("skl", "icl", "tgl", "dg2")]
    environ = {name: value for name, value in imitated[0].environ.items() if name != "LD_PRELOAD"}
    assert "absent" in compilers.row(imitated[0]._replace(environ=environ), [Shader("doubled", b"")])


def test_an_imitated_gpu_compiles_without_assembly() -> None:
    gpu = ImitatedGPU("navi21", "RADV navi21", {"RADV_FORCE_FAMILY": "navi21"})
    shaders = [Shader("doubled", vc.glsl(DOUBLED)), Shader("broken", b"\x03\x02\x23\x07")]
    try:
        outcomes = outcomes_on(gpu, shaders, with_assembly=False)
    except vc.NoDevice as error:
        pytest.skip(str(error))
    assert outcomes[0].assembly == ""
    assert outcomes[0].statistics.spills == 0
    assert isinstance(outcomes[1], VkComputeError)


def test_the_page_has_the_record() -> None:
    page = compilers_table.PAGE.read_text(encoding="utf-8")
    assert compilers_table.page(page, compilers_table.rows()) == page, "run python scripts/compilers_table.py"


def kernels_of(path: Path) -> set[str]:
    """The names of the kernels that a file defines, without those that others of them call."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    ends = ".kernel", ".jit"
    kernels = [f for f in functions if any(ast.unparse(d).partition("(")[0].endswith(ends) for d in f.decorator_list)]
    called = {ast.unparse(call.func) for f in kernels for call in ast.walk(f) if isinstance(call, ast.Call)}
    return {f.name for f in kernels} - called


def test_all_kernels_of_examples_and_benchmarks_are_recorded(compilers: ModuleType) -> None:
    files = [*(ROOT / "examples").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    kernels = {
        name: path.name for path in files if path.stem not in compilers.recorded.LEFT_OUT for name in kernels_of(path)
    }
    assert len(kernels) > 20
    known = json.loads(compilers.recorded.RECORD.read_text())
    assert {name: path for name, path in kernels.items() if name not in known["gpu"]} == {}
    assert {*known} <= {*compilers.recorded.PROFILES}


def test_every_compiler_got_all_kernels(compilers: ModuleType) -> None:
    """Those of AMD's table, which CI compares with the list, and the recorded modules: no row is of an older list."""
    listed = json.loads(compilers.amd.RECORD.read_text())["figures"][compilers.amd.FAMILIES[0]]
    n_compiled_here = sum(not name.startswith(("wheel: ", "GLSL: ")) for name in listed)
    recorded = {kind: sum(names.values()) for kind, names in json.loads(compilers.recorded.RECORD.read_text()).items()}
    rows = json.loads(compilers.RECORD.read_text())
    assert {"radv", "intel", "freedreno", "nouveau", "broadcom", "panfrost", "asahi", "Metal"} <= {
        name.partition(" ")[0] for name in rows
    }
    for name, row in rows.items():
        kind = compilers.kind_of(name)
        n_own = (len(listed) if kind == "gpu" else n_compiled_here) + recorded.get(kind, 0)
        assert row["own"][1] == n_own, f"{name}: compile the kernels that are new, by python benchmarks/compilers.py"


def test_every_benchmark_is_recorded_or_the_reason_is_told(compilers: ModuleType) -> None:
    programs = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert programs == {*compilers.recorded.BENCHMARKS, *compilers.recorded.LEFT_OUT}


def test_what_a_program_compiles_is_recorded(compilers: ModuleType, tmp_path: Path) -> None:
    assert compilers.recorded.run(("examples/saxpy.py",), "poor", tmp_path) == ""
    shaders = [*compilers.recorded.shaders(tmp_path)]
    assert [shader.name for shader in shaders] == ["saxpy #1", "saxpy #2"]
    assert all(load(shader.spirv).interface.bindings for shader in shaders)
    assert compilers.recorded.run(("examples/none.py",), "poor", tmp_path).startswith("status 2: ")


@pytest.mark.rotates
def test_block_programs_are_recorded_for_subgroups_of_a_gpu(compilers: ModuleType, tmp_path: Path) -> None:
    """Software drivers with a profile have none of one size: programs exchange by workgroup memory, and spill."""
    assert compilers.recorded.run(("examples/triton_softmax.py",), "gpu", tmp_path) == ""
    shaders = [*compilers.recorded.shaders(tmp_path)]
    assert {shader.subgroup_size for shader in shaders} == {32}
    used = {name for shader in shaders for name in load(shader.spirv).interface.capabilities}
    assert "GroupNonUniformShuffle" in used
