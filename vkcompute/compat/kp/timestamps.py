"""Timestamps of a sequence."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vkcompute.compat.kp.callback_task import CallbackTask
from vkcompute.compat.kp.memory_objects import Command
from vkcompute.core.timestamp_pool import TimestampPool
from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.core.command import Recorder
    from vkcompute.runtime.runtime import Runtime


class Timestamps:
    """A query pool with one timestamp before the first operation, and one after each.

    Args:
        max_operations: number of operations that the pool has timestamps for.

    Raises:
        MissingFeature: the device has no timestamps, or cannot reset them from the host.
    """

    def __init__(self, runtime: Runtime, max_operations: int) -> None:
        self._runtime, self._max_operations = runtime, max_operations
        self._pool = TimestampPool(runtime.scheduler.placement.recording_queue, max_operations + 1)
        self.close = self._pool.close
        self.reset()  # a query must be reset before its results are read: VUID-vkGetQueryPoolResults-None-09401

    def wrapped(self, commands: list[Command], number: int) -> list[Command]:
        """Returns the commands of operation `number`, counted from 1, with its timestamps.

        Raises:
            KomputeError: the pool has no timestamp left.
        """
        if number > self._max_operations:
            raise KomputeError(
                f"the sequence has timestamps for {self._max_operations} operations; got one more; "
                "make it with a larger total_timestamps"
            )
        if number > 1:
            return [*commands, self._write(number)]
        self.reset()  # discards the timestamps of an earlier recording
        return [self._write(0), *commands, self._write(1)]

    def _write(self, index: int) -> Command:
        pool = self._pool

        def record(recorder: Recorder) -> None:
            recorder.timestamp(pool.handle, index)

        return partial(CallbackTask("timestamp", (), (), record, pool).add, self._runtime)

    def reset(self) -> None:
        """Resets all timestamps from the host; the device must not be using any."""
        self._pool.reset()

    def ticks(self, n_timestamps: int) -> list[int]:
        """Returns the first timestamps, in ticks of the device.

        Raises:
            KomputeError: they have not been written.
        """
        ticks = self._pool.read(0, n_timestamps)
        if ticks is None:
            raise KomputeError("the sequence has not been evaluated since it was recorded; call eval() first")
        return ticks

    def ns(self, n_timestamps: int) -> list[float]:
        """Returns the first timestamps, in ns since the first one."""
        first, *_ = ticks = self.ticks(n_timestamps)
        return [(tick - first) % (1 << self._pool.bits) * self._pool.ns_per_tick for tick in ticks]
