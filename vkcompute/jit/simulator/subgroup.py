"""Subgroup operations on the values of the active lanes."""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

SUBGROUP_SIZE = 16
"""Number of lanes of a simulated subgroup; devices have 4 to 128."""
_COMBINED = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "all": np.bitwise_and, "any": np.bitwise_or,
}  # fmt: skip


def results(name: str, asked: dict[int, list[Any]]) -> dict[int, Any]:
    """Performs an operation of ir.SUBGROUP_OPERATIONS.

    Args:
        asked: lane -> arguments, for the active lanes.

    Returns:
        Lane -> result; without lanes that read the value of an inactive one, whose result is undefined.
    """
    lanes = sorted(asked)
    values = [asked[lane][0] for lane in lanes] if name != "elect" else []
    scan, _, combined = name.rpartition("_")
    if name in _COMBINED:
        return dict.fromkeys(lanes, reduce(_COMBINED[name], values))
    if scan in ("inclusive", "exclusive"):
        sums = list(accumulate(values, _COMBINED[combined]))
        return dict(
            zip(lanes, sums if scan == "inclusive" else [_neutral(combined, values[0].dtype), *sums], strict=False)
        )
    if name in ("shuffle", "shuffle_xor"):
        others = {lane: int(asked[lane][1]) ^ (lane if name == "shuffle_xor" else 0) for lane in lanes}
        return {lane: asked[other][0] for lane, other in others.items() if other in asked}
    if name == "ballot":
        bits = sum(1 << lane for lane in lanes if asked[lane][0])
        return dict.fromkeys(lanes, np.array([bits >> k & 0xFFFFFFFF for k in range(0, 128, 32)], np.uint32))
    if name == "elect":
        return {lane: np.bool_(lane == lanes[0]) for lane in lanes}
    return dict.fromkeys(lanes, values[0])  # broadcast_first


def _neutral(name: str, dtype: np.dtype[Any]) -> Any:
    """Returns the neutral element of an operation."""
    if name in ("add", "mul"):
        return dtype.type(name == "mul")
    if dtype.kind == "f":
        return dtype.type(np.inf if name == "min" else -np.inf)
    return dtype.type(np.iinfo(dtype).max if name == "min" else np.iinfo(dtype).min)
