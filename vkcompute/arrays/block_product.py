"""Products of stacked matrices by block programs: each computes a block of a result.

Operands are read by whole texels or vectors of four elements, and without masks. So they are copied where their rows do
not begin at a multiple of four elements, or the terms are no multiple of those of a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute import ir
from vkcompute.arrays.matrix_product import MOST_GROUPS
from vkcompute.arrays.ufunc import assign
from vkcompute.ir import INT32, Value
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.access import ADJACENT
from vkcompute.tile.builder import Builder
from vkcompute.tile.program import Built, Program, is_wide

# The most sums and columns of a block. A subgroup of a CPU holds the former in its first cache. For navi21, AMD's
# compiler spills nothing of the latter, and 77 % of the instructions of the loop are fused multiply-adds.
ON_CPU, ON_GPU = (1024, 128), (8192, 256)
_STEP = 8  # terms that are loaded together
_BUSY = 128  # blocks that keep a device busy
_SHORTEST = 256  # terms of a part
_LONGEST = 32768  # terms of a part; lavapipe runs at most 65,535 iterations
_LARGEST = 1 << 31  # elements of an array, whose offsets are int32
_PUSHES = "n_rows", "n_columns", "last", "n_terms", "terms", "n_parts", "a_row", "a_stack", "b_row", "b_stack"


def _product(dtype: str, rows: int, columns: int, step: int, aligned: bool) -> Built:
    """Builds the product of a block of this many rows and columns, which adds `step` terms at a time."""
    function = ir.Function("product")
    a, b, out = (function.buffer(name, ir.SCALARS[dtype]) for name in ("a", "b", "out"))
    pushes = {name: function.push(name, INT32) for name in _PUSHES}
    c = Builder(function)
    row, column, stacked = (c.cast(c.builtin("group_id", axis), INT32) for axis in range(3))
    part, matrix = c.compute("rem", stacked, pushes["n_parts"]), c.compute("div", stacked, pushes["n_parts"])
    start = c.compute("mul", part, pushes["terms"])
    stop = c.compute("min", c.compute("add", start, pushes["terms"]), pushes["n_terms"])
    row, own = c.compute("mul", row, c.const(rows, INT32)), c.compute("mul", column, c.const(columns, INT32))
    first = c.compute("min", own, pushes["last"])  # the last blocks overlap, and one of them stores
    below, across = _range(c, row, rows), _range(c, first, columns)
    least = c.compute("sub", pushes["n_rows"], c.const(1, INT32))
    inside = c.compute("min", below, c.full(least, (rows,)))
    inner, stacks = c.arange(0, step), [c.compute("mul", matrix, pushes[name]) for name in ("a_stack", "b_stack")]
    lefts = _added(c, _times(c, inside, pushes["a_row"]), inner, stacks[0])
    rights = _added(c, _times(c, inner, pushes["b_row"]), across, stacks[1])
    loop = c.loop(start, c.full(c.const(0, out.element), (rows, columns)))
    with loop.body:
        at, sums = loop.params
        with c.if_(c.compute("ge", at, stop)).then:
            c.break_(loop, sums)
        left = c.load_block(a, c.compute("add", lefts, c.full(at, (rows, step))))
        down = c.compute("mul", at, pushes["b_row"])
        right = c.load_block(b, c.compute("add", rights, c.full(down, (step, columns))))
        c.yield_(c.compute("add", at, c.const(step, INT32)), c.dot(left, right, sums))
    at_out = c.compute("mul", stacked, c.compute("mul", pushes["n_rows"], pushes["n_columns"]))
    places = _added(c, _times(c, below, pushes["n_columns"]), across, at_out)
    alike = ADJACENT if aligned else 1  # adjacent elements that are stored together, or not at all
    nth = _times(c, c.arange(0, columns // alike), c.const(alike, INT32))
    some = c.compute("add", c.full(first, (columns // alike,)), nth)
    valid = _between(c, below, c.const(0, INT32), pushes["n_rows"]), _between(c, some, own, pushes["n_columns"])
    c.store_block(out, places, loop.results[0], _repeated(c, _grid(c, "and", *valid), alike))
    multiples = "last", "terms", "a_row", "a_stack", "b_row", "b_stack", *(["n_columns"] if aligned else [])
    divisors = dict.fromkeys([pushes[name] for name in multiples], ADJACENT)
    return Built(function, [a, b, *([out] if aligned else [])], divisors, -(-_LONGEST // step))


def _range(c: Builder, first: Value, n: int) -> Value:
    return c.compute("add", c.full(first, (n,)), c.arange(0, n))


def _times(c: Builder, block: Value, factor: Value) -> Value:
    return c.compute("mul", block, c.broadcast(factor, block.type.shape))  # type: ignore[union-attr]


def _added(c: Builder, rows: Value, columns: Value, offset: Value) -> Value:
    """Returns the sums of a number per row, a number per column and a scalar."""
    return _grid(c, "add", c.compute("add", rows, c.full(offset, rows.type.shape)), columns)  # type: ignore[union-attr]


def _grid(c: Builder, code: str, rows: Value, columns: Value) -> Value:
    """Applies an operation to a number per row and a number per column."""
    shape = *rows.type.shape, *columns.type.shape  # type: ignore[union-attr]
    one, other = c.reshape(rows, (shape[0], 1)), c.reshape(columns, (1, shape[1]))
    return c.compute(code, c.broadcast(one, shape), c.broadcast(other, shape))


def _between(c: Builder, block: Value, first: Value, stop: Value) -> Value:
    shape = block.type.shape  # type: ignore[union-attr]
    return c.compute("and", c.compute("ge", block, c.full(first, shape)), c.compute("lt", block, c.full(stop, shape)))


def _repeated(c: Builder, block: Value, n: int) -> Value:
    """Returns a block with each column n times."""
    rows, columns = block.type.shape  # type: ignore[union-attr]
    return c.reshape(c.broadcast(c.reshape(block, (rows, columns, 1)), (rows, columns, n)), (rows, columns * n))


def stacked_product(a: Array, b: Array) -> Array | None:
    """Returns the products of matrices: parts of their sums, which the caller adds; None if one launch cannot do it.

    Args:
        a, b: stacks of matrices, of shapes (n, rows, terms) and (n, terms, columns), of one 32- or 64-bit dtype.

    Returns:
        An array of shape (n, parts, rows, columns). Long sums of few elements have several parts.
    """
    (n, n_rows, n_terms), n_columns = a.shape, b.shape[2]
    shape = _shape(n_rows, n_columns, n_terms, *(ON_CPU if a.runtime.device.physical.kind == "cpu" else ON_GPU))
    rows, columns, step = shape
    groups = -(-n_rows // rows), -(-n_columns // columns)  # neighbours share columns, which stay in a cache
    padded, width = _rounded(n_terms, step), _rounded(max(n_columns, columns), ADJACENT)
    terms = _terms(n * groups[0] * groups[1], padded, step)
    n_parts = -(-padded // terms)
    sizes = n * n_rows * padded, n * padded * width, n * n_parts * n_rows * n_columns
    if _is_too_large(a, sizes) or max(*groups, n * n_parts) > MOST_GROUPS:
        return None
    left, right = _packed(a, (n_rows, padded)), _packed(b, (padded, width))
    out = temporary(a.runtime, (n, n_parts, n_rows, n_columns), a.dtype)
    stacks = [0 if len(x) < n else x.shape[1] * x.shape[2] for x in (left, right)]
    numbers = n_rows, n_columns, width - columns, padded, terms, n_parts, padded, stacks[0], width, stacks[1]
    constants = a.dtype.name, rows, columns, step, n_columns % ADJACENT == 0
    PRODUCT.launch(constants, [left, right, out], numbers, (*groups, n * n_parts))
    return out


def _shape(n_rows: int, n_columns: int, n_terms: int, sums: int, most_columns: int) -> tuple[int, int, int]:
    """Returns the rows and columns of a block, and the terms of a step; all are powers of two."""
    columns = min(1 << _rounded(n_columns, ADJACENT).bit_length() - 1, most_columns)
    return min(sums // columns, 1 << (n_rows - 1).bit_length()), columns, _STEP if n_terms > ADJACENT else ADJACENT


def _rounded(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _terms(n_blocks: int, n_terms: int, step: int) -> int:
    """Returns the terms of a part: fewer of them where blocks are few."""
    parts = min(-(-_BUSY // n_blocks), -(-n_terms // _SHORTEST))
    return min(_rounded(-(-n_terms // parts), step), _LONGEST)


def _is_too_large(x: Array, sizes: Sequence[int]) -> bool:
    """True if offsets in one of these arrays exceed int32, or a binding cannot hold it."""
    return max(sizes) >= _LARGEST or max(sizes) * x.dtype.itemsize > x.runtime.device.max_binding_bytes


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
