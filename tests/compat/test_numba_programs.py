"""Numba's documented examples, in its language: only the import is another one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, float32, float64, guvectorize, int32, vectorize
from vkcompute.compat.numba.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_normal_float32,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]
TILE = 8


def test_increment() -> None:
    @cuda.jit
    def increment(values):
        position = cuda.grid(1)
        if position < values.size:
            values[position] += 1

    values = np.arange(1000.0)
    increment[8, 128](values)
    assert np.array_equal(values, np.arange(1000) + 1)


def test_tiled_product() -> None:
    @cuda.jit
    def product(a, b, c):
        tile_a = cuda.shared.array(shape=(TILE, TILE), dtype=float32)
        tile_b = cuda.shared.array(shape=(TILE, TILE), dtype=float32)
        x, y = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0.0)
        for k in range(cuda.gridDim.x):
            tile_a[ty, tx] = a[y, tx + k * TILE] if y < a.shape[0] and tx + k * TILE < a.shape[1] else 0
            tile_b[ty, tx] = b[ty + k * TILE, x] if x < b.shape[1] and ty + k * TILE < b.shape[0] else 0
            cuda.syncthreads()
            for j in range(TILE):
                total += tile_a[ty, j] * tile_b[j, tx]
            cuda.syncthreads()
        if y < c.shape[0] and x < c.shape[1]:
            c[y, x] = total

    rng = np.random.default_rng(0)
    a, b = rng.random((20, 19), np.float32), rng.random((19, 21), np.float32)
    c = cuda.device_array((20, 21), np.float32)
    product[(3, 3), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=1e-5)


def test_reduction() -> None:
    total = cuda.reduce(lambda a, b: a + b)
    largest = cuda.reduce(lambda a, b: a if a > b else b)
    values = np.arange(70_001, dtype=np.float64)
    assert total(values) == values.sum()
    assert total(values, init=5) == values.sum() + 5
    assert total(values[:0], init=3) == 3
    assert largest(np.array([3, -7, 5], np.int32), init=-100) == 5
    result = cuda.device_array(1, np.float64)
    assert total(cuda.to_device(values), res=result) is None
    assert result[0] == values.sum()


def test_mandelbrot() -> None:
    @cuda.jit(device=True)
    def escape(x, y, most):
        c = complex(x, y)
        z = 0.0j
        for i in range(most):
            z = z * z + c
            if (z.real * z.real + z.imag * z.imag) >= 4:
                return i
        return most

    @cuda.jit
    def image(low_x, high_x, low_y, high_y, out, most):
        height, width = out.shape
        start_x, start_y = cuda.grid(2)
        step_x, step_y = cuda.gridDim.x * cuda.blockDim.x, cuda.gridDim.y * cuda.blockDim.y
        for x in range(start_x, width, step_x):
            for y in range(start_y, height, step_y):
                out[y, x] = escape(low_x + x * (high_x - low_x) / width, low_y + y * (high_y - low_y) / height, most)

    out = np.zeros((12, 16), np.uint8)
    image[(2, 1), (4, 4)](-2.0, 1.0, -1.0, 1.0, out, 20)
    expected = np.zeros_like(out)
    for y in range(12):
        for x in range(16):
            c, z, n = complex(-2 + x * 3 / 16, -1 + y * 2 / 12), 0j, 20
            for i in range(20):
                z = z * z + c
                if abs(z) ** 2 >= 4:
                    n = i
                    break
            expected[y, x] = n
    assert np.array_equal(out, expected)


def test_bodies() -> None:
    @cuda.jit
    def forces(positions, out):
        i = cuda.grid(1)
        if i >= positions.shape[0]:
            return
        x = y = 0.0
        for j in range(positions.shape[0]):
            dx, dy = positions[j, 0] - positions[i, 0], positions[j, 1] - positions[i, 1]
            inverse = 1 / math.sqrt(dx**2 + dy**2 + 0.01) ** 3
            x += dx * inverse
            y += dy * inverse
        out[i, 0], out[i, 1] = x, y

    positions = np.random.default_rng(1).random((50, 2))
    out = np.zeros_like(positions)
    forces[1, 64](positions, out)
    d = positions[None] - positions[:, None]
    expected = (d / ((d**2).sum(2) + 0.01)[..., None] ** 1.5).sum(1)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_life() -> None:
    @cuda.jit("void(uint8[:,:], uint8[:,:])")
    def step(world, out):
        x, y = cuda.grid(2)
        if x < world.shape[0] and y < world.shape[1]:
            n = 0
            for dx in range(-1, 2):
                for dy in range(-1, 2):
                    if dx or dy:
                        n += world[(x + dx) % world.shape[0], (y + dy) % world.shape[1]]
            out[x, y] = n == 3 or (n == 2 and world[x, y] == 1)

    world = np.random.default_rng(2).integers(0, 2, (20, 30), np.uint8)
    out = np.zeros_like(world)
    step[(5, 8), (4, 4)](world, out)
    shifts = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]
    n = sum(np.roll(world, shift, (0, 1)) for shift in shifts)
    assert np.array_equal(out, (n == 3) | ((n == 2) & (world == 1)))


def test_numbers_of_xoroshiro_are_numbas() -> None:
    @cuda.jit
    def draw(states, uniform, normal):
        i = cuda.grid(1)
        uniform[i] = xoroshiro128p_uniform_float64(states, i)
        normal[i] = xoroshiro128p_normal_float32(states, i)

    states = create_xoroshiro128p_states(4, seed=7)
    uniform, normal = np.zeros(4), np.zeros(4, np.float32)
    draw[1, 4](states, uniform, normal)
    # By Numba 0.68.1's simulator.
    np.testing.assert_array_equal(uniform, UNIFORM)
    np.testing.assert_allclose(normal, NORMAL, rtol=1e-6)


def test_monte_carlo() -> None:
    """Points in a quarter of a disk, of which each thread counts its own: as many as by the numbers of its state."""

    @cuda.jit
    def hits(states, draws, out, total):
        i = cuda.grid(1)
        if i < out.size:
            inside = 0
            for _ in range(draws):
                x = xoroshiro128p_uniform_float32(states, i)
                y = xoroshiro128p_uniform_float32(states, i)
                if x * x + y * y <= float32(1):
                    inside += 1
            out[i] = inside
            cuda.atomic.add(total, 0, inside)

    n_threads, draws = 70, 200
    states = create_xoroshiro128p_states(n_threads, seed=11)
    before = states.copy_to_host()
    out, total = np.zeros(n_threads, np.int32), np.zeros(1, np.int32)
    hits[3, 32](states, draws, out, total)
    assert out.tolist() == [disk_hits(int(state["s0"]), int(state["s1"]), draws) for state in before]
    assert total[0] == out.sum()
    assert abs(4 * total[0] / (n_threads * draws) - math.pi) < 0.05
    after = out.copy()
    hits[3, 32](states, draws, out, total)  # the states have gone on
    assert out.tolist() != after.tolist()


def disk_hits(s0: int, s1: int, draws: int) -> int:
    """Counts points by xoroshiro128+ (Blackman and Vigna 2018), with the rotations of its first version."""
    mask, numbers = 2**64 - 1, []

    def rotated(x: int, n: int) -> int:
        return ((x << n) | (x >> (64 - n))) & mask

    for _ in range(2 * draws):
        numbers.append(np.float32(((s0 + s1 & mask) >> 11) * 2.0**-53))
        s1 ^= s0
        s0, s1 = rotated(s0, 55) ^ s1 ^ (s1 << 14 & mask), rotated(s1, 36)
    return sum(x * x + y * y <= 1 for x, y in zip(numbers[::2], numbers[1::2], strict=True))


def test_elements_of_arrays() -> None:
    @vectorize([int32(int32, int32), float64(float64, float64)], target="cuda")
    def combined(x, y):
        return x * y if x > y else x + y

    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.array_equal(combined(x, np.int32(2)), np.where(x > 2, x * 2, x + 2))
    assert combined(x, np.int32(2)).dtype == np.int32
    device = combined(cuda.to_device(x.astype(float)), np.array([1.0, 2.0, 3.0]))
    row = np.array([1.0, 2.0, 3.0])
    assert np.array_equal(device.copy_to_host(), np.where(x > row, x * row, x + row))


def test_functions_of_elements_are_not_confused() -> None:
    """They are called by kernels of one text, which the disk cache keeps by the functions, too."""
    sums = vectorize([float64(float64, float64)])(lambda x, y: x + y)
    products = vectorize([float64(float64, float64)])(lambda x, y: x * y)
    assert sums(3.0, 4.0) == 7
    assert products(3.0, 4.0) == 12


def test_parts_of_arrays() -> None:
    @guvectorize(["void(float32[:,:], float32[:], float32[:])"], "(m,n),(n)->(m)", target="cuda")
    def product(a, x, out):
        for i in range(a.shape[0]):
            total = 0.0
            for j in range(a.shape[1]):
                total += a[i, j] * x[j]
            out[i] = total

    rng = np.random.default_rng(3)
    a, x = rng.random((5, 2, 4), np.float32), rng.random(4, np.float32)
    np.testing.assert_allclose(product(a, x), a @ x, rtol=1e-6)


UNIFORM = [0.7796594967825431, 0.0963148077114454, 0.9711313745283475, 0.5329803733455711]
NORMAL = [0.11317182332277298, 0.1672605276107788, -0.37813588976860046, 1.1943368911743164]


def test_vectorize_without_signatures_takes_the_types_of_the_arguments() -> None:
    @vectorize
    def f(x, y):
        return x * y if x > 0 else y

    x = np.array([-1, 2, 2**31 - 1], np.int32)
    for y in (np.int32(7), np.float32([1.5, 2, 3]), 0.5):
        expected = np.where(x > 0, x.astype(np.int64) * y, y)
        assert np.array_equal(f(x, y), expected)
    assert f(x, np.int32(7)).dtype == np.int64
    assert f(np.float32(2), np.float32(3)).dtype == np.float32

    roots = vectorize(target="cuda")(lambda z: z * 1j)
    assert roots(np.complex64([1, 2j])).tolist() == [1j, -2]
