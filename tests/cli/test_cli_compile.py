"""`vkcompute compile`: SPIR-V on disk, the interface on stdout, and errors that show the line. No device is used."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_done import Done

from vkcompute.cli.compile import _text
from vkcompute.compilers import discovery
from vkcompute.errors import NoCompiler
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

pytestmark = pytest.mark.pure

Run = Callable[..., Done]

SOURCE = """\
layout(local_size_x_id = 3, local_size_y = 2) in;
layout(constant_id = 7) const float scale = 2.5;
layout(constant_id = 8) const bool flip = true;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { int n; vec4 b[]; };
layout(set = 1, binding = 4) writeonly buffer C { vec4 c[]; };
layout(push_constant) uniform Push { float factor; uint counts[3]; ivec2 where; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    b[i] += a[i] * scale;
    if (flip) c[i] = b[i] * factor * EXTRA + float(counts[1] + n + where.y);
}
"""


@pytest.fixture(autouse=True)
def _compiler() -> None:
    try:
        discovery.find()
    except NoCompiler:
        pytest.skip("no GLSL compiler on this machine")


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "x.comp").write_text(SOURCE)
    return "x.comp"


def test_writes_spirv_beside_the_source(vk: Run, source: str, tmp_path: Path) -> None:
    done = vk("compile", source, "-D", "EXTRA=2.0")
    nbytes = (tmp_path / "x.spv").stat().st_size
    assert done == Done(0, f"wrote x.spv ({nbytes:,} bytes)\n", "")
    assert reflect(Module.parse((tmp_path / "x.spv").read_bytes())).spec_constants[1].default == 2.5


def test_quiet_says_nothing(vk: Run, source: str, tmp_path: Path) -> None:
    assert vk("compile", source, "-DEXTRA", "-o", "y.spv", "-q") == Done(0, "", "")
    assert (tmp_path / "y.spv").exists()


def test_defines_and_includes_reach_the_compiler(vk: Run, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "half.inc").write_text("const uint HALF = SIZE / 2;\n")
    (tmp_path / "x.comp").write_text('#include "half.inc"\nlayout(local_size_x = HALF + ONE) in;\nvoid main() {}\n')
    done = vk("compile", "x.comp", "-D", "SIZE=32", "-DONE", "-I", "more", "--json")
    assert json.loads(done.out)["local_size"]["default"] == [17, 1, 1]


def test_the_interface_as_json(vk: Run, source: str, listing: Callable[[], list[str]]) -> None:
    shown: dict[str, Any] = json.loads(vk("compile", source, "-DEXTRA=1", "--json").out)
    assert [(b["set"], b["binding"], b["reads"], b["writes"]) for b in shown["bindings"]] == [
        (0, 0, True, False),
        (0, 1, True, True),
        (1, 4, False, True),
    ]
    push = shown["push_constants"]["members"]
    assert [(m["name"], m["dtype"], m["offset_bytes"], m["shape"]) for m in push] == [
        ("factor", "float32", 0, []),
        ("counts", "uint32", 4, [3]),
        ("where", "int32", 16, [2]),
    ]
    assert [(c["spec_id"], c["name"], c["default"]) for c in shown["spec_constants"]] == [
        (3, "", 1),
        (7, "scale", 2.5),
        (8, "flip", True),
    ]
    assert shown["local_size"] == {"default": [1, 2, 1], "spec_ids": [3, None, None]}
    assert "Shader" in shown["capabilities"]
    assert listing() == ["x.comp"]


def test_the_interface_as_text(vk: Run, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [" ".join(line.split()) for line in vk("compile", source, "-DEXTRA=1", "--reflect").out.splitlines()]
    assert "local size 1 (constant 3) x 2 x 1" in lines
    assert "0 0 a storage buffer reads float32[]" in lines
    assert "0 1 B storage buffer reads, writes int32 n; float32[][4] b" in lines
    assert "1 4 c storage buffer writes float32 x 4[]" in lines
    assert "4 counts uint32[3] 12" in lines
    assert "7 scale float32 2.5" in lines
    assert max(map(len, lines)) <= 80


def test_a_kernel_without_anything(vk: Run, tmp_path: Path) -> None:
    (tmp_path / "x.comp").write_text("layout(local_size_x = 1) in;\nvoid main() {}\n")
    out = vk("compile", "x.comp", "--reflect").out
    assert all(f"no {what}" in out for what in ("bindings", "push constants", "specialization constants"))


def test_reflect_reads_spirv_and_writes_where_it_is_told(
    vk: Run, source: str, listing: Callable[[], list[str]]
) -> None:
    compiled = vk("compile", source, "-DEXTRA=1", "--reflect", "-o", "y.spv")
    assert vk("compile", "y.spv", "--reflect") == compiled
    assert listing() == ["x.comp", "y.spv"]


@pytest.mark.parametrize(
    ("columns", "kinds"), [(40, ["uniform_buffer"] * 3), (80, ["combined_image_sampler", "storage_texel_buffer"])]
)
def test_wide_signatures_are_cut_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, vk: Run, source: str, tmp_path: Path, columns: int, kinds: list[str]
) -> None:
    from dataclasses import replace

    vk("compile", source, "-DEXTRA=1")
    interface = reflect(Module.parse((tmp_path / "x.spv").read_bytes()))
    wide = tuple(replace(interface.bindings[1], kind=kind, name="n" * 70, count=0) for kind in kinds)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, _text(replace(interface, bindings=wide)).splitlines())) <= columns


def test_an_error_in_the_source_is_shown_with_its_line(vk: Run, source: str, listing: Callable[[], list[str]]) -> None:
    done = vk("compile", source)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("vkcompute: error: x.comp does not compile")
    assert re.search(r"x\.comp:11:(\d+:)? 'EXTRA'", done.err)
    assert "    if (flip) c[i] = b[i] * factor * EXTRA" in done.err
    assert "Traceback" not in done.err
    assert listing() == ["x.comp"]


def test_an_error_leaves_an_older_output_alone(vk: Run, source: str, tmp_path: Path) -> None:
    (tmp_path / "x.spv").write_bytes(b"old")
    assert vk("compile", source).status == 2
    assert (tmp_path / "x.spv").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("none.comp", "none.comp: No such file"),
        (". ", "Is a directory"),
        ("x.comp -D 1X", "'1X'"),
        ("x.comp -D X-Y=1", "'X-Y=1'"),
        ("x.comp -o x.comp", "is also another input or output"),
        ("x.comp -o none/x.spv", "the folder none does not exist"),
        ("x.comp --target vulkan9", "vulkan9"),
        ("y.spv", "SPIR-V already"),
        ("y.spv --reflect", "y.spv: "),
        ("y.spv --reflect -o z.spv", "SPIR-V already"),
        ("z.spv --reflect", "z.spv: "),
        ("latin.comp", "not UTF-8"),
    ],
)
def test_wrong_input(vk: Run, source: str, tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "y.spv").write_bytes(struct.pack("<5I", 0x07230203, 0x10000, 0, 9, 0) + b"\1\2\3")
    (tmp_path / "z.spv").write_bytes(b"")
    (tmp_path / "latin.comp").write_bytes(b"// \xe9\nvoid main() {}\n")
    done = vk("compile", *line.split())
    assert says in done.error()
    assert done.out == ""


def test_no_compiler(vk: Run, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_GLSLC", "/nonexistent/glslc")
    assert "/nonexistent/glslc" in vk("compile", source).error()
