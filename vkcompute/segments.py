"""Segments of any lengths, which follow each other in one array: sorts and scans of each.

    from vkcompute import segments

    x = vnp.asarray([3.0, 1.0, 2.0, 5.0, 4.0])
    segments.sort(x, [0, 3, 5])  # 1 2 3, and 4 5
    segments.scan(x, [0, 3, 5])  # 3 4 6, and 5 9

Offsets are integers, of the host or of a device: where each segment begins, and at last where the last one ends, as in
rows of a sparse matrix. Segments may be empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms import ragged
from vkcompute.runtime.memory.array import Array

__all__ = ["argsort", "scan", "sort"]

Offsets = Array | npt.NDArray[np.integer] | Sequence[int]
_OPERATIONS = "sum", "prod", "max", "min"


def sort(x: Array, offsets: Offsets, *, descending: bool = False) -> Array:
    """Returns the elements of each segment in order, NaN as the largest number; it waits for offsets of a device.

    Raises:
        TypeError: offsets are no integers.
        ValueError: the array or they have not one axis, they decrease, or do not begin at 0 and end with the elements.
    """
    return ragged.sort(x, ragged.segments_of("sort", x, offsets), descending=descending)


def argsort(x: Array, offsets: Offsets, *, descending: bool = False) -> Array:
    """Returns indices, int32, such that `x[indices]` has each segment in order; equal elements keep their order.

    Raises:
        TypeError, ValueError: as `sort`.
    """
    return ragged.argsort(x, ragged.segments_of("argsort", x, offsets), descending=descending)


def scan(
    x: Array, offsets: Offsets, operation: str = "sum", *, exclusive: bool = False, reverse: bool = False
) -> Array:
    """Returns the cumulative sums, products, maxima or minima of each segment.

    Args:
        operation: "sum", "prod", "max" or "min"; sums and products have NumPy's dtype.
        exclusive: True for the results without the element itself.
        reverse: True to begin at the end of each segment.

    Raises:
        TypeError, ValueError: as `sort`; there is no such operation.
    """
    if operation not in _OPERATIONS:
        raise ValueError(f"scan takes an operation of {', '.join(map(repr, _OPERATIONS))}; got {operation!r}")
    given = ragged.segments_of("scan", x, offsets)
    return ragged.scan(x, given, operation, is_exclusive=exclusive, is_reverse=reverse)
