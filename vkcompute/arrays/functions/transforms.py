"""NumPy's Fourier transforms, on the device: of complex arrays, along one axis or several.

Floats of 16 and 32 bits become complex64, float64 becomes complex128, and integers the complex dtype of the default
float. The frequencies of `fftfreq` are computed on the host, as all ranges are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms import fft as pairs
from vkcompute.arrays.algorithms.lines import axis_of
from vkcompute.arrays.expressions.promotion import complex_of, default_float, floating, part_of
from vkcompute.arrays.expressions.ufunc import apply, astype, written
from vkcompute.arrays.functions import products
from vkcompute.arrays.functions.creation import runtime_for, zeros
from vkcompute.arrays.functions.manipulation import concat, roll
from vkcompute.dtypes import as_dtype
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.runtime import constant

Axes = int | Sequence[int] | None
_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _scale(n: int, norm: str | None, *, inverse: bool) -> float:
    """Returns the factor of a transform of this length.

    Raises:
        ValueError: there is no such norm.
    """
    if norm not in _OPPOSITE:
        raise ValueError(f'norm is "backward", "ortho" or "forward"; got {norm!r}')
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm != "forward") else 1.0


def _length(name: str, n: int, most: int = pairs.MOST) -> int:
    length = index(n)
    if length < 1:
        raise ValueError(f"{name} takes at least 1 element along an axis, after padding; got {length}")
    if length > most:
        raise ValueError(f"{name} takes at most {most:,} elements along an axis; got {length:,}")
    return length


def _resized(x: Array, n: int, axis: int) -> Array:
    """Returns the first `n` elements along an axis, with zeros where the array has fewer."""
    given = x.shape[axis]
    if given > n:
        return x[(slice(None),) * axis + (slice(n),)]
    if given == n:
        return x
    shape = (*x.shape[:axis], n - given, *x.shape[axis + 1 :])
    return concat([x, zeros(shape, x.dtype, device=x.runtime)], axis=axis)


def _axis(name: str, x: Array, axis: int) -> int:
    return axis_of(name, x.ndim, index(axis))


def _converted(x: Array, dtype: np.dtype[Any]) -> Array:
    return x if x.dtype == dtype else astype(x, dtype)


def _pairs_of(x: Array) -> Array:
    """Returns the view of complex numbers as pairs of floats along a new last axis."""
    x = x if x.contiguous else x.copy()
    return x.reshape((*x.shape, 1)).view(part_of(x.dtype))


def _complex_of(pairs: Array) -> Array:
    return pairs.view(complex_of(pairs.dtype)).reshape(pairs.shape[:-1])


def _transform(name: str, x: Array, n: int | None, axis: int, norm: str | None, *, inverse: bool) -> Array:
    dtype = complex_of(floating(products.require_arrays(name, x)))
    axis = _axis(name, x, axis)
    length = _length(name, x.shape[axis] if n is None else n)
    scale = _scale(length, norm, inverse=inverse)
    resized = _resized(_converted(x, dtype), length, axis)
    if not resized.size:
        return empty_result(x.runtime, resized.shape, dtype)
    return _complex_of(pairs.fft(_pairs_of(resized), axis, inverse=inverse, scale=scale))


# -- along one axis ----------------------------------------------------------------------------------------------------


def fft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Returns the transform along an axis.

    Args:
        n: the length, to which the axis is trimmed or padded with zeros; by default that of the axis.
        norm: "backward" (the default), "ortho" or "forward": the direction that is divided by the length; its root for
            "ortho".
        out: an array for the result, of its shape.

    Raises:
        TypeError: `a` is not a device array.
        ValueError: the length is 0 or too large, or there is no such axis or norm.
    """
    return written(_transform("fft", a, n, axis, norm, inverse=False), out)


def ifft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Returns the inverse transform along an axis. Arguments and errors as of `fft`."""
    return written(_transform("ifft", a, n, axis, norm, inverse=True), out)


def rfft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Returns the first n // 2 + 1 elements of the transform of real numbers. Arguments and errors as of `fft`.

    Raises:
        TypeError: `a` is complex.
    """
    dtype = products.require_arrays("rfft", a)
    if dtype.kind == "c":
        raise TypeError(f"rfft takes real numbers; got {dtype}; pass x.real, or call fft")
    dtype = complex_of(floating(dtype))
    axis = _axis("rfft", a, axis)
    length = _length("rfft", a.shape[axis] if n is None else n)
    scale = _scale(length, norm, inverse=False)
    resized = _resized(_converted(a, part_of(dtype)), length, axis)
    if not resized.size:
        return written(empty_result(a.runtime, (*a.shape[:axis], length // 2 + 1, *a.shape[axis + 1 :]), dtype), out)
    return written(_complex_of(pairs.rfft(resized, axis, scale=scale)), out)


def irfft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Returns the `n` real numbers whose transform starts with these elements. Errors as of `fft`.

    Args:
        n: the length of the result; by default twice that of the axis without its first element.
    """
    dtype = complex_of(floating(products.require_arrays("irfft", a)))
    axis = _axis("irfft", a, axis)
    length = _length("irfft", 2 * (a.shape[axis] - 1) if n is None else n)
    scale = _scale(length, norm, inverse=True)
    resized = _resized(_converted(a, dtype), length // 2 + 1, axis)
    if not resized.size:
        return written(empty_result(a.runtime, (*a.shape[:axis], length, *a.shape[axis + 1 :]), part_of(dtype)), out)
    real = pairs.irfft(_pairs_of(resized), length, axis, scale=scale)
    return written(_converted(real, a.dtype) if a.dtype == np.float16 else real, out)  # as in NumPy


def _conjugate(x: Array) -> Array:
    return apply("conjugate", x) if x.dtype.kind == "c" else x


def hfft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Returns the real transform of a Hermitian-symmetric signal, of which `a` is the first half, as of `irfft`."""
    products.require_arrays("hfft", a)
    return irfft(_conjugate(a), n, axis, _OPPOSITE.get(norm, norm), out)


def ihfft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Returns the first n // 2 + 1 elements of the inverse transform of real numbers. Raises as `rfft`."""
    return written(_conjugate(rfft(a, n, axis, _OPPOSITE.get(norm, norm))), out)


# -- along several axes ------------------------------------------------------------------------------------------------


def _lengths(
    name: str, x: Array, s: Sequence[int] | None, axes: Sequence[int] | None, *, real: bool = False
) -> list[tuple[int, int]]:
    """Returns pairs of a length and an axis.

    Args:
        s: lengths; -1 for that of the axis. Without `axes` they are of the last ones.
        real: True for a last length that gives as many real numbers as `irfft` by default.

    Raises:
        ValueError: there is no such axis, or the numbers of lengths and axes differ.
    """
    products.require_arrays(name, x)
    if axes is None:
        axes = range(x.ndim) if s is None else range(-len(s), 0)
    along = [_axis(name, x, axis) for axis in axes]
    if s is None:
        lengths = [x.shape[axis] for axis in along]
        if real and along:
            lengths[-1] = 2 * (lengths[-1] - 1)
    else:
        lengths = [x.shape[axis] if n == -1 else n for n, axis in zip(s, along, strict=False)]
    if len(along) != len(lengths if s is None else s):
        raise ValueError(f"{name} takes a length per axis; got s={tuple(s or ())} for axes={tuple(axes)}")
    return list(zip(lengths, along, strict=True))


def _of_each(
    name: str, function: Callable[..., Array], x: Array, steps: list[tuple[int, int]], norm: str | None
) -> Array:
    """Returns the transform by each step, the last one first."""
    _scale(1, norm, inverse=False)
    for n, axis in reversed(steps):
        x = function(x, n, axis, norm)
    products.require_arrays(name, x)
    return x


def _split(name: str, steps: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    if not steps:
        raise IndexError(f"{name} takes at least one axis; got none")
    return steps[:-1], steps[-1]


def fftn(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the transform along axes, all by default.

    Args:
        s: a length per axis, as `n` of `fft`; -1 for that of the axis. Without `axes` they are of the last ones.
        axes: an axis that is named twice is transformed twice.

    Raises:
        TypeError: `a` is not a device array.
        ValueError: as by `fft`, or the numbers of lengths and axes differ.
    """
    return written(_of_each("fftn", fft, a, _lengths("fftn", a, s, axes), norm), out)


def ifftn(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the inverse transform along axes. Arguments and errors as of `fftn`."""
    return written(_of_each("ifftn", ifft, a, _lengths("ifftn", a, s, axes), norm), out)


def rfftn(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the transform of real numbers along axes: `rfft` along the last, then `fft`. Raises as these."""
    first, (n, axis) = _split("rfftn", _lengths("rfftn", a, s, axes))
    return written(_of_each("rfftn", fft, rfft(a, n, axis, norm), first, norm), out)


def irfftn(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the real numbers whose transform by `rfftn` this is. Arguments and errors as of `irfft` and `fftn`."""
    first, (n, axis) = _split("irfftn", _lengths("irfftn", a, s, axes, real=True))
    return irfft(_of_each("irfftn", ifft, a, first[::-1], norm), n, axis, norm, out)


def fft2(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the transform along two axes. Arguments and errors as of `fftn`."""
    return fftn(a, s, axes, norm, out)


def ifft2(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the inverse transform along two axes. Arguments and errors as of `fftn`."""
    return ifftn(a, s, axes, norm, out)


def rfft2(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the transform of real numbers along two axes. Arguments and errors as of `rfftn`."""
    return rfftn(a, s, axes, norm, out)


def irfft2(
    a: Array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: Array | None = None,
) -> Array:
    """Returns the real numbers whose transform by `rfft2` this is. Arguments and errors as of `irfftn`."""
    return irfftn(a, s, axes, norm, out)


# -- frequencies -------------------------------------------------------------------------------------------------------


def _frequencies(of: Callable[..., Any], n: int, d: float, dtype: npt.DTypeLike | None, device: Any) -> Array:
    if np.asarray(d).dtype.kind not in "biuf":
        raise TypeError(f"the distance of samples is a real number; got d={d!r}")
    wanted = default_float() if dtype is None else as_dtype(dtype)
    if wanted.kind != "f":
        raise ValueError(f"frequencies are floats; got dtype={wanted}")
    return constant(runtime_for(device), of(_length(of.__name__, n, sys.maxsize), d).astype(wanted))


def fftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Returns the frequencies of the elements of `fft`, of `n` samples at a distance `d`.

    Raises:
        ValueError: `n` is less than 1, or the dtype is not a float.
        ZeroDivisionError: `d` is 0.
    """
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Returns the frequencies of the elements of `rfft`. Arguments and errors as of `fftfreq`."""
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


def _shifted(name: str, x: Array, axes: Axes, sign: int) -> Array:
    products.require_arrays(name, x)
    chosen = range(x.ndim) if axes is None else axes if isinstance(axes, Sequence) else (axes,)
    along = tuple([_axis(name, x, axis) for axis in chosen])
    return roll(x, tuple([sign * (x.shape[axis] // 2) for axis in along]), along)


def fftshift(x: Array, axes: Axes = None) -> Array:
    """Returns the elements with the frequency 0 in the middle of axes, all by default."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Array, axes: Axes = None) -> Array:
    """Returns the elements in the order before `fftshift`."""
    return _shifted("ifftshift", x, axes, -1)
