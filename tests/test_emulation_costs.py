"""What emulated types cost by AMD's compiler: as docs/devices.md has it, and within the limits of the design."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compiled.arguments import kind_of_array
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.frontend.source import definition_of
from vkcompute.ir import Target
from vkcompute.jit.compilation.build import specialize
from vkcompute.runtime.launching.imitated_gpu import Compilation, Shader
from vkcompute.runtime.launching.radv import compile_for

pytestmark = pytest.mark.pure
PAGE = Path(__file__).resolve().parent.parent / "docs" / "devices.md"
OPTIONS = CompileOptions(
    target=Target(
        keeps_loop_results=True, preserved_floats=(16, 32), missing_types=("int64", "uint64", "float64", "complex128")
    ),
    local_size=(64, 1, 1),
)
# The row of the page -> for each of its numbers: what is computed, and the types of the operands and the result.
INTEGERS = {
    "and, or, xor": ["x & y: i8 i8 i8"],
    "sum, difference": ["x + y: i8 i8 i8"],
    "product": ["x * y: i8 i8 i8"],
    "comparison": ["x < y: i8 i8 i4"],
    "shift by a variable": ["x << y: i8 i8 i8"],
    "conversion to float32, to the nearest": ["vc.float32(x): i8 f4"],
    "quotient by a constant, rounded down (7; -7; of uint64 by 1000)": [
        "x // 7: i8 i8",
        "x // -7: i8 i8",
        "x // 1000: u8 u8",
    ],
    "remainder by a constant (7; -7; of uint64 by 1000)": ["x % 7: i8 i8", "x % -7: i8 i8", "x % 1000: u8 u8"],
    "quotient by a variable, rounded down (of uint64)": ["x // y: i8 i8 i8", "x // y: u8 u8 u8"],
}
FLOATS = {
    "sum": ["x + y: f8 f8 f8"],
    "product": ["x * y: f8 f8 f8"],
    "quotient": ["x / y: f8 f8 f8"],
    "square root": ["np.sqrt(x): f8 f8"],
    "fused multiply-add": ["vc.fma(x, y, z): f8 f8 f8 f8"],
    "comparison": ["x < y: f8 f8 i4"],
    "conversion to float32": ["vc.float32(x): f8 f4"],
    "exponential": ["np.exp(x): f8 f8"],
    "logarithm": ["np.log(x): f8 f8"],
    "sine": ["np.sin(x): f8 f8"],
    "arc tangent": ["np.arctan(x): f8 f8"],
    "inverse sine": ["np.arcsin(x): f8 f8"],
    "tangent": ["np.tan(x): f8 f8"],
    "power": ["x ** y: f8 f8 f8"],
    "rounding to a whole number": ["np.rint(x): f8 f8"],
}
DIVISIONS = [f"x // {n}: i8 i8" for n in (3, 10, 1000, 10**9 + 7, 2**62 - 1, 2**63 - 1, -1, -8, -1000, -(2**63))]
DIVISIONS += [f"x // {n}: u8 u8" for n in (3, 7, 10, 2**64 - 59)]
DIVISIONS += [f"x % {n}: i8 i8" for n in (3, 1000, 10**9 + 7, 2**31, -3, -10, -1000, -(10**9) - 7, -(2**31))]
LIMITS = {"sum": 200, "product": 150, "fused multiply-add": 350, "quotient": 400, "square root": 400}
COPY = "x: i8 i8"


def written(kind: str) -> dict[str, list[int]]:
    """The rows of a table of the page: what is computed -> the numbers of instructions."""
    table = PAGE.read_text(encoding="utf-8").partition(f"| operation on {kind} |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([\d, ()]+) \|$", table, re.MULTILINE)
    return {name: [int(n.replace(",", "")) for n in re.findall(r"[\d,]+", numbers)] for name, numbers in rows}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compilation]:
    """What is computed -> a kernel that does."""
    computed = dict.fromkeys(
        [COPY, *DIVISIONS, *[text for table in (INTEGERS, FLOATS) for row in table.values() for text in row]]
    )
    lines, signatures = ["import numpy as np", "import vkcompute as vc"], []
    for number, text in enumerate(computed):
        result, _, types = text.partition(": ")
        names = "xyz"[: len(types.split()) - 1]
        lines += ["@vc.kernel", f"def k{number}({', '.join(f'{name}s' for name in names)}, out):"]
        lines += ["    i = vc.global_id(0)", *[f"    {name} = {name}s[i]" for name in names], f"    out[i] = {result}"]
        signatures.append(tuple([kind_of_array(np.zeros(1, kind)) for kind in types.split()]))
    file = tmp_path_factory.mktemp("costs") / "kernels_of_costs.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    module: dict[str, Any] = runpy.run_path(str(file))
    kernels = [definition_of(module[f"k{number}"].__wrapped__) for number in range(len(computed))]
    shaders = [
        Shader(text, specialize(kernel, signature, OPTIONS).spirv)
        for text, kernel, signature in zip(computed, kernels, signatures, strict=True)
    ]
    try:
        return dict(zip(computed, compile_for("navi21", shaders), strict=True))
    except vc.NoDevice as error:
        pytest.skip(str(error))


def n_vector(compilation: Compilation) -> int:
    """The number of its vector instructions."""
    return len(re.findall(r"^\s+v_", compilation.assembly, re.MULTILINE))


@pytest.mark.parametrize(("kind", "table"), [("int64", INTEGERS), ("float64", FLOATS)])
def test_the_page_has_the_costs(compiled: dict[str, Compilation], kind: str, table: dict[str, list[str]]) -> None:
    if "Mesa 22.3" not in compiled[COPY].statistics.driver:
        pytest.skip("the page has the figures of another compiler")
    addresses = n_vector(compiled[COPY])
    costs = {name: [n_vector(compiled[text]) - addresses for text in texts] for name, texts in table.items()}
    rows = written(kind)
    assert {name: rows.get(name) for name in table} == costs


@pytest.mark.parametrize("name", LIMITS)
def test_operations_of_float64_cost_at_most_what_they_may(compiled: dict[str, Compilation], name: str) -> None:
    compilation = compiled[FLOATS[name][0]]
    assert n_vector(compilation) - n_vector(compiled[COPY]) <= LIMITS[name]
    assert compilation.statistics.spills == 0


def test_divisions_by_constants_cost_at_most_what_they_may(compiled: dict[str, Compilation]) -> None:
    """Also by those of which the reciprocal has 65 bits."""
    texts = [*DIVISIONS, *[text for name, row in INTEGERS.items() if "by a constant" in name for text in row]]
    costs = {text: n_vector(compiled[text]) - n_vector(compiled[COPY]) for text in texts}
    assert {text: n for text, n in costs.items() if n > 40} == {}
