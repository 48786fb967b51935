"""The array multiply on .npy files: memory-mapped, streamed, and written atomically."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from vkcompute import disk, dtypes
from vkcompute.arrays.expressions.promotion import common, kind_of
from vkcompute.pipelines.multiply import HostArray, has_shader, operands, stream_product
from vkcompute.pipelines.npy_file import NpyFile
from vkcompute.pipelines.product_stream import Progress, product_shape, stream_broadcast
from vkcompute.runtime.runtime import Runtime, current_runtime
from vkcompute.runtime.streams.stream import CHUNK_BYTES

PathLike = str | os.PathLike[str]


def multiply_files(
    a: PathLike | float,
    b: PathLike | float,
    out: PathLike,
    *,
    runtime: Runtime | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> HostArray:
    """Multiplies two .npy files of any size, or a file and a number, into a third.

    Shapes broadcast, and dtypes are promoted, as by `multiply`. Files of one shape and dtype are fastest.

    `out` is replaced when the result is complete; a failure leaves it unchanged. It may be one of the inputs.

    Args:
        a, b: paths; one of them may be a number.
        out: path of the result. Its order (C or Fortran) is that of the input with the result's shape.

    Returns:
        The result, memory-mapped read-only.

    Raises:
        DataError: a file is truncated, not a .npy file, or contains Python objects.
        FileNotFoundError, OSError: a file cannot be read or written.
        ValueError, TypeError: as `multiply` raises them.
    """
    if not isinstance(a, (str, os.PathLike)) and not isinstance(b, (str, os.PathLike)):
        raise TypeError(f"at least one of a and b is a file; got {a!r} and {b!r}")
    disk.remove_abandoned(os.path.dirname(os.path.realpath(out)))
    with ExitStack() as opened:
        factors, on = [_opened(factor, opened) for factor in (a, b)], runtime or current_runtime()
        shape, dtype, fortran_order = _layout(factors, on)
        with disk.replacing(out) as name, open(name, "wb") as file:
            result = NpyFile.write(file, shape, dtype, fortran_order)
            if has_shader(*factors):
                left, right, scalar = operands(*factors)
                files = [left, result] if scalar is not None else [left, right, result]
                if all(isinstance(file, NpyFile) and file.fortran_order == fortran_order for file in files):
                    files = [file.flat() for file in files]
                *sources, target = files
                stream_product(on, sources, scalar, target, chunk_bytes, progress)
            else:
                stream_broadcast(on, factors, result, chunk_bytes, progress)
            file.flush()
            os.fsync(file.fileno())
    written: HostArray = np.load(out, mmap_mode="r", allow_pickle=False)
    return written


def _layout(factors: Sequence[Any], runtime: Runtime) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Returns the shape and the dtype of a product, and True if it is in Fortran order.

    Raises:
        ValueError: shapes do not broadcast.
    """
    shape = product_shape(*factors)
    like = next((factor for factor in factors if isinstance(factor, NpyFile) and factor.shape == shape), None)
    kinds = [factor.dtype if hasattr(factor, "dtype") else kind_of(factor) for factor in factors]
    return shape, common(runtime, kinds), like is not None and like.fortran_order


def _opened(operand: Any, opened: ExitStack) -> Any:
    """The file of a path, or the array of a file with one element."""
    if not isinstance(operand, (str, os.PathLike)):
        return operand
    file = NpyFile.read(opened.enter_context(disk.open_regular(operand)), operand)
    try:
        dtypes.lookup(file.dtype)
    except TypeError as error:
        raise TypeError(f"{file.path}: {error}") from None
    return file[(slice(None),) * file.ndim] if file.size == 1 else file
