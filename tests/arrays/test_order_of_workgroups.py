"""Sorts, scans and selections wait for no workgroup: their results are the same in reverse order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hang_limit import hang_limit_s

import vkcompute as vc

_PROGRAM = Path(__file__).with_name("reversed_workgroups.py")


@pytest.mark.rotates
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_results_in_reverse_order(gpu: vc.Runtime, tmp_path: Path, kind: str) -> None:
    """One thread of lavapipe starts workgroups one after the other, and so the last elements are the first."""
    env = os.environ | {"VKCOMPUTE_CACHE_DIR": str(tmp_path), "LP_NUM_THREADS": "1"}
    command = [sys.executable, str(_PROGRAM), kind]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    order = [int(number) for number in done.stdout.split()]
    assert sorted(order) == list(range(64))
    if gpu.device.name.startswith("llvmpipe"):
        assert order == list(range(63, -1, -1))
