"""The program of `make demo`: the device, the array multiply, and a logistic regression on real data.

    python examples/demo.py [--output FOLDER]

Needs the extras `ml` (the data and a reference model) and `plot`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import vkcompute as vc

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression as Reference
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler
except ImportError as missing:
    raise SystemExit(f"the demo needs {missing.name}: pip install 'vkcompute[ml,plot]'") from None


def show_device(gpu: vc.Runtime) -> None:
    """Prints the device's properties."""
    physical = gpu.device.physical
    version = ".".join(map(str, physical.api_version))
    gib = sum(heap.nbytes for heap in physical.memory_heaps if heap.device_local) / 2**30
    print(f"Device      {physical.name}")
    print(f"            {physical.kind}, {physical.driver}, Vulkan {version}, {gib:.1f} GiB")


def best_of(action: Callable[[], object], times: int = 5) -> float:
    """Seconds of the fastest run; the first runs include compilation and allocation."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def multiply_arrays(gpu: vc.Runtime) -> None:
    """Multiplies two arrays of 16 million numbers, on the device and streamed through it."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(16 << 20, np.float32) for _ in range(2))
    expected, streamed = a * b, np.empty_like(a)
    x, y, out = gpu.array(a), gpu.array(b), gpu.empty(a.shape, a.dtype)

    def on_device() -> None:
        vc.multiply(x, y, out)
        gpu.wait()

    seconds = best_of(lambda: vc.multiply(a, b, streamed, runtime=gpu)), best_of(on_device)
    same = np.array_equal(streamed, expected) and np.array_equal(out.numpy(), expected)
    gigabytes = 3 * a.nbytes / 1e9
    print(f"\nMultiply    {a.size:,} float32: {'equal to numpy, bit for bit' if same else 'DIFFERS FROM NUMPY'}")
    streaming, computing = (gigabytes / each for each in seconds)
    print(f"            {computing:.1f} GB/s on the device, {streaming:.1f} GB/s with the transfers")
    if not same:
        raise SystemExit(1)


def train_model(gpu: vc.Runtime, folder: Path) -> None:
    """Trains on 30 measurements of breast-cancer patients; holds out a third of the patients."""
    data = load_breast_cancer()
    split = train_test_split(data.data, data.target, test_size=1 / 3, random_state=0, stratify=data.target)
    train_X, test_X, train_y, test_y = split
    scaler = StandardScaler().fit(train_X)
    train_X, test_X = scaler.transform(train_X), scaler.transform(test_X)
    ours = vc.LogisticRegression(learning_rate=0.5, max_iter=500, alpha=1 / len(train_X), device=gpu)
    started = time.perf_counter()
    ours.fit(train_X, train_y)
    seconds = time.perf_counter() - started
    reference = Reference().fit(train_X, train_y)
    print(f"\nTraining    {len(train_X)} patients, {train_X.shape[1]} features")
    print(f"            {ours.n_iter_} iterations in {seconds:.2f} s, loss {ours.loss_curve_[-1]:.4f}")
    print(f"Held out    {len(test_X)} patients: accuracy {ours.score(test_X, test_y):.3f}")
    print(f"            scikit-learn's LogisticRegression: {reference.score(test_X, test_y):.3f}")
    picture = folder / "loss.png"
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(np.arange(1, len(ours.loss_curve_) + 1), ours.loss_curve_)
    axes.set(xlabel="iteration", ylabel="loss (mean cross-entropy + penalty)", ylim=(0, None))
    axes.set_title(f"Logistic regression on {gpu.device}")
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=150)
    print(f"Plot        {picture}")


def main() -> None:
    """Runs the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder of the plot (default: %(default)s)")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with vc.Runtime() as gpu:
        show_device(gpu)
        multiply_arrays(gpu)
        train_model(gpu, options.output)


if __name__ == "__main__":
    main()
