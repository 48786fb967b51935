"""Coordinates of elements, of blocks whose lengths are padded to powers of two: one block of int32 per axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce

from vkcompute.ir import INT32, Value
from vkcompute.ir.function import Op
from vkcompute.ir.operations import OPERATIONS
from vkcompute.ir.types import element_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.types import shape_of

Lengths = Sequence[int]
"""The lengths of the axes of a block before it is padded."""


def padded(lengths: Lengths) -> tuple[int, ...]:
    """Returns the lengths, rounded up to powers of two."""
    return tuple([1 << (n - 1).bit_length() for n in lengths])


def spread(b: Builder, along: Value, axis: int, shape: tuple[int, ...]) -> Value:
    """Broadcasts a block of one axis, which is `axis` of the shape."""
    kept = tuple([n if at == axis else 1 for at, n in enumerate(shape)])
    return b.broadcast(b.reshape(along, kept), shape)


def coordinates(b: Builder, lengths: Lengths) -> list[Value]:
    """Returns the coordinates of the elements of a block."""
    shape = padded(lengths)
    return [spread(b, b.arange(0, n), axis, shape) for axis, n in enumerate(shape)]


def inside(b: Builder, lengths: Lengths, axis: int) -> Value:
    """Returns a mask: True for the elements of a block that are not padded along an axis.

    Adjacent elements share the condition as far as powers of two divide the length: then wide accesses need only one.
    """
    n, shape = lengths[axis], padded(lengths)
    alike = n & -n
    size = shape[axis] // alike
    inside = b.compute("lt", b.arange(0, size), _filled(b, n // alike, (size,)))
    inside = b.reshape(b.broadcast(b.reshape(inside, (size, 1)), (size, alike)), (size * alike,))
    return spread(b, inside, axis, shape)


def keeps_order(before: Lengths, after: Lengths) -> bool:
    """True if a change of shape keeps the row-major order of the padded elements: only first axes are padded."""
    return all(
        len(source) == len(wanted) == 1
        or all(n & n - 1 == 0 for n in (*[before[at] for at in source[1:]], *[after[at] for at in wanted[1:]]))
        for source, wanted in _groups(before, after)
    )


def unit(lengths: Lengths) -> int:
    """Returns the largest power of two n such that of every n adjacent elements none or all are padded."""
    result = 1
    for n in reversed(lengths):
        result *= n & -n
        if n & n - 1:
            break
    return result


def before_reshape(b: Builder, at: Sequence[Value], after: Lengths, before: Lengths) -> list[Value]:
    """Returns the coordinates, before a change of shape, of elements with the coordinates `at` after it."""
    shape = shape_of(at[0].type)
    index = [_filled(b, 0, shape)] * len(before)
    for source, wanted in _groups(before, after):
        if [before[axis] for axis in source] == [after[axis] for axis in wanted]:
            for axis, other in zip(source, wanted, strict=True):
                index[axis] = at[other]
            continue
        of_group = ravel(b, [at[axis] for axis in wanted], [after[axis] for axis in wanted])
        for axis, coordinate in zip(source, _unravel(b, of_group, [before[axis] for axis in source]), strict=True):
            index[axis] = coordinate
    return index


def ravel(b: Builder, at: Sequence[Value], lengths: Lengths) -> Value:
    """Returns the row-major indices of elements, as `np.ravel_multi_index`."""
    shape = shape_of(at[0].type)
    return reduce(
        lambda index, axis: b.compute("add", b.compute("mul", index, _filled(b, lengths[axis], shape)), at[axis]),
        range(1, len(at)),
        at[0],
    )


def after_mirror(b: Builder, lengths: Lengths, mask: int) -> list[Value]:
    """Returns the coordinates from which a mirrored block takes its elements."""
    shape = padded(lengths)
    return _unravel(b, b.compute("xor", ravel(b, coordinates(b, lengths), lengths), _filled(b, mask, shape)), lengths)


def _unravel(b: Builder, indices: Value, lengths: Lengths) -> list[Value]:
    """Returns the coordinates of elements with row-major indices, as `np.unravel_index`."""
    shape, rests = shape_of(indices.type), list[Value]()
    for n in reversed(lengths[1:]):
        rests.append(b.compute("rem", indices, _filled(b, n, shape)))
        indices = b.compute("div", indices, _filled(b, n, shape))
    return [indices, *reversed(rests)]


def _filled(b: Builder, value: int, shape: tuple[int, ...]) -> Value:
    return b.full(b.const(value, INT32), shape)


def _groups(before: Lengths, after: Lengths) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the axes of two shapes whose lengths have the same product, as few as possible, but none of length 1."""
    left, right = ([axis for axis, n in enumerate(lengths) if n > 1] for lengths in (before, after))
    while left:
        source, wanted = [left.pop(0)], [right.pop(0)]
        while (n := math.prod([before[at] for at in source])) != (m := math.prod([after[at] for at in wanted])):
            (source if n < m else wanted).append((left if n < m else right).pop(0))
        yield source, wanted


class Rematerialization:
    """Rematerializes elements of blocks that are made of indices and scalars, at other coordinates.

    Args:
        lengths: returns the lengths of a block before it is padded.
    """

    def __init__(self, builder: Builder, lengths: Callable[[Value], Lengths]) -> None:
        self._b, self._lengths = builder, lengths
        self._known: dict[Value, bool] = {}

    def supports(self, value: Value) -> bool:
        """True if the elements of a block can be rematerialized."""
        if value not in self._known:
            self._known[value] = isinstance(value, Op) and (
                value.code in ("arange", "splat")
                or ((value.code in _SHAPES or _is_elementwise(value)) and all(map(self.supports, value.args)))
            )
        return self._known[value]

    def at(self, value: Value, at: Sequence[Value]) -> Value:
        """Returns the elements, at coordinates, of a block that this supports."""
        return self._found(value, tuple(at), {})

    def _found(self, value: Value, at: tuple[Value, ...], known: dict[object, Value]) -> Value:
        if (value, at) not in known:
            known[value, at] = self._computed(value, at, known)
        return known[value, at]

    def _computed(self, op: Value, at: tuple[Value, ...], known: dict[object, Value]) -> Value:
        assert isinstance(op, Op)
        b, shape, args = self._b, shape_of(at[0].type), op.args
        if op.code == "arange":
            return at[0]
        if op.code == "splat":
            return b.full(args[0], shape)
        if op.code in _SHAPES:
            return self._found(args[0], self._source(op, at), known)
        operands = [self._found(arg, at, known) for arg in args]
        if op.code in ("cast", "bitcast"):
            return (b.cast if op.code == "cast" else b.bitcast)(operands[0], element_of(op.type))
        return b.select(*operands) if op.code == "select" else b.compute(op.code, *operands)

    def _source(self, op: Op, at: tuple[Value, ...]) -> tuple[Value, ...]:
        """Returns the coordinates in the operand of a change of shape."""
        before = self._lengths(op.args[0])
        if op.code == "reshape":
            return tuple(before_reshape(self._b, at, self._lengths(op), before))
        if op.code == "permute":
            return tuple([at[op.attribute.index(axis)] for axis in range(len(before))])
        first = _filled(self._b, 0, shape_of(at[0].type))
        return tuple([first if n == 1 else coordinate for n, coordinate in zip(before, at, strict=True)])


_SHAPES = "reshape", "broadcast", "permute"


def _is_elementwise(op: Op) -> bool:
    """True for element-wise operations that padded elements may execute: of divisions, those by a scalar."""
    row = OPERATIONS.get(op.code)
    if row is None or (row.may_trap and not is_splat(op.args[1])):
        return False
    return row.arity is not None or op.code in ("cast", "bitcast", "select")


def is_splat(value: Value) -> bool:
    """True for a block made of one scalar."""
    return isinstance(value, Op) and value.code == "splat"
