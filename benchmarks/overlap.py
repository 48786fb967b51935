"""Upload, compute and download of a balanced load: by `Runtime.stream`, and by a plain loop over the chunks.

The kernel takes about as long as the two copies of its chunk, or longer if a single step does. With a transfer queue,
the maximum gain is (t_copy + t_kernel) / max(t_copy, t_kernel), derived from the rows of each alone. If host and device
are the same processor, there is nothing to gain, and streaming must cost nothing.
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
_MAX_STEPS = 60_000  # lavapipe ends loops after 65,535 iterations
_SHADER = f"""
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ uvec4 x[]; }};
layout(binding = 1) writeonly buffer Y {{ uvec4 y[]; }};
layout(push_constant) uniform P {{ uint steps; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i >= y.length()) return;
    uvec4 v = x[i];
    for (uint k = 0; k < steps; ++k) v = v * {_FACTOR}u + {_SUMMAND}u;
    y[i] = v;
}}
"""
Uints = npt.NDArray[np.uint32]


def cases(context: Context) -> Cases:
    """One size. The case's key depends on the presence of a transfer queue."""
    runtime, n = context.runtime, context.sizes.large // 4
    balanced = _Load(runtime, n)
    roles = {queue.role for queue in runtime.device.queues}
    key = "overlap.queues" if roles == {"compute", "transfer"} else "overlap.one"
    variants: dict[str, Callable[[_Load], object]] = {
        "plain loop": _Load.loop,
        "stream": _Load.stream,
        "copies alone": _Load.copy,
        "kernels alone": _Load.compute,
    }
    contenders: list[Contender] = [
        Local(name, partial(_Variant, balanced, variant), balanced.expected, loops=1)
        for name, variant in variants.items()
    ]
    title = f"{count_of(n)} uint32 up, {balanced.steps} steps of a generator, and down"
    yield Case(key, title, "plain loop", contenders)


class _Load:
    """The data and the kernel. The number of steps is chosen such that the kernel takes as long as the copies.

    Attributes:
        steps: number of steps.
        out: the result.
    """

    def __init__(self, runtime: vc.Runtime, n: int) -> None:
        self._runtime, self._kernel = runtime, runtime.kernel(vc.glsl(_SHADER))
        n -= n % 4
        self._data, self.out = np.arange(n, dtype=np.uint32), np.zeros(n, np.uint32)
        self._chunks = [slice(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK)]
        self._up, self._down = (runtime.empty(min(_CHUNK, n), np.uint32) for _ in range(2))
        self.steps = 1
        self.loop()
        goal, limit = self._seconds(self.copy), _MAX_STEPS
        while self.steps < limit and self._seconds(self.compute) < goal:
            self.steps = min(limit, 2 * self.steps)
        self.steps = max(1, min(limit, round(self.steps * goal / self._seconds(self.compute))))

    def _seconds(self, work: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            start = perf_counter()
            work()
            times.append(perf_counter() - start)
        return min(times)

    def loop(self) -> None:
        """Processes one chunk after the other."""
        for rows in self._chunks:
            up, down = self._up[: rows.stop - rows.start], self._down[: rows.stop - rows.start]
            up.write(self._data[rows])
            self._kernel(up, down, self.steps)
            down.read(self.out[rows])

    def stream(self) -> None:
        """Overlaps upload, kernel and download of chunks."""
        work = partial(self._launch, self.steps)
        self._runtime.stream(self._data, work, self.out, chunk_bytes=_CHUNK * self._data.itemsize)

    def _launch(self, steps: int, up: vc.Array, down: vc.Array) -> None:
        self._kernel(up, down, steps)

    def copy(self) -> None:
        """Uploads and downloads each chunk, without a kernel."""
        for rows in self._chunks:
            self._up[: rows.stop - rows.start].write(self._data[rows])
            self._up[: rows.stop - rows.start].read(self.out[rows])

    def compute(self) -> None:
        """Launches the kernel for each chunk, without copies, and waits."""
        for rows in self._chunks:
            self._kernel(self._up[: rows.stop - rows.start], self._down[: rows.stop - rows.start], self.steps)
        self._runtime.wait()

    def expected(self) -> Uints:
        """numpy's result. All steps combine into one with another factor and summand."""
        factor, summand = 1, 0
        for _ in range(self.steps):
            factor, summand = factor * _FACTOR % (1 << 32), (summand * _FACTOR + _SUMMAND) % (1 << 32)
        result: Uints = self._data * np.uint32(factor) + np.uint32(summand)
        return result


class _Variant:
    """A variant of the load. A partial one (only copies or kernels) is checked by a run of the loop."""

    def __init__(self, load: _Load, variant: Callable[[_Load], object]) -> None:
        self._load, self._variant = load, variant

    def enqueue(self) -> None:
        """Runs the variant."""
        self._variant(self._load)

    def wait(self) -> None:
        """Returns at once: `enqueue` has waited."""

    def result(self) -> Any:
        """Runs the variant again. Returns the result."""
        self._load.out.fill(0)
        self.enqueue()
        if self._variant in (_Load.copy, _Load.compute):
            self._load.loop()
        return self._load.out
