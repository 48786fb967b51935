"""`tl.map_elementwise`: a function of scalars on the elements of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe, is_sequence
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.language.joining import join, split
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Scalar, Value
from vkcompute.ir.function import Param, Region
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import Number


@block_function
def map_elementwise(c: BlockCompiler, scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """Calls a function of scalars on `pack` adjacent elements of each block."""
    shape = c.common_shape(*args)
    if type(pack) is not int or pack < 1 or pack & (pack - 1) or (pack > 1 and shape[-1] % pack):
        raise UnsupportedError(f"pack is a power of two that divides the last axis; got {describe(pack)}")
    blocks = [c.number(c.spread(c.cast(arg, c.common_type(arg).type), shape)) for arg in args]
    parts = [part for block in blocks for part in _parts(c, block, pack)]
    kinds = _kinds_of_branches(c, scalar_fn, parts)
    results = c.called(scalar_fn, parts) if kinds is None else _branched(c, scalar_fn, parts, kinds)
    if pack == 1:
        return results
    packs = [results[at : at + pack] for at in range(0, len(results), pack)]
    joined = tuple([_whole(c, parts) for parts in packs])
    return joined if len(joined) > 1 else joined[0]


def _results(c: BlockCompiler, function: Any, numbers: Sequence[Value]) -> list[Number]:
    """Returns the results of a function of scalars."""
    returned = c.called(function, [c.number(value) for value in numbers])
    results = returned if is_sequence(returned) else (returned,)
    return [c.number(c.cast(result, c.common_type(result).type)) for result in results]


def _kinds_of_branches(c: BlockCompiler, function: Any, parts: Sequence[Number]) -> list[Scalar] | None:
    """Returns the types of a function's results if it has branches or loops; else None."""
    region = Region()
    with c.builder.into(region):
        results = _results(c, function, [Param(element_of(part.value.type)) for part in parts])
    return [c.element_type(result) for result in results] if any(op.regions for op in region.ops) else None


def _branched(c: BlockCompiler, function: Any, parts: Sequence[Number], kinds: Sequence[Scalar]) -> Any:
    """Calls a function with branches on each element, as the function of a reduction, which has scalars.

    The reduction is along an axis of two equal elements, so that it combines each element once.
    """
    b, shape, n = c.builder, c.shape(parts[0]), len(parts)
    pairs = [b.broadcast(b.reshape(part.value, (*shape, 1)), (*shape, 2)) for part in parts]
    room = [b.full(b.const(0, kind), (*shape, 2)) for kind in kinds]

    def combine(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        results = _results(c, function, one[:n])
        return [*one[:n], *[c.cast(result, kind) for result, kind in zip(results, kinds, strict=True)]]

    made = b.reduce([*pairs, *room], len(shape), combine, ordered=True)[n:]
    return tuple(map(c.number, made)) if len(made) > 1 else c.number(made[0])


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
