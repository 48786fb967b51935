"""Discrete Fourier transforms of any length, of complex numbers as pairs of floats along the last axis.

A length with the prime factors 2, 3, 5 and 7 takes a launch per factor, by Stockham's algorithm, which needs no
reordering (C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, 1.7). Other transforms become a
cyclic convolution (L. I. Bluestein, A linear filtering approach to the computation of the DFT, 1970). A row beyond the
reach of a launch is a matrix, whose columns and rows are transformed (D. H. Bailey, FFTs in external or hierarchical
memory, 1990).
"""

from __future__ import annotations

import math
from functools import cache
from math import prod
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings, exceeds_bindings
from vkcompute.arrays.algorithms.lines import axis_of, contiguous, copy_into, launch
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result

_RADICES = 4, 2, 3, 5, 7
MOST = 2**26
"""Length of a transform; eight times that of the convolution is int32."""

_copied = Elementwise("x * scale", "x, scale")


def _root(k: Any, n: Any, out: Any) -> Any:
    """Returns exp(-2 pi i k / n), from sines and cosines up to pi / 4, which are exact to about an ulp."""
    octant, rest = 8 * k // n, 8 * k % n
    is_odd = octant % 2 == 1
    part = out.dtype.type(n - rest if is_odd else rest) / out.dtype.type(n)
    angle = part * out.dtype.type(math.pi / 4)
    x, y = np.cos(angle), np.sin(angle)
    x, y = (y, x) if (octant + 1) // 2 % 2 == 1 else (x, y)
    return -x if 2 <= octant < 6 else x, y if octant >= 4 else -y


@kernel
def _roots(out: Any, n_items: int, first: int, n: int) -> None:
    i = global_id(0)
    if i < n_items:
        out[2 * i], out[2 * i + 1] = _root(first + i, n, out)


def _times(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Returns (a + b i) * (c + d i)."""
    return a * c - b * d, a * d + b * c


@cache
def _stage(radix: int) -> PythonKernel:
    """Makes the kernel of a factor of the length."""
    cosines = tuple(math.cos(2 * math.pi * k / radix) for k in range(radix))
    sines = tuple(-math.sin(2 * math.pi * k / radix) for k in range(radix))

    @kernel
    def stage(
        x: Any, roots: Any, out: Any, n_items: int, n: int, n_left: int, stride: int, sign: int, scale: float
    ) -> None:
        """Transforms groups of `radix` numbers, which are n_left // radix * stride apart."""
        i = global_id(0)
        if i < n_items:
            per_row = n // radix
            row, item = i // per_row * n, i % per_row
            q, p = item % stride, item // stride
            re, im = [x[0]] * radix, [x[0]] * radix
            for k in range(radix):
                at = 2 * (row + q + stride * (p + n_left // radix * k))
                re[k], im[k] = x[at], x[at + 1]
            for j in range(radix):
                u, v = re[0], im[0]
                for k in range(1, radix):
                    if 4 * j * k % radix == 0:
                        turns = 4 * j * k // radix % 4
                        a, b = re[k], im[k]
                        if turns == 1:
                            a, b = im[k] * sign, -re[k] * sign
                        elif turns == 2:
                            a, b = -a, -b
                        elif turns == 3:
                            a, b = -im[k] * sign, re[k] * sign
                        u, v = u + a, v + b
                    else:
                        a, b = _times(re[k], im[k], cosines[j * k % radix], sines[j * k % radix] * sign)
                        u, v = u + a, v + b
                if j > 0:
                    root = 2 * (j * p * stride)
                    u, v = _times(u, v, roots[root], roots[root + 1] * sign)
                at = 2 * (row + q + stride * (radix * p + j))
                out[at], out[at + 1] = u * scale, v * scale

    return stage


@kernel
def _turn(x: Any, n_items: int, first: int, n: int, n_columns: int, sign: int) -> None:
    """Multiplies the elements (i, j) of a matrix by the roots i * j of order n."""
    i = global_id(0)
    if i < n_items:
        row, column = (first + i) // n_columns, (first + i) % n_columns
        u, v = _root(row * column, n, x)
        x[2 * i], x[2 * i + 1] = _times(x[2 * i], x[2 * i + 1], u, v * sign)


@kernel
def _chirp(out: Any, n_items: int, first: int, n: int, sign: int) -> None:
    """Computes exp(-pi i k**2 / n) as a root of order 2 n."""
    i = global_id(0)
    if i < n_items:
        k = first + i
        square, term, order = np.uint32(0), np.uint32(k), np.uint32(2 * n)
        for bit in range(28):
            if (k >> bit) & 1 == 1:
                square = (square + term) % order
            term = (term + term) % order
        u, v = _root(np.int32(square), 2 * n, out)
        out[2 * i], out[2 * i + 1] = u, v * sign


@kernel
def _modulate(x: Any, chirp: Any, out: Any, n_items: int, n: int, length: int) -> None:
    """Multiplies rows by the chirp, and pads them with zeros to a length."""
    i = global_id(0)
    if i < n_items:
        row, k = i // length, i % length
        u, v = x[0] - x[0], x[0] - x[0]
        if k < n:
            at = 2 * (row * n + k)
            u, v = _times(x[at], x[at + 1], chirp[2 * k], chirp[2 * k + 1])
        out[2 * i], out[2 * i + 1] = out.dtype.type(0) if k >= n else u, out.dtype.type(0) if k >= n else v


@kernel
def _filter(chirp: Any, out: Any, n_items: int, n: int) -> None:
    """Stores the conjugate chirp of -n + 1 to n - 1 cyclically."""
    i = global_id(0)
    if i < n_items:
        k = min(i, n_items - i)
        at = 2 * min(k, n - 1)
        zero = out.dtype.type(0)
        out[2 * i], out[2 * i + 1] = chirp[at] if k < n else zero, -chirp[at + 1] if k < n else zero


@kernel
def _convolve(x: Any, y: Any, n_items: int, n: int) -> None:
    """Multiplies the rows of `x` by `y`, in place."""
    i = global_id(0)
    if i < n_items:
        at = 2 * (i % n)
        x[2 * i], x[2 * i + 1] = _times(x[2 * i], x[2 * i + 1], y[at], y[at + 1])


@kernel
def _multiply(x: Any, y: Any, out: Any, n_items: int, scale: float) -> None:
    i = global_id(0)
    if i < n_items:
        u, v = _times(x[2 * i], x[2 * i + 1], y[2 * i], y[2 * i + 1])
        out[2 * i], out[2 * i + 1] = u * scale, v * scale


@kernel
def _demodulate(x: Any, chirp: Any, out: Any, n_items: int, n: int, length: int, scale: float) -> None:
    """Multiplies the first n elements of rows by the chirp."""
    i = global_id(0)
    if i < n_items:
        row, k = i // n, i % n
        at = 2 * (row * length + k)
        u, v = _times(x[at], x[at + 1], chirp[2 * k], chirp[2 * k + 1])
        out[2 * i], out[2 * i + 1] = u * scale, v * scale


@kernel
def _widen(x: Any, out: Any, n_items: int) -> None:
    i = global_id(0)
    if i < n_items:
        out[2 * i], out[2 * i + 1] = x[i], out.dtype.type(0)


@kernel
def _mirror(x: Any, out: Any, n_items: int, n: int, n_given: int) -> None:
    """Completes the transform of real numbers from its first n // 2 + 1 elements."""
    i = global_id(0)
    if i < n_items:
        row, k = i // n, i % n
        is_first = k <= n // 2
        at = 2 * (row * n_given + (k if is_first else n - k))
        is_real = k == 0 or 2 * k == n
        imaginary = x[at + 1] if is_first else -x[at + 1]
        out[2 * i], out[2 * i + 1] = x[at], out.dtype.type(0) if is_real else imaginary


def _factors(n: int) -> list[int]:
    """Returns factors among the radices whose product is the largest that divides `n`."""
    factors = []
    for radix in _RADICES:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return factors


def fft(x: Array, axis: int = -1, *, inverse: bool = False, scale: float = 1.0) -> Array:
    """Returns the discrete Fourier transform along an axis, times `scale`.

    Args:
        x: float32 or float64 of shape (..., 2); the other axes are those of the complex numbers.
        axis: among these.
        inverse: True for the conjugate exponents; the result is not divided by the length, except by `scale`.

    Raises:
        TypeError: the elements are of another dtype.
        ValueError: the last axis has not two elements, there is no such axis, or the length is 0 or too large.
    """
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(f"fft takes pairs of float32 or float64; got {x.dtype}")
    if x.ndim < 2 or x.shape[-1] != 2:
        raise ValueError(f"fft takes pairs along the last axis; got the shape {x.shape}")
    axis = axis_of("fft", x.ndim - 1, axis)
    n = x.shape[axis]
    if not 0 < n <= MOST:
        raise ValueError(f"the length of a transform is from 1 to {MOST:,}; got {n}")
    others = [at for at in range(x.ndim - 1) if at != axis]
    order = (*others, axis, x.ndim - 1)
    moved = contiguous(x.transpose(order))
    out = empty_result(x.runtime, moved.shape, x.dtype)
    if out.size:
        _transform(moved.reshape(-1), out.reshape(-1), n, inverse=inverse, scale=scale)
    return contiguous(out.transpose(tuple(map(order.index, range(x.ndim)))))


def _transform(x: Array, out: Array, n: int, *, inverse: bool, scale: float) -> None:
    """Transforms contiguous rows of `n` pairs into others."""
    factors, n_rows = _factors(n), x.size // (2 * n)
    is_product = prod(factors) == n
    length = n if is_product else _convolved(n)
    row, rows = (count * 2 * length * x.dtype.itemsize for count in (1, n_rows))
    if n == 1:
        _copied(x, scale, out=out)
    elif not bytes_exceed_bindings(x, rows, row, rows):
        if is_product:
            _by_factors(x, out, n, factors, _roots_of(x, n), inverse=inverse, scale=scale)
        else:
            _by_convolution(x, out, n, inverse=inverse, scale=scale)
    elif n_rows > 1:
        for half in halves(n_rows):
            some, target = (array.reshape(n_rows, -1)[half].reshape(-1) for array in (x, out))
            _transform(some, target, n, inverse=inverse, scale=scale)
    else:
        (_as_matrix if is_product else _by_long_convolution)(x, out, n, inverse=inverse, scale=scale)


def _as_matrix(x: Array, out: Array, n: int, *, inverse: bool, scale: float) -> None:
    """Transforms a row beyond the reach of a launch by its columns and rows as a matrix, the squarest that it fills."""
    n_rows = max(count for count in range(1, math.isqrt(n) + 1) if n % count == 0)
    columns = fft(x.reshape(n_rows, -1, 2), 0, inverse=inverse)
    _launch_in_parts(_turn, columns.reshape(-1), 0, n, n // n_rows, -1 if inverse else 1)
    rows = fft(columns, 1, inverse=inverse, scale=scale)
    copy_into(rows.transpose(1, 0, 2), out.reshape(-1, n_rows, 2))


def _by_long_convolution(x: Array, out: Array, n: int, *, inverse: bool, scale: float) -> None:
    """Transforms a row beyond the reach of a launch, as `_by_convolution` does."""
    length, sign = _convolved(n), -1 if inverse else 1
    chirp = temporary(x.runtime, 2 * n, x.dtype)
    rows, response, spectrum, other = (temporary(x.runtime, 2 * length, x.dtype) for _ in range(4))
    _launch_in_parts(_chirp, chirp, 0, n, sign)
    response.fill(0)
    _launch_in_parts(_chirp, response[: 2 * n], 0, n, -sign)
    copy_into(response.reshape(-1, 2)[n - 1 : 0 : -1], response.reshape(-1, 2)[length - n + 1 :])
    rows.fill(0)
    _multiply_in_parts(x, chirp, rows[: 2 * n], 1.0)
    _transform(response, spectrum, length, inverse=False, scale=1.0)
    _transform(rows, other, length, inverse=False, scale=1.0)
    _multiply_in_parts(spectrum, other, rows, 1.0)
    _transform(rows, response, length, inverse=True, scale=1.0 / length)
    _multiply_in_parts(response[: 2 * n], chirp, out, scale)


def _launch_in_parts(program: PythonKernel, x: Array, first: int, *sizes: int) -> None:
    """Launches a kernel on pairs, of which the first has this number, or on as many as a launch reaches."""
    n_items = x.size // 2
    if n_items > 1 and exceeds_bindings(x):
        for half in halves(n_items):
            _launch_in_parts(program, x[2 * half.start : 2 * half.stop], first + half.start, *sizes)
    else:
        launch(program, n_items, x, n_items, first, *sizes)


def _multiply_in_parts(x: Array, y: Array, out: Array, scale: float) -> None:
    """Stores the products of pairs, times `scale`."""
    n_items = x.size // 2
    if n_items > 1 and exceeds_bindings(x, y, out):
        for half in halves(n_items):
            part = slice(2 * half.start, 2 * half.stop)
            _multiply_in_parts(x[part], y[part], out[part], scale)
    else:
        launch(_multiply, n_items, x, y, out, n_items, scale)


def _roots_of(x: Array, n: int) -> Array:
    roots = temporary(x.runtime, 2 * n, x.dtype)
    launch(_roots, n, roots, n, 0, n)
    return roots


def _by_factors(x: Array, out: Array, n: int, factors: list[int], roots: Array, *, inverse: bool, scale: float) -> None:
    n_left, stride = n, 1
    for k, radix in enumerate(factors):
        is_last = k == len(factors) - 1
        target = out if is_last else temporary(x.runtime, x.size, x.dtype)
        n_items = x.size // 2 // radix
        sizes = n_items, n, n_left, stride, -1 if inverse else 1, float(scale) if is_last else 1.0
        launch(_stage(radix), n_items, x, roots, target, *sizes)
        x, n_left, stride = target, n_left // radix, stride * radix


def _convolved(n: int) -> int:
    """Returns the length of the convolution for a transform of n numbers."""
    return 1 << (2 * n - 2).bit_length()


def _by_convolution(x: Array, out: Array, n: int, *, inverse: bool, scale: float) -> None:
    runtime, n_rows = x.runtime, x.size // (2 * n)
    length = _convolved(n)
    chirp = temporary(runtime, 2 * n, x.dtype)
    launch(_chirp, n, chirp, n, 0, n, -1 if inverse else 1)
    roots, factors = _roots_of(x, length), _factors(length)
    response, spectrum = (temporary(runtime, 2 * length, x.dtype) for _ in range(2))
    launch(_filter, length, chirp, response, length, n)
    _by_factors(response, spectrum, length, factors, roots, inverse=False, scale=1.0)
    rows, other = (temporary(runtime, 2 * length * n_rows, x.dtype) for _ in range(2))
    launch(_modulate, length * n_rows, x, chirp, rows, length * n_rows, n, length)
    _by_factors(rows, other, length, factors, roots, inverse=False, scale=1.0)
    launch(_convolve, length * n_rows, other, spectrum, length * n_rows, length)
    _by_factors(other, rows, length, factors, roots, inverse=True, scale=1.0 / length)
    launch(_demodulate, n * n_rows, rows, chirp, out, n * n_rows, n, length, float(scale))


def rfft(x: Array, axis: int = -1, *, scale: float = 1.0) -> Array:
    """Returns the first half of the transform of real numbers along an axis: n // 2 + 1 pairs. Raises as `fft`."""
    axis = axis_of("rfft", x.ndim, axis)
    pairs = temporary(x.runtime, (*x.shape, 2), x.dtype)
    _store_pairs(contiguous(x).reshape(-1), pairs.reshape(-1))
    full = fft(pairs, axis, scale=scale)
    return contiguous(full[(slice(None),) * axis + (slice(0, x.shape[axis] // 2 + 1),)])


def _store_pairs(x: Array, out: Array) -> None:
    """Stores real numbers as pairs."""
    if x.size > 1 and exceeds_bindings(x, out):
        for half in halves(x.size):
            _store_pairs(x[half], out[2 * half.start : 2 * half.stop])
    else:
        launch(_widen, x.size, x, out, x.size)


def irfft(x: Array, n: int, axis: int = -1, *, scale: float = 1.0) -> Array:
    """Returns `n` real numbers along an axis, of whose transform `x` has the first n // 2 + 1 pairs. Raises as `fft`.

    Raises:
        ValueError: there are fewer pairs.
    """
    axis = axis_of("irfft", x.ndim - 1, axis)
    n_given = x.shape[axis]
    if n_given < n // 2 + 1:
        raise ValueError(f"{n} real numbers have {n // 2 + 1} pairs; got {n_given}; pad with zeros")
    moved = contiguous(x.transpose((*[at for at in range(x.ndim - 1) if at != axis], axis, x.ndim - 1)))
    pairs = temporary(x.runtime, (*moved.shape[:-2], n, 2), x.dtype)
    n_rows = prod(moved.shape[:-2])
    _complete(moved.reshape(n_rows, n_given, 2), pairs.reshape(n_rows, n, 2))
    real = fft(pairs, -1, inverse=True, scale=scale)[..., 0]
    return contiguous(real.transpose((*range(axis), real.ndim - 1, *range(axis, real.ndim - 1))))


def _complete(x: Array, out: Array) -> None:
    """Stores whole transforms of real numbers, given the first pairs of each."""
    n_rows = len(x)
    if n_rows > 1 and exceeds_bindings(x, out):
        for half in halves(n_rows):
            _complete(x[half], out[half])
    elif n_rows and exceeds_bindings(x, out):
        _complete_long(x[0], out[0])
    else:
        n_items = out.size // 2
        launch(_mirror, n_items, x.reshape(-1), out.reshape(-1), n_items, out.shape[1], x.shape[1])


def _complete_long(x: Array, out: Array) -> None:
    """Stores the whole transform of a row of real numbers that is beyond the reach of a launch."""
    n = len(out)
    n_first = n // 2 + 1
    copy_into(x[:n_first], out[:n_first])
    copy_into(x[n - n_first : 0 : -1], out[n_first:])
    _copied(out[n_first:, 1], -1.0, out=out[n_first:, 1])
    out[:1, 1].fill(0)
    if n % 2 == 0:
        out[n // 2 : n_first, 1].fill(0)
