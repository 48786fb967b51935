"""Streams and events, as `cupy.cuda.Stream` and `cupy.cuda.Event`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from vkcompute.runtime.runtime import current_runtime


class Event:
    """A moment, after the work that was launched before `record`."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self._time_s: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Waits for the work before it, and takes the time: so that elapsed times are those of the device."""
        current_runtime().wait()
        self._time_s = time.perf_counter()

    def synchronize(self) -> None:
        """Does nothing: `record` has waited."""

    @property
    def done(self) -> bool:
        """True: `record` has waited."""
        return True

    @property
    def ptr(self) -> int:
        """A number of the event."""
        return id(self)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Returns the milliseconds between two events.

    Raises:
        ValueError: one was not recorded.
    """
    if start_event._time_s is None or end_event._time_s is None:
        raise ValueError("both events are recorded before the time between them is known; call record()")
    return (end_event._time_s - start_event._time_s) * 1e3


class Stream:
    """An order of work. Work is ordered by the memory that it uses, so that a stream changes no result."""

    null: Stream
    ptds: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self.null_stream, self.non_blocking, self.priority = null, non_blocking, priority or 0
        self.ptr = 0 if null else 2 if ptds else id(self)
        self.device_id = -1 if null or ptds else 0
        self._outer: list[Stream] = []

    def use(self) -> Stream:
        """Makes it the current stream."""
        _current.stream = self
        return self

    def __enter__(self) -> Stream:
        self._outer.append(get_current_stream())
        return self.use()

    def __exit__(self, *_: object) -> None:
        self._outer.pop().use()

    def synchronize(self) -> None:
        """Waits for all work of the device."""
        current_runtime().wait()

    @property
    def done(self) -> bool:
        """True once all work is done, for which this waits."""
        self.synchronize()
        return True

    def record(self, event: Event | None = None) -> Event:
        """Returns an event after the work before it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Does nothing: work is ordered by the memory that it uses."""

    def add_callback(self, callback: Callable[[Stream, int, Any], Any], arg: Any) -> None:
        """Calls a function with the stream, 0 and `arg`, after the work before."""
        self.synchronize()
        callback(self, 0, arg)

    def launch_host_func(self, callback: Callable[[Any], Any], arg: Any) -> None:
        """Calls a function with `arg`, after the work before."""
        self.synchronize()
        callback(arg)

    def __int__(self) -> int:
        return self.ptr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.ptr == self.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)

    def __repr__(self) -> str:
        return f"<Stream {self.ptr} (device {self.device_id})>"


Stream.null, Stream.ptds = Stream(null=True), Stream(ptds=True)


class _Current(threading.local):
    stream = Stream.null


_current = _Current()


def get_current_stream(device_id: int = -1) -> Stream:
    """Returns the current stream of the thread."""
    return _current.stream
