"""The host's cost of a launch: recorded and replayed beside the raw calls, enqueued only, and awaited."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import peers.numpy
import vkcompute as vc
from context import Cases, Context
from measure import Case, Contender, Local
from peers.work import Blocking, Floats, pair, product
from raw import Raw

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
_BATCH = 32  # launches per sample where the wait is not timed: fewer than the runtime submits by itself
_LONG = 1000


def cases(context: Context) -> Cases:
    """Replay, enqueue, enqueue of many, and launch with wait."""
    replayed = [_ours("raw calls", context, _raw), _ours("vkcompute graph.run()", context, _Replay)]
    yield Case("launch.replay", "recorded launch, replayed and awaited", "raw calls", replayed)
    title = "launch of three tensors and one scalar, enqueued only"
    yield Case("launch.enqueue", title, "vkcompute", [_ours("vkcompute", context, _Eager, _BATCH)])
    title = f"the same, {_LONG} in a row with what the runtime submits by itself"
    yield Case("launch.stream", title, "vkcompute", [_ours("vkcompute", context, _Eager, _LONG)])
    awaited: list[Contender] = [
        Local("numpy", lambda: peers.numpy.Resident(*pair(N)), partial(product, N)),
        _ours("vkcompute", context, _Eager),
        *context.remote("resident", N),
    ]
    yield Case("launch.latency", f"launch on {N:,} elements, and wait", "numpy", awaited)


def _ours(name: str, context: Context, make: Callable[..., Any], batch: int = 0) -> Local:
    """A contender; with `batch`, of so many launches per sample, without their wait."""
    return Local(name, partial(make, context.runtime), _expected, enqueue_only=batch > 0, loops=batch or None)


def _raw(runtime: vc.Runtime) -> Raw:
    return Raw(runtime, vc.glsl(SHADER), SCALE, N)


def _expected() -> Floats:
    found: Floats = product(N) * np.float32(SCALE)
    return found


class _Launch:
    """The kernel on its tensors."""

    def __init__(self, runtime: vc.Runtime) -> None:
        self._runtime = runtime
        a, b = pair(N)
        self._tensors = runtime.tensor(a), runtime.tensor(b), runtime.zeros(N)
        self._kernel = runtime.kernel(vc.glsl(SHADER))

    def result(self) -> Floats:
        """A copy of the output."""
        found: Floats = self._tensors[2].numpy()
        return found


class _Eager(_Launch):
    """Launched each time."""

    def enqueue(self) -> None:
        """Launches."""
        self._kernel(*self._tensors, SCALE)

    def wait(self) -> None:
        """Waits for all launches."""
        self._runtime.wait()


class _Replay(Blocking, _Launch):
    """Recorded once."""

    def __init__(self, runtime: vc.Runtime) -> None:
        super().__init__(runtime)
        with runtime.record() as self._graph:
            self._kernel(*self._tensors, SCALE)

    def enqueue(self) -> None:
        """Runs the recording and waits."""
        self._graph.run()
