"""Shared arrays in functions that a kernel calls, and of sizes that are given at the launch."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.errors import KernelError


def sum_of_block(value, n):
    """The sum of a value over the workgroup, as CUDA programs have it in a device function."""
    parts = vc.shared(n, vc.int32)
    here = vc.local_id(0)
    vc.barrier()
    parts[here] = value
    vc.barrier()
    total = 0
    for k in range(n):
        total += parts[k]
    return total


@vc.kernel
def twice_summed(x, out, n):
    i = vc.global_id(0)
    for k in range(2):
        out[i] += sum_of_block(x[i] + k, n)
    out[i] += 1000 * sum_of_block(1, n)


@vc.kernel
def reversed_rows(x, out, n, m):
    tile = vc.shared((m, 2 * n), x.dtype)
    i, j = vc.local_id(0), vc.local_id(1)
    tile[j, 2 * i] = x[j, i]
    vc.barrier()
    out[j, i] = tile[m - 1 - j, 2 * (n - 1 - i)]


@pytest.mark.parametrize("n", [4, 8])
def test_shared_arrays_in_functions(gpu: vc.Runtime, n: int) -> None:
    x = np.arange(2 * n, dtype=np.int32)
    out = gpu.zeros(2 * n, np.int32)
    twice_summed[2, n](gpu.array(x), out, n)
    sums = x.reshape(2, n).sum(1)
    assert np.array_equal(out.numpy(), np.repeat(2 * sums + n + 1000 * n, n))


@pytest.mark.parametrize("kind", [int, np.int32, np.int64])
def test_sizes_that_the_launch_gives(gpu: vc.Runtime, kind: type) -> None:
    for n, m in ((4, 2), (2, 3), (4, 2)):
        x = np.arange(n * m, dtype=np.float32).reshape(m, n)
        out = gpu.zeros((m, n))
        reversed_rows[1, (n, m)](gpu.array(x), out, kind(n), kind(m))
        assert np.array_equal(out.numpy(), x[::-1, ::-1])


def test_sizes_that_are_no_sizes(gpu: vc.Runtime) -> None:
    with pytest.raises(KernelError, match=r"the shape of a shared array is positive ints.*; got 0"):
        reversed_rows[1, (2, 2)](gpu.zeros((2, 2)), gpu.zeros((2, 2)), 0, 2)
    with pytest.raises(KernelError, match=r"the shape of a shared array is positive ints"):
        reversed_rows[1, (2, 2)](gpu.zeros((2, 2)), gpu.zeros((2, 2)), 2.0, 2)
