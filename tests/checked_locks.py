"""Locks that know their rank, in place of the library's: taking one out of order is an error, in whichever thread."""

from __future__ import annotations

import threading
from typing import Any

from vkcompute import locks

_held = threading.local()
violations: list[str] = []
"""Locks that were taken out of order, also where nobody saw the error."""


def held() -> list[CheckedLock]:
    """The locks that this thread holds, in the order in which it took them."""
    result: list[CheckedLock] = _held.__dict__.setdefault("locks", [])
    return result


class CheckedLock:
    """A reentrant lock that demands that the thread holds none of its rank or of a higher one."""

    def __init__(self, rank: locks.Rank) -> None:
        self.rank, self._lock = rank, threading.RLock()
        inner: Any = self._lock
        self._is_owned = inner._is_owned

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._is_owned() and (above := [item.rank.name for item in held() if item.rank >= self.rank]):
            violations.append(f"{self.rank.name} is taken with {', '.join(above)} held")
            raise AssertionError(violations[-1])
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            held().append(self)
        return taken

    def release(self) -> None:
        mine = held()
        del mine[len(mine) - 1 - mine[::-1].index(self)]
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # A condition releases its lock while it waits, however often the thread has taken it.

    def _release_save(self) -> int:
        n = held().count(self)
        for _ in range(n):
            self.release()
        return n

    def _acquire_restore(self, n: int) -> None:
        for _ in range(n):
            self.acquire()


def install() -> None:
    """Has the library make such locks, from now on."""
    locks.factory = CheckedLock
