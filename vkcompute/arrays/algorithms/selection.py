"""Selection of elements by a condition: nonzero, compress, repeat.

The size of a result depends on the data, so these functions wait for its computation.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.gather import gather, gather_elements, take, words
from vkcompute.arrays.algorithms.lines import (
    add,
    axis_of,
    contiguous,
    copy_into,
    flat,
    iota,
    launch,
    lines_along,
    part_length,
)
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.search import searchsorted
from vkcompute.arrays.expressions.promotion import default_int
from vkcompute.compiled.arguments import MOST_ELEMENTS
from vkcompute.compiled.blocks import block_of
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.elementwise.reduction import reduce
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.bit_operations import ctz, popcount
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.launch_arrays import rounded

_WORD = 32
"""Elements whose bits are in a word."""

_unraveled = Elementwise("at // stride % length", "at, stride, length")
_least = reduce("min(a, b)", 0)
_about = reduce("a + b", 0.0)


@kernel
def _pack(mask: Any, bits: Any, counts: Any, n_items: int, n: int, length: int) -> None:
    """Stores the bits of each part, and counts the true ones."""
    i = global_id(0)
    if i < n_items:
        first, count = i * length, 0
        for start in range(first, min(first + length, n), _WORD):
            packed = np.uint32(0)
            for k in range(min(_WORD, n - start)):
                packed |= (np.uint32(1) if mask[start + k] != 0 else np.uint32(0)) << np.uint32(k)
            bits[start // _WORD] = packed
            count += popcount(packed)
        counts[i] = count


def _bits_of_bytes(word: Any) -> Any:
    """Returns a bit for each byte of a word, 1 if it is not 0."""
    ones = np.uint32(0x7F7F7F7F)
    upper = (((word & ones) + ones) | word) & np.uint32(0x80808080)
    return (upper >> np.uint32(7)) * np.uint32(0x01020408) >> np.uint32(24)


def _bits_of_both(word: Any) -> Any:
    """Returns a bit for each byte of a word of 64 bits."""
    upper = np.uint32(word >> np.uint64(32))
    return _bits_of_bytes(np.uint32(word)) | _bits_of_bytes(upper) << np.uint32(4)


@cache
def _packing(itemsize: int) -> Any:
    """Returns the kernel for masks of bytes that are given as words of 4 or 8 bytes."""
    bits_of = _bits_of_both if itemsize == 8 else _bits_of_bytes

    @kernel
    def pack_words(mask: Any, bits: Any, counts: Any, n_items: int, n: int, length: int) -> None:
        """Stores the bits of each part, and counts the true ones, as `_pack`."""
        i = global_id(0)
        if i < n_items:
            first, count, n_words = i * length, 0, n // itemsize
            for start in range(first, min(first + length, n), _WORD):
                packed = np.uint32(0)
                for k in range(_WORD // itemsize):
                    word = mask[min(start // itemsize + k, n_words - 1)]
                    packed |= bits_of(word) << np.uint32(itemsize * k)
                if start + _WORD > n:
                    packed &= ~np.uint32(0) >> np.uint32(start + _WORD - n)
                bits[start // _WORD] = packed
                count += popcount(packed)
            counts[i] = count

    return pack_words


@kernel
def _store_selected(bits: Any, starts: Any, x: Any, out: Any, n_items: int, n: int, length: int) -> None:
    """Stores the elements that are selected in each part from its start on; without an `x`, their indices."""
    i = global_id(0)
    if i < n_items:
        first, target = i * length, starts[i]
        for start in range(first, min(first + length, n), _WORD):
            left = bits[start // _WORD]
            while left != np.uint32(0):
                index = start + ctz(left)
                out[target] = index if x is None else x[index]
                target += 1
                left &= left - np.uint32(1)


@kernel
def _store_all(bits: Any, starts: Any, x: Any, out: Any, n_items: int, n: int, length: int) -> None:
    """Stores as `_store_selected`, in the same number of steps for every part.

    Stores each element at the index of the next selected one, which replaces it unless it is selected.
    Nothing is stored behind the last selected element of the part.
    """
    i = global_id(0)
    if i < n_items:
        first, target, end = i * length, starts[i], starts[i + 1]
        for start in range(first, min(first + length, n), _WORD):
            left = bits[start // _WORD]
            for k in range(_WORD):
                if target < end:  # so the index is within the mask
                    out[target] = start + k if x is None else x[start + k]
                target += np.int32(left & np.uint32(1))
                left >>= np.uint32(1)


class Selected:
    """The true elements of a mask, which is read once: its bits are stored, and counted in parts.

    Attributes:
        count: number of true elements; the constructor waits for it.
    """

    def __init__(self, mask: Array) -> None:
        mask, runtime = flat(mask), mask.runtime
        self._runtime, self._parts = runtime, list[tuple[slice, Selected]]()
        if mask.size > 1 and bytes_exceed_bindings(mask, *[mask.size * max(mask.dtype.itemsize, 8)] * 4):
            self._parts = [(half, Selected(mask[half])) for half in halves(mask.size)]
            self.count: int = sum(part.count for _, part in self._parts)
            return
        longest = tuning_of(runtime.device.physical).selection_part
        length = rounded(part_length(mask.size, longest), _WORD)
        self.count, self._sizes = 0, (-(-mask.size // length), mask.size, length)
        if mask.size:
            self._bits = temporary(runtime, -(-mask.size // _WORD), np.uint32)
            counts = temporary(runtime, self._sizes[0], np.int32)
            pack, words = _packed(mask)
            launch(pack, self._sizes[0], words, self._bits, counts, *self._sizes)
            self._starts = cumulative(counts, "sum", 0, np.int32, include_initial=True)
            self.count = int(self._starts[-1])

    def indices(self, dtype: npt.DTypeLike = np.int32) -> Array:
        """Returns the indices of the true elements in row-major order, as integers."""
        out, end = empty_result(self._runtime, self.count, dtype), 0
        for half, part in self._parts:
            start, end = end, end + part.count
            if part.count:
                add(part.indices(dtype), half.start, out=out[start:end])
        if self.count and not self._parts:
            self._store(None, out)
        return out

    def elements(self, x: Array) -> Array:
        """Returns the elements of an array with as many elements as the mask."""
        out = empty_result(x.runtime, self.count, x.dtype)
        if not self.count:
            return out
        if self._parts:
            elements, end = flat(x), 0
            for half, part in self._parts:
                start, end = end, end + part.count
                copy_into(part.elements(elements[half]), out[start:end])
            return out
        (source, n_words), (target, _) = words(contiguous(x)), words(out)
        if n_words > 1:
            return gather_elements(contiguous(x), self.indices(), out)
        self._store(source, target)
        return out

    def _store(self, x: Array | None, out: Array) -> None:
        n_items, n, _ = self._sizes
        is_dense = self.count > n * tuning_of(self._runtime.device.physical).dense_selection
        kernel = _store_all if is_dense else _store_selected
        launch(kernel, n_items, self._bits, self._starts, x, out, *self._sizes)


def _packed(mask: Array) -> tuple[Any, Array]:
    """Returns the kernel that stores the bits of a mask, and the mask as words, if its bytes are whole words."""
    if mask.dtype.itemsize == 1 and mask.dtype.kind in "biu":
        for word in (block_of(runtime_of(mask), [8]).word, "uint32"):
            dtype = np.dtype(word)
            if mask.size % dtype.itemsize == 0 == mask.offset % dtype.itemsize:
                return _packing(dtype.itemsize), mask.view(dtype)
    return _pack, mask


def flatnonzero(x: Array) -> Array:
    """Returns the indices of elements other than 0 in the flattened array."""
    return Selected(x).indices(default_int(x.runtime))


def nonzero(x: Array) -> tuple[Array, ...]:
    """Returns the indices of elements other than 0 in row-major order, an array per axis, as NumPy's nonzero.

    Raises:
        ValueError: the array has no axes.
    """
    if not x.shape:
        raise ValueError("nonzero takes an array with axes; got one of shape (); reshape it to (1,)")
    if x.ndim == 1:
        return (flatnonzero(x),)
    indices, result = Selected(x).indices(), []
    for axis, n in enumerate(x.shape):
        out = empty_result(x.runtime, indices.shape, default_int(x.runtime))
        if indices.size:
            _unraveled(indices, lines_along(x.shape, axis).n_columns, n, out=out)
        result.append(out)
    return tuple(result)


def masked(x: Array, mask: Array) -> Array:
    """Returns the elements at which a mask of the same shape is true, in row-major order, as `x[mask]` of NumPy."""
    if mask.shape != x.shape:
        raise IndexError(f"a mask has the shape of the array; got {mask.shape} for {x.shape}")
    return Selected(mask).elements(x)


def compress(condition: Array, x: Array, axis: int | None = None) -> Array:
    """Returns the slices along an axis for which a condition is true, as NumPy's compress.

    Raises:
        ValueError: the condition has not one axis, or there is no such axis.
        IndexError: a condition is true beyond the end of the axis.
    """
    if condition.ndim != 1:
        raise ValueError(f"a condition has one axis; got the shape {condition.shape}")
    return take(x, Selected(condition).indices(), axis)


def repeat(x: Array, repeats: int | Array, axis: int | None = None) -> Array:
    """Returns the array with each element repeated, as NumPy's repeat; waits only if `repeats` is an array.

    Raises:
        ValueError: a number is negative, or the numbers are not one per element.
    """
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of("repeat", x.ndim, axis)
    n, before, behind = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    if not isinstance(repeats, Array):
        if repeats < 0:
            raise ValueError(f"repeats may not contain negative values; got {repeats}")
        every = x.reshape((*before, n, 1, *behind)).broadcast_to((*before, n, repeats, *behind))
        return every.copy().reshape((*before, n * repeats, *behind))
    at = _repeated(repeats, n)
    out = empty_result(x.runtime, (*before, at.size, *behind), x.dtype)
    return gather(contiguous(x), at, lines_along(x.shape, axis), out)


def _repeated(repeats: Array, n: int) -> Array:
    """Returns the indices of elements that are repeated these numbers of times."""
    if repeats.ndim > 1 or repeats.size not in (1, n):
        raise ValueError(f"repeats are one number, or one per element ({n}); got the shape {repeats.shape}")
    if repeats.dtype.kind not in "iub":
        raise TypeError(f"repeats are integers; got {repeats.dtype}")
    counts = contiguous(repeats.broadcast_to((n,)))
    if not n:
        return temporary(repeats.runtime, 0, np.int32)
    if counts.dtype.kind == "i" and int(_least(counts)) < 0:
        raise ValueError("repeats may not contain negative values")
    about = float(_about(counts))
    if about > MOST_ELEMENTS * 0.999:
        raise ValueError(f"an array has at most {MOST_ELEMENTS:,} elements; repeats give about {about:,.0f}")
    ends = cumulative(counts, "sum", 0, np.int32)
    return searchsorted_counts(ends, int(ends[-1]))


def searchsorted_counts(ends: Array, total: int) -> Array:
    """Returns for each number below `total` the number of ends that are not greater."""
    return searchsorted(ends, iota(ends.runtime, total), "right", dtype=np.dtype(np.int32))
