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


def repeated(fn: Callable[[], Any], milliseconds: float, before: Callable[[], None], *, measure: bool) -> list[float]:
    """Calls a function for this long, at least once; returns the times of the calls in milliseconds.

    A time is that for which the devices are busy with what the call launches, if all calls launch on devices with
    timestamps. Else it is the time until that has completed, on the host's clock.

    Args:
        before: is called before each call, and not measured.
        measure: False for the host's clock in any case.
    """
    spans: list[tuple[int, int]] = []
    with ExitStack() as measuring:
        profiles = _profiles(measuring) if measure else []
        total_ns = 0
        while not spans or total_ns < milliseconds * 1e6:
            before()
            start = time.perf_counter_ns()
            _complete(fn())
            spans.append((start, time.perf_counter_ns()))
            total_ns += spans[-1][1] - start
    tasks = [(each.enqueued_ns, each.start_ns, each.stop_ns) for profile in profiles for each in profile.tasks]
    on_device = _busy(spans, tasks)
    found = on_device if all(on_device) else [stop - start for start, stop in spans]
    return [each / 1e6 for each in found]


def _complete(found: Any) -> None:
    """Waits for what a call has launched: its result, or everything if it returns none."""
    if hasattr(found, "result"):
        found.result()
    else:
        for runtime in _runtimes():
            runtime.wait()


def _runtimes() -> list[Runtime]:
    """Returns the open runtimes; none if no driver is loaded."""
    module = sys.modules.get("vkcompute.runtime.memory.context")
    return (
        [] if module is None else [each for each in list(module.open_contexts) if not (each.closed or each.device.loss)]
    )


def _profiles(measuring: ExitStack) -> list[Profile]:
    """Returns profiles of the open runtimes, but of those that the caller profiles."""
    found = []
    for runtime in _runtimes():
        with suppress(ValueError):
            found.append(measuring.enter_context(runtime.profile()))
    return found


def _busy(spans: Sequence[tuple[int, int]], tasks: Iterable[tuple[int, int, int]]) -> list[int]:
    """Returns for each call the nanoseconds in which at least one task runs that was launched meanwhile.

    Args:
        spans: start and stop of the calls, in order.
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
