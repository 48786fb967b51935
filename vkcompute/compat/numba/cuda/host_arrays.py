"""Arrays of the host that Numba pins or maps: ordinary ones here, which launches copy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from vkcompute.compat.numba.cuda.factories import to_device


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Any:
    """Makes an array of the host."""
    return np.ndarray(shape, dtype, strides=strides, order="F" if order == "F" else "C")


def mapped_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0, **options: Any
) -> Any:
    """Makes an array of the host, which launches copy."""
    return pinned_array(shape, dtype, strides, order)


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> Any:
    """Makes an array of the host, which launches copy."""
    return pinned_array(shape, dtype, strides, order)


def pinned_array_like(ary: Any) -> Any:
    """Makes an array of the host with the shape, the dtype and the order of axes of another, also of a device array."""
    return np.empty_like(as_strided(np.empty((), ary.dtype), ary.shape, ary.strides), subok=False)


def mapped_array_like(ary: Any, stream: Any = 0, **options: Any) -> Any:
    """Makes an array of the host, which launches copy, like `pinned_array_like`."""
    return pinned_array_like(ary)


@contextlib.contextmanager
def pinned(*arylist: Any) -> Iterator[None]:
    """Has no effect."""
    yield


@contextlib.contextmanager
def mapped(*arylist: Any, **options: Any) -> Iterator[Any]:
    """Copies arrays of the host to the device for a block, and back at its end."""
    devices = [to_device(array, stream=options.get("stream", 0)) for array in arylist]
    yield devices[0] if len(devices) == 1 else devices
    for device, host in zip(devices, arylist, strict=True):
        device.copy_to_host(host)
