"""Types of elements of arrays in kernels: numbers, and records, whose fields have types of their own."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import UINT8, UINT32, Scalar
from vkcompute.ir.types import UINT16
from vkcompute.jit.frontend.values import ELEMENTS, ArrayValue

UNITS = {1: UINT8, 2: UINT16, 4: UINT32}
"""Bytes of a part of a record -> the type as which it is accessed."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordType(Scalar):
    """A type of records; `record_type` makes each a single object.

    Attributes:
        dtype: NumPy's dtype, whose layout records have in memory.
    """

    dtype: np.dtype[Any]

    @property
    def numpy(self) -> np.dtype[Any]:
        """Numpy's dtype."""
        return self.dtype

    def field(self, name: Any, of: str) -> tuple[np.dtype[Any], int]:
        """Returns the dtype of a field, and its offset in bytes; `name` may be its position.

        Raises:
            UnsupportedError: there is no such field, or kernels lack its type.
        """
        names = self.dtype.names or ()
        if isinstance(name, (int, np.integer)) and -len(names) <= name < len(names):
            name = names[name]
        if not isinstance(name, str) or name not in names:
            raise UnsupportedError(f"{of} has no field {name!r}; it has {', '.join(names)}")
        dtype, at = self.dtype.fields[name][:2]  # type: ignore[index]
        if dtype.base.names is None and dtype.base.name not in ELEMENTS:
            raise UnsupportedError(f"the field {name} of {of} has the type {dtype.base}, which kernels lack")
        return dtype, at


def is_of_records(value: Any) -> bool:
    """True for an array of records."""
    return isinstance(value, ArrayValue) and isinstance(value.element, RecordType)


@functools.cache
def record_type(dtype: np.dtype[Any]) -> RecordType:
    """Returns the type of records of a dtype."""
    return RecordType(str(dtype), "V", 8 * dtype.itemsize, dtype)


def element_type(dtype: np.dtype[Any]) -> Scalar:
    """Returns the type of elements for a dtype of arrays.

    Raises:
        KeyError: kernels have no such elements.
    """
    if dtypes.is_record(dtype):
        return record_type(dtype)
    return ELEMENTS[dtype.name]
