"""Streams host arrays through the device in chunks: while one is computed, the next goes up and the last comes down."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

Array = npt.NDArray[Any]
CHUNK_BYTES = 8 << 20
_WHOLE_ELEMENTS = 64
DEPTH = 3  # chunks on the device at a time: one going up, one computed, one coming down


def stream(
    runtime: Runtime,
    sources: Sequence[Array],
    launch: Callable[[list[Tensor], Tensor], None],
    result: Array,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Computes `result` from `sources`, arrays of its shape and dtype, chunk by chunk.

    Args:
        launch: given tensors with one chunk of each source and one for the result, launches the work on them. The
            tensors may hold more elements than the chunk; what is computed of those is dropped.
        chunk_bytes: bytes of one array per chunk, at least.
        progress: called with (bytes done, bytes in all) of the result after each chunk.

    The device holds `DEPTH` chunks of each array. `result` may share memory with a source if it is the same array.
    """
    chunks = list(_chunks(result, sources, chunk_bytes))
    done, total = 0, result.nbytes
    if not chunks:
        return
    largest = chunks[0][0].size
    with ExitStack() as owned:
        slots = [
            [owned.enter_context(runtime.empty(largest, array.dtype)) for array in (*sources, result)]
            for _ in range(min(DEPTH, len(chunks)))
        ]
        flying: deque[tuple[Tensor, Array]] = deque()
        for number, (target, *parts) in enumerate(chunks):
            if len(flying) == len(slots):
                done += _land(*flying.popleft())
                if progress:
                    progress(done, total)
            # A short last chunk goes with some of the elements behind it, so that kernels find whole vectors.
            padded = min(largest, -(-target.size // _WHOLE_ELEMENTS) * _WHOLE_ELEMENTS)
            tensors = [tensor[:padded] for tensor in slots[number % len(slots)]]
            for tensor, part in zip(tensors, parts, strict=False):
                tensor[: part.size].write(part.reshape(-1))
            launch(tensors[:-1], tensors[-1])
            runtime.flush()
            flying.append((tensors[-1][: target.size], target))
        while flying:
            done += _land(*flying.popleft())
            if progress:
                progress(done, total)


def _land(tensor: Tensor, target: Array) -> int:
    target[...] = tensor.numpy().reshape(target.shape)
    return target.nbytes


def _chunks(result: Array, sources: Sequence[Array], chunk_bytes: int) -> Iterator[tuple[Array, ...]]:
    """Matching parts of the result and the sources: of the flat arrays where all lie alike in memory, else of rows."""
    arrays = (result, *sources)
    if all(array.flags.c_contiguous for array in arrays):
        arrays = tuple(array.reshape(-1) for array in arrays)
    elif all(array.flags.f_contiguous for array in arrays):
        arrays = tuple(array.T.reshape(-1) for array in arrays)
    if not result.size:
        return
    row_bytes = max(1, arrays[0].nbytes // len(arrays[0]))
    step = max(1, chunk_bytes // row_bytes)
    for start in range(0, len(arrays[0]), step):
        yield tuple(np.asarray(array[start : start + step]) for array in arrays)
