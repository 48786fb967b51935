"""The workgroup memory of a block program, which its exchanges use in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from vkcompute.ir import FLOAT32, INT32, UINT32, Builder, Function, Memory, Scalar, Value
from vkcompute.ir.function import walk
from vkcompute.ir.types import Type, vector

_ALIGNMENT = 16  # bytes, of each span; Vulkan requires it of the rows of cooperative matrices


class LoweringError(Exception):
    """An operation needs more than the device has.

    Attributes:
        location: that of the operation; its text is an error with "\\0" for the message.
    """

    location: object = None


class Span(NamedTuple):
    """Elements of an array in workgroup memory, from index `first` on."""

    memory: Memory
    first: int

    def at(self, b: Builder, at: Value) -> Value:
        """Returns the index in the array for an index in the span."""
        return b.compute("add", at, b.const(self.first, INT32)) if self.first else at


class Numbers(NamedTuple):
    """Numbers of a type in workgroup memory. Types of up to 32 bits share an array of words."""

    span: Span
    kind: Scalar

    def store(self, b: Builder, at: Value, value: Value) -> None:
        """Stores a number."""
        if self.kind.bits <= 32:
            value = b.bitcast(b.cast(value, _wide(self.kind)), UINT32)
        b.store(self.span.memory, self.span.at(b, at), value)

    def load(self, b: Builder, at: Value) -> Value:
        """Loads a number."""
        number = b.load(self.span.memory, self.span.at(b, at))
        return b.cast(b.bitcast(number, _wide(self.kind)), self.kind) if self.kind.bits <= 32 else number


class WorkgroupMemory:
    """The workgroup memory of a kernel. Spans are valid until the next exchange begins.

    Args:
        nbytes: of workgroup memory.
        overlays: True if arrays of different types can overlap; otherwise each type has its own bytes.
    """

    def __init__(self, function: Function, nbytes: int, *, overlays: bool) -> None:
        self._function, self._nbytes, self._overlays = function, nbytes, overlays
        self._arrays: dict[Type, Memory] = {}
        self._lengths: dict[Memory, int] = {}  # the longest that an exchange needs
        self._used: dict[Type | None, int] = {}  # bytes, by type; by None with overlays

    def free(self) -> None:
        """Frees all spans."""
        self._used.clear()

    def numbers(self, kinds: Sequence[Scalar], n: int) -> list[Numbers]:
        """Returns memory for `n` numbers of each type."""
        return [Numbers(self.array(UINT32 if kind.bits <= 32 else kind, n), kind) for kind in kinds]

    def fits(self, kinds: Sequence[Scalar], n: int) -> bool:
        """True if an exchange that begins now has memory for `n` numbers of each type."""
        used, lengths = self._used, dict(self._lengths)
        self._used = {}
        try:
            self.numbers(kinds, n)
        except LoweringError:
            return False
        finally:
            self._used, self._lengths = used, lengths
        return True

    def array(self, element: Scalar, n: int, lanes: int = 1) -> Span:
        """Returns memory for `n` numbers or vectors.

        Raises:
            LoweringError: too little memory is left.
        """
        kind = element if lanes == 1 else vector(element, lanes)
        size, key = kind.bits // 8, None if self._overlays else kind
        memory = self._arrays.setdefault(kind, Memory(f"shared {kind}", element, self._nbytes // size, lanes=lanes))
        start = -(-self._used.get(key, 0) // _ALIGNMENT) * _ALIGNMENT
        lengths = {} if self._overlays else self._lengths
        others = sum(length * array.type.bits // 8 for array, length in lengths.items() if array is not memory)
        end, left = start + n * size, self._nbytes - others - start
        if n * size > left:
            raise LoweringError(
                f"this exchanges {n * size} bytes between the invocations, and {max(left, 0)} of {self._nbytes} bytes "
                "of workgroup memory are left; use smaller blocks"
            )
        self._used[key] = end
        self._lengths[memory] = max(self._lengths.get(memory, 0), end // size)
        return Span(memory, start // size)

    def declare(self) -> None:
        """Declares the arrays with their lengths, and replaces them in all operations."""
        made = {memory: replace(memory, length=n) for memory, n in self._lengths.items()}
        self._function.shared_memory += made.values()
        if self._overlays and len(made) > 1:
            self._function.aliased |= {*made.values()}
        for op in walk(self._function.body):
            if op.memory in made:
                memory = made[op.memory]
                op.attribute = (op.attribute[0], memory) if isinstance(op.attribute, tuple) else memory


def _wide(kind: Scalar) -> Scalar:
    """Returns the type of 32 bits for numbers of up to 32."""
    return FLOAT32 if kind.kind == "f" else INT32 if kind.kind == "i" else UINT32
