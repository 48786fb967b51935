"""The host's time for a launch: replayed, compared with raw calls; enqueued only; and with a wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import peers.numpy
from context import Cases, Context
from measure import Case, Contender, Local
from peers.work import Blocking, Floats, pair, product
from raw import Raw

import vkcompute as vc

TITLE = "cost of a launch"
N = 1024
SCALE = 0.5  # a power of two: the products stay exact
SHADER = """
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Parameters { float scale; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < c.length()) c[i] = a[i] * b[i] * scale;
}
"""
_BURST = 32  # launches between untimed waits; fewer than a batch holds
_STREAM = 1000  # many batches
_LOOPS = 320  # minimum launches per sample


def cases(context: Context) -> Cases:
    """Replay, enqueue few and many launches, and launch with a wait."""
    replayed = [_ours("raw calls", context, _raw), _ours("vkcompute graph.run()", context, _Replay)]
    yield Case("launch.replay", "recorded launch, replayed and awaited", "raw calls", replayed)
    for key, burst in (("launch.enqueue", _BURST), ("launch.stream", _STREAM)):
        title = f"launch with three arrays (ours: and a scalar), enqueued {burst:,} at a time"
        theirs = context.remote("resident", N, burst, max(burst, _LOOPS))
        yield Case(key, title, "vkcompute", [_ours("vkcompute", context, _Eager, burst), *theirs])
    awaited: list[Contender] = [
        Local("numpy", lambda: peers.numpy.Resident(*pair(N)), partial(product, N)),
        _ours("vkcompute", context, _Eager),
        *context.remote("resident", N),
    ]
    yield Case("launch.latency", f"launch on {N:,} elements, and wait", "numpy", awaited)


def _ours(name: str, context: Context, make: Callable[..., Any], burst: int | None = None) -> Contender:
    loops = burst and max(burst, _LOOPS)
    return Local(name, partial(make, context.runtime), _expected, burst=burst, loops=loops)


def _raw(runtime: vc.Runtime) -> Raw:
    return Raw(runtime, vc.glsl(SHADER), SCALE, N)


def _expected() -> Floats:
    result: Floats = product(N) * np.float32(SCALE)
    return result


class Launch:
    """The kernel on its arrays."""

    def __init__(self, runtime: vc.Runtime) -> None:
        a, b = pair(N)
        self._arrays = runtime.array(a), runtime.array(b), runtime.zeros(N)
        self._kernel = runtime.kernel(vc.glsl(SHADER))

    def result(self) -> Floats:
        """Returns a copy of the output."""
        computed: Floats = self._arrays[2].numpy()
        return computed


class _Eager(Launch):
    """An eager launch."""

    def enqueue(self) -> None:
        """Launches the kernel."""
        self._future = self._kernel(*self._arrays, SCALE)

    def wait(self) -> None:
        """Waits for the last launch, and so for all: each overwrites the previous one's output."""
        self._future.result()


class _Replay(Blocking, Launch):
    """A recorded launch."""

    def __init__(self, runtime: vc.Runtime) -> None:
        super().__init__(runtime)
        with runtime.record() as self._graph:
            self._kernel(*self._arrays, SCALE)

    def enqueue(self) -> None:
        """Runs the graph and waits."""
        self._graph.run()
