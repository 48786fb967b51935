"""Several processes: DistributedDataParallel through gloo, with a device for each process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("data_parallel.py")
SWIFTSHADER = Path(__file__).resolve().parents[2] / ".drivers/swiftshader/vk_swiftshader_icd.json"


@pytest.mark.skipif(sys.platform == "win32", reason="gloo's files are of Linux and macOS; SIGKILL is")
@pytest.mark.parametrize("second", ["the same driver", "swiftshader"])
def test_two_processes_train_as_one_and_end_together(tmp_path: Path, second: str) -> None:
    if second == "swiftshader" and not SWIFTSHADER.exists():
        pytest.skip(f"no SwiftShader at {SWIFTSHADER}")
    other = {"VK_ICD_FILENAMES": str(SWIFTSHADER)} if second == "swiftshader" else {}
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(rank), tmp_path / "store"],
            env=os.environ | (other if rank else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    results = [process.communicate(timeout=300) for process in processes]
    assert [result[0] for result in results] == ["same\n", "same\n"], results
    assert processes[0].returncode == 1, "a killed process ends the others with an error"
    assert "RuntimeError" in results[0][1]


def test_chunks_of_a_dask_array_are_predicted_by_the_workers() -> None:
    first, drivers = os.environ.get("VK_ICD_FILENAMES"), {"VKCOMPUTE_DEVICE": ""}
    if first and SWIFTSHADER.exists():
        drivers["VK_ICD_FILENAMES"] = f"{first}{os.pathsep}{SWIFTSHADER}"
    run = subprocess.run(
        [sys.executable, Path(__file__).with_name("dask_predictions.py")],
        env=os.environ | drivers,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.stdout == f"{len(drivers)} workers\n", run.stderr
