"""Scans of lines along the last axis by block programs, for GPUs: a workgroup takes a part of a line.

The launches are those of `scans.py`. Adjacent invocations load adjacent elements, which takes wide parts, and barriers.
Vulkan promises no workgroup that others are making progress, so no workgroup waits for the part before its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute import ir
from vkcompute.arrays.block_offsets import is_too_large, span
from vkcompute.arrays.lines import Lines
from vkcompute.arrays.matrix_product import MOST_GROUPS
from vkcompute.blocks.launching.built import Built, Program, is_wide
from vkcompute.ir import INT32, Memory, Value
from vkcompute.operations import FUNCTIONS
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.device import block_target
from vkcompute.tile.registers import ADJACENT

PART = 2048
"""Elements of a part."""
_FUNCTIONS = {"sum": FUNCTIONS["add"], "prod": FUNCTIONS["multiply"]}
_PUSHES = "n_items", "n", "n_parts", "n_before"


class _Part:
    """The part of a line that a workgroup computes.

    Attributes:
        c: the builder.
        number: of the part, among those of all lines.
        is_first: True for the first part of a line.
        is_there: False for the workgroups that fill the grid.
        row: number of the line.
        offsets, mask: of the elements.
    """

    def __init__(self, name: str, buffers: Sequence[tuple[str, str]], length: int) -> None:
        self.function = ir.Function(name)
        self.memories = {each: self.function.buffer(each, ir.SCALARS[dtype]) for each, dtype in buffers}
        self.pushes = {each: self.function.push(each, INT32) for each in _PUSHES}
        self.c = c = Builder(self.function)
        column, line = (c.cast(c.builtin("group_id", axis), INT32) for axis in range(2))
        self.number = c.compute("add", c.compute("mul", line, c.const(MOST_GROUPS, INT32)), column)
        self.is_there = c.compute("lt", self.number, self.pushes["n_items"])
        self.row = c.compute("div", self.number, self.pushes["n_parts"])
        part = c.compute("sub", self.number, c.compute("mul", self.row, self.pushes["n_parts"]))
        self.is_first = c.compute("eq", part, c.const(0, INT32))
        at = span(c, c.compute("mul", part, c.const(length, INT32)), length)
        is_inside = c.compute("lt", at, c.full(self.pushes["n"], (length,)))
        self.mask = c.compute("and", is_inside, c.full(self.is_there, (length,)))
        self.offsets = self._add(at, c.compute("mul", self.row, self.pushes["n"]))

    def _add(self, block: Value, number: Value) -> Value:
        return self.c.compute("add", block, self.c.full(number, block.type.shape))  # type: ignore[union-attr]

    def elements(self, kind: ir.Scalar, identity: int) -> Value:
        """Loads the elements, converted; those beyond the end of the line are the identity."""
        memory, shape = self.memories["x"], self.offsets.type.shape  # type: ignore[union-attr]
        other = self.c.full(self.c.const(identity, memory.element), shape)
        return self.c.cast(self.c.load_block(memory, self.offsets, self.mask, other), kind)

    def moved(self, push: str) -> Value:
        """Returns the offsets in an array whose lines have some elements more before their first."""
        before = self.c.compute("add", self.row, self.c.const(1, INT32))
        return self._add(self.offsets, self.c.compute("mul", before, self.pushes[push]))

    def built(self, *wide: str) -> Built:
        """Returns the program; some arrays are accessed by four elements."""
        memories: list[Memory] = [self.memories[each] for each in wide]
        return Built(self.function, memories, {self.pushes["n"]: ADJACENT} if wide else {})


def _total(operation: str, dtype: str, sums: str, length: int, aligned: bool) -> Built:
    """Builds the combination of the elements of each part."""
    part, kind = _Part("total", [("x", dtype), ("out", sums)], length), ir.SCALARS[sums]
    c, row = part.c, _FUNCTIONS[operation]
    (found,) = c.reduce(
        [part.elements(kind, row.identity)], 0, lambda one, other: [c.compute(row.code, one[0], other[0])]
    )
    c.store_block(part.memories["out"], part.number, found, part.is_there)
    return part.built(*["x"] * aligned)


def _scan(operation: str, dtype: str, sums: str, out: str, length: int, aligned: bool) -> Built:
    """Builds the scan of each part, which begins with the result of the parts before it."""
    part, kind = _Part("scan", [("x", dtype), ("before", sums), ("out", out)], length), ir.SCALARS[sums]
    c, row, memory = part.c, _FUNCTIONS[operation], part.memories["out"]
    (own,) = c.scan([part.elements(kind, row.identity)], 0, lambda one, other: [c.compute(row.code, one[0], other[0])])
    has_before = c.compute("and", part.is_there, c.compute("not", part.is_first))
    previous = c.compute("sub", part.number, c.const(1, INT32))
    before = c.load_block(part.memories["before"], previous, has_before, c.const(0, kind))
    both = c.compute(row.code, c.full(before, (length,)), own)
    found = c.select(c.full(part.is_first, (length,)), own, both)
    c.store_block(memory, part.moved("n_before"), c.cast(found, memory.element), part.mask)
    return part.built(*["x", "out"] * aligned)


TOTAL, SCAN = Program(_total), Program(_scan)


def takes(operation: str, x: Array, out: Array, lines: Lines) -> bool:
    """True if block programs are to scan these lines."""
    kinds = {x.dtype.kind, out.dtype.kind}
    if not block_target(runtime_of(x)).stages or operation not in _FUNCTIONS or kinds & {*"bc"}:
        return False
    is_long = lines.n >= PART // 2 and lines.n_columns == 1
    return is_long and not is_too_large(x, [x.size]) and not is_too_large(out, [out.size])


def totals(operation: str, x: Array, out: Array, lines: Lines) -> None:
    """Combines the elements of each part."""
    aligned = lines.n % ADJACENT == 0 and is_wide(x)
    constants = operation, x.dtype.name, out.dtype.name, PART, aligned
    TOTAL.launch(constants, [x, out], _numbers(lines, 0), _grid(lines))


def scan(operation: str, x: Array, before: Array, out: Array, lines: Lines, n_before: int) -> None:
    """Scans each part, beginning with the result of the parts before it."""
    aligned = lines.n % ADJACENT == 0 and not n_before and is_wide(x) and is_wide(out)
    constants = operation, x.dtype.name, before.dtype.name, out.dtype.name, PART, aligned
    SCAN.launch(constants, [x, before, out], _numbers(lines, n_before), _grid(lines))


def _n_parts(lines: Lines) -> int:
    return -(-lines.n // PART)


def _numbers(lines: Lines, n_before: int) -> tuple[int, ...]:
    return lines.n_rows * _n_parts(lines), lines.n, _n_parts(lines), n_before


def _grid(lines: Lines) -> tuple[int, int, int]:
    n_items = lines.n_rows * _n_parts(lines)
    return min(n_items, MOST_GROUPS), -(-n_items // MOST_GROUPS), 1
