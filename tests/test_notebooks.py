"""Notebooks on the installed wheel: errors, pictures and objects as they are shown there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hang_limit import hang_limit_s

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent
CELLS = {
    "import": "import numpy as np, vkcompute as vc\ngpu = vc.Runtime('cpu')\nx = gpu.zeros(8)\nvc.__file__",
    "compile": "@vc.kernel\ndef listed(x):\n    x[vc.global_id(0)] = [1, 2]\n\nlisted(x)",
    "launch": "def launch():\n    vc.elementwise('a + b')(x, gpu.zeros(3))\n\nlaunch()",
    "operator": "x + gpu.zeros(3)",
    "graph": "with gpu.record(z=x) as graph:\n    vc.multiply(graph['z'], 2.0, graph['z'])\ngraph.run(z=gpu.zeros(3))",
    "function": "import vkcompute.numpy as vnp\nvnp.sum(x, axis=5)",
    "glsl": "gpu.kernel('multiply_float32')(x)",
    "profile": "with gpu.profile() as profile:\n    vc.multiply(x, x)\nprofile",
    "plot": "profile.plot()",
    "plot;": "profile.plot();",
    "plot and more": "figure = profile.plot()\nprint('done')",
    "plots": "for _ in range(2):\n    profile.plot()",
    "figure": "figure",
    "array": "x",
    "runtime": "gpu",
    "devices": "vc.devices()",
    "group": "vc.DeviceGroup([gpu])",
    "estimator": "vc.LogisticRegression(alpha=0.5)",
    "close": "gpu.close(); gpu",
    "closed": "x",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the wheel installs."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def outputs(installed: Path) -> dict[str, list[Any]]:
    """What the cells of a notebook show."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, timeout=hang_limit_s(), allow_errors=True, kernel_name="python3")
    client.execute(cwd=str(installed), env=os.environ | {"PYTHONPATH": str(installed)})
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def html(outputs: list[Any]) -> str:
    (output,) = outputs
    return str(output.data["text/html"])


def test_the_wheel_is_used(outputs: dict[str, list[Any]], installed: Path) -> None:
    assert str(installed) in outputs["import"][0].data["text/plain"]


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        (
            "compile",
            [
                "  Cell In[2], line 5, in <module>",
                "KernelError: Cell In[2]:3:5: ",
                "        x[vc.global_id(0)] = [1, 2]",
                "        ^",
            ],
        ),
        ("launch", ["  Cell In[3], line 4, in <module>", "  Cell In[3], line 2, in launch", "ValueError: "]),
        ("operator", ["  Cell In[4], line 1, in <module>", "ValueError: "]),
        ("graph", ["  Cell In[5], line 3, in <module>", "ValueError: "]),
        ("function", ["  Cell In[6], line 2, in <module>", "AxisError: "]),
        ("glsl", ["  Cell In[7], line 1, in <module>", "TypeError: "]),
    ],
)
def test_errors_show_the_users_lines_only(outputs: dict[str, list[Any]], cell: str, lines: list[str]) -> None:
    (output,) = outputs[cell]
    shown = "\n".join(output.traceback).split("\n")
    places = [line for line in shown if "line " in line and ", in " in line]
    assert all("Cell In[" in line for line in places)
    assert len(shown) <= 10, shown
    for line in lines:
        assert [item for item in shown if item.startswith(line)], (line, shown)


def test_a_plot_is_drawn_once(outputs: dict[str, list[Any]]) -> None:
    pytest.importorskip("matplotlib")
    for cell, n_figures in (("plot", 1), ("plot;", 1), ("plot and more", 1), ("plots", 2), ("figure", 1)):
        assert sum("image/png" in output.get("data", {}) for output in outputs[cell]) == n_figures, cell


def test_objects_have_a_form_for_notebooks(outputs: dict[str, list[Any]]) -> None:
    assert "array of shape (8,), float32, 32 bytes, on " in html(outputs["array"])
    assert "[0. 0. 0. 0. 0. 0. 0. 0.]" in html(outputs["array"])
    assert all(f">{name}<" in html(outputs["runtime"]) for name in ("device", "driver", "queues", "memory"))
    assert "the default" in html(outputs["devices"])
    assert ">100%<" in html(outputs["group"])
    assert ">0.5<" in html(outputs["estimator"])
    assert "Runtime, closed" in html(outputs["close"])
    assert "closed" in html(outputs["closed"])


def test_a_profile_is_a_page_of_its_own(outputs: dict[str, list[Any]]) -> None:
    shown = html(outputs["profile"])
    assert shown.startswith('<iframe srcdoc="')
    assert "multiply float32" in shown
    assert "http" not in shown.replace("http-equiv", "")
    assert outputs["profile"][0].data["text/plain"].startswith("<profile of ")
