"""Runs Triton's unit tests of its language, from a checkout of Triton, with our package in the place of Triton.

    python scripts/triton_tests.py CHECKOUT [--each 12] [--files test_core test_random] [--results out.jsonl]

It prints a table of the files, and what fails by its reason. PyTorch, pytest and scipy have to be installed. A run that
is repeated with one file of results goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = "python/test/unit/language"
LEFT_OUT = "test_line_info", "test_warp_specialization", "test_pipeliner", "test_compile_only", "test_reproducer"
"""Files of tests of Triton's own compiler: its passes, and the text of its intermediate forms."""
TOO_SLOW = 75
"""The status of a process that ends after a test that takes too long; another one runs the rest."""


def main() -> int:
    """Runs the files, each in a process, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--each", type=int, default=12, help="parametrizations of a function at most")
    parser.add_argument("--limit", type=int, default=60, help="seconds of a test at most")
    parser.add_argument("--files", nargs="*", default=None, help="names of files, without .py")
    parser.add_argument("--results", type=Path, default=None, help="a file of outcomes")
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--table", action="store_true", help="prints the tables of the results that there are")
    options = parser.parse_args()
    folder = options.checkout.resolve() / FOLDER
    if not folder.is_dir():
        parser.error(f"a checkout of Triton has {FOLDER}; got {options.checkout}")
    results = (options.results or Path(tempfile.mkdtemp()) / "results.jsonl").resolve()
    if not options.table:
        for path in _files(folder, options.files):
            run(path, options, results)
    print_tables(_rows(results))
    return 0


def _files(folder: Path, names: list[str] | None) -> list[Path]:
    paths = sorted(folder.glob("test_*.py"))
    if names:
        return [path for path in paths if path.stem in names]
    return [path for path in paths if path.stem not in LEFT_OUT]


def run(path: Path, options: Any, results: Path) -> None:
    """Runs a file of tests, in a process, and in another one after each test that takes too long."""
    root = Path(__file__).resolve().parent
    env = os.environ | {
        "TRITON_CHECKOUT": str(options.checkout.resolve()),
        "TRITON_TESTS_EACH": str(options.each),
        "TRITON_TESTS_LIMIT_S": str(options.limit),
        "TRITON_TESTS_RESULTS": str(results),
        "PYTHONPATH": os.pathsep.join([str(root), str(root.parent), os.environ.get("PYTHONPATH", "")]),
    }
    pytest = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "triton_plugin", "-p", "no:cacheprovider"]
    chosen = ["-k", options.only] if options.only else []
    command = [*pytest, "--noconftest", "--tb=no", "-W", "ignore", *chosen, path.name]
    done = None
    while done is None or done.returncode == TOO_SLOW:
        done = subprocess.run(command, cwd=path.parent, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 5):
        print(f"{path.name}: pytest ended with status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def print_tables(rows: list[dict[str, Any]]) -> None:
    """Prints a row per file, and then the reasons of failures, the most frequent first."""
    files: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        files[row["test"].partition("::")[0]].append(row)
    print("| file | functions | parametrizations | skipped | of Triton's compiler | count | passed |")
    print("|---|---|---|---|---|---|---|")
    for name, of_file in [*sorted(files.items()), ("all", rows)]:
        functions = {row["test"].partition("[")[0] for row in of_file}
        counted = [row for row in of_file if counts(row)]
        n_skipped = _n(row["outcome"] == "skipped" for row in of_file)
        n_foreign = len(of_file) - n_skipped - len(counted)
        n_passed = _n(row["outcome"] == "passed" for row in counted)
        print(
            f"| {name} | {len(functions)} | {len(of_file)} | {n_skipped} | {n_foreign} | {len(counted)} | {n_passed} |"
        )
    reasons = Counter(
        (row["test"].partition("[")[0], _kind(row["reason"]))
        for row in rows
        if counts(row) and row["outcome"] == "failed"
    )
    print("\n| fail | test | reason |\n|---|---|---|")
    for (test, reason), n in reasons.most_common():
        print(f"| {n} | {test} | {reason} |")


def counts(row: dict[str, Any]) -> bool:
    """True for a test of the language, which is not skipped."""
    return row["outcome"] != "skipped" and not (row["foreign"] and row["outcome"] == "failed")


def _n(truths: Iterable[bool]) -> int:
    return sum(truths)


def _kind(reason: str) -> str:
    """Returns a reason without its numbers."""
    return re.sub(r"\d+", "N", reason)[:160]


if __name__ == "__main__":
    sys.exit(main())
