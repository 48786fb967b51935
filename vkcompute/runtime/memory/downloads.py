"""Downloads of graphs' runs: results on their way to host arrays, which they reach in the order of the runs.

Host memory is the process's, so the order is one for all runtimes. Whatever else reads or overwrites an array waits for
the downloads into the same memory: see `settle`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from vkcompute.core.interrupts import Guarded
from vkcompute.errors import ClosedError, VulkanError
from vkcompute.locks import Rank
from vkcompute.runtime.memory import layout
from vkcompute.runtime.scheduling.future import Future

HostArray = npt.NDArray[Any]
Spans = list[tuple[int, int]]
"""addresses [start, stop) of host memory, sorted and disjoint"""
_MAX_PENDING = 64

_numbers = count(1)
_pending: WeakValueDictionary[int, Download] = WeakValueDictionary()
_copying = Guarded(Rank.DOWNLOADS)


class Download:
    """The results of one run, until they are in the host arrays.

    Args:
        spans: the memory of the arrays.
        copy: copies the results.
        kept: the pending downloads of the runtime, by number. It keeps this one, also without its graph and future.
    """

    __slots__ = ("__weakref__", "_copy", "_kept", "number", "run", "spans")

    def __init__(self, run: Future, spans: Spans, copy: Callable[[], None], kept: dict[int, Download]) -> None:
        self.number, self.run, self.spans, self._copy, self._kept = next(_numbers), run, spans, copy, kept
        if len(kept) >= _MAX_PENDING:
            next(iter(kept.values())).finish()
        kept[self.number] = _pending[self.number] = self

    def finish(self, timeout_s: float | None = None) -> bool:
        """Waits, and copies the results, after those of earlier runs into the same memory.

        Returns:
            False if `timeout_s` seconds pass first.
        """
        return self.number not in self._kept or _finish([*_into(self.spans, self.number), self], timeout_s)

    def ended(self, timeout_s: float | None) -> bool:
        """Waits until the run has finished or failed; returns False if `timeout_s` seconds pass first."""
        try:
            return self.run.ended(timeout_s)
        except (ClosedError, VulkanError):  # it has no results
            self._forget()
            return True

    def land(self) -> None:
        """Copies the results, unless that was done or the run has failed."""
        if self.number in self._kept:
            if not self.run.failed:
                self._copy()
            self._forget()

    def _forget(self) -> None:
        self._kept.pop(self.number, None)
        _pending.pop(self.number, None)


def settle(data: object) -> None:
    """Waits for the downloads into the memory of `data`, before it is read or overwritten.

    Args:
        data: an array, or anything that converts to one: unless it is a number, it may be based on any memory.
    """
    if _pending and not isinstance(data, (complex, float, int, np.generic)):
        settle_spans(spans_of([data]) if isinstance(data, np.ndarray) else [(0, 1 << 64)])


def settle_spans(spans: Spans) -> None:
    """Waits for the downloads into this memory."""
    if _pending:
        _finish(_into(spans))


def _into(spans: Spans, number: float = math.inf) -> list[Download]:
    """The downloads before `number` into this memory, and those before them that they overlap; the oldest first."""
    downloads: list[Download] = []
    touched = [spans]
    pending = [download for reference in _pending.valuerefs() if (download := reference()) is not None]
    for download in sorted(pending, key=lambda download: -download.number):
        if download.number < number and any(
            download.spans is other or _overlap(download.spans, other) for other in touched
        ):
            downloads.append(download)
            touched.append(download.spans)
    return downloads[::-1]


def _finish(downloads: Sequence[Download], timeout_s: float | None = None) -> bool:
    end = math.inf if timeout_s is None else time.monotonic() + timeout_s
    for download in downloads:  # without the lock
        if not download.ended(None if timeout_s is None else max(0.0, end - time.monotonic())):
            return False
    with _copying.lock:
        for download in downloads:
            download.land()
    return True


def spans_of(arrays: Iterable[HostArray]) -> Spans:
    """The host memory of arrays, without the gaps between them."""
    spans: Spans = []
    for array in arrays:
        low, high = layout.extent(array.shape, array.strides, array.itemsize)
        at = layout.address(array)
        spans.append((at + low, at + high))
    merged: Spans = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            start, stop = merged[-1][0], max(stop, merged.pop()[1])
        merged.append((start, stop))
    return merged


def _overlap(mine: Spans, theirs: Spans) -> bool:
    return any(low < stop and start < high for low, high in mine for start, stop in theirs)


def _forget_all() -> None:
    """Forgets the parent's downloads in a forked child, and a lock that another thread may have held."""
    _copying.renew_locks()
    _pending.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
