"""Numbers of 64 bits on devices without them: pairs of words, uint32, the lower one first.

A value of 64 bits becomes two values, and a vector of n such values 2 n, in the operands of branches and loops, too.
Elements of buffers and of workgroup memory become vectors of two words, so that sizes and layouts stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from vkcompute.ir.builder import Builder, Loop
from vkcompute.ir.elimination import eliminate_dead_code, fold_branches
from vkcompute.ir.float_functions import in_fixed_point
from vkcompute.ir.float_pairs import FloatPairBuilder
from vkcompute.ir.float_polynomials import evaluated
from vkcompute.ir.floored_quotients import rounded_down
from vkcompute.ir.function import Constant, Function, Op, Param, Push, Region, Routine, Value, walk
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import replace_memories
from vkcompute.ir.target import Target
from vkcompute.ir.types import BOOL, FLOAT64, INT64, UINT32, UINT64, Matrix, Scalar, Type, Vector, element_of, vector

_COMPARISONS = "eq", "ne", "lt", "le", "gt", "ge"
_BITWISE = "and", "or", "xor", "not"
_QUOTIENTS = "div", "rem", "mod"
_INTEGRAL = "trunc", "floor", "ceil", "round"
_BY_WORDS = {"and", "or", "xor", "shuffle", "shuffle_xor", "broadcast_first"}
"""Subgroup operations that work on both words alike."""
_LIMB = 22  # bits of the parts of a sum over a subgroup, which has at most 128 lanes and 3 parts
_WORDS = vector(UINT32, 2)


def split_wide_types(function: Function, target: Target) -> Function:
    """Replaces numbers of 64 bits by pairs of words, if the target lacks their type; returns a new function.

    A function with atomic operations on them stays as it is, and the device refuses it by the feature that it lacks.
    """
    kinds = {kind for kind in (INT64, UINT64, FLOAT64) if kind.name in target.missing_types}
    if not kinds or not _has_any(function, kinds) or _has_atomics(function, kinds):
        return function
    return eliminate_dead_code(fold_branches(_Splitting(function, kinds).run()))


def _operations(function: Function) -> Iterator[Op]:
    yield from walk(function.body)
    for _, body in function.routines.values():
        yield from walk(body)


def _has_any(function: Function, kinds: AbstractSet[Scalar]) -> bool:
    """True if a function has values or memory of these types."""
    types = [push.type for push in function.pushes]
    types += [memory.type for memory in (*function.buffers, *function.shared_memory)]
    for op in _operations(function):
        types += [value.type for value in (*op.args, *op.params, *op.results)]
        types += [op.type] if op.has_result else [op.memory.type] if op.memory is not None else []
    return any(element_of(kind) in kinds for kind in types)


def _has_atomics(function: Function, kinds: AbstractSet[Scalar]) -> bool:
    accesses = [op for op in _operations(function) if op.code in ("atomic", "compare_exchange")]
    return any(op.memory is not None and op.memory.element in kinds for op in accesses)


def _n_elements(kind: Type) -> int:
    return kind.n if isinstance(kind, Vector) else 1


class _Splitting:
    """Builds a function anew.

    `_values` maps an old value to the new one, `_pairs` a wide value to its elements.
    """

    def __init__(self, function: Function, kinds: AbstractSet[Scalar]) -> None:
        self._old, self._new, self._kinds = function, function.empty_copy(), kinds
        self._new.array_bindings = function.array_bindings
        self._b = Builder(self._new)
        self._on_pairs = PairBuilder(self._b)
        self._on_floats = FloatPairBuilder(self._b, self._on_pairs)
        self._values: dict[Value, Value] = {}
        self._pairs: dict[Value, list[Pair]] = {}
        self._loops: dict[Op, Loop] = {}
        used = (*function.buffers, *function.shared_memory, *[op.memory for op in walk(function.body)])
        wide = dict.fromkeys(memory for memory in used if memory is not None and self._is_wide(memory.type))
        self._memories: dict[Memory | None, Memory] = {
            memory: _of_words(memory) for memory in wide if not memory.private
        }
        self._private = {memory: _halves(memory) for memory in wide if memory.private}

    def run(self) -> Function:
        """Returns the new function."""
        replace_memories(self._new, self._memories)
        self._new.pushes = [self._push(push) for push in self._old.pushes]
        self._new.routines = {}
        self._region(self._old.body)
        return self._new

    def _is_wide(self, kind: Type) -> bool:
        return not isinstance(kind, Matrix) and element_of(kind) in self._kinds

    def _push(self, push: Push) -> Push:
        if not self._is_wide(push.type):
            return push
        words = Push(push.name, _WORDS, host=push.host)
        self._pairs[push] = [self._pair(words)]
        return words

    def _pair(self, words: Value) -> Pair:
        return Pair(self._b.extract(words, 0), self._b.extract(words, 1))

    def _vector(self, pair: Pair) -> Value:
        return self._b.vector(*pair)

    # -- functions of floats ------------------------------------------------------------------------------------------

    def _call(self, op: Op) -> list[Pair]:
        """A call of a routine, which takes and returns vectors of two words in place of wide numbers."""
        self._declare_routine(op, _WORDS)
        call = Op(op.code, _WORDS, [self._vector(self._elements(arg)[0]) for arg in op.args], None, (), op.loc)
        return [self._pair(self._b.append(call))]

    def _declare_routine(self, op: Op, kind: Type) -> None:
        """Builds the routine that an operation calls, if there is one, for another type of its numbers."""
        routine = self._old.routines.get((op.code, op.type))
        if routine is None or (op.code, kind) in self._new.routines:
            return
        params, body = tuple(Param(kind) for _ in routine.params), Region()
        with self._b.into(body):
            for old, new in zip(routine.params, params, strict=True):
                if self._is_wide(old.type):
                    self._pairs[old] = [self._pair(new)]
                else:
                    self._values[old] = new
            *ops, end = routine.body.ops
            self._region(Region(ops))
            (result,) = end.args
            wide = self._is_wide(result.type)
            self._b.yield_(self._vector(self._elements(result)[0]) if wide else self._value(result))
        self._new.routines[op.code, kind] = Routine(params, body)

    # -- values -------------------------------------------------------------------------------------------------------

    def _value(self, value: Value) -> Value:
        return self._values.get(value, value)

    def _elements(self, value: Value) -> list[Pair]:
        """The pairs of a wide value, one per element."""
        if isinstance(value, Constant):
            return [self._on_pairs.constant(int(value.value.view(np.uint64)))]
        return self._pairs[value]

    def _flat(self, values: Sequence[Value]) -> list[Value]:
        """The values that replace operands of a branch or a loop."""
        return [new for value in values for new in self._parts(value)]

    def _parts(self, value: Value) -> list[Value]:
        if not self._is_wide(value.type):
            return [self._value(value)]
        return [word for pair in self._elements(value) for word in pair]

    def _bind(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        """Notes what replaces parameters or results."""
        given = iter(new)
        for value in old:
            if self._is_wide(value.type):
                self._pairs[value] = [Pair(next(given), next(given)) for _ in range(_n_elements(value.type))]
            else:
                self._values[value] = next(given)

    # -- control flow -------------------------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        for op in region.ops:
            with self._b.at(op.loc):
                self._op(op)

    def _op(self, op: Op) -> None:
        b = self._b
        if op.code == "if":
            branch = b.if_(self._value(op.args[0]))
            for new, old in zip((branch.then, branch.otherwise), op.regions, strict=True):
                with new:
                    self._region(old)
            self._bind(op.results, branch.results if op.results else ())
        elif op.code == "loop":
            loop = self._loops[op] = b.loop(*self._flat(op.args))
            self._bind(op.params, loop.params)
            with loop.body:
                self._region(op.regions[0])
            self._bind(op.results, loop.results if op.results else ())
        elif op.code == "yield":
            b.yield_(*self._flat(op.args))
        elif op.code in ("continue", "break"):
            (b.continue_ if op.code == "continue" else b.break_)(self._loops[op.attribute], *self._flat(op.args))
        elif op.code != "unreachable":  # the builder ends such regions
            self._computed(op)

    def _computed(self, op: Op) -> None:
        """Builds an operation that is no control flow."""
        if op.memory in self._memories or op.memory in self._private:
            self._accessed(op)
        elif op.has_result and self._is_wide(op.type):
            self._pairs[op] = self._wide(op)
        elif any(self._is_wide(value.type) for value in op.args):
            self._of_wide(op)
        else:
            if op.operation.elementary:
                self._declare_routine(op, op.type)
            self._b.copy(op, self._values)

    def _wide(self, op: Op) -> list[Pair]:
        """The elements of a wide result."""
        code, kind = op.code, element_of(op.type)
        if code == "cast":
            source = element_of(op.args[0].type)
            return [self._to_pair(value, source, kind) for value in self._scalars(op.args[0])]
        if code == "bitcast":
            words = self._words(op.args[0])
            return [Pair(*words[at : at + 2]) for at in range(0, len(words), 2)]
        if division := rounded_down(op):
            code, dividend, divisor = division
            return [self._on_pairs.divide_down(code, self._elements(dividend)[0], divisor)]
        if code == "select":
            condition, sides = self._value(op.args[0]), map(self._elements, op.args[1:])
            return [self._on_pairs.select(condition, *both) for both in zip(*sides, strict=True)]
        if code == "vector":
            return [self._elements(value)[0] for value in op.args]
        if code == "extract":
            return [self._elements(op.args[0])[op.attribute]]
        if code == "subgroup":
            return [self._subgroup(op, self._elements(op.args[0])[0])]
        if op.operation.elementary:
            return self._call(op)
        if code == "polynomial":
            (x,) = self._elements(op.args[0])
            return [evaluated(self._b, self._on_pairs, self._on_floats, x, op.attribute)]
        if code == "in_fixed_point":
            operands = [pair for arg in op.args for pair in self._elements(arg)]
            return [in_fixed_point(self._b, self._on_pairs, self._on_floats, operands, op.attribute)]
        return [self._arithmetic(code, args, kind) for args in zip(*map(self._elements, op.args), strict=True)]

    def _arithmetic(self, code: str, args: Sequence[Pair], kind: Scalar) -> Pair:
        pairs, floats, signed = self._on_pairs, self._on_floats, kind is INT64
        if code in ("min", "max"):
            return floats.extreme(code, *args) if kind is FLOAT64 else pairs.extreme(code, *args, signed=signed)
        if code in _INTEGRAL:
            return floats.integral(code, *args)
        if code in _BITWISE:
            return pairs.bitwise(code, *args)
        if code in ("shl", "shr"):
            return pairs.shl(args[0], args[1].low) if code == "shl" else pairs.shr(args[0], args[1].low, signed=signed)
        if code in _QUOTIENTS and kind is not FLOAT64:
            return pairs.divide(code, *args, signed=signed)
        pair: Pair = getattr(floats if kind is FLOAT64 else pairs, code)(*args)  # add, sub, mul, div, fma, sqrt, ...
        return pair

    def _of_wide(self, op: Op) -> None:
        """Builds an operation on wide numbers with another result, or none."""
        b, code, kind = self._b, op.code, element_of(op.args[0].type)
        if code in _COMPARISONS:
            results = [self._compared(code, row, kind) for row in zip(*map(self._elements, op.args), strict=True)]
        elif code in ("isnan", "isinf"):
            test = self._on_floats.is_nan if code == "isnan" else self._on_floats.is_infinite
            results = [test(pair) for pair in self._elements(op.args[0])]
        elif code == "cast":
            results = [self._to_number(pair, kind, element_of(op.type)) for pair in self._elements(op.args[0])]
        elif code == "bitcast":
            self._values[op] = self._of_bits(self._words(op.args[0]), op.type)
            return
        else:  # a wide index
            self._values.update({value: self._index(value) for value in op.args if self._is_wide(value.type)})
            b.copy(op, self._values)
            return
        self._values[op] = b.vector(*results) if len(results) > 1 else results[0]

    def _compared(self, code: str, args: Sequence[Pair], kind: Scalar) -> Value:
        if kind is FLOAT64:
            return self._on_floats.compare(code, *args)
        return self._on_pairs.compare(code, *args, signed=kind is INT64)

    # -- conversions --------------------------------------------------------------------------------------------------

    def _scalars(self, value: Value) -> list[Value | Pair]:
        """The elements of a value of any type."""
        if self._is_wide(value.type):
            return [*self._elements(value)]
        new = self._value(value)
        if not isinstance(value.type, Vector):
            return [new]
        return [self._b.extract(new, at) for at in range(value.type.n)]

    def _to_pair(self, value: Value | Pair, source: Scalar, kind: Scalar) -> Pair:
        """Converts a number to a wide one."""
        if not isinstance(value, Pair) and source.bits == 64 and kind is FLOAT64:  # an integer of the device's own
            value = self._pair(self._b.bitcast(value, _WORDS))
        if not isinstance(value, Pair):
            return self._on_floats.of_number(value, source) if kind is FLOAT64 else self._on_pairs.of_number(value)
        if source is FLOAT64:
            return value if kind is FLOAT64 else self._on_floats.to_pair(value)
        return self._on_floats.of_pair(value, signed=source is INT64) if kind is FLOAT64 else value

    def _to_number(self, pair: Pair, source: Scalar, kind: Scalar) -> Value:
        """Converts a wide number to another type that the device has."""
        if source is not FLOAT64:
            return self._on_pairs.to_number(pair, kind, signed=source is INT64)
        if kind.bits == 64:
            return self._b.bitcast(self._vector(self._on_floats.to_pair(pair)), kind)
        return self._on_floats.to_number(pair, kind)

    # -- bits ---------------------------------------------------------------------------------------------------------

    def _words(self, value: Value) -> list[Value]:
        """The words of a value, the lowest first."""
        b, kind = self._b, value.type
        if self._is_wide(kind):
            return self._parts(value)
        parts = [self._value(value)]
        if isinstance(kind, Vector) and kind.element.bits == 64:
            parts = [b.extract(parts[0], at) for at in range(kind.n)]
        packed = [b.bitcast(part, _words_type(part.type)) for part in parts]
        return [b.extract(part, at) for part in packed for at in range(_n_elements(part.type))]

    def _of_bits(self, words: Sequence[Value], kind: Type) -> Value:
        """The value of another type with these words."""
        b, element = self._b, element_of(kind)
        if element.bits < 64:
            return b.bitcast(b.vector(*words), kind)
        numbers = [b.bitcast(b.vector(*words[at : at + 2]), element) for at in range(0, len(words), 2)]
        return b.vector(*numbers) if isinstance(kind, Vector) else numbers[0]

    # -- memory -------------------------------------------------------------------------------------------------------

    def _accessed(self, op: Op) -> None:
        """Builds an access to memory of 64-bit integers."""
        b, old = self._b, op.memory
        assert old is not None
        if op.code == "length":
            length = b.length(self._memories[old])
            self._values[op] = b.compute("div", length, self._on_pairs.word(2)) if old.lanes > 2 else length
        elif op.code == "load":
            self._pairs[op] = self._loaded(old, self._index(op.args[0]))
        elif op.code == "store":
            self._stored(old, self._index(op.args[0]), self._elements(op.args[1]))
        else:  # fill
            for half, word in zip(self._private[old], self._elements(op.args[0])[0], strict=True):
                b.fill(half, word)

    def _index(self, index: Value) -> Value:
        """An index in 32 bits; the largest one, which is beyond all arrays, for those that have more."""
        if not self._is_wide(index.type):
            return self._value(index)
        (pair,) = self._elements(index)
        fits = self._b.compute("eq", pair.high, self._on_pairs.word(0))
        return self._b.select(fits, pair.low, self._on_pairs.word(0xFFFFFFFF))

    def _loaded(self, old: Memory, index: Value) -> list[Pair]:
        b = self._b
        if old.private:
            return [Pair(*[b.load(half, index) for half in self._private[old]])]
        new = self._memories[old]
        vectors = [b.load(new, at) for at in self._indices(old, index)]
        words = [b.extract(part, at) for part in vectors for at in range(new.lanes)]
        return [Pair(*words[at : at + 2]) for at in range(0, len(words), 2)]

    def _stored(self, old: Memory, index: Value, elements: Sequence[Pair]) -> None:
        b = self._b
        if old.private:
            for half, word in zip(self._private[old], elements[0], strict=True):
                b.store(half, index, word)
            return
        new, words = self._memories[old], [word for pair in elements for word in pair]
        for at, part in enumerate(self._indices(old, index)):
            b.store(new, part, b.vector(*words[at * new.lanes : (at + 1) * new.lanes]))

    def _indices(self, old: Memory, index: Value) -> list[Value]:
        """The indices of the vectors of words in place of an element, or a vector of elements."""
        b = self._b
        if old.lanes <= 2:
            return [index]
        kind = element_of(index.type)
        first = b.compute("mul", index, b.const(2, kind))
        return [first, b.compute("add", first, b.const(1, kind))]

    # -- subgroups ----------------------------------------------------------------------------------------------------

    def _subgroup(self, op: Op, value: Pair) -> Pair:
        b, name = self._b, op.attribute
        lanes = [self._value(lane) for lane in op.args[1:]]
        if name in _BY_WORDS:
            return Pair(*[b.subgroup(name, word, *lanes) for word in value])
        if name.endswith("add") and op.type is not FLOAT64:
            return self._subgroup_sum(name, value)
        return self._subgroup_scan(op, value)

    def _subgroup_sum(self, name: str, value: Pair) -> Pair:
        """A sum over a subgroup, or a scan: of parts whose sums fit in words."""
        pairs, total = self._on_pairs, self._on_pairs.constant(0)
        mask = pairs.constant((1 << _LIMB) - 1)
        for start in range(0, 64, _LIMB):
            part = pairs.bitwise("and", pairs.shr(value, pairs.word(start), signed=False), mask)
            summed = Pair(self._b.subgroup(name, part.low), pairs.word(0))
            total = pairs.add(total, pairs.shl(summed, pairs.word(start)))
        return total

    def _subgroup_scan(self, op: Op, value: Pair) -> Pair:
        """Another combination over a subgroup, or a scan: of the values of the active lanes, one by one."""
        b, pairs = self._b, self._on_pairs
        scan, _, code = op.attribute.rpartition("_")
        kind = element_of(op.type)
        active = b.subgroup("ballot", b.const(True, BOOL))
        own, n_lanes = b.builtin("subgroup_local_id"), b.builtin("subgroup_size")
        loop = b.loop(pairs.word(0), *pairs.constant(_IDENTITIES[code, kind.name]))
        with loop.body:
            lane, low, high = loop.params
            with b.if_(b.compute("ge", lane, n_lanes)).then:
                b.break_(loop, lane, low, high)
            other = Pair(*[b.subgroup("shuffle", word, lane) for word in value])
            counts = self._is_active(active, lane)
            if scan:
                before = b.compute("le" if scan == "inclusive" else "lt", lane, own)
                counts = b.compute("and", counts, before)
            so_far = Pair(low, high)
            combined = pairs.select(counts, self._arithmetic(code, [so_far, other], kind), so_far)
            b.yield_(b.compute("add", lane, pairs.word(1)), *combined)
        return Pair(*loop.results[1:])

    def _is_active(self, ballot: Value, lane: Value) -> Value:
        """True if a lane's bit of a ballot is set."""
        b, pairs = self._b, self._on_pairs
        word = b.extract(ballot, 0)
        for at in (1, 2, 3):
            is_here = b.compute("eq", b.compute("shr", lane, pairs.word(5)), pairs.word(at))
            word = b.select(is_here, b.extract(ballot, at), word)
        bit = b.compute("shr", word, b.compute("and", lane, pairs.word(31)))
        return b.compute("ne", b.compute("and", bit, pairs.word(1)), pairs.word(0))


_IDENTITIES = {
    ("mul", "int64"): 1,
    ("mul", "uint64"): 1,
    ("mul", "float64"): 0x3FF << 52,
    ("add", "float64"): 1 << 63,
    ("min", "int64"): 2**63 - 1,
    ("min", "uint64"): 2**64 - 1,
    ("min", "float64"): 0x7FF << 52,
    ("max", "int64"): 1 << 63,
    ("max", "uint64"): 0,
    ("max", "float64"): 0xFFF << 52,
}
"""Operation and type -> the bits of the value that changes no other."""


def _words_type(kind: Type) -> Type:
    """The type of words with as many bits as another type, which has 32 bits or up to 128."""
    return UINT32 if kind.bits == 32 else vector(UINT32, kind.bits // 32)


def _of_words(memory: Memory) -> Memory:
    """The memory of vectors of words with the same layout."""
    length = memory.length
    if memory.lanes > 2 and length is not None:
        length *= 2
    return replace(memory, element=UINT32, lanes=min(2 * memory.lanes, 4), length=length)


def _halves(memory: Memory) -> tuple[Memory, Memory]:
    """The private memories of the low words and of the high words."""
    low, high = (replace(memory, name=f"{memory.name}.{half}", element=UINT32) for half in ("low", "high"))
    return low, high
