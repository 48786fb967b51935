"""Products of stacked matrices by block programs: each computes a block of a result.

Operands are read by whole texels or vectors of four elements, and without masks. So they are copied where their rows do
not begin at a multiple of four elements, or the terms are no multiple of those of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vkcompute import ir
from vkcompute.arrays.block_offsets import between, grid, is_too_large, offsets, repeated, rounded, scaled, span
from vkcompute.arrays.matrix_product import MOST_GROUPS
from vkcompute.arrays.ufunc import assign
from vkcompute.blocks.launching.built import Built, Program, is_wide
from vkcompute.ir import INT32, Value
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.device import block_target
from vkcompute.tile.registers import ADJACENT


class _Limits(NamedTuple):
    """The most sums and columns of a block, and the terms that are loaded together."""

    sums: int
    columns: int
    step: int


# A subgroup of a CPU holds the sums in its first cache. A product of 1024^3 takes 86 ms of CPU time on lavapipe; with
# 128 columns and 8 terms, 117. Shuffles of 64 bits are slow from Mesa 25 on, and wider blocks need fewer of them: 97 ms
# for 512^3, with 64 columns 153.
_ON_CPU, _WIDE_ON_CPU = _Limits(1024, 64, 4), _Limits(1024, 128, 4)
# For navi21, AMD's compiler spills nothing, and 87 % of the instructions of the loop are fused multiply-adds.
ON_GPU = _Limits(8192, 128, 8)
# Of float16, by cooperative matrices: 8192^3 runs at 198 TFLOP/s on an H200, and with 64 x 128 sums at 121.
_HALVES = _Limits(16384, 128, 32)
_BUSY = 128  # blocks that keep a device busy
_SHORTEST = 256  # terms of a part
_LONGEST = 32768  # terms of a part; lavapipe runs at most 65,535 iterations
_PUSHES = "n_rows", "n_columns", "last", "n_terms", "terms", "n_parts", "a_row", "a_stack", "b_row", "b_stack"
_OF_TAPS = "period", "jump", "n_left"
_MULTIPLES = {"last", "terms", "a_row", "a_stack", "b_row", "b_stack", "period", "jump"}  # of four


class Sums(NamedTuple):
    """The sums of a block, and what a function needs to go on with them.

    Attributes:
        c: the builder.
        function: takes the further arrays, as buffers.
        left: the number of the matrix on the left in its stack.
        rows, columns: the place of each row and column, which may be beyond the last one, but for rows.
        shape: of a matrix.
        values: the sums.
    """

    c: Builder
    function: ir.Function
    left: Value
    rows: Value
    columns: Value
    shape: tuple[Value, Value]
    values: Value


def _product(dtype: str, rows: int, columns: int, step: int, aligned: bool) -> Built:
    """Builds the product of a block of this many rows and columns, which adds `step` terms at a time."""
    return build_product(dtype, rows, columns, step, aligned)


def build_product(
    dtype: str, rows: int, columns: int, step: int, aligned: bool, finish: Callable[[Sums], Value] | None = None,
    *, taps: bool = False,
) -> Built:  # fmt: skip
    """Builds the product of a block, of a number of rows and columns, which adds `step` terms at a time.

    Args:
        finish: returns what is stored in place of the sums; of whole sums, so that a launch has one part.
        taps: True if the matrices on the right are several windows of an array. After `period` rows of one, the next
            one begins `jump` elements behind it. The matrices on the left repeat after `n_left` ones.
    """
    function = ir.Function("product")
    a, b = (function.buffer(name, ir.SCALARS[dtype]) for name in ("a", "b"))
    out = function.buffer("out", ir.SCALARS[_sums(dtype)])
    pushes = {name: function.push(name, INT32) for name in (*_PUSHES, *_OF_TAPS * taps)}
    c = Builder(function)
    row, column, stacked = (c.cast(c.builtin("group_id", axis), INT32) for axis in range(3))
    part, matrix = c.compute("rem", stacked, pushes["n_parts"]), c.compute("div", stacked, pushes["n_parts"])
    start = c.compute("mul", part, pushes["terms"])
    stop = c.compute("min", c.compute("add", start, pushes["terms"]), pushes["n_terms"])
    row, own = c.compute("mul", row, c.const(rows, INT32)), c.compute("mul", column, c.const(columns, INT32))
    first = c.compute("min", own, pushes["last"])  # the last blocks overlap, and one of them stores
    below, across = span(c, row, rows), span(c, first, columns)
    least = c.compute("sub", pushes["n_rows"], c.const(1, INT32))
    inside = c.compute("min", below, c.full(least, (rows,)))
    own_left = c.compute("rem", matrix, pushes["n_left"]) if taps else matrix
    stacks = c.compute("mul", own_left, pushes["a_stack"]), c.compute("mul", matrix, pushes["b_stack"])
    inner = c.arange(0, step)
    lefts = offsets(c, scaled(c, inside, pushes["a_row"]), inner, stacks[0])
    rights = offsets(c, scaled(c, inner, pushes["b_row"]), across, stacks[1])
    loop = c.loop(start, c.full(c.const(0, out.element), (rows, columns)))
    with loop.body:
        at, sums = loop.params
        with c.if_(c.compute("ge", at, stop)).then:
            c.break_(loop, sums)
        left = c.load_block(a, c.compute("add", lefts, c.full(at, (rows, step))))
        down = _of_tap(c, at, pushes) if taps else c.compute("mul", at, pushes["b_row"])
        right = c.load_block(b, c.compute("add", rights, c.full(down, (step, columns))))
        c.yield_(c.compute("add", at, c.const(step, INT32)), c.dot(left, right, sums))
    at_out = c.compute("mul", stacked, c.compute("mul", pushes["n_rows"], pushes["n_columns"]))
    places = offsets(c, scaled(c, below, pushes["n_columns"]), across, at_out)
    alike = ADJACENT if aligned else 1  # adjacent elements that are stored together, or not at all
    nth = scaled(c, c.arange(0, columns // alike), c.const(alike, INT32))
    some = c.compute("add", c.full(first, (columns // alike,)), nth)
    valid = between(c, below, c.const(0, INT32), pushes["n_rows"]), between(c, some, own, pushes["n_columns"])
    found: Value = loop.results[0]
    if finish is not None:
        found = finish(Sums(c, function, own_left, inside, across, (pushes["n_rows"], pushes["n_columns"]), found))
    c.store_block(out, places, found, repeated(c, grid(c, "and", *valid), alike))
    multiples = [each for each in pushes if each in _MULTIPLES or (aligned and each == "n_columns")]
    divisors = dict.fromkeys([pushes[name] for name in multiples], ADJACENT)
    return Built(function, [a, b, *([out] if aligned else [])], divisors, -(-_LONGEST // step))


def _sums(dtype: str) -> str:
    """Returns the dtype of the sums of products."""
    return "float32" if dtype == "float16" else dtype


def multiplies_halves(x: Array) -> bool:
    """True if the device of an array multiplies float16 by cooperative matrices."""
    return any(each[3:] == ("float16", "float32") for each in block_target(runtime_of(x)).matrices)


def _of_tap(c: Builder, at: Value, pushes: Mapping[str, Value]) -> Value:
    """Returns the offset of a term on the right: of its row in the window of its tap."""
    tap = c.compute("div", at, pushes["period"])
    row = c.compute("sub", at, c.compute("mul", tap, pushes["period"]))
    return c.compute("add", c.compute("mul", row, pushes["b_row"]), c.compute("mul", tap, pushes["jump"]))


class Taps(NamedTuple):
    """The windows of an array that stand for the matrices on the right, one per tap.

    Attributes:
        windows: an array of which programs load four elements together, of int32 offsets.
        n_taps: their number.
        period: rows of each, a multiple of a step's terms.
        jump: elements from one window to the next; a multiple of four, as are the two below.
        row, stack: elements from one row to the next, and from a matrix to that of the next product.
        n_columns: of the result.
        n: products.
    """

    windows: Array
    n_taps: int
    period: int
    jump: int
    row: int
    stack: int
    n_columns: int
    n: int


def product_by_taps(
    program: Program, constants: tuple[Hashable, ...], left: Array, taps: Taps, others: Sequence[Array]
) -> Array | None:
    """Returns products with windows of an array, of shape (n, rows, columns); None if one launch cannot do it.

    Args:
        program: takes constants, then those of `build_product`.
        left: matrices of shape (n_left, rows, n_taps * period), which repeat.
        others: the further arrays of the program.
    """
    n_left, n_rows, n_terms = left.shape
    rows, columns, step = _shape(n_rows, taps.n_columns, n_terms, _limits(left))
    groups = -(-n_rows // rows), -(-taps.n_columns // columns)
    sizes = left.size, taps.windows.size, taps.n * n_rows * taps.n_columns
    if is_too_large(left, sizes) or max(*groups, taps.n) > MOST_GROUPS or n_terms > _LONGEST:
        return None
    out = temporary(left.runtime, (taps.n, n_rows, taps.n_columns), left.dtype)
    numbers = n_rows, taps.n_columns, taps.n_columns - columns, n_terms, n_terms, 1, n_terms, n_rows * n_terms
    given = *constants, left.dtype.name, rows, columns, step, taps.n_columns % ADJACENT == 0
    further = taps.row, taps.stack, taps.period, taps.jump, n_left
    program.launch(given, [left, taps.windows, out, *others], (*numbers, *further), (*groups, taps.n))
    return out


def _limits(x: Array) -> _Limits:
    if x.dtype == np.float16:
        return _HALVES
    if x.runtime.device.physical.kind != "cpu":
        return ON_GPU
    return _WIDE_ON_CPU if x.dtype.itemsize == 8 else _ON_CPU


def stacked_product(
    a: Array, b: Array, program: Program | None = None, constants: tuple[Hashable, ...] = (),
    others: Sequence[Array] = (),
) -> Array | None:  # fmt: skip
    """Returns the products of matrices: parts of their sums, which the caller adds; None if one launch cannot do it.

    Args:
        a, b: stacks of matrices, of shapes (n, rows, terms) and (n, terms, columns), of one 32- or 64-bit dtype, or
            of float16, which is added in float32.
        program: one that goes on with the sums, given further constants and arrays; None is returned for parts.

    Returns:
        An array of shape (n, parts, rows, columns). Long sums of few elements have several parts.
    """
    (n, n_rows, n_terms), n_columns = a.shape, b.shape[2]
    rows, columns, step = _shape(n_rows, n_columns, n_terms, _limits(a))
    groups = -(-n_rows // rows), -(-n_columns // columns)  # neighbours share columns, which stay in a cache
    padded, width = rounded(n_terms, step), rounded(max(n_columns, columns), ADJACENT)
    terms = _terms(n * groups[0] * groups[1], padded, step)
    n_parts = -(-padded // terms)
    sizes = n * n_rows * padded, n * padded * width, n * n_parts * n_rows * n_columns
    if is_too_large(a, sizes) or max(*groups, n * n_parts) > MOST_GROUPS or (program and n_parts > 1):
        return None
    left, right = _packed(a, (n_rows, padded)), _packed(b, (padded, width))
    out = temporary(a.runtime, (n, n_parts, n_rows, n_columns), np.dtype(_sums(a.dtype.name)))
    stacks = [0 if len(x) < n else x.shape[1] * x.shape[2] for x in (left, right)]
    numbers = n_rows, n_columns, width - columns, padded, terms, n_parts, padded, stacks[0], width, stacks[1]
    given = *constants, a.dtype.name, rows, columns, step, n_columns % ADJACENT == 0
    (program or PRODUCT).launch(given, [left, right, out, *others], numbers, (*groups, n * n_parts))
    return out


def _shape(n_rows: int, n_columns: int, n_terms: int, limits: _Limits) -> tuple[int, int, int]:
    """Returns the rows and columns of a block, and the terms of a step; all are powers of two."""
    columns = min(1 << rounded(n_columns, ADJACENT).bit_length() - 1, limits.columns)
    rows = min(limits.sums // columns, 1 << (n_rows - 1).bit_length())
    return rows, columns, limits.step if n_terms > ADJACENT or limits is _HALVES else ADJACENT


def _terms(n_blocks: int, n_terms: int, step: int) -> int:
    """Returns the terms of a part: fewer of them where blocks are few."""
    parts = min(-(-_BUSY // n_blocks), -(-n_terms // _SHORTEST))
    return min(rounded(-(-n_terms // parts), step), _LONGEST)


def _packed(x: Array, shape: tuple[int, int]) -> Array:
    """Returns matrices of a shape with zeros beyond their elements, of which a program loads four together.

    One matrix stands for a stack that repeats it.
    """
    if x.strides[0] == 0:
        x = x[:1]
    if x.shape[1:] == shape and is_wide(x):
        return x
    found = temporary(x.runtime, (len(x), *shape), x.dtype)
    if x.shape[1:] == shape:
        return assign(found, x)
    found.fill(x.dtype.type(0))
    assign(found[:, : x.shape[1], : x.shape[2]], x)
    return found


PRODUCT = Program(_product)
