"""Streams and events of the device: there is one stream, and an event has the times of the device's queues."""

from __future__ import annotations

from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME


class Stream(torch.Stream):  # type: ignore[misc]
    """The only stream: the runtime orders work by the memory that it reads and writes."""

    def __new__(cls, device: Any = None, priority: int = 0, **_: Any) -> Any:
        return super().__new__(cls, device=torch.device(DEVICE_NAME, 0))

    def synchronize(self) -> None:
        """Waits for all work of the device."""
        torch.vk.synchronize()

    def query(self) -> bool:
        """Returns True if all work has completed."""
        from vkcompute.torch import timestamps

        return timestamps.has_completed()

    def wait_stream(self, stream: Any) -> None:
        """Does nothing: there is one stream."""

    def wait_event(self, event: Any) -> None:
        """Does nothing: there is one stream."""

    def record_event(self, event: Any = None) -> Event:
        """Returns an event that is recorded now."""
        event = Event() if event is None else event
        return event.record(self)  # type: ignore[no-any-return]

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return


class StreamContext:
    """The context `torch.vk.stream`, which changes nothing: there is one stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> Any:
        return self.stream

    def __exit__(self, *_: object) -> None:
        return


class Event:
    """A moment in the work of the device.

    Args:
        enable_timing: whether `elapsed_time` is to be called.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._has_time, self._marks = enable_timing, list[Any]()
        self.device = torch.device(DEVICE_NAME, 0)

    def record(self, stream: Any = None) -> Event:
        """Notes the moment after all work so far, which is launched. Returns this event."""
        from vkcompute.torch import timestamps

        self._marks = timestamps.record(has_time=self._has_time)
        return self

    def query(self) -> bool:
        """Returns True if the work before the event has completed."""
        return all(mark.future.done() for mark in self._marks)

    def wait(self, stream: Any = None) -> None:
        """Does nothing: there is one stream."""

    def synchronize(self) -> None:
        """Waits for the work before the event."""
        for mark in self._marks:
            mark.future.result()

    def elapsed_time(self, end_event: Event) -> float:
        """Returns the milliseconds of the device from this event to a later one; waits for both.

        Raises:
            RuntimeError: one of them has not been recorded, or was made without enable_timing.
        """
        for event in (self, end_event):
            if not (event._has_time and event._marks):
                raise RuntimeError("Both events must be recorded, and made with enable_timing=True, to get their times")
            event.synchronize()
        return (_ns(end_event) - _ns(self)) / 1e6


def _ns(event: Event) -> float:
    """Returns the time at which the last queue has reached an event."""
    return max(float(mark.ns()) for mark in event._marks)
