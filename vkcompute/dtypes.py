"""The tables of array dtypes, and the device features that kernels need for each; the dtypes that NumPy lacks.

Arrays of every dtype can be created, filled and copied on every device. The features are needed only by kernels that
load, store or compute with elements of the type. Kernels in Python take complex numbers as pairs of floats; others take
the parts, as two arrays. Every device has kernels with all integers and float16. Those of 8 and 16 bits that it lacks
are computed in 32 bits (ir/small_types.py), those of 64 bits by pairs of words (ir/wide_types.py). So is float64, if it
is asked for. bfloat16 and floats of 8 bits are float32 in kernels (ir/small_floats.py).
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.float_formats import FloatFormat


class SmallFloat:
    """A dtype of floats that NumPy lacks: bfloat16, and those of 8 bits, which are for storage only.

    It has the attributes of NumPy's dtypes. It equals the dtype of the package ml_dtypes with this name, and becomes
    it by `numpy.dtype(x)` where that package is installed; else a record of the bits.

    Attributes:
        name: as in ml_dtypes.
        format: the format.
    """

    kind, char_code, byteorder, isnative, hasobject, names, fields = "f", "", "=", True, False, None, None

    def __init__(self, name: str, form: FloatFormat) -> None:
        self.name = self.char = self.str = name
        self.format = form
        self.itemsize = self.alignment = form.bits // 8
        self.type = type(name, (SmallFloatNumber,), {"_of": self, "__slots__": (), "__module__": "vkcompute"})

    @property
    def computes(self) -> bool:
        """True for bfloat16; False for dtypes of storage."""
        return self.format.bits == 16

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of arrays of the host."""
        if not has_ml_dtypes():
            return np.dtype([(self.name, f"<u{self.itemsize}")])
        import ml_dtypes

        known: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
        return known

    def newbyteorder(self, order: str = "S") -> SmallFloat:
        """Returns the dtype itself."""
        return self

    def array(self, values: Any) -> np.ndarray[Any, Any]:
        """Returns numbers of the host as an array of this dtype, rounded to nearest."""
        given = np.asarray(values)
        if small_float(given.dtype) is self:
            return given
        return self.format.encoded(numbers_of(given)).view(self.dtype)

    def __eq__(self, other: object) -> bool:
        return small_float(other) is self

    def __hash__(self) -> int:
        return hash(self.dtype) if has_ml_dtypes() else hash(self.name)

    def __repr__(self) -> str:
        return f"dtype({self.name})"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return small_float, (self.name,)


class SmallFloatNumber(np.float32):
    """A number of a dtype that NumPy lacks: a rounded float32."""

    _of: SmallFloat
    __slots__ = ()

    def __new__(cls, value: Any = 0) -> SmallFloatNumber:
        number: SmallFloatNumber = super().__new__(cls, cls._of.format.rounded(value)[()])
        return number

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self._of

    def __reduce__(self) -> tuple[Any, ...]:
        return number_of, (self._of, float(self))


def number_of(dtype: SmallFloat, value: float) -> SmallFloatNumber:
    """Returns a number of a dtype that NumPy lacks."""
    result: SmallFloatNumber = dtype.type(value)
    return result


_SMALL: dict[str, SmallFloat] = {
    name: SmallFloat(name, form)
    for name, form in {
        "bfloat16": FloatFormat(16, 7, -126, 0x7FC0, 0x7F80),
        "float8_e4m3fn": FloatFormat(8, 3, -6, 0x7F),
        "float8_e5m2": FloatFormat(8, 2, -14, 0x7E, 0x7C),
        "float8_e4m3fnuz": FloatFormat(8, 3, -7, 0x80, unsigned=True),
        "float8_e5m2fnuz": FloatFormat(8, 2, -15, 0x80, unsigned=True),
    }.items()
}
BFLOAT16 = _SMALL["bfloat16"]
_HALF = np.dtype(np.float16)


def has_ml_dtypes() -> bool:
    """True if the package ml_dtypes is installed."""
    return _ml_dtypes


_ml_dtypes = importlib.util.find_spec("ml_dtypes") is not None


def small_float(dtype: Any) -> SmallFloat | None:
    """Returns the dtype that NumPy lacks; None for others. It may be a name, a dtype or a type of numbers."""
    if isinstance(dtype, SmallFloat):
        return dtype
    if isinstance(dtype, str):
        return _SMALL.get(dtype)
    if isinstance(dtype, np.dtype):
        if dtype.isbuiltin == 1:
            return None
        if dtype.names is None:
            return _SMALL.get(dtype.name)
        of_bits = _SMALL.get(dtype.names[0]) if len(dtype.names) == 1 else None
        return of_bits if of_bits is not None and dtype[0] == np.dtype(f"u{of_bits.itemsize}") else None
    if isinstance(dtype, type):
        of = getattr(dtype, "_of", None) or getattr(dtype, "dtype", None)
        named = _SMALL.get(dtype.__name__) if dtype.__module__ == "ml_dtypes" else None
        return of if isinstance(of, SmallFloat) else named
    return None


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns what `numpy.dtype()` does, and a dtype that NumPy lacks as it is."""
    return small_float(dtype) or np.dtype(dtype)  # type: ignore[return-value]


def is_dtype(value: object) -> bool:
    """True for a dtype of NumPy, and for one that it lacks."""
    return isinstance(value, (np.dtype, SmallFloat))


def on_host(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of NumPy's arrays that hold elements of a dtype."""
    return dtype.dtype if isinstance(dtype, SmallFloat) else np.dtype(dtype)


def require_host(dtype: Any) -> None:
    """Raises TypeError for a dtype that NumPy lacks, unless the package ml_dtypes adds it."""
    if isinstance(dtype, SmallFloat) and not has_ml_dtypes():
        raise TypeError(
            f"NumPy has no {dtype}; install the package ml_dtypes, which adds it, or convert with .astype('float32')"
        )


def promote(one: Any, other: Any) -> np.dtype[Any]:
    """Returns the common dtype: NumPy's; for bfloat16 that of JAX, where it is below all other floats.

    Dtypes that NumPy lacks are given as `as_dtype` returns them.
    """
    if not isinstance(one, SmallFloat) and not isinstance(other, SmallFloat):
        return np.promote_types(one, other)
    left, right = as_dtype(one), as_dtype(other)
    if left == right or right.kind in "biu":
        return left
    if left.kind in "biu":
        return right
    dtypes = [np.dtype(np.float32) if dtype in (_HALF, BFLOAT16) else dtype for dtype in (left, right)]
    if any(isinstance(dtype, SmallFloat) for dtype in dtypes):
        raise TypeError(f"{one} and {other} have no common dtype: floats of 8 bits are storage; convert with .astype()")
    return np.promote_types(*dtypes)


def can_cast(one: Any, other: Any, casting: Any = "safe") -> bool:
    """Returns what `numpy.can_cast` does, for dtypes that NumPy lacks, too."""
    one, other = small_float(one) or one, small_float(other) or other
    if not isinstance(one, SmallFloat) and not isinstance(other, SmallFloat):
        return bool(np.can_cast(one, other, casting))
    if one == other or casting == "unsafe":
        return True
    if casting in ("no", "equiv"):
        return False
    given, wanted = (_HALF if isinstance(dtype, SmallFloat) else dtype for dtype in (one, other))
    if casting != "safe":
        return bool(np.can_cast(given, wanted, casting))
    if isinstance(other, SmallFloat):
        return _keeps_all_values(as_dtype(one), other)
    return not (one == BFLOAT16 and wanted == _HALF) and bool(np.can_cast(given, wanted))


@cache
def _keeps_all_values(one: Any, other: SmallFloat) -> bool:
    """Returns True if a small float has all values of a dtype, which then has one byte."""
    if one.itemsize > 1:
        return False
    codes = np.arange(2 if one == np.bool_ else 256, dtype=np.uint8)
    values = one.format.decoded(codes) if isinstance(one, SmallFloat) else codes.view(one).astype(np.float32)
    return np.array_equal(other.format.decoded(other.format.encoded(values)), values, equal_nan=True)


def numbers_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns an array of the host, of a dtype that NumPy lacks as float32."""
    dtype = small_float(array.dtype)
    if dtype is None:
        return array
    return dtype.format.decoded(np.ascontiguousarray(array).view(f"u{dtype.itemsize}").reshape(array.shape))


def host_cast(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Returns an array of the host in another dtype."""
    if isinstance(dtype, SmallFloat):
        return dtype.array(array)
    return numbers_of(array).astype(dtype)


class SmallLimits(NamedTuple):
    """The limits of a dtype that NumPy lacks, with the names of `numpy.finfo`."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any

    @property
    def tiny(self) -> float:
        """The least normal number."""
        return self.smallest_normal


def finfo(dtype: Any) -> Any:
    """Returns the limits of floats, as `numpy.finfo`."""
    small = small_float(dtype)
    if small is None:
        return np.finfo(dtype)
    form = small.format
    largest = form.value(form.beyond - 1)
    return SmallLimits(form.bits, 2.0**-form.mantissa, largest, -largest, 2.0**form.least, small)


@dataclass(frozen=True, slots=True)
class DType:
    """A data type.

    Attributes:
        name: numpy's name.
        numpy: the numpy dtype, native byte order.
        element: numpy's name of the scalar type that a kernel's binding declares for such elements.
        features: Vulkan feature names that a kernel with elements of this type needs.
        native: further features, without which kernels in Python compute such elements by words of 32 bits.
    """

    name: str
    numpy: np.dtype[np.generic]
    element: str
    features: tuple[str, ...] = ()
    native: tuple[str, ...] = ()


def _row(name: str, element: str = "", features: tuple[str, ...] = (), native: tuple[str, ...] = ()) -> DType:
    return DType(name, np.dtype(name), element or name, features, native)


_BYTES = "shaderInt8", "storageBuffer8BitAccess"
_HALVES = "shaderInt16", "storageBuffer16BitAccess"


def _emulates_doubles() -> bool:
    """True if float64 is computed by words where the device lacks it; False with VKCOMPUTE_FLOAT64=refuse."""
    setting = os.environ.get("VKCOMPUTE_FLOAT64", "emulate")
    if setting not in ("emulate", "refuse"):
        raise ValueError(
            f"VKCOMPUTE_FLOAT64 is emulate or refuse; got {setting!r}; with refuse, devices without float64 raise "
            "MissingFeature instead of computing it by words of 32 bits"
        )
    return setting == "emulate"


def _double(name: str) -> DType:
    needed = ("shaderFloat64",)
    return _row(name, native=needed) if _emulates_doubles() else _row(name, features=needed)


TABLE: tuple[DType, ...] = (
    _row("bool", element="uint8"),
    _row("int8", native=_BYTES),
    _row("int16", native=_HALVES),
    _row("int32"),
    _row("int64", native=("shaderInt64",)),
    _row("uint8", native=_BYTES),
    _row("uint16", native=_HALVES),
    _row("uint32"),
    _row("uint64", native=("shaderInt64",)),
    _row("float16", native=("shaderFloat16", "storageBuffer16BitAccess")),
    _row("float32"),
    _double("float64"),
)


def kernel_dtypes(features: Mapping[str, bool]) -> list[str]:
    """The names of the dtypes that kernels take on a device with these features."""
    return [row.name for row in TABLE if all(features.get(name) for name in row.features)]


def computes_float64(features: AbstractSet[str]) -> bool:
    """True if a device with these features computes float64, itself or by words of 32 bits."""
    return all(feature in features for feature in _BY_NAME["float64"].features)


def emulated_dtypes(features: Mapping[str, bool]) -> list[str]:
    """The names of the dtypes that kernels compute by others on a device with these features."""
    return [
        name for name in kernel_dtypes(features) if not all(features.get(feature) for feature in _BY_NAME[name].native)
    ]


COMPLEX: tuple[DType, ...] = (_row("complex64"), _double("complex128"))
"""Complex dtypes, whose elements are pairs of floats in kernels."""

SMALL_FLOATS: tuple[DType, ...] = tuple(
    DType(dtype.name, dtype, f"uint{8 * dtype.itemsize}", (), _HALVES if dtype.itemsize == 2 else _BYTES)  # type: ignore[arg-type]
    for dtype in _SMALL.values()
)
"""Dtypes of floats that NumPy lacks; kernels in GLSL see their bits."""
_BY_NAME = {row.name: row for row in TABLE}
_SMALL_ROWS = {row.name: row for row in SMALL_FLOATS}
BY_NUMPY: dict[np.dtype[np.generic], DType] = {row.numpy: row for row in TABLE}
_COMPLEX_BY_NUMPY = {row.numpy: row for row in COMPLEX}


def lookup(dtype: npt.DTypeLike, *, in_kernels: bool = False) -> DType:
    """The row of `dtype`, which may be anything that `numpy.dtype()` accepts.

    Args:
        in_kernels: True for a dtype with which kernels compute, which are not complex.

    Raises:
        TypeError: arrays do not support the type (object, strings, structures, foreign byte order).
    """
    if isinstance(dtype, int):
        raise TypeError(f"a dtype is numpy's, or its name; got {dtype}; lengths are one argument, as in zeros((3, 4))")
    if (small := small_float(dtype)) is not None:
        return _SMALL_ROWS[small.name]
    resolved = np.dtype(dtype)
    row = BY_NUMPY.get(resolved)
    if row is None and not in_kernels:
        row = _COMPLEX_BY_NUMPY.get(resolved)
    if row is None:
        remedy = f"; convert with .astype({resolved.name!r})" if resolved.newbyteorder("=") in BY_NUMPY else ""
        known = ", ".join(row.name for row in (TABLE if in_kernels else TABLE + COMPLEX))
        raise TypeError(f"an array's dtype must be one of {known}; got {resolved.str!r} ({resolved.name}){remedy}")
    return row


def is_record(dtype: Any) -> bool:
    """True for a dtype of records without Python objects in them, all of which arrays may hold."""
    return isinstance(dtype, np.dtype) and dtype.names is not None and not dtype.hasobject and dtype.itemsize > 0


def checked_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Returns the dtype of an array's memory: one of `lookup`, or one of records.

    Raises:
        TypeError: arrays do not support the type.
    """
    if small_float(dtype) is None and not isinstance(dtype, int) and is_record(resolved := np.dtype(dtype)):
        return resolved
    return lookup(dtype).numpy


def step_bytes(dtype: Any) -> int:
    """Returns the bytes that offsets of elements count in kernels: of records, a word or a part of one."""
    return math.gcd(dtype.itemsize, 4) if is_record(dtype) else int(dtype.itemsize)


def type_code(dtype: Any) -> str:
    """Returns a text that is the same for equal dtypes only."""
    return repr(dtype) if dtype.char == "V" else str(dtype.char)


def is_in_kernels(dtype: Any) -> bool:
    """True for a dtype of arrays that kernels take: one of numbers, or of records."""
    return is_known(dtype) or is_record(dtype)


def is_known(dtype: np.dtype[np.generic]) -> bool:
    """True for a dtype of arrays, in native byte order."""
    return small_float(dtype) is not None or dtype in BY_NUMPY or dtype in _COMPLEX_BY_NUMPY


def conversion(dtype: np.dtype[np.generic], name: str) -> str:
    """The remedy of an error for the NumPy array `name`, whose dtype kernels lack; "" if none converts it."""
    nearest = {"i": "int64", "u": "uint64", "f": "float64", "O": "float32"}.get(dtype.kind, "")
    if dtype.newbyteorder("=") in BY_NUMPY:
        nearest = dtype.name
    if dtype.kind == "c":
        return f"; pass {name}.real and {name}.imag"
    return f"; convert it, as {name}.astype(np.{nearest})" if nearest else ""


process_float: list[np.dtype[np.generic]] = [np.dtype(np.float32)]
"""The default float of the process."""
scoped_float: ContextVar[np.dtype[np.generic] | None] = ContextVar("scoped_float", default=None)
"""The default float of the calls of a namespace that has its own; None for that of the process.

Both together are the rule by which floats are made of integers, and parts of every key for which that matters.
"""


def set_default_float(dtype: np.dtype[np.generic]) -> None:
    """Sets the dtype that `default_float` returns outside of namespaces with their own."""
    process_float[0] = dtype


def default_float() -> np.dtype[np.generic]:
    """Returns the dtype of Python floats and of functions that make floats of integers."""
    scoped = scoped_float.get()
    return process_float[0] if scoped is None else scoped
