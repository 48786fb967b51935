"""Measurements, as `cupyx.profiler`."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vkcompute.runtime.runtime import current_runtime


class _PerfCaseResult:
    """The times of a benchmark, in seconds.

    Attributes:
        name: of the function.
        cpu_times: until the function returned, for each call.
        gpu_times: until the device had finished, with one row.
    """

    def __init__(self, name: str, cpu_times: Any, gpu_times: Any) -> None:
        self.name, self.cpu_times, self.gpu_times = name, np.asarray(cpu_times), np.asarray([gpu_times])

    def to_str(self, show_gpu: bool = False) -> str:
        """Returns means, deviations and extremes in microseconds."""
        rows = [("CPU", self.cpu_times)] + ([("GPU-0", self.gpu_times[0])] if show_gpu else [])
        parts = [
            f"    {label}: {t.mean() * 1e6:9.03f} us   +/- {t.std() * 1e6:6.03f} (min: {t.min() * 1e6:9.03f} / "
            f"max: {t.max() * 1e6:9.03f}) us"
            for label, t in rows
        ]
        return f"{self.name:<20s}:{''.join(parts)}"

    def __str__(self) -> str:
        return self.to_str(show_gpu=True)

    __repr__ = __str__


def benchmark(
    func: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None,
    n_repeat: int = 10_000, *, name: str | None = None, n_warmup: int = 10, max_duration: float = math.inf,
    devices: Any = None,
) -> _PerfCaseResult:  # fmt: skip
    """Calls a function many times, and returns the times.

    Args:
        n_repeat, n_warmup: numbers of calls that are measured, and before these.
        max_duration: seconds after which no further call is measured.
    """
    if not callable(func):
        raise ValueError("`func` should be a callable object.")
    named, runtime = kwargs or {}, current_runtime()
    for _ in range(n_warmup):
        func(*args, **named)
    runtime.wait()
    of_host, of_device, until = [], [], time.perf_counter() + max_duration
    for _ in range(n_repeat):
        start = time.perf_counter()
        func(*args, **named)
        of_host.append(time.perf_counter() - start)
        runtime.wait()
        of_device.append(time.perf_counter() - start)
        if time.perf_counter() > until:
            break
    return _PerfCaseResult(name or str(getattr(func, "__name__", "function")), of_host, of_device)


@contextlib.contextmanager
def time_range(message: str | None = None, *args: Any, **options: Any) -> Iterator[None]:
    """Does nothing: `vc.Runtime.profile` shows launches by their names."""
    yield


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Does nothing: `vc.Runtime.profile` measures launches."""
    yield
