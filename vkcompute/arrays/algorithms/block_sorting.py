"""A block program that sorts parts of rows in registers, by a bitonic network.

K. E. Batcher: Sorting networks and their applications. AFIPS 1968.
"""

from __future__ import annotations

from vkcompute.arrays.algorithms.block_offsets import is_too_large, rounded
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.sorting import sort
from vkcompute.runtime.memory.array import Array

_BLOCK, _MOST = 256, 4096
"""Elements that a program sorts, in parts; and the most, where the grid is too small for all rows.

Sorting rows of 65 takes as long with 4096, but the kernel compiles in 4.2 s instead of 1.1 (lavapipe).
"""


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
    sort[grid](keys, order, sorted_keys, n_rows, n, rows, length, n % 4 == 0)
    return True
