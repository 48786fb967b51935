"""Benchmarks of a device: launches, transfers, and the multiply compared with numpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vkcompute.pipelines.multiply import Multiplier

if TYPE_CHECKING:
    from vkcompute.runtime.runtime import Runtime

_MIB = 1 << 20
_TRANSFER_NBYTES = 64 * _MIB
_SIZES = (("1M", 1_000_000), ("16M", 16_000_000))
_LAUNCH_ELEMENTS, _LAUNCHES = 1024, 200
_WARM_UPS = 2  # drivers compile at the first launch


@dataclass(frozen=True, slots=True)
class Measurement:
    """A result: the median of `n_samples` samples, and the lower and upper quartile."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    n_samples: int


@dataclass(frozen=True, slots=True)
class _Benchmark:
    """A timed call. `figure` converts its seconds to `unit`."""

    name: str
    unit: str
    call: Callable[[], object]
    figure: Callable[[float], float]


def measure(runtime: Runtime, n_repeats: int, progress: Callable[[int, int], None] | None = None) -> list[Measurement]:
    """Runs all benchmarks, `n_repeats` samples each, interleaved within a group.

    `progress` is called with (samples taken, samples in total).
    """
    groups = [_launches, _transfers, *(_multiplies(name, size) for name, size in _SIZES)]
    measurements: list[Measurement] = []
    for number, group in enumerate(groups):
        benchmarks = list(group(runtime))
        samples: list[list[float]] = [[] for _ in benchmarks]
        for turn in range(-_WARM_UPS, n_repeats):
            for benchmark, taken in zip(benchmarks, samples, strict=True):
                seconds = _timed(benchmark.call)
                runtime.wait()
                if turn >= 0:
                    taken.append(benchmark.figure(seconds))
            if progress and turn >= 0:
                progress(number * n_repeats + turn + 1, len(groups) * n_repeats)
        measurements += [_summary(benchmark, taken) for benchmark, taken in zip(benchmarks, samples, strict=True)]
    return measurements


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _summary(benchmark: _Benchmark, samples: list[float]) -> Measurement:
    low, median, high = (float(value) for value in np.percentile(samples, (25, 50, 75)))
    return Measurement(benchmark.name, benchmark.unit, median, low, high, len(samples))


def _launches(runtime: Runtime) -> Iterator[_Benchmark]:
    """The host's time for a launch with three arrays, eager and recorded."""
    a, b, out = (runtime.zeros(_LAUNCH_ELEMENTS, np.float32) for _ in range(3))
    kernel = runtime.kernel("multiply_float32", constants={0: 64}, check_types=False)
    arguments = (a, b, out, _LAUNCH_ELEMENTS // 4, 0, 0, 0, 0)
    grid = (_LAUNCH_ELEMENTS // 4 // 64, 1, 1)

    def eager() -> None:
        for _ in range(_LAUNCHES):
            kernel(*arguments, grid=grid)

    with runtime.record() as one:
        kernel(*arguments, grid=grid)
    with runtime.record() as many:
        for _ in range(_LAUNCHES):
            kernel(*arguments, grid=grid)

    def per_launch(seconds: float) -> float:
        return seconds * 1e6 / _LAUNCHES

    yield _Benchmark("launch, eager, without waiting", "us", eager, per_launch)
    yield _Benchmark("launch and wait", "us", lambda: kernel(*arguments, grid=grid).result(), _microseconds)
    yield _Benchmark("recorded launch, submit and wait", "us", one.run, _microseconds)
    yield _Benchmark(f"recorded launch, one of {_LAUNCHES}", "us", many.run, per_launch)


def _transfers(runtime: Runtime) -> Iterator[_Benchmark]:
    host = np.ones(_TRANSFER_NBYTES // 4, np.float32)
    array = runtime.empty(host.shape, host.dtype)

    def upload() -> None:
        array.write(host)
        runtime.wait()

    yield _Benchmark("upload 64 MiB", "GB/s", upload, _rate(_TRANSFER_NBYTES))
    yield _Benchmark("download 64 MiB", "GB/s", array.numpy, _rate(_TRANSFER_NBYTES))


def _multiplies(name: str, size: int) -> Callable[[Runtime], Iterator[_Benchmark]]:
    """The multiply of `size` float32 elements, on the device and by numpy."""

    def benchmarks(runtime: Runtime) -> Iterator[_Benchmark]:
        left, right = (np.random.default_rng(seed).random(size, np.float32) for seed in (0, 1))
        product = np.empty_like(left)
        a, b, out = (runtime.array(array) for array in (left, right, product))
        multiplier = Multiplier(runtime, np.float32)
        rate = _rate(3 * left.nbytes)
        yield _Benchmark(f"multiply {name} float32", "GB/s", lambda: multiplier(a, b, out).result(), rate)
        yield _Benchmark(f"multiply {name} float32, numpy", "GB/s", lambda: np.multiply(left, right, out=product), rate)

    return benchmarks


def _microseconds(seconds: float) -> float:
    return seconds * 1e6


def _rate(nbytes: int) -> Callable[[float], float]:
    return lambda seconds: nbytes / seconds / 1e9
