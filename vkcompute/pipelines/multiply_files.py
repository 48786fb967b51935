"""The array multiply on .npy files: memory-mapped, streamed, and written atomically."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import numpy as np

from vkcompute import disk, dtypes
from vkcompute.pipelines.multiply import HostArray, Progress, operands, stream_product
from vkcompute.pipelines.npy_file import NpyFile
from vkcompute.runtime.runtime import Runtime, default_runtime
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
        left, right, scalar = operands(_opened(a, opened), _opened(b, opened))
        fortran_order = isinstance(left, NpyFile) and left.fortran_order
        with disk.replacing(out) as name, open(name, "wb") as file:
            result = NpyFile.write(file, left.shape, left.dtype, fortran_order)
            files = [left, result] if scalar is not None else [left, right, result]
            if all(isinstance(each, NpyFile) and each.fortran_order == fortran_order for each in files):
                files = [each.flat() for each in files]
            *sources, target = files
            stream_product(runtime or default_runtime(), sources, scalar, target, chunk_bytes, progress)
            file.flush()
            os.fsync(file.fileno())
    written: HostArray = np.load(out, mmap_mode="r", allow_pickle=False)
    return written


def _opened(operand: Any, opened: ExitStack) -> Any:
    """The file of a path, or the array of a file with one element."""
    if not isinstance(operand, (str, os.PathLike)):
        return operand
    file = NpyFile.read(opened.enter_context(disk.open_regular(operand)), operand)
    try:
        dtypes.lookup(file.dtype, in_kernels=True)
    except TypeError as error:
        raise TypeError(f"{file.path}: {error}") from None
    return file[(slice(None),) * file.ndim] if file.size == 1 else file
