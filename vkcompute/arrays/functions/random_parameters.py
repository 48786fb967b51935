"""Parameters of random distributions: their checks, and their common shape."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from vkcompute.dtypes import finfo
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.host_data import HostArray
from vkcompute.runtime.memory.layout import checked_shape

Size = int | tuple[int, ...] | None
_SMALL = 1e38  # all floats that are drawn hold it


def on_host(value: Any) -> Any:
    """Returns a device array as a NumPy array; other values as they are."""
    return value.numpy() if type(value) is Array else value


def shape_of(parameter: Any) -> tuple[int, ...]:
    """Returns the shape of a device array, or of numbers."""
    if type(parameter) in (int, float):
        return ()
    return parameter.shape if type(parameter) is Array else np.shape(parameter)


def shown(value: Any) -> str:
    """Returns a parameter as one line of an error."""
    text = " ".join(str(on_host(value)).split())
    return text if len(text) < 80 else f"{type(value).__name__} of shape {shape_of(value)}"


def reals(name: str, value: Any) -> HostArray:
    """Returns a parameter, a number or an array, in float64; raises TypeError if it is not of real numbers."""
    numbers = np.asarray(float(value) if type(value) is int else on_host(value))  # ints above 64 bits included
    if numbers.dtype.kind not in "biuf":
        raise TypeError(f"{name}: parameters are real numbers, or arrays of them; got {shown(value)}")
    return np.asarray(numbers, np.float64)


def require_in_range(dtype: np.dtype[Any], value: Any) -> None:
    """Raises OverflowError if a finite parameter, other than a device array, is beyond the range of a float dtype."""
    if type(value) in (int, float) and -_SMALL < value < _SMALL:
        return
    given, most = np.abs(reals("a random distribution", () if type(value) is Array else value)), finfo(dtype).max
    if np.any((given > most) & np.isfinite(given)):
        raise OverflowError(
            f"a random distribution of {dtype} has parameters up to {most:g}; got {shown(value)}; for larger "
            'ones, vkcompute.numpy.set_default_dtype("float64")'
        )


def shape_for(size: Size, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of results: `size`, to which the shapes of parameters broadcast, or their common shape."""
    common = np.broadcast_shapes(*shapes) if any(shapes) else ()
    if size is None:
        return common
    shape = checked_shape(size)
    if common and np.broadcast_shapes(shape, common) != shape:
        raise ValueError(f"parameters of shape {common} do not broadcast to the size {shape}")
    return shape


def require_within(name: str, *, positive: bool = True, most: float = np.inf, **given: Any) -> None:
    """Checks parameters: numbers that are positive, or not negative (-0.0 included, as in NumPy), and at most `most`.

    Raises:
        TypeError: one is no real number.
        ValueError: one is outside of these limits.
    """
    for key, value in given.items():
        numbers = reals(name, value)
        fits = (numbers > 0 if positive else ~np.signbit(numbers)) & (numbers <= most)
        if not fits.all():
            limit = "" if most == np.inf else f" and at most {most:g}"
            rule = f"{name}: {key} is {'above 0' if positive else 'not negative'}{limit}"
            raise ValueError(f"{rule}; got {shown(value)}")


def degrees_of_freedom(name: str, df: Any) -> HostArray:
    """Returns degrees of freedom in float64.

    Raises:
        ValueError: one exceeds the largest float32, of which the variates are.
    """
    degrees, most = reals(name, df), float(np.finfo(np.float32).max)
    if np.any(degrees > most):
        raise ValueError(f"{name}: degrees of freedom are at most {most:g}; got {shown(df)}")
    return degrees


def words_of_ranges(
    first: Any, last: Any, endpoint: bool, dtype: np.dtype[Any]
) -> tuple[HostArray, HostArray, HostArray]:
    """Returns the lowest integers of ranges, and the spans and limits of the words from which they are drawn."""
    starts, spans = _ranges(first, last, endpoint, dtype)
    word = np.dtype("uint64" if spans.size and spans.max() >= 2**32 else "uint32")
    spans, limits = (np.asarray(array.astype(word)) for array in (spans, _largest_accepted(spans, np.iinfo(word).max)))
    return np.asarray(starts.astype(dtype)), spans, limits


words_of_range = lru_cache(256)(words_of_ranges)
"""The same for ints, kept by their values."""


def _ranges(first: Any, last: Any, endpoint: bool, dtype: np.dtype[Any]) -> tuple[HostArray, HostArray]:
    """Returns the lowest integers, and the distances of the highest ones from them, in uint64."""
    starts, stops = (np.asarray(on_host(end)) for end in (first, last))
    if any(ends.dtype.kind not in "biuO" for ends in (starts, stops)):
        raise TypeError(f"the ends of ranges are integers; got {shown(first)} and {shown(last)}")
    is_empty = starts > stops if endpoint else starts >= stops
    stops = stops if endpoint else np.asarray(stops - 1)
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if np.any(is_empty) or np.any(starts < low) or np.any(stops > high):
        given = f"integers from {shown(first)} to {shown(last)}{'' if endpoint else ', without the end'}"
        raise ValueError(f"{given}, of {dtype}: a range is not empty, and lies within {low} to {high}")
    wide = np.uint64 if dtype.kind == "u" else np.int64
    bits = [np.asarray(ends.astype(wide)).view(np.uint64) for ends in (starts, stops)]
    return starts, np.asarray(bits[1] - bits[0])


def _largest_accepted(spans: HostArray, most: int) -> HostArray:
    """Returns the largest words whose remainders are unbiased, of words up to `most`; spans are in uint64."""
    n = np.where(spans == 2**64 - 1, np.uint64(1), spans + np.uint64(1))
    rest = (np.uint64(most) % n + np.uint64(1)) % n
    return np.asarray(np.uint64(most) - rest)


def require_not_negative(name: str, value: Any) -> None:
    """Raises ValueError if a parameter is negative, -0.0 included as in NumPy, or NaN."""
    if type(value) in (int, float) and value > 0:
        return
    numbers = reals(name, value)
    if np.any(np.isnan(numbers) | np.signbit(numbers)):
        raise ValueError(f"{name} is not negative; got {shown(value)}")


def gamma_shapes(name: str, value: Any, *, positive: bool = False) -> HostArray:
    """Returns a parameter of a distribution in float32; a positive one remains so."""
    numbers, limits = reals(name, value), finfo(np.float32)
    if not np.all((numbers > 0 if positive else ~np.signbit(numbers)) & (numbers <= limits.max)):
        rule = f"{name}: parameters are {'positive' if positive else 'not negative'}, and at most {limits.max:g}"
        raise ValueError(f"{rule}; got {shown(value)}")
    return np.asarray(np.where(numbers > 0, np.maximum(numbers, limits.tiny), 0).astype(np.float32))


def probabilities(p: Any, n: int, n_taken: int, replace: bool) -> HostArray:
    """Returns probabilities that are valid, in float64."""
    host = np.asarray(on_host(p), np.float64)
    if host.shape != (n,) or not np.all(host >= 0) or abs(host.sum() - 1) > 1e-6:
        raise ValueError(f"choice: p are {n} probabilities, whose sum is 1; got shape {host.shape}, sum {host.sum()}")
    if not replace and np.count_nonzero(host) < n_taken:
        raise ValueError(f"choice: {n_taken} elements of {np.count_nonzero(host)} that are possible")
    return np.asarray(host / host.sum())
