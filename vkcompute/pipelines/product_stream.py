"""Products of NumPy arrays and .npy files, streamed through a device in chunks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.expressions.ufunc import apply, assign
from vkcompute.pipelines.npy_file import Block, BroadcastFile, NpyFile
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime

HostArray = npt.NDArray[Any]
Target = HostArray | NpyFile
Operand = Target | BroadcastFile
Progress = Callable[[int, int], None]
"""Called with (bytes of the result completed, bytes in total)."""
_NUMBERS = bool, int, float, complex


def product_shape(a: Any, b: Any) -> tuple[int, ...]:
    """Returns the shape of the product of two arrays, files or numbers.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    shapes = np.shape(a), np.shape(b)
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"shapes must be equal or broadcast; got {shapes[0]} and {shapes[1]}") from None


def stream_broadcast(
    runtime: Runtime,
    factors: Sequence[Any],
    result: Target,
    chunk_bytes: int,
    progress: Progress | None,
) -> None:
    """Streams the product of arrays, files and Python numbers, of any shapes and dtypes, into `result`."""
    sources = [_broadcast(factor, result.shape) for factor in factors if not isinstance(factor, _NUMBERS)]

    def work(*chunks: Array) -> None:
        blocks = iter(chunks)
        operands = [x if isinstance(x, _NUMBERS) else next(blocks) for x in factors]
        assign(next(blocks), apply("multiply", *operands), fresh=True)

    if result.size:
        stream(runtime, sources, work, result, chunk_bytes, progress)


def _broadcast(factor: Target, shape: tuple[int, ...]) -> Operand:
    if isinstance(factor, NpyFile):
        return factor if factor.shape == shape else BroadcastFile(factor, shape)
    return np.broadcast_to(factor, shape)


def stream(
    runtime: Runtime,
    sources: Sequence[Operand],
    work: Callable[..., None],
    result: Target,
    chunk_bytes: int,
    progress: Progress | None,
) -> None:
    """Streams sources of the result's shape through `work` into it.

    Streams flat views if all operands are arrays that are contiguous in the same order, else copies of blocks.
    """

    def report(n_done: int, _total: int | None) -> None:
        if progress is not None:
            progress(n_done * result.itemsize, result.nbytes)

    flat = _flat((*sources, result))
    if flat:
        runtime.stream(tuple(flat[:-1]), work, flat[-1], chunk_bytes=chunk_bytes, progress=report)
        return
    max_elements = max(1, chunk_bytes // result.itemsize)
    chunks = (tuple([source[block].reshape(-1) for source in sources]) for block in _blocks(result.shape, max_elements))
    targets = _blocks(result.shape, max_elements)

    def put(_rows: slice, product: HostArray) -> None:
        block = next(targets)
        result[block] = product.reshape([part.stop - part.start for part in block])

    runtime.stream(chunks, work, put, outputs=result.dtype, chunk_bytes=chunk_bytes, progress=report)


def _flat(operands: Sequence[Operand]) -> list[HostArray]:
    """Flat views of arrays that are all contiguous in the same order; else none."""
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    for ordered in (arrays, [array.T for array in arrays]):
        if len(arrays) == len(operands) and all(array.flags.c_contiguous for array in ordered):
            return [array.reshape(-1) for array in ordered]
    return []


def _blocks(shape: tuple[int, ...], max_elements: int) -> Iterator[Block]:
    """Blocks of at most `max_elements` elements that cover an array, as long on all axes as on the shortest ones."""
    lengths, n_parts = list(shape), [1] * len(shape)
    while math.prod(lengths) > max_elements:
        axis = lengths.index(max(lengths))
        n_parts[axis] += 1
        lengths[axis] = -(-shape[axis] // n_parts[axis])  # equal parts, so that temporaries are reused
    parts = zip(shape, lengths, strict=True)
    return itertools.product(*([slice(i, min(i + step, n)) for i in range(0, n, step)] for n, step in parts))
