"""Bounded caches: dicts that drop their oldest entries."""

from __future__ import annotations

from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class BoundedCache(dict[_K, _V]):
    """A dict of at most `capacity` entries; adding one drops the oldest.

    Reads are the dict's own, so a hit costs one lookup. Age counts from the last assignment. Threads may read and
    assign at the same time; several that assign may drop an entry more than needed. There is no lock, so finalizers of
    dropped values and forked children may use the cache, too.
    """

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity

    def __setitem__(self, key: _K, value: _V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self.capacity:
            try:
                oldest = next(iter(self))
            except (StopIteration, RuntimeError):  # another thread has changed the dict meanwhile
                continue
            self.pop(oldest, None)
