"""Runtimes on emulated hardware: several queues, or staged transfers, on a device that needs neither."""

from __future__ import annotations

from typing import Any

import vkcompute as vc
from vkcompute.core.emulation import emulated


def open_runtime(*, timelines: int | tuple[int, int] = 1, staging: bool = False, **options: Any) -> vc.Runtime:
    """Opens a runtime with at least so many queues, or that stages every transfer; see `emulation.Emulation`.

    Args:
        timelines: compute queues, or (compute, transfer) queues.
        staging: whether the host may not access device memory.
        options: passed on to `vc.Runtime`.
    """
    with emulated(timelines=timelines, staging=staging):
        return vc.Runtime(**options)
