"""Arrays in files: NumPy's formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute import disk
from vkcompute.arrays.functions.creation import asarray
from vkcompute.dtypes import small_float
from vkcompute.runtime.memory.array import Array


def _host(x: Any) -> Any:
    """Returns the elements; those of a dtype that NumPy lacks as records with its name, which `load` knows."""
    host = x._on_host() if type(x) is Array else x
    dtype = small_float(getattr(host, "dtype", None))
    return host if dtype is None else host.view([(dtype.name, f"<u{dtype.itemsize}")])


def write_whole(file: Any, suffix: str, write: Callable[[Any], None]) -> None:
    """Writes to a stream, or to a file with this suffix, which has its old content until all of the new is written."""
    if not isinstance(file, (str, bytes, os.PathLike)):
        write(file)
        return
    path = os.fsdecode(file)
    path += "" if path.endswith(suffix) else suffix
    try:
        disk.require_regular(path)
    except ValueError:  # a pipe or a device
        write(path)
        return
    with disk.replacing(path) as temporary:
        write(temporary)


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Saves an array to a file in NumPy's .npy format."""
    host = _host(arr)
    write_whole(file, ".npy", lambda out: np.save(out, host, allow_pickle))


def savez(file: Any, *args: Any, **named: Any) -> None:
    """Saves arrays to a file in NumPy's .npz format, named by the keywords, or arr_0, arr_1, …"""
    arrays, by_name = [*map(_host, args)], {name: _host(array) for name, array in named.items()}
    write_whole(file, ".npz", lambda out: np.savez(out, *arrays, **by_name))


def savez_compressed(file: Any, *args: Any, **named: Any) -> None:
    """Saves arrays to a file in NumPy's compressed .npz format; see `savez`."""
    arrays, by_name = [*map(_host, args)], {name: _host(array) for name, array in named.items()}
    write_whole(file, ".npz", lambda out: np.savez_compressed(out, *arrays, **by_name))


class Arrays(dict[str, Array]):
    """The arrays of a .npz file by name: a dict that can be used as NumPy's `NpzFile`.

    Attributes:
        files: the names.
    """

    @property
    def files(self) -> list[str]:
        return list(self)

    def close(self) -> None:
        """Does nothing: the file is closed."""

    def __enter__(self) -> Arrays:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load(file: Any, mmap_mode: str | None = None, *, device: Any = None) -> Any:
    """Loads the array of a .npy file, or the `Arrays` of a .npz file, to a device, in the byte order of this machine.

    Args:
        mmap_mode: "r" or "c" to map the file into memory while it is copied to the device.

    Raises:
        ValueError: the file holds Python objects, or `mmap_mode` would write to it.
    """
    if mmap_mode not in (None, "r", "c"):
        raise ValueError(
            f'mmap_mode is "r", "c" or None: a device array is a copy, and not written to the file; got {mmap_mode!r}'
        )
    loaded: Any = np.load(file, mmap_mode, allow_pickle=False)  # type: ignore[arg-type]
    if isinstance(loaded, np.ndarray):
        return asarray(loaded, device=device)
    with loaded:
        return Arrays({name: asarray(loaded[name], device=device) for name in loaded.files})


def savetxt(fname: Any, X: Any, *args: Any, **named: Any) -> None:  # noqa: N803
    """Saves a vector or a matrix as text; the further parameters are those of `numpy.savetxt`."""
    host = _host(X)
    write_whole(fname, "", lambda out: np.savetxt(out, host, *args, **named))


def loadtxt(fname: Any, dtype: Any = np.float32, *, device: Any = None, like: Any = None, **named: Any) -> Array:
    """Loads numbers from text to a device; the further parameters are those of `numpy.loadtxt`."""
    return asarray(np.loadtxt(fname, dtype, **named), device=device, like=like)


def array_repr(arr: Array, *args: Any, **named: Any) -> str:
    """Returns `repr` of an array; with further arguments, `numpy.array_repr` of the elements, which are downloaded."""
    return np.array_repr(arr.numpy(), *args, **named) if args or named else repr(arr)


def array_str(a: Array, *args: Any, **named: Any) -> str:
    """Returns `str` of an array; with further arguments, `numpy.array_str` of the elements, which are downloaded."""
    return np.array_str(a.numpy(), *args, **named) if args or named else str(a)


def array2string(a: Array, *args: Any, **named: Any) -> str:
    """Returns `numpy.array2string` of the elements, which are downloaded."""
    return np.array2string(a.numpy(), *args, **named)
