"""Slices of arrays in kernels, and reductions of arrays and of slices."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc

X = np.arange(35, dtype=np.float32).reshape(5, 7)


@vc.kernel
def parts(x, out, n):
    if vc.global_id(0) == 0:
        row, column, block = x[2, 1:5], x[:, n], x[1:-1, ::-2]
        out[0], out[1] = row[0], len(row)
        out[2], out[3] = column[-1], column.size
        out[4], out[5] = block[0, 0], block.shape[1]
        out[6] = block[n, n]
        total = 0.0
        for v in column[1:3]:
            total += v
        out[7] = total
        out[8] = x[:, 3][n]
        out[9] = x[n][2:][1]


def test_slices(gpu):
    for n in (1, 2):
        out = gpu.zeros(10)
        parts(gpu.array(X), out, n)
        block = X[1:-1, ::-2]
        wanted = [X[2, 1], 4, X[-1, n], 5, block[0, 0], 4, block[n, n], X[1:3, n].sum(), X[n, 3], X[n, 3]]
        assert out.numpy().tolist() == wanted


def test_slices_of_views(gpu):
    wide = np.arange(140, dtype=np.float32).reshape(10, 14)
    out, device = gpu.zeros(10), gpu.array(wide)
    for at in ((slice(None, None, 2), slice(None, None, -2)), (slice(5), slice(3, 10))):
        parts(device[at], out, 1)
        x = wide[at]
        assert out.numpy()[[0, 2, 4, 6]].tolist() == [x[2, 1], x[-1, 1], x[1, -1], x[2, -3]]


@vc.kernel
def reduced(x, out):
    if vc.global_id(0) == 0:
        out[0], out[1], out[2] = x.sum(), x.min(), x.max()
        out[3], out[4] = x[1:].mean(), x[:, 2].sum()
        out[5], out[6] = x.all(), x.any()
        out[7] = x[1, 1:4].prod()


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "f2", "?"])
def test_reductions(gpu, dtype):
    x, out = (X % 5).astype(dtype), gpu.zeros(8)
    if dtype == "?":
        x[0, 0] = False
    reduced(gpu.array(x), out)
    wanted = [x.sum(), x.min(), x.max(), x[1:].mean(dtype="f4"), x[:, 2].sum(), x.all(), x.any(), x[1, 1:4].prod()]
    assert np.allclose(out.numpy(), wanted, rtol=1e-6)


@vc.kernel
def rows(x, out):
    i = vc.global_id(0)
    if i < out.size:
        row = x[i, 0:]
        out[i] = (
            row.sum() - x[i].size * x[i].mean() + x[i, :i].sum() + x[i].max() - row.max() + x[i].shape[0] - x[i].ndim
        )


def test_reductions_of_rows(gpu):
    out = gpu.zeros(5)
    rows(gpu.array(X), out)
    assert np.allclose(out.numpy(), [X[i, :i].sum() + X.shape[1] - 1 for i in range(5)], atol=1e-4)


@vc.kernel(local_size=4)
def shared_and_private(out):
    tile, mine, i = vc.shared((4, 4), vc.int32), vc.local(4, vc.float32), vc.local_id(0)
    for k in range(4):
        tile[i, k] = 10 * i + k
        mine[k] = k
    vc.barrier()
    out[i] = tile[:, i].sum() + mine[1:3].max() + tile[1:3, 2:].sum()


def test_shared_and_private_arrays(gpu):
    out = gpu.zeros(4, np.int64)
    shared_and_private(out)
    tile = np.add.outer(10 * np.arange(4), np.arange(4))
    assert out.numpy().tolist() == [tile[:, i].sum() + 2 + tile[1:3, 2:].sum() for i in range(4)]


@vc.kernel
def largest_sums(x, out):
    if vc.global_id(0) == 0:
        out[0] = x.sum()


def test_sums_of_integers_are_int64(gpu):
    out = gpu.zeros(1, np.int64)
    largest_sums(gpu.array(np.full(4, 2**30, np.int32)), out)
    assert out.numpy().tolist() == [2**32]


def test_refusals(gpu):
    @vc.kernel
    def along(x):
        x[0, 0] = x.sum(0)

    @vc.kernel
    def stepped(x, n):
        x[0, 0] = x[0, ::n][0]

    for launch, text in [
        (lambda x: along(x), "sum reduces all elements of an array in kernels; got an axis"),
        (lambda x: stepped(x, 2), "the step of a slice is an int, known at compile time"),
    ]:
        with pytest.raises(vc.KernelError, match=text):
            launch(gpu.array(X))


@pytest.mark.pure
def test_simulated_indices_beside_slices_are_checked():
    @vc.kernel
    def beyond(x, out):
        out[0] = x[:, 9][0]

    with pytest.raises(vc.KernelError, match=r"index 9 is out of bounds of an axis with 7 elements"):
        beyond.simulate[1, 1](X, np.zeros(1, np.float32))


@vc.kernel
def first_extremes(x, out):
    i = vc.global_id(0)
    if i < x.shape[0]:
        out[i, 0], out[i, 1], out[i, 2] = x[i].argmax(), x[i].argmin(), x[i:, 1:].argmin()
        out[i, 3] = x[i, 1 : i + 2].argmax()


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "f2", "i8", "f8", "?"])
def test_indices_of_the_first_extremes(gpu, dtype):
    """Of equal elements the first one counts, and of elements with NaN the first NaN."""
    x = (np.random.default_rng(0).integers(0, 4, (6, 8)) % (2 if dtype == "?" else 4)).astype(dtype)
    if x.dtype.kind == "f":
        x[1, [3, 6]] = x[4, 0] = np.nan
    out = gpu.zeros((6, 4), np.int32)
    first_extremes[1, 8](gpu.array(x), out)
    wanted = [(v.argmax(), v.argmin(), x[i:, 1:].argmin(), v[1 : i + 2].argmax()) for i, v in enumerate(x)]
    np.testing.assert_array_equal(out.numpy(), wanted)
