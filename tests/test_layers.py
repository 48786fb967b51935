"""The structure of the package: imports run one way, one module imports the binding, and importing loads no driver."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import import_graph
import pytest
from import_graph import ROOT, import_statements, imports, modules, targets, tree

pytestmark = pytest.mark.pure

# The layers, lowest first. A unit is a module or a package directly in vkcompute/. It imports from lower layers, from
# itself, and from its own layer as long as that makes no circle.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "locks", "deferred_calls", "errors", "float_formats", "dtypes", "disk", "code_version", "array_namespace",
        "representation", "_version", "spirv", "ir",
    ),
    ("operations",),
    ("child_process", "slow_work"),
    ("compilers", "glsl"),
    ("core",),
    ("runtime",),
    ("compiled",),
    ("frontend",),
    ("jit", "tile", "blocks", "c"),
    ("arrays", "numpy", "neighbours", "rows", "segments"),
    ("pipelines", "nn"),
    ("compat", "cli", "dask", "dask_sizeof", "torch"),
    ("__init__", "__main__", "gpu_report"),
)  # fmt: skip
LAYER_OF = {unit: number for number, units in enumerate(LAYERS) for unit in units}
BINDING = "core.vk"  # the only module that may import `vulkan`
ABOVE_LANGUAGES = "arrays", "numpy", "pipelines", "nn"
"""Packages whose programs are written in the block language or the kernel language."""
MAX_FUNCTION_LINES = 30
MAX_IMPORTS = 25
SOURCES = ("vkcompute", "scripts", "tools", "tests", "examples", "benchmarks")


def unit(module: str) -> str:
    return module.split(".")[0]


def circle(edges: dict[str, set[str]]) -> list[str]:
    """The nodes of one circle in a directed graph, first node again at the end; [] where there is none."""
    state: dict[str, int] = {}
    path: list[str] = []

    def visit(node: str) -> list[str]:
        state[node] = 1
        path.append(node)
        for following in sorted(edges.get(node, ())):
            if state.get(following) == 1:
                return [*path[path.index(following) :], following]
            result = visit(following) if following not in state else []
            if result:
                return result
        path.pop()
        state[node] = 2
        return []

    return next((result for node in sorted(edges) if node not in state and (result := visit(node))), [])


def graph(pairs: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {}
    for a, b in pairs:
        if a != b:
            edges.setdefault(a, set()).add(b)
    return edges


def test_every_unit_has_a_layer() -> None:
    units = {unit(module) for module in modules()}
    assert units - set(LAYER_OF) == set(), "give it a place in LAYERS, and in docs/"


def test_no_import_goes_up() -> None:
    upward = [
        f"{modules()[i.source].relative_to(ROOT)}:{i.line} imports {i.target}"
        for i in imports()
        if LAYER_OF[unit(i.target)] > LAYER_OF[unit(i.source)]
    ]
    assert upward == []


def test_blocks_are_lowered_without_the_kernels_in_python() -> None:
    upward = [f"{each.source} imports {each.target}" for each in imports() if unit(each.source) == "tile"]
    assert [item for item in upward if " jit" in item] == []


def test_no_module_imports_from_more_than_25() -> None:
    """But for the names of packages."""
    edges = graph((one.source, one.target) for one in imports())
    many = {name: len(its) for name, its in edges.items() if len(its) > MAX_IMPORTS}
    assert [name for name in many if modules()[name].name != "__init__.py"] == []


def test_no_circle_between_modules() -> None:
    assert circle(graph((i.source, i.target) for i in imports())) == []


def subpackages(folder: str) -> Iterator[tuple[str, str]]:
    """(importing, imported) direct children of a package, "" for vkcompute itself."""
    depth = folder.count(".") + 1 if folder else 0
    for each in imports():
        ends = [end.split(".") for end in (each.source, each.target)]
        if all(end[:depth] == (folder.split(".") if folder else []) and len(end) > depth for end in ends):
            yield ends[0][depth], ends[1][depth]


@pytest.mark.parametrize("folder", ["", *sorted({m.rpartition(".")[0] for m in modules() if "." in m})])
def test_no_circle_between_subpackages(folder: str) -> None:
    """Holds for the packages in each package too: one is below the other, whichever of their files import."""
    assert circle(graph(subpackages(folder))) == []


SUBPACKAGES = {"arrays": ("expressions", "algorithms", "functions", "function_table", "namespace", "methods")}
"""The subpackages and modules of packages, lowest first."""


@pytest.mark.parametrize("folder", SUBPACKAGES)
def test_subpackages_import_from_lower_ones(folder: str) -> None:
    order = SUBPACKAGES[folder]
    assert [pair for pair in subpackages(folder) if order.index(pair[0]) < order.index(pair[1])] == []


_IMPORTERS = "import_module", "__import__"


def foreign(node: ast.AST) -> str | None:
    """The top-level package that an import statement or an import call names."""
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return (node.module or "").split(".")[0]
    callee = getattr(node, "func", None)
    if isinstance(node, ast.Call) and getattr(callee, "attr", getattr(callee, "id", "")) in _IMPORTERS:
        name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        return name.split(".")[0] if isinstance(name, str) else None
    return None


def names_vulkan(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "vulkan" for alias in node.names)
    return foreign(node) == "vulkan"


ASKS_FOR_CPU = {
    "compat.triton.runtime.driver": "the number of multiprocessors",
    "dask.worker": "whether the device's memory is that of the process",
    "gpu_report.checks.scheduling": "the size of the work",
    "gpu_report.figures.rates": "the size of the work",
    "runtime.tuning": "the table of what is faster",
}
"""Modules above core/ that test whether a device is a CPU, and for what."""


def test_what_is_faster_on_a_cpu_is_in_one_table() -> None:
    """Names each module that compares a device's kind: a figure that is only faster is a row of `Tuning`."""
    asking = {
        name
        for name, path in modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Compare)
        and getattr(node.left, "attr", "") == "kind"
        and getattr(node.comparators[0], "value", None) == "cpu"
    }
    assert {name for name in asking if unit(name) != "core"} <= ASKS_FOR_CPU.keys()


def test_vulkan_is_imported_in_one_place() -> None:
    users = {name for name, path in modules().items() if any(names_vulkan(n) for n in ast.walk(tree(path)))}
    assert users <= {BINDING}


def test_programs_above_the_languages_are_written_in_them() -> None:
    """No module there imports the builder of block programs, or anything of `ir/`."""
    users = {
        i.source
        for i in imports()
        if unit(i.source) in ABOVE_LANGUAGES and (unit(i.target) == "ir" or i.target in ("tile", "tile.builder"))
    }
    assert users == set()


IMPORT_ALONE = """
import sys, threading
import vkcompute
loaded = [m for m in ("vulkan", "sklearn", "matplotlib", "tqdm", "scipy") if m in sys.modules]
try:
    maps = open("/proc/self/maps").read()
except OSError:
    maps = ""
loaded += ["the Vulkan loader"] if "libvulkan" in maps else []
print(loaded, threading.active_count())
"""


def test_import_loads_no_driver_and_starts_no_thread(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(IMPORT_ALONE)
    assert done.stderr == ""
    assert done.stdout == "[] 1\n"


def sources() -> list[Path]:
    """Every Python file of the project."""
    return sorted([*ROOT.glob("*.py"), *(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))])


def function_lengths() -> dict[str, int]:
    """Lines of each function outside of the tests, from `def` to its last line."""
    lengths = {}
    for path in sources():
        if path.is_relative_to(ROOT / "tests"):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                lengths[place] = (node.end_lineno or node.lineno) - node.lineno + 1
    return lengths


def test_nine_of_ten_functions_are_short() -> None:
    lengths = function_lengths()
    long = {place: n for place, n in lengths.items() if n > MAX_FUNCTION_LINES}
    assert len(long) <= len(lengths) / 10, long


def test_every_public_module_has_a_docstring() -> None:
    public = [n for n in modules() if not any(p.startswith("_") and p != "__init__" for p in n.split("."))]
    assert [name for name in public if not ast.get_docstring(tree(modules()[name]))] == []


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({}, []),
        ({"a": {"b"}, "b": {"c"}, "d": {"c"}}, []),
        ({"a": {"b"}, "b": {"a"}}, ["a", "b", "a"]),
        ({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}, ["b", "c", "d", "b"]),
    ],
)
def test_circle(edges: dict[str, set[str]], expected: list[str]) -> None:
    assert circle(edges) == expected


EVERY_FORM = """
from __future__ import annotations
import vkcompute.core.vk as v
import numpy, vulkan
from . import b
from ..runtime import Task
from vkcompute import errors, Runtime
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from vkcompute.cli import main
else:
    from ..kernel import Kernel
def f():
    from vkcompute.pipelines.multiply import x
"""


def test_the_reader_of_imports_sees_every_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Covers relative and aliased imports, those inside of functions, and those for types only."""
    source = tmp_path / "a.py"
    source.write_text(EVERY_FORM)
    names = (
        "core.vk",
        "core",
        "core.b",
        "runtime",
        "errors",
        "__init__",
        "cli",
        "pipelines.multiply",
        "core.a",
        "kernel",
    )
    table = {name: source if name == "core.a" else tmp_path / "__init__.py" for name in names}
    monkeypatch.setattr(import_graph, "modules", lambda: table)
    seen = {t for node in import_statements(tree(source)) for t in targets("core.a", node)}
    assert seen == {
        "core.vk",
        "core.b",
        "runtime",
        "errors",
        "__init__",
        "cli",
        "kernel",
        "pipelines.multiply",
    }
