"""A soak test: random programs on several threads of one runtime, with checks of results and of resource growth.

python benchmarks/soak.py --minutes 10

Each program works on device arrays and on equal NumPy arrays, drops some with pending work, and compares all at the
end. After each round, with no work pending, the test counts open handles, device memory, and RssAnon (anonymous
resident memory, on Linux). The status is 1 if a result is wrong, or if the last third of the rounds uses more than the
second third. The first third is a warm-up.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]  # measures this checkout

from stream_once import rss_anon  # noqa: E402

import vkcompute as vc  # noqa: E402
from vkcompute.core.device_profile import emulated  # noqa: E402
from vkcompute.core.lifetime import live_counts  # noqa: E402

Work = tuple[Callable[[], Any], Callable[[], None]]
"""Work on the device, and the same on the arrays"""

MIB = 1 << 20
ROUNDS = 18
# Allocators of the host and of software drivers keep memory per thread, so RssAnon varies.
_RSS_FRACTION, _RSS_BYTES = 0.03, 4 * MIB
_N_ARRAYS, _STEPS, _MAX_LENGTH, _ALIGN = 4, 60, 60_000, 64
_SHADER = """
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { int a[]; };
layout(binding = 1) buffer B { int b[]; };
layout(push_constant) uniform P { int k; int d; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < b.length()) b[i] = b[i] * k + a[i % a.length()] + d;
}
"""


class WrongResult(Exception):
    """A device array differs from the NumPy array."""


class Program:
    """A random program of one thread: device arrays, and NumPy arrays with their expected content."""

    def __init__(self, runtime: vc.Runtime, seed: int) -> None:
        self._runtime, self._random, self._seed = runtime, random.Random(seed), seed
        self._kernel = runtime.kernel(vc.glsl(_SHADER))
        lengths = [self._random.randrange(_ALIGN, _MAX_LENGTH) for _ in range(_N_ARRAYS)]
        self._arrays = [runtime.full(n, n, np.int32) for n in lengths]
        self._hosts = [np.full(n, n, np.int32) for n in lengths]

    def run(self) -> None:
        """Runs the steps and compares all arrays.

        Raises:
            WrongResult: an array differs.
        """
        for _ in range(_STEPS):
            self._random.choice(_STEP_KINDS)(self)
        for number in range(_N_ARRAYS):
            self._compare(number)

    def _compare(self, number: int) -> None:
        wrong = np.flatnonzero(self._arrays[number].numpy() != self._hosts[number])
        if wrong.size:
            raise WrongResult(
                f"program {self._seed}: array {number} has {wrong.size} wrong elements, the first is {wrong[0]}"
            )

    def _any_array(self) -> int:
        return self._random.randrange(_N_ARRAYS)

    def _window(self, number: int) -> slice:
        start = self._random.randrange(0, len(self._hosts[number]), _ALIGN)
        return slice(start, self._random.randint(start + 1, len(self._hosts[number])))

    def _launch(self) -> Work:
        """Launches the kernel on a window of one array and all of another."""
        (a, b), k, d = (
            self._random.sample(range(_N_ARRAYS), 2),
            self._random.randint(-3, 3),
            self._random.randint(-9, 9),
        )
        window = self._window(b)

        def on_array() -> None:
            view = self._hosts[b][window]
            view[:] = view * np.int32(k) + np.resize(self._hosts[a], view.size) + np.int32(d)

        return partial(self._kernel, self._arrays[a], self._arrays[b][window], k, d), on_array

    def _copy(self) -> Work:
        """Copies a range of an array to another."""
        a, b = self._random.sample(range(_N_ARRAYS), 2)
        n = min(len(self._hosts[a]), len(self._hosts[b])) // 2

        def on_array() -> None:
            self._hosts[b][n : 2 * n] = self._hosts[a][:n]

        return partial(self._arrays[b][n : 2 * n].copy_from, self._arrays[a][:n]), on_array

    def _fill(self) -> Work:
        """Fills a window with a value."""
        number, value = self._any_array(), self._random.randrange(1000)
        window = self._window(number)
        return partial(self._arrays[number][window].fill, value), partial(self._hosts[number][window].fill, value)

    def _any_work(self) -> Work:
        return self._random.choice((self._launch, self._launch, self._copy, self._fill))()

    def do(self) -> None:
        """Launches random work."""
        for action in self._any_work():
            action()

    def write(self) -> None:
        """Writes host data to a window."""
        number = self._any_array()
        window = self._window(number)
        data = np.arange(window.stop - window.start, dtype=np.int32)
        self._arrays[number][window].write(data)
        self._hosts[number][window] = data

    def read(self) -> None:
        """Compares an array."""
        self._compare(self._any_array())

    def replace(self) -> None:
        """Drops an array, which may have pending work, and replaces it by a copy of another."""
        target, source = self._any_array(), self._any_array()
        self._arrays[target], self._hosts[target] = self._arrays[source].copy(), self._hosts[source].copy()

    def call_back(self) -> None:
        """Waits for a callback, and for a result with timeouts."""
        launch, on_array = self._launch()
        future, called = launch(), threading.Event()
        on_array()
        future.add_done_callback(lambda _: called.set())
        while not called.wait(0.001):
            with suppress(TimeoutError):
                future.result(0.001)

    def record(self) -> None:
        """Runs a graph a few times, and drops or closes it."""
        works, times = [self._any_work() for _ in range(5)], self._random.randint(1, 3)
        with self._runtime.record() as graph:
            for on_device, _ in works:
                on_device()
        graph.submit(times)
        for _, on_array in works * times:
            on_array()
        if self._random.random() < 0.5:
            graph.close()

    def multiply(self) -> None:
        """Streams host arrays through the device."""
        host = self._hosts[self._any_array()]
        if not np.array_equal(vc.multiply(host, host, runtime=self._runtime), host * host):
            raise WrongResult(f"program {self._seed}: the streamed product differs")


_STEP_KINDS: Sequence[Callable[[Program], None]] = (
    *[Program.do] * 12,
    Program.write,
    Program.read,
    Program.replace,
    Program.call_back,
    Program.record,
    Program.multiply,
)


@dataclass(frozen=True)
class Sample:
    """Resources in use with no work pending.

    Attributes:
        handles: open handles of the package by kind.
        device_bytes: device memory.
        rss_bytes: anonymous resident memory of the process.
    """

    handles: dict[str, int]
    device_bytes: int
    rss_bytes: int

    @classmethod
    def take(cls, runtime: vc.Runtime) -> Sample:
        """Waits, collects garbage, and counts."""
        runtime.wait()
        gc.collect()
        runtime.device.collect(wait=True)
        return cls(live_counts(), runtime.device.memory.allocated_bytes, rss_anon())


def growth(samples: Sequence[Sample]) -> list[str]:
    """Descriptions of the resources whose use grew from the second to the last third of the samples."""
    third = len(samples) // 3
    before, after = samples[-2 * third : -third], samples[-third:]
    kinds = sorted({kind for sample in samples for kind in sample.handles})
    figures: list[tuple[str, Callable[[Sample], int], float, int]] = [
        *((f"open {kind}", lambda sample, kind=kind: sample.handles.get(kind, 0), 0.0, 0) for kind in kinds),
        ("bytes of device memory", lambda sample: sample.device_bytes, 0.0, 0),
        ("bytes of RssAnon", lambda sample: sample.rss_bytes, _RSS_FRACTION, _RSS_BYTES),
    ]
    growth = []
    for name, figure, fraction, slack in figures:
        was, now = max(map(figure, before)), max(map(figure, after))
        if now > was * (1 + fraction) + slack:
            growth.append(f"{name}: at most {was:,}, later {now:,}")
    return growth


def soak(runtime: vc.Runtime, minutes: float, n_threads: int, seed: int) -> list[Sample]:
    """Runs the rounds, and prints a line after each. Returns the samples."""
    samples, n_programs, start = [], 0, time.monotonic()
    print(f"{'minutes':>8}{'programs':>10}{'handles':>9}{'device MiB':>12}{'RssAnon MiB':>13}{'threads':>9}")
    for number in range(1, ROUNDS + 1):
        end = start + 60 * minutes * number / ROUNDS
        with ThreadPoolExecutor(n_threads) as pool:
            n_programs += sum(pool.map(partial(_run_until, runtime, end), range(seed, seed + n_threads)))
        seed += n_threads
        samples.append(sample := Sample.take(runtime))
        print(
            f"{(time.monotonic() - start) / 60:8.2f}{n_programs:10}{sum(sample.handles.values()):9}"
            f"{sample.device_bytes / MIB:12.1f}{sample.rss_bytes / MIB:13.1f}{threading.active_count():9}",
            flush=True,
        )
    return samples


def _run_until(runtime: vc.Runtime, end: float, seed: int) -> int:
    """Runs programs until `time.monotonic()` reaches `end`. Returns their number."""
    n_programs = 0
    while time.monotonic() < end or not n_programs:
        Program(runtime, seed * 1_000_003 + n_programs).run()
        n_programs += 1
    return n_programs


def main() -> int:
    """Runs the test. Returns 1 for a wrong result or growth, 2 if there is no device."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="index or part of the name (default: the best)")
    parser.add_argument("--minutes", type=float, default=10.0, help="duration (default: 10)")
    parser.add_argument("--threads", type=int, default=4, help="number of threads (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    options = parser.parse_args()
    try:
        with emulated(timelines=(2, 1)):
            runtime = vc.Runtime(options.device)
    except (vc.NoDevice, vc.NoVulkanLoader) as error:
        print(f"soak.py: {error}", file=sys.stderr)
        return 2
    with runtime:
        print(f"{runtime.device}, {options.threads} threads")
        try:
            grown = growth(soak(runtime, options.minutes, options.threads, options.seed))
        except WrongResult as error:
            grown = [str(error)]
    print("\n".join(grown) or "all results are correct, no growth")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
