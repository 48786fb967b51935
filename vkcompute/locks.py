"""Locks in one order: a thread that holds a lock takes only locks of higher ranks, so that no threads wait in a circle.

A lock that the thread holds already may be taken again. No code of the user runs while a thread holds one of these
locks: see `deferred_calls`. There are two exceptions: a simulated kernel is the user's function, and the store of a
Dask worker pickles results.
In the tests, locks assert their order (`tests/checked_locks.py`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any


class Rank(IntEnum):
    """Locks by the things that they guard, in the order in which a thread takes them: one of a rank at a time."""

    STORE = 1
    """The results of a Dask worker."""
    SIMULATOR = 2
    """The launch that is simulated: one at a time."""
    OPENING = 3
    """The default runtime, while it is opened."""
    GRAPH = 4
    """The host arrays of a graph, from the uploads of a run to its launch."""
    DOWNLOADS = 5
    """The host arrays of the process, while results of runs are copied to them."""
    DEVICE = 6
    """A device: its memory, its access history, its open batches, its lazy arrays."""
    SUBMIT = 7
    """The queues of a device, during a submit."""
    WATCHERS = 8
    """The threads that wait for the queues of a device."""
    WATCHED = 9
    """The values that one of these threads waits for."""
    GENERATOR = 10
    """The place of a random generator in its sequence."""


_all: dict[int, tuple[Rank, weakref.ref[Any]]] = {}
"""id -> rank and weak reference of each lock. Python stores and deletes an item at once, so nothing needs a lock."""


def _reentrant(_: Rank) -> Any:
    return threading.RLock()


factory: Callable[[Rank], Any] = _reentrant
"""Makes a lock. Tests replace it."""


def make(rank: Rank) -> Any:
    """Returns a new reentrant lock."""
    lock = factory(rank)
    key = id(lock)
    _all[key] = rank, weakref.ref(lock, partial(_all.pop, key))
    return lock


def are_held(lowest: Rank = Rank.STORE) -> bool:
    """True if this thread holds a lock of the library, of this rank or a higher one."""
    every = [lock for rank, reference in list(_all.values()) if rank >= lowest and (lock := reference()) is not None]
    return any(lock._is_owned() for lock in every)
