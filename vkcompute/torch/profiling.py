"""Times of the device in `torch.profiler`: those of a profile of the runtime, which lasts as long as PyTorch's."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from vkcompute import disk
from vkcompute.torch.device_module import runtime
from vkcompute.torch.kernels import DEVICE_NAME, DEVICE_TYPES

_MEASURED = "_vk_profile"
"""Attribute of a profile of PyTorch: the profile of the runtime."""


def enable(replace: Callable[[Any, str, Any], None]) -> None:
    """Replaces methods of PyTorch's profile.

    Args:
        replace: sets an attribute of a class until the device is switched off.
    """
    owner = torch.autograd.profiler.profile
    replace(owner, "__init__", _made(owner.__init__))
    replace(owner, "_start_trace", _started(owner._start_trace))
    replace(owner, "__exit__", _ended(owner.__exit__))
    replace(owner, "_parse_kineto_results", _parsed(owner._parse_kineto_results))
    replace(owner, "export_chrome_trace", _exported(owner.export_chrome_trace))


def _made(original: Any) -> Any:
    """Returns the constructor, for which `cuda` means the device where programs say so."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, use_device: str | None = None, **named: Any) -> None:
        original(self, *args, use_device=DEVICE_NAME if use_device in DEVICE_TYPES else use_device, **named)

    return init


def _started(original: Any) -> Any:
    """Returns _start_trace, which begins a profile of the runtime where the device is to be measured."""

    @functools.wraps(original)
    def start(self: Any) -> None:
        original(self)
        if self.use_device == DEVICE_NAME:
            setattr(self, _MEASURED, runtime().profile().__enter__())

    return start


def _ended(original: Any) -> Any:
    """Returns __exit__, which ends the profile of the runtime after all work of the device."""

    @functools.wraps(original)
    def end(self: Any, *error: Any) -> Any:
        if (measured := getattr(self, _MEASURED, None)) is not None:
            torch.vk.synchronize()
            measured.__exit__(None, None, None)
        return original(self, *error)

    return end


def _parsed(original: Any) -> Any:
    """Returns _parse_kineto_results, whose events are those of the host and the tasks of the device."""

    @functools.wraps(original)
    def parse(self: Any, result: Any, *args: Any, **named: Any) -> Any:
        events = original(self, result, *args, **named)
        if (measured := getattr(self, _MEASURED, None)) is not None:
            add_tasks(events, measured.tasks, _since_epoch_ns() - result.trace_start_ns())
        return events

    return parse


def _since_epoch_ns() -> int:
    """Returns the nanoseconds from PyTorch's clock, which is that of the calendar, to zero of the runtime's."""
    return time.time_ns() - time.perf_counter_ns()


def add_tasks(events: list[Any], tasks: Sequence[Any], shift_ns: int) -> None:
    """Adds tasks of the device to PyTorch's events, and their times to the operators that launched them.

    Args:
        events: of the host, by their start.
        tasks: as of a profile of the runtime.
        shift_ns: from the runtime's clock to that of the events.
    """
    ordered = sorted(tasks, key=lambda task: task.enqueued_ns)
    launches_us = [(task.enqueued_ns + shift_ns) / 1000 for task in ordered]
    n_known = max((event.id for event in events), default=0)
    made = []
    for number, (task, operator) in enumerate(zip(ordered, _running(events, launches_us), strict=True), n_known + 1):
        if operator is not None:
            operator.append_kernel(task.name, 0, task.ns / 1000)
        made.append(_event(number, task, shift_ns))
    events.extend(made)
    events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))


def _running(events: Sequence[Any], times_us: Sequence[float]) -> Iterator[Any]:
    """Yields, for each of some ascending times, the operator of the host that runs then and began last, or None."""
    operators = [event for event in events if event.device_type == DeviceType.CPU and not event.is_async]
    active: list[Any] = []
    n_begun = 0
    for time_us in times_us:
        while n_begun < len(operators) and operators[n_begun].time_range.start <= time_us:
            active.append(operators[n_begun])
            n_begun += 1
        active = [event for event in active if event.time_range.end >= time_us]
        yield active[-1] if active else None


def _event(number: int, task: Any, shift_ns: int) -> Any:
    """Returns the event of a task."""
    start_us = (task.start_ns + shift_ns) / 1000
    return FunctionEvent(
        id=number,
        name=task.name,
        thread=0,
        start_us=start_us,
        end_us=start_us + task.ns / 1000,
        use_device=DEVICE_NAME,
        device_type=DeviceType.PrivateUse1,
        input_shapes=(),
        stack=[],
    )


def _exported(original: Any) -> Any:
    """Returns export_chrome_trace, which adds the tasks of the device to the file."""

    @functools.wraps(original)
    def export(self: Any, path: Any, *args: Any) -> Any:
        result = original(self, path, *args)
        if (measured := getattr(self, _MEASURED, None)) is not None:
            _add_to_file(Path(path), measured.tasks)
        return result

    return export


def _add_to_file(path: Path, tasks: Sequence[Any]) -> None:
    """Adds tasks of the device to a trace file, whose times are microseconds after its base."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    shift_ns = _since_epoch_ns() - int(trace.get("baseTimeNanoseconds", 0))
    for task in tasks:
        named = {"ph": "X", "cat": "kernel", "name": task.name, "pid": DEVICE_NAME, "tid": task.queue}
        trace["traceEvents"].append(named | {"ts": (task.start_ns + shift_ns) / 1000, "dur": task.ns / 1000})
    with disk.replacing(path) as temporary:
        temporary.write_text(json.dumps(trace), encoding="utf-8")
