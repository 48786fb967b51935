"""CPU time of calls that enqueue work: of the threads that run Python, with their driver calls, and of the drivers'."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

CALLS = 24
"""Calls between two waits: fewer than a batch of launches, so that none waits for the device."""
ROUNDS = 5


def per_call_us(call: Callable[[], Any], wait: Callable[[], Any], calls: int = CALLS, rounds: int = ROUNDS) -> float:
    """Returns the least of microseconds per call over rounds, of which each enqueues calls, then waits untimed.

    What else runs on the machine only adds to a round: it takes caches, and the other half of a core.
    """
    for _ in range(3):  # compiles, plans, and fills pools
        call()
        wait()
    times = []
    for _ in range(rounds):
        start = _cpu_s()
        for _ in range(calls):
            call()
        times.append(_cpu_s() - start)
        wait()
    return min(times) / calls * 1e6


def device_us(call: Callable[[], Any], wait: Callable[[], Any], calls: int = CALLS, rounds: int = ROUNDS) -> float:
    """Returns the least of microseconds per call over rounds that the driver's own threads took, until it was idle."""
    for _ in range(3):
        call()
        wait()
    times = []
    for _ in range(rounds):
        start = time.process_time() - _cpu_s()
        for _ in range(calls):
            call()
        wait()
        times.append(time.process_time() - _cpu_s() - start)
    return min(times) / calls * 1e6


def _cpu_s() -> float:
    """CPU seconds of all threads of Python; those of drivers are none. Elsewhere than on Linux, of this thread."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.thread_time()
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in threading.enumerate() if thread.ident]
    return sum(map(time.clock_gettime, clocks))
