"""Pads blocks to lengths that are powers of two, which layouts require.

Padded elements may have any value, as no other element depends on them. Accesses, reports and histograms get a mask.
Operations that combine elements get a condition, or neutral elements.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from functools import partial, reduce

import numpy as np

from vkcompute.ir import BOOL, INT32, Constant, Function, Scalar, Value
from vkcompute.ir.function import Op, Param, Region, Result, walk
from vkcompute.ir.types import element_of
from vkcompute.tile import indexing
from vkcompute.tile.builder import Builder
from vkcompute.tile.indexing import Lengths, padded
from vkcompute.tile.types import Block, block, shape_of, typed


def pad(function: Function) -> None:
    """Rounds the lengths of all blocks up to powers of two, in place."""
    if any(_needs_padding(value) for op in walk(function.body) for value in (*_values(op), *op.args)):
        _Padding(Builder(function)).region(function.body)


def _values(op: Op) -> list[Value]:
    return [*([op] if op.has_result else []), *op.params, *op.results]


def _needs_padding(value: Value) -> bool:
    shape = shape_of(value.type)
    return padded(shape) != shape


class _Padding:
    def __init__(self, builder: Builder) -> None:
        self._b = builder
        self._lengths: dict[Value, Lengths] = {}  # before padding
        self._replaced: dict[Value, Value] = {}
        self._cleared: set[Value] = set()  # blocks whose padded elements are 0
        self._conditions: MutableMapping[tuple[Lengths, int], Value] = {}
        self._rematerialization = indexing.Rematerialization(builder, self._lengths_of)

    def region(self, region: Region) -> None:
        """Pads the blocks of a region."""
        kept: list[Op] = []
        for op in region.ops:
            op.args = tuple([self._replaced.get(arg, arg) for arg in op.args])
            for value in filter(_needs_padding, _values(op)):
                self._pad_type(value)
            for inner in op.regions:
                around, self._conditions = self._conditions, ChainMap({}, self._conditions)
                self.region(inner)
                self._conditions = around
            kept += self._made_of(op)
        region.ops = kept

    def _pad_type(self, value: Value) -> None:
        """Pads the type of a value, and notes its lengths before."""
        lengths = self._lengths[value] = shape_of(value.type)
        value.type = block(element_of(value.type), padded(lengths))
        if isinstance(value, Op) and isinstance(value.attribute, Block):
            value.attribute = value.type

    def _lengths_of(self, value: Value) -> Lengths:
        return self._lengths.get(value) or shape_of(value.type)

    def _made_of(self, op: Op) -> list[Op]:
        """Returns the operations in place of one: those before it, and itself unless one of these replaces it."""
        step = _STEPS.get(op.code)
        if step is None:
            return [op]
        replacement, before = self._b.apart(lambda: step(self, op), op.loc)
        if replacement is None:
            return [*before, op]
        self._replaced[op] = replacement
        self._lengths[replacement] = self._lengths_of(op)
        return [*before]

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _inside(self, lengths: Lengths, axes: Iterable[int] | None = None) -> Value | None:
        """Returns a mask: True for elements that are not padded along axes, by default all; None if none are padded."""
        shape = padded(lengths)
        chosen = range(len(shape)) if axes is None else axes
        conditions = [self._along(lengths, axis) for axis in chosen if shape[axis] != lengths[axis]]
        return reduce(partial(self._b.compute, "and"), conditions) if conditions else None

    def _along(self, lengths: Lengths, axis: int) -> Value:
        key = tuple(lengths), axis
        if key not in self._conditions:
            self._conditions[key] = indexing.inside(self._b, lengths, axis)
        return self._conditions[key]

    def _filled(self, value: Value, inside: Value | None, number: object) -> Value:
        """Returns a block with a number in place of its padded elements."""
        if inside is None:
            return value
        b, shape = self._b, shape_of(value.type)
        return b.select(inside, value, b.full(b.const(number, element_of(value.type)), shape))

    def _and(self, mask: Value, inside: Value) -> Value:
        return self._b.compute("and", mask, inside)

    # -- elements -----------------------------------------------------------------------------------------------------

    def _divide(self, op: Op) -> None:
        """Divides padded integers by 1: division by zero is undefined."""
        dividend, divisor = op.args
        if isinstance(op.type, Block) and element_of(op.type).kind in "iu" and not indexing.is_splat(divisor):
            op.args = dividend, self._filled(divisor, self._inside(self._lengths_of(op)), 1)

    # -- memory -------------------------------------------------------------------------------------------------------

    def _load(self, op: Op) -> None:
        inside, access, shape = self._inside(self._lengths_of(op)), op.attribute, shape_of(op.type)
        if inside is None:
            return
        offsets, *masking = op.args
        if not access.masked:
            masking = [inside, self._b.full(self._b.const(0, access.memory.element), shape)]
        else:
            masking[0] = self._and(masking[0], inside)
        op.args, op.attribute = (offsets, *masking), access._replace(masked=True)
        if _is_zero(masking[1]):
            self._cleared.add(op)

    def _mask_last(self, op: Op) -> None:
        """Masks an access or report, whose mask is its last operand."""
        inside = self._inside(self._lengths_of(op.args[0])) if op.args else None
        if inside is None:
            return
        if op.attribute.masked:
            *args, mask = op.args
            op.args = (*args, self._and(mask, inside))
        else:
            op.args = (*op.args, inside)
        op.attribute = op.attribute._replace(masked=True)

    def _histogram(self, op: Op) -> None:
        inside = self._inside(self._lengths_of(op.args[0]))
        if inside is not None:
            value, *mask = op.args
            op.args = (value, self._and(mask[0], inside) if mask else inside)

    # -- moved elements -----------------------------------------------------------------------------------------------

    def _reshape(self, op: Op) -> Value | None:
        before, after = self._lengths_of(op.args[0]), self._lengths_of(op)
        if indexing.keeps_order(before, after):
            return None
        at = indexing.before_reshape(self._b, indexing.coordinates(self._b, after), after, before)
        return self._moved(op, at)

    def _mirror(self, op: Op) -> Value | None:
        lengths = self._lengths_of(op)
        if op.attribute < indexing.unit(lengths):
            return None
        return self._moved(op, indexing.after_mirror(self._b, lengths, op.attribute))

    def _moved(self, op: Op, at: Sequence[Value]) -> Value:
        """Returns the elements of the operand at coordinates, one per element of the result."""
        (value,), b = op.args, self._b
        if self._rematerialization.supports(value):
            return self._rematerialization.at(value, at)
        shape, kind = shape_of(op.type), element_of(value.type)
        flat = b.reshape(b.cast(value, INT32) if kind is BOOL else value, (math.prod(shape_of(value.type)),))
        index = self._filled(indexing.ravel(b, at, shape_of(value.type)), self._inside(self._lengths_of(op)), 0)
        return b.cast(b.reshape(b.gather(flat, b.reshape(index, (math.prod(shape),)), 0), shape), kind)

    def _gather(self, op: Op) -> None:
        value, index = op.args
        op.args = value, self._filled(index, self._inside(self._lengths_of(op)), 0)

    # -- along axes ---------------------------------------------------------------------------------------------------

    def _dot(self, op: Op) -> None:
        """Replaces padded elements along the inner axis by zeros in both operands, as 0 times infinity is NaN."""
        left, right, sums = op.args
        op.args = self._cleared_along(left, -1), self._cleared_along(right, -2), sums

    def _cleared_along(self, value: Value, axis: int) -> Value:
        """Returns a block with zeros in place of the elements that are padded along an axis."""
        lengths = self._lengths_of(value)
        return value if value in self._cleared else self._filled(value, self._inside(lengths, [len(lengths) + axis]), 0)

    def _combine(self, op: Op) -> None:
        """Leaves padded elements out of a reduction, or of a scan from the end."""
        along, ops, lengths = op.attribute, op.regions[0].ops, self._lengths_of(op.args[0])
        is_unsafe = any(inner.regions or _may_trap(inner) for inner in ops)
        axes = [along.axis] if op.code == "reduce" or along.reverse else []
        inside = self._inside(lengths, None if is_unsafe else axes)
        if inside is None:
            return
        neutral = _neutral_elements(op)
        if neutral is not None:
            op.args = tuple([self._filled(arg, inside, number) for arg, number in zip(op.args, neutral, strict=True)])
        else:
            self._combine_flagged(op, inside, is_branch=is_unsafe)

    def _combine_flagged(self, op: Op, inside: Value, *, is_branch: bool) -> None:
        """Changes a reduction or scan: it combines elements with a flag, and the flags beside them.

        Args:
            inside: the flags of the elements.
            is_branch: True to call the function only if both elements have the flag.
        """
        b, n, (*body, end) = self._b, len(op.args), op.regions[0].ops
        ones, others, flags = op.params[:n], op.params[n:], (Param(INT32), Param(INT32))
        zero = b.const(0, INT32)
        made = Region()
        with b.into(made):
            has_one, has_both = (b.compute("ne", flag, zero) for flag in (flags[0], b.compute("and", *flags)))
            if is_branch:
                branch = b.if_(has_both)
                with branch.then:
                    branch.op.regions[0].ops += body
                    b.yield_(*end.args)
                with branch.otherwise:
                    b.yield_(*[b.select(has_one, *pair) for pair in zip(ones, others, strict=True)])
                results: Sequence[Value] = branch.results
            else:
                made.ops += body
                either = [b.select(has_one, *pair) for pair in zip(ones, others, strict=True)]
                results = [b.select(has_both, *pair) for pair in zip(end.args, either, strict=True)]
            b.yield_(*results, b.compute("or", *flags))
        shape = shape_of(op.results[0].type)
        op.args = (*op.args, b.cast(inside, INT32))
        op.params = (*ones, flags[0], *others, flags[1])
        op.results = (*op.results, Result(typed(INT32, shape)))
        op.regions = (made,)


def _is_zero(value: Value) -> bool:
    """True for a block of zeros, whose bits are 0."""
    number = value.args[0] if isinstance(value, Op) and indexing.is_splat(value) else None
    return isinstance(number, Constant) and not any(number.value.tobytes())


def _may_trap(op: Op) -> bool:
    """True for a division of integers."""
    return op.operation.may_trap and element_of(op.type).kind != "f"


def _neutral_elements(op: Op) -> list[object] | None:
    """Returns the neutral elements of the function of a reduction; None if it has none that are known."""
    n, (*ops, end) = len(op.args), op.regions[0].ops
    pairs = [{*pair} for pair in zip(op.params[:n], op.params[n:], strict=True)]
    ends = [arg for arg in end.args if isinstance(arg, Op) and arg.code in _NEUTRAL]
    if not len(ops) == len(ends) == n or any({*arg.args} != pair for arg, pair in zip(ends, pairs, strict=True)):
        return None
    neutral = [_NEUTRAL[arg.code](element_of(arg.type)) for arg in ends]
    return None if None in neutral else neutral


_NEUTRAL: dict[str, Callable[[Scalar], object]] = {
    "add": lambda kind: -0.0 if kind.kind == "f" else 0,
    "mul": lambda _: 1,
    "or": lambda _: 0,
    "xor": lambda _: 0,
    "and": lambda kind: kind is BOOL or -1,
    # Drivers differ in the lesser of a number and NaN.
    "min": lambda kind: None if kind.kind == "f" else np.iinfo(kind.name).max,
    "max": lambda kind: None if kind.kind == "f" else np.iinfo(kind.name).min,
}
"""Code -> the number that leaves another one of a type unchanged, to the bit; None if there is none."""

_STEPS: dict[str, Callable[[_Padding, Op], Value | None]] = {
    "div": _Padding._divide,
    "rem": _Padding._divide,
    "mod": _Padding._divide,
    "load_block": _Padding._load,
    "store_block": _Padding._mask_last,
    "atomic_block": _Padding._mask_last,
    "report": _Padding._mask_last,
    "histogram": _Padding._histogram,
    "reshape": _Padding._reshape,
    "mirror": _Padding._mirror,
    "gather": _Padding._gather,
    "dot": _Padding._dot,
    "reduce": _Padding._combine,
    "scan": _Padding._combine,
}
