"""`tl.map_elementwise`: a function of scalars on the elements of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.language.joining import join, split
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.values import Number


@block_function
def map_elementwise(c: BlockCompiler, scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """Calls a function of scalars without control flow on `pack` adjacent elements of each block."""
    shape = c.common_shape(*args)
    if type(pack) is not int or pack < 1 or pack & (pack - 1) or (pack > 1 and shape[-1] % pack):
        raise UnsupportedError(f"pack is a power of two that divides the last axis; got {describe(pack)}")
    blocks = [c.number(c.spread(c.cast(arg, c.common_type(arg).type), shape)) for arg in args]
    results = c.called(scalar_fn, [part for block in blocks for part in _parts(c, block, pack)])
    if pack == 1:
        return results
    packs = [results[at : at + pack] for at in range(0, len(results), pack)]
    joined = tuple([_whole(c, parts) for parts in packs])
    return joined if len(joined) > 1 else joined[0]


def _parts(c: BlockCompiler, block: Number, n: int) -> list[Number]:
    """Returns n blocks, of each n-th element along the last axis."""
    if n == 1:
        return [block]
    *front, last = c.shape(block)
    halves = split.emit(c, c.number(c.builder.reshape(block.value, (*front, last // 2, 2))))
    even, odd = (_parts(c, half, n // 2) for half in halves)
    return [part for pair in zip(even, odd, strict=True) for part in pair]


def _whole(c: BlockCompiler, parts: Sequence[Number]) -> Number:
    """Returns the block that has these parts, as `_parts`."""
    if len(parts) == 1:
        return parts[0]
    even, odd = (_whole(c, parts[at::2]) for at in (0, 1))
    *front, last = c.shape(even)
    return c.number(c.builder.reshape(join.emit(c, even, odd).value, (*front, 2 * last)))
