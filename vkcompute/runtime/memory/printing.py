"""Arrays as text, as NumPy prints them; of a long array, only the elements that are shown are downloaded."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.dtypes import numbers_of
from vkcompute.representation import nbytes
from vkcompute.runtime.scheduling.placeholders import Placeholder


def text(array: Any) -> str:
    """Returns the elements of an array as `str` of a NumPy array."""
    return _without_elements(array) or (
        _formatted(array, " ", "") if array.ndim else str(numbers_of(array._on_host())[()])
    )


def representation(array: Any) -> str:
    """Returns the elements, the dtype and the device of an array."""
    start = "array("
    elements = _without_elements(array)
    if elements:
        return elements
    shape = f"shape={array.shape}, " if not array.size and array.shape != (0,) else ""
    device = array.runtime.device.physical.name
    return f"{start}{_formatted(array, ', ', start)}, {shape}dtype={array.dtype}, on {device})"


def html(array: Any) -> str:
    """Returns the shape, the dtype, the device and the elements of an array as HTML."""
    if lacking := _without_elements(array):
        return f"<pre>{escape(lacking)}</pre>"
    size, device = nbytes(array.nbytes), array.runtime.device.physical.name
    about = f"array of shape {array.shape}, {array.dtype}, {size}, on {device}"
    return f"<div><strong>{escape(about)}</strong><pre>{escape(text(array))}</pre></div>"


def _without_elements(array: Any) -> str:
    """Returns the text of an array whose elements cannot be read now; "" for others."""
    if array.closed or array.runtime.closed:
        state = "closed"
    elif array.runtime.scheduler.recording() is not None or isinstance(array.buffer, Placeholder):
        state = "in a graph"
    else:
        return ""
    return f"array(shape={array.shape}, dtype={array.dtype}, {state})"


def _formatted(array: Any, separator: str, prefix: str) -> str:
    options = np.get_printoptions()
    edge = options["edgeitems"]
    if array.size <= options["threshold"]:
        return np.array2string(numbers_of(array._on_host()), separator=separator, prefix=prefix)
    return np.array2string(_edges(array, edge), separator=separator, prefix=prefix, threshold=0, edgeitems=edge)


def _edges(array: Any, edge: int, axis: int = 0) -> npt.NDArray[Any]:
    """Returns the first and last elements along each axis, and one between them, which is abbreviated."""
    if axis == array.ndim:
        host: npt.NDArray[Any] = numbers_of(array.copy()._on_host())
        return host
    n = array.shape[axis]
    whole = (slice(None),) * axis
    if n <= 2 * edge + 1:
        return _edges(array, edge, axis + 1)
    parts = [array[whole + (end,)] for end in (slice(0, edge + 1), slice(n - edge, n))]  # noqa: RUF005
    return np.concatenate([_edges(part, edge, axis + 1) for part in parts], axis)
