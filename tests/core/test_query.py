"""Timestamps: increasing, in nanoseconds, and about as long as the host sees it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

import vkcompute as vc
from vkcompute.core.command import CommandPool, Recorder
from vkcompute.core.timestamp_pool import TimestampPool


@pytest.fixture
def pool(gpu: vc.Runtime) -> TimestampPool:
    queue = gpu.device.queues[0]
    if not gpu.device.physical.queue_families[queue.family].timestamp_bits:
        pytest.skip("the queue has no timestamps")
    return TimestampPool(queue, 8)


def test_times_increase_and_agree_with_the_host(gpu: vc.Runtime, pool: TimestampPool) -> None:
    queue = pool.queue
    commands = CommandPool(queue)
    x = gpu.zeros(1, "uint32")
    gpu.wait()
    start = time.perf_counter_ns()
    recorder = Recorder(queue, commands.acquire())
    pool.reset()
    recorder.timestamp(pool.handle, 0)
    for i in range(1, 8):
        recorder.fill(x.buffer.block.handle, x.buffer.offset, 4, i)
        recorder.barrier()
        recorder.timestamp(pool.handle, i)
    recorder.end()
    queue.wait(queue.submit([recorder.handle]))
    took = time.perf_counter_ns() - start
    times = pool.read(0, 8)
    assert times is not None
    assert times == sorted(times)
    assert all(isinstance(ticks, int) for ticks in times)
    assert 0 <= (times[-1] - times[0]) * pool.ns_per_tick <= took * 1.1
    assert pool.read(3, 2) == times[3:5]
    assert x.numpy().tolist() == [7]
    commands.close()
    pool.close()


def test_what_nobody_wrote_cannot_be_read(pool: TimestampPool) -> None:
    pool.reset()
    assert pool.read(0, 2) is None
    pool.close()


def test_a_closed_pool_says_so(pool: TimestampPool) -> None:
    pool.close()
    with pytest.raises(vc.ClosedError):
        pool.read(0, 1)


def test_a_queue_without_timestamps_says_so(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    families = tuple(replace(family, timestamp_bits=0) for family in gpu.device.physical.queue_families)
    monkeypatch.setitem(vars(gpu.device.physical), "queue_families", families)
    with pytest.raises(vc.MissingFeature, match="no timestamps"):
        TimestampPool(gpu.device.queues[0], 1)
