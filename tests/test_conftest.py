"""The guards of conftest.py catch what they are for: run on small suites with a stand-in for vkcompute."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chosen_tests import SELECTION, SHARD

pytestmark = pytest.mark.pure

VALIDATION = """
said = []
def validation_messages():
    texts = said[:]
    said.clear()
    return texts
"""
LIFETIME = """
counts = {}
def live_counts():
    return {k: n for k, n in counts.items() if n}
"""


INNER = """
def test_a_message(): validation.said.append('VUID-1')
def test_after_it(): pass

def test_a_message_taken_back(validation_said):
    validation.said.append('VUID-4')
    assert validation_said() == ['VUID-4']

@pytest.fixture
def two(): lifetime.counts['Buffer'] = 2
def test_one_more(two, clean_handles): lifetime.counts['Buffer'] += 1
def test_one_less(two, clean_handles): lifetime.counts['Buffer'] -= 1

def test_the_cache():
    print('CACHE', os.environ['VKCOMPUTE_CACHE_DIR'])
    assert False
"""


def run(suite: Path, body: str) -> str:
    """The report on a test module with this text, beside the real conftest.py and a stand-in for vkcompute."""
    core = suite / "vkcompute/core"
    core.mkdir(parents=True)
    (suite / "vkcompute/__init__.py").touch()
    (core / "__init__.py").touch()
    (core / "validation.py").write_text(VALIDATION)
    (core / "lifetime.py").write_text(LIFETIME)
    tests = Path(__file__).resolve().parent
    shutil.copy(tests.parent / "vkcompute/locks.py", suite / "vkcompute")
    scripts = ("../scripts/hang_limit.py", "../scripts/passed_tests.py", "../scripts/chosen_tests.py")
    for name in ("conftest.py", "validator.py", "checked_locks.py", *scripts):
        shutil.copy(tests / name, suite)
    text = f"import os, gc, pytest\nfrom vkcompute.core import validation, lifetime\n{body}"
    (suite / "test_inner.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={suite}", str(suite), "-q", "-rA"]
    env = os.environ | {"PYTHONPATH": str(suite), "VKCOMPUTE_CACHE_DIR": "/home/someone/.cache"}
    # What devices compile is watched in the whole library only, and the outer run's selection is not for these tests.
    for name in ("VKCOMPUTE_VALIDATION", SELECTION, SHARD):
        env.pop(name, None)
    return subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on the inner tests that do not concern the end of a session."""
    return run(tmp_path_factory.mktemp("suite"), INNER)


def failed(report: str) -> set[str]:
    """The inner tests that failed, or had an error after they had passed."""
    return set(re.findall(r"^(?:FAILED|ERROR) test_inner.py::(\w+)", report, re.MULTILINE))


def test_the_others_pass(report: str) -> None:
    """A message fails one test, not the next, and not one that provoked it."""
    assert failed(report) == {"test_a_message", "test_one_more", "test_one_less", "test_the_cache"}
    assert "5 passed, 1 failed, 3 errors" in report or "1 failed, 5 passed, 3 errors" in report, report


def test_a_message_fails_its_test(report: str) -> None:
    assert "said in this test:\nVUID-1" in report
    assert "VUID-4\n" not in report


@pytest.mark.parametrize("change", ["3 after", "1 after"])
def test_handles_that_are_left_over_fail_the_test(report: str, change: str) -> None:
    assert f"Buffer: 2 open before, {change}" in report


def test_the_users_cache_is_left_alone(report: str) -> None:
    folder = next(line.split()[1] for line in report.splitlines() if line.startswith("CACHE"))
    assert folder != "/home/someone/.cache"
    assert not Path(folder).exists(), "it is removed at the end"


def test_a_message_of_a_closing_fixture_fails_the_run(tmp_path: Path) -> None:
    body = "@pytest.fixture(scope='module')\ndef m():\n    yield\n    validation.said.append('VUID-2')\n"
    report = run(tmp_path, body + "def test_a(m): pass\n")
    assert "at the end of the session:\nVUID-2" in report


def test_a_message_of_a_finalizer_at_the_end_fails_the_run(tmp_path: Path) -> None:
    body = "class C:\n    def __del__(self): validation.said.append('VUID-3')\n"
    report = run(tmp_path, body + "def test_a():\n    c = C()\n    c.c = c\n    gc.disable()\n")
    assert "VUID-3" in report
    assert "1 passed, 1 error" in report
