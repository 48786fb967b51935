"""Kernels in the shapes of public programs for Numba CUDA, which run as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, float32, float64, int32, uint32
from vkcompute.compat.numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]
THREADS, RADIUS, BINS = 64, 3, 16
WEIGHTS = np.array([1, 3, 5, 7, 5, 3, 1], np.float32)
RNG = np.random.default_rng(5)


def test_monte_carlo() -> None:
    @cuda.jit
    def estimate(states, n, out):
        thread = cuda.grid(1)
        inside = 0
        for _ in range(n):
            x = xoroshiro128p_uniform_float32(states, thread)
            y = xoroshiro128p_uniform_float32(states, thread)
            if x**2 + y**2 <= 1.0:
                inside += 1
        out[thread] = 4.0 * inside / n

    out = np.zeros(128, np.float32)
    estimate[2, 64](create_xoroshiro128p_states(128, seed=1), 500, out)
    assert abs(out.mean() - math.pi) < 0.03


def test_heat_in_two_buffers() -> None:
    @cuda.jit("void(float64[:, ::1], float64[:, ::1], float64)")
    def step(old, new, rate):
        i, j = cuda.grid(2)
        n, m = old.shape
        if 0 < i < n - 1 and 0 < j < m - 1:
            new[i, j] = old[i, j] + rate * (
                old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1] - 4 * old[i, j]
            )
        elif i < n and j < m:
            new[i, j] = old[i, j]

    host = np.zeros((12, 10))
    host[0, :] = 100
    a, b = cuda.to_device(host), cuda.device_array_like(host)
    for _ in range(10):
        step[(2, 2), (8, 8)](a, b, 0.2)
        a, b = b, a
        inner = host[1:-1, 1:-1]
        around = host[:-2, 1:-1] + host[2:, 1:-1] + host[1:-1, :-2] + host[1:-1, 2:]
        host[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
    np.testing.assert_allclose(a.copy_to_host(), host, rtol=1e-12)


def test_histogram_in_shared_memory() -> None:
    @cuda.jit
    def count(values, low, high, out):
        bins = cuda.shared.array(BINS, int32)
        start, stride = cuda.grid(1), cuda.gridsize(1)
        if cuda.threadIdx.x < BINS:
            bins[cuda.threadIdx.x] = 0
        cuda.syncthreads()
        width = (high - low) / out.shape[0]
        for i in range(start, values.shape[0], stride):
            k = int((values[i] - low) / width)
            if 0 <= k < out.shape[0]:
                cuda.atomic.add(bins, k, 1)
        cuda.syncthreads()
        if cuda.threadIdx.x < BINS:
            cuda.atomic.add(out, cuda.threadIdx.x, bins[cuda.threadIdx.x])

    values, out = RNG.random(1000, np.float32), np.zeros(BINS, np.int32)
    count[4, THREADS](values, np.float32(0), np.float32(1), out)
    assert np.array_equal(out, np.histogram(values, BINS, (0, 1))[0])


def test_convolution_with_a_halo() -> None:
    @cuda.jit
    def convolve(x, out):
        weights = cuda.const.array_like(WEIGHTS)
        tile = cuda.shared.array(THREADS + 2 * RADIUS, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        tile[t + RADIUS] = x[i] if i < x.size else 0
        if t < RADIUS:
            tile[t] = x[i - RADIUS] if i >= RADIUS else 0
            right = i + cuda.blockDim.x
            tile[t + cuda.blockDim.x + RADIUS] = x[right] if right < x.size else 0
        cuda.syncthreads()
        if i < out.size:
            total = float32(0)
            for k in range(-RADIUS, RADIUS + 1):
                total += weights[RADIUS + k] * tile[t + RADIUS + k]
            out[i] = total

    x = RNG.random(150, np.float32)
    out = np.zeros_like(x)
    convolve[3, THREADS](x, out)
    np.testing.assert_allclose(out, np.convolve(x, WEIGHTS, "same"), rtol=1e-5)


def test_bitonic_sort() -> None:
    @cuda.jit
    def exchange(values, j, k):
        i = cuda.grid(1)
        other = i ^ j
        if other > i:
            rises = (i & k) == 0
            if (values[i] > values[other]) == rises:
                values[i], values[other] = values[other], values[i]

    values = RNG.integers(-1000, 1000, 256).astype(np.int32)
    device = cuda.to_device(values)
    k = 2
    while k <= values.size:
        j = k >> 1
        while j > 0:
            exchange[values.size // THREADS, THREADS](device, j, k)
            j >>= 1
        k <<= 1
    assert np.array_equal(device.copy_to_host(), np.sort(values))


def test_scan_of_blocks() -> None:
    @cuda.jit
    def scan(values, totals):
        shared = cuda.shared.array(THREADS, dtype=float64)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        shared[t] = values[i] if i < values.size else 0.0
        cuda.syncthreads()
        step = 1
        while step < THREADS:
            value = shared[t - step] if t >= step else 0.0
            cuda.syncthreads()
            shared[t] += value
            cuda.syncthreads()
            step *= 2
        if i < values.size:
            values[i] = shared[t]
        if t == THREADS - 1:
            totals[cuda.blockIdx.x] = shared[t]

    @cuda.jit
    def shift(values, totals):
        i = cuda.grid(1)
        if i < values.size:
            for block in range(cuda.blockIdx.x):
                values[i] += totals[block]

    values = np.arange(150.0) % 7
    expected, totals = np.cumsum(values), cuda.device_array(3)
    scan[3, THREADS](device := cuda.to_device(values), totals)
    shift[3, THREADS](device, totals)
    assert np.array_equal(device.copy_to_host(), expected)


def test_sums_of_rows_by_shuffles() -> None:
    @cuda.jit(device=True)
    def of_warp(value):
        for offset in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        return value

    @cuda.jit
    def product(matrix, x, out):
        row, lane = cuda.blockIdx.x, cuda.threadIdx.x
        total = float32(0)
        for j in range(lane, x.size, cuda.warpsize):
            total += matrix[row, j] * x[j]
        total = of_warp(total)
        if lane == 0:
            out[row] = total

    matrix, x = RNG.random((5, 70), np.float32), RNG.random(70, np.float32)
    out = np.zeros(5, np.float32)
    product[5, 32](matrix, x, out)
    np.testing.assert_allclose(out, matrix @ x, rtol=1e-5)


def test_edit_distances_in_local_memory() -> None:
    @cuda.jit
    def distances(words, lengths, query, out):
        w = cuda.grid(1)
        if w >= lengths.size:
            return
        row = cuda.local.array(17, int32)
        for j in range(query.size + 1):
            row[j] = j
        for i in range(lengths[w]):
            before, row[0] = row[0], i + 1
            for j in range(query.size):
                same = 0 if words[w, i] == query[j] else 1
                best = min(row[j] + 1, row[j + 1] + 1, before + same)
                before, row[j + 1] = row[j + 1], best
        out[w] = row[query.size]

    texts = ["kitten", "sitting", "", "knitting"]
    words = np.zeros((4, 16), np.uint8)
    for k, text in enumerate(texts):
        words[k, : len(text)] = list(text.encode())
    out = np.zeros(4, np.int32)
    distances.forall(4)(words, np.array([len(t) for t in texts]), np.array(list(b"mitten"), np.uint8), out)
    assert out.tolist() == [1, 3, 6, 4]


def test_grey_images_and_their_edges() -> None:
    @cuda.jit(device=True)
    def clamped(value, low, high):
        return max(low, min(value, high))

    @cuda.jit
    def edges(grey, out):
        y, x = cuda.grid(2)
        h, w = grey.shape
        if y >= h or x >= w:
            return
        gx = gy = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                v = grey[clamped(y + dy, 0, h - 1), clamped(x + dx, 0, w - 1)]
                gx += v * dx * (2 - abs(dy))
                gy += v * dy * (2 - abs(dx))
        out[y, x] = min(255, int(math.sqrt(gx * gx + gy * gy)))

    @cuda.jit
    def to_grey(image, grey):
        y, x = cuda.grid(2)
        if y < grey.shape[0] and x < grey.shape[1]:
            r, g, b = image[y, x, 0], image[y, x, 1], image[y, x, 2]
            grey[y, x] = (77 * r + 150 * g + 29 * b) >> 8

    image = RNG.integers(0, 256, (9, 13, 3), np.uint8)
    grey, out = np.zeros((9, 13), np.uint8), np.zeros((9, 13), np.uint8)
    to_grey[(2, 2), (8, 8)](image, grey)
    edges[(2, 2), (8, 8)](grey, out)
    assert np.array_equal(grey, (image.astype(int) @ [77, 150, 29]) >> 8)
    p = np.pad(grey.astype(int), 1, "edge")
    parts = {(dy, dx): p[1 + dy : 10 + dy, 1 + dx : 14 + dx] for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
    gx = sum(v * dx * (2 - abs(dy)) for (dy, dx), v in parts.items())
    gy = sum(v * dy * (2 - abs(dx)) for (dy, dx), v in parts.items())
    assert np.array_equal(out, np.minimum(255, np.sqrt(gx * gx + gy * gy).astype(int)))


def test_clusters_by_atomic_sums() -> None:
    @cuda.jit
    def assign(points, centers, labels, sums, counts):
        i = cuda.grid(1)
        if i >= points.shape[0]:
            return
        best, nearest = math.inf, -1
        for k in range(centers.shape[0]):
            distance = 0.0
            for d in range(points.shape[1]):
                distance += (points[i, d] - centers[k, d]) ** 2
            if distance < best:
                best, nearest = distance, k
        labels[i] = nearest
        for d in range(points.shape[1]):
            cuda.atomic.add(sums, (nearest, d), points[i, d])
        cuda.atomic.add(counts, nearest, uint32(1))

    points = np.concatenate([RNG.normal(c, 0.1, (40, 2)) for c in (0, 5)]).astype(np.float32)
    centers = np.array([[1, 1], [4, 4]], np.float32)
    labels, sums, counts = np.zeros(80, np.int32), np.zeros((2, 2), np.float32), np.zeros(2, np.uint32)
    assign.forall(80)(points, centers, labels, sums, counts)
    assert labels.tolist() == [0] * 40 + [1] * 40
    np.testing.assert_allclose(sums / counts[:, None], points.reshape(2, 40, 2).mean(1), rtol=1e-4)


def test_a_reduction_waits_in_a_branch() -> None:
    @cuda.jit
    def array_sum(data, n):
        tid = cuda.threadIdx.x
        if tid < n[0]:
            shr = cuda.shared.array(64, int32)
            shr[tid] = data[tid]
            cuda.syncthreads()
            s = 1
            while s < cuda.blockDim.x:
                if tid % (2 * s) == 0 and tid + s < n[0]:
                    shr[tid] += shr[tid + s]
                s *= 2
                cuda.syncthreads()
            if tid == 0:
                data[tid] = shr[tid]
        else:
            cuda.syncthreads()
            data[tid] = -1

    for n in (64, 50, 1):
        data = cuda.to_device(np.arange(1, 65))
        array_sum[1, 64](data, np.array([n]))
        result = data.copy_to_host()
        assert result[0] == n * (n + 1) // 2
        assert (result[n:] == -1).all()


def test_buffers_are_swapped_in_a_kernel() -> None:
    @cuda.jit
    def heat(first, second, steps, rate, swapped):
        i, grid = cuda.grid(1), cuda.cg.this_grid()
        if i >= len(first):
            return
        for step in range(steps):
            if step % 2 == 0:
                old, new = first, second
            else:
                old, new = second, first
            left = old[i - 1] if i > 0 else 0.0
            right = old[i + 1] if i < len(old) - 1 else 0.0
            new[i] = old[i] + rate * (left + right - 2 * old[i])
            grid.sync()
        a, b = first, second
        for _ in range(swapped.size):
            a, b = b, a
        if i == 0:
            a[0] += 100.0
            swapped[0] = b.shape[0]

    host = np.zeros(60)
    host[30] = 1000
    first, second, swapped = cuda.to_device(host), cuda.device_array(60), np.zeros(3)
    heat[2, 32](first, second, 5, 0.25, swapped)
    for _ in range(5):
        host = host + 0.25 * (np.append(host[1:], 0) + np.append(0, host[:-1]) - 2 * host)
    host[0] += 100
    np.testing.assert_allclose(second.copy_to_host(), host, rtol=1e-12)
    assert swapped[0] == 60


def test_a_grid_of_several_blocks_waits() -> None:
    @cuda.jit
    def rows(m, seen):
        shared = cuda.shared.array(32, int32)
        col, grid = cuda.grid(1), cuda.cg.this_grid()
        shared[cuda.threadIdx.x] = col
        if cuda.threadIdx.x == 0:
            seen[cuda.blockIdx.x] = cuda.gridDim.x * 1000 + cuda.blockDim.x * 10 + cuda.laneid
        for row in range(1, m.shape[0]):
            if col < m.shape[1]:
                m[row, col] = m[row - 1, m.shape[1] - col - 1] + shared[cuda.threadIdx.x]
            grid.sync()

    for blocks, threads, n in ((2, 32, 60), (3, 20, 60), (50, 32, 1590)):  # the last two are divided launches
        m, seen = np.zeros((5, n), np.int32), np.zeros(blocks)
        rows[blocks, threads](m, seen)
        expected = np.zeros((5, n), np.int32)
        for row in range(1, 5):
            expected[row] = expected[row - 1, ::-1] + np.arange(n)
        assert np.array_equal(m, expected)
        assert seen.tolist() == [blocks * 1000 + threads * 10] * blocks


@cuda.jit(device=True)
def tribonacci(n: int) -> int:
    match n:
        case 0 | 1:
            return n
        case 2:
            return 1
        case other if other > 40:
            return -1
        case _:
            return tribonacci(n - 1) + tribonacci(n - 2) + tribonacci(n - 3)


def test_a_function_whose_match_returns_in_all_cases_calls_itself() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = tribonacci(x[i])

    out = np.zeros(9, np.int64)
    kernel[1, 9](np.array([0, 1, 2, 3, 4, 5, 6, 7, 41]), out)
    assert out.tolist() == [0, 1, 1, 2, 4, 7, 13, 24, -1]
