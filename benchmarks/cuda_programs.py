"""Programs of Numba CUDA and of CuPy, beside vkcompute's interfaces of the same names on the same GPU.

    python benchmarks/cuda_programs.py [--size 4194304] [--rounds 15] [--json FILE]

One source serves both: only the import differs. Without `numba.cuda`, CuPy or a GPU that they see, only ours run. Every
result is compared with NumPy's. Samples are taken in turns; a ratio is the median of theirs over ours, goal 0.8.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vkcompute as vc

_TILE, _BINS, _GOAL = 16, 256, 0.8
_LAUNCHES = 5
HostArray = np.ndarray[Any, Any]


class Program(NamedTuple):
    """A program for one interface.

    Attributes:
        run: enqueues the work on arrays of the device, and returns that with the result.
        inputs: of the host.
        expected: the result by NumPy.
    """

    run: Callable[..., Any]
    inputs: Sequence[HostArray]
    expected: HostArray


class Inputs:
    """Data of all programs, and the results by NumPy.

    Args:
        size: the number of elements; products of matrices and bodies take fewer.
    """

    def __init__(self, size: int) -> None:
        draw = np.random.default_rng(0)
        self.x, self.y = (draw.random(size, np.float32) for _ in range(2))
        self.side = max(_TILE, int(math.sqrt(size) / 4) // _TILE * _TILE)
        self.a, self.b = (draw.random((self.side, self.side), np.float32) for _ in range(2))
        self.bodies = draw.random((max(64, self.side), 3), np.float32)
        self.plane = draw.random((4 * self.side, 4 * self.side), np.float32)
        self.levels = draw.integers(0, _BINS, size).astype(np.int32)

    def prices(self) -> HostArray:
        """Returns prices of calls by Black and Scholes, as the approximation by tanh gives them."""
        spread = np.log(self.x + 1) - np.log(self.y + 1)
        cdf = [0.5 * (1 + np.tanh(0.8 * (spread + sign * 0.1))) for sign in (1, -1)]
        prices: HostArray = (self.x + 1) * cdf[0] - (self.y + 1) * cdf[1]
        return prices

    def forces(self) -> HostArray:
        """Returns the accelerations of bodies of one mass."""
        away = self.bodies[None] - self.bodies[:, None]
        forces: HostArray = (away / ((away**2).sum(-1, keepdims=True) + 0.01) ** 1.5).sum(1)
        return forces

    def smoothed(self) -> HostArray:
        """Returns the plane with the mean of four neighbours in its interior."""
        p, out = self.plane, self.plane.copy()
        out[1:-1, 1:-1] = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) * np.float32(0.25)
        return out


# -- programs of Numba -------------------------------------------------------------------------------------------------


def of_numba(numba: Any, data: Inputs) -> Iterator[tuple[str, Program]]:
    """Yields the programs for `numba`, Numba itself or ours."""
    for kind in (_maps, _tiles, _sums):
        yield from kind(numba.cuda, numba.float32, data)


def _maps(cuda: Any, float32: Any, data: Inputs) -> Iterator[tuple[str, Program]]:
    """Yields programs with one thread per element."""
    zero, tenth, one, half, slope = map(float32, (0, 0.1, 1, 0.5, 0.8))

    @cuda.jit(fastmath=True)
    def add(x, y, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    @cuda.jit(fastmath=True)
    def price(x, y, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        i = cuda.grid(1)
        if i < out.size:
            s, k = x[i] + one, y[i] + one
            spread = math.log(s) - math.log(k)
            out[i] = s * half * (one + math.tanh(slope * (spread + tenth))) - k * half * (
                one + math.tanh(slope * (spread - tenth))
            )

    @cuda.jit(fastmath=True)
    def smooth(plane, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        j, i = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            value = plane[i, j]
            if 0 < i < out.shape[0] - 1 and 0 < j < out.shape[1] - 1:
                value = (plane[i - 1, j] + plane[i + 1, j] + plane[i, j - 1] + plane[i, j + 1]) * float32(0.25)
            out[i, j] = value + zero

    flat = (data.x.size + 255) // 256, 256
    grid = ((data.plane.shape[1] + 15) // 16, (data.plane.shape[0] + 15) // 16), (16, 16)
    yield "vector sum", _launching(add, flat, (data.x, data.y), data.x + data.y, cuda)
    yield "Black-Scholes", _launching(price, flat, (data.x, data.y), data.prices(), cuda)
    yield "stencil", _launching(smooth, grid, (data.plane,), data.smoothed(), cuda)


def _tiles(cuda: Any, float32: Any, data: Inputs) -> Iterator[tuple[str, Program]]:
    """Yields programs whose blocks share tiles."""
    zero, soft, n_threads = float32(0), float32(0.01), 64

    @cuda.jit(fastmath=True)
    def multiply(a, b, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        left, right = cuda.shared.array((_TILE, _TILE), float32), cuda.shared.array((_TILE, _TILE), float32)
        j, i = cuda.grid(2)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        total = zero
        for k in range(0, a.shape[1], _TILE):
            left[y, x], right[y, x] = a[i, k + x], b[k + y, j]
            cuda.syncthreads()
            for n in range(_TILE):
                total += left[y, n] * right[n, x]
            cuda.syncthreads()
        out[i, j] = total

    @cuda.jit(fastmath=True)
    def attract(bodies, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        i = cuda.grid(1)
        if i < out.shape[0]:
            fx, fy, fz = zero, zero, zero
            for j in range(bodies.shape[0]):
                x, y, z = bodies[j, 0] - bodies[i, 0], bodies[j, 1] - bodies[i, 1], bodies[j, 2] - bodies[i, 2]
                square = x * x + y * y + z * z + soft
                weight = float32(1) / (square * math.sqrt(square))
                fx, fy, fz = fx + x * weight, fy + y * weight, fz + z * weight
            out[i, 0], out[i, 1], out[i, 2] = fx, fy, fz

    blocks = data.side // _TILE
    grid = (blocks, blocks), (_TILE, _TILE)
    flat = (len(data.bodies) + n_threads - 1) // n_threads, n_threads
    yield "tiled product", _launching(multiply, grid, (data.a, data.b), data.a @ data.b, cuda)
    yield "n-body", _launching(attract, flat, (data.bodies,), data.forces(), cuda)


def _sums(cuda: Any, float32: Any, data: Inputs) -> Iterator[tuple[str, Program]]:
    """Yields programs whose blocks add to one result."""

    @cuda.jit(fastmath=True)
    def add_all(x, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        part, here = cuda.shared.array(256, float32), cuda.threadIdx.x
        total = float32(0)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            total += x[i]
        part[here] = total
        cuda.syncthreads()
        step = 128
        while step > 0:
            if here < step:
                part[here] += part[here + step]
            cuda.syncthreads()
            step //= 2
        if here == 0:
            out[cuda.blockIdx.x] = part[0]

    @cuda.jit
    def count(levels, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        part, here = cuda.shared.array(_BINS, np.int32), cuda.threadIdx.x
        part[here] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), levels.size, cuda.gridsize(1)):
            cuda.atomic.add(part, levels[i], 1)
        cuda.syncthreads()
        out[cuda.blockIdx.x, here] = part[here]

    blocks = 128
    sums = np.zeros(blocks, np.float32)
    counts = np.zeros((blocks, _BINS), np.int32)
    total, bins = data.x.sum(dtype=np.float64), np.bincount(data.levels, minlength=_BINS)
    yield "reduction", _launching(add_all, (blocks, 256), (data.x,), total, cuda, out=sums)
    yield "histogram", _launching(count, (blocks, _BINS), (data.levels,), bins, cuda, out=counts)


def _launching(
    kernel: Any, grid: Any, inputs: Sequence[HostArray], expected: Any, cuda: Any, *, out: HostArray | None = None
) -> Program:
    """Returns the program that launches a kernel; the rows of `out` are added on the host."""
    result = cuda.to_device(np.zeros_like(expected, np.float32) if out is None else out)

    def run(*arrays: Any) -> Any:
        kernel[grid](*arrays, result)
        return result

    return Program(run, inputs, np.asarray(expected))


# -- programs of CuPy --------------------------------------------------------------------------------------------------


def of_cupy(cp: Any, data: Inputs) -> Iterator[tuple[str, Program]]:
    """Yields the programs for `cp`, CuPy itself or ours."""

    def price(x: Any, y: Any) -> Any:
        spread = cp.log(x + 1) - cp.log(y + 1)
        return (x + 1) * (0.5 * (1 + cp.tanh(0.8 * (spread + 0.1)))) - (y + 1) * (
            0.5 * (1 + cp.tanh(0.8 * (spread - 0.1)))
        )

    def attract(bodies: Any) -> Any:
        away = bodies[None] - bodies[:, None]
        return (away / ((away**2).sum(-1, keepdims=True) + 0.01) ** 1.5).sum(1)

    def smooth(p: Any) -> Any:
        out = p.copy()
        out[1:-1, 1:-1] = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) * np.float32(0.25)
        return out

    pair = data.x, data.y
    yield "vector sum", Program(lambda x, y: x + y, pair, data.x + data.y)
    yield "reduction", Program(lambda x: x.sum(), (data.x,), data.x.sum(dtype=np.float64))
    yield "product", Program(lambda a, b: a @ b, (data.a, data.b), data.a @ data.b)
    yield "n-body", Program(attract, (data.bodies,), data.forces())
    yield "Black-Scholes", Program(price, pair, data.prices())
    yield "stencil", Program(smooth, (data.plane,), data.smoothed())
    bins = np.bincount(data.levels, minlength=_BINS)
    yield "histogram", Program(lambda x: cp.bincount(x, minlength=_BINS), (data.levels,), bins)


# -- measurement -------------------------------------------------------------------------------------------------------


class Interface(NamedTuple):
    """An interface: its programs, its arrays from the host and back, and its wait."""

    programs: dict[str, Program]
    upload: Callable[[HostArray], Any]
    download: Callable[[Any], HostArray]
    wait: Callable[[], Any]


def numba_interface(numba: Any, data: Inputs) -> Interface:
    """Returns the interface of Numba or of ours."""
    cuda = numba.cuda
    return Interface(dict(of_numba(numba, data)), cuda.to_device, lambda x: x.copy_to_host(), cuda.synchronize)


def cupy_interface(cp: Any, data: Inputs) -> Interface:
    """Returns the interface of CuPy or of ours."""
    wait = cp.cuda.Stream.null.synchronize
    return Interface(dict(of_cupy(cp, data)), cp.asarray, cp.asnumpy, wait)


def theirs(name: str) -> Any:
    """Returns Numba or CuPy with a GPU of CUDA; None without."""
    try:
        module = importlib.import_module(name)
        importlib.import_module("numba.cuda" if name == "numba" else "cupy")
        has_gpu = module.cuda.is_available()
    except Exception:  # no driver, no library: any of their errors
        return None
    return module if has_gpu else None


def check(name: str, interface: Interface) -> Callable[[], float]:
    """Compares a program's result with NumPy's, and returns what measures the seconds of a run.

    Raises:
        AssertionError: the result is wrong.
    """
    program = interface.programs[name]
    arrays = [interface.upload(array) for array in program.inputs]
    result = interface.download(program.run(*arrays))
    if result.ndim > program.expected.ndim:
        result = result.sum(0, dtype=np.float64)
    np.testing.assert_allclose(result, program.expected, rtol=2e-3, atol=2e-3)

    def measure() -> float:
        begun = time.perf_counter()
        kept = [program.run(*arrays) for _ in range(_LAUNCHES)]  # an expression that nobody holds is not computed
        interface.wait()
        del kept
        return (time.perf_counter() - begun) / _LAUNCHES

    measure()
    return measure


def rows(ours: Interface, other: Interface | None, rounds: int) -> Iterator[tuple[str, float, float | None]]:
    """Yields for each program its seconds, and the median of theirs over ours."""
    for name in ours.programs:
        measures = [check(name, interface) for interface in (ours, other) if interface is not None]
        samples = [[measure() for measure in measures] for _ in range(rounds)]
        seconds = statistics.median(sample[0] for sample in samples)
        yield name, seconds, None if other is None else statistics.median(b / a for a, b in samples)


def main() -> None:
    """Measures all programs, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1 << 22, help="of vectors")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data, table = Inputs(options.size), []
    print(f"{vc.default_runtime().device.name}, {options.size:,} elements")
    for name, ours_name, make in (
        ("numba", "vkcompute.compat.numba", numba_interface), ("cupy", "vkcompute.compat.cupy", cupy_interface),
    ):  # fmt: skip
        module = theirs(name)
        other = None if module is None else make(module, data)
        if other is None:
            print(f"{name} sees no GPU of CUDA here: no ratios")
        for program, seconds, ratio in rows(make(importlib.import_module(ours_name), data), other, options.rounds):
            shown = "" if ratio is None else f"{ratio:8.2f} {'reached' if ratio >= _GOAL else 'missed'} {_GOAL}"
            print(f"  {name:6} {program:16} {seconds * 1e3:10.3f} ms {shown}", flush=True)
            table.append({"interface": name, "program": program, "seconds": seconds, "theirs_over_ours": ratio})
    if options.json:
        options.json.write_text(json.dumps({"device": vc.default_runtime().device.name, "rows": table}, indent=1))


if __name__ == "__main__":
    main()
