"""Functions of the block language on memory, shapes and elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.compat.triton.arithmetic import BlockArithmetic, told
from vkcompute.compat.triton.compiler import BlockCompiler
from vkcompute.compat.triton.functions import block_function, method
from vkcompute.compat.triton.types import OF_SCALAR, Pointer, scalar_of
from vkcompute.ir import BOOL, FLOAT16, FLOAT32, INT32, UINT32, Constant, Scalar, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.source import UnsupportedError
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import shape_of

_MOST_ELEMENTS = 1 << 20  # as in Triton


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Returns a shape given by constants, each a power of two.

    Raises:
        UnsupportedError: it is not.
    """
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for each in lengths:
        if type(each) is not int:
            raise UnsupportedError(f"a shape is ints known at compile time (tl.constexpr); got {told(each)}")
        if each < 1 or each & (each - 1):
            raise UnsupportedError(f"the lengths of a block are powers of two; got {each}; round up and use a mask")
    if int(np.prod(lengths)) > _MOST_ELEMENTS:
        raise UnsupportedError(f"a block has at most {_MOST_ELEMENTS} elements; got {list(lengths)}")
    return lengths


# -- programs ---------------------------------------------------------------------------------------------------------


def _program(c: BlockCompiler, name: str, axis: Any) -> Number:
    if axis not in (0, 1, 2):
        raise UnsupportedError(f"an axis of the grid is 0, 1 or 2; got {told(axis)}")
    return c.number(c.builder.cast(c.builder.builtin(name, axis), INT32))


@block_function
def program_id(c: BlockCompiler, axis: Any) -> Any:
    """Index of the program along an axis of the grid, int32."""
    return _program(c, "group_id", axis)


@block_function
def num_programs(c: BlockCompiler, axis: Any) -> Any:
    """Number of programs along an axis of the grid, int32."""
    return _program(c, "n_groups", axis)


# -- blocks -----------------------------------------------------------------------------------------------------------


@block_function
def arange(c: BlockCompiler, start: Any, end: Any) -> Any:
    """The ints from `start` to before `end`, a block of int32; their number is a power of two."""
    if type(start) is not int or type(end) is not int:
        got = told(end if type(start) is int else start)
        raise UnsupportedError(f"tl.arange takes ints known at compile time (tl.constexpr); got {got}")
    if end <= start:
        raise UnsupportedError(f"tl.arange takes start < end; got {start} and {end}")
    checked_shape(end - start)
    return c.number(c.builder.arange(start, end))


@block_function
def full(c: BlockCompiler, shape: Any, value: Any, dtype: Any) -> Any:
    """A block whose elements are all one scalar."""
    return c.number(c.builder.full(c.cast(value, scalar_of(dtype)), checked_shape(shape)))


@block_function
def zeros(c: BlockCompiler, shape: Any, dtype: Any) -> Any:
    """A block of zeros."""
    return c.number(c.builder.full(c.builder.const(0, scalar_of(dtype)), checked_shape(shape)))


@block_function
def zeros_like(c: BlockCompiler, input: Any) -> Any:
    """A block of zeros of the shape and dtype of another."""
    return c.number(c.builder.full(c.builder.const(0, c.element_type(input)), c.shape(input)))


@method
@block_function
def to(c: BlockCompiler, input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Any:
    """Converts the elements, or reinterprets their bits."""
    if fp_downcast_rounding not in (None, "rtne"):
        raise UnsupportedError(f"floats are rounded to nearest even, 'rtne'; got {fp_downcast_rounding!r}")
    kind = scalar_of(dtype)
    if not isinstance(input, Number):
        return c.number(c.cast(input, kind))
    return c.number(c.builder.bitcast(input.value, kind) if bitcast else c.builder.cast(input.value, kind))


cast = block_function(to.emit)
cast.__name__ = "cast"


def _as_block(c: BlockArithmetic, value: Any) -> Value:
    """Returns the value of a block, of one element for a scalar."""
    found = c.cast(value, c.element_type(value))
    return found if shape_of(found.type) else c.builder.full(found, (1,))


@method
@block_function
def reshape(c: BlockCompiler, input: Any, *shape: Any, can_reorder: Any = False) -> Any:
    """The elements, in row-major order, in another shape."""
    wanted = checked_shape(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    found = _as_block(c, input)
    if int(np.prod(wanted)) != int(np.prod(shape_of(found.type))):
        raise UnsupportedError(f"reshape keeps the number of elements; got {told(input)} and {list(wanted)}")
    return c.number(c.builder.reshape(found, wanted))


view = block_function(reshape.emit)
view.__name__ = "view"
method(view)


@method
@block_function
def ravel(c: BlockCompiler, x: Any) -> Any:
    """The elements in row-major order along one axis."""
    found = _as_block(c, x)
    return c.number(c.builder.reshape(found, (int(np.prod(shape_of(found.type))),)))


@method
@block_function
def expand_dims(c: BlockCompiler, input: Any, axis: Any) -> Any:
    """Inserts axes of length 1."""
    shape = list(c.shape(input))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    n = len(shape) + len(axes)
    for each in sorted(at % n if -n <= at < n else n for at in axes):
        if each == n:
            raise UnsupportedError(f"the axis of a block with {n} axes is {-n} to {n - 1}; got {axis}")
        shape.insert(each, 1)
    return c.number(c.builder.reshape(_as_block(c, input), tuple(shape)))


@method
@block_function
def broadcast_to(c: BlockCompiler, input: Any, *shape: Any) -> Any:
    """Repeats a block along its axes of length 1."""
    wanted = checked_shape(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    return c.number(c.spread(c.cast(input, c.element_type(input)), wanted))


@block_function
def broadcast(c: BlockCompiler, input: Any, other: Any) -> Any:
    """Repeats two blocks to their common shape."""
    shape = c.common_shape(input, other)
    return tuple([c.number(c.spread(c.cast(each, c.element_type(each)), shape)) for each in (input, other)])


@method
@block_function
def permute(c: BlockCompiler, input: Any, *dims: Any) -> Any:
    """Reorders the axes."""
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    shape = c.shape(input)
    if sorted(order) != list(range(len(shape))):
        raise UnsupportedError(f"permute takes each axis of {told(input)} once; got {tuple(order)}")
    return c.number(c.builder.permute(_as_block(c, input), tuple(order)))


@method
@block_function
def trans(c: BlockCompiler, input: Any, *dims: Any) -> Any:
    """Swaps the last two axes, or reorders the axes."""
    if dims:
        return permute.emit(c, input, *dims)
    n = len(c.shape(input))
    if n < 2:
        raise UnsupportedError(f"a block with two axes is transposed; got {told(input)}")
    return c.number(c.builder.permute(_as_block(c, input), (*range(n - 2), n - 1, n - 2)))


# -- memory -----------------------------------------------------------------------------------------------------------


def places(c: BlockArithmetic, pointer: Any) -> Value:
    """Returns the offsets of a pointer.

    Raises:
        UnsupportedError: the value is no pointer.
    """
    if not isinstance(pointer, Pointer):
        raise UnsupportedError(f"this takes a pointer, as x_ptr + offsets; got {told(pointer)}")
    base = c.cast(pointer.base, INT32)
    if pointer.offset is None:
        return base
    if not isinstance(pointer.base, Number) and pointer.base == 0:
        return c.cast(pointer.offset, INT32)
    shape = c.shape(pointer)
    return c.builder.compute("add", c.builder.full(base, shape), pointer.offset.value)


def _mask(c: BlockArithmetic, mask: Any, shape: tuple[int, ...], what: str) -> Value | None:
    if mask is None or mask is True:
        return None
    if isinstance(mask, Number) and c.element_type(mask) is not BOOL:
        raise UnsupportedError(f"a mask is a block of bools, as offsets < n; got {told(mask)}")
    return _repeated(c, c.cast(mask, BOOL), shape, f"mask of a {what}")


def _repeated(c: BlockArithmetic, value: Value, shape: tuple[int, ...], what: str) -> Value:
    before = shape_of(value.type)
    try:
        alike = np.broadcast_shapes(before, shape) == shape
    except ValueError:
        alike = False
    if not alike:
        raise UnsupportedError(f"the {what} has the shape of the pointer, {list(shape)}; got {list(before)}")
    return c.spread(value, shape)


def _only_hints(**given: Any) -> None:
    for name, value in given.items():
        if value not in (None, "", (), False):
            raise UnsupportedError(
                f"{name} takes pointers made by tl.make_block_ptr, which is not supported; use a mask"
            )


@block_function
def load(
    c: BlockCompiler,
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Any:
    """The elements at a pointer, where the mask is True; `other`, or 0, elsewhere. Hints have no effect."""
    _only_hints(boundary_check=boundary_check, padding_option=padding_option)
    offsets = places(c, pointer)
    shape, element = shape_of(offsets.type), pointer.array.element
    taken = _mask(c, mask, shape, "load")
    filled = None
    if taken is not None:
        filled = c.cast(0 if other is None else other, element)
        filled = c.builder.cast(_repeated(c, filled, shape, "other of a load"), pointer.array.memory.element)
    found = c.builder.load_block(pointer.array.memory, offsets, taken, filled)
    return c.number(c.builder.cast(found, element))


@block_function
def store(
    c: BlockCompiler,
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Writes elements at a pointer, where the mask is True. Hints have no effect."""
    _only_hints(boundary_check=boundary_check)
    offsets = places(c, pointer)
    shape, array = shape_of(offsets.type), pointer.array
    numbers = _repeated(c, c.cast(value, array.element), shape, "value of a store")
    taken = _mask(c, mask, shape, "store")
    c.mark_written(array)
    c.builder.store_block(array.memory, offsets, c.builder.cast(numbers, array.memory.element), taken)


def _atomic(c: BlockCompiler, name: str, pointer: Any, values: tuple[Any, ...], mask: Any) -> Number:
    offsets = places(c, pointer)
    shape, array = shape_of(offsets.type), pointer.array
    numbers = [_repeated(c, c.cast(each, array.element), shape, "value of an atomic operation") for each in values]
    c.mark_written(array, assigned=False)
    taken = _mask(c, mask, shape, "atomic operation")
    return c.number(c.builder.atomic_block(name, array.memory, offsets, numbers, taken))


def _atomic_function(name: str, code: str, what: str) -> Any:
    def emit(c: BlockCompiler, pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        return _atomic(c, code, pointer, (val,), mask)

    emit.__name__, emit.__doc__ = f"atomic_{name}", f"{what} at a pointer, atomically; returns the elements before."
    return block_function(emit)


atomic_add = _atomic_function("add", "add", "Adds to the elements")
atomic_max = _atomic_function("max", "max", "Takes the maximum of the elements")
atomic_min = _atomic_function("min", "min", "Takes the minimum of the elements")
atomic_and = _atomic_function("and", "and", "Takes the bitwise and of the elements")
atomic_or = _atomic_function("or", "or", "Takes the bitwise or of the elements")
atomic_xor = _atomic_function("xor", "xor", "Takes the bitwise exclusive or of the elements")
atomic_xchg = _atomic_function("xchg", "exchange", "Replaces the elements")


@block_function
def atomic_cas(c: BlockCompiler, pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """Replaces the elements at a pointer that equal `cmp`, atomically; returns the elements before."""
    return _atomic(c, "compare_exchange", pointer, (cmp, val), None)


# -- elements ---------------------------------------------------------------------------------------------------------


@block_function
def where(c: BlockCompiler, condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition is True, else `y`; both are computed."""
    kind = c.common_type(x, y)
    shape = c.common_shape(condition, x, y)
    one, other = (c.spread(c.cast(each, kind.type), shape) for each in (x, y))
    chosen = c.spread(c.cast(condition, BOOL), shape)
    return c.number(c.builder.select(chosen, one, other))


def _extreme(c: BlockCompiler, code: str, x: Any, y: Any, propagate_nan: Any) -> Number:
    kind = c.common_type(x, y)
    one, other = c.alike(kind.type, x, y)
    b = c.builder
    if kind.type.kind == "b":
        return c.number(b.compute("or" if code == "max" else "and", one, other))
    if kind.type.kind != "f":
        return c.number(b.compute(code, one, other))
    before = b.compute("gt" if code == "max" else "lt", one, other)
    before = b.compute("or", before, b.compute("isnan", one if propagate_nan else other))
    return c.number(b.select(before, one, other))


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
    return _extreme(c, "min", _extreme(c, "max", x, min, propagate_nan), max, propagate_nan)


def _floats(c: BlockCompiler, name: str, *values: Any) -> list[Value]:
    kind = c.common_type(*values)
    if kind.type.kind != "f":
        got = " and ".join(map(told, values))
        raise UnsupportedError(f"tl.{name} takes floats; got {got}; convert, as x.to(tl.float32)")
    return c.alike(kind.type, *values)


def real_function(name: str, code: str = "", n: int = 1) -> Any:
    """Makes a function of floats, an operation of `ir/`, which is also a method if it has one operand."""
    if n == 1:

        def emit(c: BlockCompiler, x: Any) -> Any:
            return c.number(c.builder.compute(code or name, *_floats(c, name, x)))

    else:

        def emit(c: BlockCompiler, x: Any, y: Any) -> Any:  # type: ignore[misc]
            return c.number(c.builder.compute(code or name, *_floats(c, name, x, y)))

    emit.__name__, emit.__doc__ = name, f"{name} of floats."
    found = block_function(emit)
    return method(found) if n == 1 else found


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
    (value,) = _floats(c, "sigmoid", x)
    powers = c.number(c.builder.compute("exp", c.builder.compute("neg", value)))
    return c.binary("/", 1.0, c.binary("+", 1.0, powers))


@block_function
def cdiv(c: BlockCompiler, x: Any, div: Any) -> Any:
    """x / div rounded up, for x >= 0 and div > 0."""
    if not isinstance(x, Number) and not isinstance(div, Number):
        return -(-x // div)
    return c.binary("//", c.binary("+", x, c.binary("-", div, 1)), div)


@block_function
def div_rn(c: BlockCompiler, x: Any, y: Any) -> Any:
    """x / y, rounded to nearest even."""
    return c.binary("/", x, y)


@block_function
def umulhi(c: BlockCompiler, x: Any, y: Any) -> Any:
    """The upper 32 bits of the product of two integers, as unsigned ones."""
    kind = c.common_type(x, y)
    if kind.type.kind not in "iu" or kind.type.bits != 32:
        raise UnsupportedError(f"tl.umulhi takes integers of 32 bits; got {told(x)} and {told(y)}")
    one, other = (c.builder.bitcast(each, UINT32) for each in c.alike(kind.type, x, y))
    return c.number(c.builder.bitcast(c.builder.compute("mul_high", one, other), kind.type))


# -- products ---------------------------------------------------------------------------------------------------------


@block_function
def dot(
    c: BlockCompiler,
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> Any:
    """The matrix product of blocks (m, k) and (k, n), added to `acc`, in float32 (int32 for integers).

    Products are exact for float16, and rounded with the sum for float32, whatever precision is asked for.
    """
    shapes = c.shape(input), c.shape(other)
    if len(shapes[0]) != 2 or len(shapes[1]) != 2 or shapes[0][1] != shapes[1][0]:
        raise UnsupportedError(f"tl.dot takes blocks of shapes (m, k) and (k, n); got {told(input)} and {told(other)}")
    kinds = c.element_type(input), c.element_type(other)
    if kinds[0] is not kinds[1] or kinds[0] is BOOL:
        raise UnsupportedError(f"tl.dot takes blocks of one dtype; got {told(input)} and {told(other)}")
    sums = scalar_of(out_dtype) if out_dtype is not None else _sums(kinds[0])
    shape = shapes[0][0], shapes[1][1]
    if acc is not None and (c.shape(acc) != shape or c.element_type(acc) is not sums):
        raise UnsupportedError(f"acc is a block of {OF_SCALAR[sums]}{list(shape)}; got {told(acc)}")
    wide = FLOAT32 if sums is FLOAT16 else sums
    start = c.builder.full(c.builder.const(0, wide), shape) if acc is None else c.builder.cast(acc.value, wide)
    return c.number(c.builder.cast(c.builder.dot(input.value, other.value, start), sums))


def _sums(kind: Scalar) -> Scalar:
    return INT32 if kind.kind in "iu" else FLOAT32 if kind.bits < 64 else kind


# -- hints and checks -------------------------------------------------------------------------------------------------


def _hint(name: str) -> Any:
    def emit(c: BlockCompiler, input: Any, values: Any = None) -> Any:
        return input

    emit.__name__, emit.__doc__ = name, "Returns its operand; the hint is not needed here."
    return block_function(emit)


multiple_of, max_contiguous, max_constancy = (
    _hint(name) for name in ("multiple_of", "max_contiguous", "max_constancy")
)


@block_function
def assume(c: BlockCompiler, cond: Any) -> None:
    """States a condition. That a scalar is not negative helps to find adjacent offsets behind a remainder."""
    comparison = cond.value if isinstance(cond, Number) else None
    if isinstance(comparison, Op) and comparison.code in ("ge", "gt"):
        value, least = comparison.args
        if not isinstance(least, Constant):
            return
        if isinstance(value.type, Scalar) and value.type.kind == "i" and int(least.value) >= 0:
            c.builder.assume_natural(value)


@block_function
def debug_barrier(c: BlockCompiler) -> None:
    """Orders the accesses of a program, which they are anyway."""


@block_function
def static_assert(c: BlockCompiler, cond: Any, msg: Any = "") -> None:
    """Raises an error at compile time if a constant condition is False."""
    if isinstance(cond, Number):
        raise UnsupportedError("tl.static_assert takes a condition known at compile time")
    if not cond:
        raise UnsupportedError(f"static assertion failed{': ' if msg else ''}{msg}")


@block_function
def static_print(c: BlockCompiler, *values: Any, sep: Any = " ", end: Any = "\n") -> None:
    """Prints constants, and the types of other values, at compile time."""
    print(*[told(each) if isinstance(each, (Number, Pointer)) else each for each in values], sep=sep, end=end)
