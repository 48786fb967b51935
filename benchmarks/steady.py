"""Training a small network for 10,000 steps, eager and by `vc.graph`: neither memory nor handles may grow.

python benchmarks/steady.py --steps 10000

It prints a line after each tenth of the steps, with no work pending. The line has the time of a step, RssAnon
(anonymous resident memory, on Linux), memory by `Runtime.memory`, open handles and plans. The status is 1 if one of
these is larger at the end than after half of the steps.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "examples")]  # measures this checkout

from graphed_training import WIDTHS, Network  # noqa: E402
from stream_once import rss_anon  # noqa: E402

import vkcompute as vc  # noqa: E402
from vkcompute.core.lifetime import live_counts  # noqa: E402

MIB = 1 << 20
_BATCH, _N_BATCHES, _PARTS = 64, 8, 10
_RSS_BYTES = 4 * MIB  # as in soak.py: allocators of the host and of drivers vary by less; 800 bytes a step are more


class Sample(NamedTuple):
    """Memory, handles and plans of the process, with no work pending."""

    rss_bytes: int
    used_bytes: int
    pooled_bytes: int
    n_handles: int
    n_plans: int

    @classmethod
    def now(cls, gpu: vc.Runtime) -> Sample:
        """Waits for all work, and counts."""
        gpu.wait()
        gc.collect()
        memory = gpu.memory()
        return cls(rss_anon(), memory.used, memory.pooled, sum(live_counts().values()), len(gpu.plans))

    def grown(self, before: Sample) -> list[str]:
        """Returns the names of what has become more."""
        limits = before._replace(rss_bytes=before.rss_bytes + _RSS_BYTES)
        return [name for name, now, limit in zip(self._fields, self, limits, strict=True) if now > limit]


def train(gpu: vc.Runtime, name: str, step: Callable[[Any, Any], Any], n_steps: int) -> list[str]:
    """Runs the steps, and prints samples; returns what has grown in the second half."""
    rng = np.random.default_rng(1)
    batches = [
        [gpu.array(rng.normal(size=(_BATCH, width)).astype(np.float32)) for width in (WIDTHS[0], WIDTHS[-1])]
        for _ in range(_N_BATCHES)
    ]
    samples = []
    for part in range(_PARTS):
        start = time.perf_counter()
        for at in range(n_steps // _PARTS):
            loss = step(*batches[at % _N_BATCHES])
            if at % 100 == 99:
                loss.item()
        del loss
        ms = 1e3 * (time.perf_counter() - start) / (n_steps // _PARTS)
        samples.append(sample := Sample.now(gpu))
        print(
            f"{name:<12} {(part + 1) * (n_steps // _PARTS):>7} {ms:8.2f} {sample.rss_bytes / MIB:9.1f} "
            f"{sample.used_bytes / MIB:9.3f} {sample.pooled_bytes / MIB:9.3f} {sample.n_handles:8} {sample.n_plans:7}",
            flush=True,
        )
    return samples[-1].grown(samples[_PARTS // 2 - 1])


def main() -> int:
    """Trains twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--only", choices=["eager", "graph"])
    options = parser.parse_args()
    print(f"{'':<12}    step       ms   RssAnon      used    pooled  handles   plans (memory in MiB)")
    with vc.default_runtime() as gpu:
        steps = {"eager": Network(gpu).step, "graph": Network(gpu).graphed_step}
        names = [name for name in steps if options.only in (None, name)]
        results = {name: train(gpu, name, steps[name], options.steps) for name in names}
    for name, grown in results.items():
        print(f"{name}: {'grown: ' + ', '.join(grown) if grown else 'nothing has grown'}")
    return int(any(results.values()))


if __name__ == "__main__":
    sys.exit(main())
