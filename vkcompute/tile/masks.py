"""Masks by bounds: one condition for adjacent elements that no bound separates.

`columns < n` has one value for columns 4 to 7 if n is a multiple of four. Such elements are accessed together or not at
all, so the code for a part of them is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.ir import Value
from vkcompute.ir.function import Op
from vkcompute.tile.contiguity import Offsets

_LOGICAL = "and", "or", "not"
_BOUNDS = {"lt": (0, 1), "ge": (0, 1), "gt": (1, 0), "le": (1, 0)}
"""Comparison that is the same for x, x + 1, … up to the next multiple -> places of x, and of the multiple."""


def common_mask(masks: Sequence[Value], offsets: Offsets) -> Sequence[Value]:
    """Returns the masks of adjacent elements: that of the first for all, if they are known to be equal."""
    return [masks[0]] * len(masks) if _are_equal(masks, offsets) else masks


def _are_equal(values: Sequence[Value], offsets: Offsets) -> bool:
    first = values[0]
    if all(value is first for value in values):
        return True
    ops = [value for value in values if isinstance(value, Op) and isinstance(first, Op) and value.code == first.code]
    if len(ops) < len(values):
        return False
    columns = list(zip(*[op.args for op in ops], strict=True))
    if ops[0].code in _LOGICAL:
        return all(_are_equal(column, offsets) for column in columns)
    if ops[0].code not in _BOUNDS:
        return False
    inside, bounds = (columns[at] for at in _BOUNDS[ops[0].code])
    return all(bound is bounds[0] for bound in bounds) and offsets.between_multiples(inside, bounds[0])
