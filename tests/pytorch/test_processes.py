"""Several processes: DistributedDataParallel and sharded parameters through gloo, with a device for each process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import drivers
import pytest
import torch
from hang_limit import hang_limit_s

PROGRAM = Path(__file__).with_name("data_parallel.py")
SWIFTSHADER = drivers.swiftshader()


@pytest.mark.skipif(sys.platform == "win32", reason="gloo's files are of Linux and macOS; SIGKILL is")
@pytest.mark.parametrize("second", ["the same driver", "swiftshader"])
def test_two_processes_train_as_one_and_end_together(tmp_path: Path, second: str) -> None:
    if second == "swiftshader" and SWIFTSHADER is None:
        pytest.skip("SwiftShader is not installed")
    other = drivers.only(str(SWIFTSHADER)) if second == "swiftshader" else {}
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
    results = [process.communicate(timeout=hang_limit_s(300)) for process in processes]
    last_lines = [result[0].splitlines()[-1:] for result in results]  # PyTorch 2.10 prints others
    assert last_lines == [["same"], ["same"]], results
    assert processes[0].returncode == 1, "a killed process ends the others with an error"
    assert "RuntimeError" in results[0][1]


def test_chunks_of_a_dask_array_are_predicted_by_the_workers() -> None:
    both = [str(manifest) for manifest in (drivers.lavapipe(), SWIFTSHADER) if manifest]
    run = subprocess.run(
        [sys.executable, Path(__file__).with_name("dask_predictions.py")],
        env=drivers.only(os.pathsep.join(both)) | {"VKCOMPUTE_DEVICE": ""},
        capture_output=True,
        text=True,
        timeout=hang_limit_s(300),
        check=False,
    )
    assert run.stdout == f"{len(both)} workers\n", run.stderr


def test_storages_drop_their_elements_and_get_memory_again() -> None:
    x = torch.arange(8.0, device="vk")
    part, storage = x[2:4], x.untyped_storage()
    torch.vk.synchronize()
    before = torch.vk.memory_allocated()
    storage.resize_(0)
    assert (storage.size(), storage.nbytes(), len(storage), x._typed_storage()._size()) == (0, 0, 0, 0)
    assert torch.vk.memory_allocated() < before
    for use in (lambda: (x + 1).cpu(), lambda: x.fill_(3)):
        with pytest.raises(RuntimeError, match=r"32 bytes was resized to 0 bytes; call its resize_\(32\)"):
            use()
    assert storage.size() == 0
    storage.resize_(32)
    x.fill_(3)
    assert (part.tolist(), storage.size()) == ([3, 3], 32)
    with pytest.raises(RuntimeError, match="has 0 to 32 after resize_; got 64"):
        storage.resize_(64)
    host = torch.ones(2)
    assert host.untyped_storage().resize_(16).size() == 16
