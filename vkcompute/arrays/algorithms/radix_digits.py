"""Digits of keys, and the kernels of a pass of a radix sort."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.sort_keys import key_of, wide_key_of
from vkcompute.jit.kernel import PythonKernel

DIGIT_BITS, N_DIGITS = 8, 256


class Kernels(NamedTuple):
    """The kernels of a pass over elements of one word or two, perhaps with their order.

    The second one has a number `kind`: 1 if the order is not known yet, 2 if the keys are not needed any more, 3 for
    both.
    """

    count: PythonKernel
    move: PythonKernel


def digit_of(x: Any, i: int, width: int, shift: int, form: int, flip: int) -> Any:
    """Returns a digit of the key of an element, which has one word or two."""
    if width == 1:
        key = key_of(x[i], form, flip)
    else:
        low, high = wide_key_of(x[2 * i], x[2 * i + 1], form, flip)
        key = low if shift < 32 else high
    return np.int32((key >> np.uint32(shift & 31)) & np.uint32(N_DIGITS - 1))
