"""The blocks that a device streams fastest, and the arrays that they fit."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.compiled.block_access import ElementBlock
from vkcompute.core.buffer_view import TEXEL_BYTES
from vkcompute.core.quirks import fails_store_forwarding, quirks_of
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.placeholders import Placeholder


def block_of(runtime: Runtime, itemsizes: Sequence[int]) -> ElementBlock:
    """Returns the blocks that a device streams fastest, for arrays with elements of these sizes.

    A driver whose loads take as long for 64 bits as for 8 (quirks.py) is fastest with 32 bytes of float32.
    """
    word, texels = cached(runtime, ElementBlock, lambda: _accesses(runtime))
    return ElementBlock(8, word, texels) if word else wide(itemsizes)._replace(texels=texels)


def _accesses(runtime: Runtime) -> tuple[str, bool]:
    """Returns `word` and `texels` of an `ElementBlock` of 32 bytes; "" as the word without such blocks.

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


def wide(itemsizes: Sequence[int]) -> ElementBlock:
    """Returns the blocks for a GPU, which loads and stores 16 bytes by one instruction.

    That is 16 bytes of the narrowest array, if that is within the padding (64 bytes) of the widest; at least 4
    elements.
    """
    return ElementBlock(max(min(16 // min(itemsizes), 64 // max(itemsizes)), 4), pairs=True)


def fits(array: Array, block: ElementBlock) -> bool:
    """True if whole blocks cover the array's elements and nothing that may belong to another array.

    An input of a graph may be replaced by a view, behind which there is no padding.
    """
    stop, buffer = array.offset + array.nbytes, array.buffer
    rest = -array.nbytes % (array.dtype.itemsize * block.size)
    padded = stop == buffer.used_bytes and stop + rest <= buffer.nbytes
    return not rest or (padded and not isinstance(buffer, Placeholder))
