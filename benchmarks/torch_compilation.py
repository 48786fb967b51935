"""Steps of training by torch.compile on PyTorch's device beside eager ones, in one run: ratios, and compile times.

    python benchmarks/torch_compilation.py [gpt] [mlp] [resnet] [--rounds 5]

Each mode has two processes with the same new caches: the first compiles everything, the second reads what is on disk.
Eager and compiled steps take turns there, and the median counts. A step ends when the loss is known.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # measures this checkout

import torch
from torch.nn import functional as F  # noqa: N812
from torch_training import LIMITS, Step, case

MODES = "default", "reduce-overhead"


def steps_of(name: str, mode: str) -> tuple[Step, Step]:
    """Returns functions that make a step of training of equal models, eager and compiled."""
    made = []
    for is_compiled in False, True:
        torch.manual_seed(0)
        model, x, y = (value.to("vk") for value in case(name))
        optimizer = torch.optim.Adam(model.parameters(), 1e-4)
        function = torch.compile(model, mode=mode) if is_compiled else model

        def step(function: Any = function, optimizer: Any = optimizer, x: Any = x, y: Any = y) -> float:
            optimizer.zero_grad()
            loss = F.cross_entropy(function(x), y)
            loss.backward()
            optimizer.step()
            torch.vk.synchronize()
            return float(loss.detach())

        made.append(step)
    return made[0], made[1]


def child(name: str, mode: str, n_rounds: int) -> dict[str, float]:
    """Returns the seconds of the first compiled step, and medians of later ones in those of eager ones.

    Raises:
        ArithmeticError: the losses of both differ.
    """
    eager, compiled = steps_of(name, mode)
    eager()
    start = perf_counter()
    compiled()
    first = perf_counter() - start
    taken: dict[str, list[float]] = {"speed": [], "CPU time": []}
    for _ in range(n_rounds):
        times = []
        for step in eager, compiled:
            starts = perf_counter(), process_time()
            times.append((step(), perf_counter() - starts[0], process_time() - starts[1]))
        (loss, *before), (same, *after) = times
        if abs(loss - same) > 1e-3 * abs(loss):
            raise ArithmeticError(f"{name}: the loss is {same} compiled, and {loss} eager")
        for row, one, other in zip(taken.values(), before, after, strict=True):
            row.append(one / other)
    return {"first": first, **{key: statistics.median(row) for key, row in taken.items()}}


def main() -> None:
    """Prints a line per model and mode."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", default=["gpt"], help=f"of {', '.join(LIMITS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.names[0], options.child, options.rounds)))
        return
    for name in options.names:
        for mode in MODES:
            cold, warm = _twice(name, mode, options.rounds)
            print(
                f"{name}, {mode}: {warm['speed']:.2f} times eager's speed, in CPU time {warm['CPU time']:.2f}; "
                f"first step {cold['first']:.1f} s, from disk {warm['first']:.1f} s",
                flush=True,
            )


def _twice(name: str, mode: str, n_rounds: int) -> list[dict[str, float]]:
    """Returns the results of two processes, the second of which has the caches of the first."""
    command = [sys.executable, __file__, name, "--child", mode, "--rounds", str(n_rounds)]
    with tempfile.TemporaryDirectory() as folder:
        caches = {"VKCOMPUTE_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor"))}
        runs = [subprocess.run(command, env=os.environ | caches, check=True, stdout=subprocess.PIPE) for _ in range(2)]
    return [json.loads(run.stdout.splitlines()[-1]) for run in runs]


if __name__ == "__main__":
    main()
