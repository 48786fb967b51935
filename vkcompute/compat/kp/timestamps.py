"""Timestamps of a sequence: commands between its operations that write the device's time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vkcompute.compat.kp.memory import Command
from vkcompute.compat.kp.tasks import Plain
from vkcompute.core.clock import TimestampPool
from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.core.command import Recorder
    from vkcompute.runtime.runtime import Runtime


class Timestamps:
    """One before the first operation, and one after each.

    Args:
        n_operations: the most operations.

    Raises:
        MissingFeature: the device has no timestamps, or cannot reset them.
    """

    def __init__(self, runtime: Runtime, n_operations: int) -> None:
        self._runtime, self._most = runtime, n_operations
        self._pool = TimestampPool(runtime.scheduler.placement.recorded_for, n_operations + 1)
        self.close = self._pool.close
        self.reset()  # else they cannot even be asked whether they are written (VUID-vkGetQueryPoolResults-None-09401)

    def around(self, commands: list[Command], number: int) -> list[Command]:
        """The commands of operation `number`, counted from 1, with its timestamps.

        Raises:
            KomputeError: there are not so many.
        """
        if number > self._most:
            raise KomputeError(f"the sequence was made for {self._most} operations; this is one more")
        if number > 1:
            return [*commands, self._stamp(number)]
        self.reset()  # of what was recorded before
        return [self._stamp(0), *commands, self._stamp(1)]

    def _stamp(self, index: int) -> Command:
        pool = self._pool

        def write(recorder: Recorder) -> None:
            recorder.timestamp(pool.handle, index)

        return partial(Plain("timestamp", (), (), write, pool).add, self._runtime)

    def reset(self) -> None:
        """Makes them ready to be written again; none may be in use."""
        self._pool.reset()

    def ticks(self, n_stamps: int) -> list[int]:
        """The first so many.

        Raises:
            KomputeError: they have not been written.
        """
        found = self._pool.read(0, n_stamps)
        if found is None:
            raise KomputeError("the sequence has not been evaluated since it was recorded; call eval() first")
        return found

    def ns(self, n_stamps: int) -> list[float]:
        """The same in ns since the first."""
        first, *_ = found = self.ticks(n_stamps)
        return [(tick - first) % (1 << self._pool.bits) * self._pool.ns_per_tick for tick in found]
