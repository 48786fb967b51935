"""Times of calls: on the host until they return, until the device has finished, and on the device by its own clock."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import vkcompute as vc
from vkcompute.blocks.launching.measuring import do_bench

CALLS = 8
"""Calls that are enqueued before a wait."""
_ROUNDS, _ROUND_S, _DEVICE_MS = 5, 0.3, 60.0


def milliseconds(call: Callable[[], Any], wait: Callable[[], Any]) -> tuple[float, float]:
    """Returns the time of a call with its work, and until it returns; of the fastest of some rounds.

    Rounds end after 0.3 s in all. A call must have run before, so that it is compiled.
    """
    totals: list[float] = []
    hosts: list[float] = []
    start = perf_counter()
    while len(totals) < _ROUNDS and (not totals or perf_counter() - start < _ROUND_S):
        begin = perf_counter()
        kept = [call() for _ in range(CALLS)]
        hosts.append(perf_counter() - begin)
        wait()
        totals.append(perf_counter() - begin)
        del kept
    return min(totals) / CALLS * 1e3, min(hosts) / CALLS * 1e3


def figures_of(call: Callable[[], Any], gpu: vc.Runtime) -> dict[str, float]:
    """Measures a call that launches work, after one call to compile it.

    Returns:
        `ms` with its work, of calls that are enqueued together, `host_ms` until a call returns, and `device_ms` on the
        device's clock, which is the host's where the device has none.
    """
    call()
    gpu.wait()
    total, host = milliseconds(call, gpu.wait)
    device = do_bench(call, warmup=0, rep=min(_DEVICE_MS, 10 * total), return_mode="min")
    return {"ms": rounded(total), "host_ms": rounded(host), "device_ms": rounded(device)}


def seconds(call: Callable[[], Any], gpu: vc.Runtime) -> float:
    """Returns the shortest time of three calls with their work."""
    times = []
    for _ in range(3):
        begin = perf_counter()
        kept = call()
        gpu.wait()
        times.append(perf_counter() - begin)
        del kept
    return min(times)


def device_seconds(call: Callable[[], Any], gpu: vc.Runtime) -> float:
    """Returns the shortest time of some calls by the device's clock, or the host's where the device has none."""
    rep = min(_DEVICE_MS, 10e3 * seconds(call, gpu))
    return float(do_bench(call, warmup=0, rep=rep, return_mode="min")) / 1e3


def rounded(value: float) -> float:
    """Rounds a figure to four digits, which is more than its precision."""
    return float(f"{value:.4g}")
