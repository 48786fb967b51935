"""The workgroup memory of a block program, which its exchanges use in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from vkcompute.ir import FLOAT32, INT32, UINT32, Builder, Function, Memory, Scalar, Value
from vkcompute.ir.function import walk
from vkcompute.ir.types import Type, vector

_PACKED = 4  # rows whose numbers share vectors: the lanes of the longest vector of shaders
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

    def store(self, b: Builder, at: Value, *values: Value) -> None:
        """Stores a number, or as many as a vector of the memory has."""
        words = [self._word(b, value) for value in values]
        b.store(self.span.memory, self.span.at(b, at), b.vector(*words) if len(words) > 1 else words[0])

    def load(self, b: Builder, at: Value) -> Value:
        """Loads a number."""
        return self._number(b, b.load(self.span.memory, self.span.at(b, at)))

    def load_vector(self, b: Builder, at: Value) -> list[Value]:
        """Loads the numbers of a vector."""
        vector = b.load(self.span.memory, self.span.at(b, at))
        return [self._number(b, b.extract(vector, lane)) for lane in range(self.span.memory.lanes)]

    def _word(self, b: Builder, value: Value) -> Value:
        return b.bitcast(b.cast(value, word_type(self.kind)), UINT32) if self.kind.bits <= 32 else value

    def _number(self, b: Builder, word: Value) -> Value:
        return b.cast(b.bitcast(word, word_type(self.kind)), self.kind) if self.kind.bits <= 32 else word


class Rows:
    """Rows of numbers of all invocations in workgroup memory, one number in each column.

    Args:
        lanes: rows whose numbers share vectors.
    """

    def __init__(self, columns: Sequence[Numbers], n_threads: int, lanes: int) -> None:
        self._columns, self._n_threads, self._lanes = columns, n_threads, lanes
        self._loaded: dict[tuple[Value, int], list[list[Value]]] = {}

    def store(self, b: Builder, thread: Value, rows: Sequence[Sequence[Value]]) -> None:
        """Stores the rows of an invocation."""
        for start in range(0, len(rows), self._lanes):
            at = b.compute("add", thread, b.const(start // self._lanes * self._n_threads, INT32))
            for column, values in zip(self._columns, zip(*rows[start : start + self._lanes], strict=True), strict=True):
                column.store(b, at, *values)

    def load(self, b: Builder, n: int, thread: Value, offset: int) -> list[Value]:
        """Loads row `n` of an invocation, whose number is the sum of a value and a constant."""
        start = n // self._lanes * self._n_threads + offset
        at = b.compute("add", thread, b.const(start, INT32))
        if self._lanes == 1:
            return [column.load(b, at) for column in self._columns]
        if (thread, start) not in self._loaded:
            self._loaded[thread, start] = [column.load_vector(b, at) for column in self._columns]
        return [numbers[n % self._lanes] for numbers in self._loaded[thread, start]]


class WorkgroupMemory:
    """The workgroup memory of a kernel. Spans are valid until the next exchange begins.

    Args:
        nbytes: of workgroup memory.
        overlays: True if arrays of different types can overlap; otherwise each type has its own bytes.
        packs: True if four rows are stored as vectors. A CPU's driver compiles and runs these in half of the time.
            Without overlays, they take at most half of the memory, so that others fit beside them.
    """

    def __init__(self, function: Function, nbytes: int, *, overlays: bool, packs: bool) -> None:
        self._function, self._nbytes, self._overlays, self._packs = function, nbytes, overlays, packs
        self._arrays: dict[Type, Memory] = {}
        self._lengths: dict[Memory, int] = {}  # the longest that an exchange needs
        self._used: dict[Type | None, int] = {}  # bytes, by type; by None with overlays

    def free(self) -> None:
        """Frees all spans."""
        self._used.clear()

    def numbers(self, kinds: Sequence[Scalar], n: int) -> list[Numbers]:
        """Returns memory for `n` numbers of each type."""
        return [Numbers(self.array(UINT32 if kind.bits <= 32 else kind, n), kind) for kind in kinds]

    def rows(self, kinds: Sequence[Scalar], n: int, n_threads: int, lanes: int) -> Rows:
        """Returns memory for `n` rows of each invocation, with these types of columns."""
        if lanes == 1:
            return Rows(self.numbers(kinds, n * n_threads), n_threads, lanes)
        spans = [self.array(UINT32, n // lanes * n_threads, lanes) for _ in kinds]
        return Rows([Numbers(span, kind) for span, kind in zip(spans, kinds, strict=True)], n_threads, lanes)

    def rows_together(self, kinds: Sequence[Scalar], n: int, n_threads: int, *, packs: bool) -> tuple[int, int]:
        """Returns how many of `n` rows pass together, and how many of these share vectors, if `packs` lets them."""
        sizes = [-(-n >> k) for k in range(n.bit_length())]
        most = self._nbytes if self._overlays else self._nbytes // 2
        if packs and self._packs and all(kind.bits <= 32 for kind in kinds):
            for size in (size for size in sizes if size % _PACKED == 0 and n % size == 0):
                nbytes = size * n_threads * len(kinds) * UINT32.bits // 8
                if nbytes <= most and self.fits([UINT32] * len(kinds), size // _PACKED * n_threads, _PACKED):
                    return size, _PACKED
        return next((size for size in sizes if self.fits(kinds, size * n_threads)), n), 1

    def fits(self, kinds: Sequence[Scalar], n: int, lanes: int = 1) -> bool:
        """True if an exchange that begins now has memory for `n` numbers, or vectors, of each type."""
        used, lengths = self._used, dict(self._lengths)
        self._used = {}
        try:
            for kind in kinds:
                self.array(UINT32 if kind.bits <= 32 else kind, n, lanes)
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


def word_type(kind: Scalar) -> Scalar:
    """Returns the type of 32 bits for numbers of up to 32."""
    return FLOAT32 if kind.kind == "f" else INT32 if kind.kind == "i" else UINT32
