"""A compute-bound kernel on two devices: each alone, the best fixed split, and the balanced split.

Software devices share the machine's cores, so each is restricted to half of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from context import Cases, Context
from measure import Case, Local, timed
from peers.work import Floats

import vkcompute as vc

TITLE = "two devices"
_STEPS, _ANGLE = 256, 0.01
_ROUNDS = 6  # of balancing
_TRIES = 5
_THREADS = Path("/proc/self/task")
_SOURCE = f"""
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ float x[]; }};
layout(binding = 1) writeonly buffer Y {{ float y[]; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i >= y.length()) return;
    vec2 v = vec2(x[i], 1.0);
    for (uint k = 0; k < {_STEPS}; ++k) v = {math.cos(_ANGLE)} * v + {math.sin(_ANGLE)} * vec2(-v.y, v.x);
    y[i] = v.x;
}}
"""


def cases(context: Context) -> Cases:
    """One size, on the device under test and another one.

    Raises:
        NoDevice: there is no second device.
    """
    with _two_devices(context.target.index) as group:
        work = _Work(group, context.sizes.small)
        alone = sorted(((1.0, 0.0), (0.0, 1.0)), key=work.seconds)
        splits = {
            "the faster alone": alone[0],
            "the slower alone": alone[1],
            "best fixed split": work.best(),
            "balanced": work.balanced(),
        }
        contenders = [_local(name, work, weights) for name, weights in splits.items()]
        names = " and ".join(runtime.device.physical.name.split(" (")[0] for runtime in group.runtimes)
        title = f"{_STEPS} steps of a recurrence, {context.sizes.small:,} rows, on\n{names}"
        yield Case("devices", title, "the faster alone", contenders)


def _local(name: str, work: _Work, weights: tuple[float, float]) -> Local:
    contender = Local(name, partial(work.program, weights), work.expected, tolerance=1e-4)
    contender.about = f"{weights[0]:.1%} of the rows on the first device"
    return contender


@contextmanager
def _two_devices(first: int) -> Iterator[vc.DeviceGroup]:
    with ExitStack() as owned:
        with vc.DeviceGroup() as everything:
            indices = [runtime.device.physical.index for runtime in everything.runtimes]
        others = [index for index in indices if index != first]
        if not others:
            raise vc.NoDevice("the benchmark needs two devices; name both drivers in VK_DRIVER_FILES")
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        half = len(cores) // 2
        runtimes = [
            owned.enter_context(_on_cores(index, own))
            for index, own in ((first, cores[:half]), (others[0], cores[half:]))
        ]
        yield owned.enter_context(vc.DeviceGroup(runtimes))


def _on_cores(device: int, cores: Sequence[int]) -> vc.Runtime:
    """A runtime. A software driver's threads are bound to these cores, if the system supports it."""
    before = _threads()
    runtime = vc.Runtime(device)
    runtime.kernel(vc.glsl(_SOURCE))(runtime.zeros(1 << 16), runtime.empty(1 << 16)).result()  # starts all threads
    if cores and runtime.device.physical.kind == "cpu":
        for thread in _threads() - before:
            os.sched_setaffinity(thread, cores)
    return runtime


def _threads() -> set[int]:
    return {int(path.name) for path in _THREADS.iterdir()} if _THREADS.exists() else set()


class _Work:
    """The kernel and its input: each row is a vector (x, 1), rotated many times by a small angle."""

    def __init__(self, group: vc.DeviceGroup, n_rows: int) -> None:
        self._group, self._kernel = group, group.kernel(vc.glsl(_SOURCE))
        self._x = np.random.default_rng(1).random(n_rows, np.float32)

    def expected(self) -> Floats:
        """The first coordinates after all rotations."""
        angle = _STEPS * _ANGLE
        return (math.cos(angle) * self._x - math.sin(angle)).astype(np.float32)

    def program(self, weights: Sequence[float]) -> OnDevices:
        """The program with these weights of the devices."""
        self._group.weights = weights
        return OnDevices(self._kernel, self._group.array(self._x), self._group.empty(self._x.shape))

    def seconds(self, weights: Sequence[float]) -> float:
        """The shortest time of several runs with these weights."""
        program = self.program(weights)
        return min(timed(program, 1) for _ in range(_TRIES))

    def best(self) -> tuple[float, float]:
        """The best fixed split, by a coarse search in 17 steps, then a fine one."""
        coarse = min(range(0, 65, 4), key=lambda k: self.seconds((k, 64 - k)))
        best = min(range(max(0, coarse - 3), min(64, coarse + 3) + 1), key=lambda k: self.seconds((k, 64 - k)))
        return best / 64, 1 - best / 64

    def balanced(self) -> tuple[float, float]:
        """The split found by balancing, starting from equal weights."""
        weights: Sequence[float] = (1, 1)
        for _ in range(_ROUNDS):
            program = self.program(weights)
            with self._group.balance():
                program.enqueue()
            weights = self._group.weights
        return weights[0], weights[1]


class OnDevices:
    """A kernel on a group."""

    def __init__(self, kernel: Any, x: Any, y: Any) -> None:
        self._kernel, self._x, self._y = kernel, x, y

    def enqueue(self) -> None:
        """Launches the kernel."""
        self._future = self._kernel(self._x, self._y)

    def wait(self) -> None:
        """Waits for all devices."""
        self._future.result()

    def result(self) -> Floats:
        """Returns a copy of the result."""
        computed: Floats = self._y.numpy()
        return computed
