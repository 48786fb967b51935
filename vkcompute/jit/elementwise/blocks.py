"""The blocks of launches of functions of elements."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.compiled.block_access import SINGLE, ElementBlock
from vkcompute.compiled.blocks import block_of, fits
from vkcompute.compiled.target import computes_by_words
from vkcompute.jit.elementwise.broadcasting import Mask
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tuning import tuning_of


def blocks_of(
    runtime: Runtime, masks: Sequence[Mask], lengths: Sequence[int], arrays: Sequence[Array], outs: Sequence[Array] = ()
) -> ElementBlock:
    """Returns the blocks of a launch: single elements where an argument is not padded.

    If an array is repeated along some axes, so are they where no block divides the last axis.

    Args:
        masks, lengths: broadcast masks of the arrays, and lengths of the axes (broadcasting.py).
    """
    if computes_by_words(runtime, [array.dtype for array in (*arrays, *outs)]):
        return SINGLE
    streamed = [array for array, mask in zip(arrays, masks, strict=True) if all(mask)]
    block = block_of(runtime, [array.dtype.itemsize for array in streamed or arrays])
    if not all(all(mask) or not any(mask) for mask in masks):
        block = block.dividing(lengths[-1])
    return block if all(fits(array, block) for array in (*streamed, *outs)) else SINGLE


def mixed_blocks_of(
    runtime: Runtime, masks: Sequence[Mask], lengths: Sequence[int], arrays: Sequence[Array], outs: Sequence[Array]
) -> ElementBlock:
    """Returns the blocks of a launch for elements, of any arrays.

    Where the device mixes blocks, these are single elements only if all arrays would be accessed singly.

    Args:
        outs: results; none for new ones, which are padded.
    """
    uniform = SINGLE if any(map(is_view, (*arrays, *outs))) else blocks_of(runtime, masks, lengths, arrays, outs)
    if uniform.size > 1 or not tuning_of(runtime.device.physical).mixes_blocks:
        return uniform
    if computes_by_words(runtime, [array.dtype for array in (*arrays, *outs)]):
        return SINGLE
    block = block_of(runtime, [array.dtype.itemsize for array in arrays])
    streamed = [*map(all, masks), *[True] * len(outs)]
    singly = [
        at
        for at, (array, whole) in enumerate(zip((*arrays, *outs), streamed, strict=True))
        if not whole or is_view(array) or not fits(array, block)
    ]
    return block._replace(singly=tuple(singly)) if len(singly) < len(arrays) + max(len(outs), 1) else SINGLE


def is_view(array: Array) -> bool:
    """True if an array is not bound as it is: its strides, or the index of its first element, are push constants."""
    return not (array.contiguous and not array.offset) and needs_strides(array)
