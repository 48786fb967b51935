"""Data of the host for arrays: conversions, and what arrays refuse."""

from __future__ import annotations

from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.dtypes import SmallFloat, SmallFloatNumber, can_cast, host_cast, is_record, small_float
from vkcompute.errors import HostCopyWarning, warn_caller
from vkcompute.runtime.memory import dlpack
from vkcompute.runtime.memory.downloads import settle
from vkcompute.runtime.memory.layout import Shape

HostArray = npt.NDArray[Any]


def converted(data: npt.ArrayLike, dtype: np.dtype[Any]) -> HostArray:
    """Converts `data` to `dtype` within its kind; Python ints to any integers that hold them, and to bool."""
    refuse_mask(data)
    source = np.asarray(imported(data))
    if source.dtype == dtype:
        return source
    if is_record(dtype):
        return source.astype(dtype)
    if isinstance(data, SmallFloatNumber):
        source = np.asarray(data.dtype.array(float(data)))
    of_python = not hasattr(data, "dtype") and source.dtype.kind in "iu" and dtype.kind in "iub"
    if of_python and dtype.kind != "b" and source.size:
        limits = np.iinfo(dtype)
        low, high = int(source.min()), int(source.max())  # numpy 1 compares uint64 with int as floats
        if low < limits.min or high > limits.max:
            raise ValueError(f"an array of {dtype} holds {limits.min} to {limits.max}; got {low} to {high}")
    if not of_python and not can_cast(source.dtype, dtype, "same_kind"):
        remedy = f"with .astype({dtype.name!r})" if hasattr(data, "dtype") else f"as np.{dtype.name}(data)"
        raise TypeError(f"the data is {source.dtype} and the array {dtype}; convert it {remedy}")
    return host_cast(source, dtype)


def broadcast(source: HostArray, shape: Shape) -> HostArray:
    """Returns a view of this shape; raises ValueError if there is none."""
    try:
        return np.broadcast_to(source, shape)
    except ValueError:
        raise ValueError(f"data of shape {source.shape} does not broadcast to the array's {shape}") from None


def host_array(data: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> HostArray:
    """Returns `data` as a NumPy array. Without a dtype, Python floats become float32, as in `zeros` and `empty`.

    Python's complex numbers become complex64.
    NumPy's arrays and scalars keep their dtype, in lists too.
    """
    settle(data)
    refuse_mask(data)
    data = imported(data)
    small = small_float(dtype) if dtype is not None else data.dtype if isinstance(data, SmallFloatNumber) else None
    array = np.asarray(data, dtype) if small is None else small.array(data)
    if not array.dtype.isnative:  # as of files of other machines
        array = array.astype(array.dtype.newbyteorder("="))
    narrow = {"d": np.float32, "D": np.complex64}.get(array.dtype.char) if dtype is None else None
    return array.astype(narrow) if narrow is not None and _is_python(data) else array


def warn_of_numpy(frame: FrameType) -> None:
    """Warns if a function of NumPy converts a device array implicitly. `np.asarray` is written in C: it has no frame.

    Installed packages that call NumPy, such as matplotlib, get no warning: they need the data on the host.
    """
    outer: FrameType | None = frame
    name = ""
    while outer is not None and (module := str(outer.f_globals.get("__name__"))).partition(".")[0] == "numpy":
        name = getattr(outer.f_code, "co_qualname", outer.f_code.co_name)
        outer = None if module.startswith("numpy.testing") else outer.f_back
    if name and outer is not None and "-packages" not in outer.f_code.co_filename:
        warn_caller(
            f"NumPy's {name} downloads a device array, and computes on the host; pass x.numpy() to say so, or call a "
            "function of vkcompute.numpy",
            HostCopyWarning,
        )


def imported(data: Any) -> Any:
    """Returns data that has only `__dlpack__` as a NumPy array; other data as it is."""
    has_array = hasattr(data, "__array__") and not _is_of_small_floats(data)
    return dlpack.imported(data) if hasattr(data, "__dlpack__") and not has_array else data


def _is_of_small_floats(data: Any) -> bool:
    """True for a tensor of another library whose dtype NumPy lacks, so that it becomes no NumPy array."""
    if isinstance(data, (np.ndarray, np.generic)):
        return False
    dtype = getattr(data, "dtype", None)
    return not isinstance(dtype, SmallFloat) and small_float(str(dtype).rpartition(".")[2]) is not None


def refuse_mask(data: Any) -> None:
    """Raises TypeError for a masked array: device memory has no place for the mask."""
    if isinstance(data, np.ndarray) and type(data) is not np.ndarray and isinstance(data, np.ma.MaskedArray):
        raise TypeError("a masked array has a mask, which device arrays lack; pass x.filled(value), or x.data")


def _is_python(data: Any) -> bool:
    """True for a Python number, and for nested sequences of Python numbers."""
    if isinstance(data, (list, tuple)):
        return all(map(_is_python, data))
    return isinstance(data, (int, float, complex)) and not isinstance(data, np.generic)
