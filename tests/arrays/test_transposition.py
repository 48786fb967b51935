"""Copies of transposed arrays: blocks are read by rows and stored by columns, on CPUs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms.lines import contiguous
from vkcompute.arrays.algorithms.transposition import copy_transposed

SHAPES = [(64, 16), (16, 100), (20, 100), (3, 20, 24), (64, 1, 32), (17, 64)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_order_of_axes(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    host = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = gpu.array(host)
    for order in itertools.permutations(range(len(shape))):
        assert np.array_equal(x.transpose(order).copy().numpy(), host.transpose(order))


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64", "complex64"])
def test_dtypes(gpu: vc.Runtime, dtype: str) -> None:
    host = np.arange(64 * 20).astype(dtype).reshape(64, 20)
    assert np.array_equal(gpu.array(host).T.copy().numpy(), host.T)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_a_dtype_without_kernels_is_copied_and_sorted(gpu: vc.Runtime, dtype: str) -> None:
    host = np.arange(64 * 20).astype(dtype).reshape(64, 20)
    assert np.array_equal(contiguous(gpu.array(host).T).numpy(), host.T)
    assert np.array_equal(vnp.sort(gpu.array(host[::-1]).T, axis=1).numpy(), host.T)


def is_copied(view: Any) -> bool:
    """True if a block program copies a view."""
    out = view.runtime.zeros(view.shape, view.dtype)
    is_done = copy_transposed(view, out)
    assert np.array_equal(out.numpy(), view.numpy() if is_done else np.zeros(view.shape))
    return is_done


def test_views_that_block_programs_copy(gpu: vc.Runtime) -> None:
    matrix, stack = (
        gpu.array(np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape))
        for shape in ((100, 20), (3, 68, 24))
    )
    for view in (matrix.T, stack.mT, stack.transpose(2, 0, 1), gpu.full((1, 64, 1, 16), 1.0).T):
        assert is_copied(view)
    for view in (matrix, stack.transpose(1, 0, 2), stack.T, matrix[:, ::2].T, matrix[::-1].T, matrix[1:, 1:].T):
        assert not is_copied(view)
    for shape in ((101, 20), (20, 101), (12, 100), (0, 20)):
        assert not is_copied(gpu.zeros(shape).T)


def test_copies_between_parts_of_an_array(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(64 * 64, dtype=np.float32).reshape(64, 64))
    host = x.numpy()
    with pytest.raises(ValueError, match="share bytes"):
        x.copy_from(x.T)
    x[:] = vnp.asarray(x.T)
    assert np.array_equal(x.numpy(), host.T)
    y = gpu.zeros((2, 64, 64))
    y[1] = x.T
    assert np.array_equal(y.numpy(), [0 * host, host])
