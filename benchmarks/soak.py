"""Random programs from several threads on one runtime for as long as one likes: right to the end, and no growth.

python benchmarks/soak.py --minutes 10

Each program works on a few tensors as numpy does on arrays, drops some of them with work pending, and ends with all of
its tensors compared. After each of some rounds, with nothing running, are counted: the package's open handles, device
memory, and RssAnon (what the process holds in memory of its own, where the system tells). Ends with status 1 if a
result is wrong or the last third of the rounds has more of anything than the third before it; the first is to warm up.
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
sys.path[:0] = [str(HERE.parent)]  # so that a checkout is measured as it stands

from stream_once import rss_anon  # noqa: E402

import vkcompute as vc  # noqa: E402
from vkcompute.core.emulation import emulated  # noqa: E402
from vkcompute.core.lifetime import live_counts  # noqa: E402

Work = tuple[Callable[[], Any], Callable[[], None]]
"""Something to do on the device, and the same on the arrays"""

MIB = 1 << 20
ROUNDS = 18
# Allocators of the host and of software drivers keep what they had, of each thread: RssAnon is never quite still.
_RSS_SHARE, _RSS_BYTES = 0.03, 4 * MIB
_N_TENSORS, _STEPS, _LONGEST, _ALIGN = 4, 60, 60_000, 64
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
    """A tensor does not hold what numpy says."""


class Program:
    """A random program of one thread: tensors, and the arrays that say what they hold."""

    def __init__(self, runtime: vc.Runtime, seed: int) -> None:
        self._runtime, self._random, self._seed = runtime, random.Random(seed), seed
        self._kernel = runtime.kernel(vc.glsl(_SHADER))
        lengths = [self._random.randrange(_ALIGN, _LONGEST) for _ in range(_N_TENSORS)]
        self._tensors = [runtime.full(n, n, np.int32) for n in lengths]
        self._arrays = [np.full(n, n, np.int32) for n in lengths]

    def run(self) -> None:
        """Takes the steps and compares everything.

        Raises:
            WrongResult: something differs.
        """
        for _ in range(_STEPS):
            self._random.choice(_STEP_KINDS)(self)
        for number in range(_N_TENSORS):
            self._compare(number)

    def _compare(self, number: int) -> None:
        wrong = np.flatnonzero(self._tensors[number].numpy() != self._arrays[number])
        if wrong.size:
            raise WrongResult(
                f"program {self._seed}: tensor {number} has {wrong.size} wrong elements from {wrong[0]} on"
            )

    def _one(self) -> int:
        return self._random.randrange(_N_TENSORS)

    def _window(self, number: int) -> slice:
        start = self._random.randrange(0, len(self._arrays[number]), _ALIGN)
        return slice(start, self._random.randint(start + 1, len(self._arrays[number])))

    def _launch(self) -> Work:
        """The kernel on a window of one tensor and all of another."""
        (a, b), k, d = (
            self._random.sample(range(_N_TENSORS), 2),
            self._random.randint(-3, 3),
            self._random.randint(-9, 9),
        )
        at = self._window(b)

        def on_array() -> None:
            part = self._arrays[b][at]
            part[:] = part * np.int32(k) + np.resize(self._arrays[a], part.size) + np.int32(d)

        return partial(self._kernel, self._tensors[a], self._tensors[b][at], k, d), on_array

    def _copy(self) -> Work:
        """Part of a tensor over part of another."""
        a, b = self._random.sample(range(_N_TENSORS), 2)
        n = min(len(self._arrays[a]), len(self._arrays[b])) // 2

        def on_array() -> None:
            self._arrays[b][n : 2 * n] = self._arrays[a][:n]

        return partial(self._tensors[b][n : 2 * n].copy_from, self._tensors[a][:n]), on_array

    def _fill(self) -> Work:
        """One value over a window."""
        number, value = self._one(), self._random.randrange(1000)
        at = self._window(number)
        return partial(self._tensors[number][at].fill, value), partial(self._arrays[number][at].fill, value)

    def _any(self) -> Work:
        return self._random.choice((self._launch, self._launch, self._copy, self._fill))()

    def do(self) -> None:
        """Something on the device."""
        for part in self._any():
            part()

    def write(self) -> None:
        """Data of the host over a window."""
        number = self._one()
        at = self._window(number)
        data = np.arange(at.stop - at.start, dtype=np.int32)
        self._tensors[number][at].write(data)
        self._arrays[number][at] = data

    def read(self) -> None:
        """A tensor is compared."""
        self._compare(self._one())

    def replace(self) -> None:
        """A tensor is dropped, whatever is to be done on it, and a copy of another takes its place."""
        target, source = self._one(), self._one()
        self._tensors[target], self._arrays[target] = self._tensors[source].copy(), self._arrays[source].copy()

    def be_told(self) -> None:
        """A callback, which the watcher's thread calls, and a wait with timeouts."""
        launch, on_array = self._launch()
        future, told = launch(), threading.Event()
        on_array()
        future.add_done_callback(lambda _: told.set())
        while not told.wait(0.001):
            with suppress(TimeoutError):
                future.result(0.001)

    def record(self) -> None:
        """A graph, run a few times, and dropped or closed."""
        works, times = [self._any() for _ in range(5)], self._random.randint(1, 3)
        with self._runtime.record() as graph:
            for on_device, _ in works:
                on_device()
        graph.submit(times)
        for _, on_array in works * times:
            on_array()
        if self._random.random() < 0.5:
            graph.close()

    def multiply(self) -> None:
        """Host arrays streamed through the device."""
        array = self._arrays[self._one()]
        if not np.array_equal(vc.multiply(array, array, runtime=self._runtime), array * array):
            raise WrongResult(f"program {self._seed}: the streamed product differs")


_STEP_KINDS: Sequence[Callable[[Program], None]] = (
    *[Program.do] * 12,
    Program.write,
    Program.read,
    Program.replace,
    Program.be_told,
    Program.record,
    Program.multiply,
)


@dataclass(frozen=True)
class Sample:
    """What is there with nothing running.

    Attributes:
        handles: open handles of the package, of each kind.
        device_bytes, rss_bytes: of device memory, and of the process's own.
    """

    handles: dict[str, int]
    device_bytes: int
    rss_bytes: int

    @classmethod
    def take(cls, runtime: vc.Runtime) -> Sample:
        """Waits and collects, and then counts."""
        runtime.wait()
        gc.collect()
        runtime.device.collect(wait=True)
        return cls(live_counts(), runtime.device.memory.allocated_bytes, rss_anon())


def growth(samples: Sequence[Sample]) -> list[str]:
    """What the last third of the samples has more of than the third before it, in words."""
    third = len(samples) // 3
    before, after = samples[-2 * third : -third], samples[-third:]
    kinds = sorted({kind for sample in samples for kind in sample.handles})
    figures: list[tuple[str, Callable[[Sample], int], float, int]] = [
        *((f"open {kind}", lambda sample, kind=kind: sample.handles.get(kind, 0), 0.0, 0) for kind in kinds),
        ("bytes of device memory", lambda sample: sample.device_bytes, 0.0, 0),
        ("bytes of RssAnon", lambda sample: sample.rss_bytes, _RSS_SHARE, _RSS_BYTES),
    ]
    found = []
    for name, figure, share, slack in figures:
        was, now = max(map(figure, before)), max(map(figure, after))
        if now > was * (1 + share) + slack:
            found.append(f"{name}: at most {was:,}, later {now:,}")
    return found


def soak(runtime: vc.Runtime, minutes: float, n_threads: int, seed: int) -> list[Sample]:
    """Runs the rounds and prints a line after each; gives what was counted."""
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
    """Runs programs until the time of `time.monotonic` comes; gives their number."""
    n_programs = 0
    while time.monotonic() < end or not n_programs:
        Program(runtime, seed * 1_000_003 + n_programs).run()
        n_programs += 1
    return n_programs


def main() -> int:
    """Soaks; 1 where a result is wrong or something grows, 2 where there is no device."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="index or part of the name (default: the best)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--threads", type=int, default=4, help="how many at once (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="of the programs (default: 0)")
    options = parser.parse_args()
    device = int(options.device) if options.device and options.device.isdigit() else options.device
    try:
        with emulated(timelines=(2, 1)):
            runtime = vc.Runtime(device)
    except (vc.NoDevice, vc.NoVulkanLoader) as error:
        print(f"soak.py: {error}", file=sys.stderr)
        return 2
    with runtime:
        print(f"{runtime.device}, {options.threads} threads")
        try:
            grown = growth(soak(runtime, options.minutes, options.threads, options.seed))
        except WrongResult as error:
            grown = [str(error)]
    print("\n".join(grown) or "every result right, nothing grows")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
