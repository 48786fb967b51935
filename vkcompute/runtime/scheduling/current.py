"""The graph being recorded and the runtime entered by `with`, per thread and, under asyncio, per task and its tasks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import get_ident
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.core.interrupts import call_into
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.task import Task


class TaskRecorder(Protocol):
    """Takes tasks in place of the queues, to run them later: a graph that is being recorded.

    Attributes:
        recording: True until the recording ends.
    """

    recording: bool

    def own(self, array: Any) -> None:
        """Registers an array that is made by the recording, and still to be computed."""

    def owns(self, array: Any) -> bool:
        """Returns True if the recording has made the array."""

    def result(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Any:
        """Returns an array without memory for a result of launches; None where results outlast the recording."""

    def add(self, task: Task) -> Future:
        """Records a task."""

    def stage_upload(self, array: npt.NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        """Returns a buffer that is filled before each run with the array, broadcast and converted."""

    def stage_download(self, array: npt.NDArray[Any]) -> Buffer:
        """Returns a buffer that is copied to the array after each run."""


_T = TypeVar("_T")
# With the thread: threads and executors may inherit a copy of the context in which they were started.
_Entry = tuple["weakref.ref[TaskRecorder]", "weakref.ref[object]", int]
_recorded: ContextVar[tuple[_Entry, ...]] = ContextVar("vkcompute graphs", default=())


_entered: ContextVar[tuple[tuple[weakref.ref[Any], weakref.ref[Any] | None], ...]] = ContextVar(
    "vkcompute runtimes", default=()
)
"""Runtimes, and the recorders by which they were entered, or None."""


def enter(runtime: Any, recorder: TaskRecorder | None = None) -> None:
    """Makes `innermost` return the runtime until it is closed, or the recorder ends."""
    entry = weakref.ref(runtime), None if recorder is None else weakref.ref(recorder)
    _entered.set((*filter(_runtime_in, _entered.get()), entry))


def innermost() -> Any:
    """Returns the runtime of the innermost `with` on a runtime or on one of its recordings; None outside of these."""
    for entry in reversed(_entered.get()):
        if (runtime := _runtime_in(entry)) is not None:
            return runtime
    return None


def leads_elsewhere(runtime: Any) -> bool:
    """Returns True in a `with` on another runtime: what is made there is on that one."""
    entries = _entered.get()
    if not entries or (entries[-1][1] is None and entries[-1][0]() is runtime):  # the usual cases, in one call
        return False
    valid = (*filter(_runtime_in, entries),)
    if len(valid) < len(entries):  # a recording has ended
        _entered.set(valid)
    return bool(valid) and valid[-1][0]() is not runtime


def _runtime_in(entry: tuple[weakref.ref[Any], weakref.ref[Any] | None]) -> Any:
    """Returns the runtime of an entry; None if its block has ended, or belongs to the parent of this process."""
    reference, by = entry
    if by is not None and ((recorder := by()) is None or not recorder.recording):
        return None
    runtime = reference()
    return None if runtime is None or runtime.closed or runtime.inherited else runtime


def is_recording() -> bool:
    """True if this thread may record for some scheduler: see `find`."""
    return bool(_recorded.get())


def find(scheduler: object) -> TaskRecorder | None:
    """Returns this thread's recorder for tasks of the scheduler, or None."""
    for reference, owner, thread in _recorded.get():
        recorder = reference()
        if recorder is not None and recorder.recording and owner() is scheduler and thread == get_ident():
            return recorder
    return None


def begin(recorder: TaskRecorder, scheduler: object) -> None:
    """Makes `find` return the recorder, on this thread and for this scheduler.

    Raises:
        ValueError: there is another one already.
    """
    if find(scheduler) is not None:
        raise ValueError("this thread is recording a graph already; leave that `with gpu.record()` first")
    end(recorder)
    _recorded.set((*_recorded.get(), (weakref.ref(recorder), weakref.ref(scheduler), get_ident())))


def unrecorded(function: Callable[..., _T], *arguments: Any) -> _T:
    """Returns `function(*arguments)`, whose work is launched at once, also while this thread records a graph."""
    tokens: list[Token[tuple[_Entry, ...]]] = []
    try:
        call_into(tokens, _recorded.set, ())
        return function(*arguments)
    finally:
        if tokens:
            _recorded.reset(tokens[0])


@contextmanager
def on_this_thread(recorder: TaskRecorder, scheduler: object) -> Iterator[None]:
    """Makes `find` return the recorder on this thread, too, while the thread that records waits for its work."""
    token = _recorded.set((*_recorded.get(), (weakref.ref(recorder), weakref.ref(scheduler), get_ident())))
    try:
        yield
    finally:
        _recorded.reset(token)


def end(recorder: TaskRecorder) -> None:
    """Ends a recorder; also removes those that no longer exist."""
    _recorded.set(tuple(entry for entry in _recorded.get() if entry[0]() not in (None, recorder)))
