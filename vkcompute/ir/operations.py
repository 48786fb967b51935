"""The table of operations: a row has the type rule, traits, host evaluation and SPIR-V instruction of one.

Builder, verifier, folding, the passes, divergence analysis, lowering and the simulator read it. To add an operation on
numbers, add a row to `_ARITHMETIC`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkcompute.errors import IrError
from vkcompute.ir.atomics import ATOMICS
from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.memory import Memory
from vkcompute.ir.subgroups import SUBGROUP_OPERATIONS
from vkcompute.ir.types import BFLOAT16, BOOL, INT32, UINT16, UINT32, Matrix, Scalar, Type, Vector, element_of, vector
from vkcompute.spirv import glsl_std_450 as glsl
from vkcompute.spirv import opcodes as spv

TypeRule = Callable[["Operation", list[Type], Any], Type | None]
"""(operation, types of the operands, attribute) -> type of the result, None without one; raises IrError."""
Evaluate = Callable[[Sequence[Any], Any], Any]
"""(operands as numpy scalars, or arrays for vectors; attribute) -> result."""
Foldable = Callable[[Sequence[Any], Any], bool]
"""(operands, attribute) -> True if `Evaluate` gives the same bits as every device."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One row of the table.

    Kinds of numbers are letters: "b" bool, "i" int, "u" uint, "f" float.

    Attributes:
        type_rule: checks the operands and returns the type of the result.
        arity: number of operands of an operation on numbers; None for all other operations.
        kinds: the kinds of numbers that it takes.
        opcodes: SPIR-V's opcode by kind.
        extended: the instruction of GLSL.std.450 by kind.
        evaluate: computes the result on the host; None if it depends on more than operands and attribute.
        foldable: see `Foldable`; None if constants are never folded.
        identity: the right operand that leaves the left one unchanged; on either side of a commutative operation.
        commutative: True if operands can be swapped.
        terminator: True if it ends a region.
        effect: True if dead-code elimination keeps it even without a use of its result.
        reads: True if the result depends on memory.
        writes: True if it writes memory.
        may_trap: True if it must not be executed speculatively: LICM does not hoist it.
        active_lanes: True if the result depends on which invocations are active.
        divergent: True if the result can differ within a workgroup although the operands are the same.
        waits: True if invocations wait for others.
        collective: True if all invocations of a workgroup must reach it; those that have returned do by predication.
        warp: True for an operation of the invocations of a warp that reach it (ir/warps.py).
        elementary: True for a function of floats that GLSL.std.450 has imprecisely, not for float64, or not at all.
            The front end replaces it before lowering.
    """

    name: str
    type_rule: TypeRule
    arity: int | None = None
    kinds: str = ""
    opcodes: Mapping[str, int] = field(default_factory=dict)
    extended: Mapping[str, int] = field(default_factory=dict)
    evaluate: Evaluate | None = None
    foldable: Foldable | None = None
    identity: int | None = None
    commutative: bool = False
    terminator: bool = False
    effect: bool = False
    reads: bool = False
    writes: bool = False
    may_trap: bool = False
    active_lanes: bool = False
    divergent: bool = False
    waits: bool = False
    collective: bool = False
    warp: bool = False
    elementary: bool = False

    @property
    def through_memory(self) -> bool:
        """True if it needs barriers of the workgroup, which predication makes all invocations reach."""
        return self.collective or self.warp

    @property
    def repeatable(self) -> bool:
        """True if equal operands give an equal result anywhere in the kernel, so that CSE and LICM apply."""
        return not (self.effect or self.reads or self.active_lanes)


def result_type(code: str, operands: list[Type], attribute: Any = None) -> Type | None:
    """The type of an operation's result, None where it has none.

    Raises:
        IrError: there is no such operation, or it does not take these operands.
    """
    operation = OPERATIONS.get(code)
    if operation is None:
        raise IrError(f"no operation {code!r}")
    return operation.type_rule(operation, operands, attribute)


# -- type rules -------------------------------------------------------------------------------------------------------


def _demand(condition: bool, name: str, got: Sequence[object], rule: str, *values: object) -> None:
    """Raises IrError with a rule unless a condition holds; values are formatted into the rule, as in str.format."""
    if not condition:
        raise IrError(f"{name} {rule.format(*values)}; got {', '.join(map(str, got)) or 'nothing'}")


def _same_type(name: str, operands: list[Type], arity: int, kinds: str) -> Type:
    alike = len(operands) == arity > 0 and operands.count(operands[0]) == arity
    _demand(alike, name, operands, "takes {} of one type", arity)
    _demand(element_of(operands[0]).kind in kinds, name, operands, "takes numbers of kind {}", ", ".join(kinds))
    return operands[0]


def _one_type(operation: Operation, operands: list[Type], _: Any) -> Type:
    return _same_type(operation.name, operands, operation.arity or 0, operation.kinds)


def _comparison(operation: Operation, operands: list[Type], _: Any) -> Type:
    kind = _one_type(operation, operands, None)
    return vector(BOOL, kind.n) if isinstance(kind, Vector) else BOOL


def _word(operation: Operation, operands: list[Type], _: Any) -> Type:
    """The rule of operations that Vulkan has for 32 bits only (VUID-StandaloneSpirv-Base-04781, GLSL.std.450)."""
    kind = _one_type(operation, operands, None)
    _demand(kind.bits == 32, operation.name, operands, "takes integers of 32 bits")
    return kind


def _accesses(n_values: int, *, has_result: bool = True) -> TypeRule:
    """The rule of an operation on an element of memory, with this many values beside the index."""

    def rule(operation: Operation, operands: list[Type], memory: Any) -> Type | None:
        name = operation.name
        _demand(isinstance(memory, Memory), name, operands, "works on a memory, not {!r}", memory)
        takes_index = len(operands) == n_values + 1 and _is_index(operands[0])
        _demand(takes_index, name, operands, "takes an integer and {} values", n_values)
        alike = all(kind is memory.type for kind in operands[1:])
        _demand(alike, name, operands, "takes values of {}", memory.type)
        _demand(not memory.texels or not operation.writes, name, operands, "writes no texel buffer")
        return memory.type if has_result else None

    return rule


def _fill(operation: Operation, operands: list[Type], memory: Any) -> None:
    name, is_private = operation.name, isinstance(memory, Memory) and memory.private
    _demand(is_private, name, operands, "works on a private memory, not {!r}", memory)
    _demand(operands == [memory.type], name, operands, "takes a value of {}", memory.type)


def _is_index(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.kind in "iu" and kind.bits >= 32


def _length(operation: Operation, operands: list[Type], memory: Any) -> Type:
    _demand(isinstance(memory, Memory), operation.name, operands, "works on a memory, not {!r}", memory)
    _demand(not operands, operation.name, operands, "takes no index")
    counted = not memory.texels and memory.element is not BOOL
    _demand(counted, operation.name, [memory.type], "knows storage buffers and workgroup memory of numbers only")
    return UINT32


def _atomic(operation: Operation, operands: list[Type], attribute: Any) -> Type | None:
    name, memory = attribute
    named = [name for name, row in ATOMICS.items() if not row.emulation_only]
    _demand(name in ATOMICS, operation.name, [name], f"is one of {', '.join(sorted(named))}")
    kinds = ", ".join(ATOMICS[name].opcodes)
    fits = memory.lanes == 1 and ATOMICS[name].takes(memory.element)
    _demand(fits, f"atomic {name}", [memory.type], f"works on numbers of kind {kinds}")
    return _accesses(1)(operation, operands, memory)


def _compare_exchange(operation: Operation, operands: list[Type], memory: Any) -> Type | None:
    fits = memory.lanes == 1 and memory.element.kind in "iuf"
    _demand(fits, operation.name, [memory.type], "works on numbers")
    return _accesses(2)(operation, operands, memory)


def _cast(operation: Operation, operands: list[Type], target: Any) -> Type:
    _demand(len(operands) == 1, operation.name, operands, "takes one value")
    same_shape = isinstance(operands[0], Vector) == isinstance(target, Vector)
    _demand(same_shape, operation.name, [*operands, target], "keeps the shape")
    kind: Type = target
    return kind


def _bitcast(operation: Operation, operands: list[Type], target: Any) -> Type:
    _demand(len(operands) == 1, operation.name, operands, "takes one value")
    kind: Type = target
    same = operands[0].bits == kind.bits and BOOL not in (element_of(operands[0]), element_of(kind))
    _demand(same, operation.name, [*operands, kind], "keeps the number of bits")
    return kind


def _with_bits(number: Any, kind: Type) -> Any:
    """Returns the number or vector of a type that has the bits of another."""
    bits = np.atleast_1d(number).view(element_of(kind).numpy)
    return bits[0] if isinstance(kind, Scalar) else bits


def _select(operation: Operation, operands: list[Type], _: Any) -> Type:
    fits = len(operands) == 3 and operands[0] is BOOL and operands[1] is operands[2]
    _demand(fits, operation.name, operands, "takes a bool and two alike")
    return operands[1]


def _vector(operation: Operation, operands: list[Type], _: Any) -> Type:
    first = operands[0] if operands else None
    alike = isinstance(first, Scalar) and {*operands} == {first} and 2 <= len(operands) <= 4
    _demand(alike, operation.name, operands, "takes 2 to 4 scalars of one type")
    return vector(element_of(operands[0]), len(operands))


def _extract(operation: Operation, operands: list[Type], index: Any) -> Type:
    fits = len(operands) == 1 and isinstance(operands[0], Vector) and 0 <= index < operands[0].n
    _demand(fits, operation.name, operands, "takes a vector that has an element {}", index)
    return element_of(operands[0])


def _fill_matrix(operation: Operation, operands: list[Type], kind: Any) -> Type:
    matrix: Matrix = kind
    _demand(operands == [matrix.element], operation.name, operands, "takes a value of {}", matrix.element)
    return matrix


def _load_matrix(operation: Operation, operands: list[Type], attribute: Any) -> Type:
    kind, memory = attribute
    _demand_matrix_place(operation.name, operands, memory, kind)
    result: Type = kind
    return result


def _store_matrix(operation: Operation, operands: list[Type], memory: Any) -> None:
    fits = len(operands) == 3 and isinstance(operands[2], Matrix)
    _demand(fits, operation.name, operands, "takes an index, a stride and a matrix")
    _demand_matrix_place(operation.name, operands[:2], memory, operands[2])


def _demand_matrix_place(name: str, operands: list[Type], memory: Any, kind: Type) -> None:
    element = UINT16 if element_of(kind) is BFLOAT16 else element_of(kind)
    fits = isinstance(memory, Memory) and memory.length is not None and memory.element is element
    _demand(fits, name, operands, "works on workgroup memory of {}, not {!r}", element, memory)
    _demand(len(operands) == 2 and all(map(_is_index, operands)), name, operands, "takes an index and a stride")


def _multiply_matrices(operation: Operation, operands: list[Type], _: Any) -> Type:
    left, right, sums = operands
    fits = (
        isinstance(left, Matrix) and isinstance(right, Matrix) and isinstance(sums, Matrix)
        and (left.use, right.use, sums.use) == ("left", "right", "sums")
        and (left.shape[0], right.shape[1]) == sums.shape and left.shape[1] == right.shape[0]
    )  # fmt: skip
    _demand(fits, operation.name, operands, "takes the matrices of a product and its sums")
    return sums


def _builtin(operation: Operation, operands: list[Type], attribute: Any) -> Type:
    name, axis = attribute
    fits = not operands and name in BUILTINS and 0 <= axis < BUILTINS[name].n_axes
    _demand(fits, operation.name, [name, axis], f"is one of {', '.join(BUILTINS)}, along one of its axes")
    return UINT32


def _subgroup(operation: Operation, operands: list[Type], name: Any) -> Type:
    _demand(name in SUBGROUP_OPERATIONS, operation.name, [name], f"is one of {', '.join(SUBGROUP_OPERATIONS)}")
    row, called = SUBGROUP_OPERATIONS[name], f"{operation.name} {name}"
    if row.takes_lane:
        _demand(len(operands) == 2 and operands[1] is UINT32, called, operands, "takes a value and a uint32")
    kind = _same_type(called, operands[:1], 1, "".join(row.opcodes)) if row.takes_value else BOOL
    return vector(UINT32, 4) if name == "ballot" else kind


def _condition(operation: Operation, operands: list[Type], _: Any) -> None:
    _demand(operands == [BOOL], operation.name, operands, "takes one bool")


def _word_operand(operation: Operation, operands: list[Type], _: Any) -> Type:
    _demand(operands == [UINT32], operation.name, operands, "takes one uint32")
    return UINT32


def _of_warp(n: int) -> TypeRule:
    """The type rule of an operation of warps, on so many operands and the lanes that take part."""

    def kind(operation: Operation, operands: list[Type], _: Any) -> Type | None:
        shuffles = n == 2
        fits = len(operands) == n + 1 and operands[-1] is BOOL and (not shuffles or operands[1] is UINT32)
        fits &= all(isinstance(operand, Scalar) for operand in operands)
        _demand(fits, operation.name, operands, "takes {} scalars and a bool", n)
        return None if not n else operands[0] if shuffles else UINT32

    return kind


def _no_operands(operation: Operation, operands: list[Type], _: Any) -> None:
    _demand(not operands, operation.name, operands, "takes no values")


def _any_operands(operation: Operation, operands: list[Type], _: Any) -> None:
    """Accepts all operands; the verifier matches them with the enclosing operation."""


# -- host evaluation --------------------------------------------------------------------------------------------------


def _spread(function: Callable[..., Any]) -> Evaluate:
    return lambda numbers, _: function(*numbers)


def _always(numbers: Sequence[Any], _: Any) -> bool:
    return True


def _divides(numbers: Sequence[Any], _: Any) -> bool:
    """True for integers and a positive divisor: devices may round a division of floats in several ways."""
    return numbers[1].dtype.kind != "f" and bool(numbers[1] > 0)


def _has_remainder(numbers: Sequence[Any], _: Any) -> bool:
    return numbers[1].dtype.kind == "f" or bool(numbers[1] > 0)


def _fits(numbers: Sequence[Any], target: Any) -> bool:
    """True if a cast is defined: of a float to an integer, if its whole part is a number of that type."""
    if not isinstance(target, Scalar):
        return False
    if numbers[0].dtype.kind != "f" or target.kind in "fb":
        return True
    limits = np.iinfo(target.name)
    return bool(np.isfinite(numbers[0]) and limits.min <= int(numbers[0]) <= limits.max)


def converted(number: Any, target: Scalar) -> Any:
    """Returns a number, or an array of numbers, in another type; what does not fit as `float_conversions` has it."""
    if number.dtype.kind != "f" or target.kind not in "iu":
        return number.astype(target.numpy)
    if target.bits < 32:
        return converted(number, INT32).astype(target.numpy)
    limits, number = np.iinfo(target.name), number.astype(np.promote_types(number.dtype, np.float32))
    bound = float(limits.max) + 1  # a power of two
    with np.errstate(invalid="ignore"):
        whole = np.where(abs(number) < bound, number, 0).astype(target.numpy)
    limited = np.where(number >= bound, limits.max, np.where(number <= limits.min, limits.min, whole))
    return limited.astype(target.numpy)[()]


def _quotient(one: Any, other: Any) -> Any:
    """A quotient, truncated for integers."""
    return one / other if one.dtype.kind == "f" else (one - np.fmod(one, other)) // other


def _of_math(name: str) -> Callable[[Any], Any]:
    """A function of `math`, with NaN and infinity in place of its errors at poles and on overflow."""

    def function(x: Any) -> Any:
        try:
            return np.float64(getattr(math, name)(x))
        except (OverflowError, ValueError):
            pole = x < 0 and x == np.floor(x) and name == "gamma"
            return np.float64(math.nan if pole else math.copysign(math.inf, x if name == "gamma" else 1))

    spread = np.vectorize(function, otypes=[np.float64])
    return lambda x: spread(x)[()]


def _bits(x: Any) -> Any:
    """Bits of uint32 numbers along a last axis, the lowest first."""
    return np.unpackbits(np.asarray(x, "<u4")[..., None].view(np.uint8), axis=-1, bitorder="little")


def _bit_reversed(x: Any) -> Any:
    return np.packbits(_bits(x), axis=-1).view(">u4").astype(np.uint32)[..., 0][()]


def _highest_bit(x: Any) -> Any:
    """Position of the highest bit of non-negative integers, all ones for 0."""
    return (np.frexp(np.float64(x))[1] - 1).astype(np.uint32)


def _product_above(x: Any, y: Any) -> Any:
    return (np.uint64(x) * np.uint64(y) >> np.uint64(32)).astype(np.uint32)


# -- the table --------------------------------------------------------------------------------------------------------


def _by_kind(opcodes: Mapping[str, int]) -> dict[str, int]:
    """Kind -> opcode, from kinds -> opcode."""
    return {kind: opcode for kinds, opcode in opcodes.items() for kind in kinds}


def numeric(
    name: str,
    arity: int,
    opcodes: Mapping[str, int],
    extended: Mapping[str, int],
    function: Callable[..., Any],
    *,
    kinds: str = "",
    exact: bool = False,
    **traits: Any,
) -> Operation:
    """An operation on numbers of one type.

    Args:
        opcodes, extended: instructions by kinds.
        function: computes the result from numpy scalars.
        kinds: the kinds that it takes; by default those that have an instruction.
        exact: True if `function` gives the same bits as every device.
    """
    traits = {"type_rule": _one_type, "foldable": _always if exact else None} | traits
    opcodes, extended = _by_kind(opcodes), _by_kind(extended)
    kinds = kinds or "".join(opcodes | extended)
    return Operation(
        name=name,
        arity=arity,
        kinds=kinds,
        opcodes=opcodes,
        extended=extended,
        evaluate=_spread(function),
        **traits,
    )


def _compare(name: str, opcodes: Mapping[str, int], function: Callable[..., Any], arity: int = 2) -> Operation:
    return numeric(name, arity, opcodes, {}, function, exact=True, type_rule=_comparison)


def _round(name: str, instruction: int, function: Callable[..., Any], *, exact: bool = True) -> Operation:
    return numeric(name, 1, {}, {"f": instruction}, function, exact=exact)


def _elementary(name: str, instruction: int | None, function: Callable[..., Any], arity: int = 1) -> Operation:
    extended = {} if instruction is None else {"f": instruction}
    return numeric(name, arity, {}, extended, function, kinds="f", elementary=True)


_ARITHMETIC = (
    # name, arity, instructions, instructions of GLSL.std.450, function on the host
    numeric("add", 2, {"iu": spv.OpIAdd, "f": spv.OpFAdd}, {}, operator.add, exact=True, identity=0, commutative=True),
    numeric("sub", 2, {"iu": spv.OpISub, "f": spv.OpFSub}, {}, operator.sub, exact=True, identity=0),
    numeric("mul", 2, {"iu": spv.OpIMul, "f": spv.OpFMul}, {}, operator.mul, exact=True, identity=1, commutative=True),
    numeric(
        "div", 2, {"i": spv.OpSDiv, "u": spv.OpUDiv, "f": spv.OpFDiv}, {}, _quotient,
        foldable=_divides, identity=1, may_trap=True,
    ),
    # Of ints, other instructions compute them: OpSRem and OpSMod are undefined for negative numbers.
    numeric("rem", 2, {"u": spv.OpUMod}, {}, np.fmod, kinds="iuf", foldable=_has_remainder, may_trap=True),
    numeric("mod", 2, {"u": spv.OpUMod}, {}, np.mod, kinds="iu", foldable=_has_remainder, may_trap=True),
    numeric("min", 2, {}, {"i": glsl.SMin, "u": glsl.UMin, "f": glsl.FMin}, np.minimum, exact=True, commutative=True),
    numeric("max", 2, {}, {"i": glsl.SMax, "u": glsl.UMax, "f": glsl.FMax}, np.maximum, exact=True, commutative=True),
    numeric("and", 2, {"b": spv.OpLogicalAnd, "iu": spv.OpBitwiseAnd}, {}, operator.and_, exact=True, commutative=True),
    numeric(
        "or", 2, {"b": spv.OpLogicalOr, "iu": spv.OpBitwiseOr}, {}, operator.or_,
        exact=True, identity=0, commutative=True,
    ),
    numeric(
        "xor", 2, {"b": spv.OpLogicalNotEqual, "iu": spv.OpBitwiseXor}, {}, operator.xor,
        exact=True, identity=0, commutative=True,
    ),
    numeric("shl", 2, {"iu": spv.OpShiftLeftLogical}, {}, operator.lshift, identity=0),
    numeric("shr", 2, {"i": spv.OpShiftRightArithmetic, "u": spv.OpShiftRightLogical}, {}, operator.rshift, identity=0),
    numeric("neg", 1, {"i": spv.OpSNegate, "f": spv.OpFNegate}, {}, operator.neg, exact=True),
    numeric("abs", 1, {}, {"i": glsl.SAbs, "f": glsl.FAbs}, operator.abs, exact=True),
    numeric("fma", 3, {}, {"f": glsl.Fma}, lambda x, y, z: x * y + z),  # rounded once or twice
    numeric("sign", 1, {}, {"i": glsl.SSign, "f": glsl.FSign}, np.sign),
    numeric("not", 1, {"b": spv.OpLogicalNot, "iu": spv.OpNot}, {}, operator.invert, exact=True),
    numeric(
        "mul_high", 2, {"u": spv.OpUMulExtended}, {}, _product_above,
        exact=True, commutative=True, type_rule=_word,
    ),
    numeric(
        "bit_count", 1, {"u": spv.OpBitCount}, {}, lambda x: _bits(x).sum(-1, dtype=np.uint32),
        exact=True, type_rule=_word,
    ),
    numeric("bit_reverse", 1, {"u": spv.OpBitReverse}, {}, _bit_reversed, exact=True, type_rule=_word),
    # Positions of bits, from the lowest; all ones for 0.
    numeric("find_msb", 1, {}, {"u": glsl.FindUMsb}, _highest_bit, exact=True, type_rule=_word),
    numeric(
        "find_lsb", 1, {}, {"u": glsl.FindILsb}, lambda x: _highest_bit(x & -np.int64(x)),
        exact=True, type_rule=_word,
    ),
    _compare("eq", {"b": spv.OpLogicalEqual, "iu": spv.OpIEqual, "f": spv.OpFOrdEqual}, operator.eq),
    _compare("ne", {"b": spv.OpLogicalNotEqual, "iu": spv.OpINotEqual, "f": spv.OpFUnordNotEqual}, operator.ne),
    _compare("lt", {"i": spv.OpSLessThan, "u": spv.OpULessThan, "f": spv.OpFOrdLessThan}, operator.lt),
    _compare("le", {"i": spv.OpSLessThanEqual, "u": spv.OpULessThanEqual, "f": spv.OpFOrdLessThanEqual}, operator.le),
    _compare("gt", {"i": spv.OpSGreaterThan, "u": spv.OpUGreaterThan, "f": spv.OpFOrdGreaterThan}, operator.gt),
    _compare(
        "ge", {"i": spv.OpSGreaterThanEqual, "u": spv.OpUGreaterThanEqual, "f": spv.OpFOrdGreaterThanEqual}, operator.ge
    ),
    _compare("isnan", {"f": spv.OpIsNan}, np.isnan, 1),
    _compare("isinf", {"f": spv.OpIsInf}, np.isinf, 1),
    _round("floor", glsl.Floor, np.floor),
    _round("ceil", glsl.Ceil, np.ceil),
    _round("trunc", glsl.Trunc, np.trunc),
    _round("round", glsl.RoundEven, np.rint),
    _round("sqrt", glsl.Sqrt, np.sqrt, exact=False),
    _round("rsqrt", glsl.InverseSqrt, lambda x: 1 / np.sqrt(x), exact=False),
    _elementary("exp", glsl.Exp, np.exp),
    _elementary("exp2", glsl.Exp2, np.exp2),
    _elementary("log", glsl.Log, np.log),
    _elementary("log2", glsl.Log2, np.log2),
    _elementary("sin", glsl.Sin, np.sin),
    _elementary("cos", glsl.Cos, np.cos),
    _elementary("tan", glsl.Tan, np.tan),
    _elementary("asin", glsl.Asin, np.arcsin),
    _elementary("acos", glsl.Acos, np.arccos),
    _elementary("atan", glsl.Atan, np.arctan),
    _elementary("sinh", glsl.Sinh, np.sinh),
    _elementary("cosh", glsl.Cosh, np.cosh),
    _elementary("tanh", glsl.Tanh, np.tanh),
    _elementary("asinh", glsl.Asinh, np.arcsinh),
    _elementary("acosh", glsl.Acosh, np.arccosh),
    _elementary("atanh", glsl.Atanh, np.arctanh),
    _elementary("pow", glsl.Pow, np.power, 2),
    _elementary("atan2", glsl.Atan2, np.arctan2, 2),
    _elementary("hypot", None, np.hypot, 2),
    _elementary("expm1", None, np.expm1),
    _elementary("log1p", None, np.log1p),
    _elementary("log10", None, np.log10),
    _elementary("cbrt", None, np.cbrt),
    _elementary("erf", None, _of_math("erf")),
    _elementary("erfc", None, _of_math("erfc")),
    _elementary("gamma", None, _of_math("gamma")),
    _elementary("lgamma", None, _of_math("lgamma")),
)  # fmt: skip
_OTHERS = (
    # On values. The attribute of casts is a type, that of "extract" an index.
    Operation("cast", _cast, evaluate=lambda args, kind: converted(args[0], element_of(kind)), foldable=_fits),
    Operation(
        "bitcast",
        _bitcast,
        evaluate=lambda args, kind: _with_bits(args[0], kind),
        foldable=lambda _, kind: isinstance(kind, Scalar),
    ),
    # Of float64, on devices without: the attribute is a `Polynomial`, or a function (ir/float_functions.py).
    Operation("polynomial", lambda operation, operands, _: _same_type(operation.name, operands, 1, "f")),
    Operation(
        "in_fixed_point", lambda operation, operands, _: _same_type(operation.name, operands, len(operands), "f")
    ),
    Operation("select", _select, evaluate=lambda args, _: args[1] if args[0] else args[2]),
    Operation("vector", _vector, evaluate=lambda args, _: np.array(args)),
    Operation("extract", _extract, evaluate=lambda args, index: args[0][index]),
    # On the invocation. The attribute of "builtin" is (name, axis), that of "subgroup" a name.
    Operation("builtin", _builtin),
    Operation("subgroup", _subgroup, active_lanes=True, divergent=True, waits=True),
    Operation("barrier", _no_operands, effect=True, waits=True, collective=True),
    Operation("workgroup_sum", _word_operand, effect=True, waits=True, collective=True),
    # On a warp: the values of its lanes, and last True for those that take part.
    Operation("warp_ballot", _of_warp(1), active_lanes=True, divergent=True, waits=True, warp=True),
    Operation("warp_shuffle", _of_warp(2), active_lanes=True, divergent=True, waits=True, warp=True),
    Operation("warp_match", _of_warp(1), active_lanes=True, divergent=True, waits=True, warp=True),
    Operation("warp_barrier", _of_warp(0), active_lanes=True, effect=True, waits=True, warp=True),
    Operation("fence", _no_operands, effect=True),
    # On memory, which is the attribute; that of "atomic" is (name, memory).
    Operation("length", _length),
    Operation("load", _accesses(0), reads=True),
    Operation("store", _accesses(1, has_result=False), effect=True, writes=True),
    Operation("fill", _fill, effect=True, writes=True),
    Operation("atomic", _atomic, effect=True, reads=True, writes=True, divergent=True),
    Operation("compare_exchange", _compare_exchange, effect=True, reads=True, writes=True, divergent=True),
    # On cooperative matrices, by all invocations of a subgroup together. The attribute of "fill_matrix" is the type,
    # that of "load_matrix" (type, memory).
    Operation("fill_matrix", _fill_matrix, active_lanes=True),
    Operation("load_matrix", _load_matrix, reads=True, active_lanes=True),
    Operation("store_matrix", _store_matrix, effect=True, writes=True, active_lanes=True),
    Operation("multiply_matrices", _multiply_matrices, active_lanes=True),
    Operation("subgroup_barrier", _no_operands, effect=True, waits=True),
    # Control flow. The attribute of "continue" and "break" is the loop.
    Operation("if", _condition, effect=True),
    Operation("loop", _any_operands, effect=True),
    Operation("yield", _any_operands, effect=True, terminator=True),
    Operation("continue", _any_operands, effect=True, terminator=True),
    Operation("break", _any_operands, effect=True, terminator=True),
    Operation("return", _no_operands, effect=True, terminator=True),
    Operation("unreachable", _no_operands, effect=True, terminator=True),
)
OPERATIONS = {row.name: row for row in (*_ARITHMETIC, *_OTHERS)}
