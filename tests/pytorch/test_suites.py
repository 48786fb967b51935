"""The script that runs PyTorch's own test files on the device, with a file of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "torch_tests.py"
FILE = """
import os, signal
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

class TestSmall(TestCase):
    def test_a_crash(self, device):
        if torch.device(device).type == "vk":
            os.kill(os.getpid(), signal.SIGKILL)

    def test_everywhere(self, device):
        self.assertEqual(torch.ones(2, device=device), torch.zeros(2, device=device))

    def test_here(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_right(self, device):
        self.assertEqual(torch.ones(2, device=device).sum().item(), 2)

instantiate_device_type_tests(TestSmall, globals())
"""


def test_files_of_pytorch_run_on_the_device_and_their_failures_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(FILE)
    out = tmp_path / "results.jsonl"
    command = [sys.executable, str(SCRIPT), str(tmp_path), "test_small", "--out", str(out), "--reasons"]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run(command, check=True, capture_output=True)  # continues: there is nothing left to run
    n_lines = len(out.read_text().splitlines())
    host = subprocess.run([*command, "--host"], check=True, capture_output=True, text=True)
    rows = {(device, name.split("::")[-1]): outcome for device, name, outcome, _ in map(json.loads, out.open())}
    assert n_lines == 7  # each test once, and its outcome but for the crash
    assert rows["vk", "test_a_crash"] == "crashed"
    assert (rows["vk", "test_right"], rows["vk", "test_here"]) == ("passed", "failed")
    assert ("cpu", "test_right") not in rows
    assert "1 passed" in host.stdout
    assert "1 also on the CPU" in host.stdout
    assert "1 crashed" in host.stdout
    assert "test_small.py::TestSmall::test_here" in host.stdout
