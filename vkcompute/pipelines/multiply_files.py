"""The array multiply on .npy files: memory-mapped, streamed, and written atomically."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from vkcompute import disk, dtypes
from vkcompute.errors import DataError
from vkcompute.pipelines.multiply import Array, Progress, multiply
from vkcompute.runtime.runtime import Runtime
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
) -> Array:
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
    left, right = _opened(a), _opened(b)
    arrays: list[Array] = [operand for operand in (left, right) if isinstance(operand, np.ndarray)]
    if not arrays:
        raise TypeError(f"at least one of a and b is a file; got {a!r} and {b!r}")
    like = max(arrays, key=lambda array: array.ndim)
    with disk.replacing(out) as name:
        result = _created(name, like, like.flags.f_contiguous and not like.flags.c_contiguous)
        multiply(left, right, result, runtime=runtime, chunk_bytes=chunk_bytes, progress=progress)
        if isinstance(result, np.memmap):
            result.flush()
        del result
    written: Array = _opened(out)
    return written


def _created(name: Path, like: Array, fortran_order: bool) -> Array:
    if like.size:
        return np.lib.format.open_memmap(name, "w+", like.dtype, like.shape, fortran_order)
    with open(name, "wb") as file:
        np.save(file, like)  # an empty array cannot be mapped
    return np.empty_like(like)


def _opened(operand: Any) -> Any:
    if not isinstance(operand, (str, os.PathLike)):
        return operand
    try:
        array = np.load(operand, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except (ValueError, EOFError, SyntaxError) as error:
        raise DataError(f"{os.fspath(operand)} is not a complete .npy file: {_reason(operand, error)}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataError(f"{os.fspath(operand)} is an .npz archive; extract the array, and save it with numpy.save")
    try:
        dtypes.lookup(array.dtype)
    except TypeError as error:
        raise TypeError(f"{os.fspath(operand)}: {error}") from None
    return array


def _reason(path: PathLike, error: Exception) -> str:
    """A description of the file's defect."""
    nbytes = os.path.getsize(path)
    if nbytes == 0:
        return "it is empty"
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
        except (ValueError, EOFError, SyntaxError):
            return f"its first {min(nbytes, 128)} bytes are not a .npy header"
        if dtype.hasobject:
            return "it contains Python objects; save numbers"
        expected = file.tell() + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if nbytes < expected:
            return f"shape {shape} of {dtype} needs {expected} bytes, the file has {nbytes}; it is truncated"
    return str(error)
