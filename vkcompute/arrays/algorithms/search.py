"""Binary search in sorted elements."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.gather import take
from vkcompute.arrays.algorithms.lines import add, converted, flat, launch
from vkcompute.arrays.algorithms.sort_keys import FLOAT, key_of
from vkcompute.arrays.expressions.promotion import default_int, require_dtype
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result

_any = Elementwise("a | b", "a, b")
_all = Elementwise("a & b", "a, b")


class _Kernels(NamedTuple):
    search: PythonKernel
    contain: PythonKernel


def _precedes(a: Any, b: Any) -> Any:
    """Returns True if a sorts before b; NaN is last."""
    return a < b or (b != b and a == a)


def _read(x: Any, i: Any, are_keys: bool) -> Any:
    """Returns an element, or the key of a float32 that is given by its bits."""
    return key_of(x[i], FLOAT, 0) if are_keys else x[i]


def _insertion_point(x: Any, value: Any, n: Any, n_steps: Any, is_right: Any, are_keys: bool) -> Any:
    """Returns the index at which a value is inserted into `n` sorted elements, after so many halvings."""
    low, high = 0, n
    for _ in range(n_steps):
        if low < high:
            middle = low + (high - low) // 2
            here = _read(x, middle, are_keys)
            is_before = not _precedes(value, here) if is_right == 1 else _precedes(here, value)
            low, high = (middle + 1, high) if is_before else (low, middle)
    return low


@cache
def _kernels(are_keys: bool) -> _Kernels:
    """Makes the kernels, of elements that are compared themselves or by the keys of float32."""

    @kernel
    def search(x: Any, values: Any, out: Any, n_items: int, n: int, n_steps: int, is_right: int) -> None:
        """Stores where each value is inserted."""
        i = global_id(0)
        if i < n_items:
            out[i] = _insertion_point(x, _read(values, i, are_keys), n, n_steps, is_right, are_keys)

    @kernel
    def contain(x: Any, values: Any, out: Any, n_items: int, n: int, n_steps: int, is_wanted: int) -> None:
        """Stores True for each value that is among the elements, if this is wanted."""
        i = global_id(0)
        if i < n_items:
            value = _read(values, i, are_keys)
            here = _read(x, min(_insertion_point(x, value, n, n_steps, 0, are_keys), n - 1), are_keys)
            is_same = here == value and here != ~np.uint32(0) if are_keys else here == value
            out[i] = is_same == (is_wanted == 1)

    return _Kernels(search, contain)


def _launch(name: str, x: Array, values: Array, out: Array, flag: int) -> None:
    """Launches a kernel with its last argument; float32 are compared by keys, as some devices flush subnormals."""
    if exceeds_bindings(x, values, out):
        _by_parts(name, flat(x), flat(values), out.reshape(-1), flag)
        return
    are_keys = x.dtype == np.float32
    given = [flat(array).view(np.uint32) if are_keys else flat(array) for array in (x, values)]
    launch(
        getattr(_kernels(are_keys), name),
        out.size,
        *given,
        out.reshape(-1),
        out.size,
        x.size,
        x.size.bit_length(),
        flag,
    )


def _by_parts(name: str, x: Array, values: Array, out: Array, flag: int) -> None:
    """Halves the values, or the sorted elements: indices of both halves are added, and memberships combined."""
    if values.size > 1 and values.nbytes + out.nbytes >= x.nbytes:
        for half in halves(values.size):
            _launch(name, x, values[half], out[half], flag)
        return
    low, high = halves(x.size)
    other = temporary(out.runtime, out.size, out.dtype)
    _launch(name, x[low], values, out, flag)
    _launch(name, x[high], values, other, flag)
    combine = add if name == "search" else _any if flag else _all
    combine(out, other, out=out)


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
        raise ValueError(f"searchsorted takes elements along one axis; got the shape {x.shape}; search row by row")
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right'; got {side!r}")
    if sorter is not None:
        if sorter.shape != x.shape:
            raise ValueError(f"a sorter has the shape {x.shape} of the elements; got {sorter.shape}; use argsort(x)")
        x = take(x, sorter)
    common = np.result_type(x.dtype, values.dtype)
    common = require_dtype(x.runtime, np.dtype(np.uint8) if common.kind == "b" else common, "searchsorted")
    x, values = [array if array.dtype == common else converted(array, common) for array in (x, values)]
    out = empty_result(values.runtime, values.shape, dtype or default_int(values.runtime))
    if not x.size:
        return out.fill(0) if out.size else out
    _launch("search", x, values, out, int(side == "right"))
    return out


def contain(x: Array, values: Array, *, opposite: bool = False) -> Array:
    """Returns True for each value that is among sorted elements, of which there is at least one; or the opposite.

    Args:
        x, values: of one dtype.
    """
    out = empty_result(values.runtime, values.shape, np.bool_)
    _launch("contain", x, values, out, int(not opposite))
    return out
