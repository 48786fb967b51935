"""The device's clock is put on the host's: whatever it counts from, however fast, and where it starts again from 0."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.core import clock
from vkcompute.core.clock import Clock, Reading, read_both


@given(
    bits=st.sampled_from([36, 48, 64]),
    ns_per_tick=st.sampled_from([1.0, 52.08, 1000 / 19.2]),
    drift=st.sampled_from([0.0, 5e-5, -1e-3]),
    first=st.integers(0, 2**64 - 1),
    length=st.integers(1, 10**13),
    at=st.floats(0, 1),
    errors=st.tuples(st.integers(0, 50_000), st.integers(0, 50_000)),
    signs=st.tuples(st.sampled_from([-1, 1]), st.sampled_from([-1, 1])),
)
def test_a_timestamp_is_as_exact_as_the_readings(
    bits: int,
    ns_per_tick: float,
    drift: float,
    first: int,
    length: int,
    at: float,
    errors: tuple[int, int],
    signs: tuple[int, int],
) -> None:
    """The readings are wrong by as much as they say; what lies between them is at most so wrong, and by the drift that
    hides in their errors."""
    real, mask, zero = ns_per_tick * (1 + drift), (1 << bits) - 1, 10**15

    def host(n_ticks: int) -> int:
        return zero + round(n_ticks * real)

    n_ticks = min(int(length / ns_per_tick), (1 << bits) - 2)
    ends = [
        Reading((first + n) & mask, host(n) + sign * error, error)
        for n, sign, error in zip((0, n_ticks), signs, errors, strict=True)
    ]
    n = int(at * n_ticks)
    result = Clock(ns_per_tick, bits, *ends).host_ns((first + n) & mask)
    assert abs(result - host(n)) <= 2 * sum(errors) + 2


def test_short_times_are_the_nominal_ones() -> None:
    """Readings 50 us wrong stretch nothing: a task of 10 us in a profile of 100 us is as long as the device says."""
    shifted = Clock(2.0, 64, Reading(0, 1000, 50_000), Reading(50_000, 150_000, 50_000))
    assert shifted.host_ns(25_000) - shifted.host_ns(20_000) == 10_000


def test_both_clocks_are_read_where_the_device_offers_it(gpu: vc.Runtime) -> None:
    before = time.perf_counter_ns()
    reading = read_both(gpu.device)
    after = time.perf_counter_ns()
    offered = {*clock.EXTENSIONS} & gpu.device.physical.extensions
    assert (reading is not None) == bool(offered)
    if reading is None:
        pytest.skip("no calibrated timestamps on this device")
    assert before - reading.error_ns <= reading.host_ns <= after + reading.error_ns
    assert 0 <= reading.error_ns < 10**9
    later = read_both(gpu.device)
    assert later is not None
    assert later.ticks > reading.ticks
    assert later.host_ns > reading.host_ns


def test_a_device_whose_clock_goes_with_no_clock_of_ours(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_domains", lambda device, suffix: {0, 2})  # CLOCK_MONOTONIC_RAW only
    assert read_both(gpu.device) is None
