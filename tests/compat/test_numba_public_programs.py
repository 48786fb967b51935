"""More kernels in the shapes of public programs for Numba CUDA: closures, strides, locks, hashes, gufuncs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, float32, float64, guvectorize, int32, njit, uint32, uint64, vectorize, void

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]
RNG = np.random.default_rng(8)
MOST_AXES = 4


@cuda.jit(device=True)
def to_index(ordinal, shape, index):
    rest = ordinal + 0
    for axis in range(len(shape) - 1, -1, -1):
        index[axis] = int(rest % shape[axis])
        rest = rest // shape[axis]


@cuda.jit(device=True)
def position_of(index, strides):
    position = 0
    for one, step in zip(index, strides):  # noqa: B905
        position += one * step
    return position


def mapped(function: Callable[..., Any]) -> Any:
    """Returns a kernel that maps a function over a strided array that is broadcast, as libraries of tensors have it."""

    def kernel(out, out_shape, out_strides, size, x, shape, strides):
        out_index, index = cuda.local.array(MOST_AXES, int32), cuda.local.array(MOST_AXES, int32)
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if i < size:
            to_index(i, out_shape, out_index)
            for axis in range(len(shape)):
                index[axis] = out_index[axis + len(out_shape) - len(shape)] if shape[axis] > 1 else 0
            out[position_of(out_index, out_strides)] = function(x[position_of(index, strides)])

    return cuda.jit()(kernel)


def test_map_of_a_strided_tensor() -> None:
    for function in (cuda.jit(device=True)(lambda x: 2.0 * x + 1), njit(lambda x: x * x)):
        x, out = RNG.random(4), np.zeros((3, 4))
        shapes = [np.array(shape, np.int32) for shape in ((3, 4), (4, 1), (1, 4), (0, 1))]
        mapped(function)[1, 32](out.ravel(), shapes[0], shapes[1], 12, x, shapes[2], shapes[3])
        host = getattr(function, "py_func", function)
        np.testing.assert_allclose(out, np.tile([host(value) for value in x], (3, 1)))


class Lattice:
    """Weights and directions of a lattice, whose kernels are built around them."""

    def __init__(self) -> None:
        self.weights = np.array([4 / 9, *[1 / 9] * 4, *[1 / 36] * 4], np.float32)
        around = [[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]]
        self.directions, self.n = np.array(around, np.float32), np.int32(9)

    def relaxation(self) -> Any:
        """Returns the kernel that moves populations towards their equilibrium."""
        weights, directions, n, three = self.weights, self.directions, self.n, np.float32(3)

        @cuda.jit(device=True)
        def equilibrium(density, velocity, out):
            square = velocity[0] * velocity[0] + velocity[1] * velocity[1]
            for i in range(n):
                along = directions[i, 0] * velocity[0] + directions[i, 1] * velocity[1]
                out[i] = (
                    weights[i]
                    * density
                    * (1 + three * along + np.float32(4.5) * along * along - np.float32(1.5) * square)
                )

        @cuda.jit
        def relax(populations, rate):
            cell = cuda.grid(1)
            if cell >= populations.shape[0]:
                return
            velocity, wanted = cuda.local.array(2, np.float32), cuda.local.array(9, np.float32)
            density = np.float32(0)
            velocity[0] = velocity[1] = 0
            for i in range(n):
                density += populations[cell, i]
                for axis in range(2):
                    velocity[axis] += directions[i, axis] * populations[cell, i]
            for axis in range(2):
                velocity[axis] /= density
            equilibrium(density, velocity, wanted)
            for i in range(n):
                populations[cell, i] += rate * (wanted[i] - populations[cell, i])

        return relax


def test_lattice_boltzmann() -> None:
    lattice = Lattice()
    f = (0.1 + RNG.random((40, 9))).astype(np.float32)
    density = f.sum(1, keepdims=True)
    velocity = f @ lattice.directions / density
    along = velocity @ lattice.directions.T
    square = (velocity**2).sum(1, keepdims=True)
    wanted = lattice.weights * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * square)
    expected = f + np.float32(0.6) * (wanted - f)
    lattice.relaxation()[2, 32](f, np.float32(0.6))
    np.testing.assert_allclose(f, expected, rtol=2e-5)


def test_cells_take_particles_by_compare_and_swap() -> None:
    @cuda.jit
    def insert(cells, positions):
        i = cuda.grid(1)
        if i < positions.size:
            cell = int(positions[i])
            for slot in range(cells.shape[1]):
                if cuda.atomic.compare_and_swap(cells[cell, slot:], -1, i) == -1:
                    break

    positions = RNG.random(60) * 5
    cells = np.full((5, 32), -1, np.int32)
    insert[2, 32](cells, positions)
    for cell, members in enumerate(cells):
        assert sorted(members[members >= 0]) == np.flatnonzero(positions.astype(int) == cell).tolist()


def test_a_lock_guards_the_best_solution() -> None:
    @cuda.jit
    def search(lock, best, where, values):
        i = cuda.grid(1)
        waits = i < values.size and values[i] > best[0]
        while waits:
            if cuda.atomic.compare_and_swap(lock, 0, 1) == 0:
                cuda.threadfence()
                if values[i] > best[0]:
                    best[0] = values[i]
                    where[0] = i
                cuda.threadfence()
                cuda.atomic.exch(lock, 0, 0)
                waits = False

    values = RNG.random(100).astype(np.float32)
    best, where = np.zeros(1, np.float32), np.zeros(1, np.int64)
    search[1, 128](np.zeros(1, np.int32), best, where, values)
    assert (best[0], where[0]) == (values.max(), values.argmax())


def test_two_types_in_memory_whose_size_the_launch_gives() -> None:
    @cuda.jit
    def weighed(x, order, out, n):
        values = cuda.shared.array(shape=0, dtype=float32)[:n]
        indices = cuda.shared.array(shape=0, dtype=int32)[n : 2 * n]
        thread = cuda.threadIdx.x
        values[thread], indices[thread] = x[thread], order[thread]
        cuda.syncthreads()
        out[thread] = values[indices[thread]] + indices[n - 1 - thread]

    x, order, out = RNG.random(32, np.float32), RNG.permutation(32).astype(np.int32), np.zeros(32, np.float32)
    weighed[1, 32, 0, 32 * 8](x, order, out, 32)
    np.testing.assert_allclose(out, x[order] + order[::-1], rtol=1e-6)


def test_hashes_wrap() -> None:
    factor = 0xBF58476D1CE4E5B9

    @cuda.jit(device=True, inline=True)
    def mixed(z):
        z = uint64(z)
        z ^= z >> uint64(30)
        z = uint64(z * uint64(factor))
        z ^= z >> uint64(27)
        return z

    @cuda.jit(device=True)
    def rotated(x, count):
        return uint32((x << count) | (x >> (32 - count)))

    @cuda.jit
    def hashes(long, short):
        i = cuda.grid(1)
        long[i] = mixed(i + 12345)
        word = uint32(0x67452301)
        for _ in range(i):
            word = rotated(uint32(word + 0xD76AA478), uint32(7))
        short[i] = word

    long, short = np.zeros(8, np.uint64), np.zeros(8, np.uint32)
    hashes[1, 8](long, short)
    word = 0x67452301
    for i in range(8):
        z = (i + 12345) ^ (i + 12345) >> 30
        z = z * factor & (1 << 64) - 1
        assert long[i] == z ^ z >> 27
        assert short[i] == word
        word = word + 0xD76AA478 & 0xFFFFFFFF
        word = (word << 7 | word >> 25) & 0xFFFFFFFF


def test_vectors_as_tuples() -> None:
    @cuda.jit(device=True, inline=True)
    def difference(a, b):
        return (a[0] - b[0], a[1] - b[1], a[2] - b[2])

    @cuda.jit(device=True, inline=True)
    def scaled(v, factor):
        return (v[0] * factor, v[1] * factor, v[2] * factor)

    @cuda.jit
    def directions(p, q, out):
        i = cuda.grid(1)
        if i < p.shape[0]:
            d = difference(p[i], (q[i, 0], q[i, 1], q[i, 2]))
            d = scaled(d, 1.0 / math.sqrt(d[0] ** 2 + d[1] ** 2 + d[2] ** 2))
            out[i, 0], out[i, 1], out[i, 2] = d

    p, q, out = RNG.random((5, 3)), RNG.random((5, 3)), np.zeros((5, 3))
    directions[1, 32](p, q, out)
    np.testing.assert_allclose(out, (p - q) / np.linalg.norm(p - q, axis=1)[:, None])


def test_filters_in_sections() -> None:
    """The cascade of cuSignal: a signature of types, a function for its kernel, views of dynamic shared memory."""

    def cascade(x, states, numerators, denominators):
        sections = numerators.shape[0]
        memory = cuda.shared.array(shape=0, dtype=float64)
        passed = memory[:sections]
        section = cuda.grid(1)
        passed[section] = 0
        cuda.syncthreads()
        for n in range(x.size + sections - 1):
            taken = x[n] if section == 0 and n < x.size else passed[section - 1] if section else 0.0
            result = numerators[section, 0] * taken + states[section]
            states[section] = numerators[section, 1] * taken - denominators[section] * result
            cuda.syncthreads()
            passed[section] = result
            cuda.syncthreads()
            at = n - sections + 1
            if section == sections - 1 and at >= 0:
                x[at] = result

    kernel = cuda.jit(void(float64[:], float64[:], float64[:, :], float64[:]), fastmath=True)(cascade)
    signal, b, a = RNG.random(12), RNG.random((3, 2)), RNG.random(3)
    expected = signal.copy()
    for section in range(3):
        state = 0.0
        for n, value in enumerate(expected):
            expected[n] = b[section, 0] * value + state
            state = b[section, 1] * value - a[section] * expected[n]
    kernel[1, 3, 0, 24](signal, np.zeros(3), b, a)
    np.testing.assert_allclose(signal, expected, rtol=1e-12)


def test_generalized_functions() -> None:
    @guvectorize([(float64[:, :], float64[:, :], float64[:, :])], "(m,n),(n,p)->(m,p)", target="cuda")
    def product(a, b, out):
        m, n = a.shape
        n, p = b.shape
        for i in range(m):
            for j in range(p):
                out[i, j] = 0
                for k in range(n):
                    out[i, j] += a[i, k] * b[k, j]

    @guvectorize(["void(float32[:], float32[:])"], "(n)->(n)", target="cuda")
    def powers(x, out):
        total = 0.0
        power = x[0]
        for i in range(out.shape[0]):
            total += power
            out[i] = total
            power *= x[0]

    @vectorize(["uint16(uint8, uint8, uint16)"], target="cuda")
    def calibrated(image, dark, gain):
        return (image - dark) * gain

    a, b = RNG.random((6, 2, 3)), RNG.random((6, 3, 4))
    np.testing.assert_allclose(product(a, b), a @ b)
    x = np.zeros((5, 4), np.float32)
    x[:, 0] = np.arange(5)
    expected = np.cumsum(np.arange(5)[:, None] ** np.arange(1, 5), 1)
    np.testing.assert_allclose(powers(cuda.to_device(x)).copy_to_host(), expected)
    image = np.arange(5, dtype=np.uint8)
    result = calibrated(image + 5, image, np.full(5, 3, np.uint16))
    assert (result.dtype, result.tolist()) == (np.uint16, [15] * 5)


def test_sum_of_20_million() -> None:
    values = RNG.random(20_000_000)
    total = cuda.reduce(lambda a, b: a + b)
    assert abs(total(cuda.to_device(values)) - values.sum()) < 1e-5
