"""Figures of Dask on devices: overhead per task, memory of a large sum, two workers against one.

Usage: dask_tasks.py [--gigabytes 20]. Prints a line per figure, with its limit. Contenders take turns in one cluster.
"""

from __future__ import annotations

import argparse
import logging
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

import vkcompute.dask
import vkcompute.numpy as vnp

_PAIRS, _TASKS, _NAP_S = 5, 500, 0.05
_CHUNK = 2**22  # elements, 16 MiB


def seconds(work: Callable[[], Any]) -> float:
    """Returns the time that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def elements(n_chunks: int, *, on_device: bool) -> Callable[[], Any]:
    """Returns the work of two tasks per chunk, and of their sum."""
    empty: Any = vnp.empty(0) if on_device else np.empty(0, np.float32)
    full: Any = vnp.full if on_device else np.full

    def first(block: Any) -> Any:
        return full(block.shape, 1.0, np.float32)

    def work() -> None:
        x = da.zeros(n_chunks * 100, chunks=100, dtype=np.float32)
        made = x.map_blocks(first, meta=empty, token=f"{time.time()}").map_blocks(np.add, 1.0, meta=empty)
        with dask.config.set({"optimization.fuse.active": False, "array.backend": "numpy"}):
            assert float(made.sum(split_every=64).compute()) == n_chunks * 200

    return work


def overhead() -> float:
    """Returns how many times as long tasks on device chunks take as on NumPy chunks."""
    device, host = (elements(_TASKS, on_device=each) for each in (True, False))
    device(), host()
    return statistics.median([seconds(device) / seconds(host) for _ in range(_PAIRS)])


def costs() -> dict[int, float]:
    """Returns the milliseconds per chunk by the number of chunks."""
    return {n: 1e3 * seconds(elements(n, on_device=True)) / n for n in (100, 1000, 10_000)}


def large_sum(client: Any, gigabytes: float) -> tuple[float, float]:
    """Sums an array that is made on the workers. Returns the seconds, and the most MiB that a worker held."""
    n = int(gigabytes * 1e9 / 4)
    with dask.config.set({"array.backend": "vkcompute"}):
        x = da.random.default_rng(1).random(n, np.float32, chunks=_CHUNK)
        took = seconds(lambda: _check(float(x.sum().compute()) / n))
    peaks = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return took, max(peaks.values())


def _check(mean: float) -> None:
    assert abs(mean - 0.5) < 1e-3, mean


def speedup(client: Any) -> float:
    """Returns how many times as fast two workers are as one, with tasks that sleep: they share no cores."""

    def nap(at: int) -> float:
        time.sleep(_NAP_S)
        return float(vnp.full(100, 1.0).sum())

    def run(workers: list[str]) -> None:
        done = client.map(nap, range(60), workers=workers, pure=False)
        assert sum(client.gather(done)) == 6000

    both = list(client.scheduler_info()["workers"])[:2]
    run(both)
    return statistics.median([seconds(lambda: run(both[:1])) / seconds(lambda: run(both)) for _ in range(3)])


def main() -> int:
    """Measures, and prints the figures; the exit status is 1 if one is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20)
    options = parser.parse_args()
    missed = 0

    def show(text: str, value: float, limit: float, *, at_most: bool = True) -> None:
        nonlocal missed
        good = value <= limit if at_most else value >= limit
        missed += not good
        print(
            f"{'reached' if good else 'MISSED':8}{text:60}{value:8.2f} {'at most' if at_most else 'at least'} {limit:g}"
        )

    cluster = vkcompute.dask.LocalCluster([0], workers_per_device=2, dashboard_address=None, silence_logs=logging.ERROR)
    with cluster, vkcompute.dask.Client(cluster) as client:
        client.wait_for_workers(2)
        show("sleeping tasks: two workers against one", speedup(client), 1.8, at_most=False)
        took, peak = large_sum(client, options.gigabytes)
        show(f"sum of {options.gigabytes:g} GB in {took:.0f} s: MiB per worker", peak, 600)
        show("time of tasks on device chunks against NumPy chunks", overhead(), 1.3)
        found = costs()
        print("        ms per chunk: " + ", ".join(f"{each:.2f} of {n}" for n, each in found.items()))
        show("cost per chunk of 10,000 against 100", found[10_000] / found[100], 1.3)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
