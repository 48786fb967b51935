"""The interface of what traces the work of a call, to repeat it: see `compiled/call_trace.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.task import LaunchedKernel, Task

_T = TypeVar("_T")


class Tracer(Protocol):
    """Is told what one thread allocates, launches and transfers on a device."""

    def dispatched(
        self, command: Sequence[Any], writes: Sequence[Range], reads: Sequence[Range], launched: LaunchedKernel
    ) -> None:
        """Notes a launch of a kernel, with the arguments of `Scheduler.enqueue`."""

    def launched(self, task: Task) -> None:
        """Notes another task."""

    def allocated(self, buffer: Buffer) -> None:
        """Notes a new buffer, for results of launches."""

    def uploaded(self, buffer: Buffer, offset: int, nbytes: int) -> None:
        """Notes a write by the host."""

    def refuse(self, reason: str) -> None:
        """Notes that the call cannot be repeated."""

    def made(self, array: Any) -> None:
        """Notes a new lazy array."""

    def fused(self, array: Any) -> None:
        """Notes a lazy array that a kernel computes for itself, with others."""

    def computed(self, array: Any, compute: Callable[[], _T]) -> _T:
        """Returns `compute()`, which computes a lazy array."""

    def reported(
        self, buffer: Buffer, n_words: int, read: Callable[[Any], Exception | None], run: Callable[[], _T]
    ) -> _T:
        """Returns `run()`, which launches work that reports to a buffer: see `compiled/completion.py`."""
