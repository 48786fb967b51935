"""`vkcompute demo`: the device, the array multiply, and a logistic regression; also without any extra installed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkcompute import disk
from vkcompute.cli import terminal
from vkcompute.cli.options import Commands, Parser

if TYPE_CHECKING:
    from vkcompute.runtime.runtime import Runtime

_N = 16 << 20
_BEST_OF = 5
_COLUMNS = 12


def add_parser(commands: Commands) -> None:
    """Adds the command's parser."""
    text = (
        "Multiplies two arrays of 16 million numbers, and compares with NumPy. Then trains a logistic regression, on "
        "scikit-learn's breast-cancer data if that is installed, and draws its loss if matplotlib is."
    )
    parser: Parser = commands.add_parser("demo", help="multiply arrays, train a model", description=text)
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder of the plot (default: %(default)s)")
    parser.add_device_option()
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from vkcompute.runtime.runtime import Runtime

    with Runtime(args.device) as gpu:
        physical = gpu.device.physical
        version = ".".join(map(str, physical.api_version))
        memory = terminal.nbytes(physical.memory_nbytes)
        _say("Device", physical.name, f"{physical.kind}, {physical.driver}, Vulkan {version}, {memory}")
        same = _multiply(gpu)
        _train(gpu, args.output)
    return 0 if same else 1


def _say(label: str, *lines: str) -> None:
    for line in lines:
        terminal.write(f"{label:<{_COLUMNS}}{line}")
        label = ""


def _best_of(action: Callable[[], object]) -> float:
    """Returns the seconds of the fastest run; the first runs include compilation and allocation."""
    seconds = []
    for _ in range(_BEST_OF):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def _multiply(gpu: Runtime) -> bool:
    """Multiplies two arrays, on the device and streamed through it. Returns True if both are NumPy's product."""
    import numpy as np

    from vkcompute.pipelines.multiply import multiply

    rng = np.random.default_rng(0)
    a, b = (rng.random(_N, np.float32) for _ in range(2))
    expected, streamed = a * b, np.empty_like(a)
    x, y, out = gpu.array(a), gpu.array(b), gpu.empty(a.shape, a.dtype)

    def on_device() -> None:
        multiply(x, y, out)
        gpu.wait()

    seconds = _best_of(lambda: multiply(a, b, streamed, runtime=gpu)), _best_of(on_device)
    same = np.array_equal(streamed, expected) and np.array_equal(out.numpy(), expected)
    streaming, computing = (3 * a.nbytes / 1e9 / duration_s for duration_s in seconds)
    outcome = "equal to NumPy, bit for bit" if same else "DIFFERS FROM NUMPY"
    rates = f"{computing:.1f} GB/s on the device, {streaming:.1f} GB/s with the transfers"
    _say("Multiply", f"{a.size:,} float32: {outcome}", rates)
    return same


def _train(gpu: Runtime, folder: Path) -> None:
    """Trains a model, and holds out a third of the rows."""
    from vkcompute.pipelines.logistic_regression import LogisticRegression

    what, table, labels = _data()
    held_out = len(table) // 3
    parts = (table[held_out:], labels[held_out:]), (table[:held_out], labels[:held_out])
    (train_X, train_y), (test_X, test_y) = parts  # noqa: N806
    model = LogisticRegression(device=gpu)
    started = time.perf_counter()
    model.fit(train_X, train_y)
    seconds = time.perf_counter() - started
    _say(
        "Training",
        f"{len(train_X)} {what}, {train_X.shape[1]} features",
        f"{model.n_iter_[0]} iterations in {seconds:.2f} s, loss {model.loss_curve_[-1]:.4f}",
    )
    scores = [f"{len(test_X)} {what}: accuracy {model.score(test_X, test_y):.3f}"]
    if find_spec("sklearn"):
        from sklearn.linear_model import LogisticRegression as Reference

        reference = Reference().fit(train_X, train_y).score(test_X, test_y)
        scores.append(f"scikit-learn's LogisticRegression: {reference:.3f}")
    _say("Held out", *scores)
    _plot(model, gpu, folder)


def _data() -> tuple[str, Any, Any]:
    """Returns the name of a row, the standardized table in random order, and the labels."""
    import numpy as np

    rng = np.random.default_rng(0)
    if find_spec("sklearn"):
        from sklearn.datasets import load_breast_cancer

        what, (table, labels) = "patients", load_breast_cancer(return_X_y=True)
    else:
        what, labels = "points of two clouds", rng.integers(0, 2, 600)
        table = rng.normal(size=(600, 10)) + labels[:, None]
    order = rng.permutation(len(table))
    return what, ((table - table.mean(axis=0)) / table.std(axis=0))[order], labels[order]


def _plot(model: Any, gpu: Runtime, folder: Path) -> None:
    """Draws the loss."""
    if not find_spec("matplotlib"):
        _say("Plot", "none, for which matplotlib is needed: pip install 'vkcompute[plot]'")
        return
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(model.loss_curve_) + 1), model.loss_curve_)
    axes.set(xlabel="iteration", ylabel="loss (mean cross-entropy + penalty)", ylim=(0, None))
    axes.set_title(f"Logistic regression on {gpu.device}")
    axes.grid(alpha=0.3)
    with disk.replacing(folder / "loss.png") as temporary:
        figure.savefig(temporary, dpi=150)
    _say("Plot", str(folder / "loss.png"))
