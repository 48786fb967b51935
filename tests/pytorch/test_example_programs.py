"""Examples of PyTorch's device that need other libraries: a Trainer's program, and a notebook of a compiled model."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hang_limit import hang_limit_s

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/pytorch"


def test_a_trainer_fine_tunes(tmp_path: Path) -> None:
    for library in "transformers", "accelerate", "matplotlib":
        if not importlib.util.find_spec(library):
            pytest.skip(f"needs {library}")
    done = subprocess.run(
        [sys.executable, "-m", "vkcompute.torch", EXAMPLES / "finetuned_gpt.py", "12"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=hang_limit_s(300),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "loss" in line]
    assert len(lines) == 2
    for line in lines:
        first, last = line.partition("loss ")[2].split(" on ")[0].split(" to ")
        assert float(last) < float(first)
        assert line.endswith("on cuda:0")
    assert [path.name for path in tmp_path.iterdir()] == ["finetuned_gpt.png"]


def test_the_notebook_of_a_compiled_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    for library in "ipykernel", "matplotlib":
        pytest.importorskip(library)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(EXAMPLES / "compiled_timeline.ipynb", 4)
    nbclient.NotebookClient(notebook, timeout=hang_limit_s(300)).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    printed = "".join(output.get("text", "") for output in shown)
    losses = [float(line.rsplit(" ", 1)[1]) for line in printed.splitlines() if ": loss " in line]
    launches = [int(line.split()[1]) for line in printed.splitlines() if "launches" in line]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    assert launches[1] < launches[0]
    assert "triton_" in printed
    kinds = [key for output in shown for key in output.get("data", {})]
    assert {"text/html", "image/png"} <= {*kinds}
