"""Times of calls that launch work: on the device where it has timestamps, else on the host's clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vkcompute.runtime.profiling.profile import Profile
    from vkcompute.runtime.runtime import Runtime


def repeated(fn: Callable[[], Any], duration_ms: float, before: Callable[[], None], *, on_device: bool) -> list[float]:
    """Calls a function for this long, at least once; returns the times of the calls in milliseconds.

    A call has the time in which the devices are busy with its launches, if each call launches on devices with
    timestamps. Else it has the time until its launches have completed, on the host's clock.

    Args:
        before: is called before each call, and not measured.
        on_device: False for the host's clock in any case.
    """
    spans: list[tuple[int, int]] = []
    with ExitStack() as measuring:
        profiles = _profiles(measuring) if on_device else []
        total_ns = 0
        while not spans or total_ns < duration_ms * 1e6:
            before()
            start = time.perf_counter_ns()
            _complete(fn())
            spans.append((start, time.perf_counter_ns()))
            total_ns += spans[-1][1] - start
    tasks = [(each.enqueued_ns, each.start_ns, each.stop_ns) for profile in profiles for each in profile.tasks]
    busy = _busy(spans, tasks)
    found = busy if all(busy) else [stop - start for start, stop in spans]
    return [each / 1e6 for each in found]


def _complete(found: Any) -> None:
    """Waits for the future that a call has returned; without one, for all work of the open runtimes."""
    if hasattr(found, "result"):
        found.result()
    else:
        for runtime in _runtimes():
            runtime.wait()


def _runtimes() -> list[Runtime]:
    """Returns the open runtimes; none if no driver is loaded."""
    module = sys.modules.get("vkcompute.runtime.memory.context")
    return [] if module is None else [each for each in module.contexts() if not (each.closed or each.device.loss)]


def _profiles(measuring: ExitStack) -> list[Profile]:
    """Profiles the open runtimes, except those that the caller profiles."""
    found = []
    for runtime in _runtimes():
        with suppress(ValueError):  # a runtime has one profile at a time
            found.append(measuring.enter_context(runtime.profile()))
    return found


def _busy(spans: Sequence[tuple[int, int]], tasks: Iterable[tuple[int, int, int]]) -> list[int]:
    """Returns for each call the nanoseconds in which at least one of its tasks runs.

    Args:
        spans: start and stop of the calls, in order. A call has the tasks that are launched between them.
        tasks: the times of launch, start and stop.
    """
    found = [0] * len(spans)
    ordered, at, end = sorted(tasks), 0, 0
    for launched, start, stop in ordered:
        while at < len(spans) and spans[at][1] < launched:
            at, end = at + 1, 0
        if at < len(spans) and spans[at][0] <= launched:
            found[at] += max(0, stop - max(start, end))
            end = max(end, stop)
    return found
