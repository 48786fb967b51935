"""The guards of conftest.py catch what they are for: run on small suites with a stand-in for vkcompute."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the real conftest.py and a vkcompute that has nothing but what the guards ask."""
    core = tmp_path / "vkcompute/core"
    core.mkdir(parents=True)
    (tmp_path / "vkcompute/__init__.py").touch()
    (core / "__init__.py").touch()
    (core / "validation.py").write_text(VALIDATION)
    (core / "lifetime.py").write_text(LIFETIME)
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    return tmp_path


def run(suite: Path, body: str) -> str:
    """The report on a test module with this text."""
    text = f"import os, gc, pytest\nfrom vkcompute.core import validation, lifetime\n{body}"
    (suite / "test_inner.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={suite}", str(suite), "-q"]
    env = os.environ | {"PYTHONPATH": str(suite)}
    return subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True, check=False).stdout


def test_a_message_fails_its_test(suite: Path) -> None:
    report = run(suite, "def test_a(): validation.said.append('VUID-1')\ndef test_b(): pass\n")
    assert "said in this test:\nVUID-1" in report
    assert "2 passed, 1 error" in report


def test_a_message_of_a_closing_fixture_fails_the_run(suite: Path) -> None:
    body = "@pytest.fixture(scope='module')\ndef m():\n    yield\n    validation.said.append('VUID-2')\n"
    report = run(suite, body + "def test_a(m): pass\n")
    assert "at the end of the session:\nVUID-2" in report


def test_a_message_of_a_finalizer_at_the_end_fails_the_run(suite: Path) -> None:
    body = "class C:\n    def __del__(self): validation.said.append('VUID-3')\n"
    report = run(suite, body + "def test_a():\n    c = C()\n    c.c = c\n    gc.disable()\n")
    assert "VUID-3" in report
    assert "1 passed, 1 error" in report


def test_a_message_that_was_provoked_is_taken_back(suite: Path) -> None:
    body = "def test_a(validation_said):\n    validation.said.append('VUID-4')\n"
    report = run(suite, body + "    assert validation_said() == ['VUID-4']\n")
    assert "1 passed" in report
    assert "error" not in report


@pytest.mark.parametrize(
    ("change", "expected"), [("+= 1", "Buffer: 2 open before, 3 after"), ("-= 1", "Buffer: 2 open before, 1 after")]
)
def test_handles_that_are_left_over_fail_the_test(suite: Path, change: str, expected: str) -> None:
    body = f"lifetime.counts['Buffer'] = 2\ndef test_a(clean_handles): lifetime.counts['Buffer'] {change}\n"
    assert expected in run(suite, body)


def test_the_users_cache_is_left_alone(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", "/home/someone/.cache")
    body = "def test_a():\n    print('CACHE', os.environ['VKCOMPUTE_CACHE_DIR'])\n    assert False\n"
    report = run(suite, body)
    folder = next(line.split()[1] for line in report.splitlines() if line.startswith("CACHE"))
    assert folder != "/home/someone/.cache"
    assert not Path(folder).exists(), "it is removed at the end"
