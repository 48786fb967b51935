"""The target of a runtime's device."""

from __future__ import annotations

from vkcompute.core.quirks import quirks_of
from vkcompute.ir import Target
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime


def target_of(runtime: Runtime) -> Target:
    """Returns the target for kernels on a runtime, made once."""
    return cached(runtime, Target, lambda: Target(not quirks_of(runtime.device.physical).loses_loop_results))
