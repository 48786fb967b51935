"""Figures of Dask on devices: overhead per task, memory of a large sum, two devices against one, copies.

Usage: dask_tasks.py [--gigabytes 20] [--save]. Prints a line per figure, with its limit. Contenders take turns: our
cluster, with a worker per device, and Dask's own with as many workers and NumPy chunks.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import logging
import resource
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
from machine import describe, versions

import vkcompute as vc
import vkcompute.dask
import vkcompute.numpy as vnp
from vkcompute.dask.cluster import chosen

RESULTS = Path(__file__).resolve().parent / "results"
_PAIRS, _TASKS, _NAP_S = 5, 500, 0.05
_CHUNK = 2**22  # elements, 16 MiB


@dataclass(frozen=True)
class Figure:
    """A measurement and its limit."""

    name: str
    value: float
    limit: float
    at_most: bool = True

    @property
    def reached(self) -> bool:
        """True if the value is within the limit."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def __str__(self) -> str:
        mark, rule = "reached" if self.reached else "MISSED", "at most" if self.at_most else "at least"
        return f"{mark:8}{self.name:75}{self.value:8.2f} {rule} {self.limit:g}"


def seconds(work: Callable[[], Any]) -> float:
    """Returns the time that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def elements(client: Any, n_chunks: int, *, on_device: bool) -> Callable[[], Any]:
    """Returns the work of two tasks per chunk, and of their sum."""
    empty: Any = vnp.empty(0) if on_device else np.empty(0, np.float32)
    full: Any = vnp.full if on_device else np.full

    def first(block: Any) -> Any:
        return full(block.shape, 1.0, np.float32)

    def work() -> None:
        x = da.zeros(n_chunks * 100, chunks=100, dtype=np.float32)
        made = x.map_blocks(first, meta=empty, token=f"{time.time()}").map_blocks(np.add, 1.0, meta=empty)
        with dask.config.set({"optimization.fuse.active": False, "array.backend": "numpy"}):
            assert float(client.compute(made.sum(split_every=64)).result()) == n_chunks * 200

    return work


def overhead(client: Any, numpy_client: Any) -> float:
    """Returns how many times as long tasks on device chunks take as Dask's own workers take with NumPy chunks."""
    device, host = elements(client, _TASKS, on_device=True), elements(numpy_client, _TASKS, on_device=False)
    device(), host()
    return statistics.median([seconds(device) / seconds(host) for _ in range(_PAIRS)])


def costs(client: Any) -> dict[int, float]:
    """Returns the milliseconds per chunk by the number of chunks."""
    return {n: 1e3 * seconds(elements(client, n, on_device=True)) / n for n in (100, 1000, 10_000)}


def large_sum(client: Any, gigabytes: float) -> tuple[float, float]:
    """Sums an array that is made on the workers. Returns the seconds, and the most MiB that a worker held."""
    n = int(gigabytes * 1e9 / 4)
    with dask.config.set({"array.backend": "vkcompute"}):
        x = da.random.default_rng(1).random(n, np.float32, chunks=_CHUNK)
        took = seconds(lambda: _check(float(client.compute(x.sum()).result()) / n))
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


def copies(client: Any, nbytes: int = _CHUNK * 4) -> tuple[float, float]:
    """Sends an array to another worker. Returns how often its bytes are copied off the device, and onto the other."""

    def start(dask_worker: Any) -> None:
        dask_worker.copies = vc.default_runtime().profile().__enter__()

    def stop(dask_worker: Any) -> dict[str, int]:
        dask_worker.copies.__exit__(None, None, None)
        computed = dask_worker.copies.host
        return {kind: sum(item.nbytes for item in computed if item.name == kind) for kind in ("download", "upload")}

    first, second = list(client.scheduler_info()["workers"])[:2]
    client.run(start)
    x = client.submit(vnp.full, nbytes // 4, 3.0, workers=first, pure=False)
    assert client.submit(lambda x: x[-1].item(), x, workers=second).result() == 3
    computed = client.run(stop)
    return computed[first]["download"] / nbytes, computed[second]["upload"] / nbytes


def figures(client: Any, numpy_client: Any, gigabytes: float) -> Any:
    """Yields the figures."""
    yield Figure("sleeping tasks: two workers against one", speedup(client), 1.8, at_most=False)
    off, onto = copies(client)
    yield Figure("copies of 16 MiB between workers: off the device", off, 1.001)
    yield Figure("copies of 16 MiB between workers: onto the device", onto, 1.001)
    took, peak = large_sum(client, gigabytes)
    yield Figure(f"sum of {gigabytes:g} GB in {took:.0f} s: MiB per worker", peak, 600)
    ratio = overhead(client, numpy_client)
    yield Figure("time of tasks on device chunks against NumPy chunks of Dask's own workers", ratio, 1.3)
    result = costs(client)
    text = ", ".join(f"{each:.2f} of {n:,}" for n, each in result.items())
    yield Figure(f"ms per chunk: {text}; last by first", result[10_000] / result[100], 1.3)


def main() -> int:
    """Measures, and prints the figures; the exit status is 1 if one is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--save", action="store_true", help="write the results to benchmarks/results/dask-DATE.json")
    options = parser.parse_args()
    quiet: dict[str, Any] = {"dashboard_address": None, "silence_logs": logging.ERROR}
    devices = [item.index for item in chosen(None)]
    per_device = 1 if len(devices) > 1 else 2
    with contextlib.ExitStack() as stack:
        numpy_cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, **quiet)
        cluster = vkcompute.dask.LocalCluster(devices[:2], workers_per_device=per_device, **quiet)
        numpy_client = distributed.Client(stack.enter_context(numpy_cluster), set_as_default=False)
        stack.enter_context(numpy_client)
        client = stack.enter_context(vkcompute.dask.Client(stack.enter_context(cluster)))
        client.wait_for_workers(2, timeout=120)
        numpy_client.wait_for_workers(2, timeout=120)
        names = list(client.run(lambda: vc.default_runtime().device.name).values())
        print("workers on " + " and ".join(names))
        results = []
        for figure in figures(client, numpy_client, options.gigabytes):
            print(figure, flush=True)
            results.append(figure)
    if options.save:
        _save(results, names)
    return 0 if all(result.reached for result in results) else 1


def _save(result: list[Figure], names: list[str]) -> None:
    date = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    about = {
        "date": date,
        "command": shlex.join(["python", "benchmarks/dask_tasks.py", *sys.argv[1:]]),
        "machine": describe(vc.default_runtime())["machine"],
        "workers": names,
        "versions": versions([]) | {"dask": dask.__version__, "distributed": distributed.__version__},
        "figures": [asdict(item) | {"reached": item.reached} for item in result],
    }
    path = RESULTS / f"dask-{date[:10]}.json"
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    sys.exit(main())
