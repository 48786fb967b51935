"""The selection of tests: what a change needs, and the rotation of the others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import selection
from chosen_tests import SELECTION, SHARD, marks_near, required

pytestmark = pytest.mark.pure

TESTS = Path(__file__).resolve().parent
BASE = "0123456789abcdef"


NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
ON_SECOND = re.compile(r"`([\w/]+\.py)::(\w+)` \(SwiftShader\)")


def test_tests_that_the_tables_of_faults_name_exist() -> None:
    text = (TESTS.parent / "docs" / "testing.md").read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert len(named) > 90
    for file, name in named:
        source = (TESTS / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), f"{file} has no {name}"


def test_faults_that_the_second_driver_shows_are_shown_at_every_commit() -> None:
    text = (TESTS.parent / "docs" / "testing.md").read_text(encoding="utf-8")
    named = ON_SECOND.findall(text)
    assert len(named) == 3
    for file, name in named:
        source = (TESTS / file).read_text(encoding="utf-8")
        marked = rf"^@pytest.mark.{selection.PART.marker}\n(?:@.*\n|    .*\n|\)\n)*def {name}\("
        assert f"tests/{file}".startswith(selection.PART.in_full) or re.search(marked, source, re.MULTILINE), name


def test_of_tests_that_the_tables_of_faults_name_all_cases_run() -> None:
    text = (TESTS.parent / "docs" / "testing.md").read_text(encoding="utf-8")
    everything = selection.selection_for(["vkcompute/ir/types.py"], "seed", BASE)
    assert {f"tests/{file}::{name}" for file, name in NAMED.findall(text)} == set(everything.guards)


def chosen(*changed: str) -> set[str]:
    result = selection.selection_for(changed, "seed", BASE)
    assert result.share == selection.SHARE
    return set(result.whole)


@pytest.mark.parametrize(
    ("changed", "needed", "left_out"),
    [
        ("vkcompute/nn/linear.py", "tests/nn/test_linear.py", "tests/cli/test_cli_info.py"),
        ("vkcompute/arrays/algorithms/joining.py", "tests/arrays/test_rows.py", "tests/core/test_vk.py"),
        (
            "vkcompute/nn/normalization.py",
            "tests/pytorch/test_operators.py",
            "tests/spirv/test_spirv_module.py",
        ),  # the device of PyTorch imports it
        ("vkcompute/pipelines/multiply.py", "tests/cli/test_cli_multiply.py", "tests/ir/test_ir_random.py"),
        ("vkcompute/arrays/algorithms/nearest.py", "tests/arrays/test_nearest_points.py", "tests/core/test_vk.py"),
        ("tests/jit/host.py", "tests/jit/test_types.py", "tests/nn/test_linear.py"),
        ("tests/jit/conftest.py", "tests/jit/test_types.py", "tests/nn/test_linear.py"),
        ("examples/kmeans.py", "tests/test_examples.py", "tests/nn/test_linear.py"),
        ("README.md", "tests/test_readme.py", "tests/nn/test_linear.py"),
    ],
)
def test_tests_of_what_imports_a_changed_file_run_in_full(changed: str, needed: str, left_out: str) -> None:
    assert (TESTS.parent / needed).is_file()
    assert (TESTS.parent / left_out).is_file()
    whole = chosen(changed)
    assert needed in whole
    assert left_out not in whole


def test_a_changed_test_file_runs_in_full() -> None:
    for test in selection.test_files():
        assert test in chosen(test)


def test_tests_of_the_whole_project_run_always() -> None:
    assert set(selection.ALWAYS) <= chosen() <= set(selection.test_files())


@pytest.mark.parametrize("changed", ["vkcompute/core/queue.py", "shaders/multiply.comp", "tests/conftest.py"])
def test_a_change_below_everything_runs_all_tests(changed: str) -> None:
    everything = selection.selection_for(["README.md", changed], "seed", BASE)
    assert everything.part == selection.PART
    assert (everything.share, everything.rotating, everything.whole) == (1, selection.SHARE, ())
    assert everything.statement == (
        f"all tests: {changed} changed since 01234567, the last complete run; of a test's cases every 4th and at "
        "least 2, of tests marked rotates every 8th, by commit. All cases: make complete"
    )


def test_a_change_that_most_files_depend_on_runs_all_tests() -> None:
    everything = selection.selection_for(["vkcompute/blocks/compiler/block_compiler.py"], "seed", BASE)
    assert (everything.share, everything.rotating) == (1, selection.SHARE)
    assert "test files depend on what changed since 01234567" in everything.statement


@pytest.mark.parametrize("prefix", selection.EVERYTHING)
def test_what_runs_everything_exists(prefix: str) -> None:
    assert (TESTS.parent / prefix).exists()


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_changes_since_the_recorded_commit_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed ones, those of the working tree, and new files; without a record or its commit, all tests run."""
    monkeypatch.setattr(selection, "RECORD", tmp_path / "record.json")
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    assert selection.select(tmp_path).statement == "all tests: no complete run is recorded"
    selection.RECORD.write_text(json.dumps({"commit": git(tmp_path, "rev-parse", "HEAD")}))
    names = ["vkcompute/nn/linear.py", "vkcompute/cli/demo.py", "vkcompute/dask/core.py"]
    before = set(selection.select(tmp_path).whole)
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
        if name != names[-1]:
            git(tmp_path, "add", name)
        if name == names[0]:
            git(tmp_path, "commit", "-q", "-m", "second")
    after = selection.select(tmp_path)
    assert after.seed == git(tmp_path, "rev-parse", "HEAD")
    assert {"tests/nn/test_linear.py", "tests/cli/test_cli_demo.py"} <= set(after.whole) - before
    selection.RECORD.write_text(json.dumps({"commit": after.seed, "failing": ["tests/core/test_vk.py"]}))
    assert "tests/core/test_vk.py" in selection.select(tmp_path).whole
    selection.RECORD.write_text(json.dumps({"commit": "f" * 40}))
    assert selection.select(tmp_path).statement.startswith("all tests: git has no commit ffffffff")


def test_the_rest_rotates_with_the_commit() -> None:
    """Files chosen in full run in full. Of the others, a commit runs a part, the same one each time."""
    whole, other = "tests/spirv/test_spirv_tables.py", "tests/ir/test_ir_operations.py"

    def run(seed: str, share: int = 4) -> list[str]:
        chosen = json.dumps({"whole": [whole], "seed": seed, "share": share})
        command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", whole, other]
        env = os.environ | {"VKCOMPUTE_TEST_SELECTION": chosen, "VKCOMPUTE_TEST_SHARD": "[0, 1]"}
        done = subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if "::" in line]

    everything, first, again, second = run("", 1), run("commit 1"), run("commit 1"), run("commit 2")
    assert first == again != second
    for names in (first, second):
        assert [name for name in names if name.startswith(whole)] == [n for n in everything if n.startswith(whole)]
        assert 0 < sum(name.startswith(other) for name in names) < sum(n.startswith(other) for n in everything) / 2


PLUGIN = """
import os, chosen_tests
def pytest_configure(config):
    config.addinivalue_line("markers", "every_driver")
    config.addinivalue_line("markers", "rotates")
    config.pluginmanager.register(chosen_tests.ChosenTests(os.environ))
"""
SECOND = """
import pytest

@pytest.mark.parametrize("n", range(60))
def test_any(n): pass

@pytest.mark.parametrize("n", range(3))
def test_some(n): pass

@pytest.mark.parametrize("n", range(90))
def test_guard(n): pass

@pytest.mark.every_driver
def test_marked(): pass

@pytest.mark.rotates
@pytest.mark.parametrize("n", range(60))
def test_slow(n): pass
"""


def collected(suite: Path, tests: str, shard: str, *arguments: str) -> list[str]:
    """The tests of a small suite that a run of this selection and shard takes."""
    env = os.environ | {"PYTHONPATH": str(TESTS.parent / "scripts"), SELECTION: tests, SHARD: shard}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        *arguments,
    ]
    done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def of(names: list[str], file: str, test: str) -> set[str]:
    return {name for name in names if name.startswith(f"{file}::{test}")}


def test_a_second_driver_runs_its_folders_changed_and_marked_tests_and_a_part_that_rotates(tmp_path: Path) -> None:
    """The first one runs all tests, of their cases a part, and of slow tests that rotate, a part."""
    files = changed, other, sampled, half = [f"tests/{name}/test_conv.py" for name in ("cli", "nn", "core", "jit")]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SECOND)
    (tmp_path / "tests/conftest.py").write_text(PLUGIN)
    tests = selection.selection_for(["vkcompute/ir/types.py"], "", BASE)
    part = replace(selection.PART, in_full=(*selection.PART.in_full, changed))
    guards = tuple(f"{file}::test_guard" for file in files)
    tests = replace(tests, whole=(changed,), part=part, guards=guards)

    def run(seed: str, part: bool = True) -> list[str]:
        own = replace(tests, seed=seed)
        return collected(tmp_path, (own if part else replace(own, part=None)).dumps(), "[0, 1]")

    everything, first, again, second = run("commit 1", False), run("commit 1"), run("commit 1"), run("commit 2")
    assert first == again != second
    for file in files:
        assert len(of(everything, file, "test_any")) == (60 if file == changed else 15)
        assert len(of(everything, file, "test_some")) == (3 if file == changed else 2)
        assert len(of(everything, file, "test_guard")) == 90
        assert of(everything, file, "test_marked")
        slow = len(of(everything, file, "test_slow"))
        assert slow == 60 if file == changed else 1 <= slow <= 16
    for names in (first, second):
        assert all(of(names, file, "test_marked") for file in files)
        assert [len(of(names, file, "test_any")) for file in (changed, sampled)] == [60, 15]
        n_other, n_half = (len(of(names, file, "test_guard")) for file in (other, half))
        assert n_other <= 16 < n_half <= 45
        assert len(of(names, changed, "test_slow")) == 60


def test_a_second_driver_runs_a_part_of_what_rotates(tmp_path: Path) -> None:
    rest = "tests/nn/test_conv.py"
    (tmp_path / "tests/nn").mkdir(parents=True)
    (tmp_path / rest).write_text(SECOND.replace("range(60)", "range(400)"))
    (tmp_path / "tests/conftest.py").write_text(PLUGIN)
    tests = selection.selection_for(["docs/arrays.md"], "commit 1", BASE)
    first, second = (
        {name for name in collected(tmp_path, chosen.dumps(), "[0, 1]") if "any" in name}
        for chosen in (replace(tests, part=None), tests)
    )
    assert second < first
    assert len(second) < len(first) / 2


def test_shards_have_all_tests_once(tmp_path: Path) -> None:
    names = [f"test_{number}.py" for number in range(12)]
    for name in names:
        (tmp_path / name).write_text("def test(): pass\n")
    (tmp_path / "conftest.py").write_text(PLUGIN)
    shards = [[name.partition("::")[0] for name in collected(tmp_path, "{}", f"[{n}, 2]")] for n in range(2)]
    assert all(shards)
    assert sorted(shards[0] + shards[1]) == sorted(names)


def test_only_files_that_name_a_required_marker_are_imported(tmp_path: Path) -> None:
    """A conftest.py may mark the tests of its folder. A file that may not be imported says so."""
    marked, unmarked = "import pytest\n@pytest.mark.pure\ndef test(): pass\n", "def test(): pass\n"
    by_folder = "import pytest\ndef pytest_itemcollected(item): item.add_marker(pytest.mark.pure)\n"
    files = {
        "conftest.py": PLUGIN + '    config.addinivalue_line("markers", "pure")\n', "test_marked.py": marked,
        "test_unmarked.py": "raise ImportError", "jit/conftest.py": by_folder, "jit/test_by_folder.py": unmarked,
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert collected(tmp_path, "{}", "[0, 1]", "-m", "(pure) and not rotates") == [
        "jit/test_by_folder.py::test", "test_marked.py::test",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", set()),
        ("pure", {"pure"}),
        ("not pure", set()),
        ("(devices) and not pure", {"devices"}),
        ("(poor) and (devices and not pure)", {"poor", "devices"}),
        ("(devices and queues) or pure", set()),
    ],
)
def test_markers_that_an_expression_requires(expression: str, names: set[str]) -> None:
    assert required(expression) == names


def test_no_helper_of_other_folders_has_markers_for_tests() -> None:
    """Marks are searched in a test's file and folder: a helper that marks tests elsewhere would hide them."""
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    helpers = [path for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
    marking = [path for path in helpers if "mark." in path.read_text(encoding="utf-8")]
    assert marking
    assert all(path.parent in folders for path in marking)
    assert not [path for path in TESTS.glob("*.py") if path in marking], "tests in folders would not see these"
    assert "pure" in marks_near(TESTS / "jit/test_views.py")
