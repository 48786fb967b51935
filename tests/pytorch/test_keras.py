"""VKCOMPUTE_KERAS=1 gives Keras the device, before and after PyTorch is imported."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hang_limit import hang_limit_s

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = "KERAS_BACKEND", "KERAS_TORCH_DEVICE"
# Its import wants TensorFlow unless the variables are set, which the programs do.
WITH_KERAS = pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="needs Keras")
SHOW = f"import os; print(*[os.environ.get(name, '-') for name in {VARIABLES}])"


def run(program: str, **variables: str) -> tuple[str, str]:
    """Returns the output and the errors of a program, without Keras' variables but for those that are given."""
    own = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    result = subprocess.run(
        [sys.executable, "-c", program], env=own | variables, capture_output=True, text=True, check=True
    )
    return result.stdout.strip(), result.stderr.strip()


def test_the_variable_sets_those_of_keras_and_names_the_device() -> None:
    program = f"import torch, vkcompute.torch, sys; {SHOW}; print(torch.vk.get_device_name())"
    output, errors = run(program, VKCOMPUTE_KERAS="1")
    values, name = output.splitlines()
    assert (values, errors) == ("torch vk", f"Using vkcompute: {name}")
    output, errors = run(program, VKCOMPUTE_KERAS="1", KERAS_BACKEND="jax")
    assert (output.split()[0], errors) == ("jax", "")
    output, errors = run(program, VKCOMPUTE_KERAS="0")
    assert (output.splitlines()[0], errors) == ("- -", "")


def test_the_line_of_python_s_start_sets_them_too() -> None:
    line = (ROOT / "vkcompute_keras.pth").read_text(encoding="utf-8").strip()
    assert line.startswith("import ")  # else Python takes it for a folder
    assert run(f"{line}\n{SHOW}", VKCOMPUTE_KERAS="1") == ("torch vk", "")
    assert run(f"{line}\n{SHOW}", VKCOMPUTE_KERAS="1", KERAS_BACKEND="jax") == ("jax vk", "")
    assert run(f"{line}\n{SHOW}", VKCOMPUTE_KERAS="0") == ("- -", "")


@WITH_KERAS
def test_the_example_learns(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "examples/pytorch/keras_digits.py", "4"],
        env=os.environ | {"VKCOMPUTE_KERAS": "1", "KERAS_BACKEND": "torch", "KERAS_TORCH_DEVICE": "vk"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    accuracy = float(result.stdout.split("accuracy ")[-1].split(";")[0])
    assert accuracy > 0.6
    assert "predicts the same: True" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"keras_digits.png", "keras_digits.keras"}


@WITH_KERAS
@pytest.mark.parametrize("name", ["autoencoder", "transformer", "text", "older"])
def test_programs_learn_what_they_do_on_the_cpu(name: str, tmp_path: Path) -> None:
    program = Path(__file__).with_name("keras_programs.py")
    results, variables = {}, {"VKCOMPUTE_KERAS": "1", "KERAS_BACKEND": "torch", "VKCOMPUTE_TORCH_FALLBACK": "silent"}
    for device in "cpu", "vk":
        (tmp_path / device).mkdir()
        done = subprocess.run(
            [sys.executable, program, name, tmp_path / device],
            env=os.environ | variables | {"KERAS_TORCH_DEVICE": device},
            capture_output=True,
            text=True,
            timeout=hang_limit_s(300),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert ("Using vkcompute: " in done.stderr) == (device == "vk")
        assert "Epoch 3/3" in done.stdout
        results[device] = json.loads(done.stdout.splitlines()[-1])
    assert results["cpu"].keys() == results["vk"].keys()
    for key, expected in results["cpu"].items():
        assert results["vk"][key] == pytest.approx(expected, rel=1e-3, abs=1e-4), key
