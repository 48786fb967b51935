"""Grids whose threads wait for each other: their blocks run in one workgroup, as others may run one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, UINT32, WARP_SIZE, Value
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number
from vkcompute.jit.library.ids import builtin

_Sizes = Sequence[int]


class FoldedGrid:
    """The blocks of a grid, as parts of one workgroup along its x axis.

    Args:
        blocks: of the grid, along x, y and z.
        threads: of a block.
    """

    def __init__(self, blocks: _Sizes, threads: _Sizes) -> None:
        self.blocks, self.threads = blocks, threads
        self.n_blocks, self.n_threads = math.prod(blocks), math.prod(threads)

    def __repr__(self) -> str:
        return f"{self.blocks} of {self.threads}"

    def fits(self, most: int) -> bool:
        """True for a grid with at most `most` threads, whose blocks have whole warps."""
        return self.n_blocks * self.n_threads <= most and self.n_threads % WARP_SIZE == 0

    def id(self, c: Any, name: str, axis: int) -> Number:
        """Returns a position or an extent in the grid, named as the built-in inputs of an invocation are."""
        b = c.builder
        if name == "n_groups":
            return Number(b.const(self.blocks[axis], INT32), Kind(INT32))
        index, n = self._index(c)
        block = self._along(b, b.compute("div", index, n), self.blocks, axis)
        thread = self._along(b, b.compute("mod", index, n), self.threads, axis)
        if name == "global_id":
            first = b.compute("mul", block, b.const(self.threads[axis], UINT32))
            thread = b.compute("add", first, thread)
        return Number(b.cast(block if name == "group_id" else thread, INT32), Kind(INT32))

    def _index(self, c: Any) -> tuple[Value, Value]:
        """Returns the position in the workgroup, and the threads of a block."""
        b = c.builder
        return b.cast(builtin("local_id", c, 0).value, UINT32), b.const(self.n_threads, UINT32)

    def _along(self, b: Any, index: Value, sizes: _Sizes, axis: int) -> Value:
        """Returns the position along an axis of the element at an index."""
        above = b.compute("div", index, b.const(math.prod(sizes[:axis]), UINT32))
        position: Value = b.compute("mod", above, b.const(sizes[axis], UINT32))
        return position

    def shared(self, c: Any, make: Any, shape: Any, kind: Any) -> ArrayValue:
        """Makes an array in shared memory for each block, and returns that of the own one."""
        lengths = shape if isinstance(shape, tuple) else (shape,)
        whole = make(c, (self.n_blocks, *lengths), kind)
        index, n = self._index(c)
        block = Number(c.builder.cast(c.builder.compute("div", index, n), INT32), Kind(INT32))
        return array_views.part(c, whole, (block,))


def demand_unfolded(c: Any, name: str) -> None:
    """Refuses a function of the threads of a block where the workgroup has several blocks."""
    if c.folded is not None:
        raise UnsupportedError(f"{name} is not there in kernels that wait for a grid of several blocks")
