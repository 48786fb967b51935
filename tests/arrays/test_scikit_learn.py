"""scikit-learn's estimators on device arrays; see scikit_learn_programs.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vkcompute as vc

pytest.importorskip("sklearn", "1.8")
pytest.importorskip("scipy", "1.14")


@pytest.fixture(scope="module")
def differences() -> dict[str, str]:
    program = Path(__file__).with_name("scikit_learn_programs.py")
    command = [sys.executable, "-W", "ignore", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    report: dict[str, str] = json.loads(done.stdout)
    return report


@pytest.mark.rotates
def test_results_are_numpys(gpu: vc.Runtime, differences: dict[str, str]) -> None:
    assert len(differences) > 25
    assert {name: what for name, what in differences.items() if what} == {}
