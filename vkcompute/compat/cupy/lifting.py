"""Functions of `vkcompute.numpy` as functions of CuPy's arrays, with CuPy's dtypes; those of elements as `ufunc`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.pointers import array_of_interface
from vkcompute.dtypes import scoped_float
from vkcompute.errors import hides_calls
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.holders import held, is_holder

__tracebackhide__ = hides_calls
DOUBLE = np.dtype(np.float64)
"""CuPy's default float."""


def lifted(function: Callable[..., Any], *, host: bool = False) -> Callable[..., Any]:
    """Returns a function of arrays as one that takes CuPy's, and returns them.

    It computes with float64 as the default float. Results that are an argument are the argument's object.

    Args:
        host: True to take NumPy's arrays, too, as functions that make arrays do.
    """

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        taken: list[ndarray] = []
        given = [_unwrapped(value, taken, host) for value in args]
        options = {name: _unwrapped(value, taken, True) for name, value in named.items()} if named else named
        token = scoped_float.set(DOUBLE)
        try:
            return wrapped(function(*given, **options), taken)
        finally:
            scoped_float.reset(token)

    return call


_PLAIN = frozenset([int, float, complex, bool, str, type(None), slice, type, np.dtype, type(Ellipsis)])


def unwrapped(value: Any) -> Any:
    """Returns the array of one of CuPy's, also in sequences; anything else unchanged."""
    return _unwrapped(value, [], True)


def _unwrapped(value: Any, taken: list[ndarray], host: bool) -> Any:
    """Returns the array of one of CuPy's, also in sequences, and adds CuPy's to a list.

    Raises:
        TypeError: it is an array of NumPy, unless `host`; CuPy's functions take none.
    """
    if isinstance(value, ndarray):
        taken.append(value)
        return value._array
    if type(value) in _PLAIN:
        return value
    if type(value) in (list, tuple):
        inner = [_unwrapped(item, taken, True) for item in value]
        return inner if type(value) is list else tuple(inner)
    if is_holder(value):
        return held(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value[()]
    if not host and isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}: CuPy's functions take arrays of the device; use cupy.asarray")
    if hasattr(value, "__cuda_array_interface__"):
        return array_of_interface(value.__cuda_array_interface__)
    return value


def wrapped(result: Any, taken: Sequence[ndarray] = ()) -> Any:
    """Returns a result as CuPy's array, also in sequences; anything else unchanged.

    Args:
        taken: the arguments, of which results may be views, or which they may be.
    """
    if isinstance(result, Array):
        return _of(result, taken)
    if type(result) is tuple or type(result) is list:
        return type(result)([wrapped(item, taken) for item in result])
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[wrapped(item, taken) for item in result])
    return result


def _shares(array: Array, argument: Array) -> bool:
    """Returns True if an array is a view of the memory of an argument."""
    is_view = array._base is not None and not array.is_pending and not argument.is_pending
    return is_view and array.buffer is argument.buffer


def _of(array: Array, taken: Sequence[ndarray]) -> ndarray:
    """Returns CuPy's array of one; an argument itself if it is one."""
    base = None
    for argument in taken:
        if argument._array is array:
            return argument
        if _shares(array, argument._array):
            base = argument if argument._base is None else argument._base
    return ndarray._holding(array, base)
