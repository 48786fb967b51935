"""Keys of numbers: words of 32 bits whose unsigned order is that of the numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.lines import converted, flat, launch
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array

_SIGN, _INFINITY, _HALF_INFINITY, _INFINITY_HIGH = 0x80000000, 0x7F800000, 0x7C000000, 0x7FF00000
UNSIGNED, SIGNED, FLOAT, HALF = 0, 1, 2, 3
"""Kinds of the numbers whose keys are made: see `key_of`. HALF is float16 in the upper bits."""
FORMS = {"i": SIGNED, "f": FLOAT}


class Word(NamedTuple):
    """One word of the keys of all elements.

    Attributes:
        keys: uint32, along one axis.
        n_bits: number of bits from the lowest on that differ.
        form, flip: arguments of `key_of`, if the keys are still the bits of numbers.
        first_bit: the lowest bit by which keys are sorted.
    """

    keys: Array
    n_bits: int
    form: int = UNSIGNED
    flip: int = 0
    first_bit: int = 0


def _flipped(key: Any, flip: Any) -> Any:
    return ~key if flip == 1 else key


def key_of(bits: Any, form: int, flip: int) -> Any:
    """Makes a key in the order of numbers of 32 bits; zeros are equal, and so are NaN, the largest.

    Shorter numbers have the upper bits.
    """
    key, sign = bits, np.uint32(_SIGN)
    if form == SIGNED:
        key = key ^ sign
    elif form >= FLOAT:
        magnitude = key & np.uint32(_SIGN - 1)
        if magnitude > (np.uint32(_INFINITY) if form == FLOAT else np.uint32(_HALF_INFINITY)):
            key = ~np.uint32(0)
        elif key >= sign and magnitude > np.uint32(0):
            key = ~key
        else:
            key = magnitude | sign
    return _flipped(key, flip)


_encode = Elementwise(key_of)


def wide_key_of(low: Any, high: Any, form: int, flip: int) -> Any:
    """Makes the two words of a key of a number of 64 bits, as `key_of`; the lower one is the first."""
    sign = np.uint32(_SIGN)
    if form == SIGNED:
        high = high ^ sign
    elif form == FLOAT:
        magnitude, limit = high & np.uint32(_SIGN - 1), np.uint32(_INFINITY_HIGH)
        is_zero = (magnitude | low) == np.uint32(0)
        if magnitude > limit or (magnitude == limit and low > np.uint32(0)):
            low = high = ~np.uint32(0)
        elif high >= sign and not is_zero:
            low, high = ~low, ~high
        else:
            high = magnitude | sign
    return _flipped(low, flip), _flipped(high, flip)


@kernel
def _encode_wide(x: Any, low_keys: Any, high_keys: Any, n_items: int, form: int, flip: int) -> None:
    """Makes keys of numbers of 64 bits, given as words."""
    i = global_id(0)
    if i < n_items:
        low_keys[i], high_keys[i] = wide_key_of(x[2 * i], x[2 * i + 1], form, flip)


_widened = Elementwise("np.uint32(bits) << np.uint32(shift)", "bits, shift")
_narrowed = Elementwise("word >> np.uint32(shift)", "word, shift")
_nan_parts = Elementwise("np.uint32((2 if isnan(real) else 0) + (1 if isnan(imag) else 0))", "real, imag")


def encoded(word: Word) -> Word:
    """Returns the word with its keys, if it has numbers."""
    if not (word.form or word.flip):
        return word
    keys = temporary(word.keys.runtime, word.keys.size, np.uint32)
    _encode(word.keys, word.form, word.flip, out=keys)
    return Word(keys, word.n_bits, first_bit=word.first_bit)


def number_words(x: Array, *, descending: bool = False) -> list[Word]:
    """Returns the words of keys that sort as the elements do, in row-major order, the lowest first.

    Keys of one word are still numbers, of which most algorithms make keys where they read them.

    The order is NumPy's: NaN is the largest number, zeros of both signs are equal. Complex numbers are ordered by their
    real parts, then by the imaginary ones; those with NaN in one part, in the real part and in both are last.
    """
    if x.dtype.kind == "c":
        real, imag = flat(x.real), flat(x.imag)
        kinds = _nan_parts(real, imag)
        return [word for part in (imag, real, kinds) for word in number_words(part, descending=descending)]
    form, flip = FORMS.get(x.dtype.kind, UNSIGNED), int(descending)
    if x.dtype.itemsize == 8:
        low, high = (temporary(x.runtime, x.size, np.uint32) for _ in range(2))
        _store_wide_keys(flat(x).view(np.uint32), low, high, form, flip)
        return [Word(low, 32), Word(high, 32)]
    if x.dtype.itemsize == 4:
        return [Word(flat(x).view(np.uint32), 32, form, flip)]
    if is_short(x.dtype):
        return [Word(widened(x), 32, HALF if form == FLOAT else form, flip, 32 - 8 * x.dtype.itemsize)]
    if x.dtype.kind == "b":
        return [Word(flat(converted(x, np.uint32)), 1, form, flip)]
    return [Word(flat(converted(x, np.float32)).view(np.uint32), 32, FLOAT, flip, 16)]


def _store_wide_keys(x: Array, low: Array, high: Array, form: int, flip: int) -> None:
    if exceeds_bindings(x, low, high):
        words = x.reshape(-1, 2)
        for half in halves(low.size):
            _store_wide_keys(words[half].reshape(-1), low[half], high[half], form, flip)
    else:
        launch(_encode_wide, low.size, x, low, high, low.size, form, flip)


def is_short(dtype: np.dtype[Any]) -> bool:
    """True for integers of 8 and 16 bits, and float16: see `widened`."""
    return dtype.itemsize < 4 and (dtype.kind in "iu" or dtype == np.float16)


def widened(x: Array) -> Array:
    """Returns the bits of short numbers as the upper ones of words, in row-major order."""
    nbytes, words = x.dtype.itemsize, temporary(x.runtime, x.size, np.uint32)
    _widened(flat(x).view(f"u{nbytes}"), 32 - 8 * nbytes, out=words)
    return words


def narrowed(words: Array, out: Array) -> None:
    """Stores the numbers of which `widened` made words."""
    nbytes = out.dtype.itemsize
    _narrowed(words, 32 - 8 * nbytes, out=out.reshape(-1).view(f"u{nbytes}"))
