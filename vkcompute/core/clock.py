"""The device's clock, and its calibration against the host's."""

from __future__ import annotations

import time
from dataclasses import dataclass

from vkcompute.core import features, vk
from vkcompute.core.logical_device import LogicalDevice

EXTENSIONS = features.CALIBRATED_TIMESTAMPS
_INFO, _INFO_TYPE = "VkCalibratedTimestampInfoKHR", 1_000_184_000  # the binding has a wrong number
_DEVICE_DOMAIN = 0  # VK_TIME_DOMAIN_DEVICE_KHR
_HOST_DOMAINS = {"clock_gettime(CLOCK_MONOTONIC)": 1, "QueryPerformanceCounter()": 3}  # the clocks of perf_counter_ns
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """The device's and the host's clock, read at the same time.

    Attributes:
        ticks: the device's clock, in the unit of its timestamps.
        host_ns: `time.perf_counter_ns`.
        error_ns: the most time between the two readings.
    """

    ticks: int
    host_ns: int
    error_ns: int


def read_both(device: LogicalDevice) -> Reading | None:
    """Reads both clocks by VK_KHR_calibrated_timestamps, in the best of a few tries; None if it is not supported."""
    suffix = next((name[3:6] for name in EXTENSIONS if name in device.extensions), None)
    clock = time.get_clock_info("perf_counter")
    domain = _HOST_DOMAINS.get(clock.implementation)
    if suffix is None or domain is None or not {_DEVICE_DOMAIN, domain} <= _domains(device, suffix):
        return None
    domains = _DEVICE_DOMAIN, domain
    infos = vk.array(_INFO, [vk.struct(_INFO, sType=_INFO_TYPE, timeDomain=domain) for domain in domains])
    call = f"vkGetCalibratedTimestamps{suffix}"
    ticks, error = vk.ffi.new("uint64_t[2]"), vk.ffi.new("uint64_t*")
    tries = []
    for _ in range(_TRIES):
        vk.check(getattr(device.fn, call)(device.handle, 2, infos, ticks, error), call, device)
        tries.append(Reading(ticks[0], round(ticks[1] * (clock.resolution * 1e9)), error[0]))
    return min(tries, key=lambda sample: sample.error_ns)


def _domains(device: LogicalDevice, suffix: str) -> set[int]:
    """Returns the clocks that the device can read at the same time, as VkTimeDomainKHR."""
    physical, call = device.physical, f"vkGetPhysicalDeviceCalibrateableTimeDomains{suffix}"
    function = physical.instance.function(call)
    return set(vk.enumerate_all(call, "VkTimeDomainEXT", physical.handle, function=function))


class Clock:
    """Converts a queue's timestamps to the host's clock.

    Two crystals drift apart by about 10 us per second. If the readings show a drift, times are interpolated between
    them; else the nominal period applies, which is more precise over a short time.

    Args:
        ns_per_tick: the nominal period.
        bits: the width of a timestamp. It wraps around at most once between the readings.
        before, after: readings before and after all timestamps.
    """

    def __init__(self, ns_per_tick: float, bits: int, before: Reading, after: Reading) -> None:
        self._wrap, self._first = 1 << bits, before.ticks
        n_ticks, ns = (after.ticks - before.ticks) % self._wrap, after.host_ns - before.host_ns
        self._margin = (self._wrap - n_ticks) // 2  # timestamps may precede or follow the readings by this
        self._zero, self._zero_ns, self._ns_per_tick = 0, before.host_ns, ns_per_tick
        if abs(ns - n_ticks * ns_per_tick) > before.error_ns + after.error_ns and n_ticks:
            self._ns_per_tick = ns / n_ticks
        elif after.error_ns < before.error_ns:
            self._zero, self._zero_ns = n_ticks, after.host_ns

    def host_ns(self, ticks: int) -> int:
        """Returns the time of a timestamp on the clock of `time.perf_counter_ns`."""
        # Subtracts before it multiplies: a device may count from 1970, and floats of that many ns are 256 ns apart.
        n_ticks = (ticks - self._first + self._margin) % self._wrap - self._margin
        return self._zero_ns + round((n_ticks - self._zero) * self._ns_per_tick)
