"""AMD's compiler takes all shaders of the wheel, and the kernels of benchmarks and examples; none spills."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import vkcompute as vc

pytestmark = pytest.mark.pure
BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
# Elementwise functions whose operands and results have as many bytes, so that all accesses are of 16.
EVEN = [f"elementwise: x + y, {name}, {name}" for name in "float32 int32 float64 int64 float16 int16 uint8".split()]


@pytest.fixture(scope="module")
def amd() -> ModuleType:
    """The module of the table, which finds its neighbours in its folder."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return __import__("amd")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def compiled(amd: ModuleType) -> dict[str, dict[str, Any]]:
    """Family -> kernel -> compilation."""
    try:
        result: dict[str, dict[str, Any]] = amd.table()[2]
    except vc.NoDevice as error:
        pytest.skip(str(error))
    return result


def memory_instructions(assembly: str) -> list[str]:
    """The instructions that access buffers, without their operands."""
    words = [line.split()[0] for line in assembly.splitlines() if line.startswith("\t")]
    return [word for word in words if word.startswith(("buffer_load", "buffer_store", "global_", "flat_"))]


def test_all_compile_and_none_spills(amd: ModuleType, compiled: dict[str, dict[str, Any]]) -> None:
    assert list(compiled) == ["vega10", "navi10", "navi21"]
    for family, rows in compiled.items():
        assert len(rows) > 40
        bad = [name for name, row in rows.items() if row.statistics.spills or row.statistics.scratch_nbytes]
        assert bad == [], family


def test_contiguous_elementwise_functions_access_128_bits(compiled: dict[str, dict[str, Any]]) -> None:
    for rows in compiled.values():
        products = [name for name in rows if name.startswith("wheel: multiply") and "texels" not in name]
        assert products
        for name in [*EVEN, *products]:
            result = memory_instructions(rows[name].assembly)
            assert set(result) == {"buffer_load_dwordx4", "buffer_store_dwordx4"}, name
        for name, each in rows.items():
            if name.startswith("elementwise") and "broadcast" not in name:
                assert "buffer_load_dwordx4" in memory_instructions(each.assembly), name


def test_the_record_has_the_kernels_of_today(amd: ModuleType, compiled: dict[str, dict[str, Any]]) -> None:
    """Only their names: `make amd` compares the figures."""
    recorded = json.loads(amd.RECORD.read_text())["figures"]
    assert {family: set(rows) for family, rows in recorded.items()} == {
        family: set(rows) for family, rows in compiled.items()
    }


def test_a_change_is_seen(amd: ModuleType) -> None:
    record = json.loads(amd.RECORD.read_text())
    before = record["figures"]
    assert amd.text(record["driver"], before) == amd.RECORD.read_text()
    assert amd.changes(before, before) == []
    after = copy.deepcopy(before)
    after["navi10"]["Python: saxpy"]["registers"] += 4
    after["navi21"]["new"] = after["navi21"].pop("Python: kick")
    registers = before["navi10"]["Python: saxpy"]["registers"]
    assert amd.changes(before, after) == [
        f"navi10: Python: saxpy: registers {registers} -> {registers + 4}",
        "navi21: Python: kick: gone",
        "navi21: new: new",
    ]


def test_block_programs_read_and_write_each_element_once(compiled: dict[str, dict[str, Any]]) -> None:
    for family, rows in compiled.items():
        softmax, add = rows["block: softmax_kernel"], rows["block: block_add"]
        assert add.statistics.occupancy >= 8, family
        loads = [word for word in memory_instructions(softmax.assembly) if "load" in word]
        n_threads = 128
        assert len(loads) * n_threads * 4 == 1024, (family, loads)


def test_functions_along_lines_access_each_element_once(compiled: dict[str, dict[str, Any]]) -> None:
    """A workgroup of 128 has two groups of four elements per invocation, of x and of the result."""
    for family, rows in compiled.items():
        for name in ("softmax", "log_softmax", "layer_norm alone"):
            result = memory_instructions(rows[f"nn: {name}"].assembly)
            assert result == ["buffer_load_dwordx4"] * 2 + ["buffer_store_dwordx4"] * 2, (family, name)


def test_most_instructions_of_a_matrix_product_are_multiply_adds(compiled: dict[str, dict[str, Any]]) -> None:
    result = compiled["navi21"]["blocks: matrix product, float32"]
    lines = [line.split()[0] for line in result.assembly.splitlines() if line.strip()]
    adds = [at for at, name in enumerate(lines) if name.startswith(("v_fma", "v_pk_fma"))]
    back = next(at for at in range(adds[-1], len(lines)) if lines[at].startswith(("s_branch", "s_cbranch")))
    loop = lines[adds[0] : back + 1]
    loads = [each for each in lines[: adds[0]] if each.startswith(("buffer_load", "ds_"))]
    assert len(adds) >= 0.75 * (len(loop) + len(loads))
    assert {"buffer_load_dwordx4", "ds_write_b128", "ds_read_b128"} == {*loads}
    assert {item for item in loop if item.startswith("ds_")} <= {"ds_read_b128"}
