"""Workgroups of more invocations than the device has: divided, or refused with both numbers."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc


@vc.kernel
def described(out):
    i, j, b = vc.global_id(0), vc.global_id(1), vc.local_size(0)
    out[j, i, 0] = 1 + vc.local_id(0) + b * vc.group_id(0) + 10000 * vc.local_id(1)
    out[j, i, 1] = vc.num_groups(0) * 100 + vc.num_groups(1) + 1000 * vc.group_id(1)


@vc.kernel
def waiting(out):
    tile = vc.shared(1, vc.int32)
    if vc.local_id(0) == 0:
        tile[0] = 7
    vc.barrier()
    out[vc.global_id(0)] = tile[0]


@pytest.mark.parametrize("parts", [(8, 1), (1, 8), (3, 5)])
def test_blocks_without_barriers_are_divided(gpu: vc.Runtime, parts: tuple[int, int]) -> None:
    most = gpu.device.physical.limits["maxComputeWorkGroupInvocations"]
    size, rows = (32 * parts[0], most // 16 * parts[1])
    assert size * rows > most or parts == (1, 8)
    out = gpu.zeros((rows * 2, size * 2, 2), np.int32)
    described[(2, 2), (size, rows)](out)
    i, j = np.meshgrid(np.arange(2 * size), np.arange(2 * rows))
    assert np.array_equal(out.numpy()[..., 0], 1 + i + 10000 * (j % rows))
    assert np.array_equal(out.numpy()[..., 1], 202 + 1000 * (j // rows))


def test_blocks_with_barriers_are_refused(gpu: vc.Runtime) -> None:
    most = gpu.device.physical.limits["maxComputeWorkGroupInvocations"]
    with pytest.raises(ValueError, match=rf"{2 * most} invocations; .* runs 1 to {most}.*set another local size"):
        waiting[1, 2 * most](gpu.zeros(2 * most, np.int32))
