"""Upload, compute and download of a balanced load: by `Runtime.stream`, and by the plain loop over the chunks.

The kernel takes about as long as its chunk's two copies, or longer where not even one step is so quick. Where copies
have a queue of their own, the most that streaming can give is (t_copy + t_kernel) / max(t_copy, t_kernel), which the
rows of each alone tell; where copying is the host's own work and the device is the same processor, it can give nothing,
and is to cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from context import Cases, Context, count_of
from measure import Case, Contender, Local

import vkcompute as vc

TITLE = "overlap of copies and kernels"
_CHUNK = 1 << 20  # elements
_FACTOR, _SUMMAND = 1_664_525, 1_013_904_223
_MOST_TURNS = 60_000  # lavapipe ends loops after 65,535
_SHADER = f"""
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ uvec4 x[]; }};
layout(binding = 1) writeonly buffer Y {{ uvec4 y[]; }};
layout(push_constant) uniform P {{ uint turns; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i >= y.length()) return;
    uvec4 v = x[i];
    for (uint k = 0; k < turns; ++k) v = v * {_FACTOR}u + {_SUMMAND}u;
    y[i] = v;
}}
"""
Uints = npt.NDArray[np.uint32]


def cases(context: Context) -> Cases:
    """One size; what is asked for depends on whether the device copies on a queue of its own."""
    runtime, n = context.runtime, context.sizes.large // 4
    balanced = _Load(runtime, n)
    roles = {queue.role for queue in runtime.device.queues}
    key = "overlap.queues" if roles == {"compute", "transfer"} else "overlap.one"
    ways: dict[str, Callable[[_Load], object]] = {
        "plain loop": _Load.loop,
        "stream": _Load.stream,
        "copies alone": _Load.copy,
        "kernels alone": _Load.compute,
    }
    contenders: list[Contender] = [
        Local(name, partial(_Way, balanced, way), balanced.expected, loops=1) for name, way in ways.items()
    ]
    title = f"{count_of(n)} uint32 up, {balanced.turns} steps of a generator, and down"
    yield Case(key, title, "plain loop", contenders)


class _Load:
    """The data, the kernel, and as many steps of it that it takes about as long as its chunk's copies.

    Attributes:
        turns: so many steps.
        out: the result.
    """

    def __init__(self, runtime: vc.Runtime, n: int) -> None:
        self._runtime, self._kernel = runtime, runtime.kernel(vc.glsl(_SHADER))
        n -= n % 4
        self._data, self.out = np.arange(n, dtype=np.uint32), np.zeros(n, np.uint32)
        self._chunks = [slice(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK)]
        self._up, self._down = (runtime.empty(min(_CHUNK, n), np.uint32) for _ in range(2))
        self.turns = 1
        self.loop()
        goal, most = self._seconds(self.copy), _MOST_TURNS
        while self.turns < most and self._seconds(self.compute) < goal:
            self.turns = min(most, 2 * self.turns)
        self.turns = max(1, min(most, round(self.turns * goal / self._seconds(self.compute))))

    def _seconds(self, work: Callable[[], object]) -> float:
        found = []
        for _ in range(3):
            start = perf_counter()
            work()
            found.append(perf_counter() - start)
        return min(found)

    def loop(self) -> None:
        """Each chunk is done when the next one begins."""
        for rows in self._chunks:
            up, down = self._up[: rows.stop - rows.start], self._down[: rows.stop - rows.start]
            up.write(self._data[rows])
            self._kernel(up, down, self.turns)
            down.read(self.out[rows])

    def stream(self) -> None:
        """Chunks go up, are worked on and come down at once."""
        work = partial(self._launch, self.turns)
        self._runtime.stream(self._data, work, self.out, chunk_bytes=_CHUNK * self._data.itemsize)

    def _launch(self, turns: int, up: vc.Tensor, down: vc.Tensor) -> None:
        self._kernel(up, down, turns)

    def copy(self) -> None:
        """Up and down, with no work between."""
        for rows in self._chunks:
            self._up[: rows.stop - rows.start].write(self._data[rows])
            self._up[: rows.stop - rows.start].read(self.out[rows])

    def compute(self) -> None:
        """The work on chunks that are there, awaited once at the end."""
        for rows in self._chunks:
            self._kernel(self._up[: rows.stop - rows.start], self._down[: rows.stop - rows.start], self.turns)
        self._runtime.wait()

    def expected(self) -> Uints:
        """numpy's result: so many steps are one, with another factor and summand."""
        factor, summand = 1, 0
        for _ in range(self.turns):
            factor, summand = factor * _FACTOR % (1 << 32), (summand * _FACTOR + _SUMMAND) % (1 << 32)
        found: Uints = self._data * np.uint32(factor) + np.uint32(summand)
        return found


class _Way:
    """One way to do the load; the result of what only copies or computes is that of a loop behind it."""

    def __init__(self, load: _Load, way: Callable[[_Load], object]) -> None:
        self._load, self._way = load, way

    def enqueue(self) -> None:
        """Does it."""
        self._way(self._load)

    def wait(self) -> None:
        """Nothing is left to wait for."""

    def result(self) -> Any:
        """What has been computed."""
        self._load.out.fill(0)
        self.enqueue()
        if self._way in (_Load.copy, _Load.compute):
            self._load.loop()
        return self._load.out
