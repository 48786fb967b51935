"""Streams and events. Launches are ordered by the data that they access, whatever their stream."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from vkcompute.runtime.runtime import current_runtime


class Stream:
    """A stream of launches. It orders nothing that hazards do not order.

    Attributes:
        external: True for that of another library.
    """

    def __init__(self, handle: int, *, external: bool = False) -> None:
        self.handle, self.external = handle, external

    def __int__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        return f"<stream {self.handle}>"

    def synchronize(self) -> None:
        """Waits for all launches."""
        current_runtime().wait()

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Waits for all launches at the end of a block."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Any, int, Any], object], arg: Any = None) -> None:
        """Calls `callback(stream, status, arg)` once earlier launches have finished; here, it waits for them."""
        self.synchronize()
        callback(self, 0, arg)

    async def async_done(self) -> Stream:
        """Waits for all launches."""
        self.synchronize()
        return self


class Event:
    """A moment between launches, at which the host waits for those before it."""

    def __init__(self, timing: bool = True) -> None:
        self.timing = timing
        self._time: float | None = None

    def record(self, stream: Any = 0) -> None:
        """Notes the time at which earlier launches have finished; waits for them."""
        current_runtime().wait()
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Waits for the moment."""

    def query(self) -> bool:
        """Returns True: `record` has waited."""
        return True

    def wait(self, stream: Any = 0) -> None:
        """Makes later launches of a stream wait for the moment."""

    def elapsed_time(self, evtend: Event) -> float:
        """Returns the milliseconds from this moment to another."""
        if self._time is None or evtend._time is None:
            raise RuntimeError("an event has a time once it is recorded, by event.record()")
        return (evtend._time - self._time) * 1000


def stream() -> Stream:
    """Makes a stream."""
    stream.last += 1  # type: ignore[attr-defined]
    return Stream(stream.last)  # type: ignore[attr-defined]


stream.last = 2  # type: ignore[attr-defined]


def default_stream() -> Stream:
    """Returns the default stream."""
    return Stream(0)


def legacy_default_stream() -> Stream:
    """Returns the default stream of a process."""
    return Stream(1)


def per_thread_default_stream() -> Stream:
    """Returns the default stream of a thread."""
    return Stream(2)


def external_stream(ptr: int) -> Stream:
    """Returns a stream for that of another library; it orders nothing."""
    return Stream(ptr, external=True)


def event(timing: bool = True) -> Event:
    """Makes an event."""
    return Event(timing)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Returns the milliseconds from one event to another."""
    return evtstart.elapsed_time(evtend)


def synchronize() -> None:
    """Waits for all launches."""
    current_runtime().wait()
