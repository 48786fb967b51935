"""Kernels in Numba's Python: launches beside bare ones, compilation beside `vc.kernel`'s, run time beside GLSL's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from context import Cases, Context
from host_time import CALLS
from measure import Case, HostArray, Local
from peers.work import Blocking
from python_kernels import Compiler, Glsl, Launched
from workloads import Workload, histogram, matrix_product, n_body, workloads

import vkcompute as vc
from vkcompute.compat.numba import cuda, float32, int32, uint32
from vkcompute.compat.numba.cuda.arrays import as_device_array
from vkcompute.compat.numba.errors import NumbaPerformanceWarning
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.compat.numba.typing_rules import numba_types
from vkcompute.compiled.cache import Specializations
from vkcompute.compiled.specialization import CompileOptions, Specialization
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import kernel_types
from vkcompute.jit.frontend.compiler import Compiler as KernelCompiler
from vkcompute.jit.launcher import KernelSource

TITLE = "kernels written in Numba's Python"
_SHADERS = Path(__file__).resolve().parent / "shaders"
_LOOPS = 10 * CALLS
_N = 64
_TILE, _BINS, _BODIES = matrix_product.T, histogram.BINS, n_body.TILE
_SOFTENING = float32(n_body.SOFTENING**2)
_ZERO, _HALF, _ONE, _TWO = float32(0), float32(0.5), float32(1), float32(2)


# -- kernels -----------------------------------------------------------------------------------------------------------


@cuda.jit(fastmath=True)
def saxpy(x, y, out, a):  # noqa: ANN001, ANN201
    """Stores a multiple and a sum."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(a) * x[i] + y[i]


@cuda.jit(fastmath=True)
def multiply(a, b, out):  # noqa: ANN001, ANN201
    """Stores products."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * b[i]


@cuda.jit(fastmath=True)
def gradients(x_i, x_j, y, weights, products, losses):  # noqa: ANN001, ANN201
    """Computes each row's gradient and loss."""
    row = cuda.grid(1)
    if row < y.size:
        z = weights[0] * x_i[row] + weights[1] * x_j[row] + weights[2]
        p = _ONE / (_ONE + math.exp(-z))
        error = p - y[row]
        products[0, row] = error * x_i[row]
        products[1, row] = error * x_j[row]
        products[2, row] = error
        losses[row] = -y[row] * math.log(p) - (_ONE - y[row]) * math.log(_ONE - p)


@cuda.jit(fastmath=True)
def count(x, counts):  # noqa: ANN001, ANN201
    """Counts in shared memory, then in the result."""
    own = cuda.shared.array(_BINS, uint32)
    i, local = cuda.grid(1), cuda.threadIdx.x
    if local < _BINS:
        own[local] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(own, x[i], 1)
    cuda.syncthreads()
    if local < _BINS:
        cuda.atomic.add(counts, local, own[local])


@cuda.jit(device=True)
def escape(real, imaginary, limit):  # noqa: ANN001, ANN201
    """Returns the smoothed number of steps of z = z² + c until |z| > 8; 0 if that is not reached."""
    x, y = _ZERO, _ZERO
    for step in range(limit):
        square = x * x + y * y
        if square > float32(64):
            return float32(step + 1) - math.log2(_HALF * math.log2(square))
        x, y = x * x - y * y + real, _TWO * x * y + imaginary
    return _ZERO


@cuda.jit(fastmath=True)
def mandelbrot(out, limit):  # noqa: ANN001, ANN201
    """Stores the steps of each point."""
    column, row = cuda.grid(2)
    rows, columns = out.shape
    if row < rows and column < columns:
        real = float32(3) * (float32(column) + _HALF) / float32(columns) - float32(2.25)
        imaginary = float32(2.5) * (float32(row) + _HALF) / float32(rows) - float32(1.25)
        out[row, column] = escape(real, imaginary, int32(limit))


@cuda.jit(fastmath=True)
def matmul(a, b, out):  # noqa: ANN001, ANN201
    """Stores a product by tiles in shared memory."""
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile_a, tile_b = cuda.shared.array((_TILE, _TILE), float32), cuda.shared.array((_TILE, _TILE), float32)
    inner, total = a.shape[1], _ZERO
    for start in range(0, inner, _TILE):
        tile_a[y, x] = a[row, start + x] if row < a.shape[0] and start + x < inner else _ZERO
        tile_b[y, x] = b[start + y, column] if start + y < inner and column < b.shape[1] else _ZERO
        cuda.syncthreads()
        for k in range(_TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


@cuda.jit(fastmath=True)
def kick(position, mass, velocity, seconds):  # noqa: ANN001, ANN201
    """Accelerates each body by the attraction of all. Rows of `position` and `velocity` are x, y and z."""
    bodies = cuda.shared.array((4, _BODIES), float32)
    i, local = cuda.grid(1), cuda.threadIdx.x
    own = min(i, mass.size - 1)
    px, py, pz = position[0, own], position[1, own], position[2, own]
    ax, ay, az = _ZERO, _ZERO, _ZERO
    for start in range(0, mass.size, _BODIES):
        other = min(start + local, mass.size - 1)
        for axis in range(3):
            bodies[axis, local] = position[axis, other]
        bodies[3, local] = mass[other] if start + local < mass.size else _ZERO
        cuda.syncthreads()
        for k in range(_BODIES):
            dx, dy, dz = bodies[0, k] - px, bodies[1, k] - py, bodies[2, k] - pz
            square = dx * dx + dy * dy + dz * dz + _SOFTENING
            pull = bodies[3, k] / (square * math.sqrt(square))
            ax, ay, az = ax + pull * dx, ay + pull * dy, az + pull * dz
        cuda.syncthreads()
    if i < mass.size:
        velocity[0, i] += ax * float32(seconds)
        velocity[1, i] += ay * float32(seconds)
        velocity[2, i] += az * float32(seconds)


_product = vc.elementwise("x * y")
_KERNELS = {
    "saxpy": saxpy, "multiply": multiply, "gradients": gradients, "histogram": count, "mandelbrot": mandelbrot,
    "matmul": matmul, "kick": kick,
}  # fmt: skip


def collide(old, new, walls, row, column, rows, columns, rate):  # noqa: ANN001, ANN201
    """Streams and collides nine directions of a fluid at a point, in 50 lines; kernels of both languages call it."""
    left = column - 1 if column > 0 else columns - 1
    right = column + 1 if column < columns - 1 else 0
    up = row - 1 if row > 0 else rows - 1
    down = row + 1 if row < rows - 1 else 0
    rest = old[0, row, column]
    east = old[1, row, left]
    north = old[2, down, column]
    west = old[3, row, right]
    south = old[4, up, column]
    north_east = old[5, down, left]
    north_west = old[6, down, right]
    south_west = old[7, up, right]
    south_east = old[8, up, left]
    if walls[row, column] != 0:
        new[0, row, column] = rest
        new[1, row, column] = west
        new[2, row, column] = south
        new[3, row, column] = east
        new[4, row, column] = north
        new[5, row, column] = south_west
        new[6, row, column] = south_east
        new[7, row, column] = north_east
        new[8, row, column] = north_west
    else:
        density = rest + east + north + west + south
        density += north_east + north_west + south_west + south_east
        across = east + north_east + south_east
        along = north + north_east + north_west
        x = (across - (west + north_west + south_west)) / density
        y = (along - (south + south_west + south_east)) / density
        square = 1.5 * (x * x + y * y)
        most = math.sqrt(square)
        keep = 1.0 - rate if most < 1.0 else 0.0
        scale = (1.0 - keep) * density
        ninth, least = scale / 9.0, scale / 36.0
        both, apart = x + y, y - x
        new[0, row, column] = keep * rest + 4.0 * ninth * (1.0 - square)
        new[1, row, column] = keep * east + ninth * (1.0 + 3.0 * x + 4.5 * x * x - square)
        new[2, row, column] = keep * north + ninth * (1.0 + 3.0 * y + 4.5 * y * y - square)
        new[3, row, column] = keep * west + ninth * (1.0 - 3.0 * x + 4.5 * x * x - square)
        new[4, row, column] = keep * south + ninth * (1.0 - 3.0 * y + 4.5 * y * y - square)
        new[5, row, column] = keep * north_east + least * (1.0 + 3.0 * both + 4.5 * both * both - square)
        new[6, row, column] = keep * north_west + least * (1.0 + 3.0 * apart + 4.5 * apart * apart - square)
        new[7, row, column] = keep * south_west + least * (1.0 - 3.0 * both + 4.5 * both * both - square)
        new[8, row, column] = keep * south_east + least * (1.0 - 3.0 * apart + 4.5 * apart * apart - square)


def fluid(old, new, walls, rate):  # noqa: ANN001, ANN201
    """The fluid as a `vc.kernel`."""
    column, row = vc.global_id(0), vc.global_id(1)
    if row < walls.shape[0] and column < walls.shape[1]:
        collide(old, new, walls, row, column, walls.shape[0], walls.shape[1], rate)


def numba_fluid(old, new, walls, rate):  # noqa: ANN001, ANN201
    """The fluid as a kernel of `cuda.jit`."""
    column, row = cuda.grid(2)
    if row < walls.shape[0] and column < walls.shape[1]:
        collide(old, new, walls, row, column, walls.shape[0], walls.shape[1], rate)


# -- cases -------------------------------------------------------------------------------------------------------------


def cases(context: Context) -> Cases:
    """The host's time for a launch and for compilation, and the device's time for each kernel."""
    warnings.simplefilter("ignore", NumbaPerformanceWarning)
    yield from _launches(context.runtime)
    yield from _compilations()
    for work in workloads(full=context.sizes.small >= 1 << 20):
        shader = vc.glsl(_SHADERS / f"{work.shader}.comp", optimize=True)
        programs = [
            Local("GLSL", partial(Glsl, context.runtime, work, shader), work.expected, tolerance=work.tolerance),
            Local("Numba's", partial(Numbas, context.runtime, work), work.expected, tolerance=work.tolerance),
        ]
        yield Case(f"numba.{work.shader}", f"{work.title}, with fastmath=True", "GLSL", programs)


def _launches(runtime: vc.Runtime) -> Iterator[Case]:
    """Yields launches with arrays of the device, and of the host beside copies and a launch by hand."""
    ones = np.ones(_N, np.float32)
    work = Workload("", multiply, [ones, ones, np.zeros_like(ones)], 2, [], lambda: ones, groups=(1,), local=(_N,))
    for key, title, bare, numbas in (
        ("launch", f"launch with three arrays, {CALLS} at a time", partial(Bare, runtime), partial(Numbas, runtime)),
        ("hosts", "launch with three arrays of the host", partial(Hosts, _by_hand), partial(Hosts, multiply[1, _N])),
    ):
        burst = CALLS if key == "launch" else None
        programs = [
            Local(name, partial(make, work), work.expected, burst=burst, loops=_LOOPS)
            for name, make in (("vc.elementwise", bare), ("cuda.jit", numbas))
        ]
        yield Case(f"numba.{key}", title, "vc.elementwise", programs)


def _by_hand(*hosts: HostArray) -> None:
    copies = [cuda.to_device(host) for host in hosts]
    a, b, out = [copy.array for copy in copies]
    _product(a, b, out=out)
    for copy, host in zip(copies, hosts, strict=True):
        copy.copy_to_host(host)


def _compilations() -> Iterator[Case]:
    """Yields compilation, and reading from the disk, of a kernel of 50 lines."""
    sources = {
        "vc.kernel": partial(KernelSource, rules=kernel_types, language=KernelCompiler),
        "cuda.jit": partial(KernelSource, rules=numba_types, language=NumbaKernels),
    }
    functions = {"vc.kernel": fluid, "cuda.jit": numba_fluid}
    for key, title, make in (("compile", "to SPIR-V", _compiled), ("disk", "from the disk", _from_the_disk)):
        programs = []
        for name, source in sources.items():
            made = partial(make, source, functions[name])
            programs.append(Local(name, partial(Compiler, made), partial(_words, made)))
        yield Case(f"numba.{key}", f"a kernel of 50 lines {title}", "vc.kernel", programs)


_FLUID_FOR = (("d", 3), ("d", 3), ("i", 2), "float64"), CompileOptions((16, 8, 1))


def _compiled(source: Callable[..., KernelSource], function: FunctionType) -> Specialization:
    return source(definition_of(function)).specialize(*_FLUID_FOR)


def _from_the_disk(source: Callable[..., KernelSource], function: FunctionType) -> Specialization:
    """Defines the kernel and reads it as a new process does."""
    defined = FunctionType(function.__code__, function.__globals__, function.__name__)
    made = source(definition_of(defined))
    return Specializations(made.origin).find(_FLUID_FOR, made.specialize)


def _words(make: Callable[[], Specialization]) -> HostArray:
    return np.frombuffer(make().spirv, np.uint32)


class Bare(Launched):
    """The unit of the host's times: a launch of an elementwise function with `out=`."""

    def __init__(self, runtime: vc.Runtime, work: Workload) -> None:
        super().__init__(runtime, work)
        a, b, out = self._arrays
        self._call = partial(_product, a, b, out=out)
        self._runtime = runtime

    def wait(self) -> None:
        """Waits for the last launch."""
        self._runtime.wait()

    def enqueue(self) -> None:
        """Launches the function."""
        self._call()


class Numbas(Bare):
    """The kernel in Numba's Python."""

    def __init__(self, runtime: vc.Runtime, work: Workload) -> None:
        Launched.__init__(self, runtime, work)
        arrays = [as_device_array(array) for array in self._arrays]
        kernel = _KERNELS[work.shader or "multiply"]
        groups, local = _grid(self._arrays[work.out], work)
        self._call = partial(kernel[groups, local], *arrays, *work.numbers)
        self._runtime = runtime


class Hosts(Blocking):
    """A function of arrays of the host."""

    def __init__(self, function: Callable[..., None], work: Workload) -> None:
        self._function, self._hosts, self._out = function, [array.copy() for array in work.arrays], work.out

    def enqueue(self) -> None:
        """Calls the function, which waits for the results."""
        self._function(*self._hosts)

    def result(self) -> HostArray:
        """Returns the result of a call."""
        self.enqueue()
        return self._hosts[self._out]


def _grid(out: vc.Array, work: Workload) -> tuple[Any, Any]:
    """Returns the blocks and the threads per block: 64 per block, unless the workload says otherwise."""
    return (work.groups, work.local) if work.groups else (-(-out.size // _N), _N)
