"""Timestamps of the device, and its clock beside the host's: readings of both at one moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkcompute.core import vk
from vkcompute.core.lifetime import DeviceChild
from vkcompute.errors import MissingFeature

if TYPE_CHECKING:
    from vkcompute.core.device import Device
    from vkcompute.core.queue import Queue

EXTENSIONS = ("VK_KHR_calibrated_timestamps", "VK_EXT_calibrated_timestamps")
_INFO, _INFO_TYPE = "VkCalibratedTimestampInfoKHR", 1_000_184_000  # the binding has another number, which is wrong
_DEVICE_DOMAIN = 0  # VK_TIME_DOMAIN_DEVICE_KHR
_HOST_DOMAINS = {"clock_gettime(CLOCK_MONOTONIC)": 1, "QueryPerformanceCounter()": 3}  # what perf_counter_ns reads
_TRIES = 5
_TIMESTAMP = 2  # VK_QUERY_TYPE_TIMESTAMP
_RESULT_64 = 0x1


@dataclass(frozen=True, slots=True)
class Reading:
    """Both clocks at one moment.

    Attributes:
        ticks: the device's, as its timestamps count.
        host_ns: `time.perf_counter_ns`.
        error_ns: the moments of the two are at most so far apart.
    """

    ticks: int
    host_ns: int
    error_ns: int


def read_both(device: Device) -> Reading | None:
    """Both clocks by VK_KHR_calibrated_timestamps, the closest of a few tries; None where the device has no such."""
    suffix = next((name[3:6] for name in EXTENSIONS if name in device.extensions), None)
    clock = time.get_clock_info("perf_counter")
    domain = _HOST_DOMAINS.get(clock.implementation)
    if suffix is None or domain is None or not {_DEVICE_DOMAIN, domain} <= _domains(device, suffix):
        return None
    domains = _DEVICE_DOMAIN, domain
    infos = vk.array(_INFO, [vk.struct(_INFO, sType=_INFO_TYPE, timeDomain=each) for each in domains])
    call = f"vkGetCalibratedTimestamps{suffix}"
    found, error = vk.ffi.new("uint64_t[2]"), vk.ffi.new("uint64_t*")
    tries = []
    for _ in range(_TRIES):
        vk.check(getattr(device.fn, call)(device.handle, 2, infos, found, error), call, device)
        tries.append(Reading(found[0], round(found[1] * (clock.resolution * 1e9)), error[0]))
    return min(tries, key=lambda each: each.error_ns)


def _domains(device: Device, suffix: str) -> set[int]:
    """The clocks that the device reads together, as VkTimeDomainKHR."""
    physical, call = device.physical, f"vkGetPhysicalDeviceCalibrateableTimeDomains{suffix}"
    function = physical.instance.function(call)
    return set(vk.enumerate_all(call, "VkTimeDomainEXT", physical.handle, function=function))


class Clock:
    """Puts a queue's timestamps on the host's clock.

    Two crystals drift apart, by some 10 us per second: where the readings show it, what lies between them is
    interpolated; else the nominal period counts, which is the better one over a short time.

    Args:
        ns_per_tick: the nominal period.
        bits: how many of a timestamp's bits count. Between the readings is less than they can count to.
        before, after: readings around all timestamps.
    """

    def __init__(self, ns_per_tick: float, bits: int, before: Reading, after: Reading) -> None:
        self._wrap, self._first = 1 << bits, before.ticks
        n_ticks, ns = (after.ticks - before.ticks) % self._wrap, after.host_ns - before.host_ns
        self._margin = (self._wrap - n_ticks) // 2  # a timestamp so much before or after counts as that
        self._zero, self._zero_ns, self._ns_per_tick = 0, before.host_ns, ns_per_tick
        if abs(ns - n_ticks * ns_per_tick) > before.error_ns + after.error_ns and n_ticks:
            self._ns_per_tick = ns / n_ticks
        elif after.error_ns < before.error_ns:
            self._zero, self._zero_ns = n_ticks, after.host_ns

    def host_ns(self, ticks: int) -> int:
        """The moment of a timestamp on the clock of `time.perf_counter_ns`."""
        # Differences first: a device may count from 1970, and a float of so many ns is good to 256 ns.
        n_ticks = (ticks - self._first + self._margin) % self._wrap - self._margin
        return self._zero_ns + round((n_ticks - self._zero) * self._ns_per_tick)


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
