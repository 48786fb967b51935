"""Times of calls that launch work: on the device where it has timestamps, else on the host's clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from vkcompute.runtime.profiling.profile import Profile
    from vkcompute.runtime.runtime import Runtime


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Returns the time of a call in milliseconds.

    It is the device's time for the launches of the call. Without timestamps or launches, it is the time until all work
    has completed, on the host's clock.

    Args:
        fn: launches work, and returns a `Future`, an array or None.
        warmup, rep: milliseconds of calls before the measurement, and of those that are measured.
        grad_to_none: objects whose attribute `grad` becomes None before each call.
        quantiles: the quantiles to return, as numbers from 0 to 1; None for one number.
        return_mode: "mean", "median", "min", "max", or "all" for a list.

    Raises:
        ValueError: an argument is wrong.
    """
    if return_mode not in ("mean", "median", "min", "max", "all"):
        raise ValueError(f"return_mode is mean, median, min, max or all; got {return_mode!r}")
    if warmup < 0 or rep < 0:
        raise ValueError(f"warmup and rep are milliseconds, not negative; got {warmup} and {rep}")
    if quantiles is not None and not all(0 <= quantile <= 1 for quantile in quantiles):
        raise ValueError(f"quantiles are numbers from 0 to 1; got {quantiles}")

    def before() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None

    repeated(fn, 0, before, on_device=False)  # it compiles, and may open the device
    repeated(fn, warmup, before, on_device=False)
    times = repeated(fn, rep, before, on_device=True)
    if quantiles is not None:
        results = [float(time_ms) for time_ms in np.quantile(times, quantiles)]
        return results[0] if len(results) == 1 else results
    return times if return_mode == "all" else float(getattr(np, return_mode)(times))


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
    tasks = [(task.enqueued_ns, task.start_ns, task.stop_ns) for profile in profiles for task in profile.tasks]
    busy = _busy(spans, tasks)
    times_ns = busy if all(busy) else [stop - start for start, stop in spans]
    return [time_ns / 1e6 for time_ns in times_ns]


def _complete(result: Any) -> None:
    """Waits for the future that a call has returned; without one, for all work of the open runtimes."""
    if hasattr(result, "result"):
        result.result()
    else:
        for runtime in _runtimes():
            runtime.wait()


def _runtimes() -> list[Runtime]:
    """Returns the open runtimes; none if no driver is loaded."""
    module = sys.modules.get("vkcompute.runtime.memory.context")
    contexts = () if module is None else module.contexts()
    return [context for context in contexts if not (context.closed or context.device.loss)]


def _profiles(measuring: ExitStack) -> list[Profile]:
    """Profiles the open runtimes, except those that the caller profiles."""
    profiles = []
    for runtime in _runtimes():
        with suppress(ValueError):  # a runtime has one profile at a time
            profiles.append(measuring.enter_context(runtime.profile()))
    return profiles


def _busy(spans: Sequence[tuple[int, int]], tasks: Iterable[tuple[int, int, int]]) -> list[int]:
    """Returns for each call the nanoseconds in which at least one of its tasks runs.

    Args:
        spans: start and stop of the calls, in order. A call has the tasks that are launched between them.
        tasks: the times of launch, start and stop.
    """
    busy = [0] * len(spans)
    ordered, at, end = sorted(tasks), 0, 0
    for launched, start, stop in ordered:
        while at < len(spans) and spans[at][1] < launched:
            at, end = at + 1, 0
        if at < len(spans) and spans[at][0] <= launched:
            busy[at] += max(0, stop - max(start, end))
            end = max(end, stop)
    return busy
