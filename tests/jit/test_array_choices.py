"""Variables that are one of several arrays, depending on the path taken."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc

X, Y = np.arange(12, dtype=np.float32), np.arange(12, dtype=np.float32) ** 2


@vc.kernel
def picked(a, b, at, out):
    i = vc.global_id(0)
    if i < out.size:
        source = a if at[i] > 0 else b
        out[i] = 2 * source[i] + source[8:11].sum() + len(source)
        target = source if i % 2 else a
        target[i] += 1
        vc.atomic.add(target, 11, 0.5)


def test_an_array_is_chosen_by_an_element(gpu):
    at = np.array([1, -1, 0, 2, 5, -3, 1, 1], np.int32)
    a, b, out = gpu.array(X), gpu.array(0 * Y), gpu.zeros(8)
    picked(a, b, gpu.array(at), out, grid=1)
    i, total = np.arange(8), 0 * X
    is_a = (i % 2 == 0) | (at > 0)
    total[i[is_a]] += 1
    total[11] += 0.5 * is_a.sum()
    chosen = np.where((at > 0)[:, None], X, 0 * X)
    assert np.array_equal(out.numpy(), 2 * chosen[i, i] + chosen[:, 8:11].sum(axis=1) + 12)
    assert np.array_equal(a.numpy(), X + total)
    assert b.numpy().tolist() == [*(~is_a).astype(float), 0, 0, 0, 0.5 * (~is_a).sum()]


@vc.kernel(local_size=32)
def diffused(x, out, steps):
    i = vc.local_id(0)
    old, new = vc.shared(32, vc.float32), vc.shared(32, vc.float32)
    old[i] = x[i]
    vc.barrier()
    for _ in range(steps):
        new[i] = (old[max(i - 1, 0)] + old[min(i + 1, 31)]) / 2
        vc.barrier()
        old, new = new, old
    out[i] = old[i]


@pytest.mark.parametrize("steps", [0, 1, 4, 7])
def test_buffers_are_swapped(gpu, steps):
    x, out = np.random.default_rng(0).random(32, np.float32), gpu.zeros(32)
    diffused[1, 32](gpu.array(x), out, steps)
    for _ in range(steps):
        x = (np.r_[x[:1], x[:-1]] + np.r_[x[1:], x[-1:]]) / np.float32(2)
    assert np.array_equal(out.numpy(), x)


@vc.kernel
def largest(a, b, c, out):
    i = vc.global_id(0)
    if i < out.size:
        best = a
        if b[i, 0] > best[i, 0]:
            best = b
        if c[i, 0] > best[i, 0]:
            best = c
        row = best[i, 1:]
        out[i] = row.max() + best.shape[1] + best[i][1]


def test_a_choice_of_three_changes_along_the_way(gpu):
    arrays = [np.random.default_rng(n).integers(0, 50, (9, 4)).astype(np.int32) for n in range(3)]
    out = gpu.zeros(9, np.int32)
    for step in (1, 2):
        largest(*[gpu.array(np.repeat(array, step, 1))[:, ::step] for array in arrays], out, grid=1)
        best = np.argmax([array[:, 0] for array in arrays], axis=0)
        rows = [arrays[n][k] for k, n in enumerate(best)]
        assert out.numpy().tolist() == [row[1:].max() + 4 + row[1] for row in rows]


@pytest.mark.device_only
@pytest.mark.parametrize("name", ["b", "c"])
def test_arrays_of_two_types_are_no_choice(gpu, name):
    @vc.kernel
    def mixed(a, other, out):
        source = a if out[0] > 0 else other
        out[0] = source[0]

    other = {"b": gpu.zeros(3, np.int32), "c": gpu.zeros((3, 2))}[name]
    with pytest.raises(vc.KernelError, match=r"the array a \(float32, 1-D\) on one path and the array other"):
        mixed[1, 1](gpu.array(X), other, gpu.zeros(1))


@vc.kernel(local_size=8)
def exchanged(x, out, n):
    pair = (vc.shared(8, vc.int64), vc.shared(8, vc.int64))
    i = vc.local_id(0)
    pair[0][i], pair[1][i] = x[i], 10 * x[i]
    vc.barrier()
    for k in range(n):
        if x[k] % 2 == 1:
            pair = (pair[1], pair[0])
    out[i] = pair[0][i] - pair[1][7 - i]


def test_arrays_in_a_tuple_are_exchanged(gpu):
    for n in (0, 1, 2, 5):
        x, out = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int64), gpu.zeros(8, np.int64)
        exchanged[1, 8](gpu.array(x), out, n)
        pair = [x, 10 * x][:: -1 if (x[:n] % 2).sum() % 2 else 1]
        assert np.array_equal(out.numpy(), pair[0] - pair[1][::-1])


@vc.kernel
def rotated(a, b, c, out, n):
    i = vc.global_id(0)
    if i < out.size:
        p, q = a, b
        k = 0
        while True:
            k += 1
            if k > n:
                break
            if (k + i) % 4 == 0:
                continue
            p, q = (q, p) if k % 2 else (c, q)
            (first, (other, factor)) = (p, (q, 2)) if i % 2 else (q, (a, 3))
            out[i] += first[k] - factor * other[i]


@pytest.mark.parametrize("n", [0, 1, 3, 10])
def test_tuples_of_arrays_are_chosen_in_an_expression(gpu, n):
    arrays = [np.random.default_rng(k).integers(0, 50, 12).astype(np.float32) for k in range(3)]
    out, expected = gpu.zeros(8), np.zeros(8, np.float32)
    rotated(*map(gpu.array, arrays), out, n, grid=1)
    a, b, c = arrays
    for i in range(8):
        p, q = a, b
        for k in range(1, n + 1):
            if (k + i) % 4:
                p, q = (q, p) if k % 2 else (c, q)
                first, (other, factor) = (p, (q, 2)) if i % 2 else (q, (a, 3))
                expected[i] += first[k] - factor * other[i]
    assert np.array_equal(out.numpy(), expected)


@pytest.mark.device_only
def test_slices_of_a_choice_belong_to_their_branch(gpu):
    @vc.kernel
    def sliced(a, b, out, n):
        source = a if out[0] > 0 else b
        row = source[1:]
        for k in range(n):
            row = source[k:]
        out[0] = row[1]

    with pytest.raises(
        vc.KernelError, match=r"the array a \(.*\) or the array b .* on another; index the arrays where"
    ):
        sliced[1, 1](gpu.array(X), gpu.array(Y), gpu.zeros(1), 3)


@pytest.mark.device_only
def test_a_choice_of_rows_that_differ_is_refused(gpu):
    @vc.kernel
    def chosen(a, b, out, n):
        row, other = (a if n > 3 else b)[1], (b if n > 3 else a)[0]
        last = row if n > 2 else other
        out[0] = last[0]

    with pytest.raises(
        vc.KernelError, match=r"the value cannot be used here: after line \d+ it is the array a \(.* or"
    ):
        chosen[1, 1](gpu.zeros((2, 3)), gpu.zeros((2, 3)), gpu.zeros(1), 3)
