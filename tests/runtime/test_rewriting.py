"""SPIR-V rewritten for a driver: kept on disk, found by everything that it depends on, and never taken otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hang_limit import hang_limit_s

from vkcompute import code_version, disk
from vkcompute.core.quirks import Quirks
from vkcompute.glsl import glsl
from vkcompute.runtime.launching import rewriting
from vkcompute.runtime.launching.program import Program, load
from vkcompute.spirv.branch_folding import fold_branches
from vkcompute.spirv.constant_operands import hide_constant_operands
from vkcompute.spirv.conversions import replace_conversions
from vkcompute.spirv.divisors import hide_divisors
from vkcompute.spirv.float_controls import preserve_special_floats
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate
from vkcompute.spirv.zeros import hide_zeros

SOURCE = """
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 8) in;
layout(constant_id = 3) const bool adds = true;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer N { int n[]; };
layout(binding = 2) buffer Wide { int64_t wide[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    float value = 1.5;
    if (x[i] > 3.0) value = sqrt(2.0);
    if (adds) value += float(i) * 0.0;
    x[i] = value * 0.0 + float(i);
    wide[i] = int64_t(n[i] / (n[i + 1] + 2));
}
"""
INTEGERS = "layout(local_size_x = 1) in; layout(binding = 0) buffer A { int a[]; }; void main() { a[0] += 2; }"
STEPS = (
    "fold_branches",
    "preserve_special_floats",
    "replace_conversions",
    "hide_zeros",
    "hide_divisors",
    "hide_constant_operands",
)
CONVERSIONS = (), ("int32 to int64",), ("uint32 to float32",), ("int32 to int64", "uint32 to float32")


@pytest.fixture(scope="module")
def program() -> Program:
    """A program with everything that is rewritten for some driver."""
    return load(glsl(SOURCE))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rewritten modules, which is empty."""
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    return tmp_path / "vkcompute" / "rewritten"


@pytest.fixture
def rewritten(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """`rewriting.rewritten` for a driver with these quirks."""

    def of(program: Program, quirks: Quirks, preserved: tuple[int, ...] = (), values: Mapping[int, int] = {}) -> bytes:
        physical: Any = SimpleNamespace(preserved_floats=preserved)
        monkeypatch.setattr(rewriting, "quirks_of", lambda _: quirks)
        return rewriting.rewritten(program, physical, values)

    return of


ALL = Quirks(
    masks_branches=True,
    wrong_conversions=CONVERSIONS[-1],
    simplifies_zeros=True,
    divides_by_known_lanes=True,
    loses_functions_of_constants=True,
)


def directly(program: Program, quirks: Quirks, preserved: tuple[int, ...], values: Mapping[int, int]) -> bytes:
    """The rewritten module, without a cache."""
    result = fold_branches(program.spirv, values) if quirks.masks_branches else program.spirv
    result = preserve_special_floats(result, program.interface.capabilities, preserved)
    result = replace_conversions(result, quirks.wrong_conversions)
    result = hide_zeros(result) if quirks.simplifies_zeros else result
    result = hide_divisors(result) if quirks.divides_by_known_lanes else result
    return hide_constant_operands(result) if quirks.loses_functions_of_constants else result


def test_every_driver_and_every_constant_has_a_module_of_its_own(
    program: Program, rewritten: Callable[..., bytes]
) -> None:
    names = "masks_branches", "simplifies_zeros", "divides_by_known_lanes", "loses_functions_of_constants"
    cases = [
        (Quirks(**dict(zip(names, flags, strict=True)), wrong_conversions=conversions), preserved, values)
        for flags in product([False, True], repeat=len(names))
        for conversions, preserved, values in product(CONVERSIONS, [(), (32,)], [{}, {3: 0}, {3: 1}])
    ]
    wanted = [directly(program, *case) for case in cases]
    for _ in range(2):  # the second time from the disk
        assert [rewritten(program, *case) for case in cases] == wanted
    assert len({*wanted}) > 2 ** len(names) * len(CONVERSIONS)
    for each in {*wanted}:
        validate(Module.parse(each))


def test_a_module_on_disk_is_rewritten_already(
    program: Program, rewritten: Callable[..., bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ALL, (32,), {3: 1}
    wanted = rewritten(program, *given)
    (entry,) = cache.iterdir()
    assert disk.read_cached(entry) == wanted != program.spirv
    for name in STEPS:
        poison = lambda *_: pytest.fail("rewritten again")  # noqa: E731
        poison.__name__ = name  # a part of the key
        monkeypatch.setattr(rewriting, name, poison)
    assert rewritten(program, *given) == wanted
    entry.unlink()
    with pytest.raises(pytest.fail.Exception):
        rewritten(program, *given)


@pytest.mark.parametrize("harm", [lambda data: data[:-4] + b"????", lambda data: data[: len(data) // 2], lambda _: b""])
def test_a_damaged_entry_is_rewritten_again(
    program: Program, rewritten: Callable[..., bytes], cache: Path, harm: Callable[[bytes], bytes]
) -> None:
    wanted = rewritten(program, ALL)
    (entry,) = cache.iterdir()
    intact = entry.read_bytes()
    entry.write_bytes(harm(intact))
    assert rewritten(program, ALL) == wanted
    assert entry.read_bytes() == intact


def test_a_module_that_stays_as_it_is_takes_no_space(rewritten: Callable[..., bytes], cache: Path) -> None:
    program = load(glsl(INTEGERS))
    for _ in range(2):
        assert rewritten(program, Quirks(simplifies_zeros=True)) == program.spirv
        (entry,) = cache.iterdir()
        assert disk.read_cached(entry) == b""


def test_a_driver_without_quirks_needs_no_disk(program: Program, rewritten: Callable[..., bytes], cache: Path) -> None:
    assert rewritten(program, Quirks()) == program.spirv
    assert not cache.exists()


def test_modules_of_other_code_are_not_taken(
    program: Program, rewritten: Callable[..., bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = rewritten(program, ALL)
    (entry,) = cache.iterdir()
    disk.write_cached(entry, b"of other code")
    monkeypatch.setattr(code_version, "__version__", "other")
    assert rewritten(program, ALL) == wanted
    assert len([*cache.iterdir()]) == 2


def test_code_without_a_version_keeps_nothing(
    program: Program, rewritten: Callable[..., bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "_FOLDERS", (cache / "in an archive",))
    assert rewritten(program, ALL) == directly(program, ALL, (), {})
    assert not cache.exists()


def test_versions_change_with_each_file(tmp_path: Path) -> None:
    version = lambda: code_version.code_version(tmp_path, tmp_path / "inner")  # noqa: E731
    (tmp_path / "inner").mkdir()
    results = set()
    for name in ("a.py", "inner/b.py", "inner/c.py"):
        (tmp_path / name).write_text("")
        code_version._files.cache_clear()
        results.add(version())
    (tmp_path / "inner" / "c.py").write_text("1")
    code_version._files.cache_clear()
    results.add(version())
    assert len(results - {None}) == 3  # an empty folder has no version
    (tmp_path / "inner" / "c.txt").write_text("1")
    code_version._files.cache_clear()
    assert version() in results


def test_installed_files_of_one_time_are_told_apart(tmp_path: Path) -> None:
    """Reproducible installations give every file the same time, and another version may have the same sizes."""
    versions = set()
    for text in ("x < 1", "x > 1"):
        for name in ("a.py", "b.py"):
            (tmp_path / name).write_text(text if name == "b.py" else "")
            os.utime(tmp_path / name, (1, 1))
        code_version._files.cache_clear()
        versions.add(code_version.code_version(tmp_path))
    assert len(versions) == 2


KERNEL = """
import sys
import numpy as np
import vkcompute as vc
from vkcompute.runtime.launching import rewriting

for name in sys.argv[1:]:
    def poison(*_):
        raise SystemExit("rewritten again")
    poison.__name__ = name
    setattr(rewriting, name, poison)

@vc.kernel
def kernel(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * 0.0 + np.float32(np.int64(i) < 5)

with vc.Runtime() as gpu:
    x, out = gpu.array(np.array([1, np.nan, np.inf, -2], np.float32)), gpu.zeros(4)
    kernel(x, out)
    print(out.numpy().tolist())
"""


def test_another_process_launches_what_this_one_has_rewritten(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(KERNEL)
    for given in ((), STEPS):
        command = [sys.executable, str(tmp_path / "program.py"), *given]
        done = subprocess.run(
            command, env=os.environ, capture_output=True, text=True, timeout=hang_limit_s(), check=False
        )
        assert (done.stdout, done.stderr) == ("[1.0, nan, nan, 1.0]\n", "")
