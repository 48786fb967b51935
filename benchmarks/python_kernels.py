"""Kernels in Python compared with the same kernels in GLSL (optimized by glslang): launch, compile and run time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from context import Cases, Context
from launch import SCALE, SHADER, N
from measure import Case, HostArray, Local
from peers.work import Blocking, pair, product
from workloads import Workload, n_body, workloads

import vkcompute as vc
from vkcompute.compiled.cache import Specializations
from vkcompute.compiled.specialization import CompileOptions, Specialization
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import specialize
from vkcompute.jit.compilation.fingerprint import PythonOrigin

TITLE = "kernels written in Python"
_SHADERS = Path(__file__).resolve().parent / "shaders"
_BURST, _LOOPS = 32, 320  # launches between untimed waits, minimum launches per sample
_KICK = n_body.kick.__wrapped__
_KICK_FOR = (("f", 2), ("f", 1), ("f", 2), float), CompileOptions((n_body.TILE, 1, 1))


@vc.kernel
def multiply(a: Any, b: Any, c: Any, scale: Any) -> None:
    """The kernel of launch.SHADER in Python."""
    i = vc.global_id(0)
    if i < c.size:
        c[i] = a[i] * b[i] * scale


def cases(context: Context) -> Cases:
    """The host's time for a launch and for compilation, and the device's time for each example."""
    runtime = context.runtime
    a, b = pair(N)
    work = Workload("", multiply, [a, b, np.zeros_like(a)], 2, [SCALE], partial(_scaled, N))
    programs = [
        Local("GLSL", partial(Glsl, runtime, work, vc.glsl(SHADER)), work.expected, burst=_BURST, loops=_LOOPS),
        Local("Python", partial(Python, runtime, work), work.expected, burst=_BURST, loops=_LOOPS),
    ]
    yield Case("python.launch", f"launch with three arrays and a scalar, enqueued {_BURST} at a time", "GLSL", programs)
    words = partial(_words, _compiled)
    makers = {"compiled": _compiled, "from the disk": _from_the_disk}
    compilers = [Local(name, partial(Compiler, make), words) for name, make in makers.items()]
    yield Case("python.compile", "a kernel of 20 lines to SPIR-V", "compiled", compilers)
    for each in workloads(full=context.sizes.small >= 1 << 20):
        shader = vc.glsl(_SHADERS / f"{each.shader}.comp", optimize=True)
        programs = [
            Local("GLSL", partial(Glsl, runtime, each, shader), each.expected, tolerance=each.tolerance),
            Local("Python", partial(Python, runtime, each), each.expected, tolerance=each.tolerance),
        ]
        yield Case(f"python.{each.shader}", f"{each.title}, with fast_math=True", "GLSL", programs)


def _compiled() -> Specialization:
    return specialize(definition_of(_KICK), *_KICK_FOR)


def _from_the_disk() -> Specialization:
    """Defines the kernel and finds it as a new process does, once per kernel; its file is read once for all of them."""
    function = FunctionType(_KICK.__code__, _KICK.__globals__, _KICK.__name__)
    vc.kernel(function)
    return Specializations(PythonOrigin((function,))).find(_KICK_FOR, partial(specialize, definition_of(function)))


def _words(make: Callable[[], Specialization]) -> HostArray:
    return np.frombuffer(make().spirv, np.uint32)


class Compiler(Blocking):
    """Compiles a kernel, or reads it from the cache."""

    def __init__(self, make: Callable[[], Specialization]) -> None:
        self._make = make

    def enqueue(self) -> None:
        """Compiles the kernel."""
        self._make()

    def result(self) -> HostArray:
        """Returns the SPIR-V."""
        return _words(self._make)


def _scaled(n: int) -> HostArray:
    result: HostArray = product(n) * np.float32(SCALE)
    return result


class Launched:
    """A workload with its arrays."""

    def __init__(self, runtime: vc.Runtime, work: Workload) -> None:
        self._work, self._arrays = work, [runtime.array(array) for array in work.arrays]

    def wait(self) -> None:
        """Waits for the last launch."""
        self._future.result()

    def enqueue(self) -> None:
        """Launches the kernel."""
        self._future = self._launch()

    def result(self) -> HostArray:
        """Runs a launch on the initial arrays. Returns its result."""
        for array, host in zip(self._arrays, self._work.arrays, strict=True):
            array.write(host)
        self.enqueue()
        return self._work.found(self._arrays[self._work.out].numpy())


class Glsl(Launched):
    """The kernel in GLSL."""

    def __init__(self, runtime: vc.Runtime, work: Workload, spirv: bytes) -> None:
        super().__init__(runtime, work)
        kernel, grid = runtime.kernel(spirv), work.groups
        self._launch = partial(kernel, *self._arrays, *work.numbers, *work.extents, grid=grid)


class Python(Launched):
    """The kernel in Python, with fast_math=True for the device's float functions, as in GLSL."""

    def __init__(self, runtime: vc.Runtime, work: Workload) -> None:
        super().__init__(runtime, work)
        kernel = vc.kernel(fast_math=True)(work.kernel.__wrapped__)
        kernel = kernel[work.groups, work.local] if work.local else kernel
        self._launch = partial(kernel, *self._arrays, *work.numbers)
