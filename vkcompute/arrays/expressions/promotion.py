"""Dtypes of results: NumPy 2's promotion, with a default float and a default integer of a device.

Where NumPy makes a float64 of integers (a division, a root, a Python float beside integers), the result has the default
float. That is float32, as in PyTorch, or as `set_default_dtype` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.dtypes import SmallFloat, as_dtype, computes_float64, is_dtype, lookup, promote, small_float
from vkcompute.dtypes import default_float as default_float
from vkcompute.errors import DtypeError, MissingFeature
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context

DType = np.dtype[Any]
Operand = Any
"""A device array or a number; functions of the namespace also take data of the host."""
BOOL = np.dtype(np.bool_)
_DOUBLE = np.dtype(np.float64), np.dtype(np.complex128)
_PYTHON = (bool, int, float, complex)


def set_default_dtype(dtype: npt.DTypeLike) -> None:
    """Sets the default float: float32, which it is at first, or float64.

    Raises:
        ValueError: it is another dtype.
    """
    wanted = as_dtype(dtype)
    if wanted not in (np.float32, np.float64):
        raise ValueError(f"the default dtype is float32 or float64; got {wanted}")
    dtypes.set_default_float(wanted)


def default_int(context: Context) -> DType:
    """Returns the dtype of Python ints and of indices: int64."""
    return np.dtype(np.int64)


def accumulated(context: Context, dtype: DType) -> DType:
    """Returns the dtype of sums and products: at least the default integer for bools and integers, as in NumPy."""
    if dtype.kind not in "biu":
        return dtype
    default = default_int(context)
    return promote(dtype, np.dtype(f"u{default.itemsize}") if dtype.kind == "u" else default)


def plain(number: Any) -> Any:
    """Returns the Python number that an instance of a subclass is, such as an IntEnum; anything else unchanged."""
    if type(number) in _PYTHON or isinstance(number, np.generic):
        return number
    for kind in (int, float, complex):
        if isinstance(number, kind):
            return kind(number)  # type: ignore[arg-type]
    return number


def dtype_of(data: Any) -> DType:
    """Returns the dtype of an array, or the one that NumPy gives to data of the host."""
    return data.dtype if type(data) is Array else np.asarray(data).dtype


def kind_of(operand: Any) -> Any:
    """Returns the dtype of an array or NumPy scalar; the type of a Python number.

    Raises:
        TypeError: it is none of these.
    """
    kind = type(plain(operand))
    if kind in _PYTHON:
        return kind
    dtype = getattr(operand, "dtype", None)
    if isinstance(operand, np.ndarray) or not is_dtype(dtype):
        remedy = "; make a device array of it, with gpu.array(data)" if hasattr(operand, "__len__") else ""
        raise TypeError(f"operands are device arrays and numbers; got {type(operand).__name__}{remedy}")
    return small_float(dtype) or dtype


def promoted(context: Context, *dtypes: DType) -> DType:
    """Returns the dtype to which NumPy promotes some; float32 for float64, if that is due to integers beside floats.

    The exception is made where devices refuse float64, as NumPy's promotion of int32 and float32 could not be computed.
    """
    result = reduce(promote, dtypes)
    if result in _DOUBLE and not computes_float64(context.device.features):
        floats = [dtype for dtype in dtypes if dtype.kind in "fc"]
        if floats and not any(dtype in _DOUBLE for dtype in floats):
            return reduce(promote, floats, np.dtype(np.float32))
    return result


def common(context: Context, kinds: Sequence[Any], *, exact: bool = False) -> DType:
    """Returns the common dtype of operands, given as by `kind_of`.

    Python numbers adapt to arrays and NumPy scalars, unless these are of a lower kind: bool, integer, float, complex.

    Args:
        exact: True for NumPy's dtype even if the device lacks it, as comparisons of rounded integers would be wrong.
    """
    strong = [kind for kind in kinds if is_dtype(kind)]
    weak = [kind for kind in kinds if not is_dtype(kind)]
    dtype = BOOL if not strong else reduce(promote, strong) if exact else promoted(context, *strong)
    if complex in weak:
        return complex_of(floating(dtype))
    if float in weak and dtype.kind in "biu":
        return default_float()
    if int in weak and dtype.kind == "b":
        return default_int(context)
    return dtype


def floating(dtype: DType) -> DType:
    """Returns a float or complex dtype, or the default float for integers and bools."""
    return dtype if dtype.kind in "fc" else default_float()


def element_float(dtype: DType) -> DType:
    """Returns the dtype of a function of elements that gives floats.

    A namespace with its own default float has NumPy's: float16 of bools and integers of 8 bits, float32 of 16 bits.
    """
    if dtype.kind in "fc" or dtypes.scoped_float.get() is None or dtype.itemsize > 2:
        return floating(dtype)
    return np.dtype(np.float16 if dtype.itemsize == 1 else np.float32)


def complex_of(dtype: DType) -> DType:
    """Returns the complex dtype with parts that hold the floats of a dtype."""
    return promote(dtype, np.complex64)


def wide_float(dtype: DType) -> DType:
    """Returns the dtype in which numbers are added: float32 for float16 and bfloat16, else their own."""
    return np.dtype(np.float32) if dtype.kind == "f" and dtype.itemsize < 4 else dtype


def part_of(dtype: DType) -> DType:
    """Returns the dtype of the parts of a complex dtype; others as they are."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def require_dtype(context: Context, dtype: npt.DTypeLike, what: str) -> DType:
    """Returns a dtype with which the device computes.

    Raises:
        DtypeError: no device computes with them.
        MissingFeature: it has no such numbers; `what` needs them.
    """
    row = lookup(dtype)
    if isinstance(row.numpy, SmallFloat) and not row.numpy.computes and what != "astype":
        raise DtypeError(f"{what} does not compute with {row.name}, which is for storage; convert with .astype()")
    missing = [feature for feature in row.features if feature not in context.device.features]
    if missing:
        raise MissingFeature(
            f"{what} computes with {row.name}, for which {context.device} lacks {' and '.join(missing)}; convert with "
            f".astype(), a number of NumPy with float() or int(), choose another device, or unset "
            f"VKCOMPUTE_FLOAT64, which refuses emulation"
        )
    return row.numpy
