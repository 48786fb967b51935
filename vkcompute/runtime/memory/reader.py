"""Readers: lazy arrays that are to be computed from a buffer."""

from __future__ import annotations

import weakref
from typing import Any


class Reader(weakref.ref[Any]):
    """A weak reference to a lazy array. A buffer calls it back before it is overwritten."""

    __slots__ = ()

    @property
    def is_done(self) -> bool:
        """True if the array no longer needs the buffer: it is computed, or nobody has it."""
        array = self()
        return array is None or not array.is_pending

    def compute(self) -> None:
        """Computes the array after those that need it: it may be computed with them.

        Does nothing for one that another thread's recording is to compute.
        """
        array = self()
        expression = None if array is None else array.expression
        if array is None or expression is None or array.is_of_other_recording:
            return
        del array
        for reader in reversed(expression.readers):
            reader.compute()
        array = self()
        if array is not None:
            array.compute()

    before_overwriting = compute
