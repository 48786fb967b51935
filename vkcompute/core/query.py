"""Timestamps: when the device was where, by its own clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkcompute.core import vk
from vkcompute.core.lifetime import DeviceChild
from vkcompute.errors import MissingFeature

if TYPE_CHECKING:
    from vkcompute.core.queue import Queue

_TIMESTAMP = 2  # VK_QUERY_TYPE_TIMESTAMP
_RESULT_64 = 0x1


class TimestampPool(DeviceChild):
    """`n_queries` timestamps to be written by commands of one queue (`Recorder.timestamp`), after a `reset`.

    Attributes:
        bits: how many bits a timestamp has; after so many it starts again from 0.
        ns_per_tick: length of its unit.

    Raises:
        MissingFeature: the queue's family has no timestamps.
    """

    def __init__(self, queue: Queue, n_queries: int) -> None:
        super().__init__(queue.device)
        self.queue, self.n_queries = queue, n_queries
        family = self.device.physical.queue_families[queue.family]
        if not family.timestamp_bits:
            raise MissingFeature(f"{queue} has no timestamps (timestampValidBits is 0); use another queue family")
        self.bits = family.timestamp_bits
        self.ns_per_tick = float(self.device.physical.limits["timestampPeriod"])
        info = vk.struct("VkQueryPoolCreateInfo", queryType=_TIMESTAMP, queryCount=n_queries)
        self.handle = self.own("QueryPool", info)

    def reset(self) -> None:
        """Makes all queries ready to be written again. None may be in use.

        From the host: queues that only copy have no command for it (VUID-vkCmdResetQueryPool-commandBuffer-cmdpool).

        Raises:
            MissingFeature: the device has no hostQueryReset.
        """
        if "hostQueryReset" not in self.device.features:
            raise MissingFeature(f"{self.device} has no hostQueryReset, which timestamps need")
        self.device.fn.vkResetQueryPool(self.device.handle, self.handle, 0, self.n_queries)

    def read(self, first: int, n_queries: int) -> list[int] | None:
        """Times of queries first … first + n_queries - 1, in ticks of the device's clock; see `Clock`.

        None where one has not been written, by work that is not finished or was never submitted; this does not wait.
        """
        self.require_open()
        ticks = vk.ffi.new("uint64_t[]", n_queries)
        call = self.device.fn.vkGetQueryPoolResults
        result = call(self.device.handle, self.handle, first, n_queries, 8 * n_queries, ticks, 8, _RESULT_64)
        if vk.check(result, "vkGetQueryPoolResults", self.queue):  # VK_NOT_READY
            return None
        return [tick & ((1 << self.bits) - 1) for tick in ticks]
