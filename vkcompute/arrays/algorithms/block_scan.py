"""Scans of lines along the last axis by block programs, for GPUs: a workgroup takes a part of a line.

The launches are those of `scans.py`. Adjacent invocations load adjacent elements, which takes wide parts, and barriers.
Vulkan promises no workgroup that others are making progress, so no workgroup waits for the part before its own.
"""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.arrays.algorithms.lines import Lines
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.parts import add, multiply, reduce_parts, scan_parts
from vkcompute.blocks.launching.program import JITFunction
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.tile.device import block_target
from vkcompute.tile.launch_arrays import is_too_large, is_wide
from vkcompute.tile.registers import ADJACENT

PART = 2048
"""Elements of a part."""


class Operation(NamedTuple):
    """A function by which parts are combined, and its identity."""

    combine: JITFunction
    identity: int


OPERATIONS = {"sum": Operation(add, 0), "prod": Operation(multiply, 1)}


def takes(operation: str, x: Array, out: Array, lines: Lines) -> bool:
    """True if block programs are to scan these lines."""
    if (
        not block_target(runtime_of(x)).stages
        or operation not in OPERATIONS
        or {x.dtype.kind, out.dtype.kind} & {*"bc"}
    ):
        return False
    is_long = lines.n >= PART // 2 and lines.n_columns == 1
    return is_long and not is_too_large(x, [x.size]) and not is_too_large(out, [out.size])


def totals(operation: str, x: Array, out: Array, lines: Lines) -> None:
    """Combines the elements of each part."""
    grid, *numbers = _launched(lines)
    aligned = lines.n % ADJACENT == 0 and is_wide(x)
    reduce_parts[grid](x, out, *numbers, *OPERATIONS[operation], PART, aligned)


def scan(operation: str, x: Array, before: Array, out: Array, lines: Lines, n_before: int) -> None:
    """Scans each part, beginning with the result of the parts before it."""
    grid, *numbers = _launched(lines)
    aligned = lines.n % ADJACENT == 0 and not n_before and is_wide(x) and is_wide(out)
    scan_parts[grid](x, before, out, *numbers, n_before, *OPERATIONS[operation], PART, aligned)


def _launched(lines: Lines) -> tuple[tuple[int, int], int, int, int]:
    """Returns a grid, the number of parts of all lines, the length of a line, and the number of its parts."""
    n_parts = -(-lines.n // PART)
    n_items = lines.n_rows * n_parts
    return (min(n_items, MOST_GROUPS), -(-n_items // MOST_GROUPS)), n_items, lines.n, n_parts
