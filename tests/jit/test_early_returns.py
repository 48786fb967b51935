"""Barriers after early returns: invocations that returned take part, and do nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.errors import KernelError

GROUP = 64


@vc.kernel
def block_sum(x, out, n):  # the shape of most CUDA reductions
    i, here = vc.global_id(0), vc.local_id(0)
    tile = vc.shared(vc.local_size(0), vc.float32)
    tile[here] = 0
    vc.barrier()
    if i >= n:
        return
    tile[here] = x[i]
    vc.barrier()
    step = vc.local_size(0) // 2
    while step > 0:
        if here < step:
            tile[here] += tile[here + step]
        vc.barrier()
        step //= 2
    if here == 0:
        out[vc.group_id(0)] = tile[0]


@vc.kernel
def until_found(x, out, n):  # returns in a loop with a barrier
    i, here = vc.global_id(0), vc.local_id(0)
    left = vc.shared(1, vc.int32)
    if here == 0:
        left[0] = 0
    vc.barrier()
    k = 0
    while True:
        if x[i] == k:
            out[i] = 100 + k
            return
        vc.barrier()
        vc.atomic.add(left, 0, 1)
        vc.barrier()
        k += 1
        if k == n:
            break
    out[i] = left[0]


@vc.kernel
def searched(x, out, n):  # returns in a loop without a barrier, and in nested branches
    i, here = vc.global_id(0), vc.local_id(0)
    tile = vc.shared(vc.local_size(0), vc.int32)
    tile[here] = -1
    vc.barrier()
    for k in range(n):
        if x[i] == k:
            if k % 2 == 0:
                return
            tile[here] = k
    vc.barrier()
    if n > 3:
        if x[i] == 5:
            return
        vc.barrier()
    out[i] = tile[here ^ 1]


@vc.kernel
def counted(x, out):
    i = vc.global_id(0)
    if x[i] == 0:
        return
    n = vc.barrier_count(x[i] > 3)
    if vc.barrier_any(True):  # a constant, which is masked
        n += vc.barrier_count(True) - vc.barrier_count(n > -1)
    every, some = vc.barrier_all(x[i] < 8), vc.barrier_any(x[i] == 5)
    out[i] = 1 + n + 1000 * every + 10000 * some


@vc.kernel
def decided(x, out, n):  # a condition from memory that decides about a barrier
    i, here = vc.global_id(0), vc.local_id(0)
    tile = vc.shared(vc.local_size(0), vc.int32)
    tile[here] = here
    if i >= n:
        return
    while x[i] > 0:
        tile[here] += 1
        vc.barrier()
        out[i] += tile[here ^ 1]
        vc.barrier()
        x[i] -= 1


def launched(gpu: vc.Runtime, kernel: Any, n_groups: int, out: np.ndarray[Any, Any], *args: Any) -> Any:
    """The result of a launch."""
    result = gpu.array(out)
    kernel[n_groups, GROUP](gpu.array(args[0]), result, *args[1:])
    return result.numpy()


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200, 256])
def test_sums_of_blocks_with_an_early_return(gpu: vc.Runtime, n: int) -> None:
    x = np.arange(256, dtype=np.float32)
    sums = launched(gpu, block_sum, 4, np.full(4, -1, np.float32), x, n)
    present = np.where(np.arange(256) < n, x, 0).reshape(4, GROUP).sum(1)
    assert np.array_equal(sums, np.where(np.arange(4) * GROUP < n, present, -1))


@pytest.mark.device_only
@pytest.mark.parametrize("n", [700, 1024, 2000])
def test_sums_of_the_largest_blocks_with_an_early_return(gpu: vc.Runtime, n: int) -> None:
    """Blocks of 1,024 invocations, or as many as the device has."""
    limits = gpu.device.physical.limits
    group = min(1024, 1 << limits["maxComputeWorkGroupInvocations"].bit_length() - 1)
    x, out = np.arange(2048, dtype=np.float32) % 100, gpu.full(2048 // group, -1)
    block_sum[2048 // group, group](gpu.array(x), out, n)
    present = np.where(np.arange(2048) < n, x, 0).reshape(-1, group).sum(1)
    assert np.array_equal(out.numpy(), np.where(np.arange(2048 // group) * group < n, present, -1))


def test_returns_in_loops(gpu: vc.Runtime) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 9, 2 * GROUP).astype(np.int32)
    x[:GROUP] %= 3  # all invocations of a workgroup return
    out = launched(gpu, until_found, 2, np.zeros(x.size, np.int32), x, 5)
    waited = [(x[GROUP:] > k).sum() for k in range(5)]
    assert np.array_equal(out, np.where(x < 5, 100 + x, sum(waited)))
    parts = launched(gpu, searched, 2, np.full(x.size, -2, np.int32), x, 7)
    kept = np.where((x % 2 == 1) & (x < 7), x, -1)
    ends = (x % 2 == 0) & (x < 7) | (x == 5)
    assert np.array_equal(parts, np.where(ends, -2, kept.reshape(-1, 2)[:, ::-1].reshape(-1)))


def test_votes_of_a_workgroup(gpu: vc.Runtime) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 8, 3 * GROUP).astype(np.int32)
    x[GROUP] = 9
    x[x == 5] = 4
    x[2 * GROUP] = 5
    rows = x.reshape(3, GROUP)
    totals = (rows > 3).sum(1) + 1000 * np.all(rows < 8, 1) + 10000 * np.any(rows == 5, 1)
    out = launched(gpu, counted, 3, np.zeros(x.size, np.int32), x)
    assert np.array_equal(out, np.where(x == 0, 0, np.repeat(1 + totals, GROUP)))


@pytest.mark.device_only
def test_conditions_from_memory(gpu: vc.Runtime) -> None:
    x, out = gpu.full(2 * GROUP, 3, np.int32), gpu.zeros(2 * GROUP, np.int32)
    decided[2, GROUP](x, out, 100)
    here = np.arange(2 * GROUP) % GROUP
    sums = 3 * (here ^ 1) + 6
    lonely = np.arange(2 * GROUP) ^ 1 >= 100
    assert np.array_equal(out.numpy()[~lonely], np.where(np.arange(2 * GROUP) < 100, sums, 0)[~lonely])
    x[70] = 4
    message = r"only some invocations of the workgroup reach this barrier(.|\n)*vc.barrier"
    with pytest.raises(KernelError, match=message):
        decided[2, GROUP](x, out, 100).result()


@vc.kernel
def returns_in_a_loop_of_some(x, out):
    i = vc.local_id(0)
    k = -1
    while k < 2 and x[i & 7] >= 4:
        k += 1
        if x[i & 7] > 5:
            out[i] = int(vc.warp.match_all(k & 1))
            return
    vc.barrier()
    for _ in range((x[2] & 1) + 1):
        out[i] += 2
        vc.barrier()
    out[i] += 10


def test_returns_from_a_loop_that_others_have_left(gpu: vc.Runtime) -> None:
    """The workgroup ends where all have returned, not where all that are still in the loop have."""
    out = gpu.zeros(40, np.int32)
    returns_in_a_loop_of_some[1, 40](gpu.array(np.arange(8, dtype=np.int32)), out)
    assert out.numpy().tolist() == np.where(np.arange(40) % 8 > 5, 1, 12).tolist()
