"""Run the test suite once per Vulkan driver, in separate processes, three at a time, and print a summary.

Usage: run_tests.py [--complete] [--driver NAME ...] [--require NAME ...] [--marker EXPR] [pytest's own arguments]

Runs the tests that the changes since the last complete run need, and a part of the others (selection.py). Where
lavapipe and SwiftShader both run, SwiftShader runs a part of these. --complete runs all tests; --marker and pytest's
arguments run all that they name.

The drivers are lavapipe, swiftshader and gpu (a real GPU, if the loader finds one). Tests marked `pure`, whose outcome
no driver changes, run once, as "pure": with the first driver. Tests marked `devices` run again as "both": with both
software drivers in one process. Tests marked `queues` run again as "queues": on an emulated GPU with many queues
(many_queues.py), and "discrete" runs all tests there, in about half an hour. That needs a C compiler, and runs only if
named. So does "poor": all tests on lavapipe with the least that Vulkan guarantees. A run of it that was ended resumes,
and `--marker poor` names a small part. "torch" runs the tests of PyTorch's device on lavapipe, in the environment that
`make torch` makes. The exit status is 0 if every run passed, tests were collected, and all required
drivers were used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import chosen_tests
import drivers
import many_queues
import passed_tests
import selection
from hang_limit import hang_limit_s
from probe import Probe, probe
from report import say
from selection import Selection

SOFTWARE = ("lavapipe", "swiftshader")
QUEUES = {"queues": "queues", "discrete": "not pure"}
"""Runs on the emulated GPU with many queues -> the marker of their tests."""
POOR = "poor"
"""The run on the poorest device that Vulkan allows (core/device_profile.py)."""
EMULATED = (*QUEUES, POOR)
TORCH = "torch"
TORCH_PYTHON = drivers.ROOT / "build/torch/venv/bin/python"
TORCH_TESTS = "tests/pytorch"
NAMES = (*SOFTWARE, "gpu", "both", *EMULATED, TORCH)
NO_TESTS_COLLECTED = 5  # pytest's exit status
ENDED = (0, 1, NO_TESTS_COLLECTED)  # of a run whose tests all ran; 1 if one failed
N_SHARDS = 2  # of a driver's run
N_PURE_SHARDS = 4  # of pure tests, which run last: the shorter the last runs are, the sooner both cores end
MAX_CONCURRENT = 3  # on two cores: while one run waits, for a driver's thread or a process, two others compute


@dataclass(frozen=True)
class Driver:
    """A run of tests.

    Attributes:
        name: of the driver.
        device: its device's name.
        env: the environment that selects it.
        marker: of its tests.
        shard: which part of the test files, of how many; parts are named by their hashes.
        python: the interpreter.
        folder: of its tests, or "" for all.
    """

    name: str
    device: str
    env: dict[str, str]
    marker: str = ""
    shard: tuple[int, int] = (0, 1)
    python: str = sys.executable
    folder: str = ""


@dataclass(frozen=True)
class Outcome:
    """A row of the summary.

    Attributes:
        collected: False if pytest found no tests.
        output: what has not been printed yet.
        failing: the test files in which a test failed.
        ended: False if the process died, or pytest itself failed.
    """

    driver: str
    device: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    collected: bool = True
    output: str = ""
    failing: frozenset[str] = frozenset()
    ended: bool = True

    def counts(self) -> dict[str, int | float]:
        """What a record keeps."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 1),
        }


def find(names: Collection[str] = NAMES) -> tuple[list[Driver], dict[str, str]]:
    """The drivers of this machine, and the reasons why others are missing. The emulated GPU is built only if named."""
    available: list[Driver] = []
    absent: dict[str, str] = {}
    for name, manifest in zip(SOFTWARE, (drivers.lavapipe(), drivers.swiftshader()), strict=True):
        env = drivers.only(str(manifest))
        seen = probe(env) if manifest else Probe(loader=True, error="it is not installed")
        if seen.usable:
            available.append(Driver(name, seen.usable[0].name, env))
        else:
            absent[name] = seen.error or f"{manifest} has no Vulkan 1.2 device"
    seen = probe()
    if seen.gpus:
        device = seen.gpus[0].name
        available.append(Driver("gpu", device, os.environ | {"VKCOMPUTE_DEVICE": device}))
    else:
        absent["gpu"] = "no real GPU found"
    manifests = _software_manifests(available)
    if len(manifests) == len(SOFTWARE):
        available.append(Driver("both", "all at once", drivers.only(os.pathsep.join(manifests)), "devices"))
    else:
        absent["both"] = "it needs both software drivers"
    _find_derived(names, available, absent)
    _find_queues({name: marker for name, marker in QUEUES.items() if name in names}, available, absent)
    return available, absent


def _find_derived(names: Collection[str], available: list[Driver], absent: dict[str, str]) -> None:
    """Adds the runs on lavapipe that are named: with the least of a device, and with PyTorch."""
    missing = "" if TORCH_PYTHON.exists() else "PyTorch's environment is missing; make torch-environment makes it"
    for name, of_lavapipe, reason in ((POOR, poorest, ""), (TORCH, with_torch, missing)):
        if name in names and not reason and available and available[0].name == "lavapipe":
            available.append(of_lavapipe(available[0]))
        elif name in names:
            absent[name] = reason or "it needs lavapipe"


def poorest(lavapipe: Driver) -> Driver:
    """The run on lavapipe with subgroups of 4 lanes, and of all else the least that Vulkan guarantees."""
    env = {**lavapipe.env, "VKCOMPUTE_PROFILE": POOR, "LP_NATIVE_VECTOR_WIDTH": "128"}
    return Driver(POOR, f"{lavapipe.device}, at its poorest", env, "not pure")


def with_torch(lavapipe: Driver) -> Driver:
    """The run of PyTorch's device on lavapipe."""
    return replace(lavapipe, name=TORCH, python=str(TORCH_PYTHON), folder=TORCH_TESTS)


def _find_queues(runs: dict[str, str], available: list[Driver], absent: dict[str, str]) -> None:
    """Adds the runs (name -> marker) on the emulated GPU with many queues, which is built if there are any."""
    if not runs:
        return
    made = many_queues.build(drivers.lavapipe())
    seen = Probe(loader=True, error=made) if isinstance(made, str) else probe(made)
    for name, marker in runs.items():
        if seen.usable and not isinstance(made, str):
            available.append(Driver(name, f"{seen.usable[0].name}, with many queues", made, marker))
        else:
            absent[name] = seen.error or "the built driver has no Vulkan 1.2 device"


def _software_manifests(everyone: list[Driver]) -> list[str]:
    return [driver.env[drivers.SELECTORS[0]] for driver in everyone if driver.name in SOFTWARE]


def divided(chosen: list[Driver]) -> list[Driver]:
    """Separates pure tests from those of several drivers, as one more run on the first."""
    if len(chosen) < 2:
        return chosen
    markers = [f"({driver.marker}) and not pure" if driver.marker else "not pure" for driver in chosen]
    others = [replace(driver, marker=marker) for driver, marker in zip(chosen, markers, strict=True)]
    return [*others, replace(chosen[0], name="pure", marker="pure")]


def sharded(chosen: list[Driver]) -> list[Driver]:
    """Divides the runs on single drivers, and pure tests, into shards; the longest runs come first, pure tests last."""
    counts = {driver.name: N_SHARDS for driver in chosen} | dict.fromkeys(("both", *EMULATED), 1)
    counts["pure"] = N_PURE_SHARDS
    runs = [replace(driver, shard=(n, counts[driver.name])) for driver in chosen for n in range(counts[driver.name])]
    return sorted(runs, key=lambda driver: (driver.name == "pure", counts[driver.name] == 1))


def combined(outcomes: list[Outcome]) -> list[Outcome]:
    """Adds up the shards of each driver."""
    rows: dict[str, Outcome] = {}
    for outcome in outcomes:
        row = rows.get(outcome.driver)
        rows[outcome.driver] = outcome if row is None else Outcome(
            outcome.driver, outcome.device, row.passed + outcome.passed, row.failed + outcome.failed,
            row.skipped + outcome.skipped, row.seconds + outcome.seconds, row.collected or outcome.collected,
            failing=row.failing | outcome.failing, ended=row.ended and outcome.ended,
        )  # fmt: skip
    return [*rows.values()]


def selections(chosen: list[Driver], tests: Selection | None) -> list[Selection | None]:
    """The selections of the runs: the second software driver runs a part where the first one runs all.

    PyTorch's device runs a part of its tests, but for files that need all.
    """
    both = {*SOFTWARE} <= {driver.name for driver in chosen}
    whole = tests and replace(tests, part=None)
    own = {SOFTWARE[1]: tests if both else whole, TORCH: whole and _part_of_torch(whole)}
    return [own.get(driver.name, whole) for driver in chosen]


def _part_of_torch(tests: Selection) -> Selection:
    n_whole = sum(file.startswith(TORCH_TESTS) for file in tests.whole)
    statement = f"{TORCH} runs {n_whole} of its test files in full, and of the others every {selection.SHARE}th test"
    return replace(tests, share=selection.SHARE, rotating=1, statement=statement)


def stated(tests: list[Selection | None]) -> list[str]:
    """Sentences about the selection, and about a driver's part of it."""
    parts = {selection.part_statement(chosen.part, SOFTWARE[1]) for chosen in tests if chosen and chosen.part}
    return [f"selection: {text}" for text in (*{chosen.statement for chosen in tests if chosen}, *parts)]


def environment(driver: Driver, everyone: list[Driver], chosen: Selection | None = None) -> dict[str, str]:
    """The environment of a run: its driver, validation errors, its tests, and all manifests for multi-device tests."""
    env = dict(driver.env)
    if driver.name != "gpu":
        env.pop("VKCOMPUTE_DEVICE", None)
    env["VKCOMPUTE_VALIDATION"] = "error"
    env.setdefault("PYTHONFAULTHANDLER", "1")
    # NumPy's idle threads spin: beside three runs they take the time of two cores' tests.
    env.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Compiling the library's source takes half of the time of a test's interpreter, of which there are hundreds.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if chosen is not None and driver.name not in EMULATED:
        env[chosen_tests.SELECTION] = chosen.dumps()
    env[chosen_tests.SHARD] = json.dumps(driver.shard)
    if driver.name == POOR:
        env[passed_tests.VARIABLE] = str(passed_tests.file_for(POOR, drivers.ROOT))
    manifests = _software_manifests(everyone)
    if len(manifests) > 1 and driver.name not in EMULATED:
        env["VKCOMPUTE_TEST_ALL_ICDS"] = os.pathsep.join(manifests)
    return env


def run(driver: Driver, env: dict[str, str], markers: list[str], arguments: list[str], *, shown: bool) -> Outcome:
    """Run pytest, with its output shown or kept. A process that dies counts as a failure."""
    expression = ["-m", " and ".join(f"({m})" for m in markers)] if markers else []
    with tempfile.TemporaryDirectory() as scratch:
        report, log = Path(scratch) / "report.xml", Path(scratch) / "output.txt"
        limit = f"faulthandler_timeout={hang_limit_s()}"  # for one test
        hangs = ["-o", limit, "-o", "faulthandler_exit_on_timeout=true"]
        tests = arguments or [driver.folder] * bool(driver.folder)
        command = [driver.python, "-m", "pytest", f"--junitxml={report}", *hangs, *expression, *tests]
        start = time.monotonic()
        with open(log, "wb") as file:
            stream: dict[str, Any] = {} if shown else {"stdout": file, "stderr": file}
            status = subprocess.run(command, cwd=drivers.ROOT, env=env, check=False, **stream).returncode
        seconds = time.monotonic() - start
        passed, failed, skipped, failing = _read(report)
        output = log.read_text(encoding="utf-8", errors="replace")
    if status < 0:
        say(f"{driver.name}: pytest was ended by signal {-status}")
    collected = status != NO_TESTS_COLLECTED
    if status != 0 and collected:
        failed = max(failed, 1)
    ended = status in ENDED
    return Outcome(driver.name, driver.device, passed, failed, skipped, seconds, collected, output, failing, ended)


def _read(report: Path) -> tuple[int, int, int, frozenset[str]]:
    """Passed, failed (and errors), and skipped (and expected failures) in a JUnit report, and the files that failed.

    Zeros if it is missing.
    """
    if not report.exists():
        return 0, 0, 0, frozenset()
    total = failed = skipped = 0
    failing: set[str] = set()
    for suite in ET.parse(report).iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
        cases = [case for case in suite.iter("testcase") if {"failure", "error"} & {part.tag for part in case}]
        failing |= {f"{case.get('classname', '').replace('.', '/')}.py" for case in cases}
    return max(total - failed - skipped, 0), failed, skipped, frozenset(failing)


def summary(outcomes: list[Outcome], absent: dict[str, str]) -> str:
    """The summary table, with a last line like pytest's."""
    width = max([len("device"), *(len(o.device) for o in outcomes)])
    lines = ["", f"{'driver':<12} {'device':<{width}} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"]
    for o in outcomes:
        note = "" if o.collected else "  no tests collected"
        lines.append(
            f"{o.driver:<12} {o.device:<{width}} {o.passed:>7} {o.failed:>7} {o.skipped:>8} {o.seconds:>8.1f}{note}"
        )
    lines += [f"{name:<12} not run: {reason}" for name, reason in absent.items()]
    passed, failed, skipped = (sum(getattr(o, f) for o in outcomes) for f in ("passed", "failed", "skipped"))
    seconds = sum(o.seconds for o in outcomes)
    return "\n".join([*lines, f"{passed} passed, {failed} failed, {skipped} skipped in {seconds:.2f}s"])


def verdict(outcomes: list[Outcome], required: set[str], *, selection: bool) -> str:
    """The reason why the whole run failed, or "".

    With `selection`, the user named tests: a driver may then have none of them, if another driver has some.
    """
    if any(o.failed for o in outcomes):
        return "tests failed"
    empty = [o.driver for o in outcomes if not o.collected]
    if len(empty) == len(outcomes) or (empty and not selection):
        return f"no tests were collected on {', '.join(empty)}" if empty else "no Vulkan driver to run on"
    missing = sorted(required - {o.driver for o in outcomes})
    return f"required but not run: {', '.join(missing)}" if missing else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", action="append", choices=NAMES, help="run on this driver only (may be repeated)")
    parser.add_argument("--require", action="append", choices=NAMES, default=[], help="fail if this driver is missing")
    parser.add_argument("--marker", action="append", default=[], help="as pytest's -m, combined with the markers above")
    parser.add_argument("--complete", action="store_true", help="run all tests, and record the result")
    options, arguments = parser.parse_known_args()
    named = bool(arguments or options.marker)
    # The emulated ones may take minutes. PyTorch's own tests are not among those that are named.
    names = options.driver or [name for name in NAMES if name not in EMULATED and not (named and name == TORCH)]
    everyone, absent = find(names)
    chosen = divided([driver for driver in everyone if driver.name in names])
    absent = {name: why for name, why in absent.items() if name in names}
    required = {*options.require, *(options.driver or ())}
    chosen = chosen if named else sharded(chosen)
    tests = selections(chosen, None if options.complete or named else selection.select())
    statements = stated(tests)
    for statement in statements:
        say(statement)
    outcomes = []
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        runs = []
        for number, driver in enumerate(chosen):
            markers = [*options.marker, *filter(None, [driver.marker])]
            env = environment(driver, everyone, tests[number])
            runs.append(pool.submit(run, driver, env, markers, arguments, shown=not number))
        for driver, pending in zip(chosen, runs, strict=True):
            print(f"\n=== {driver.name}: {driver.device} ===", flush=True)
            outcomes.append(pending.result())
            print(outcomes[-1].output, end="", flush=True)
    outcomes = combined(outcomes)
    reason = verdict(outcomes, required, selection=named)
    head, last = summary(outcomes, absent).rsplit("\n", 1)
    notes = [f"FAILED: {reason}"] if reason else []
    notes += statements
    if options.complete and not named and {*SOFTWARE} <= {o.driver for o in outcomes if o.ended}:
        failing = frozenset[str]().union(*(o.failing for o in outcomes))
        notes.append(selection.record({o.driver: o.counts() for o in outcomes}, failing))
    print("\n".join([head, *notes, last]))
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
