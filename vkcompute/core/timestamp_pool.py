"""Timestamps: times of the device, written by commands of a queue."""

from __future__ import annotations

from vkcompute.core import vk
from vkcompute.core.device_child import DeviceChild
from vkcompute.core.queue import Queue
from vkcompute.errors import MissingFeature

_TIMESTAMP = 2  # VK_QUERY_TYPE_TIMESTAMP
_RESULT_64 = 0x1


class TimestampPool(DeviceChild):
    """A query pool of `n_queries` timestamps, written by `Recorder.timestamp` on one queue after a `reset`.

    Attributes:
        bits: the width of a timestamp, after which it wraps around to 0.
        ns_per_tick: its unit.

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
        self.handle = self.create("QueryPool", info)

    def reset(self) -> None:
        """Resets all queries, from the host, so that they can be written again. None may be in use.

        Transfer queues have no command for it (VUID-vkCmdResetQueryPool-commandBuffer-cmdpool).

        Raises:
            MissingFeature: the device has no hostQueryReset.
        """
        if "hostQueryReset" not in self.device.features:
            raise MissingFeature(f"{self.device} has no hostQueryReset, which timestamps need; use another device")
        self.device.fn.vkResetQueryPool(self.device.handle, self.handle, 0, self.n_queries)

    def read(self, first: int, n_queries: int) -> list[int] | None:
        """Returns the times of queries first … first + n_queries - 1 in ticks, without waiting; see `Clock`.

        None if one has not been written: its work is pending or was never submitted.
        """
        self.require_open()
        ticks = vk.ffi.new("uint64_t[]", n_queries)
        call = self.device.fn.vkGetQueryPoolResults
        result = call(self.device.handle, self.handle, first, n_queries, 8 * n_queries, ticks, 8, _RESULT_64)
        if vk.check(result, "vkGetQueryPoolResults", self.queue):  # VK_NOT_READY
            return None
        return [tick & ((1 << self.bits) - 1) for tick in ticks]
