"""Programs of textbooks of parallel programming in Numba's Python, compared with NumPy."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest

from vkcompute.compat.numba import complex128, cuda, float64, int32

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]

HALF, N_EQUATIONS, N_POINTS, N_NEAREST = 64, 12, 32, 4


def test_scan_by_up_sweep_and_down_sweep() -> None:
    @cuda.jit
    def scan(x, out, totals):
        part = cuda.shared.array(2 * HALF, float64)
        t, begin = cuda.threadIdx.x, cuda.blockIdx.x * 2 * HALF
        part[2 * t] = x[begin + 2 * t]
        part[2 * t + 1] = x[begin + 2 * t + 1]
        offset, n = 1, HALF
        while n > 0:
            cuda.syncthreads()
            if t < n:
                part[offset * (2 * t + 2) - 1] += part[offset * (2 * t + 1) - 1]
            offset *= 2
            n >>= 1
        if t == 0:
            totals[cuda.blockIdx.x] = part[-1]
            part[-1] = 0
        n = 1
        while n < 2 * HALF:
            offset >>= 1
            cuda.syncthreads()
            if t < n:
                left, right = offset * (2 * t + 1) - 1, offset * (2 * t + 2) - 1
                value = part[left]
                part[left] = part[right]
                part[right] += value
            n *= 2
        cuda.syncthreads()
        out[begin + 2 * t], out[begin + 2 * t + 1] = part[2 * t], part[2 * t + 1]

    x = np.random.default_rng(0).integers(0, 9, 4 * HALF).astype(float)
    out, totals = np.zeros_like(x), np.zeros(2)
    scan[2, HALF](x, out, totals)
    rows = x.reshape(2, -1)
    assert totals.tolist() == rows.sum(1).tolist()
    assert np.array_equal(out.reshape(2, -1), rows.cumsum(1) - rows)


def test_bitonic_sort_by_one_launch_per_step() -> None:
    @cuda.jit
    def step(values, j, k):
        i = cuda.grid(1)
        other = i ^ j
        if other > i and ((i & k) == 0) == (values[i] > values[other]) and values[i] != values[other]:
            values[i], values[other] = values[other], values[i]

    values = np.random.default_rng(1).integers(0, 99, 128)
    on_device = cuda.to_device(values)
    for log_k in range(1, 8):
        for log_j in range(log_k - 1, -1, -1):
            step[4, 32](on_device, 1 << log_j, 1 << log_k)
    assert np.array_equal(on_device.copy_to_host(), np.sort(values))


def test_sparse_product_in_a_loop_over_the_grid() -> None:
    @cuda.jit
    def product(data, columns, starts, x, y):
        for row in range(cuda.grid(1), y.size, cuda.gridsize(1)):
            total = 0.0
            for j in range(starts[row], starts[row + 1]):
                total += data[j] * x[columns[j]]
            y[row] = total

    rng = np.random.default_rng(2)
    matrix = np.where(rng.random((50, 50)) < 0.2, rng.random((50, 50)), 0)
    starts = np.r_[0, np.count_nonzero(matrix, axis=1).cumsum()].astype(np.int32)
    x, y = rng.random(50), np.zeros(50)
    product[2, 8](matrix[matrix != 0], matrix.nonzero()[1].astype(np.int32), starts, x, y)
    np.testing.assert_allclose(y, matrix @ x, rtol=1e-12)


def test_alignment_along_diagonals() -> None:
    @cuda.jit
    def diagonal(one, other, scores, d):
        i = cuda.grid(1) + 1
        j = d - i
        if i < scores.shape[0] and 0 < j < scores.shape[1]:
            match = scores[i - 1, j - 1] + (2 if one[i - 1] == other[j - 1] else -1)
            scores[i, j] = max(match, scores[i - 1, j] - 1, scores[i, j - 1] - 1)

    rng = np.random.default_rng(3)
    one, other = rng.integers(0, 4, 20).astype(np.uint8), rng.integers(0, 4, 25).astype(np.uint8)
    expected = np.zeros((21, 26), np.int32)
    expected[:, 0], expected[0] = -np.arange(21), -np.arange(26)
    scores = cuda.to_device(expected)
    for d in range(2, 46):
        diagonal[1, 32](one, other, scores, d)
    for i in range(1, 21):
        for j in range(1, 26):
            match = expected[i - 1, j - 1] + (2 if one[i - 1] == other[j - 1] else -1)
            expected[i, j] = max(match, expected[i - 1, j] - 1, expected[i, j - 1] - 1)
    assert np.array_equal(scores.copy_to_host(), expected)


def test_tridiagonal_systems_one_per_thread() -> None:
    @cuda.jit
    def solve(below, main, above, right, x):
        k = cuda.grid(1)
        if k >= right.shape[0]:
            return
        c, d = cuda.local.array(N_EQUATIONS, float64), cuda.local.array(N_EQUATIONS, dtype=float64)
        c[0], d[0] = above[k, 0] / main[k, 0], right[k, 0] / main[k, 0]
        for i in range(1, N_EQUATIONS):
            scale = 1 / (main[k, i] - below[k, i] * c[i - 1])
            c[i], d[i] = above[k, i] * scale, (right[k, i] - below[k, i] * d[i - 1]) * scale
        x[k, -1] = d[-1]
        for i in range(N_EQUATIONS - 2, -1, -1):
            x[k, i] = d[i] - c[i] * x[k, i + 1]

    below, main, above, right = np.random.default_rng(4).random((4, 20, N_EQUATIONS))
    main += 3
    x = np.zeros_like(right)
    solve[3, 8](below, main, above, right, x)
    for k in range(20):
        matrix = np.diag(main[k]) + np.diag(below[k, 1:], -1) + np.diag(above[k, :-1], 1)
        np.testing.assert_allclose(matrix @ x[k], right[k], rtol=1e-11)


def test_fourier_transforms_in_shared_memory() -> None:
    @cuda.jit
    def transform(rows):
        part = cuda.shared.array(N_POINTS, complex128)
        t, row = cuda.threadIdx.x, cuda.blockIdx.x
        reversed_bits, rest = 0, t
        for _ in range(5):
            reversed_bits = (reversed_bits << 1) | (rest & 1)
            rest >>= 1
        part[reversed_bits] = rows[row, t]
        cuda.syncthreads()
        m = 2
        while m <= N_POINTS:
            if t % m < m // 2:
                twisted = cmath.exp(-2j * math.pi * (t % m) / m) * part[t + m // 2]
                part[t], part[t + m // 2] = part[t] + twisted, part[t] - twisted
            cuda.syncthreads()
            m *= 2
        rows[row, t] = part[t]

    rng = np.random.default_rng(5)
    rows = rng.random((3, N_POINTS)) + 1j * rng.random((3, N_POINTS))
    expected = np.fft.fft(rows)
    transform[3, N_POINTS](rows)
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-12)


def test_nearest_points_by_insertion() -> None:
    @cuda.jit(device=True)
    def inserted(distances, indices, distance, index):
        at = N_NEAREST - 1
        while at > 0 and distances[at - 1] > distance:
            distances[at], indices[at] = distances[at - 1], indices[at - 1]
            at -= 1
        distances[at], indices[at] = distance, index

    @cuda.jit
    def nearest(queries, points, out):
        i = cuda.grid(1)
        if i < queries.shape[0]:
            distances, indices = cuda.local.array(N_NEAREST, float64), cuda.local.array(N_NEAREST, int32)
            for k in range(N_NEAREST):
                distances[k] = math.inf
            for j in range(points.shape[0]):
                square = 0.0
                for axis in range(points.shape[1]):
                    square += (queries[i, axis] - points[j, axis]) ** 2
                if square < distances[N_NEAREST - 1]:
                    inserted(distances, indices, square, j)
            for k in range(N_NEAREST):
                out[i, k] = indices[k]

    rng = np.random.default_rng(6)
    queries, points, out = rng.random((11, 3)), rng.random((40, 3)), np.zeros((11, N_NEAREST), np.int64)
    nearest[1, 16](queries, points, out)
    squares = ((queries[:, None] - points) ** 2).sum(-1)
    assert np.array_equal(out, squares.argsort(1)[:, :N_NEAREST])


def test_device_functions_take_the_rest_of_their_arguments() -> None:
    @cuda.jit(device=True)
    def total(first, scale=3, *rest: Any):
        value = first * scale
        for number in rest:
            value += number
        return value + 100 * len(rest)

    @cuda.jit(device=True)
    def passed(*numbers: Any):
        return total(*numbers)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[0, i], out[1, i], out[2, i] = total(x[i]), total(x[i], 2, 1.5, i), passed(x[i], 1, 5)

    out = np.zeros((3, 4))
    kernel[1, 4](np.arange(4.0), out)
    expected = [[3 * x for x in range(4)], [2 * x + 1.5 + x + 200 for x in range(4)], [x + 105 for x in range(4)]]
    assert out.tolist() == expected
