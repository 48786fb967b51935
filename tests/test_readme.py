"""The programs of the README and of docs/ run, in the order in which a reader meets them."""

from __future__ import annotations

import ast
import builtins
import functools
import json
import keyword
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hang_limit import hang_limit_s

import vkcompute as vc
from vkcompute.cli import COMMANDS, main

pytestmark = pytest.mark.pure  # what the programs call is tested on each driver

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIALS = sorted(f"tutorials/{path.name}" for path in (ROOT / "docs/tutorials").glob("*.md"))


def run_blocks(path: Path, names: dict[str, Any]) -> int:
    """Runs the page's Python blocks as one program; gives their number."""
    blocks = blocks_of(path)
    run(blocks, path.name, names)
    return len(blocks)


def blocks_of(path: Path) -> list[str]:
    """The Python blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"```(?:python|\{code-cell\} ipython3(?:\n:tags: \[hide-input\])?)\n(.*?)```", text, re.DOTALL)


def run(blocks: list[str], page: str, names: dict[str, Any]) -> None:
    """Runs blocks as one program."""
    for number, block in enumerate(blocks):
        name = f"{page}[{number}]"  # functions of earlier blocks are read again
        linecache.cache[name] = len(block), None, block.splitlines(keepends=True), name
        exec(compile(block, name, "exec", dont_inherit=True), names)


README_BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(README_BLOCKS)))
def test_each_block_of_the_readme_runs_alone(number: int, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(README_BLOCKS[number], encoding="utf-8")
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore:computing on a CPU"}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readme_shows_arrays_kernels_and_programs_of_others_on_few_lines() -> None:
    assert len(README_BLOCKS) == 4
    assert len(README.splitlines()) <= 160
    words = (
        "vnp.",
        "@vc.kernel",
        "@triton.jit",
        "@cuda.jit",
        'device="vk"',
        "make demo",
        "make test",
        "VKCOMPUTE_CACHE_DIR",
    )
    for word in (*words, "cache clear"):
        assert word in README


RECIPES = blocks_of(ROOT / "docs/howto.md")


@pytest.mark.parametrize("number", range(1, len(RECIPES)))
def test_each_recipe_runs_alone_after_the_setup(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "howto.md"}
    run([RECIPES[0], RECIPES[number]], f"howto.md[{number}]", names)
    names.clear()
    vc.default_runtime().close()


@pytest.mark.parametrize("page", ["index.md", "quickstart.md", "coming_from.md", *TUTORIALS])
def test_pages_and_tutorials_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, Any] = {"__name__": page}
    assert run_blocks(ROOT / "docs" / page, names) > 2
    names.clear()
    vc.default_runtime().close()


def test_the_page_on_scheduling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_handles: None) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    assert run_blocks(ROOT / "docs/scheduling.md", names) == 12
    assert {task.queue for task in names["profile"].tasks} != set()
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names.clear()


def test_the_page_on_linear_algebra() -> None:
    names: dict[str, Any] = {}
    assert run_blocks(ROOT / "docs/linalg.md", names) == 4
    names.clear()


def test_the_page_on_neural_networks(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    assert run_blocks(ROOT / "docs/nn.md", names) == 4
    layers = ["(8, 16, 14, 14)", "(8, 16, 14, 14)", "(8, 4, 50)", "(8, 3, 10)", *["(2, 4, 10, 8)"] * 2]
    assert capsys.readouterr().out.splitlines() == ["True", *layers, "1"]
    names.clear()


def test_the_page_on_dask() -> None:
    dask = pytest.importorskip("dask")
    names: dict[str, Any] = {"__name__": "dask.md"}
    with dask.config.set(scheduler="threads", num_workers=2):
        assert run_blocks(ROOT / "docs/dask.md", names) == 4
    dask.config.set({"array.backend": "numpy"})
    names.pop("vc").default_runtime().close()
    names.clear()


@pytest.mark.parametrize("simulate", ["0", "1"], ids=["device", "simulated"])
def test_the_page_on_the_language_of_kernels(
    clean_handles: None, monkeypatch: pytest.MonkeyPatch, simulate: str
) -> None:
    monkeypatch.setenv("VKCOMPUTE_SIMULATE", simulate)
    names: dict[str, Any] = {"__name__": "kernels.md"}
    blocks = blocks_of(ROOT / "docs/kernels.md")
    if simulate == "1":  # 240,000 simulated iterations say nothing about a driver's limit of 65,535
        limit = next(number for number, block in enumerate(blocks) if "def nested" in block)
        assert "def countdown" in blocks[limit + 2]
        del blocks[limit : limit + 3]
    assert len(blocks) > 30
    run(blocks, "kernels.md", names)
    names["gpu"].close()


def test_the_page_on_block_programs(gpu: vc.Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "blocks.md"}
    assert run_blocks(ROOT / "docs/blocks.md", names) > 10
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line in ("True", "False")] == ["True"] * 8
    assert "[1]" in shown
    assert "x is fp32" in shown
    names.clear()


def test_the_page_for_those_who_come_from_kompute(clean_handles: None) -> None:
    names: dict[str, Any] = {"__name__": "kompute.md"}
    assert run_blocks(ROOT / "docs/kompute.md", names) == 4
    assert 0 == names["start"] <= names["dispatched"] <= names["copied"]
    names.clear()


@pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning")
def test_the_page_for_those_who_come_from_numba(gpu: vc.Runtime) -> None:
    names: dict[str, Any] = {"__name__": "numba.md"}
    assert run_blocks(ROOT / "docs/numba.md", names) == 1
    names.clear()


def test_the_page_on_cupy() -> None:
    assert run_blocks(ROOT / "docs/cupy.md", {"__name__": "cupy.md"}) == 1


def test_the_page_on_what_devices_lack() -> None:
    assert run_blocks(ROOT / "docs/devices.md", {"__name__": "devices.md"}) == 2


def test_the_page_on_arrays() -> None:
    names: dict[str, Any] = {"__name__": "arrays.md"}
    assert run_blocks(ROOT / "docs/arrays.md", names) == 12
    names.clear()


def test_the_page_on_algorithms() -> None:
    names: dict[str, Any] = {"__name__": "algorithms.md"}
    assert run_blocks(ROOT / "docs/algorithms.md", names) == 2
    assert names["near"].indices.tolist() == [[1, 0]]
    assert names["groups"].counts.numpy().tolist() == [2, 2, 1]
    assert names["pairs"].right.numpy().tolist() == [1, 0, 1, 0]
    names.clear()


def test_the_table_of_numpys_functions_is_current() -> None:
    """NumPy's later versions have more functions, and 1.x other ones: the table is that of the newest."""
    np2 = pytest.importorskip("numpy", "2.3")
    done = subprocess.run([sys.executable, ROOT / "scripts/numpy_table.py"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in (ROOT / "docs/arrays.md").read_text(encoding="utf-8"), np2.__version__


def test_every_statement_on_the_language_of_kernels_has_an_example() -> None:
    """Each example follows at most three sentences of at most 30 words; a table may add a paragraph."""
    page = (ROOT / "docs/kernels.md").read_text(encoding="utf-8")
    for section in re.split(r"^##+ .*$", page, flags=re.MULTILINE)[1:]:
        prose = re.sub(r"```.*?```", "EXAMPLE", section, flags=re.DOTALL).strip()
        assert not prose or prose.endswith("EXAMPLE"), prose
        for statement in re.split(r"EXAMPLE|(?:^[|].*\n)+", prose, flags=re.MULTILINE):
            sentences = re.split(r"(?<=[.])\s+", statement.strip())
            assert len(sentences) <= 3, statement
            assert max(len(sentence.split()) for sentence in sentences) <= 30, statement


def test_pages_without_samples_to_run_have_none() -> None:
    with_samples = {path.name for path in (ROOT / "docs").glob("*.md") if "```python" in path.read_text("utf-8")}
    own = {"algorithms.md", "arrays.md", "blocks.md", "kernels.md", "kompute.md", "linalg.md", "scheduling.md"}
    own |= {"devices.md", "index.md", "quickstart.md", "coming_from.md", "dask.md", "howto.md", "nn.md", "numba.md"}
    own |= {"cupy.md"}
    own |= {"pytorch.md"}  # run by tests/pytorch
    assert with_samples == own


CONTRIBUTOR_PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "docs/changing.md")
FOLDERS = (
    ROOT,
    ROOT / "vkcompute",
    ROOT / "vkcompute/frontend",
    ROOT / "vkcompute/jit/frontend",
    ROOT / "vkcompute/compiled",
    ROOT / "vkcompute/tile",
    *(ROOT / "vkcompute/arrays" / package for package in ("", "expressions", "algorithms", "functions")),
    ROOT / "vkcompute/nn",
)  # that paths on these pages begin in
ELSEWHERE = frozenset({"cc"})  # names on these pages that other projects define


def code_spans(page: str) -> list[str]:
    """The code spans of a page, and the methods named in its code blocks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```.*?```", text, re.DOTALL)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    methods = re.findall(r"\b[A-Z]\w+\.\w+", "".join(blocks))
    return methods + [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


@functools.cache
def defined_names() -> set[str]:
    """Every name that Python code of the project defines or imports, the strings in its tables, and files' stems."""
    names = set(dir(builtins)) | set(keyword.kwlist)
    for folder in ("vkcompute", "tests", "scripts", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            names |= {path.stem, path.parent.name}
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                results = [getattr(node, key, None) for key in ("name", "id", "attr", "arg", "module", "value")]
                names.update(part for result in results if isinstance(result, str) for part in result.split("."))
    return names


@pytest.mark.parametrize("page", CONTRIBUTOR_PAGES)
def test_pages_for_contributors_name_files_that_exist(page: str) -> None:
    paths = [span for span in code_spans(page) if re.fullmatch(r"[\w./-]+(\.(py|c|comp|md|json|sh)|/)", span)]
    assert len(paths) > 3
    named = [path for path in paths if "NAME" not in path and not path.startswith(".")]
    assert [path for path in named if not any((folder / path).exists() for folder in FOLDERS)] == []


@pytest.mark.parametrize("page", CONTRIBUTOR_PAGES)
def test_pages_for_contributors_use_names_that_exist(page: str) -> None:
    called = [re.match(r"([A-Za-z_][\w.]*)(\(.*\))?$", span) for span in code_spans(page)]
    names = {part for result in called if result and "/" not in result[0] for part in result[1].split(".")}
    assert sorted(names - defined_names() - ELSEWHERE) == []


def test_links_of_the_readme_are_absolute_and_lead_to_files() -> None:
    """PyPI shows the page without the repository."""
    targets = re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", README, flags=re.DOTALL))
    repository = "https://github.com/vkcompute/vkcompute"
    for target in targets:
        result = re.fullmatch(rf"{repository}/(?:blob|tree)/main/(.+)", target)
        assert result, target
        assert (ROOT / result[1]).exists(), target


def test_links_within_the_documentation_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_picture_of_a_trace_is_drawn_anew(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    command = [sys.executable, str(ROOT / "docs/trace.py"), str(tmp_path / "trace.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
    assert done.returncode == 0, done.stderr
    assert "transfer 1" in done.stdout
    assert (tmp_path / "trace.png").read_bytes()[:4] == b"\x89PNG"
    assert (ROOT / "docs/scheduling.png").stat().st_size < 100_000


def test_every_command_of_the_shell_block_exists(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    shell = "".join(re.findall(r"```sh\n(.*?)```", README + page, re.DOTALL))
    commands = re.findall(r"^(?:python -m )?vkcompute ([a-z]+)(?: (train|predict))?", shell, re.MULTILINE)
    assert {name for name, _ in commands} == {*COMMANDS}
    for words in commands:
        assert main([*filter(None, words), "--help"]) == 0
        assert "usage: vkcompute" in capsys.readouterr().out
