"""Copies of the elements of arrays on their device: by regions of bytes, or by a kernel where these are many."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from vkcompute import dtypes
from vkcompute.core.quirks import quirks_of
from vkcompute.errors import MissingFeature
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.view import StridedView, copy_view, join_views
from vkcompute.runtime.tuning import tuning_of

_MOST_RUNS = 16_384
"""Runs of bytes in a view beyond which a kernel copies it.

Up to `Tuning.few_runs` it is copied by regions. Between these, a kernel copies short runs (`Quirks.region_elements`).
"""


def copy_elements(source: Any, target: Any) -> None:
    """Copies an array into another of the same shape and dtype, by a kernel where the runs of bytes are many."""
    if _suits_kernel(target, source.strides, target.strides):
        with suppress(MissingFeature):  # kernels on the device lack the dtype
            target._take_elements(source)
            return
    copy_view(source, target)


def join_arrays(sources: Sequence[Any], target: Any, axis: int) -> None:
    """Copies arrays side by side along an axis into another: small ones in one task."""
    for source in sources:
        source.compute()
    if not any(_suits_kernel(source, source.strides, target.strides) for source in sources):
        join_views(sources, target, axis)
        return
    start = 0
    for source in sources:
        stop = start + source.shape[axis]
        copy_elements(source, target[(slice(None),) * axis + (slice(start, stop),)])
        start = stop


def _suits_kernel(array: StridedView, *strides: layout.Shape) -> bool:
    """True if a kernel copies elements of an array's shape, between memory with these strides, faster than regions."""
    physical, itemsize = array.runtime.device.physical, array.dtype.itemsize
    if dtypes.is_record(array.dtype):
        return False
    n_runs = max(layout.n_runs(array.shape, steps, itemsize) for steps in strides)
    if n_runs <= tuning_of(physical).few_runs:
        return False
    return n_runs > _MOST_RUNS or array.size < n_runs * quirks_of(physical).region_elements


def is_packed_first(source: StridedView, target: StridedView) -> bool:
    """True if a copy is faster by way of a contiguous one, which a kernel makes: in the order of the target's memory.

    A graph that is being recorded takes the copy as it is: it would keep the contiguous one.
    """
    alike = source.shape == target.shape and source.dtype == target.dtype and source.runtime is target.runtime
    if not alike or target.shares_elements or not _suits_kernel(target, source.strides, target.strides):
        return False
    (buffer, start, stop), (other, low, high) = source.range, target.range
    return (buffer is not other or stop <= low or high <= start) and target.runtime.scheduler.recording() is None
