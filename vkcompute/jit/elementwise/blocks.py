"""Blocks of adjacent elements, which an invocation loads and stores by wide accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vkcompute.core.buffer_view import TEXEL_BYTES
from vkcompute.core.quirks import quirks_of
from vkcompute.ir import BOOL, SCALARS, UINT32, UINT64, Builder, Function, Memory, Scalar, Value
from vkcompute.ir.types import vector
from vkcompute.jit.elementwise.broadcasting import Mask
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.placeholders import Placeholder


class Block(NamedTuple):
    """The number of adjacent elements per invocation, and how they are accessed.

    Attributes:
        word: the type of the words that are loaded and stored.
        texels: True to load blocks of whole texels through texel buffers.
    """

    size: int = 1
    word: str = "uint32"
    texels: bool = False


SINGLE = Block()


def blocks_of(runtime: Runtime, masks: Sequence[Mask], arrays: Sequence[Array], outs: Sequence[Array] = ()) -> Block:
    """Returns the blocks of a launch: single elements where an argument is repeated along an axis or not padded.

    Args:
        masks: broadcast masks of the arrays (broadcasting.py).
    """
    streamed = [array for array, mask in zip(arrays, masks, strict=True) if all(mask)]
    block = block_of(runtime, [array.dtype.itemsize for array in streamed or arrays])
    alike = all(all(mask) or not any(mask) for mask in masks)
    return block if alike and all(fits(array, block) for array in (*streamed, *outs)) else SINGLE


def block_of(runtime: Runtime, itemsizes: Sequence[int]) -> Block:
    """Returns the blocks that a device streams fastest, for arrays with elements of these sizes.

    A driver whose loads take as long for 64 bits as for 8 (quirks.py) is fastest with 32 bytes of float32.
    """
    words, texels = cached(runtime, Block, lambda: _accesses(runtime))
    return Block(8, "uint64", texels) if words else wide(itemsizes)._replace(texels=texels)


def _accesses(runtime: Runtime) -> tuple[bool, bool]:
    """Returns whether a device accesses words of 64 bits, and loads texels; see `Block`.

    Texel buffers are used only where they bind all that storage buffers bind.
    """
    device = runtime.device
    quirks, limits = quirks_of(device.physical), device.physical.limits
    texels = (
        quirks.texel_loads
        and limits["minTexelBufferOffsetAlignment"] <= limits["minStorageBufferOffsetAlignment"]
        and limits["maxTexelBufferElements"] * TEXEL_BYTES >= device.max_binding_bytes
    )
    return quirks.scalar_loads and "shaderInt64" in device.features, texels


def wide(itemsizes: Sequence[int]) -> Block:
    """Returns the blocks for a GPU, which loads and stores 16 bytes by one instruction.

    That is 16 bytes of the narrowest array, if that is within the padding (64 bytes) of the widest; at least 4
    elements.
    """
    return Block(max(min(16 // min(itemsizes), 64 // max(itemsizes)), 4))


def fits(array: Array, block: Block) -> bool:
    """True if whole blocks cover the array's elements and nothing that may belong to another array.

    An input of a graph may be replaced by a view, behind which there is no padding.
    """
    stop, buffer = array.offset + array.nbytes, array.buffer
    rest = -array.nbytes % (array.dtype.itemsize * block.size)
    padded = stop == buffer.used_bytes and stop + rest <= buffer.nbytes
    return not rest or (padded and not isinstance(buffer, Placeholder))


class BlockAccess:
    """Loads and stores of the blocks of an array.

    Args:
        element: the type of the array's elements in memory.
        is_result: True for an array that is stored.
    """

    def __init__(
        self, function: Function, name: str, element: Scalar, block: Block, *, is_result: bool = False
    ) -> None:
        n_bits = element.bits * block.size
        texels = block.texels and not is_result and n_bits % (8 * TEXEL_BYTES) == 0
        word = UINT32 if texels or n_bits < SCALARS[block.word].bits else SCALARS[block.word]
        self._lanes = min(n_bits // word.bits, 4)
        self._n = n_bits // word.bits // self._lanes
        self.element = element
        self.memory: Memory = function.buffer(name, word, lanes=self._lanes, texels=texels)

    def load(self, b: Builder, number: Value) -> list[Value]:
        """Loads the elements of a block."""
        words: list[Value] = []
        for each in self._indices(b, number):
            found = b.load(self.memory, each)
            lanes = [found] if self._lanes == 1 else [b.extract(found, lane) for lane in range(self._lanes)]
            words += [word for lane in lanes for word in _halves(b, lane)]
        return _elements(b, words, self.element)

    def store(self, b: Builder, number: Value, elements: Sequence[Value]) -> None:
        """Stores the elements of a block."""
        words = _words(b, elements)
        if self.memory.element is UINT64:
            words = [b.bitcast(b.vector(*words[at : at + 2]), UINT64) for at in range(0, len(words), 2)]
        for k, each in enumerate(self._indices(b, number)):
            lanes = words[k * self._lanes : (k + 1) * self._lanes]
            b.store(self.memory, each, lanes[0] if self._lanes == 1 else b.vector(*lanes))

    def _indices(self, b: Builder, number: Value) -> list[Value]:
        first = b.compute("mul", number, b.const(self._n, UINT32))
        return [b.compute("add", first, b.const(k, UINT32)) for k in range(self._n)]


def _halves(b: Builder, word: Value) -> list[Value]:
    """Returns a word of 32 bits, or both halves of one of 64."""
    if word.type is UINT32:
        return [word]
    halves = b.bitcast(word, vector(UINT32, 2))
    return [b.extract(halves, 0), b.extract(halves, 1)]


def _elements(b: Builder, words: Sequence[Value], kind: Scalar) -> list[Value]:
    """Returns the elements in words of 32 bits."""
    if kind.bits == 64:
        return [b.bitcast(b.vector(*words[at : at + 2]), kind) for at in range(0, len(words), 2)]
    if kind.bits == 32:
        return [b.bitcast(word, kind) for word in words]
    starts = range(0, 32, kind.bits)
    if kind is BOOL:  # without types of 8 bits, which a device may lack
        masks = [b.const(0xFF << start, UINT32) for start in starts]
        zero = b.const(0, UINT32)
        return [b.compute("ne", b.compute("and", word, mask), zero) for word in words for mask in masks]
    narrow = SCALARS[f"uint{kind.bits}"]
    parts = [b.compute("shr", word, b.const(start, UINT32)) for word in words for start in starts]
    return [b.bitcast(b.cast(part, narrow), kind) for part in parts]


def _words(b: Builder, elements: Sequence[Value]) -> list[Value]:
    """Returns elements as words of 32 bits."""
    kind = elements[0].type
    if kind.bits == 64:
        return [half for each in elements for half in _halves(b, each)]
    if kind.bits == 32:
        return [b.bitcast(each, UINT32) for each in elements]
    n, narrow, found = 32 // kind.bits, SCALARS[f"uint{kind.bits}"], []
    for at in range(0, len(elements), n):
        word: Value = b.const(0, UINT32)
        for k, each in enumerate(elements[at : at + n]):
            part = b.cast(each if kind is BOOL else b.bitcast(each, narrow), UINT32)
            word = b.compute("or", word, b.compute("shl", part, b.const(k * kind.bits, UINT32)))
        found.append(word)
    return found
