"""The passes in their order."""

from __future__ import annotations

from vkcompute.ir.function import Function
from vkcompute.ir.passes import drop, hoist, share
from vkcompute.ir.unroll import unroll


def optimize(function: Function) -> Function:
    """Unrolls short loops, moves what others need not repeat out of them, and drops what is known or not used."""
    for step in (unroll, hoist, share, drop):
        step(function)
    return function
