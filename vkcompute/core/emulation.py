"""Emulated hardware, for tests: several queues, memory that the host cannot access, or small limits.

The device itself need have none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from vkcompute.core.interrupts import BlockExit, begin_block


@dataclass(frozen=True, slots=True)
class Emulation:
    """Properties that a device emulates, chosen when it is opened.

    Attributes:
        timelines: the fewest (compute, transfer) queues. Where the device has fewer, several share one of its compute
            queues, each with a timeline semaphore of its own: work is ordered between them as between real queues.
        staging: treats device memory as invisible to the host, so that every transfer is staged.
        limits: members of VkPhysicalDeviceLimits by name, in the place of the device's own.
    """

    timelines: tuple[int, int] = (1, 0)
    staging: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)


NOTHING = Emulation()
current: ContextVar[Emulation] = ContextVar("emulation", default=NOTHING)
"""Read by `Device` when it is opened."""


class emulated:  # noqa: N801 - called as a function
    """Emulates hardware on the devices opened in the block; see `Emulation`. An int counts compute queues alone."""

    def __init__(
        self,
        *,
        timelines: int | tuple[int, int] = 1,
        staging: bool = False,
        limits: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        counts = (timelines, 0) if isinstance(timelines, int) else timelines
        self._emulation, self._outer = Emulation(counts, staging, limits), NOTHING

    def __enter__(self) -> None:
        self._outer = current.get()
        begin_block(self)
        current.set(self._emulation)

    def _exit(self, *_: object) -> None:
        current.set(self._outer)

    __exit__ = BlockExit(_exit, _exit)
