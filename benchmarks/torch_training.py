"""Steps of training on PyTorch's device beside those of PyTorch's CPU, in one run: times, and their ratios.

    python benchmarks/torch_training.py [mlp] [resnet] [gpt] [--rounds 5]
    python benchmarks/torch_training.py mlp --steps 10000  # memory, ten times

The CPU has one thread less than the machine. Steps of both take turns, and the median counts, so that other load moves
both alike. A step ends when the loss is known. CPU times have those of all threads, also of a driver that computes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # measures this checkout

import torch
from stream_once import rss_anon
from torch import nn
from torch.nn import functional as F  # noqa: N812

import vkcompute.torch  # noqa: F401

Step = Callable[[], float]
_CLOCKS = perf_counter, process_time
LIMITS = {"mlp": 6, "resnet": 12, "gpt": 6}
"""Goals: the most times that a step takes of the CPU's."""


class Residual(nn.Module):
    """Two convolutions and a shortcut: K. He et al., Deep residual learning, 2015, figure 2."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out))
        short = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
        self.short = nn.Identity() if n_in == n_out else short

    def forward(self, x: Any) -> Any:
        """Returns images, half as wide with a stride of 2."""
        return F.relu(self.second(self.first(x)) + self.short(x))


def _resnet() -> nn.Module:
    """Returns ResNet-18."""
    widths = 64, 64, 128, 256, 512
    stages = [
        nn.Sequential(Residual(n_in, n, 1 if n == 64 else 2), Residual(n, n, 1))
        for n_in, n in itertools.pairwise(widths)
    ]
    stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Gpt(nn.Module):
    """A language model of 4 layers, 128 wide, with 4 heads, for 64 tokens of 256 kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, 128), nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, nn.LayerNorm(128), enable_nested_tensor=False)
        self.head = nn.Linear(128, 256)

    def forward(self, x: Any) -> Any:
        """Returns scores of the next token, per class and position."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        hidden = self.tokens(x) + self.positions.weight
        return self.head(self.layers(hidden, mask, is_causal=True)).transpose(1, 2)


def case(name: str) -> tuple[nn.Module, Any, Any]:
    """Returns a model, a batch and its targets."""
    if name == "mlp":
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
        return model, torch.randn(64, 784), torch.randint(0, 10, (64,))
    if name == "resnet":
        return _resnet(), torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
    return Gpt(), torch.randint(0, 256, (8, 64)), torch.randint(0, 256, (8, 64))


def _step(name: str, device: str) -> Step:
    """Returns a function that makes a step of training; that of ResNet computes its gradients only."""
    torch.manual_seed(0)
    model, x, y = case(name)
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if name != "resnet":
            optimizer.step()
        if device == "vk":
            torch.vk.synchronize()
        return float(loss.detach())

    return step


def measured(name: str, n_rounds: int) -> list[list[float]]:
    """Returns the medians of a step's milliseconds, wall and CPU time, on the device and on the CPU.

    Raises:
        ArithmeticError: the losses of both differ.
    """
    steps = [_step(name, device) for device in ("vk", "cpu")]
    for _ in range(3):
        first, second = (step() for step in steps)
        if abs(first - second) > 1e-3 * abs(second):
            raise ArithmeticError(f"{name}: the loss is {first} on the device, and {second} on the CPU")
    times: list[list[list[float]]] = [[[], []], [[], []]]
    for _ in range(n_rounds):
        for step, taken in zip(steps, times, strict=True):
            starts = [clock() for clock in _CLOCKS]
            step()
            for clock, start, row in zip(_CLOCKS, starts, taken, strict=True):
                row.append((clock() - start) * 1e3)
    return [[statistics.median(row) for row in taken] for taken in times]


def print_memory(name: str, n_steps: int) -> None:
    """Makes steps on the device, and prints its memory and that of the process after each tenth of them."""
    step = _step(name, "vk")
    for number in range(1, n_steps + 1):
        loss = step()
        if number % max(1, n_steps // 10) == 0:
            on_device, of_process = torch.vk.memory_allocated() / 2**20, rss_anon() / 2**20
            print(f"{name}, step {number}: loss {loss:.3g}; tensors {on_device:.1f} MiB, process {of_process:.0f} MiB")


def main() -> None:
    """Prints a line per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(LIMITS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="makes so many steps on the device alone, and prints its memory")
    options = parser.parse_args()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
    print(f"{torch.vk.get_device_name()}; PyTorch {torch.__version__} with {torch.get_num_threads()} threads")
    for name in options.names:
        if options.steps:
            print_memory(name, options.steps)
            continue
        (wall, cpu), (wall_of_host, cpu_of_host) = measured(name, options.rounds)
        print(
            f"{name}: {wall:.1f} ms, PyTorch's CPU {wall_of_host:.1f} ms: {wall / wall_of_host:.1f} times; in CPU time "
            f"{cpu:.1f} ms, {cpu_of_host:.1f} ms: {cpu / cpu_of_host:.1f} times; goal {LIMITS[name]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
