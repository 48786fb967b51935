"""The scheduler's overhead on the host: per launch, compared with raw calls, and per replay.

Submits have no command buffers here, so that the device does no work: the time is that of Python and of the driver's
recording. The clock is the launching thread's CPU time. Before and after, each program runs once with its work, to
check its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from time import thread_time
from typing import Any

import numpy as np
from context import Cases, Context
from launch import SCALE, SHADER, N
from measure import Case, Local
from peers.work import Floats, pair, product
from raw import RawLaunches

import vkcompute as vc
from vkcompute.core import vk

TITLE = "scheduling"
_LOOPS = 2_000  # minimum launches or replays per sample
_WINDOWS = 256
_RECORDED, _REPLAYS = 1_000, 100


class Idle:
    """A runtime whose submits are empty, except inside `with idle.working():`."""

    def __init__(self, device: int) -> None:
        self._drops = True
        vk.interceptors.append(self._wrap)
        try:
            self.runtime = vc.Runtime(device)
        finally:
            vk.interceptors.remove(self._wrap)

    def _wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def submit(queue: Any, n: int, info: Any, fence: Any) -> Any:
            n_buffers = info.commandBufferCount
            info.commandBufferCount = 0 if self._drops else n_buffers
            result = function(queue, n, info, fence)
            info.commandBufferCount = n_buffers
            return result

        return submit if name == "vkQueueSubmit" else function

    @contextmanager
    def working(self) -> Iterator[None]:
        """Enables the device's work inside the block."""
        self.runtime.wait()
        self._drops = False
        try:
            yield
            self.runtime.wait()
        finally:
            self._drops = True


def cases(context: Context) -> Cases:
    """Consecutive launches on an array, on many windows of an array, as raw calls, and a replay."""
    idle, few = Idle(context.target.index), f"{context.sizes.tasks[0]:,} launches"
    with idle.runtime:
        for key, n_windows in (("tasks", 1), ("windows", _WINDOWS)):
            target = f" on {n_windows} windows" if n_windows > 1 else ""
            programs = [_timed(f"{n:,} launches", Launches, idle, n_windows, n) for n in context.sizes.tasks]
            yield Case(f"scheduling.{key}", f"host time of a launch, consecutive{target}", few, programs)
        n = context.sizes.tasks[-1]
        programs = [_timed("raw calls", Floor, idle, 1, n), _timed("vkcompute", Launches, idle, 1, n)]
        yield Case("scheduling.floor", f"host time of a launch, {n:,} consecutive", "raw calls", programs)
        replay = _timed("vkcompute", Replay, idle, 1, _REPLAYS)
        yield Case("scheduling.replay", f"host time of {_RECORDED:,} replayed launches", "vkcompute", [replay])


def _timed(name: str, program: Callable[..., Any], idle: Idle, n_windows: int, burst: int) -> Local:
    make, expected = partial(program, idle, n_windows), partial(_expected, n_windows)
    return Local(name, make, expected, burst=burst, loops=max(burst, _LOOPS), clock=thread_time)


def _expected(n_windows: int) -> Floats:
    return np.tile(product(N) * np.float32(SCALE), n_windows)


class Launches:
    """Launches on the windows of the result in turn."""

    def __init__(self, idle: Idle, n_windows: int) -> None:
        self._idle, self._runtime, self._n_windows = idle, idle.runtime, n_windows
        a, b = (self._runtime.array(array) for array in pair(N))
        self._out = self._runtime.zeros(N * n_windows)
        self._kernel = self._runtime.kernel(vc.glsl(SHADER))
        self._windows = cycle([(a, b, self._out[i * N : (i + 1) * N]) for i in range(n_windows)])

    def enqueue(self) -> None:
        """Launches the kernel."""
        self._kernel(*next(self._windows), SCALE)

    def wait(self) -> None:
        """Waits for all launches."""
        self._runtime.wait()

    def result(self) -> Floats:
        """Runs a launch per window, with work. Returns the result."""
        with self._idle.working():
            self._out.fill(0)
            for _ in range(self._n_windows):
                self.enqueue()
            self.wait()
            computed: Floats = self._out.numpy()
        return computed


class Replay(Launches):
    """A graph of many launches."""

    def __init__(self, idle: Idle, n_windows: int) -> None:
        super().__init__(idle, n_windows)
        with self._runtime.record() as self._graph:
            for _ in range(_RECORDED):
                super().enqueue()

    def enqueue(self) -> None:
        """Submits the graph."""
        self._graph.submit()


class Floor(RawLaunches):
    """The raw calls of each launch."""

    def __init__(self, idle: Idle, n_windows: int) -> None:
        super().__init__(idle.runtime, vc.glsl(SHADER), SCALE, N * n_windows)
        self._idle = idle

    def result(self) -> Floats:
        """Runs a launch with work. Returns the result."""
        with self._idle.working():
            self.clear()
            self.enqueue()
            self.wait()
            return super().result()
