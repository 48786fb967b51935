"""Arrays as lines along one axis, and what the algorithms on them share: copies, indices, launches.

The elements of (n_rows, n, n_columns), in row-major order, are n_rows * n_columns lines of n elements each.
"""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import PythonKernel
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.runtime import runtime_of

LOCAL_SIZE = 64
_identity = Elementwise("x")


class Lines(NamedTuple):
    """The lengths of an array: before an axis, along it, and after it."""

    n_rows: int
    n: int
    n_columns: int


def axis_of(axis: Any, n_axes: int) -> int:
    """Returns an axis, counted from 0.

    Raises:
        TypeError: it is not an int.
        ValueError: it is out of range.
    """
    found = index(axis)
    if not -n_axes <= found < n_axes:
        raise ValueError(f"axis {axis} of an array of {n_axes} axes; axes count from 0, or from the end with -1")
    return found % n_axes


def lines_along(shape: tuple[int, ...], axis: int) -> Lines:
    """Returns the lines along an axis, which counts from 0."""
    return Lines(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))


def contiguous(x: Array) -> Array:
    """Returns the array, or a copy if its elements are not in row-major order."""
    return x if x.contiguous else converted(x, x.dtype)


def flat(x: Array) -> Array:
    """Returns the elements in row-major order, along one axis."""
    return contiguous(x).reshape(-1) if x.size else temporary(x.runtime, 0, x.dtype)


def converted(x: Array, dtype: npt.DTypeLike) -> Array:
    """Returns a copy with elements of this dtype, as by NumPy's astype."""
    copy = temporary(x.runtime, x.shape, dtype)
    if x.size:
        _identity(x, out=copy)
    return copy


def index_dtype(runtime: Context) -> np.dtype[Any]:
    """Returns the dtype of indices: int64, or int32 on a device without it."""
    return np.dtype(np.int64 if "shaderInt64" in runtime.device.features else np.int32)


def is_cpu(runtime: Context) -> bool:
    """True if the device is a CPU: few invocations, each with much work, are fastest there."""
    return runtime.device.physical.kind == "cpu"


def launch(kernel: PythonKernel, n_items: int, *args: Any) -> None:
    """Launches a kernel with one invocation per item, rounded up to whole workgroups."""
    if n_items:
        kernel[-(-n_items // LOCAL_SIZE), LOCAL_SIZE](*args)


def same_runtime(*arrays: Array) -> Any:
    """Returns the runtime of the arrays.

    Raises:
        ValueError: they belong to several.
    """
    runtimes = [runtime_of(each) for each in arrays]
    if any(each is not runtimes[0] for each in runtimes):
        raise ValueError("the arrays belong to several runtimes; copy through the host: runtime.array(x.numpy())")
    return runtimes[0]
