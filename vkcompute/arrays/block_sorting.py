"""A block program that sorts parts of rows in registers, by a bitonic network.

K. E. Batcher: Sorting networks and their applications. AFIPS 1968.
"""

from __future__ import annotations

from vkcompute import ir
from vkcompute.arrays.block_offsets import between, grid, is_too_large, offsets, rounded, scaled, span
from vkcompute.arrays.matrix_product import MOST_GROUPS
from vkcompute.blocks.launching.built import Built, Program
from vkcompute.ir import INT32, UINT32, Value
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.builder import Builder

_BLOCK, _MOST = 256, 4096
"""Elements that a program sorts, in parts; and the most, where the grid is too small for all rows.

Sorting rows of 65 takes as long with 4096, but the kernel compiles in 4.2 s instead of 1.1 (lavapipe).
"""


def _sorted_parts(rows: int, length: int, has_keys: bool) -> Built:
    """Builds the order of parts of rows, of `length` keys each; `rows` and `length` are powers of two."""
    function = ir.Function("sorted_parts")
    keys, order = function.buffer("keys", UINT32), function.buffer("order", INT32)
    n_rows, n = (function.push(name, INT32) for name in ("n_rows", "n"))
    c, shape = Builder(function), (rows, length)
    starts = [
        c.compute("mul", c.cast(c.builtin("group_id", axis), INT32), c.const(each, INT32))
        for axis, each in enumerate(shape)
    ]
    zero, row, column = c.const(0, INT32), span(c, starts[0], rows), span(c, starts[1], length)
    places = offsets(c, scaled(c, row, n), column, zero)
    inside = grid(c, "and", between(c, row, zero, n_rows), between(c, column, zero, n))
    key = c.load_block(keys, places, inside, c.full(c.const(2**32 - 1, UINT32), shape))
    place, n_stages = places, length.bit_length() - 1
    for stage in range(1, n_stages + 1):
        for bit in reversed(range(stage)):
            key, place = _exchanged(c, key, place, bit, stage if stage < n_stages else None)
    c.store_block(order, places, place, inside)
    if has_keys:
        c.store_block(function.buffer("sorted_keys", UINT32), places, key, inside)
    return Built(function)


def _exchanged(c: Builder, key: Value, place: Value, bit: int, falling: int | None) -> tuple[Value, Value]:
    """Orders pairs of elements whose numbers differ in a bit; downwards where the bit `falling` of the number is 1."""
    other_key, other_place = (c.mirror(each, 1 << bit) for each in (key, place))
    after = c.compute("gt", key, other_key)
    equal = c.compute("and", c.compute("eq", key, other_key), c.compute("gt", place, other_place))
    takes_greater = _bit(c, key, bit)
    if falling is not None:
        takes_greater = c.compute("ne", takes_greater, _bit(c, key, falling))
    is_moved = c.compute("ne", c.compute("or", after, equal), takes_greater)
    return c.select(is_moved, other_key, key), c.select(is_moved, other_place, place)


def _bit(c: Builder, like: Value, bit: int) -> Value:
    """Returns for each element of a block True if a bit of its number, in row-major order, is 1."""
    shape = like.type.shape  # type: ignore[union-attr]
    below = 1 << bit
    which = c.reshape(c.arange(0, 2), (1, 2, 1))
    which = c.reshape(c.broadcast(which, (shape[0] * shape[1] // (2 * below), 2, below)), shape)
    return c.compute("ne", which, c.full(c.const(0, INT32), shape))


_PROGRAM = Program(_sorted_parts)


def sort_parts(keys: Array, n_rows: int, n: int, length: int, order: Array, sorted_keys: Array | None) -> bool:
    """Sorts each part of `length` keys of each row, stably; returns False if a program cannot.

    Args:
        keys: uint32, of n_rows * n elements; the last part of a row may be shorter.
        length: a power of two.
        order: int32; gets the indices of the elements in order.
        sorted_keys: gets the keys in order, if given.
    """
    length = min(length, 1 << (n - 1).bit_length())
    rows = max(_BLOCK // length, 1)
    while -(-n_rows // rows) > MOST_GROUPS and rows * length < _MOST:
        rows *= 2
    grid = -(-n_rows // rows), -(-n // length), 1
    if length < 2 or max(grid) > MOST_GROUPS or is_too_large(keys, [rounded(n_rows, rows) * rounded(n, length)]):
        return False
    outputs = [order] if sorted_keys is None else [order, sorted_keys]
    _PROGRAM.launch((rows, length, sorted_keys is not None), [keys, *outputs], [n_rows, n], grid)
    return True
