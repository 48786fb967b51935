"""Arrays written as indices: `mgrid[0:3, 0:2]`, `ogrid[0:3]`, `r_[0, x, 4:8]`, `c_[x, y]`."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from vkcompute.arrays.expressions.promotion import common, default_float, kind_of
from vkcompute.arrays.functions.assembly import column_stack
from vkcompute.arrays.functions.creation import arange, asarray, linspace
from vkcompute.arrays.functions.manipulation import concat
from vkcompute.arrays.functions.operands import NUMBERS
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, current_runtime, runtime_of


class _Grid:
    """Coordinates of a grid, as `numpy.mgrid` and `numpy.ogrid`; an imaginary step is a number of points.

    Args:
        sparse: True for one array per axis, of length 1 along the others; False for one array of all coordinates.
    """

    def __init__(self, *, sparse: bool) -> None:
        self._made: Any = np.ogrid if sparse else np.mgrid

    def __getitem__(self, key: Any) -> Array | tuple[Array, ...]:
        grid = self._made[key]
        is_float = (grid[0] if isinstance(grid, tuple) else grid).dtype.kind == "f"
        dtype = default_float() if is_float else None
        return tuple([asarray(axis, dtype) for axis in grid]) if isinstance(grid, tuple) else asarray(grid, dtype)


class _Joined:
    """Arrays, numbers and slices joined along an axis, as `numpy.r_` and `numpy.c_`.

    Args:
        columns: True to make columns of vectors.
    """

    def __init__(self, *, columns: bool) -> None:
        self._columns = columns

    def __getitem__(self, key: Any) -> Array:
        given = key if isinstance(key, tuple) else (key,)
        arrays = [entry for entry in given if type(entry) is Array]
        runtime = runtime_of(arrays[0]) if arrays else current_runtime()
        items = [_part(entry, runtime) for entry in given]
        dtype = common(runtime, [kind_of(entry) for entry in items])
        parts = [entry if type(entry) is Array else asarray([entry], dtype, device=runtime) for entry in items]
        return column_stack(parts) if self._columns else concat(parts)

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> NoReturn:
        raise TypeError("r_ and c_ are indexed, as r_[0, x, 4:8]")


def _part(item: Any, runtime: Runtime) -> Any:
    """Returns one of the items between brackets as an array of at least one axis; numbers as they are.

    Raises:
        TypeError: it is a string: numpy's directives are not supported.
    """
    if isinstance(item, str):
        raise TypeError(f"r_ and c_ take arrays, numbers and slices; got the string {item!r}; join with concatenate")
    if isinstance(item, slice):
        start, stop, step = item.start or 0, item.stop, 1 if item.step is None else item.step
        if isinstance(step, complex):
            return linspace(start, stop, int(abs(step)), device=runtime)
        return arange(start, stop, step, device=runtime)
    if type(item) in NUMBERS:
        return item
    array = asarray(item, device=runtime)
    return array if array.ndim else array.reshape(1)


mgrid, ogrid = _Grid(sparse=False), _Grid(sparse=True)
r_, c_ = _Joined(columns=False), _Joined(columns=True)
