"""Lifetimes: handles that are destroyed once, in order, and never while the device still uses them."""

from __future__ import annotations

import os
from collections import Counter, deque
from typing import Any, NoReturn, TypeVar

from vkcompute.core.interrupts import BlockExit, begin_block, call_into
from vkcompute.core.validation import raise_pending
from vkcompute.errors import ClosedError, closed

_H = TypeVar("_H", bound="Handle")

Deletion = tuple[Any, ...]
"""A function that destroys or recycles something, and its arguments."""

process_id = [os.getpid()]
"""The id of this process, in a list that forks update. os.getpid() is a system call, too slow for each launch."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: process_id.__setitem__(0, os.getpid()))

live: dict[int, str] = {}
"""id -> kind of each open handle. Python stores and deletes an item at once, so nothing needs a lock."""


def live_counts() -> dict[str, int]:
    """Returns the number of open handles of each kind that has any. For tests of leaks."""
    return dict(sorted(Counter(live.copy().values()).items()))


def run_deletions(deletions: list[Deletion], first: int = -1) -> None:
    """Runs deletions from the newest to the oldest, or with `first=0` from the oldest.

    After an interrupt, the list holds the ones that have not run.
    """
    while deletions:
        run_deletion(deletions, first)


def run_deletion(deletions: list[Deletion] | deque[Deletion], index: int) -> None:
    """Runs one deletion and removes it; an interrupt cannot separate a driver's function from the removal.

    A deletion that raises remains. An objection of the validation layer is raised once the deletion is removed.
    """
    function, *arguments = deletions[index]
    done: list[Any] = []
    try:
        call_into(done, function, *arguments)
    finally:
        if done:
            del deletions[index]
    raise_pending()


def forked_error(what: str, pid: int) -> ClosedError:
    """Returns the error for using an object that belongs to the parent of this process."""
    return ClosedError(
        f"{what} belongs to process {pid}, and drivers do not survive a fork; start workers with multiprocessing's "
        "'spawn' method, or open devices only in them"
    )


def refuse_pickling(self: object) -> NoReturn:
    """The `__reduce__` of objects on a device: raises TypeError."""
    raise TypeError(
        f"an object of {type(self).__name__} lives on its device and cannot be pickled or copied by copy.copy; use "
        ".numpy(), .copy() of arrays, and open a runtime in each process"
    )


class Handle:
    """Owns driver objects; closed by `close()`, by `with`, or at last by its finalizer.

    A subclass destroys what it owns in `_destroy`. Ctrl-C may interrupt that; the next `close()` then calls it again
    for the rest. A handle holds its parent in an attribute, so that the parent outlives it.
    """

    _open = _unfinished = False
    _pid = 0
    _close_in_finalizer = True  # False where another handle always closes this one

    def _opened(self) -> None:
        """Marks the handle as open: the last step of a constructor, once there is something to destroy."""
        self._pid, key, kind = process_id[0], id(self), type(self).__name__
        self._open = True  # indivisible from the next line
        live[key] = kind

    @property
    def inherited(self) -> bool:
        """True in a forked child of the process that made the handle: it can be neither used nor destroyed there."""
        return self._pid != process_id[0]

    @property
    def closed(self) -> bool:
        """True once `close()` has been called."""
        return not self._open

    def close(self) -> None:
        """Destroys the object. A second call only finishes what Ctrl-C interrupted; a forked child destroys nothing.

        A child drops values of the parent's other threads before the hooks of forks run: `process_id` may be old here.
        """
        key = id(self)
        if self._open:
            self._open, self._unfinished = False, True  # indivisible from the next line
            del live[key]
        if self._unfinished and self._pid == os.getpid():
            self._unfinished = False  # so that a call on another thread meanwhile does nothing
            try:
                self._destroy()
            except BaseException:
                self._unfinished = True
                raise

    def _destroy(self) -> None:
        raise TypeError(f"{type(self).__name__} defines no _destroy")

    def require_open(self) -> None:
        """Raises ClosedError if the object is closed, or belongs to the parent of this process."""
        if self._open and self._pid == process_id[0]:
            return
        if not self._open:
            raise closed(f"this {type(self).__name__} is closed; make a new one")
        raise forked_error(f"this {type(self).__name__}", self._pid)

    __reduce__ = refuse_pickling

    def __enter__(self: _H) -> _H:
        begin_block(self)
        self.require_open()
        return self

    def _exit(self, *_: object) -> None:
        self.close()

    __exit__ = BlockExit(_exit, lambda handle: handle.close())

    def __del__(self) -> None:
        # The collector finalizes a reference cycle in any order, parents before children too.
        try:
            if self._close_in_finalizer:
                self.close()
        except Exception:  # a finalizer cannot raise; the driver frees the rest when the process ends
            live[-id(self)] = "unfinalized " + type(self).__name__
