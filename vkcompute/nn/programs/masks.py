"""Masks that several block programs share."""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program


@block_program
def below(first, stop, N: tl.constexpr, UNIT: tl.constexpr):
    """Returns True for N indices from the first one on that are less than `stop`: one condition per UNIT of them."""
    n = max(N // UNIT, 1)
    inside = first + UNIT * tl.arange(0, n) < stop
    return tl.reshape(tl.broadcast_to(inside[:, None], (n, N // n)), (N,))


@block_program
def both(mask, other):
    """Returns mask & other; the other one without a mask."""
    return other if mask is None else mask & other


@block_program
def larger(x, y):
    """Returns the greater number; either one if the other is NaN."""
    return max(x, y)
