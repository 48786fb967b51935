"""The target of a runtime's device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from vkcompute.core.quirks import quirks_of
from vkcompute.dtypes import TABLE
from vkcompute.ir import UINT32, Target
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime


def target_of(runtime: Runtime) -> Target:
    """Returns the target for kernels on a runtime, made once."""
    return cached(runtime, Target, lambda: _target(runtime))


def computes_by_words(runtime: Runtime, dtypes: Iterable[Any]) -> bool:
    """True if the device computes one of some dtypes by hundreds of instructions: float64, where it lacks it.

    Programs with several elements per invocation then have few of them: drivers compile the code of each.
    """
    return "float64" in target_of(runtime).missing_types and np.float64 in dtypes


def _target(runtime: Runtime) -> Target:
    physical = runtime.device.physical
    quirks, limits = quirks_of(physical), physical.limits
    most = min(
        limits["maxPerStageDescriptorStorageBuffers"],
        limits["maxDescriptorSetStorageBuffers"],
        limits["maxPerStageResources"] - 1,  # one for the parameters
    )
    return Target(
        keeps_loop_results=not quirks.loses_loop_results,
        max_push_nbytes=limits["maxPushConstantsSize"],
        max_storage_buffers=most,
        cuts_loops=quirks.max_loop_iterations is not None,
        max_texel_buffers=_max_texel_buffers(runtime),
        declares_read_only=not quirks.reuses_masked_loads,
        preserved_floats=physical.preserved_floats,
        broadcasts=not quirks.slow_broadcasts,
        divides_exactly=quirks.divides_exactly,
        recomputes_across_barriers=quirks.recomputes_across_barriers,
        fences=not quirks.fences_wait,
        max_invocations=limits["maxComputeWorkGroupInvocations"],
        missing_types=tuple([row.name for row in TABLE if not runtime.device.features.issuperset(row.native)]),
    )


def _max_texel_buffers(runtime: Runtime) -> int:
    """Returns the most texel buffers per kernel; 0 where storage buffers bind more, or are faster."""
    limits = runtime.device.physical.limits
    binds_all = (
        limits["minTexelBufferOffsetAlignment"] <= limits["minStorageBufferOffsetAlignment"]
        and limits["maxTexelBufferElements"] * UINT32.bits // 8 >= runtime.device.max_binding_bytes
    )
    if not (binds_all and quirks_of(runtime.device.physical).texel_loads):
        return 0
    return int(min(limits["maxPerStageDescriptorSampledImages"], limits["maxDescriptorSetSampledImages"]))
