"""`.npy` files, read and written in blocks.

A file mapped into memory ends the process by SIGBUS if it is truncated meanwhile, or if the disk is full. Reads and
writes report an error.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from vkcompute import disk
from vkcompute.errors import DataError

Block = tuple[slice, ...]
"""A slice without a step per axis."""

_MAX_HEADER_BYTES = 4096  # 64 axes of 20 digits take 1,400
_READERS = {(1, 0): np.lib.format.read_array_header_1_0} | dict.fromkeys(
    [(2, 0), (3, 0)], np.lib.format.read_array_header_2_0
)


@dataclass(frozen=True, slots=True)
class NpyFile:
    """An open .npy file, as an array that is indexed by blocks.

    Attributes:
        path: the name for error messages.
        start: offset of the elements in bytes.
    """

    path: str
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    start: int
    file: BinaryIO = field(repr=False)

    @classmethod
    def read(cls, file: BinaryIO, path: str | os.PathLike[str]) -> NpyFile:
        """Reads the header of an open file.

        Raises:
            DataError: the file is truncated, no .npy file, or contains Python objects.
        """
        try:
            header = read_header(file, os.fstat(file.fileno()).st_size)
        except ValueError as error:
            raise DataError(f"{os.fspath(path)} is not a complete .npy file: {error}") from error
        return cls(os.fspath(path), *header, file.tell(), file)

    @classmethod
    def write(cls, file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any], fortran_order: bool) -> NpyFile:
        """Writes the header to an empty file, and reserves the disk space of all elements.

        Raises:
            OSError: the disk is full.
        """
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran_order, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        created = cls(file.name, shape, fortran_order, dtype, file.tell(), file)
        disk.reserve(file, created.start + created.nbytes)
        return created

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    def flat(self) -> NpyFile:
        """The elements on one axis, in the order of the file."""
        return replace(self, shape=(self.size,), fortran_order=False)

    def __getitem__(self, block: Block) -> npt.NDArray[Any]:
        """Reads a block.

        Raises:
            DataError: the file was truncated after it had been opened.
        """
        ordered = self._ordered(block)
        content = np.empty([part.stop - part.start for part in ordered], self.dtype)
        view, position = content.reshape(-1).view(np.uint8).data, 0
        for offset, nbytes in self._runs(ordered):
            self.file.seek(offset)
            if self.file.readinto(view[position : position + nbytes]) != nbytes:  # type: ignore[attr-defined]
                raise DataError(f"{self.path} was truncated while it was read; {self.nbytes} bytes were expected")
            position += nbytes
        return content.T if self.fortran_order else content

    def __setitem__(self, block: Block, content: npt.NDArray[Any]) -> None:
        """Writes a block.

        Raises:
            OSError: it cannot be written.
        """
        content = np.ascontiguousarray(content.T if self.fortran_order else content)
        view, position = content.reshape(-1).view(np.uint8).data, 0
        for offset, nbytes in self._runs(self._ordered(block)):
            self.file.seek(offset)
            self.file.write(view[position : position + nbytes])
            position += nbytes

    def _ordered(self, block: Block) -> Block:
        """The block's slices in the order of the file, the contiguous axis last."""
        whole = tuple(slice(*part.indices(length)[:2]) for part, length in zip(block, self.shape, strict=True))
        return whole[::-1] if self.fortran_order else whole

    def _runs(self, block: Block) -> Iterator[tuple[int, int]]:
        """Offset and bytes of each contiguous part of a block, whose slices are in the order of the file."""
        shape = self.shape[::-1] if self.fortran_order else self.shape
        strides = [math.prod(shape[axis + 1 :]) * self.itemsize for axis in range(self.ndim)]
        inner = self.ndim  # axes from here on are whole
        while inner and block[inner - 1] == slice(0, shape[inner - 1]):
            inner -= 1
        last = max(inner - 1, 0)  # consecutive indices of this axis are contiguous, too
        start, nbytes = 0, self.nbytes
        if block:
            start, nbytes = block[last].start * strides[last], (block[last].stop - block[last].start) * strides[last]
        for outer in itertools.product(*(range(part.start, part.stop) for part in block[:last])):
            yield self.start + start + sum(map(int.__mul__, outer, strides)), nbytes


@dataclass(frozen=True, slots=True)
class BroadcastFile:
    """A file as an array of another shape, to which it broadcasts."""

    file: NpyFile
    shape: tuple[int, ...]

    def __getitem__(self, block: Block) -> npt.NDArray[Any]:
        """Reads the elements of the file that a block repeats."""
        parts = block[len(block) - self.file.ndim :]
        inner = tuple([slice(0, 1) if n == 1 else part for n, part in zip(self.file.shape, parts, strict=True)])
        return np.broadcast_to(self.file[inner], [part.stop - part.start for part in block])


def read_header(file: BinaryIO, nbytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads the header of a .npy file of `nbytes` bytes: shape, Fortran order, dtype.

    Raises:
        ValueError: a description of the defect.
    """
    if nbytes == 0:
        raise ValueError("it is empty")
    start = io.BytesIO(file.read(_MAX_HEADER_BYTES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of literals, which the parser accepts
            read = _READERS[np.lib.format.read_magic(start)]
            shape, fortran_order, dtype = read(start, max_header_size=_MAX_HEADER_BYTES)
        np.broadcast_to(np.empty((), np.uint8), shape)  # as many axes as numpy supports, none negative
        if math.prod(n or 1 for n in shape) * dtype.itemsize > np.iinfo(np.intp).max:
            raise ValueError("too many bytes for numpy, though there may be no elements")
    except Exception as error:  # of numpy and Python's parser: RecursionError, MemoryError, TokenError, and others
        if start.getvalue()[:2] == b"PK":
            raise ValueError("it is an .npz archive; extract the array, and save it with numpy.save") from error
        raise ValueError(f"its first {min(nbytes, 128)} bytes are not a .npy header") from error
    if dtype.hasobject:
        raise ValueError("it contains Python objects; save numbers")
    file.seek(start.tell())
    expected = start.tell() + math.prod(shape) * dtype.itemsize
    if nbytes < expected:
        raise ValueError(f"shape {shape} of {dtype} needs {expected} bytes, the file has {nbytes}; it is truncated")
    return shape, fortran_order, dtype
