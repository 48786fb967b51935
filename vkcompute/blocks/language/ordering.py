"""Functions of the block language that sort blocks, reverse them, and count or choose elements by value.

K. E. Batcher: Sorting networks and their applications. AFIPS 1968.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.blocks.compiler.accessed_elements import mask_of
from vkcompute.blocks.compiler.arithmetic import describe, describe_dynamic, is_sequence
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import complex_by_parts
from vkcompute.blocks.compiler.functions import block_function, method
from vkcompute.blocks.language.joining import chosen, is_second
from vkcompute.blocks.language.shapes import checked_axis
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, INT64, UINT32, Scalar, Value
from vkcompute.ir.types import element_of
from vkcompute.tile import shape_of
from vkcompute.tile.layout import axis_bits, log2


def _last_axis(c: BlockCompiler, x: Any, dim: Any, name: str) -> tuple[int, ...]:
    """Returns the shape of a block. Raises UnsupportedError unless the axis is its last one."""
    shape, _ = c.shape(x), c.element_type(x)  # which refuses pointers
    if not shape or dim not in (None, -1, len(shape) - 1):
        raise UnsupportedError(
            f"tl.{name} sorts along the last axis of a block; got {describe(x)} and dim={describe_dynamic(dim)}"
        )
    return shape


# -- sorting ----------------------------------------------------------------------------------------------------------


def _keys(c: BlockCompiler, value: Value) -> Value:
    """Returns integers with the order of the elements, of at least 32 bits; NaN is the greatest.

    Where a float is negative, all bits but the sign's are inverted.
    """
    b, kind = c.builder, element_of(value.type)
    if kind.kind != "f":
        wide = INT32 if kind.bits < 32 or kind is BOOL else kind
        return b.cast(value, wide)
    value = b.cast(value, FLOAT32) if kind.bits < 32 else value
    nan = b.full(b.const(float("nan"), element_of(value.type)), shape_of(value.type))
    value = b.select(b.compute("isnan", value), nan, value)  # of one sign
    return _mirrored_negatives(c, b.bitcast(value, INT64 if kind.bits == 64 else INT32))


def _mirrored_negatives(c: BlockCompiler, bits: Value) -> Value:
    b, kind, shape = c.builder, element_of(bits.type), shape_of(bits.type)
    sign = b.compute("shr", bits, b.full(b.const(kind.bits - 1, kind), shape))
    others = b.full(b.const((1 << kind.bits - 1) - 1, kind), shape)
    return b.compute("xor", bits, b.compute("and", sign, others))


def _of_keys(c: BlockCompiler, keys: Value, kind: Scalar) -> Value:
    """Returns the elements of keys."""
    if kind.kind != "f":
        return c.builder.cast(keys, kind)
    wide = kind if kind.bits >= 32 else FLOAT32
    return c.builder.cast(c.builder.bitcast(_mirrored_negatives(c, keys), wide), kind)


def _merged(c: BlockCompiler, keys: Sequence[Value], n: int, *, descending: bool) -> Sequence[Value]:
    """Sorts runs of 2**n elements that rise and then fall.

    Args:
        keys: blocks of one shape. Elements are ordered by the first block, equal ones by the next one.
    """
    for bit in reversed(range(n)):
        keys = _exchanged(c, keys, 1 << bit, descending=descending)
    return keys


def _exchanged(c: BlockCompiler, keys: Sequence[Value], mask: int, *, descending: bool) -> Sequence[Value]:
    """Orders pairs of elements whose numbers differ in the bits of a mask; the lesser is first, or last if descending.

    The first of a pair has a zero as the highest of these bits.
    """
    b, others = c.builder, [c.builder.mirror(key, mask) for key in keys]
    takes_greater = is_second(c, shape_of(keys[0].type), mask.bit_length() - 1)
    if len(keys) == 1:
        pair = b.compute("min", keys[0], others[0]), b.compute("max", keys[0], others[0])
        return [b.select(takes_greater, *(pair if descending else pair[::-1]))]
    *first, last = zip(keys, others, strict=True)
    is_greater = b.compute("gt", *last)
    for pair in reversed(first):
        is_greater = b.compute("or", b.compute("gt", *pair), b.compute("and", b.compute("eq", *pair), is_greater))
    is_moved = b.compute("eq" if descending else "ne", is_greater, takes_greater)
    return [b.select(is_moved, other, key) for key, other in zip(keys, others, strict=True)]


def _sorted(c: BlockCompiler, values: Sequence[Value], *, descending: bool) -> list[Value]:
    """Sorts runs of two elements, then of four, and so on.

    The second half of a run is read backwards, so that all runs have one direction. Where invocations hold both
    elements of a pair, an exchange is a minimum and a maximum.
    """
    keys: Sequence[Value] = [_keys(c, value) for value in values]
    for n in range(1, log2(shape_of(values[0].type)[-1]) + 1):
        keys = _exchanged(c, keys, (1 << n) - 1, descending=descending)
        keys = _merged(c, keys, n - 1, descending=descending)
    return [_of_keys(c, key, element_of(value.type)) for key, value in zip(keys, values, strict=True)]


@method
@block_function
def sort(c: BlockCompiler, x: Any, dim: Any = None, descending: Any = False) -> Any:
    """The elements in order along the last axis; NaN is greater than all numbers.

    A tuple of blocks of one shape is sorted by the first, where it is equal by the second, and so on.
    """
    blocks = tuple(x) if is_sequence(x) else (x,)
    shapes = [_last_axis(c, block, dim, "sort") for block in blocks]
    if len(set(shapes)) != 1:
        raise UnsupportedError(f"tl.sort takes blocks of one shape; got {', '.join(map(describe, blocks)) or '()'}")
    results = map(c.number, _sorted(c, [block.value for block in blocks], descending=bool(descending)))
    return tuple(results) if is_sequence(x) else next(results)


@block_function
def sort_with_index(
    c: BlockCompiler, x: Any, idxs: Any, rnumel: Any, dim: Any = None, stable: Any = True, descending: Any = False
) -> Any:
    """The elements in order along the last axis, and the index of each; equal elements keep their order.

    The function of `torch._inductor.runtime.triton_helpers` whose place this takes has a reduction per exchange.

    Args:
        idxs: the numbers of the elements along the axis, of the shape of `x`.
        rnumel: how many elements are sorted, of which the others follow; None means all.
    """
    shape, b = _last_axis(c, x, dim, "sort_with_index"), c.builder
    index, key = b.cast(idxs.value, INT32), _keys(c, _positive_zeros(c, x.value))
    kind = element_of(key.type)
    if descending:
        key = b.compute("xor", key, b.full(b.const(-1 if kind.kind == "i" else (1 << kind.bits) - 1, kind), shape))
    if rnumel is not None:
        last = b.full(b.const((1 << kind.bits - (kind.kind == "i")) - 1, kind), shape)
        key = b.select(b.compute("lt", index, c.spread(c.cast(rnumel, INT32), shape)), key, last)
    keys: Sequence[Value] = [key, index]
    for n in range(1, log2(shape[-1]) + 1):
        keys = _merged(c, _exchanged(c, keys, (1 << n) - 1, descending=False), n - 1, descending=False)
    values = gather.expand(c, [x, c.number(keys[1]), len(shape) - 1], {})
    return values, c.number(b.cast(keys[1], c.element_type(idxs)))


def _positive_zeros(c: BlockCompiler, value: Value) -> Value:
    """Returns the elements, with 0 in the place of -0, which is equal to it."""
    kind, shape = element_of(value.type), shape_of(value.type)
    if kind.kind != "f":
        return value
    zero = c.builder.full(c.builder.const(0.0, kind), shape)
    return c.builder.select(c.builder.compute("eq", value, zero), zero, value)


@block_function
def topk(c: BlockCompiler, x: Any, k: Any, dim: Any = None, descending: Any = True) -> Any:
    """The k greatest elements along the last axis, in descending order, or the k least in ascending order.

    As in Triton, a result that is shorter than the axis has at least 32 bits per element.
    """
    shape = _last_axis(c, x, dim, "topk")
    if type(k) is not int or k < 1 or k & (k - 1) or k > shape[-1]:
        raise UnsupportedError(
            f"k is a power of two, at most the length of the axis, {shape[-1]}; got {describe_dynamic(k)}"
        )
    (ordered,) = _sorted(c, [x.value], descending=bool(descending))
    rows = c.builder.reshape(ordered, (*shape[:-1], shape[-1] // k, k))
    result, kind = chosen(c, rows, len(shape) - 1, 0), element_of(ordered.type)
    if k == shape[-1] or kind.bits >= 32 or not c.is_users():
        return result
    return c.number(c.cast(result, FLOAT32 if kind.kind == "f" else INT32))


@block_function
def bitonic_merge(c: BlockCompiler, x: Any, dim: Any = None, descending: Any = False) -> Any:
    """The elements in order along the last axis, along which they rise and then fall."""
    shape = _last_axis(c, x, dim, "bitonic_merge")
    keys = [_keys(c, x.value)]
    (key,) = _merged(c, keys, log2(shape[-1]), descending=bool(descending))
    return c.number(_of_keys(c, key, element_of(x.value.type)))


@complex_by_parts
@method
@block_function
def flip(c: BlockCompiler, x: Any, dim: Any = None) -> Any:
    """The elements in reverse order along an axis, the last one by default."""
    at = checked_axis(c, x, -1 if dim is None else dim)
    kind = c.element_type(x)
    value = c.builder.cast(x.value, INT32) if kind is BOOL else x.value
    mask = sum(1 << bit for bit in axis_bits(c.shape(x), at))
    return c.number(c.builder.cast(c.builder.mirror(value, mask), kind))


# -- by value ---------------------------------------------------------------------------------------------------------


@complex_by_parts
@method
@block_function
def gather(c: BlockCompiler, src: Any, index: Any, axis: Any) -> Any:
    """The elements at indices along an axis, as numpy.take_along_axis; the shapes differ along the axis only."""
    shape, wanted, at = c.shape(src), c.shape(index), checked_axis(c, src, axis)
    if (*shape[:at], *shape[at + 1 :]) != (*wanted[:at], *wanted[at + 1 :]) or len(wanted) != len(shape):
        raise UnsupportedError(f"shapes differ along the axis {axis} only; got {describe(src)} and {describe(index)}")
    if c.element_type(index).kind not in "iu":
        raise UnsupportedError(f"indices are integers; got {describe(index)}")
    kind = c.element_type(src)
    value = c.builder.cast(src.value, INT32) if kind is BOOL else src.value
    gathered = c.builder.gather(value, c.builder.cast(index.value, INT32), at)
    return c.number(c.builder.cast(gathered, kind))


@method
@block_function
def histogram(c: BlockCompiler, input: Any, num_bins: Any, mask: Any = None) -> Any:
    """The number of elements of each value from 0 to before `num_bins`, int32; other elements do not count."""
    shape = c.shape(input)
    if len(shape) != 1 or c.element_type(input).kind not in "iu":
        raise UnsupportedError(f"tl.histogram takes a block of integers with one axis; got {describe(input)}")
    if type(num_bins) is not int or num_bins < 1 or num_bins & (num_bins - 1):
        raise UnsupportedError(f"num_bins is a power of two known at compile time; got {describe_dynamic(num_bins)}")
    value, b, kind = input.value, c.builder, c.element_type(input)
    if kind.bits != 32 and c.is_users():
        raise UnsupportedError(f"tl.histogram takes int32; got {describe(input)}; convert it, as x.to(tl.int32)")
    if kind.bits == 64 or kind is UINT32:  # values that int32 lacks become others that do not count
        value = b.compute("min", value, b.full(b.const(num_bins, kind), shape))
        value = b.compute("max", value, b.full(b.const(-1, kind), shape)) if kind.kind == "i" else value
    taken = mask_of(c, mask, shape, "histogram")
    return c.number(b.histogram(b.cast(value, INT32), num_bins, taken))
