"""Binary search in sorted elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.gather import take
from vkcompute.arrays.algorithms.lines import converted, flat, launch
from vkcompute.arrays.expressions.promotion import default_int, require_dtype
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.memory.array import Array, empty_result


def _precedes(a: Any, b: Any) -> Any:
    """Returns True if a sorts before b; NaN is last."""
    return a < b or (b != b and a == a)


def _insertion_point(x: Any, value: Any, n: Any, n_steps: Any, is_right: Any) -> Any:
    """Returns the index at which a value is inserted into `n` sorted elements, after so many halvings."""
    low, high = 0, n
    for _ in range(n_steps):
        if low < high:
            middle = low + (high - low) // 2
            here = x[middle]
            is_before = not _precedes(value, here) if is_right == 1 else _precedes(here, value)
            low, high = (middle + 1, high) if is_before else (low, middle)
    return low


@kernel
def _search(x: Any, values: Any, out: Any, n_items: int, n: int, n_steps: int, is_right: int) -> None:
    i = global_id(0)
    if i < n_items:
        out[i] = _insertion_point(x, values[i], n, n_steps, is_right)


@kernel
def _contain(x: Any, values: Any, out: Any, n_items: int, n: int, n_steps: int, is_wanted: int) -> None:
    i = global_id(0)
    if i < n_items:
        value = values[i]
        at = min(_insertion_point(x, value, n, n_steps, 0), n - 1)
        out[i] = (x[at] == value) == (is_wanted == 1)


def searchsorted(
    x: Array, values: Array, side: str = "left", sorter: Array | None = None, *, dtype: np.dtype[Any] | None = None
) -> Array:
    """Returns the indices at which values are inserted into sorted elements, as NumPy's searchsorted.

    Args:
        side: "left" for the first such index, "right" for the last.
        sorter: indices that sort `x`.
        dtype: of the indices; that of `default_int` by default.

    Raises:
        ValueError: `x` has not one axis, `side` is another, or the sorter has another length.
    """
    if x.ndim != 1:
        raise ValueError(f"searchsorted takes sorted elements along one axis; got the shape {x.shape}")
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right'; got {side!r}")
    if sorter is not None:
        if sorter.shape != x.shape:
            raise ValueError(f"a sorter has one index per element; got the shape {sorter.shape} for {x.shape}")
        x = take(x, sorter)
    common = np.result_type(x.dtype, values.dtype)
    common = require_dtype(x.runtime, np.dtype(np.uint8) if common.kind == "b" else common, "searchsorted")
    given = [array if array.dtype == common else converted(array, common) for array in (x, values)]
    out = empty_result(values.runtime, values.shape, dtype or default_int(values.runtime))
    if not x.size:
        return out.fill(0) if out.size else out
    args = flat(given[0]), flat(given[1]), out.reshape(-1), out.size, x.size, x.size.bit_length(), int(side == "right")
    launch(_search, out.size, *args)
    return out


def contain(x: Array, values: Array, *, opposite: bool = False) -> Array:
    """Returns True for each value that is among sorted elements, of which there is at least one; or the opposite.

    Args:
        x, values: of one dtype.
    """
    out = empty_result(values.runtime, values.shape, np.bool_)
    args = x, flat(values), out.reshape(-1), out.size, x.size, x.size.bit_length(), int(not opposite)
    launch(_contain, out.size, *args)
    return out
