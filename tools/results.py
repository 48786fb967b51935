"""Whether results of a driver are right: Vulkan leaves floats some errors, and NaN has no equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.ir.function import walk
from vkcompute.ir.types import Scalar

_FUNCTIONS = frozenset({
    "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "div", "rem", "mod", "atomic",
})  # fmt: skip
"""Operations whose floats are the driver's own."""
_N_ULP = 8  # of contractions, and of conversions by another rounding
_RTOL = 2.0**-10  # of functions and what is computed from them; sines have absolute errors of 2**-11


def is_approximate(function: ir.Function) -> bool:
    """Returns whether floats come from functions of the driver's own, or from sums in an order of its own."""
    return any(op.code in _FUNCTIONS and isinstance(op.type, Scalar) and op.type.kind == "f"
               for op in walk(function.body) if op.has_result)  # fmt: skip


def are_right(result: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], *, approximate: bool) -> bool:
    """Returns whether a flat result is right: NaN equals NaN, and floats may differ by some ulp of the largest.

    Args:
        approximate: as `is_approximate` tells it; a right driver must not be wrong.
    """
    if wanted.dtype.kind != "f":
        return np.array_equal(result, wanted)
    if result.shape != wanted.shape or not np.array_equal(np.isnan(result), np.isnan(wanted)):
        return False
    limits = np.finfo(wanted.dtype)
    one, other = result.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    largest = np.abs(other[finite]).max(initial=0.0)
    rtol = _RTOL if approximate else _N_ULP * float(limits.eps)
    atol = max(rtol * largest, float(limits.tiny), rtol if approximate else 0.0)  # denormals may be flushed
    with np.errstate(invalid="ignore"):
        return bool(np.all((one == other) | ~finite & np.isnan(other) | (np.abs(one - other) <= atol)))


def unseen(function: ir.Function) -> str:
    """Names what keeps results from being compared, as they depend on the driver; empty if they are compared."""
    ops = walk(function.body)
    memories = [op.memory for op in ops if op.memory is not None]
    used = {value for op in ops for value in op.args}
    kinds = {
        "subgroups": any(op.active_lanes or (op.waits and not op.collective) for op in (op.operation for op in ops)),
        "results of atomic operations": any(op in used for op in ops if op.code in ("atomic", "compare_exchange")),
        "vectors": any(memory.lanes > 1 for memory in memories),
        "volatile memory": any(memory.volatile for memory in memories),
    }
    return ", ".join(name for name, is_there in kinds.items() if is_there)
