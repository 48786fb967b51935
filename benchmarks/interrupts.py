"""A test of Ctrl-C: programs on a device that are interrupted at random moments, with checks of all results after each.

python benchmarks/interrupts.py --minutes 10

Another process sends SIGINT after random 0.1 to 20 ms. Whatever it interrupts, all steps must then give numpy's results
on the same runtime, kernels, graph and arrays. After each round, open handles, device memory and RssAnon are counted
as in soak.py. The status is 1 if a result is wrong, or if the last third of the rounds uses more than the second third:
more handles than finalizers were interrupted, as Python drops these. Kernels are compiled in the first third only, as
SwiftShader keeps some memory of each. Ctrl-C at the terminal ends the test.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # measures this checkout

from soak import MIB, ROUNDS, Sample, WrongResult, growth  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402

SENDER = """
import os, random, signal, sys, time
parent = int(sys.argv[1])
while os.getppid() == parent:
    time.sleep(random.uniform(1e-4, 2e-2))
    os.kill(parent, signal.SIGINT)
"""
LENGTH, _STEPS = 5000, 20
_SHADER = """
layout(local_size_x = 64) in;
layout(constant_id = 0) const int added = 1;
layout(binding = 0) readonly buffer A { int a[]; };
layout(binding = 1) writeonly buffer B { int b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < b.length()) b[i] = a[i] * 3 + added; }
"""


@vc.kernel
def shifted(x: Any, out: Any, d: vc.int32) -> None:
    """Adds a number to each element."""
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] + d


class Interrupts:
    """Raises KeyboardInterrupt for a SIGINT where one is expected, once; others are ignored.

    Attributes:
        expected: True while one may come.
        n: number of interrupts.
        n_dropped: number of those that came in a finalizer, where Python drops them and the rest of the finalizer.
    """

    def __init__(self) -> None:
        self.expected, self.n, self.n_dropped = False, 0, 0
        signal.signal(signal.SIGINT, self._handle)
        sys.unraisablehook = self._drop

    def _drop(self, unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            self.n_dropped += 1
        else:
            sys.__unraisablehook__(unraisable)

    def _handle(self, *_: object) -> None:
        if self.expected:
            self.expected, self.n = False, self.n + 1
            raise KeyboardInterrupt


class Program:
    """Steps that compute on a device and compare with numpy. The objects outlive all interrupts."""

    def __init__(self, runtime: vc.Runtime, seed: int) -> None:
        self._runtime, self._random = runtime, np.random.default_rng(seed)
        self._spirv = vc.glsl(_SHADER)
        self._kernel = runtime.kernel(self._spirv)
        self._square, self._total = vc.elementwise("v * v - 1"), vc.reduce(lambda a, b: a + b, 0)
        self._x, self._y = (runtime.zeros(LENGTH, np.int32) for _ in range(2))
        self._sent, self._fetched = (np.zeros(LENGTH, np.int32) for _ in range(2))
        with runtime.record() as self._graph:
            self._x.write(self._sent)
            self._kernel(self._x, self._y)
            self._y.read(self._fetched)
        for step in self.steps():
            step()
        self._n_kernels = len(runtime._kernels)

    def drop_cached(self) -> None:
        """Drops cached kernels that were compiled here, and the descriptor sets of all."""
        for key in list(self._runtime._kernels)[self._n_kernels :]:
            self._runtime._kernels.pop(key, None)
        self._runtime.plans.clear()

    def data(self) -> np.ndarray[Any, Any]:
        """Random data of random length."""
        return self._random.integers(-999, 999, int(self._random.integers(1, LENGTH)), np.int32)

    def equal(self, computed: Any, expected: Any) -> None:
        """Raises WrongResult if the device's result is another one than numpy's."""
        if not np.array_equal(computed, expected):
            raise WrongResult(f"{sys._getframe(1).f_code.co_name}: the result differs from numpy's")

    def multiply(self) -> None:
        """Streams host arrays."""
        data = self.data()
        self.equal(vc.multiply(data, data, runtime=self._runtime), data * data)

    def launch(self) -> None:
        """Launches a kernel in GLSL, and one in Python, on arrays that are then dropped."""
        data = self.data()
        x = self._runtime.array(data)
        y, z = (self._runtime.empty(data.size, np.int32) for _ in range(2))
        self._kernel(x, y)
        shifted(y, z, 5)
        self.equal(z.numpy(), data * 3 + 6)

    def compile(self) -> None:
        """Makes a kernel, and drops it with the descriptor sets of all."""
        data, added = self.data(), int(self._random.integers(16))  # drivers cache more
        x, y = self._runtime.array(data), self._runtime.empty(data.size, np.int32)
        self._runtime.kernel(self._spirv, constants={"added": added})(x, y)
        self.equal(y.numpy(), data * 3 + np.int32(added))
        self.drop_cached()

    def functions(self) -> None:
        """Computes elementwise, and reduces."""
        data = self.data()
        squares = self._square(self._runtime.array(data))
        self.equal(squares.numpy(), data * data - 1)
        self.equal(self._total(squares).item(), np.sum(data * data - 1, dtype=np.int32))

    def plans(self) -> None:
        """Calls functions of arrays with new layouts and known ones: their traces and plans."""
        rows = self._random.integers(-99, 99, (int(self._random.integers(2, 6)), 40), np.int32)
        x, at = self._runtime.array(rows), self._runtime.array(np.array([1, 0], np.int32))
        self.equal(vnp.roll(vnp.sort(x), 1, axis=1).numpy(), np.roll(np.sort(rows), 1, axis=1))
        self.equal((vnp.cumsum(x, axis=1, dtype=np.int32) - vnp.take(x, at, axis=0)[0]).numpy(),
                   np.cumsum(rows, axis=1, dtype=np.int32) - rows[1])  # fmt: skip
        self.equal((x.max(axis=1) - x.min()).numpy(), rows.max(axis=1) - rows.min())

    def replay(self) -> None:
        """Runs a graph that uploads and downloads, and waits for the second of two runs."""
        self._sent[:] = self._random.integers(-999, 999)
        self._graph.submit()
        self._sent += 1
        self._graph.submit().result()
        self.equal(self._fetched, self._sent * 3 + 1)

    def record(self) -> None:
        """Records a graph with a temporary, which is then dropped."""
        self._x.fill(4)
        with self._runtime.record() as graph:
            part = graph.empty(LENGTH, np.int32)
            part.copy_from(self._x)
            self._kernel(part, self._y)
        graph.run(2)
        self.equal(self._y.numpy(), np.full(LENGTH, 13))

    def transfer(self) -> None:
        """Writes and reads, with strides, what is then dropped."""
        data = self.data()[:100]  # each element is a region of a copy, of which the validation layer compares all pairs
        array = self._runtime.zeros((2, data.size), np.int32)
        array[1, ::-1].write(data)
        self.equal(array.copy()[1].numpy()[::-1], data)

    def steps(self) -> Sequence[Callable[[], None]]:
        """The steps that each interrupt is followed by: all but the slowest one, `compile`."""
        return self.multiply, self.launch, self.functions, self.plans, self.replay, self.record, self.transfer

    def interrupted(self, interrupts: Interrupts, shuffled: random.Random, *, compiles: bool) -> None:
        """Runs steps until an interrupt comes, then all steps without one."""
        steps = [*self.steps(), self.compile] if compiles else self.steps()
        try:
            interrupts.expected = True
            for _ in range(_STEPS):
                shuffled.choice(steps)()
            interrupts.expected = False
        except KeyboardInterrupt:
            pass
        except vc.VkComputeError as error:  # of a launch in which a finalizer swallowed the KeyboardInterrupt
            interrupts.expected = False
            _require_interrupted(error)
        try:
            self._runtime.wait()
        except vc.VkComputeError as error:  # of a launch that was interrupted, once
            _require_interrupted(error)
        for step in self.steps():
            step()


def _require_interrupted(error: vc.VkComputeError) -> None:
    if "interrupted by KeyboardInterrupt" not in str(error):
        raise error


def run(runtime: vc.Runtime, minutes: float, seed: int) -> list[str]:
    """Runs the rounds, and prints a line after each. Returns descriptions of what grew."""
    program, shuffled, interrupts = Program(runtime, seed), random.Random(seed), Interrupts()
    samples, start = [], time.monotonic()
    print(f"{'minutes':>8}{'interrupts':>12}{'dropped':>9}{'handles':>9}{'device MiB':>12}{'RssAnon MiB':>13}")
    with subprocess.Popen([sys.executable, "-c", SENDER, str(os.getpid())], stderr=subprocess.DEVNULL) as sender:
        try:
            for number in range(1, ROUNDS + 1):
                end = start + 60 * minutes * number / ROUNDS
                while time.monotonic() < end and sender.poll() is None:
                    program.interrupted(interrupts, shuffled, compiles=3 * number <= ROUNDS)
                program.drop_cached()
                samples.append(sample := Sample.take(runtime))
                print(
                    f"{(time.monotonic() - start) / 60:8.2f}{interrupts.n:12}{interrupts.n_dropped:9}"
                    f"{sum(sample.handles.values()):9}{sample.device_bytes / MIB:12.1f}{sample.rss_bytes / MIB:13.1f}",
                    flush=True,
                )
        finally:
            sender.terminate()
    extra = sum(samples[-1].handles.values()) - sum(samples[0].handles.values())
    excused = ["open "] if extra <= interrupts.n_dropped else []
    if os.environ.get("VKCOMPUTE_VALIDATION", "off") != "off":
        excused.append("bytes of RssAnon")  # the layer keeps memory of each command pool
    return [line for line in growth(samples) if not line.startswith(tuple(excused))]


def main() -> int:
    """Runs the test. Returns 1 for a wrong result or growth, 2 if there is no device."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="index or part of the name (default: the best)")
    parser.add_argument("--minutes", type=float, default=10.0, help="duration (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    options = parser.parse_args()
    try:
        runtime = vc.Runtime(options.device)
    except (vc.NoDevice, vc.NoVulkanLoader) as error:
        print(f"interrupts.py: {error}", file=sys.stderr)
        return 2
    with runtime:
        print(runtime.device)
        try:
            grown = run(runtime, options.minutes, options.seed)
        except WrongResult as error:
            grown = [str(error)]
    print("\n".join(grown) or "all results are correct, no growth")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
