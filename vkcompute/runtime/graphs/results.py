"""Arrays for results: with new memory, or temporaries while a graph is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.dtypes import checked_dtype
from vkcompute.runtime.graphs.graph import Graph, recording_graph
from vkcompute.runtime.memory.array import Array, allocate_checked
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.layout import checked_shape
from vkcompute.runtime.scheduling.placeholders import Placeholder


def temporary_of(graph: Graph, array: Array) -> Array | None:
    """Returns a result of a function as a temporary, by a recorded copy if the function has allocated its memory.

    Returns:
        None for an array from before the recording.
    """
    assert graph.function is not None
    if isinstance(array.buffer, Placeholder):
        return array
    return None if graph.function.is_earlier(array.buffer) else graph.copied(array)


def temporary(context: Context, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Makes an array for the result of a launch: a temporary while a graph is recorded. Raises as `Runtime.empty`."""
    return new_result(context, checked_shape(shape), checked_dtype(dtype))


def reshaped(result: Array, shape: tuple[int, ...]) -> Array:
    """Returns a new result with another shape, to which the caller has the only reference.

    It is no view, so whoever gets it may take its memory. It is one of a result that is lazy, or shares its memory.
    """
    is_whole = not result.is_pending and result._base is None and result.contiguous and not result.offset
    if not is_whole or isinstance(result.buffer, Placeholder):
        return result.reshape(shape)
    return Array.whole(result.runtime, result.buffer, shape, result.dtype, result.nbytes)


def new_result(context: Context, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Makes an array as `temporary`, of a shape and a dtype that an array may have."""
    if context.scheduler.recordings and (graph := recording_graph(context.scheduler)) is not None:
        return graph.empty(shape, dtype)
    context.require_open()
    return allocate_checked(context, context.device.result_buffer, shape, dtype)
