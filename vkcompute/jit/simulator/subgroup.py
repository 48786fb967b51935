"""Operations of subgroups and warps on the values of the active lanes."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from vkcompute.ir import SUBGROUP_OPERATIONS
from vkcompute.spirv.enums import GroupOperation

SUBGROUP_SIZE = 16
"""Number of lanes of a simulated subgroup; devices have 4 to 128."""


def results(name: str, asked: dict[int, list[Any]]) -> dict[int, Any]:
    """Performs an operation of ir.SUBGROUP_OPERATIONS.

    Args:
        asked: lane -> arguments, for the active lanes.

    Returns:
        Lane -> result; without lanes that read the value of an inactive one, whose result is undefined.
    """
    lanes = sorted(asked)
    values = [asked[lane][0] for lane in lanes] if name != "elect" else []
    row = SUBGROUP_OPERATIONS.get(name)
    if row is not None and row.combine is not None:
        partial = list(accumulate(values, row.combine))
        if row.group_operation == GroupOperation.InclusiveScan:
            return dict(zip(lanes, partial, strict=True))
        if row.group_operation == GroupOperation.ExclusiveScan:
            return dict(zip(lanes, [_identity(row.combine, values[0].dtype), *partial[:-1]], strict=True))
        return dict.fromkeys(lanes, partial[-1])
    if name in ("shuffle", "shuffle_xor", "warp_shuffle"):
        others = {lane: int(asked[lane][1]) ^ (lane if name == "shuffle_xor" else 0) for lane in lanes}
        return {lane: asked[other][0] for lane, other in others.items() if other in asked}
    if name == "ballot":
        bits = sum(1 << lane for lane in lanes if asked[lane][0])
        return dict.fromkeys(lanes, np.array([bits >> k & 0xFFFFFFFF for k in range(0, 128, 32)], np.uint32))
    if name == "warp_barrier":
        return dict.fromkeys(lanes, np.bool_(True))
    if name == "warp_ballot":
        return dict.fromkeys(lanes, np.uint32(sum(1 << lane for lane in lanes if asked[lane][0])))
    if name == "warp_match":
        return {
            lane: np.uint32(sum(1 << other for other in lanes if asked[other][0] == asked[lane][0])) for lane in lanes
        }
    if name == "elect":
        return {lane: np.bool_(lane == lanes[0]) for lane in lanes}
    if name == "broadcast_first":
        return dict.fromkeys(lanes, values[0])
    raise NotImplementedError(f"the simulator does not support the subgroup operation {name}")


def _identity(combine: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """Returns the value that leaves others unchanged."""
    if combine.identity is not None:
        return np.array(combine.identity).astype(dtype)[()]
    if dtype.kind == "f":
        return dtype.type(np.inf if combine is np.minimum else -np.inf)
    return dtype.type(np.iinfo(dtype).max if combine is np.minimum else np.iinfo(dtype).min)
