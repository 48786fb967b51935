"""Runtimes on emulated hardware: several queues, staged transfers or small limits; and their dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import vkcompute as vc
from vkcompute.core.emulation import emulated


def open_runtime(
    *,
    timelines: int | tuple[int, int] = 1,
    staging: bool = False,
    limits: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> vc.Runtime:
    """Opens a runtime with at least so many queues, that stages every transfer, or with other limits.

    See `emulation.Emulation`.

    Args:
        timelines: compute queues, or (compute, transfer) queues.
        staging: whether the host may not access device memory.
        limits: in the place of the device's own.
        options: passed on to `vc.Runtime`.
    """
    with emulated(timelines=timelines, staging=staging, limits=limits):
        return vc.Runtime(**options)


def lacks(gpu: vc.Runtime, dtype: str) -> bool:
    """True if the device lacks the dtype."""
    features = {"float16": "shaderFloat16", "float64": "shaderFloat64"}
    features |= {f"{kind}{n}": f"shaderInt{n}" for kind in ("int", "uint") for n in (8, 16, 64)}
    return dtype in features and features[dtype] not in gpu.device.features
