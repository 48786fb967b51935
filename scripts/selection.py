"""The tests that a change needs.

Test files whose imports lead to what changed since the last complete run run in full. Of the others, a part rotates
with the commit. Where most files would run in full, every test runs, and its cases rotate; tests marked `rotates`
rotate as a whole. Changed test files, and the tests that docs/testing.md names, run with all cases then. The first
software driver runs these tests. The second one runs a part of them (`PART`), as half of its time is that of its
compiler. `make complete` runs all tests, and records its commit and result in tests/complete_run.json. Files in which a
test failed then count as changed.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import import_graph
from chosen_tests import CASES, RARER
from import_graph import ROOT

RECORD = ROOT / "tests/complete_run.json"
SHARE = 4
"""One of so many tests runs, in files that are not chosen in full; where all files are, one of so many cases."""
MOST = 0.35
"""Where a larger part of the test files depends on what changed, all run, and their cases rotate: that is less."""
ROTATING = "rotates"
"""The marker of costly tests."""

# A change below one of these may show in any test.
EVERYTHING = (
    "vkcompute/ir/",
    "vkcompute/spirv/",
    "vkcompute/core/",
    "vkcompute/runtime/",
    "vkcompute/compiled/",
    "vkcompute/frontend/",
    "vkcompute/jit/frontend/",
    "shaders/",
    "build_shaders.py",
    "hatch_build.py",
    "pyproject.toml",
    "tests/conftest.py",
    "tests/checked_locks.py",
    "tests/validator.py",
    "scripts/chosen_tests.py",
    "scripts/drivers.py",
    "scripts/hang_limit.py",
    "scripts/import_graph.py",
    "scripts/passed_tests.py",
    "scripts/run_tests.py",
    "scripts/selection.py",
)
# Tests that read the whole project: its structure, its names and its texts.
ALWAYS = ("tests/test_layers.py", "tests/test_prose.py", "tests/test_reference.py", "tests/test_type_checkers.py")
# Tests, and folders of tests -> the files and folders that they execute.
EXECUTED = {
    "tests/pytorch/": ("docs/pytorch.md", "examples", "vkcompute/torch"),
    "tests/test_amd.py": ("benchmarks",),
    "tests/test_benchmarks.py": ("benchmarks",),
    "tests/test_examples.py": ("examples",),
    "tests/test_notebooks.py": ("docs",),
    "tests/test_packaging.py": ("packaging", "scripts", "Makefile", ".ci", ".github"),
    "tests/test_readme.py": ("README.md", "docs"),
    "tests/test_run_tests.py": ("scripts", "tests/many_queues"),
    "tests/test_scripts.py": ("scripts", "Makefile", "tests/many_queues"),
    "tests/test_simulated_examples.py": ("examples",),
    "tests/compile/test_build.py": ("scripts", "build_shaders.py"),
    "tests/compile/test_wheel.py": ("scripts", "hatch_build.py"),
}


@dataclass(frozen=True)
class Part:
    """The part of a selection that the second of two software drivers runs.

    Attributes:
        in_full: prefixes of test files of which all selected tests run.
        marker: of tests that run wherever they are.
        sampled: prefixes of test files of which one of `sampled_share` tests runs.
        sampled_share: see `sampled`.
        share: one of so many other tests runs.
    """

    in_full: tuple[str, ...]
    marker: str
    sampled: tuple[str, ...]
    sampled_share: int
    share: int


PART = Part(("tests/core/", "tests/spirv/"), "every_driver", ("tests/frontend/", "tests/ir/", "tests/jit/"), 3, 12)
"""Folders that test a driver's features, and its compiler; `selection_for` adds changed test files to the first."""


@dataclass(frozen=True)
class Selection:
    """The test files to run in full, the part of the others, and one sentence that states both.

    Attributes:
        seed: decides which tests of the other files run.
        share: one of so many of them runs; 1 is all tests.
        rotating: one of so many cases of their tests runs; of tests marked `rotates` see `RARER`.
        guards: tests of which all cases run.
        part: of them, for the second software driver; None for all.
    """

    whole: tuple[str, ...]
    seed: str
    share: int
    statement: str
    part: Part | None = None
    rotating: int = 1
    guards: tuple[str, ...] = ()

    def dumps(self) -> str:
        """The text that tests/conftest.py reads."""
        return json.dumps(asdict(self))


def select(root: Path = ROOT) -> Selection:
    """The selection for the working tree."""
    head = _git(root, "rev-parse", "HEAD")
    base, failing = _recorded()
    if head is None or base is None:
        return _everything("no complete run is recorded" if base is None else "git does not know this folder")
    listed = _git(root, "diff", "--name-only", "--no-renames", base)
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    if listed is None or new is None:
        return _everything(f"git has no commit {base[:8]}, that of the last complete run")
    own = RECORD.relative_to(ROOT).as_posix() if RECORD.is_relative_to(ROOT) else ""  # it follows what it records
    changed = {*listed.split("\n"), *new.split("\n"), *failing} - {"", own}
    return selection_for(sorted(changed), head, base)


def selection_for(changed: Collection[str], seed: str, base: str) -> Selection:
    """The selection for changed files, named from the project's root.

    Args:
        changed: the files.
        seed: decides which of the other tests run.
        base: the commit since which they changed.
    """
    changed_tests = tuple(path for path in changed if path in test_files())
    part = replace(PART, in_full=(*PART.in_full, *changed_tests))
    for path in changed:
        if path.startswith(EVERYTHING):
            everything = _rotating(f"{path} changed since {base[:8]}, the last complete run")
            return replace(everything, whole=changed_tests, seed=seed, part=part)
    whole = tuple(test for test in test_files() if test in ALWAYS or any(needs(test, path) for path in changed))
    total = len(test_files())
    if len(whole) > MOST * total:
        everything = _rotating(
            f"{len(whole)} of {total} test files depend on what changed since {base[:8]}, the last complete run"
        )
        return replace(everything, whole=changed_tests, seed=seed, part=part)
    statement = (
        f"{len(whole)} of {total} test files in full: {len(changed)} files that they depend on changed since "
        f"{base[:8]}, the last complete run; of the others every {SHARE}th test, by commit. All tests: make complete"
    )
    return Selection(whole, seed, SHARE, statement, part)


def part_statement(part: Part, driver: str) -> str:
    """One sentence about the part that a driver runs."""
    in_full, sampled = ", ".join(PART.in_full), ", ".join(part.sampled)
    n_changed = len(part.in_full) - len(PART.in_full)
    return (
        f"{driver} runs a part of these: all in {in_full}, {n_changed} changed test files and tests marked "
        f"{part.marker}; of {sampled} one in {part.sampled_share}, and of the rest one in {part.share}, by commit. "
        f"All tests: make complete"
    )


def record(outcomes: dict[str, dict[str, int | float]], failing: Collection[str]) -> str:
    """Writes the result of a complete run for the present commit; returns a sentence about it.

    Args:
        outcomes: the counts of each run, by its name.
        failing: the test files in which a test failed.
    """
    if _git(ROOT, "status", "--porcelain", "--untracked-files=normal") != "":
        return f"not recorded in {RECORD.relative_to(ROOT)}: the working tree has changes that are not committed"
    commit = _git(ROOT, "rev-parse", "HEAD")
    result = {"commit": commit, "runs": outcomes, "failing": sorted(failing)}
    RECORD.write_text(json.dumps(result, indent=2) + "\n")
    return f"recorded in {RECORD.relative_to(ROOT)}: commit it"


@cache
def test_files() -> tuple[str, ...]:
    """Every file of tests, named from the project's root."""
    return tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py")))


def needs(test: str, path: str) -> bool:
    """True if a change of the file `path` may change the outcome of the test file `test`."""
    if path in _sources(test) or any(path == top or path.startswith(f"{top}/") for top in _executed(test)):
        return True
    if path.startswith("tests/"):  # a conftest or a file of data belongs to the tests beside and below it
        return not path.endswith(".py") or (
            Path(path).name == "conftest.py" and Path(test).is_relative_to(Path(path).parent)
        )
    return path.startswith("vkcompute/") and (not path.endswith(".py") or _module(path) in _modules_of(test))


def _executed(test: str) -> tuple[str, ...]:
    return next((tops for tests, tops in EXECUTED.items() if test.startswith(tests)), ())


def _module(path: str) -> str:
    parts = Path(path).relative_to("vkcompute").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@cache
def _sources(test: str) -> frozenset[str]:
    """The files of tests/ that a test file imports, directly or not, itself, and the fixtures of its folder."""
    seen: set[str] = set()
    fixtures = Path(test).with_name("conftest.py")
    waiting = {test, *([str(fixtures)] if fixtures.parent.name != "tests" and (ROOT / fixtures).is_file() else [])}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        text = (ROOT / name).read_text(encoding="utf-8")
        imported = set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE))
        folders = {(ROOT / name).parent, ROOT / "tests", *(p for p in (ROOT / "tests").iterdir() if p.is_dir())}
        siblings = {folder / f"{module}.py" for folder in folders for module in imported}
        waiting |= {str(path.relative_to(ROOT)) for path in siblings if path.is_file()} - seen
    return frozenset(seen)


@cache
def _modules_of(test: str) -> frozenset[str]:
    """The modules of vkcompute that a test file's programs import, directly or not."""
    names: set[str] = set()
    for source in _sources(test):
        names |= _mentioned((ROOT / source).read_text(encoding="utf-8"))
    for top in _executed(test):
        for path in (ROOT / top).rglob("*") if (ROOT / top).is_dir() else [ROOT / top]:
            if path.suffix in (".py", ".md", ".ipynb"):
                names |= _mentioned(path.read_text(encoding="utf-8"))
    return frozenset(import_graph.reachable(names))


def _mentioned(text: str) -> set[str]:
    """The modules that a text names: in its own imports, in programs that it holds as strings, as `vc.name`."""
    names = {import_graph.resolve(dotted) for dotted in re.findall(r"\bvkcompute\.([\w.]*\w)", text)}
    for module, imported in re.findall(r"\bfrom vkcompute(\.[\w.]+)? import \(?([\w, \n]+)", text):
        for name in re.findall(r"\w+", imported):
            dotted = f"{module}.{name}".strip(".")
            names.add(import_graph.public_names().get(dotted) or import_graph.resolve(dotted))
    for name in re.findall(r"\b(?:vc|vkcompute)\.(\w+)", text):
        names.add(import_graph.public_names().get(name, "__init__"))
    return names


def guards() -> tuple[str, ...]:
    """The tests that the tables of faults in docs/testing.md name, as pytest does without their parameters."""
    text = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    return tuple(sorted({f"tests/{file}::{name}" for file, name in re.findall(r"`([\w/]+\.py)::(\w+)`", text)}))


def _everything(reason: str) -> Selection:
    return Selection((), "", 1, f"all tests: {reason}")


def _rotating(reason: str) -> Selection:
    statement = (
        f"all tests: {reason}; of a test's cases every {SHARE}th and at least {CASES}, of tests marked {ROTATING} "
        f"every {RARER * SHARE}th, by commit. All cases: make complete"
    )
    return Selection((), "", 1, statement, rotating=SHARE, guards=guards())


def _recorded() -> tuple[str | None, list[str]]:
    """The commit of the last complete run, and the test files that failed in it."""
    try:
        result = json.loads(RECORD.read_text(encoding="utf-8"))
        return str(result["commit"]), list(result.get("failing", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, []


def _git(root: Path, *words: str) -> str | None:
    """The output of git without the last line's end, or None if it fails."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip("\n") if done.returncode == 0 else None
