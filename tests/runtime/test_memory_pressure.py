"""Memory that only launched, not yet submitted work still holds is won back before an allocation gives up."""

from __future__ import annotations

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc

MIB = 1 << 20


@pytest.mark.parametrize("staging", [False, True])
def test_dead_arrays_of_an_open_batch_make_room(staging: bool) -> None:
    limit = 24 * MIB + (64 * MIB if staging else 0)
    with open_runtime(memory_limit_bytes=limit, staging=staging) as gpu:
        kept = gpu.full(MIB // 4, 1, np.int32)
        for i in range(40):  # fewer tasks than a batch has, and more bytes than the limit
            dead = gpu.empty(4 * MIB // 4, np.int32)
            dead.fill(i)
            vc.multiply(kept, dead[: MIB // 4], dead[: MIB // 4])
            del dead
        assert np.array_equal(kept.numpy(), np.ones(MIB // 4, np.int32))
        assert gpu.device.memory.allocated_bytes <= limit
