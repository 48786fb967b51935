"""`triton.language.standard`: the language, and names that libraries take from this module only."""

from __future__ import annotations

from vkcompute.blocks.compiler.functions import constexpr_function
from vkcompute.compat.triton.language import *  # noqa: F403


@constexpr_function
def _log2(i: int) -> int:
    """Returns the logarithm of a power of two."""
    return i.bit_length() - 1


@constexpr_function
def _is_power_of_two(i: int) -> bool:
    """True for a power of two."""
    return i > 0 and i & (i - 1) == 0
