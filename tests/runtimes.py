"""Runtimes on emulated hardware: several queues, staged transfers or small limits; and their dtypes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

import vkcompute as vc
from vkcompute.core.device_profile import emulated
from vkcompute.dtypes import lookup


def open_runtime(
    *,
    timelines: int | tuple[int, int] = 1,
    staging: bool = False,
    limits: Mapping[str, Any] = MappingProxyType({}),
    profile: str = "",
    submits_early: bool = False,
    **options: Any,
) -> vc.Runtime:
    """Opens a runtime with at least so many queues, that stages every transfer, with lower limits, or a profile.

    See `device_profile.DeviceProfile`.

    Args:
        timelines: compute queues, or (compute, transfer) queues.
        staging: whether the host may not access device memory.
        limits: in the place of the device's own.
        submits_early: True to leave it to the device whether an idle queue gets a batch before it is full.
        options: passed on to `vc.Runtime`. Submits have no time limit, else a GPU gets the first launch of a kernel in
            parts, with a submit each.
    """
    with emulated(timelines=timelines, staging=staging, limits=limits, profile=profile):
        runtime = vc.Runtime(**{"submit_limit_s": None, **options})
    for queue in runtime.scheduler.queues if not submits_early else ():
        queue.n_early = queue.fewest = 0
    return runtime


def lacks(gpu: vc.Runtime, dtype: str, *, in_shaders: bool = False) -> bool:
    """True if kernels in Python, or shaders, cannot have the dtype on the device."""
    row = lookup(dtype)
    return not gpu.device.features.issuperset((*row.features, *(row.native if in_shaders else ())))


def most_buffers(gpu: vc.Runtime) -> int:
    """Returns the number of storage buffers that a kernel binds on the device."""
    return int(gpu.device.physical.limits["maxPerStageDescriptorStorageBuffers"])


def needs_bindings(gpu: vc.Runtime | None, n: int) -> None:
    """Skips a test whose program takes so many bindings by its own text, where the device has fewer.

    Args:
        gpu: the runtime, or None where the program is interpreted.
        n: the number of storage buffers.
    """
    if gpu is not None and most_buffers(gpu) < n:
        pytest.skip(f"the program takes {n} bindings")


def needs_shaders(gpu: vc.Runtime) -> None:
    """Skips a test of the shaders of pipelines: a device of fewer invocations takes kernels in their place."""
    if gpu.device.physical.limits["maxComputeWorkGroupInvocations"] < 256:
        pytest.skip("the device runs kernels in the place of the shaders")


def computes_by_words(gpu: vc.Runtime, dtype: str) -> bool:
    """True if hundreds of instructions compute an operation of float64 or complex128 on the device.

    A driver of a CPU compiles functions of them for seconds, so that tests select some.
    """
    return dtype in ("float64", "complex128") and "shaderFloat64" not in gpu.device.features


@contextlib.contextmanager
def skipped_where_missing() -> Iterator[None]:
    """Skips a test whose module, written by hand, needs a feature that the device lacks."""
    try:
        yield
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
