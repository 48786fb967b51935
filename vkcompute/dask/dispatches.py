"""Functions of chunks that Dask chooses by the type of an array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dask.array import dispatch
from dask.array.backends import ArrayBackendEntrypoint  # noqa: F401  # registers NumPy's functions first
from dask.sizeof import sizeof

import vkcompute.numpy as vnp
from vkcompute.runtime.memory.array import Array


def to_device(data: Any) -> Array:
    """Returns a chunk as a device array."""
    return vnp.asarray(data)


def to_host(data: Array, **_: Any) -> Any:
    """Returns a chunk as a NumPy array."""
    return data.numpy()


def numel(x: Array, axis: Any = None, keepdims: bool = False, dtype: Any = np.float64, **_: Any) -> Any:
    """Returns the number of elements along axes, as an array of the reduced shape.

    Numbers that Dask would have as float64 are int64, which every device computes with.
    """
    dtype = np.int64 if dtype == np.float64 else dtype
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = {axis % x.ndim for axis in axes}
    n = math.prod([x.shape[at] for at in axes])
    shape = tuple([1 if at in axes else length for at, length in enumerate(x.shape) if keepdims or at not in axes])
    return vnp.full_like(x, n, dtype, shape=shape, device=x.device)


def nannumel(x: Array, **named: Any) -> Array:
    """Returns the number of elements along axes that are not NaN."""
    count: Array = vnp.sum(vnp.logical_not(vnp.isnan(x)), **named)
    return count


def einsum(*args: Any, order: str = "K", casting: str = "safe", **named: Any) -> Array:
    """Returns `vnp.einsum`; the layout in memory and the casting rule of NumPy have no meaning on the device."""
    return vnp.einsum(*args, **named)


def percentile(x: Array, q: Any, method: str = "linear") -> tuple[Any, int]:
    """Returns percentiles of a chunk, and its length; None for an empty chunk."""
    return (vnp.percentile(x, np.asarray(q), method=method) if x.size else None), len(x)


def divide(a: Any, b: Any, dtype: Any = None) -> Array:
    """Returns a quotient in a dtype."""
    quotient = vnp.divide(a, b)
    return quotient if dtype is None else vnp.astype(quotient, dtype, copy=False)


def register() -> None:
    """Registers the functions of device arrays with Dask."""
    for lookup, function in (
        (dispatch.concatenate_lookup, vnp.concatenate),
        (dispatch.tensordot_lookup, vnp.tensordot),
        (dispatch.einsum_lookup, einsum),
        (dispatch.empty_lookup, vnp.empty),
        (dispatch.take_lookup, vnp.take),
        (dispatch.divide_lookup, divide),
        (dispatch.percentile_lookup, percentile),
        (dispatch.numel_lookup, numel),
        (dispatch.nannumel_lookup, nannumel),
        (dispatch.to_numpy_dispatch, to_host),
    ):
        lookup.register(Array, function)
    sizeof.register(Array, lambda x: int(x.nbytes))
