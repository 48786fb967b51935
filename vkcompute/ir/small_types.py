"""Numbers of 8 and 16 bits on devices without them: they are computed in 32 bits, and accessed by words of buffers.

An integer is held as int32 or uint32 of the same value, and wrapped after each operation that may leave its range. A
float16 is held as float32, and rounded after each operation. Sums, products, quotients and square roots are thereby the
nearest float16: a second rounding changes nothing where the first keeps 24 >= 2 * 11 + 2 bits (S. Figueroa: When is
double rounding innocuous? 1995). Where it would change something, the first one is to odd (S. Boldo, G. Melquiond:
Emulation of a FMA and correctly rounded sums, 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from vkcompute.errors import IrError
from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Constant, Function, Op, Region, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import replace_memories, rewrite
from vkcompute.ir.small_floats import FORMATS, bits_of, of_bits, rounded, to_odd
from vkcompute.ir.target import Target
from vkcompute.ir.types import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    UINT8,
    UINT16,
    UINT32,
    Matrix,
    Scalar,
    Type,
    Vector,
    element_of,
    vector,
)
from vkcompute.ir.words import bits_at, store_bits, word_and_shift, words_of

SMALL_TYPES = {INT8: INT32, INT16: INT32, UINT8: UINT32, UINT16: UINT32, FLOAT16: FLOAT32}
"""Types below 32 bits -> those that hold their numbers."""
_NOWHERE: dict[Scalar, Scalar] = {kind: FLOAT32 for kind in FORMATS if kind is not FLOAT16}
"""Floats that no device computes with."""
_WRAPPED = {"add", "sub", "mul", "neg", "abs", "shl", "not", "div"}
"""Operations of integers whose results may leave the range of their type."""
_EXACT = {"neg", "abs", "sign", "floor", "ceil", "trunc", "round", "min", "max", "rem"}
"""Operations of floats whose results have no more bits than their operands."""
_LIMITS = {"exclusive_min": ("min", "max"), "exclusive_max": ("max", "min")}
"""Scans whose first result is a limit of the type -> the operation that limits it, and the limit's name in `iinfo`."""


def widen_small_types(function: Function, target: Target) -> Function:
    """Replaces the types below 32 bits that the target lacks, in place."""
    missing = {kind: wide for kind, wide in SMALL_TYPES.items() if kind.name in target.missing_types}
    if missing:
        _Widening(function, missing).run()
    return function


def widen_small_floats(function: Function) -> Function:
    """Replaces bfloat16 and the floats of 8 bits, in place, but for operands of cooperative matrices."""
    ops = walk(function.body)
    memories = (*function.buffers, *function.shared_memory, *[op.memory for op in ops if op.memory is not None])
    values = [value for op in ops for value in (*([op] if op.has_result else []), *op.args, *op.params)]
    kinds = {memory.element for memory in memories}
    kinds |= {element_of(value.type) for value in values if not isinstance(value.type, Matrix)}
    if not kinds.isdisjoint(_NOWHERE):
        _Widening(function, _NOWHERE).run()
    return function


def in_words(function: Function, target: Target) -> tuple[int, ...]:
    """Returns the indices of the buffers whose elements `lower` accesses by words of 32 bits."""
    buffers = enumerate(function.buffers)
    return tuple([n for n, buffer in buffers if buffer.parts > 1 or _has_words(buffer.element, target.missing_types)])


def _has_words(element: Scalar, missing: Sequence[str]) -> bool:
    """True if numbers of a type are accessed by words in buffers; float16 by uint16 where the device has that."""
    if element in _NOWHERE:
        return f"uint{element.bits}" in missing
    names = {"bool": ("uint8",), "float16": ("float16", "uint16")}.get(element.name, (element.name,))
    return element.bits < 32 and set(names) <= set(missing)


class _Widening:
    def __init__(self, function: Function, missing: dict[Scalar, Scalar]) -> None:
        self._function, self._missing, self._b = function, missing, Builder(function)
        self._ops = walk(function.body)
        used = (*function.buffers, *function.shared_memory, *[op.memory for op in self._ops])
        self._memories: dict[Memory | None, Memory] = {
            memory: self._replaced(memory) for memory in used if memory is not None and memory.element in missing
        }
        self._sources = {op: op.args[0].type for op in self._ops if op.code == "bitcast"}

    def run(self) -> None:
        """Rewrites the function."""
        for op in self._ops:
            for value in (*op.params, *op.results):
                value.type = self._wide(value.type)
        replace_memories(self._function, self._memories)
        rewrite(self._function, self._replace)

    def _replaced(self, memory: Memory) -> Memory:
        """Returns the memory that holds the elements: only a buffer has a layout that others see."""
        element = memory.element
        if memory.lanes > 1:
            raise IrError(f"{memory.name}: elements of {element} are accessed one by one; got {memory.lanes} lanes")
        if memory.length is not None:
            return replace(memory, element=self._missing[element])
        if not _has_words(element, [scalar.name for scalar in self._missing]):
            return replace(memory, element=UINT8 if element.bits == 8 else UINT16)
        return words_of(memory)

    def _wide(self, kind: Type) -> Type:
        if isinstance(kind, Matrix):
            return kind
        element = element_of(kind)
        wide = self._missing.get(element, element)
        return vector(wide, kind.n) if isinstance(kind, Vector) else wide

    def _is_small(self, kind: Type) -> bool:
        return element_of(kind) in self._missing and not isinstance(kind, Matrix)

    def _replace(self, op: Op, replaced: dict[Value, Value]) -> list[Op] | None:
        """Returns the operations in place of one; None to keep it."""
        op.args = tuple([self._constant(arg) for arg in op.args])
        if not (op.has_result and self._is_small(op.type)):
            if op.code == "bitcast" and self._is_small(self._sources[op]):
                return self._built(op, replaced, lambda: self._bitcast(op))
            if op.code == "cast" and op.args[0].type is op.type:
                replaced[op] = op.args[0]
                return []
            if op.memory in self._memories:
                return self._built(op, replaced, lambda: self._store(op, self._memories[op.memory]))
            return None
        if op.code == "load":
            return self._built(op, replaced, lambda: self._load(op, self._memories[op.memory]))
        if op.code == "cast":
            kind = element_of(op.type)
            return self._built(op, replaced, lambda: self._each(op.args[0], lambda value: self._cast(value, kind)))
        if op.code == "bitcast":
            return self._built(op, replaced, lambda: self._bitcast(op))
        if op.code == "fma":
            return self._built(op, replaced, lambda: self._fma(op.args, element_of(op.type)))
        kind, op.type = element_of(op.type), self._wide(op.type)
        if op.code == "subgroup" and op.attribute in _LIMITS and kind.kind != "f":
            return [op, *self._built(op, replaced, lambda: self._limited(op, kind))]
        if _is_exact(op, kind):
            return None
        return [op, *self._built(op, replaced, lambda: self._each(op, lambda value: self._normal(value, kind)))]

    def _built(self, op: Op, replaced: dict[Value, Value], build: Callable[[], Value | None]) -> list[Op]:
        """Returns the operations that `build` appends; its result replaces the operation's."""
        region = Region()
        with self._b.into(region), self._b.at(op.loc):
            result = build()
        if result is not None:
            replaced[op] = result
        return region.ops[:-1]  # without the terminator

    def _constant(self, value: Value) -> Value:
        if not isinstance(value, Constant) or not self._is_small(value.type):
            return value
        return self._b.const(value.value, self._missing[element_of(value.type)])

    def _each(self, value: Value, function: Callable[[Value], Value]) -> Value:
        """Applies a function to a number, or to each element of a vector."""
        if not isinstance(value.type, Vector):
            return function(value)
        return self._b.vector(*[function(self._b.extract(value, at)) for at in range(value.type.n)])

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _normal(self, value: Value, kind: Scalar) -> Value:
        """Wraps or rounds a result to a number of a small type."""
        b = self._b
        if kind in FORMATS:
            return rounded(b, value, kind)
        if kind.kind == "u":
            return b.compute("and", value, b.const((1 << kind.bits) - 1, UINT32))
        unused = b.const(32 - kind.bits, INT32)
        return b.compute("shr", b.compute("shl", value, unused), unused)

    def _limited(self, value: Value, kind: Scalar) -> Value:
        """Limits the result of a scan, which has a limit of 32 bits in the first lane, to the small type."""
        code, name = _LIMITS[value.attribute]  # type: ignore[attr-defined]
        return self._b.compute(code, value, self._b.const(getattr(np.iinfo(kind.name), name), self._missing[kind]))

    def _cast(self, value: Value, kind: Scalar) -> Value:
        """Converts a number to a small type."""
        b, source = self._b, element_of(value.type)
        if kind in FORMATS and source is FLOAT64:
            single = b.cast(value, FLOAT32)
            again = b.cast(single, FLOAT64)
            return rounded(b, to_odd(b, single, b.compute("lt", value, again), b.compute("gt", value, again)), kind)
        wide = self._missing[kind]
        if source.kind == "b":
            return b.cast(value, wide)
        if source.kind == "f" and kind not in FORMATS:
            value = b.cast(value, INT32)
        return self._normal(b.cast(value, wide), kind)

    def _fma(self, args: Sequence[Value], kind: Scalar) -> Value:
        """Returns x * y + z, rounded once: the product is exact in float32, and the error of the sum is known.

        The error is that of D. Knuth's TwoSum (The Art of Computer Programming, vol. 2, section 4.2.2).
        """
        b, (x, y, z) = self._b, args
        product = b.rounded("mul", x, y)
        total = b.rounded("add", product, z)
        added = b.rounded("sub", total, product)
        error = b.rounded("add", b.rounded("sub", product, b.rounded("sub", total, added)), b.rounded("sub", z, added))
        zero = b.const(0, FLOAT32)
        return rounded(b, to_odd(b, total, b.compute("lt", error, zero), b.compute("gt", error, zero)), kind)

    # -- bits ---------------------------------------------------------------------------------------------------------

    def _bits(self, value: Value, kind: Scalar) -> Value:
        """Returns the bits of a number of at most 32 bits, as uint32."""
        b = self._b
        if kind.bits == 32:
            return b.bitcast(value, UINT32)
        mask = b.const((1 << kind.bits) - 1, UINT32)
        if kind not in self._missing:
            if kind.bits == 8:
                return b.cast(b.bitcast(value, UINT8), UINT32)
            return b.compute("and", b.bitcast(b.vector(value, value), UINT32), mask)  # the device may lack uint16
        if kind in FORMATS:
            return bits_of(b, value, kind)
        return value if kind.kind == "u" else b.compute("and", b.bitcast(value, UINT32), mask)

    def _of_bits(self, word: Value, kind: Scalar) -> Value:
        """Returns the number with these bits; all higher bits are 0."""
        b = self._b
        if kind.bits == 32:
            return b.bitcast(word, kind)
        if kind not in self._missing:
            if kind.bits == 8:
                return b.bitcast(b.cast(word, UINT8), kind)
            return b.extract(b.bitcast(word, vector(kind, 2)), 0)
        if kind in FORMATS:
            return of_bits(b, word, kind)
        return word if kind.kind == "u" else self._normal(b.bitcast(word, INT32), kind)

    def _bitcast(self, op: Op) -> Value:
        """Reinterprets bits as another type. At least one of both types has small elements."""
        b, (value,), source = self._b, op.args, self._sources[op]
        parts = [b.extract(value, at) for at in range(source.n)] if isinstance(source, Vector) else [value]
        element, target = element_of(source), element_of(op.type)
        if element.bits == 64:
            halves = [b.bitcast(part, vector(UINT32, 2)) for part in parts]
            words = [b.extract(half, at) for half in halves for at in (0, 1)]
        else:
            words = self._joined([self._bits(part, element) for part in parts], element.bits)
        if target.bits == 64:
            elements = [b.bitcast(b.vector(*words[at : at + 2]), target) for at in range(0, len(words), 2)]
        else:
            n = op.type.n if isinstance(op.type, Vector) else 1
            elements = [self._of_bits(element_bits, target) for element_bits in self._split(words, target)[:n]]
        return b.vector(*elements) if isinstance(op.type, Vector) else elements[0]

    def _joined(self, parts: Sequence[Value], n_bits: int) -> list[Value]:
        """Joins numbers of this many bits to words."""
        b, n = self._b, 32 // n_bits
        words = []
        for first in range(0, len(parts), n):
            word = parts[first]
            for at, bits in enumerate(parts[first + 1 : first + n], 1):
                word = b.compute("or", word, b.compute("shl", bits, b.const(at * n_bits, UINT32)))
            words.append(word)
        return words

    def _split(self, words: Sequence[Value], kind: Scalar) -> list[Value]:
        """Splits words to the bits of numbers."""
        b, starts = self._b, range(0, 32, kind.bits)
        return [bits_at(b, word, b.const(at, UINT32), kind) for word in words for at in starts]

    # -- memory -------------------------------------------------------------------------------------------------------

    def _load(self, op: Op, memory: Memory) -> Value:
        b, kind, index = self._b, op.memory.element, op.args[0]  # type: ignore[union-attr]
        if memory.parts > 1:
            number, shift = word_and_shift(b, index, kind)
            return self._of_bits(bits_at(b, b.load(memory, number), shift, kind), kind)
        loaded = b.load(memory, index)
        return self._of_bits(b.cast(loaded, UINT32), kind) if memory.element in (UINT8, UINT16) else loaded

    def _store(self, op: Op, memory: Memory) -> None:
        b, kind, value = self._b, op.memory.element, op.args[-1]  # type: ignore[union-attr]
        if op.code == "fill":
            b.fill(memory, value)
        elif op.code != "store":
            raise IrError(f"{op.code} of {memory.name} is not known: {kind} is accessed by words")
        elif memory.parts > 1:
            store_bits(b, memory, op.args[0], self._bits(value, kind), kind)
        else:
            is_bits = memory.element in (UINT8, UINT16)
            b.store(memory, op.args[0], b.cast(self._bits(value, kind), memory.element) if is_bits else value)


def _is_exact(op: Op, kind: Scalar) -> bool:
    """True if the result of an operation in 32 bits is a number of the small type."""
    if op.code == "subgroup":
        return not op.attribute.endswith(("add", "mul"))
    if not op.operation.arity:
        return True
    return op.code in _EXACT if kind.kind == "f" else op.code not in _WRAPPED
