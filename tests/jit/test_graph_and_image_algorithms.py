"""Kernels of known algorithms on graphs, tables, images and matrices, against other implementations of them.

Those that the simulator takes seconds for run on the device only.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from host import run

import vkcompute as vc

HostArray = np.ndarray[Any, Any]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


# -- graphs and tables ------------------------------------------------------------------------------------------------


@vc.kernel
def insert(keys, table):
    i = vc.global_id(0)
    if i < keys.size:
        slot = keys[i] * 40503 % 1021
        while True:
            before = vc.atomic.compare_exchange(table, slot, 0, keys[i])
            if before in (0, keys[i]):
                break
            slot = (slot + 1) % 1021


def test_hash_table(gpu: Any, random: np.random.Generator) -> None:
    keys = random.integers(1, 2000, 900).astype(np.uint32)
    table = run(gpu, insert, 900, np.zeros(1021, np.uint32), keys)
    assert sorted(table[table != 0].tolist()) == sorted(set(keys.tolist()))


@vc.kernel
def join(one, other, parent):
    i = vc.global_id(0)
    if i < one.size:
        a, b = one[i], other[i]
        while True:
            while parent[a] != a:
                a = parent[a]
            while parent[b] != b:
                b = parent[b]
            if a == b:
                break
            a, b = max(a, b), min(a, b)
            before = vc.atomic.min(parent, a, b)
            if before == a:
                break
            a = before


def root(parent: HostArray, i: int) -> int:
    while parent[i] != i:
        i = parent[i]
    return i


@pytest.mark.device_only  # it reads what others change, as its algorithm allows
def test_connected_components(gpu: Any, random: np.random.Generator) -> None:
    one, other = random.integers(0, 100, (2, 70)).astype(np.int32)
    parent = run(gpu, join, 70, np.arange(100, dtype=np.int32), one, other)
    groups = [{n} for n in range(100)]
    for a, b in zip(one, other, strict=True):
        whole = groups[a] | groups[b]
        for n in whole:
            groups[n] = whole
    assert [root(parent, n) for n in range(100)] == [min(group) for group in groups]


@vc.kernel
def relaxed(k, lengths):
    j, i = vc.global_id(0), vc.global_id(1)
    if i < lengths.shape[0] and j < lengths.shape[1] and i != k and j != k:
        lengths[i, j] = min(lengths[i, j], lengths[i, k] + lengths[k, j])


@pytest.mark.device_only
def test_shortest_paths(gpu: Any, random: np.random.Generator) -> None:
    expected = np.where(random.random((24, 24)) < 0.15, random.integers(1, 50, (24, 24)), 1000).astype(np.int32)
    np.fill_diagonal(expected, 0)
    lengths = gpu.array(expected)
    for k in range(24):
        relaxed[(2, 2), (16, 16)](k, lengths)
        expected = np.minimum(expected, expected[:, k : k + 1] + expected[k])
    assert np.array_equal(lengths.numpy(), expected)


@vc.kernel
def rows_of_sparse(starts, columns, data, x, out):
    row = vc.global_id(0)
    if row < out.size:
        out[row] = sum(data[k] * x[columns[k]] for k in range(starts[row], starts[row + 1]))


def test_product_of_a_sparse_matrix(gpu: Any, random: np.random.Generator) -> None:
    dense = np.where(random.random((30, 20)) < 0.2, random.integers(-9, 9, (30, 20)), 0).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype(np.int32)
    rows, columns = np.nonzero(dense)
    x = random.integers(-9, 9, 20).astype(np.float32)
    args = starts, columns.astype(np.int32), dense[rows, columns], x
    assert np.array_equal(run(gpu, rows_of_sparse, 30, np.zeros(30, np.float32), *args), dense @ x)


# -- images, matrices and differential equations ----------------------------------------------------------------------


@vc.kernel
def lives(cells, out):
    """A step of the Game of Life, of 32 cells in a word."""
    column, row = vc.global_id(0) % 2, vc.global_id(0) // 2
    n_rows, n_words = cells.shape
    if row < n_rows:
        word = vc.uint32(0)
        for bit in range(32):
            count = 0
            for down in (-1, 0, 1):
                for right in (-1, 0, 1):
                    at = (column * 32 + bit + right + n_words * 32) % (n_words * 32)
                    count += int(cells[(row + down) % n_rows, at // 32] >> vc.uint32(at % 32) & 1)
            alive = int(cells[row, column] >> vc.uint32(bit) & 1)
            if (count - alive, alive) in ((3, 0), (3, 1), (2, 1)):
                word |= vc.uint32(1) << vc.uint32(bit)
        out[row, column] = word


@pytest.mark.device_only
def test_game_of_life(gpu: Any, random: np.random.Generator) -> None:
    cells = random.random((9, 64)) < 0.4

    def packed(cells: HostArray) -> HostArray:
        result: HostArray = np.packbits(cells, axis=1, bitorder="little").view("<u4")
        return result

    around = sum(np.roll(cells, item, (0, 1)).astype(int) for item in itertools.product((-1, 0, 1), repeat=2)) - cells
    expected = packed((around == 3) | cells & (around == 2))
    assert np.array_equal(run(gpu, lives, 18, np.zeros((9, 2), np.uint32), packed(cells)), expected)


@vc.kernel
def medians(image, out):
    """The median of nine pixels, by exchanges: insertion sort in registers."""
    x, y = vc.global_id(0) % image.shape[1], vc.global_id(0) // image.shape[1]
    if y < image.shape[0]:
        window, n = [0.0] * 9, 0
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                row = min(max(y + down, 0), image.shape[0] - 1)
                window[n] = image[row, min(max(x + right, 0), image.shape[1] - 1)]
                n += 1
        for k in range(1, 9):
            for q in range(k, 0, -1):
                if window[q - 1] > window[q]:
                    window[q - 1], window[q] = window[q], window[q - 1]
        out[y, x] = window[4]


def test_median_filter(gpu: Any, random: np.random.Generator) -> None:
    image = random.random((7, 9), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 1, mode="edge"), (3, 3))
    expected = np.median(windows.reshape(7, 9, 9), -1)
    assert np.array_equal(run(gpu, medians, 63, np.zeros((7, 9), np.float32), image), expected)


@vc.kernel
def solutions(matrices, right, out):
    """Solves systems of four equations by elimination, with the largest pivot of a column."""
    i = vc.global_id(0)
    if i >= right.shape[0]:
        return
    m = vc.local((4, 5), vc.float32)
    for row in range(4):
        for column in range(4):
            m[row, column] = matrices[i, row, column]
        m[row, 4] = right[i, row]
    for k in range(4):
        pivot = k
        for row in range(k + 1, 4):
            if abs(m[row, k]) > abs(m[pivot, k]):
                pivot = row
        for column in range(5):
            m[k, column], m[pivot, column] = m[pivot, column], m[k, column]
        for row in range(k + 1, 4):
            factor = m[row, k] / m[k, k]
            for column in range(k, 5):
                m[row, column] -= factor * m[k, column]
    for k in reversed(range(4)):
        out[i, k] = (m[k, 4] - sum(m[k, column] * out[i, column] for column in range(k + 1, 4))) / m[k, k]


def test_systems_of_equations(gpu: Any, random: np.random.Generator) -> None:
    matrices = (random.random((20, 4, 4)) + 2 * np.eye(4)[random.permutation(4)]).astype(np.float32)
    right = random.random((20, 4), np.float32)
    expected = np.linalg.solve(matrices, right[..., None])[..., 0]
    result = run(gpu, solutions, 20, np.zeros((20, 4), np.float32), matrices, right)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def lorenz(x, y, z):
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z


def stepped(state, slope, step):
    x, y, z = state
    dx, dy, dz = slope
    return x + step * dx, y + step * dy, z + step * dz


def rk4(state, step, derivative):
    a = derivative(*state)
    b = derivative(*stepped(state, a, step / 2))
    c = derivative(*stepped(state, b, step / 2))
    d = derivative(*stepped(state, c, step))
    for slope, weight in ((a, 1.0), (b, 2.0), (c, 2.0), (d, 1.0)):
        state = stepped(state, slope, step * weight / 6)
    return state


@vc.kernel
def trajectories(starts, n_steps, out):
    i = vc.global_id(0)
    if i < out.shape[0]:
        state = starts[i, 0], starts[i, 1], starts[i, 2]
        for _ in range(n_steps):
            state = rk4(state, 0.005, lorenz)
        out[i, 0], out[i, 1], out[i, 2] = state


def test_trajectories(gpu: Any, random: np.random.Generator) -> None:
    starts = random.random((10, 3)).astype(np.float32)
    expected = [tuple(map(float, row)) for row in starts]
    for _ in range(20):
        expected = [rk4(state, 0.005, lorenz) for state in expected]
    result = run(gpu, trajectories, 10, np.zeros((10, 3), np.float32), starts, 20)
    np.testing.assert_allclose(result, expected, rtol=1e-4)


# -- work of a whole group --------------------------------------------------------------------------------------------


@vc.kernel
def prefix_sums(x, out):
    """Blelloch's scan of 64 elements by 32 invocations."""
    tile = vc.shared(64, vc.float32)
    i, first = vc.local_id(0), 64 * vc.group_id(0)
    tile[2 * i], tile[2 * i + 1] = x[first + 2 * i], x[first + 2 * i + 1]
    n, distance = 32, 1
    while n > 0:
        vc.barrier()
        if i < n:
            tile[distance * (2 * i + 2) - 1] += tile[distance * (2 * i + 1) - 1]
        n, distance = n // 2, distance * 2
    if i == 0:
        tile[63] = 0
    n = 1
    while n < 64:
        distance //= 2
        vc.barrier()
        if i < n:
            left, right = distance * (2 * i + 1) - 1, distance * (2 * i + 2) - 1
            tile[left], tile[right] = tile[right], tile[left] + tile[right]
        n *= 2
    vc.barrier()
    out[first + 2 * i], out[first + 2 * i + 1] = tile[2 * i], tile[2 * i + 1]


def test_prefix_sums(gpu: Any, random: np.random.Generator) -> None:
    x = random.integers(0, 9, (3, 64)).astype(np.float32)
    result = run(gpu, prefix_sums, 96, np.zeros(192, np.float32), x.reshape(-1), local_size=32)
    assert np.array_equal(result.reshape(3, 64), np.cumsum(x, 1) - x)


@vc.kernel
def sorted_groups(x, out):
    """Bitonic sort of 64 elements by 32 invocations."""
    tile = vc.shared(64, vc.int32)
    i, first = vc.local_id(0), 64 * vc.group_id(0)
    tile[i], tile[i + 32] = x[first + i], x[first + i + 32]
    size = 2
    while size <= 64:
        step = size // 2
        while step > 0:
            vc.barrier()
            low = 2 * i - i % step
            up = low & size == 0
            if (tile[low] > tile[low + step]) == up:
                tile[low], tile[low + step] = tile[low + step], tile[low]
            step //= 2
        size *= 2
    vc.barrier()
    out[first + i], out[first + i + 32] = tile[i], tile[i + 32]


def test_sorted_groups(gpu: Any, random: np.random.Generator) -> None:
    x = random.integers(-99, 99, (3, 64)).astype(np.int32)
    result = run(gpu, sorted_groups, 96, np.zeros(192, np.int32), x.reshape(-1), local_size=32)
    assert np.array_equal(result.reshape(3, 64), np.sort(x, 1))


@vc.kernel
def counted_bytes(data, out):
    """A histogram in shared memory, which each group adds to that of the device."""
    counts = vc.shared(16, vc.int32)
    i = vc.local_id(0)
    if i < 16:
        counts[i] = 0
    vc.barrier()
    for k in range(vc.global_id(0), data.size, vc.num_groups(0) * vc.local_size(0)):
        vc.atomic.add(counts, data[k] & 15, 1)
    vc.barrier()
    if i < 16:
        vc.atomic.add(out, i, counts[i])


def test_histogram(gpu: Any, random: np.random.Generator) -> None:
    data = random.integers(0, 256, 1000).astype(np.int32)
    assert np.array_equal(run(gpu, counted_bytes, 128, np.zeros(16, np.int32), data), np.bincount(data & 15))


@vc.kernel
def transposed(x, out):
    tile = vc.shared((8, 9), vc.float32)
    a, b = vc.local_id(0) % 8, vc.local_id(0) // 8
    n_across = (x.shape[1] + 7) // 8
    row, column = vc.group_id(0) // n_across * 8, vc.group_id(0) % n_across * 8
    if row + b < x.shape[0] and column + a < x.shape[1]:
        tile[b, a] = x[row + b, column + a]
    vc.barrier()
    if column + b < x.shape[1] and row + a < x.shape[0]:
        out[column + b, row + a] = tile[a, b]


def test_transposition_by_tiles(gpu: Any, random: np.random.Generator) -> None:
    x = random.random((19, 13), np.float32)
    n_groups = 3 * 2
    assert np.array_equal(run(gpu, transposed, n_groups * 64, np.zeros((13, 19), np.float32), x), x.T)
