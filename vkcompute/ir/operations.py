"""The table of operations: a row has the type rule, traits, host evaluation and SPIR-V instruction of one.

Builder, verifier, folding, the passes, divergence analysis, lowering and the simulator read it. To add an operation on
numbers, add a row to `_ARITHMETIC`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vkcompute.errors import IrError
from vkcompute.ir import operation as rule
from vkcompute.ir.operation import Evaluate, Operation
from vkcompute.ir.types import INT32, Scalar, Type, element_of
from vkcompute.spirv import glsl_std_450 as glsl
from vkcompute.spirv import opcodes as spv

# -- host evaluation --------------------------------------------------------------------------------------------------


def _with_bits(number: Any, kind: Type) -> Any:
    """Returns the number or vector of a type that has the bits of another; the numbers of an array of numbers."""
    dtype, given = element_of(kind).numpy, np.asarray(number)
    if isinstance(kind, Scalar) and given.dtype.itemsize == dtype.itemsize:
        return given.view(dtype)[()]
    bits = np.atleast_1d(given).view(dtype)
    return bits[0] if isinstance(kind, Scalar) else bits


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
    traits = {"type_rule": rule.one_type, "foldable": _always if exact else None} | traits
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
    return numeric(name, arity, opcodes, {}, function, exact=True, type_rule=rule.comparison)


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
        exact=True, commutative=True, type_rule=rule.word,
    ),
    numeric(
        "bit_count", 1, {"u": spv.OpBitCount}, {}, lambda x: _bits(x).sum(-1, dtype=np.uint32),
        exact=True, type_rule=rule.word,
    ),
    numeric("bit_reverse", 1, {"u": spv.OpBitReverse}, {}, _bit_reversed, exact=True, type_rule=rule.word),
    # Positions of bits, from the lowest; all ones for 0.
    numeric("find_msb", 1, {}, {"u": glsl.FindUMsb}, _highest_bit, exact=True, type_rule=rule.word),
    numeric(
        "find_lsb", 1, {}, {"u": glsl.FindILsb}, lambda x: _highest_bit(x & -np.int64(x)),
        exact=True, type_rule=rule.word,
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
    Operation("cast", rule.cast, evaluate=lambda args, kind: converted(args[0], element_of(kind)), foldable=_fits),
    Operation(
        "bitcast",
        rule.bitcast,
        evaluate=lambda args, kind: _with_bits(args[0], kind),
        foldable=lambda _, kind: isinstance(kind, Scalar),
    ),
    # Of float64, on devices without: the attribute is a `Polynomial`, or a function (ir/float_functions.py).
    Operation("polynomial", lambda operation, operands, _: rule.same_type(operation.name, operands, 1, "f")),
    Operation(
        "in_fixed_point", lambda operation, operands, _: rule.same_type(operation.name, operands, len(operands), "f")
    ),
    Operation("select", rule.select, evaluate=lambda args, _: args[1] if args[0] else args[2]),
    Operation("vector", rule.vector_of_scalars, evaluate=lambda args, _: np.array(args)),
    Operation("extract", rule.extract, evaluate=lambda args, index: args[0][index]),
    # On the invocation. The attribute of "builtin" is (name, axis), that of "subgroup" a name.
    Operation("builtin", rule.builtin),
    Operation("subgroup", rule.subgroup, active_lanes=True, divergent=True, waits=True),
    Operation("barrier", rule.no_operands, effect=True, waits=True, collective=True),
    Operation("grid_barrier", rule.no_operands, effect=True, waits=True),  # which ir/grid_barriers.py replaces
    Operation("workgroup_sum", rule.word_operand, effect=True, waits=True, collective=True),
    # On a warp: the values of its lanes, and last True for those that take part.
    Operation("warp_ballot", rule.of_warp(1), active_lanes=True, divergent=True, waits=True, warp=True),
    Operation("warp_shuffle", rule.of_warp(2), active_lanes=True, divergent=True, waits=True, warp=True),
    Operation("warp_match", rule.of_warp(1), active_lanes=True, divergent=True, waits=True, warp=True),
    Operation("warp_barrier", rule.of_warp(0), active_lanes=True, effect=True, waits=True, warp=True),
    Operation("fence", rule.no_operands, effect=True),
    # On memory, which is the attribute; that of "atomic" is (name, memory).
    Operation("length", rule.length),
    Operation("load", rule.accesses(0), reads=True),
    Operation("store", rule.accesses(1, has_result=False), effect=True, writes=True),
    Operation("fill", rule.fill, effect=True, writes=True),
    Operation("atomic", rule.atomic, effect=True, reads=True, writes=True, divergent=True),
    Operation("compare_exchange", rule.compare_exchange, effect=True, reads=True, writes=True, divergent=True),
    # On cooperative matrices, by all invocations of a subgroup together. The attribute of "fill_matrix" is the type,
    # that of "load_matrix" (type, memory).
    Operation("fill_matrix", rule.fill_matrix, active_lanes=True),
    Operation("load_matrix", rule.load_matrix, reads=True, active_lanes=True),
    Operation("store_matrix", rule.store_matrix, effect=True, writes=True, active_lanes=True),
    Operation("multiply_matrices", rule.multiply_matrices, active_lanes=True),
    Operation("subgroup_barrier", rule.no_operands, effect=True, waits=True),
    # Control flow. The attribute of "continue" and "break" is the loop.
    Operation("if", rule.condition, effect=True),
    Operation("loop", rule.any_operands, effect=True),
    Operation("yield", rule.any_operands, effect=True, terminator=True),
    Operation("continue", rule.any_operands, effect=True, terminator=True),
    Operation("break", rule.any_operands, effect=True, terminator=True),
    Operation("return", rule.no_operands, effect=True, terminator=True),
    Operation("unreachable", rule.no_operands, effect=True, terminator=True),
)
OPERATIONS = {row.name: row for row in (*_ARITHMETIC, *_OTHERS)}


def result_type(code: str, operands: list[Type], attribute: Any = None) -> Type | None:
    """The type of an operation's result, None where it has none.

    Raises:
        IrError: there is no such operation, or it does not take these operands.
    """
    operation = OPERATIONS.get(code)
    if operation is None:
        raise IrError(f"no operation {code!r}")
    return operation.type_rule(operation, operands, attribute)
