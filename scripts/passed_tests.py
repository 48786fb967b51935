"""Tests that have passed: a run that was ended resumes after them, until the code changes."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

VARIABLE = "VKCOMPUTE_TEST_PASSED"
"""The environment variable with the file that notes them."""


def file_for(name: str, root: Path) -> Path:
    """The file for a run of this name and the present code, the only one that is kept."""
    texts = [
        subprocess.run(["git", *words], cwd=root, capture_output=True, check=False).stdout
        for words in (["rev-parse", "HEAD"], ["diff", "HEAD"])
    ]
    folder = root / "build/passed_tests"
    file = folder / f"{name}-{hashlib.sha256(b''.join(texts)).hexdigest()[:16]}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.glob(f"{name}-*.txt"):
        if other != file:
            other.unlink()
    return file


class PassedTests:
    """A plugin of pytest: it leaves out the tests that a file names, and adds those that pass or are skipped."""

    def __init__(self, file: Path) -> None:
        self._file, self._failed = file, set[str]()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselects the tests that have passed."""
        passed = {*self._file.read_text(encoding="utf-8").splitlines()} if self._file.exists() else set()
        rest = [item for item in items if item.nodeid not in passed]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = rest

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a test once nothing of it has failed."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self._failed:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")
