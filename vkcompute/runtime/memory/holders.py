"""Objects of other interfaces that hold an array, as `cupy.ndarray`: launches and functions take that array.

A class with `__vkcompute_array__` has the array there, or None for an object without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def is_holder(value: Any) -> bool:
    """True for an object whose `__vkcompute_array__` is a device array."""
    return held(value) is not value


def held(value: Any) -> Any:
    """Returns the array that an object holds; anything else unchanged."""
    array = value.__vkcompute_array__ if hasattr(type(value), "__vkcompute_array__") else None
    return value if array is None else array


def all_held(values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns values with the array of each object that holds one."""
    return tuple([held(value) for value in values])
