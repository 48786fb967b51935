"""The blocks that a device streams fastest, and the arrays that they fit."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.core.buffer_view import TEXEL_BYTES
from vkcompute.core.host_cpu import fails_store_forwarding
from vkcompute.core.quirks import quirks_of
from vkcompute.jit.elementwise.block_access import SINGLE, Block
from vkcompute.jit.elementwise.broadcasting import Mask
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.placeholders import Placeholder


def blocks_of(
    runtime: Runtime, masks: Sequence[Mask], lengths: Sequence[int], arrays: Sequence[Array], outs: Sequence[Array] = ()
) -> Block:
    """Returns the blocks of a launch: single elements where an argument is not padded.

    If an array is repeated along some axes, so are they where no block divides the last axis.

    Args:
        masks, lengths: broadcast masks of the arrays, and lengths of the axes (broadcasting.py).
    """
    streamed = [array for array, mask in zip(arrays, masks, strict=True) if all(mask)]
    block = block_of(runtime, [array.dtype.itemsize for array in streamed or arrays])
    if not all(all(mask) or not any(mask) for mask in masks):
        block = block.dividing(lengths[-1])
    return block if all(fits(array, block) for array in (*streamed, *outs)) else SINGLE


def mixed_blocks_of(
    runtime: Runtime, masks: Sequence[Mask], lengths: Sequence[int], arrays: Sequence[Array], outs: Sequence[Array]
) -> Block:
    """Returns the blocks of a launch for elements, of any arrays.

    On CPUs these are single elements only where all arrays would be accessed singly. A store of an element, and the
    division that finds its place, take longer there than the rest of most functions.

    Args:
        outs: results; none for new ones, which are padded.
    """
    found = SINGLE if any(map(is_view, (*arrays, *outs))) else blocks_of(runtime, masks, lengths, arrays, outs)
    if found.size > 1 or runtime.device.physical.kind != "cpu":
        return found
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


def block_of(runtime: Runtime, itemsizes: Sequence[int]) -> Block:
    """Returns the blocks that a device streams fastest, for arrays with elements of these sizes.

    A driver whose loads take as long for 64 bits as for 8 (quirks.py) is fastest with 32 bytes of float32.
    """
    word, texels = cached(runtime, Block, lambda: _accesses(runtime))
    return Block(8, word, texels) if word else wide(itemsizes)._replace(texels=texels)


def _accesses(runtime: Runtime) -> tuple[str, bool]:
    """Returns the type of the words of blocks of 32 bytes, or "" without such blocks; and True for texels. See `Block`.

    Texel buffers are used only where they bind all that storage buffers bind.
    """
    device = runtime.device
    quirks, limits = quirks_of(device.physical), device.physical.limits
    texels = (
        quirks.texel_loads
        and limits["minTexelBufferOffsetAlignment"] <= limits["minStorageBufferOffsetAlignment"]
        and limits["maxTexelBufferElements"] * TEXEL_BYTES >= device.max_binding_bytes
    )
    if not quirks.scalar_loads or "shaderInt64" not in device.features:
        return "", texels
    return "uint32" if quirks.reloads_wide_vectors and fails_store_forwarding() else "uint64", texels


def wide(itemsizes: Sequence[int]) -> Block:
    """Returns the blocks for a GPU, which loads and stores 16 bytes by one instruction.

    That is 16 bytes of the narrowest array, if that is within the padding (64 bytes) of the widest; at least 4
    elements.
    """
    return Block(max(min(16 // min(itemsizes), 64 // max(itemsizes)), 4), pairs=True)


def fits(array: Array, block: Block) -> bool:
    """True if whole blocks cover the array's elements and nothing that may belong to another array.

    An input of a graph may be replaced by a view, behind which there is no padding.
    """
    stop, buffer = array.offset + array.nbytes, array.buffer
    rest = -array.nbytes % (array.dtype.itemsize * block.size)
    padded = stop == buffer.used_bytes and stop + rest <= buffer.nbytes
    return not rest or (padded and not isinstance(buffer, Placeholder))
