"""Bits of bytes."""

from __future__ import annotations

import numpy as np

from vkcompute.arrays.algorithms.lines import axis_of
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.arrays.functions.creation import asarray
from vkcompute.arrays.functions.manipulation import concat, moveaxis, ravel, reshape
from vkcompute.arrays.functions.reductions import sum as total
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of


def _shifts(bitorder: str) -> list[int]:
    if bitorder not in ("big", "little"):
        raise ValueError(f'bitorder is "big" or "little"; got {bitorder!r}')
    return list(range(7, -1, -1) if bitorder == "big" else range(8))


def packbits(a: Array, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Returns bytes, uint8, of 8 elements each along an axis, or of the flattened array: bits are 1 where not zero.

    Args:
        bitorder: "big" if the first element is the highest bit, "little" if it is the lowest.
    """
    if a.dtype.kind not in "biu":
        raise TypeError(f"packbits takes bools and integers; got {a.dtype}")
    weights = asarray([1 << shift for shift in _shifts(bitorder)], np.uint8, device=a.runtime)
    x = ravel(a) if axis is None else moveaxis(a, axis_of("packbits", a.ndim, axis), -1)
    bits = astype(astype(x, np.bool_), np.uint8)
    lacking = -x.shape[-1] % 8
    if lacking:
        zeros = runtime_of(a).zeros((*x.shape[:-1], lacking), np.uint8)
        bits = concat([bits, zeros], -1)
    groups = reshape(bits, (*x.shape[:-1], bits.shape[-1] // 8, 8))
    packed = total(apply("multiply", groups, weights), -1, np.uint8)
    return packed if axis is None else moveaxis(packed, -1, axis)


def unpackbits(a: Array, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Returns the bits of bytes as elements 0 and 1 along an axis, or of the flattened array; see `packbits`.

    Args:
        count: the number of bits; a negative one counts from the end; by default all; bits beyond the bytes are 0.
    """
    if a.dtype != np.uint8:
        raise TypeError(f"unpackbits takes uint8; got {a.dtype}")
    shifts = asarray(_shifts(bitorder), np.uint8, device=a.runtime)
    x = ravel(a) if axis is None else moveaxis(a, axis_of("unpackbits", a.ndim, axis), -1)
    bits = apply("bitwise_and", apply("right_shift", x[..., None], shifts), np.uint8(1))
    unpacked = reshape(bits, (*x.shape[:-1], x.shape[-1] * 8))
    n = unpacked.shape[-1]
    if count is not None and count > n:
        unpacked = concat([unpacked, runtime_of(a).zeros((*unpacked.shape[:-1], count - n), np.uint8)], -1)
    elif count is not None:
        unpacked = unpacked[..., :count]
    return unpacked if axis is None else moveaxis(unpacked, -1, axis)


def byteswapped(x: Array) -> Array:
    """Returns the elements with their bytes in reverse order; of complex ones those of each part."""
    if x.dtype.itemsize == 1 or not x.size:
        return x.copy()
    n = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)
    octets = x.copy().reshape(-1).view(np.uint8).reshape((-1, n))
    return octets[:, ::-1].copy().reshape(-1).view(x.dtype).reshape(x.shape)
