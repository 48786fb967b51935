"""Operators on scalars and blocks, with the promotion of Triton.

The rules are those of `triton/language/semantic.py`. A Python number takes the type of the other operand unless its
kind is a greater one (bool, integer, float). Of two types the wider wins, floats before integers, and of integers of
one width the unsigned one. Integer division truncates, and the remainder has the sign of the dividend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.blocks.compiler.aggregates import Aggregate
from vkcompute.blocks.compiler.pointer_choice import PointerChoices, as_choice, kind_of_choice, sources_of
from vkcompute.blocks.compiler.types import (
    OF_SCALAR,
    POINTERS,
    TYPES,
    Address,
    BlockPointer,
    ChoiceValue,
    Descriptor,
    Dtype,
    Pointer,
    parts_of,
)
from vkcompute.frontend.control_flow import Location
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, SCALARS, UINT32, Constant, Scalar, Value
from vkcompute.ir.function import Op, Push
from vkcompute.ir.types import SmallFloat, Type, element_of
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.values import ArrayValue, Complex, Kind, Number, fits, int_type_of, is_complex, like
from vkcompute.jit.frontend.values import describe as describe_python
from vkcompute.tile import BFLOAT16, Block, Builder, shape_of
from vkcompute.tile.types import typed

_PLAIN = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "div", "%": "rem", "&": "and", "|": "or", "^": "xor"}
_SHIFTS = {"<<": "shl", ">>": "shr"}
_OF_BOOLS = {"*": "&", "+": "^", "-": "^"}
"""Arithmetic of int1, which is modulo two."""
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2}
_CONSTANTS = bool, int, float
_LEAST_FLOAT, _GREATEST_FLOAT = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""Magnitudes between which a float of a program is a float32; others are float64, but for 0 and infinity."""


class List(tuple[Any, ...]):
    """A list in a program, which is immutable there."""

    __slots__ = ()


class BlockArithmetic:
    """Types and operators of scalars and blocks.

    Args:
        builder: of the function of blocks.
        kernels: the language of kernels, for constants, tuples and joins.
    """

    def __init__(self, builder: Builder, kernels: Compiler) -> None:
        self.builder, self.kernels, self.kind = builder, kernels, kernels.kind
        self.pointer_choices = PointerChoices()

    # -- types --------------------------------------------------------------------------------------------------------

    def element_type(self, value: Any) -> Scalar:
        """Returns the type of the elements of a number or block."""
        if isinstance(value, (Pointer, BlockPointer)):
            raise UnsupportedError(f"this takes numbers; got {describe(value)}; load its elements, as tl.load(pointer)")
        if isinstance(value, Descriptor):
            raise UnsupportedError(f"this takes numbers; got {describe(value)}; load its elements, as x.load(offsets)")
        if isinstance(value, Address):
            raise UnsupportedError(
                f"this takes numbers; got {describe(value)}; convert it, as address.to(tl.pointer_type(tl.float32)), "
                "and add offsets to the pointer"
            )
        if is_complex(value):
            raise UnsupportedError(f"this takes real numbers; got {describe(value)}; take its parts, z.real and z.imag")
        return element_of(self.kind(value).type)

    def shape(self, value: Any) -> tuple[int, ...]:
        """Returns the shape of a value, () for a scalar."""
        if isinstance(value, BlockPointer):
            return value.block.shape
        if isinstance(value, (Pointer, Complex)):
            value = value.offset if isinstance(value, Pointer) else value[0]
        return shape_of(value.kind.type) if isinstance(value, Number) else ()

    def number(self, value: Value) -> Number:
        """Returns a value with its type."""
        return Number(value, Kind(value.type))  # type: ignore[arg-type]

    def cast(self, value: Any, target: Type) -> Value:
        """Converts a scalar or block; a scalar is repeated for the type of a block.

        Raises:
            UnsupportedError: an int constant does not fit.
        """
        element = element_of(target)
        if isinstance(value, Number):
            result = self.builder.cast(value.value, element)
        else:
            self.element_type(value)
            if isinstance(value, int) and element.kind in "iu" and not fits(int(value), element):
                raise UnsupportedError(f"{value} is out of range of {OF_SCALAR[element]}; convert the other operand")
            result = self.builder.const(saturated(value, element), element)
        return self.builder.broadcast(result, target.shape) if isinstance(target, Block) else result

    def as_tensor(self, value: Any) -> Any:
        """Returns a constant as a number of the type that it has in a variable, and all else as it is."""
        if is_sequence(value) and not isinstance(value, Aggregate):
            return like(value, map(self.as_tensor, value))
        if type(value) not in _CONSTANTS:
            return value
        return self.number(self.builder.const(value, self._own_type(value)))

    def wrapped(self, value: Any, element: Scalar) -> Value:
        """Converts a scalar or block; an int constant outside the range of an integer type wraps."""
        if type(value) is int and element.kind in "iu" and not fits(value, element):
            value &= (1 << element.bits) - 1
            value -= (value >> element.bits - 1 << element.bits) if element.kind == "i" else 0
        return self.cast(value, element)

    def common_shape(self, *values: Any) -> tuple[int, ...]:
        """Returns the shape to which values broadcast, as numpy's."""
        shapes = [self.shape(value) for value in values]
        try:
            return tuple(int(n) for n in np.broadcast_shapes(*shapes))
        except ValueError:
            got = " and ".join(str(list(shape)) for shape in shapes if shape)
            raise UnsupportedError(
                f"blocks of shapes {got} do not broadcast; write x[:, None] to add an axis"
            ) from None

    def spread(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Repeats a scalar or block to a shape, with new axes in front."""
        before = shape_of(value.type)
        if before and len(before) < len(shape):
            value = self.builder.reshape(value, (*[1] * (len(shape) - len(before)), *before))
        return self.builder.broadcast(value, shape) if shape else value

    def alike(self, element: Scalar, *values: Any) -> list[Value]:
        """Converts values to a type, and repeats them to their common shape."""
        shape = self.common_shape(*values)
        return [self.spread(self.cast(value, element), shape) for value in values]

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the type of a variable that has either type, depending on the path taken."""
        if isinstance(one, Pointer) and isinstance(other, Pointer):
            alike = self._offsets_alike(one, other), self._offsets_alike(other, one)
            if one.array is not other.array:
                return self._joined_pointers(*alike)
            one, other = alike
        if isinstance(one, Complex) is not isinstance(other, Complex):
            raise UnsupportedError(
                f"{describe(one)} on one path and {describe(other)} on another; begin with a complex number, as "
                "tl.zeros(shape, tl.complex64) or x.to(tl.complex64)"
            )
        if isinstance(one, tuple) and isinstance(other, tuple) and type(one) is type(other) and len(one) == len(other):
            return like(one, [self.joined(*pair) for pair in zip(one, other, strict=True)])
        if isinstance(one, Kind) and isinstance(other, Kind):
            kinds = [operand.type for operand in (one, other)]
            if kinds[0] is kinds[1]:
                return Kind(one.type, one.weak and other.weak)
            if any(isinstance(kind, Block) for kind in kinds):
                raise UnsupportedError(
                    f"{describe(one)} on one path and {describe(other)} on another; give it one shape and type, as by "
                    "tl.zeros(shape, dtype) and x.to(dtype)"
                )
        return self.kernels.joined(one, other)

    def _joined_pointers(self, one: Pointer, other: Pointer) -> Pointer:
        """Returns the type of a pointer that is to either argument, depending on the path taken."""
        choice = self.pointer_choices.of(one, other)
        if choice is None:
            raise UnsupportedError(
                f"{describe(one)} on one path and to {other.array.name} on another, of another type or of a table; "
                "load or store in each branch"
            )
        return kind_of_choice(choice, self.joined(one.base, other.base), self.joined(one.offset, other.offset))

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this type; constants have none."""
        if isinstance(kind, Pointer) and isinstance(kind.array, ChoiceValue):
            value = as_choice(self.builder, value, kind.array)
        if isinstance(kind, Complex) and not isinstance(value, Complex):
            value = value.real, value.imag
        if isinstance(kind, tuple):
            return [part for pair in zip(value, kind, strict=True) for part in self.packed(*pair)]
        return self.kernels.packed(value, kind)

    def selected(self, truth: Value, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        if not isinstance(one, Pointer) or not isinstance(other, Pointer) or one.array is other.array:
            return self.kernels.selected(truth, one, other)
        kind = self.joined(self.kernels.kind_of_variable(one), self.kernels.kind_of_variable(other))
        pairs = zip(self.packed(one, kind), self.packed(other, kind), strict=True)
        return self.kernels.unpacked(kind, iter([self.builder.select(truth, x, y) for x, y in pairs]))

    def mark_written(self, array: ArrayValue, *, assigned: bool = True) -> None:
        """Notes that the program writes an array, or any of those of a choice."""
        for source in sources_of(array):
            self.kernels.arrays.mark_written(source, assigned=assigned)

    def _offsets_alike(self, one: Pointer, other: Pointer) -> Pointer:
        """Returns the type of a pointer whose block of offsets has 64 bits if that of another one has."""
        kinds = [pointer.offset.type for pointer in (one, other) if isinstance(pointer.offset, Kind)]
        if len(kinds) < 2 or element_of(kinds[1]) is not INT64:
            return one
        return one._replace(offset=Kind(typed(INT64, shape_of(kinds[0]))))  # type: ignore[arg-type]

    def common_type(self, *values: Any, sign: str = "") -> Any:
        """Returns the common type of the elements of two or more values, of which constants take part last."""
        if len(values) > 2:
            values = tuple(sorted(values, key=lambda value: not isinstance(value, Number)))
        kind, is_plain = self._own_type(values[0]), not isinstance(values[0], Number)
        for value in values[1:]:
            other, plain = self._own_type(value), not isinstance(value, Number)
            kind = self._promoted(kind, is_plain, other, plain, sign)
            is_plain = is_plain and plain
        return Kind(kind)

    def to_common_type(self, *values: Any) -> tuple[Kind, list[Value]]:
        """Converts numbers to their common type, and repeats them to their common shape."""
        operands = self.alike(self.common_type(*values).type, *values)
        return Kind(operands[0].type), operands  # type: ignore[arg-type]

    def element(self, values: tuple[Any, ...], index: Any) -> Any:
        """Returns an item of a tuple. A dynamic index selects among numbers, or among tuples of them."""
        if isinstance(index, Number):
            if self.shape(index):
                raise UnsupportedError(
                    f"a tuple is indexed by a scalar; got {describe(index)}; write tl.gather of a block"
                )
            values = tuple([tuple(value) if isinstance(value, List) else value for value in values])
            wrong = [
                value for value in values if not isinstance(value, (Number, *_CONSTANTS)) and not is_sequence(value)
            ]
            if wrong:
                raise UnsupportedError(
                    f"a variable selects numbers and blocks from a tuple; got {describe(wrong[0])} in it; index it by "
                    f"constants, as in a loop over tl.static_range({len(values)})"
                )
        return self.kernels.element(values, index)

    def _own_type(self, value: Any) -> Scalar:
        if isinstance(value, Number):
            return element_of(value.kind.type)
        if type(value) not in _CONSTANTS:
            return self.element_type(value)
        if type(value) is float:
            is_normal = not math.isfinite(value) or not value or _LEAST_FLOAT <= abs(value) <= _GREATEST_FLOAT
            return FLOAT32 if is_normal else FLOAT64
        return BOOL if type(value) is bool else int_type_of(value)

    def _promoted(self, one: Scalar, one_plain: bool, other: Scalar, other_plain: bool, sign: str) -> Scalar:
        divides = sign in ("/", "%")
        if one_plain != other_plain:
            plain, typed = (one, other) if one_plain else (other, one)
            if _RANKS[plain.kind] <= _RANKS[typed.kind]:
                one = other = typed
        if divides and "f" in (one.kind, other.kind):
            return FLOAT64 if FLOAT64 in (one, other) else FLOAT32
        narrow = [isinstance(kind, SmallFloat) and kind.bits == 8 for kind in (one, other)]
        if all(narrow):
            return one if one is other else FLOAT16
        if any(narrow) and (one.kind, other.kind) != ("f", "f"):
            raise UnsupportedError(
                f"{OF_SCALAR[one]} and {OF_SCALAR[other]} have no common type; convert one, as x.to(tl.float16)"
            )
        if "f" in (one.kind, other.kind):
            for wide in (FLOAT64, FLOAT32):
                if wide in (one, other):
                    return wide
            return FLOAT16 if FLOAT16 in (one, other) else BFLOAT16 if one is other else FLOAT32
        if sign in ("/", "//", "%"):
            self._check_signedness(one, other, sign, are_typed=not (one_plain or other_plain))
        widths = [1 if kind is BOOL else kind.bits for kind in (one, other)]
        if widths[0] == widths[1]:
            return one if one.kind == "u" else other
        return one if widths[0] > widths[1] else other

    def _check_signedness(self, one: Scalar, other: Scalar, sign: str, *, are_typed: bool) -> None:
        """Raises UnsupportedError for a division of a signed number and an unsigned one, such as int1."""
        if (are_typed or BOOL in (one, other)) and (one.kind == "i") != (other.kind == "i"):
            raise UnsupportedError(
                f"Cannot use {sign} with {OF_SCALAR[one]} and {OF_SCALAR[other]} because they have different "
                "signedness; convert one, as x.to(tl.uint32)"
            )

    # -- operators ----------------------------------------------------------------------------------------------------

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""
        self._refuse_addresses(one, other)
        if isinstance(one, Pointer) or isinstance(other, Pointer):
            return self._moved(sign, one, other)
        if not isinstance(one, Number) and not isinstance(other, Number):
            return self.kernels.binary(sign, one, other)
        if isinstance(one, tuple) or isinstance(other, tuple):
            raise UnsupportedError(f"{sign} takes numbers; got {describe(one)} and {describe(other)}")
        if sign in _SHIFTS:
            return self._shifted(sign, one, other)
        if sign not in _PLAIN:
            remedy = "write tl.dot(a, b)" if sign == "@" else "write x * x, or tl.exp2(y * tl.log2(x))"
            raise UnsupportedError(f"blocks have no {sign}; {remedy}")
        kind = self.common_type(one, other, sign=sign)
        sign = _OF_BOOLS.get(sign, sign) if kind.type is BOOL else sign
        if kind.type is BOOL and sign in ("//", "%"):  # of bits, which a division by True keeps
            words = [self.number(operand) for operand in self.alike(UINT32, one, other)]
            return self.number(self.builder.cast(self.binary(sign, *words).value, BOOL))
        allowed = "iub" if sign in ("&", "|", "^") else "iu" if sign == "//" else "iufb" if sign == "/" else "iuf"
        self.demand_kind(allowed, kind, sign, one, other)
        if sign in ("//", "%") and not isinstance(other, Number) and other == 0:
            raise UnsupportedError("division by zero; integers have no infinity: change the divisor")
        target = FLOAT32 if sign == "/" and kind.type.kind != "f" else kind.type
        return self.number(self.builder.compute(_PLAIN[sign], *self.alike(target, one, other)))

    def demand_kind(self, allowed: str, kind: Kind, sign: str, *operands: Any) -> None:
        """Raises UnsupportedError unless the type of the operands is of an allowed kind."""
        if kind.type.kind not in allowed:
            got = " and ".join(map(describe, operands))
            raise UnsupportedError(f"{sign} takes {'numbers' if 'f' in allowed else 'integers'}; got {got}")

    def _shifted(self, sign: str, one: Any, other: Any) -> Number:
        kind = self.common_type(one, other)
        self.demand_kind("iu", kind, sign, one, other)
        signed = sign == ">>" and kind.type.kind == "u" and self.element_type(one).kind == "i"
        operands = self.alike(kind.type, one, other)
        if signed:  # the left operand says whether the shift keeps the sign
            operands = [self.builder.bitcast(operand, SCALARS[f"int{kind.type.bits}"]) for operand in operands]
        shifted = self.builder.compute(_SHIFTS[sign], *operands)
        return self.number(self.builder.bitcast(shifted, kind.type))

    def _refuse_addresses(self, *values: Any) -> None:
        """Raises UnsupportedError for an address, which is a tuple inside of the compiler only."""
        for value in values:
            if isinstance(value, Address):
                self.element_type(value)

    def _moved(self, sign: str, one: Any, other: Any) -> Pointer:
        """Adds an offset to a pointer, or subtracts it."""
        pointer, offset = (one, other) if isinstance(one, Pointer) else (other, one)
        if isinstance(offset, Pointer) or sign not in ("+", "-") or (sign == "-" and pointer is other):
            raise UnsupportedError(
                f"a pointer takes + and - of an offset; got {describe(one)} {sign} {describe(other)}"
            )
        if self.element_type(offset).kind not in "iub":
            raise UnsupportedError(f"the offset of a pointer is an integer; got {describe(offset)}; write // for /")
        step, n_parts = self.as_offset(offset), parts_of(pointer.array)
        step = step if n_parts == 1 else self.binary("*", step, n_parts)
        if not self.shape(offset):
            return pointer._replace(base=self.binary(sign, pointer.base, step))
        before = pointer.offset if pointer.offset is not None else 0
        return pointer._replace(offset=self.binary(sign, before, step) if before or sign == "-" else step)

    def as_offset(self, offset: Any) -> Any:
        """Returns an offset as int32, or as int64 if it has 64 bits."""
        if not isinstance(offset, Number):
            return int(offset)
        return self.number(self.cast(offset, self.offset_type(offset)))

    def offset_type(self, *offsets: Any) -> Scalar:
        """Returns the type in which offsets are added: int64 if one of them has 64 bits, else int32."""
        kinds = [element_of(offset.kind.type) for offset in offsets if isinstance(offset, Number)]
        return INT64 if any(kind.bits == 64 for kind in kinds) else INT32

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""
        if sign in ("is", "is not") and isinstance(one, Dtype) and isinstance(other, Dtype):
            return (one == other) == (sign == "is")
        if sign in ("==", "!=") and isinstance(one, TYPES) and isinstance(other, TYPES):
            return (one == other) == (sign == "==")
        self._refuse_addresses(one, other)
        numbers = isinstance(one, Number) or isinstance(other, Number)
        if not numbers or sign not in _COMPARISONS:
            return self.kernels.compare(sign, one, other)
        for operand in (one, other):
            self.element_type(operand)
        kind = self.common_type(one, other)
        target = INT32 if kind.type is BOOL and sign not in ("==", "!=") else kind.type
        return self.number(self.builder.compute(_COMPARISONS[sign], *self.alike(target, one, other)))

    def unary(self, sign: str, value: Any) -> Any:
        """Returns `sign value`."""
        if sign == "not" and self._is_shaped(value):
            return self.compare("==", value, 0)
        if not isinstance(value, Number) or sign == "not":
            return self.kernels.unary(sign, value)
        kind = self.kind(value)
        if sign == "-" and kind.type.kind == "b":  # modulo two
            return value
        self.demand_kind("iub" if sign == "~" else "iuf", kind, sign, value)
        if sign == "+":
            return value
        if sign == "-" and kind.type.kind == "u":
            return self.binary("-", 0, value)
        return self.number(self.builder.compute("not" if sign == "~" else "neg", value.value))

    def connected(self, is_and: bool, first: Any, second: Callable[[], Any], where: Location, *, is_cheap: bool) -> Any:
        """Builds `first and second()` or `first or second()`; of blocks, from each element's truth.

        A scalar takes a block behind it if that may be computed in any case.
        """
        if self._is_shaped(first) or (isinstance(first, Number) and is_cheap):
            other = second()
            if self._is_shaped(first) or self._is_shaped(other):
                return self.binary("&" if is_and else "|", *[self.compare("!=", arg, 0) for arg in (first, other)])
            return self.kernels.connected(is_and, first, lambda: other, where, is_cheap=is_cheap)
        return self.kernels.connected(is_and, first, second, where, is_cheap=is_cheap)

    def _is_shaped(self, value: Any) -> bool:
        """True for a block, also of one element."""
        return isinstance(value, Number) and bool(self.shape(value))

    def is_block(self, value: Any) -> bool:
        """True for a block of several elements, which has no truth value."""
        return isinstance(value, Number) and isinstance(value.kind.type, Block) and value.kind.type.n > 1

    def truth(self, value: Any) -> Value | bool:
        """Returns the truth of a scalar: a device value, or a constant. A pointer is true, and None is not."""
        self._refuse_addresses(value)
        if isinstance(value, Complex):
            raise UnsupportedError(f"{describe(value)} has no truth value; compare it, as z != 0")
        if isinstance(value, Pointer) and not self.shape(value):
            return True
        if isinstance(value, Number) and isinstance(value.kind.type, Block) and value.kind.type.n == 1:
            flat = self.builder.reshape(value.value, (1,))
            value = self.number(self.builder.reduce([flat], 0, lambda one, _: [*one])[0])
        if self.is_block(value):
            raise UnsupportedError(
                f"{describe(value)} has no truth value; combine conditions with & and |, choose with tl.where, or "
                "reduce it, as tl.max(mask, 0)"
            )
        return self.kernels.truth(value)


def saturated(value: Any, kind: Scalar) -> Any:
    """Returns a number, limited to the range of floats of 8 bits if it is to be one of them."""
    if not isinstance(kind, SmallFloat) or kind.bits > 8 or math.isnan(value):
        return value
    largest = kind.format.value(kind.format.beyond - 1)
    return max(-largest, min(value, largest))


def is_sequence(value: Any) -> bool:
    """True for a tuple or list of a program, as opposed to the named tuples of the compiler."""
    return isinstance(value, tuple) and not isinstance(value, (*TYPES, *POINTERS, Complex))


def describe_dynamic(*values: Any) -> str:
    """Describes values that must be constants, for error messages, and names the arguments on which they depend."""
    got = ", ".join(describe(arg) for arg in values if isinstance(arg, Number)) or ", ".join(map(describe, values))
    pending, names = [arg.value for arg in values if isinstance(arg, Number)], dict[str, None]()
    visited = set[Value]()
    for value in pending:
        if value in visited:
            continue
        visited.add(value)
        if isinstance(value, Push) and value.name.isidentifier():  # others are lengths and strides
            names[value.name] = None
        elif isinstance(value, Op) and value.operation.evaluate is not None:
            pending += value.args
        elif not isinstance(value, Constant):
            return got
    if not names:
        return got
    annotated = ", ".join(f"{name}: tl.constexpr" for name in names)
    it = "it" if len(names) == 1 else "them"
    return f"{got}, which depends on {' and '.join(names)}; annotate {it} as {annotated}"


def describe(value: Any) -> str:
    """Describes a value or its type, for error messages."""
    if isinstance(value, Address):
        return f"an address of {value.pointer.array.memory.name}"
    if isinstance(value, Pointer):
        return f"a pointer to {value.array.name}"
    if isinstance(value, BlockPointer):
        return f"a pointer to a block of {value.array.name}"
    if isinstance(value, Descriptor):
        return f"a descriptor of {value.array.name}"
    if isinstance(value, TYPES):
        return f"the type {value}"
    if type(value) in (bool, int, float, str):
        return repr(value)
    if isinstance(value, List):
        return f"a list of {len(value)}"
    if isinstance(value, Complex):
        return f"a complex number whose parts are {describe(value[0])}"
    kind = value.kind if isinstance(value, Number) else value
    if isinstance(kind, Kind) and isinstance(kind.type, Block):
        return f"a block of {OF_SCALAR[kind.type.element]}{list(kind.type.shape)}"
    return describe_python(value)
