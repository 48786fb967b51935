"""Kernels written in Python beside the same kernels in GLSL, compiled by glslang and its optimizer: launch and run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from context import Cases, Context
from launch import SCALE, SHADER, N
from measure import Array, Case, Local
from peers.work import pair, product
from workloads import Workload, workloads

import vkcompute as vc

TITLE = "kernels written in Python"
_SHADERS = Path(__file__).resolve().parent / "shaders"
_BURST, _LOOPS = 32, 320  # launches whose wait is not timed, and launches per sample, at least


@vc.kernel
def multiply(a: Any, b: Any, c: Any, scale: Any) -> None:
    """launch.SHADER in Python."""
    i = vc.global_id(0)
    if i < c.size:
        c[i] = a[i] * b[i] * scale


def cases(context: Context) -> Cases:
    """What a launch costs the host, and what each example takes on the device."""
    runtime = context.runtime
    a, b = pair(N)
    work = Workload("", multiply, [a, b, np.zeros_like(a)], 2, [SCALE], partial(_scaled, N))
    programs = [
        Local("GLSL", partial(Glsl, runtime, work, vc.glsl(SHADER)), work.expected, burst=_BURST, loops=_LOOPS),
        Local("Python", partial(Python, runtime, work), work.expected, burst=_BURST, loops=_LOOPS),
    ]
    yield Case("python.launch", f"launch of three arrays and a scalar, enqueued {_BURST} at a time", "GLSL", programs)
    for each in workloads(full=context.sizes.small >= 1 << 20):
        shader = vc.glsl(_SHADERS / f"{each.shader}.comp", optimize=True)
        programs = [
            Local("GLSL", partial(Glsl, runtime, each, shader), each.expected, tolerance=each.tolerance),
            Local("Python", partial(Python, runtime, each), each.expected, tolerance=each.tolerance),
        ]
        yield Case(f"python.{each.shader}", each.title, "GLSL", programs)


def _scaled(n: int) -> Array:
    found: Array = product(n) * np.float32(SCALE)
    return found


class Launched:
    """A workload on its tensors."""

    def __init__(self, runtime: vc.Runtime, work: Workload) -> None:
        self._work, self._tensors = work, [runtime.tensor(each) for each in work.arrays]

    def wait(self) -> None:
        """Waits for the last launch."""
        self._future.result()

    def enqueue(self) -> None:
        """Launches."""
        self._future = self._launch()

    def result(self) -> Array:
        """What one launch on the arrays as they were makes of them."""
        for tensor, array in zip(self._tensors, self._work.arrays, strict=True):
            tensor.write(array)
        self.enqueue()
        return self._work.found(self._tensors[self._work.out].numpy())


class Glsl(Launched):
    """In GLSL."""

    def __init__(self, runtime: vc.Runtime, work: Workload, spirv: bytes) -> None:
        super().__init__(runtime, work)
        kernel, grid = runtime.kernel(spirv), work.groups
        self._launch = partial(kernel, *self._tensors, *work.numbers, *work.extents, grid=grid)


class Python(Launched):
    """In Python."""

    def __init__(self, runtime: vc.Runtime, work: Workload) -> None:
        super().__init__(runtime, work)
        kernel = work.kernel[work.groups, work.local] if work.local else work.kernel
        self._launch = partial(kernel, *self._tensors, *work.numbers)
