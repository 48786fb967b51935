"""Every example runs, prints correct results, and leaves no other files than it names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hang_limit import hang_limit_s

pytestmark = pytest.mark.pure  # what the programs call is tested on each driver

EXAMPLES = Path(__file__).parent.parent / "examples"

# Output of each example that depends on correct results.
FACTS = {
    "array_multiply": ["vc.multiply(a, b)           equals numpy", "a graph, run three times    equals numpy"],
    "own_kernel": ["largest difference from numpy: 0.0", "saxpy:13", "undeclared"],
    "saxpy": [
        "saxpy equals numpy: True",
        "saxpy on a grid equals numpy: True",
        "saxpy.py:15:18: this takes numbers; got the array a (float32, 1-D); index it, as a[i]",
    ],
    "multiply_kernel": [
        *(f"{dtype} equals numpy: True" for dtype in ("float32", "int32  ", "uint32 ")),
        "squares in place equal numpy: True",
        "a graph, run three times, equals numpy: True",
    ],
    "logreg_kernels": ["equal to numpy: True", "predicted: [0, 0, 0, 1, 1] from [0, 0, 0, 1, 1]"],
    "mandelbrot": ["100% of the points equal numpy's", "mandelbrot.png: 600 x 500"],
    "matrix_product": ["equal to numpy: True"],
    "triton_vector_add": ["equal to numpy: True", "n_elements,vkcompute,NumPy"],
    "triton_softmax": ["equal to numpy: True", "n_cols,vkcompute,NumPy"],
    "triton_matmul": ["equal to numpy: True", "n,vkcompute,NumPy"],
    "triton_dropout": ["equal to numpy: True", "59.4% of 10000 elements are kept", "n_elements,vkcompute,NumPy"],
    "triton_layer_norm": [
        "results equal to numpy: True",
        "gradients equal to numpy: True",
        "layer_norm_forward:\nn_cols,vkcompute,NumPy",
        "layer_norm_backward:\nn_cols,vkcompute,NumPy",
    ],
    "triton_attention": [
        "full attention equal to numpy: True",
        "causal attention equal to numpy: True",
        "n,vkcompute,vkcompute causal,NumPy,NumPy causal",
    ],
    "scaled_products": ["fp16: error 0.03%, 2.000 bytes", "e4m3: error 4.18%, 1.031 bytes", "e5m2: error 7.5"],
    "triton_grouped_gemm": ["equal to numpy: True", "n_products,vkcompute,NumPy"],
    "n_body": ["equal to numpy: True", "momentum is conserved: "],
    "histogram": ["equal to numpy: True", "##########"],
    "heat": ["degrees on average after 50 steps", "equal to numpy: True"],
    "image_filter": ["1. multiply, add, add, multiply, add, sqrt: reads 1,016,064 bytes", "equal to numpy: True", "##"],
    "game_of_life": ["equal to numpy: True", "the glider has moved: True", "..........###..."],
    "kmeans": ["labels equal numpy's: True", "centres equal numpy's: True"],
    "nearest_neighbours": ["5 of 5000 points for 200 queries: ", "distances equal the host's: True"],
    "kompute_multiply": ["[2.0, 2.0, 2.0] * [1.0, 2.0, 3.0] = [2.0, 4.0, 6.0]", "1 more: [3.0, 5.0, 7.0]"],
    "kompute_logistic_regression": ["weights: 0.000", "predicted: [0, 0, 0, 1, 1] from [0.0, 0.0, 0.0, 1.0, 1.0]"],
    "logreg_five_rows": [],
    "logreg_breast_cancer": ["scikit-learn"],
    "several_devices": ["rows per device: [", "% of the upper half mirrors the lower half", "@@@@@"],
    "graphed_training": ["graphed_step: ", "equal to the bit: True"],
    "pca": ["variance explained on ", ": 97.8%", "agrees with the host"],
    "dask_training": ["trained on 64000 rows in 8 chunks", "MiB to disk: 0", "timeline.png: 2 workers"],
}
PROGRAMS = [name for name in FACTS if name.startswith("triton_")]


def run(name: str, folder: Path, *options: str) -> str:
    command = [sys.executable, "-W", "error::ResourceWarning", str(EXAMPLES / f"{name}.py"), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=hang_limit_s(), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["heat", "image_filter", "game_of_life", "kmeans", *PROGRAMS])
def test_help(name: str, tmp_path: Path) -> None:
    assert f"{name}.py [-h] [{'folder' if name in PROGRAMS else '--'}" in run(name, tmp_path, "--help")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("name", "module", "command"),
    [
        ("logreg_breast_cancer", "sklearn", "needs scikit-learn: pip install 'vkcompute[ml]'"),
        ("pca", "sklearn", "needs scikit-learn: pip install 'vkcompute[ml]'"),
        ("dask_training", "dask", "needs dask: pip install 'vkcompute[dask,plot]'"),
        ("dask_training", "matplotlib", "needs matplotlib: pip install 'vkcompute[dask,plot]'"),
    ],
)
def test_a_missing_package_is_named_with_the_command(name: str, module: str, command: str) -> None:
    program = "import runpy, sys; sys.modules[sys.argv[1]] = None; runpy.run_path(sys.argv[2], run_name='__main__')"
    arguments = [sys.executable, "-c", program, module, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"this example {command}\n")


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(FACTS)


@pytest.mark.rotates
@pytest.mark.parametrize("name", FACTS)
def test_example(name: str, tmp_path: Path) -> None:
    said = run(name, tmp_path)
    for fact in FACTS[name]:
        assert fact in said
    assert all(len(line) <= 100 for line in said.splitlines())
