"""Sequences of numbers: logarithmic scales, windows, and arrays from other objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.lines import axis_of
from vkcompute.arrays.expressions.promotion import complex_of, default_float
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.arrays.functions.creation import linspace, runtime_for
from vkcompute.dtypes import as_dtype
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import constant


def _dtype(dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    return as_dtype(dtype) if dtype is not None else default_float()


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0,
    dtype: npt.DTypeLike | None = None, axis: int = 0, *, device: Any = None,
) -> Array:  # fmt: skip
    """Returns `num` numbers evenly spaced on a logarithmic scale, from base**start to base**stop.

    Args:
        start, stop: numbers; or arrays, for numbers along a new axis.
        axis: the new axis.
    """
    if type(start) is Array or type(stop) is Array:
        _require_numbers("base", base)
        powers = apply("power", float(base), linspace(start, stop, num, endpoint, axis=axis, device=device))
        return powers if dtype is None else astype(powers, dtype)
    _require_numbers("logspace", start, stop, base)
    axis_of("logspace", 1, axis)
    return constant(runtime_for(device), _spaced(np.logspace, start, stop, num, endpoint, base, dtype=dtype))


def geomspace(
    start: complex, stop: complex, num: int = 50, endpoint: bool = True, dtype: npt.DTypeLike | None = None, *,
    device: Any = None,
) -> Array:  # fmt: skip
    """Returns `num` numbers evenly spaced on a logarithmic scale, from `start` to `stop`; complex ones on a spiral."""
    _require_numbers("geomspace", start, stop)
    return constant(runtime_for(device), _spaced(np.geomspace, start, stop, num, endpoint, dtype=dtype))


def _spaced(make: Callable[..., Any], *args: Any, dtype: npt.DTypeLike | None) -> Any:
    """Returns numbers of a function of NumPy, computed in float64 or complex128, in a dtype or the default one."""
    is_complex = dtype is not None and as_dtype(dtype).kind == "c"
    numbers = make(*args, dtype=np.complex128) if is_complex else make(*args)
    default = complex_of(default_float()) if numbers.dtype.kind == "c" else default_float()
    return numbers.astype(default if dtype is None else dtype)


def _require_numbers(name: str, *given: Any) -> None:
    """Raises TypeError if one is not a number."""
    for number in given:
        if np.ndim(number) or type(number) is Array:
            raise TypeError(f"{name} takes numbers; got an array; compute with vnp.linspace(start, stop)")


def _window(name: str) -> Callable[..., Array]:
    make = getattr(np, name)

    def function(*args: Any, device: Any = None, **named: Any) -> Array:
        return constant(runtime_for(device), make(*args, **named).astype(default_float()))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Returns the window of `numpy.{name}` in the default float."
    return function


bartlett, blackman, hamming, hanning, kaiser = map(_window, ("bartlett", "blackman", "hamming", "hanning", "kaiser"))


def frombuffer(
    buffer: Any, dtype: npt.DTypeLike = np.float64, count: int = -1, offset: int = 0, *, device: Any = None,
    like: Any = None,
) -> Array:  # fmt: skip
    """Returns a copy of the bytes of an object as an array of one axis."""
    return runtime_for(device, like).array(np.frombuffer(buffer, dtype, count, offset))


def fromiter(
    iter: Iterable[Any], dtype: npt.DTypeLike, count: int = -1, *, device: Any = None, like: Any = None
) -> Array:
    """Returns the numbers of an iterable as an array of one axis."""
    return runtime_for(device, like).array(np.fromiter(iter, dtype, count))


def fromfunction(
    function: Callable[..., Any], shape: tuple[int, ...], *, dtype: npt.DTypeLike | None = None, device: Any = None,
    like: Any = None, **named: Any,
) -> Any:  # fmt: skip
    """Returns the value of a function of device arrays: the index of each element along each axis of a shape."""
    runtime = runtime_for(device, like)
    return function(*[constant(runtime, index) for index in np.indices(shape, _dtype(dtype))], **named)
