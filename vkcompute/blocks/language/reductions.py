"""Functions of the block language along an axis: reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from vkcompute.blocks.compiler.arithmetic import describe, is_sequence
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.combination import Combination, Failure, failed
from vkcompute.blocks.compiler.complex_blocks import complex_by_parts
from vkcompute.blocks.compiler.functions import block_function, method
from vkcompute.blocks.compiler.types import scalar_of
from vkcompute.blocks.language.elementwise import emitted
from vkcompute.blocks.language.hints import fail
from vkcompute.blocks.language.shapes import checked_axis
from vkcompute.frontend.source import parameters_of
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, UINT32, Scalar, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import BFLOAT16, shape_of

_Combine = Callable[[BlockCompiler, Sequence[Value], Sequence[Value]], Sequence[Value]]


def _along(c: BlockCompiler, input: Any, axis: Any) -> tuple[Value, int]:
    """Returns a block and an axis of it, the first of the flat block for None."""
    c.element_type(input)  # which refuses pointers
    at = checked_axis(c, input, 0 if axis is None else axis)
    if axis is None:
        return c.builder.reshape(input.value, (int(np.prod(c.shape(input))),)), 0
    return input.value, at


def _along_named(c: BlockCompiler, name: str, input: Any, axis: Any) -> tuple[Value, int]:
    """Returns a block and an axis of it. Raises UnsupportedError for None in a program of users."""
    if axis is None and c.is_users():
        raise UnsupportedError(f"tl.{name} takes an axis; got None; write tl.{name} of x.ravel() with axis=0")
    return _along(c, input, axis)


def _kept(c: BlockCompiler, result: Value, input: Any, axis: Any, keep_dims: Any) -> Number:
    """Returns a result, with axes of length 1 in place of the reduced ones."""
    if keep_dims:
        shape = c.shape(input)
        kept = (
            (1,) * len(shape)
            if axis is None
            else tuple(1 if n == axis % len(shape) else s for n, s in enumerate(shape))
        )
        result = c.builder.reshape(result if shape_of(result.type) else c.builder.full(result, (1,)), kept)
    return c.number(result)


def _plain(code: str) -> _Combine:
    return lambda c, one, other: [c.builder.compute(code, one[0], other[0])]


def _extreme(code: str) -> _Combine:
    """The greater or lesser number; a NaN is left out."""
    return lambda c, one, other: [emitted(c, f"f{code}", one[0], other[0]).value]


def _promoted(kind: Scalar) -> Scalar:
    """Returns the type in which sums are computed: int32 or uint32 for narrower integers and bools."""
    if kind.kind in "iub" and kind.bits < 32:
        return INT32 if kind.kind == "i" else UINT32
    return kind


def _widened(kind: Scalar) -> Scalar:
    """Returns float32 for bfloat16, and the type itself for others."""
    return FLOAT32 if kind is BFLOAT16 else kind


def _reduced(c: BlockCompiler, input: Any, axis: Any, keep_dims: Any, combine: _Combine, wide: Any = None) -> Number:
    value, at = _along(c, input, axis)
    kind = element_of(value.type)
    value = c.builder.cast(value, wide or _promoted(kind))
    (result,) = c.builder.reduce([value], at, lambda one, other: combine(c, one, other))
    return _kept(c, result, input, axis, keep_dims)


def _reduced_bits(c: BlockCompiler, input: Any, axis: Any, keep_dims: Any, name: str, code: str) -> Number:
    """Combines integers by a bitwise operation, which keeps their type."""
    kind = c.element_type(input)
    if kind.kind not in "iub":
        raise UnsupportedError(f"tl.{name} takes integers; got {describe(input)}")
    result = _reduced(c, input, axis, keep_dims, _plain(code))
    return c.number(c.builder.cast(result.value, kind))


@complex_by_parts
@method
@block_function
def sum(c: BlockCompiler, input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Any:
    """The sums along an axis, or of all elements; of integers below 32 bits as int32 or uint32."""
    wide = None if dtype is None else scalar_of(dtype)
    return _reduced(c, input, axis, keep_dims, _plain("xor" if wide is BOOL else "add"), wide)


@method
@block_function
def xor_sum(c: BlockCompiler, input: Any, axis: Any = None, keep_dims: Any = False) -> Any:
    """The exclusive or of integers along an axis."""
    return _reduced_bits(c, input, axis, keep_dims, "xor_sum", "xor")


@method
@block_function
def reduce_or(c: BlockCompiler, input: Any, axis: Any, keep_dims: Any = False) -> Any:
    """The bitwise or of integers along an axis."""
    return _reduced_bits(c, input, axis, keep_dims, "reduce_or", "or")


def _indexed(greater: bool, left: bool) -> _Combine:
    """Combines pairs of a number and its index: the first of equal numbers, and numbers before NaN."""

    def combine(c: BlockCompiler, one: Sequence[Value], other: Sequence[Value]) -> Sequence[Value]:
        b, (x, i), (y, j) = c.builder, one, other
        wins = b.compute("gt" if greater else "lt", x, y)
        loses = b.compute("gt" if greater else "lt", y, x)
        if element_of(x.type).kind == "f":
            x_nan, y_nan = b.compute("isnan", x), b.compute("isnan", y)
            wins = b.compute("or", wins, b.compute("and", y_nan, b.compute("not", x_nan)))
            loses = b.compute("or", loses, b.compute("and", x_nan, b.compute("not", y_nan)))
        earlier = b.compute("lt" if left else "gt", i, j)
        first = b.compute("or", wins, b.compute("and", b.compute("not", loses), earlier))
        return [b.select(first, x, y), b.select(first, i, j)]

    return combine


def _with_index(
    c: BlockCompiler, input: Any, axis: Any, keep_dims: Any, *, greater: bool, left: bool
) -> tuple[Any, Any]:
    value, at = _along_named(c, "argmax" if greater else "argmin", input, axis)
    shape = shape_of(value.type)
    kind = element_of(value.type)
    value = c.builder.cast(value, _widened(_promoted(kind)))
    index = c.builder.arange(0, shape[at])
    index = c.builder.reshape(index, tuple(n if axis_ == at else 1 for axis_, n in enumerate(shape)))
    index = c.builder.broadcast(index, shape)
    combine = _indexed(greater, left)
    results = c.builder.reduce([value, index], at, lambda one, other: combine(c, one, other))
    numbers = c.builder.cast(results[0], _widened(kind))
    one, other = (_kept(c, result, input, axis, keep_dims) for result in (numbers, results[1]))
    return one, other


def _extremes(name: str, *, greater: bool) -> Any:
    def emit(
        c: BlockCompiler,
        input: Any,
        axis: Any = None,
        return_indices: Any = False,
        return_indices_tie_break_left: Any = True,
        keep_dims: Any = False,
    ) -> Any:
        if return_indices:
            left = bool(return_indices_tie_break_left)
            return _with_index(c, input, axis, keep_dims, greater=greater, left=left)
        kind = c.element_type(input)
        wide = kind if kind.bits >= 32 else FLOAT32 if kind.kind == "f" else INT32
        return _reduced(c, input, axis, keep_dims, _extreme(name), wide)

    emit.__name__, emit.__doc__ = name, f"The {name}imum along an axis, and perhaps its index; NaN is left out."
    return method(block_function(emit))


def _positions(name: str, *, greater: bool) -> Any:
    def emit(c: BlockCompiler, input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
        return _with_index(c, input, axis, keep_dims, greater=greater, left=bool(tie_break_left))[1]

    emit.__name__, emit.__doc__ = (
        name,
        f"The index of the {name[3:]}imum along an axis, of the first if several are equal.",
    )
    return method(block_function(emit))


max, min = (_extremes(name, greater=name == "max") for name in ("max", "min"))
argmax, argmin = (_positions(name, greater=name == "argmax") for name in ("argmax", "argmin"))


def _user_function(
    c: BlockCompiler, function: Any, n: int
) -> Callable[[Sequence[Value], Sequence[Value]], list[Value]]:
    """Returns the function that combines two elements of each of `n` blocks by a function of the program."""
    if callable(function) and not isinstance(function, BuiltinFunctionType):
        parameters = parameters_of(function).parameters.values()
        n_required = len([parameter for parameter in parameters if parameter.default is parameter.empty])
        if not n_required <= 2 * n <= len(parameters):
            raise UnsupportedError(
                f"elements are combined by a function of {2 * n} arguments, two per block; {function.__name__} takes "
                f"{len(parameters)}"
            )

    def combine(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        args = [c.number(value) for value in (*one, *other)]
        returned = c.called(function, args)
        results = returned if is_sequence(returned) else (returned,)
        if len(results) != n:
            raise UnsupportedError(f"the function returns {n} values, as many as it combines; got {len(results)}")
        return [c.cast(result, element_of(of.type)) for result, of in zip(results, one, strict=True)]

    return combine


def _asserted(
    c: BlockCompiler,
    values: Sequence[Value],
    build: Callable[..., Sequence[Value]],
    combine: Callable[..., list[Value]],
) -> Sequence[Value]:
    """Builds a reduction or scan whose function may have assertions.

    These hold for what it combines. Their failures are bits of one more number, and are reported with the results.
    """
    b, known = c.builder, list[Failure]()

    def noted(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        known.clear()
        outer, c.combination = c.combination, Combination(b.checkpoint()[0], known)
        try:
            return combine(one, other)
        finally:
            c.combination = outer

    def flagged(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        return [*noted(one[:-1], other[:-1]), failed(b, known, one[-1], other[-1])]

    mark = b.checkpoint()
    results = build(values, combine=noted)
    if known:
        b.rewind(mark)
        flags = b.full(b.const(0, INT32), shape_of(values[0].type))
        *results, bits = build([*values, flags], combine=flagged)
        for at, failure in enumerate(known):
            shape = shape_of(bits.type)
            bit = b.compute("and", bits, b.full(b.const(1 << at, INT32), shape))
            fail(c, failure._replace(fails=b.compute("ne", bit, b.full(b.const(0, INT32), shape))))
    return results


def _several(input: Any) -> tuple[Any, ...]:
    return tuple(input) if isinstance(input, (tuple, list)) else (input,)


@method
@block_function
def reduce(c: BlockCompiler, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Combines the elements of a block, or of a tuple of blocks, along an axis by an associative function."""
    inputs = _several(input)
    pairs = [_along(c, block, axis) for block in inputs]
    combine = _user_function(c, combine_fn, len(inputs))
    build = partial(c.builder.reduce, axis=pairs[0][1], ordered=True)
    reduced = _asserted(c, [value for value, _ in pairs], build, combine)
    results = tuple([_kept(c, result, inputs[0], axis, keep_dims) for result in reduced])
    return results if isinstance(input, (tuple, list)) else results[0]


@method
@block_function
def associative_scan(c: BlockCompiler, input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """Combines each element with those before it along an axis by an associative function."""
    inputs = _several(input)
    pairs = [_along_named(c, "associative_scan", block, axis) for block in inputs]
    combine = _user_function(c, combine_fn, len(inputs))
    build = partial(c.builder.scan, axis=pairs[0][1], reverse=bool(reverse))
    scanned = _asserted(c, [value for value, _ in pairs], build, combine)
    results = tuple(map(c.number, scanned))
    return results if isinstance(input, (tuple, list)) else results[0]


def _scanned(c: BlockCompiler, input: Any, axis: Any, reverse: Any, code: str, wide: Any = None) -> Number:
    """Combines each element with those before it, in float32 for bfloat16, and in 32 bits for narrower integers."""
    value, at = _along_named(c, "cumsum" if code == "add" else "cumprod", input, axis)
    kind, combine = element_of(value.type), _plain(code)
    value = c.builder.cast(value, wide or _widened(_promoted(kind)))
    (scanned,) = c.builder.scan([value], at, lambda one, other: combine(c, one, other), reverse=bool(reverse))
    return c.number(scanned)


@complex_by_parts
@method
@block_function
def cumsum(c: BlockCompiler, input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Any:
    """The sums of the elements up to each one along an axis; of integers below 32 bits as int32 or uint32."""
    return _scanned(c, input, axis, reverse, "add", None if dtype is None else scalar_of(dtype))


@method
@block_function
def cumprod(c: BlockCompiler, input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Any:
    """The products of the elements up to each one along an axis; those of integers have their type."""
    if dtype is not None:
        return _scanned(c, input, axis, reverse, "mul", scalar_of(dtype))
    products, kind = _scanned(c, input, axis, reverse, "mul"), c.element_type(input)
    return products if kind.kind == "f" else c.number(c.builder.cast(products.value, kind))


@method
@block_function
def softmax(c: BlockCompiler, x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Any:
    """The exponentials along an axis, the first by default, divided by their sum."""
    axis = 0 if dim is None else dim
    if c.element_type(x).kind != "f":
        raise UnsupportedError(f"tl.softmax takes floats; got {describe(x)}")
    x = x if c.element_type(x).bits >= 32 else c.number(c.builder.cast(x.value, FLOAT32))
    largest = _reduced(c, x, axis, True, _extreme("max"))
    powers = c.number(c.builder.compute("exp", c.binary("-", x, largest).value))
    return c.binary("/", powers, _reduced(c, powers, axis, True, _plain("add")))
