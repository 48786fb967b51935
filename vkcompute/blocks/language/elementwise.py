"""Functions of the block language on each element."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import Any

from vkcompute.blocks.compiler import functions
from vkcompute.blocks.compiler.accessed_elements import offsets_of
from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import (
    complex_by_row,
    converted,
    is_complex_dtype,
    pair,
    part_type,
    takes_complex,
)
from vkcompute.blocks.compiler.functions import block_function, method
from vkcompute.blocks.compiler.types import OF_SCALAR, Address, NullValue, Pointer, PointerType, scalar_of
from vkcompute.blocks.language.addresses import pointed
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, FLOAT64, INT32, INT64, SCALARS, UINT32, UINT64, Constant, Memory, Scalar, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import PARTS, Complex, Number, is_complex
from vkcompute.operations import FUNCTIONS, ElementFunction, host
from vkcompute.operations import recording as recordings
from vkcompute.tile import BFLOAT16, shape_of
from vkcompute.tile.builder import BlockEmitter


@takes_complex
@method
@block_function
def to(c: BlockCompiler, input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Any:
    """Converts the elements, or reinterprets their bits."""
    if isinstance(input, Address):
        return pointed(input, dtype)
    if isinstance(input, Pointer):
        return _repointed(input, dtype)
    if is_complex_dtype(dtype) and not bitcast:
        return converted(c, input, dtype)
    null = _null_pointer(c, input, dtype) if isinstance(dtype, PointerType) else None
    if null is not None:
        return null
    kind, input = scalar_of(dtype), c.as_tensor(input)
    if not isinstance(input, Number):
        return c.number(c.cast(input, kind))  # which refuses complex numbers
    if bitcast:
        return c.number(c.builder.bitcast(input.value, kind))
    _check_conversion(c, input, kind, fp_downcast_rounding)
    return c.number((_truncated if fp_downcast_rounding == "rtz" else _nearest)(c, input.value, kind))


def _check_conversion(c: BlockCompiler, x: Number, kind: Scalar, rounding: Any) -> None:
    """Raises UnsupportedError for a conversion, or a rounding mode, that Triton lacks."""
    source = c.element_type(x)
    is_narrower = source is kind or (source.kind + kind.kind == "ff" and kind.bits < source.bits)
    if rounding is not None and not is_narrower:
        raise UnsupportedError(
            f"fp_downcast_rounding is for conversions to narrower floats; got {OF_SCALAR[source]} to {OF_SCALAR[kind]}"
        )
    if rounding not in (None, "rtne", "rtz"):
        raise UnsupportedError(f"fp_downcast_rounding is 'rtne' (nearest even) or 'rtz' (to zero); got {rounding!r}")
    narrow = [OF_SCALAR[each].is_fp8() for each in (source, kind)]
    if source is not kind and any(narrow) and (all(narrow) or source.kind + kind.kind != "ff"):
        raise UnsupportedError(
            f"{OF_SCALAR[source]} does not become {OF_SCALAR[kind]} at once; write x.to(tl.float16).to(…)"
        )


def _nearest(c: BlockCompiler, value: Value, kind: Scalar) -> Value:
    """Converts to the nearest number."""
    return c.builder.cast(value, kind)


def _truncated(c: BlockCompiler, value: Value, kind: Scalar) -> Value:
    """Rounds to zero: where the nearest number is beyond `value`, it takes the one before, whose bits are 1 less."""
    b, word = c.builder, SCALARS[f"uint{kind.bits}"]
    nearest = b.cast(value, kind)
    back = b.cast(nearest, element_of(value.type))
    is_beyond = b.compute("gt", b.compute("abs", back), b.compute("abs", value))
    return b.bitcast(b.compute("sub", b.bitcast(nearest, word), b.cast(is_beyond, word)), kind)


def _repointed(pointer: Pointer, dtype: Any) -> Pointer:
    """Returns a pointer to the same bits, as another type of the same size or a wider one."""
    if not isinstance(dtype, PointerType):
        raise UnsupportedError(f"{describe(pointer)} becomes a tl.pointer_type; got {dtype}")
    before, element = pointer.array.element, dtype.element_ty.scalar_type
    stored = pointer.array.memory.element
    if (BOOL in (before, element) and before is not element) or stored.bits > element.bits:
        raise UnsupportedError(
            f"elements of a pointer keep their size, or take a wider type; got {OF_SCALAR[before]} and "
            f"{OF_SCALAR[element]}; pass a view of the array, as x.view(torch.{element.name})"
        )
    if element in PARTS and stored is not PARTS[element]:
        raise UnsupportedError(
            f"a pointer to {OF_SCALAR[element]} is one to an array of its parts, {OF_SCALAR[PARTS[element]]}; got "
            f"{describe(pointer)}, of {OF_SCALAR[stored]}; pass a view of the array, as x.view(dtype)"
        )
    if pointer.entry is not None and before.bits != element.bits:
        raise UnsupportedError(
            f"elements of a table's arrays keep their size; got {OF_SCALAR[before]} and {OF_SCALAR[element]}"
        )
    return pointer._replace(array=replace(pointer.array, element=element))


def _null_pointer(c: BlockCompiler, address: Any, dtype: PointerType) -> Pointer | None:
    """Returns pointers of address 0, as many as there are addresses; None for other addresses."""
    value = address.value if isinstance(address, Number) else c.builder.const(address, INT64)
    number = value.args[0] if isinstance(value, Op) and value.code == "splat" else value
    if not isinstance(number, Constant) or element_of(number.type).kind not in "iu" or number.value != 0:
        return None
    kind, shape = dtype.element_ty.scalar_type, shape_of(value.type)
    array = NullValue("address 0", -1, kind, 1, Memory("address 0", kind))
    zeros = c.number(c.builder.full(c.builder.const(0, INT32), shape)) if shape else None
    return Pointer(array, 0, zeros)


cast = takes_complex(block_function(to.emit))
cast.__name__ = "cast"
method(cast)


@takes_complex
@block_function
def where(c: BlockCompiler, condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition is True, else `y`; both are computed."""
    if isinstance(x, Pointer) and isinstance(y, Pointer):
        return _chosen(c, condition, x, y)
    if is_complex(x) or is_complex(y):
        part = part_type(c, x, y)
        pairs = zip(*[pair(c, value, part, c.shape(value)) for value in (x, y)], strict=True)
        return Complex([where.emit(c, condition, *map(c.number, numbers)) for numbers in pairs])
    kind = c.common_type(x, y)
    shape = c.common_shape(condition, x, y)
    one, other = (c.spread(c.cast(operand, kind.type), shape) for operand in (x, y))
    chosen = c.spread(c.cast(condition, BOOL), shape)
    return c.number(c.builder.select(chosen, one, other))


def _chosen(c: BlockCompiler, condition: Any, x: Pointer, y: Pointer) -> Pointer:
    """Returns the pointers of `x` where the condition is True, else those of `y`."""
    if x.array is not y.array:
        if c.shape(condition) or c.shape(x) != c.shape(y):
            raise UnsupportedError(
                f"a block of pointers is to one array; got {describe(x)} and {describe(y)}; choose loaded numbers"
            )
        truth = c.truth(condition)
        chosen: Pointer = (x if truth else y) if isinstance(truth, bool) else c.selected(truth, x, y)
        return chosen
    if x.entry != y.entry:
        raise UnsupportedError(
            f"a block of pointers is to one array; got pointers to two arrays of {x.array.memory.name}; choose the "
            "index, as tl.load(table_ptr + tl.where(condition, i, j))"
        )
    offset = where.emit(c, condition, *[c.number(offsets_of(c, pointer)) for pointer in (x, y)])
    return x._replace(base=0, offset=offset) if c.shape(offset) else x._replace(base=offset, offset=None)


def _extreme(c: BlockCompiler, name: str, x: Any, y: Any, propagate_nan: Any) -> Number:
    if type(propagate_nan) is not int or propagate_nan not in (PropagateNan.NONE, PropagateNan.ALL):
        raise UnsupportedError(f"propagate_nan is tl.PropagateNan.NONE or ALL; got {describe(propagate_nan)}")
    x, y = [_widened(c, value) for value in map(c.as_tensor, (x, y))]
    kind = c.common_type(x, y).type
    return emitted(c, f"{name}imum" if propagate_nan else f"f{name}", *c.alike(kind, x, y))


def _widened(c: BlockCompiler, value: Any) -> Any:
    """Gives elements of bfloat16 the type float32 in programs of users, before other types are looked at."""
    is_brain = isinstance(value, Number) and element_of(value.value.type) is BFLOAT16
    return c.number(c.cast(value, FLOAT32)) if is_brain and c.is_users() else value


def emitted(c: BlockCompiler, name: str, *values: Value) -> Number:
    """Builds a function of elements, a row of the registry, of scalars or blocks of one type and shape."""
    kind = OF_SCALAR[element_of(values[0].type)]
    if kind.is_fp8():
        raise UnsupportedError(f"{name} does not take floats of 8 bits; got {kind}; convert them, as x.to(tl.float16)")
    f = BlockEmitter(c.builder, shape_of(values[0].type))
    return c.number(f.emit(FUNCTIONS[name], *values))


@block_function
def replayed(c: BlockCompiler, recording: Any, x: Any) -> Any:
    """The elements, to which the steps of a function of one float are applied."""
    (value,) = _floats(c, "replayed", x)
    f = BlockEmitter(c.builder, shape_of(value.type))
    return c.number(recordings.replayed(f, recording, f.operand(value)).value) if recording else x


class PropagateNan:
    """Treatment of NaN by `tl.maximum` and others: NONE ignores it where the other operand is a number."""

    NONE = 0
    ALL = 1


@block_function
def maximum(c: BlockCompiler, x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """The greater of two elements; where one is NaN the other, or NaN with PropagateNan.ALL."""
    return _extreme(c, "max", x, y, propagate_nan)


@block_function
def minimum(c: BlockCompiler, x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """The lesser of two elements; where one is NaN the other, or NaN with PropagateNan.ALL."""
    return _extreme(c, "min", x, y, propagate_nan)


@block_function
def clamp(c: BlockCompiler, x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """The elements limited to a range."""
    kind = c.common_type(x, min, max).type
    if kind.kind != "f":
        x, min, max = map(c.number, c.alike(kind, x, min, max))
    return _extreme(c, "min", _extreme(c, "max", x, min, propagate_nan), max, propagate_nan)


functions.STATEMENTS |= {"max": maximum, "min": minimum}

_WIDE = "ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt", "sin", "sqrt", "sqrt_rn"
"""Functions that Triton does not have of float16 and bfloat16."""


def _floats(c: BlockCompiler, name: str, *values: Any, is_wide: bool = False) -> list[Value]:
    values = tuple(map(c.as_tensor, values))
    kind = c.common_type(*values)
    if is_wide and kind.type.kind == "f" and kind.type.bits < 32 and c.is_users():
        raise UnsupportedError(
            f"tl.{name} takes float32 and float64; got {describe(values[0])}; convert it, as x.to(tl.float32)"
        )
    _require_floats(c, name, *values)
    return c.alike(kind.type, *values)


def _require_floats(c: BlockCompiler, name: str, *values: Any) -> None:
    """Raises UnsupportedError where values have no common type of floats."""
    if c.common_type(*values).type.kind != "f":
        got = " and ".join(map(describe, values))
        raise UnsupportedError(f"tl.{name} takes floats; got {got}; convert, as x.to(tl.float32)")


def real_function(name: str, row: ElementFunction | None = None, *, is_method: bool = True) -> Any:
    """Makes a function of floats: the row of the registry that has this name in the block language, if none is given.

    It is also a method if it has one operand.
    """
    made = row or _ROWS[name]
    if made.arity == 1:

        def emit(c: BlockCompiler, x: Any) -> Any:
            return emitted(c, made.name, *_floats(c, name, x, is_wide=row is None and name in _WIDE))

    else:

        def emit(c: BlockCompiler, x: Any, y: Any) -> Any:  # type: ignore[misc]
            return emitted(c, made.name, *_floats(c, name, x, y))

    emit.__name__, emit.__doc__ = name, f"{made.meaning}; of floats.".capitalize()
    function = complex_by_row(block_function(emit), made)
    return method(function) if made.arity == 1 and is_method else function


_ROWS = {name: row for row in FUNCTIONS.values() for name in row.blocks}
functions.OWN |= {own: real_function(name, FUNCTIONS[name], is_method=False) for name, own in host.OWN.items()}


@partial(complex_by_row, row=FUNCTIONS["absolute"])
@method
@block_function
def abs(c: BlockCompiler, x: Any) -> Any:
    """The absolute value."""
    value = c.cast(x, c.element_type(x))
    return c.number(value if element_of(value.type).kind in "ub" else c.builder.compute("abs", value))


@block_function
def fma(c: BlockCompiler, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once where the device can."""
    return c.number(c.builder.compute("fma", *_floats(c, "fma", x, y, z)))


@method
@block_function
def sigmoid(c: BlockCompiler, x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    (value,) = _floats(c, "sigmoid", x, is_wide=True)
    powers = c.number(c.builder.compute("exp", c.builder.compute("neg", value)))
    return c.binary("/", 1.0, c.binary("+", 1.0, powers))


@method
@block_function
def cdiv(c: BlockCompiler, x: Any, div: Any) -> Any:
    """x / div rounded up, for x >= 0 and div > 0."""
    if not isinstance(x, Number) and not isinstance(div, Number):
        return c.unary("-", c.binary("//", c.unary("-", x), div))
    return c.binary("//", c.binary("+", x, c.binary("-", div, 1)), div)


@block_function
def fdiv(c: BlockCompiler, x: Any, y: Any, ieee_rounding: Any = False, approx: Any = False) -> Any:
    """x / y of floats."""
    kind = c.common_type(x, y, sign="/").type
    if kind.kind != "f":
        raise UnsupportedError(
            f"tl.fdiv takes floats; got {describe(x)} and {describe(y)}; convert, as x.to(tl.float32)"
        )
    return c.number(c.builder.compute("div", *c.alike(kind, c.as_tensor(x), c.as_tensor(y))))


@takes_complex
@block_function
def div_rn(c: BlockCompiler, x: Any, y: Any) -> Any:
    """x / y of floats, rounded to nearest even."""
    operands = [c.element_type(value) for value in (x, y) if isinstance(value, Number)]
    if any(kind not in (FLOAT32, FLOAT64) for kind in operands) and c.is_users():
        raise UnsupportedError(
            f"tl.div_rn takes float32 and float64; got {describe(x)} and {describe(y)}; convert, as x.to(tl.float32)"
        )
    return c.binary("/", c.as_tensor(x), c.as_tensor(y))


@block_function
def umulhi(c: BlockCompiler, x: Any, y: Any) -> Any:
    """The upper half of the product of two integers of 32 or 64 bits, as unsigned ones."""
    kind, operands = c.common_type(x, y), [c.element_type(operand) for operand in (x, y) if isinstance(operand, Number)]
    if any(operand.kind not in "iu" or operand.bits < 32 for operand in (*operands, kind.type)):
        raise UnsupportedError(f"tl.umulhi takes integers of 32 or 64 bits; got {describe(x)} and {describe(y)}")
    b, unsigned = c.builder, UINT32 if kind.type.bits == 32 else UINT64
    one, other = (b.bitcast(operand, unsigned) for operand in c.alike(kind.type, x, y))
    high = b.compute("mul_high", one, other) if unsigned is UINT32 else _upper_words(c, one, other)
    return c.number(b.bitcast(high, kind.type))


def _upper_words(c: BlockCompiler, one: Value, other: Value) -> Value:
    """Returns the upper halves of products of uint64, by the four products of their 32-bit halves."""
    b, shape = c.builder, shape_of(one.type)
    half, mask = (b.full(b.const(number, UINT64), shape) for number in (32, 0xFFFFFFFF))

    def low(value: Value) -> Value:
        return b.compute("and", value, mask)

    def high(value: Value) -> Value:
        return b.compute("shr", value, half)

    def total(*values: Value) -> Value:
        return reduce(partial(b.compute, "add"), values)

    pairs = [(i, j) for i in (low(one), high(one)) for j in (low(other), high(other))]
    lowest, inner, outer, highest = (b.compute("mul", i, j) for i, j in pairs)
    carry = high(total(high(lowest), low(inner), low(outer)))
    return total(highest, high(inner), high(outer), carry)


def _logical(name: str, sign: str) -> None:
    def emit(c: BlockCompiler, input: Any, other: Any) -> Any:
        if BOOL is not c.element_type(input) or BOOL is not c.element_type(other):
            raise UnsupportedError(f"{name} takes int1; got {describe(input)} and {describe(other)}; write x != 0")
        return c.binary(sign, input, other)

    emit.__name__, emit.__doc__ = name, f"x {sign} y of bools."
    method(block_function(emit))


_logical("logical_and", "&")
_logical("logical_or", "|")


def _operator(name: str, sign: str) -> Any:
    def emit(c: BlockCompiler, x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
        if not isinstance(x, Number) and not isinstance(y, Number):
            x, y = c.as_tensor(x), c.as_tensor(y)
        return c.binary(sign, x, y)

    emit.__name__, emit.__doc__ = name, f"x {sign} y."
    return takes_complex(block_function(emit))


add, sub, mul = _operator("add", "+"), _operator("sub", "-"), _operator("mul", "*")


@block_function
def expect_zero(c: BlockCompiler, x: Any, mask: Any) -> Any:
    """Returns its operand; the hint has no effect."""
    return x
