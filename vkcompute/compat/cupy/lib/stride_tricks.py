"""The functions of `cupy.lib.stride_tricks`."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.lifting import lifted
from vkcompute.numpy.lib.stride_tricks import sliding_window_view as _windows

_lifted = lifted(_windows)


def sliding_window_view(
    x: ndarray, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> ndarray:
    """Returns the view of all windows of a shape, which cannot be written."""
    if writeable:
        raise NotImplementedError("Writeable views are not supported.")
    return _lifted(x, window_shape, axis)  # type: ignore[no-any-return]


def as_strided(x: ndarray, shape: Any = None, strides: Any = None) -> ndarray:
    """Returns a view with other lengths and strides in bytes; its elements may share memory."""
    lengths = x.shape if shape is None else tuple(np.atleast_1d(shape).tolist())
    steps = x._array.strides if strides is None else tuple(np.atleast_1d(strides).tolist())
    view = x.data.array(lengths, steps, x._array.dtype)
    return ndarray._holding(view, x if x.base is None else x.base)
