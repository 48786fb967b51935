"""A program of a user passes the type checkers, strictly, and they know the types of its results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "tests" / "typed_program.py"
TYPES = """
import numpy as np
import vkcompute as vc
def same(x: float) -> float:
    return x
def f(x: vc.Array, n: vc.float32[:]) -> None:
    reveal_type(vc.elementwise("x + 1")(x))
    reveal_type(vc.vectorize(same)(x))
    reveal_type(vc.reduce("a + b", 0)(x, axis=0))
    reveal_type(vc.multiply(x, 2))
    reveal_type(vc.multiply(2, x))
    reveal_type(x * 2 + x)
    reveal_type(x.sum())
    reveal_type(vc.devices()[0])
    reveal_type(vc.multiply(np.ones(3), 2.0))
"""
KNOWN = ["Array"] * 7 + ["DeviceInfo"]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "revealed.py"
    path.write_text(TYPES)
    return path


def test_mypy(module: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", str(PROGRAM), str(module)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    revealed = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type is" in line]
    assert [item.rpartition(".")[2] for item in revealed[:8]] == KNOWN
    assert "ndarray" in revealed[8]


def test_pyright(module: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    settings = {"typeCheckingMode": "strict", "include": [str(PROGRAM), str(module)], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", str(tmp_path)], capture_output=True, text=True, check=False)
    if not done.stdout.lstrip().startswith("{"):
        pytest.skip(f"pyright does not run here: {done.stderr[-200:]}")
    report = json.loads(done.stdout)["generalDiagnostics"]
    assert [item for item in report if item["severity"] != "information"] == []
    revealed = [item["message"].rpartition(" is ")[2].strip('"') for item in report]
    assert revealed[:8] == KNOWN
    assert "NDArray" in revealed[8] or "ndarray" in revealed[8]


def test_the_program_runs() -> None:
    command = [sys.executable, str(PROGRAM)]
    environ = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
