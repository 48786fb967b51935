"""Builds a function of blocks operation by operation, and functions of elements of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from vkcompute import ir
from vkcompute.errors import IrError
from vkcompute.ir import INT32, Memory, Value
from vkcompute.ir.elimination import remove_unused
from vkcompute.ir.function import Op, Param, Region, Result, walk
from vkcompute.ir.types import Scalar, SmallFloat, Type, element_of
from vkcompute.operations import Element, Emitter
from vkcompute.tile.operations import BlockOp, elementwise_type
from vkcompute.tile.types import Block, block, shape_of, typed

Built = TypeVar("Built")
Combine = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
"""Combines two tuples of scalars to one."""


class Access(NamedTuple):
    """The attribute of a load or store.

    Attributes:
        memory: the array.
        masked: True if there is a mask.
        name: of an atomic operation (ir/atomics.py), or "compare_exchange".
    """

    memory: Memory
    masked: bool = False
    name: str = ""


class Report(NamedTuple):
    """The attribute of a report to the host, one per element of a block that the mask selects.

    Attributes:
        text: format string of the program along each axis, the element's index along each axis, and its values.
        masked: True if the last operand is a mask.
        fails: True if the launch fails; False if the text is printed.
    """

    text: str
    masked: bool
    fails: bool


class Along(NamedTuple):
    """The attribute of a reduction or scan.

    Attributes:
        axis: along which elements are combined.
        reverse: True for a scan from the end.
        ordered: True for a reduction by a function that is not known to be commutative.
    """

    axis: int
    reverse: bool = False
    ordered: bool = False


class Staged(NamedTuple):
    """The attribute of blocks that enter workgroup memory.

    Attributes:
        axes: of each block, along which it is cut.
        piece: the number of the piece that enters.
        n_pieces: the pieces of a block.
    """

    axes: tuple[int, ...]
    piece: int
    n_pieces: int


class Builder(ir.Builder):
    """Appends operations on scalars and blocks; an operation of `ir/` applies to each element of blocks.

    The lengths of a shape are positive: others raise ValueError. Operands of unlike shapes, where an operation takes
    alike ones, raise IrError, and so does an axis that a block does not have.
    """

    @property
    def reachable(self) -> bool:
        """True if control can reach the next operation to be appended."""
        ops = self.checkpoint()[0].ops
        return bool(ops and ops[-1].code in ("reduce", "scan")) or super().reachable

    def apart(self, build: Callable[[], Built], loc: object) -> tuple[Built, Sequence[Op]]:
        """Returns what a function builds, and the operations that it appends, which are in no region."""
        region = Region()
        with self.into(region), self.at(loc):
            result = build()
        return result, region.ops[:-1]

    # -- elements -----------------------------------------------------------------------------------------------------

    def compute(self, code: str, *args: Value) -> Value:
        """An operation on each element, as of numbers.

        Raises:
            IrError: the elements are floats of 8 bits, which are converted, moved and multiplied as matrices only.
        """
        kind = element_of(args[0].type)
        if isinstance(kind, SmallFloat) and kind.bits == 8 and code != "abs":
            raise IrError(f"{code} does not take floats of 8 bits; convert them, as x.to(tl.float16)")
        return super().compute(code, *args)

    def full(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A block whose elements are all this scalar."""
        return self._block("splat", (value,), block(element_of(value.type), shape)) if shape else value

    def arange(self, start: int, stop: int) -> Value:
        """The ints from `start` to before `stop`, int32."""
        indices = self._block("arange", (), block(INT32, (stop - start,)))
        return self.compute("add", indices, self.full(self.const(start, INT32), (stop - start,))) if start else indices

    def select(self, condition: Value, one: Value, other: Value) -> Value:
        """`one` where the condition is True, else `other`."""
        if isinstance(one.type, Block) and not isinstance(condition.type, Block):
            condition = self.full(condition, one.type.shape)
        return super().select(condition, one, other)

    def cast(self, value: Value, kind: Type) -> Value:
        """Converts the elements; a scalar kind keeps the shape of a block."""
        return super().cast(value, typed(element_of(kind), shape_of(value.type)))

    def bitcast(self, value: Value, kind: Type) -> Value:
        """The same bits as another type; a scalar kind keeps the shape of a block."""
        return super().bitcast(value, typed(element_of(kind), shape_of(value.type)))

    # -- shapes -------------------------------------------------------------------------------------------------------

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The same elements, in row-major order, in another shape.

        Raises:
            IrError: the shape has another number of elements.
        """
        before = shape_of(value.type)
        if math.prod(before) != math.prod(shape):
            raise IrError(f"reshape keeps the number of elements; got the shapes {before} and {shape}")
        return self._shaped("reshape", value, shape)

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Repeats a scalar, or a block with as many axes along those of length 1."""
        if not isinstance(value.type, Block):
            return self.full(value, shape)
        alike = len(value.type.shape) == len(shape) and all(
            one in (1, other) for one, other in zip(value.type.shape, shape, strict=False)
        )
        if not alike:
            raise IrError(f"a block of shape {value.type.shape} does not broadcast to {shape}")
        return self._shaped("broadcast", value, shape)

    def permute(self, value: Value, order: tuple[int, ...]) -> Value:
        """Reorders the axes."""
        before = shape_of(value.type)
        if sorted(order) != [*range(len(before))]:
            raise IrError(f"permute takes each axis of {value.type} once; got {order}")
        if order == tuple(range(len(before))):
            return value
        kind = block(element_of(value.type), tuple([before[axis] for axis in order]))
        return self._add(BlockOp("permute", kind, (value,), order, (), self._loc))

    def _shaped(self, code: str, value: Value, shape: tuple[int, ...]) -> Value:
        if shape_of(value.type) == shape:
            return value
        return self._block(code, (value,), block(element_of(value.type), shape))

    def mirror(self, value: Value, mask: int) -> Value:
        """Moves elements: that with number k, in row-major order, is the operand's with number k ^ mask.

        Raises:
            IrError: k ^ mask may be the number of no element.
        """
        n = math.prod(shape_of(value.type))
        if not 0 <= mask < n & -n:
            raise IrError(
                f"mirror takes masks of 0 to {(n & -n) - 1} for {value.type}, as {n & -n} is the greatest power of two "
                f"that divides its {n} elements; got {mask}; gather others"
            )
        return self._add(BlockOp("mirror", value.type, (value,), mask, (), self._loc)) if mask else value

    def gather(self, value: Value, index: Value, axis: int) -> Value:
        """The elements at the indices along an axis, as numpy.take_along_axis; indices are within the axis."""
        _check_axis("gather", value, axis)
        shapes = [list(shape_of(operand.type)) for operand in (value, index)]
        rests = [[*shape[:axis], *shape[axis + 1 :]] for shape in shapes]
        if rests[0] != rests[1] or len(shapes[0]) != len(shapes[1]):
            raise IrError(
                f"gather takes indices of the block's shape but along axis {axis}; got {value.type} and {index.type}"
            )
        kind = block(element_of(value.type), shape_of(index.type))
        return self._add(BlockOp("gather", kind, (value, index), axis, (), self._loc))

    def histogram(self, value: Value, n_bins: int, mask: Value | None = None) -> Value:
        """Counts the elements of a block of int32 that equal 0, 1, ... n_bins - 1, those under a mask, as int32."""
        args = (value,) if mask is None else (value, mask)
        return self._add(BlockOp("histogram", block(INT32, (n_bins,)), args, None, (), self._loc))

    # -- memory -------------------------------------------------------------------------------------------------------

    def load_block(
        self, memory: Memory, offsets: Value, mask: Value | None = None, other: Value | None = None
    ) -> Value:
        """Reads the elements at offsets, those under a mask; `other`, or 0, elsewhere."""
        shape = shape_of(offsets.type)
        _check_alike("load_block", offsets, mask, other)
        given = () if mask is None else (mask, other or self.full(self.const(0, memory.element), shape))
        kind = typed(memory.element, shape)
        return self._add(
            BlockOp("load_block", kind, (offsets, *given), Access(memory, mask is not None), (), self._loc)
        )

    def store_block(self, memory: Memory, offsets: Value, value: Value, mask: Value | None = None) -> None:
        """Writes elements at offsets, those under a mask."""
        _check_alike("store_block", offsets, value, mask)
        args = (offsets, value) if mask is None else (offsets, value, mask)
        self._add(BlockOp("store_block", None, args, Access(memory, mask is not None), (), self._loc))

    def atomic_block(
        self, name: str, memory: Memory, offsets: Value, values: Sequence[Value], mask: Value | None = None
    ) -> Value:
        """Combines elements atomically; returns the values before, 0 where the mask is False."""
        _check_alike("atomic_block", offsets, *values, mask)
        args = (offsets, *values) if mask is None else (offsets, *values, mask)
        kind = typed(memory.element, shape_of(offsets.type))
        return self._add(BlockOp("atomic_block", kind, args, Access(memory, mask is not None, name), (), self._loc))

    # -- along axes ---------------------------------------------------------------------------------------------------

    def reduce(
        self, values: Sequence[Value], axis: int, combine: Combine, *, ordered: bool = False
    ) -> tuple[Value, ...]:
        """Combines the elements along an axis, which is removed, by an associative function.

        Args:
            ordered: True to combine elements in their order, as needed by a function that is not commutative. One that
                is seen to be so combines them in any order.
        """
        shape = shape_of(values[0].type)
        rest = (*shape[:axis], *shape[axis + 1 :])
        return self._along("reduce", values, rest, Along(axis, ordered=ordered), combine)

    def scan(self, values: Sequence[Value], axis: int, combine: Combine, *, reverse: bool = False) -> tuple[Value, ...]:
        """Combines each element with those before it along an axis, by an associative function."""
        return self._along("scan", values, shape_of(values[0].type), Along(axis, reverse), combine)

    def _along(
        self, code: str, values: Sequence[Value], shape: tuple[int, ...], along: Along, combine: Combine
    ) -> tuple[Value, ...]:
        _check_alike(code, *values)
        _check_axis(code, values[0], along.axis)
        region = Region()
        op = BlockOp(code, None, tuple(values), along, (region,), self._loc)
        kinds = [element_of(value.type) for value in values]
        op.params = tuple(Param(kind) for kind in (*kinds, *kinds))
        with self.into(region):
            results = combine(op.params[: len(kinds)], op.params[len(kinds) :])
            if [result.type for result in results] != kinds:
                got = ", ".join(str(result.type) for result in results)
                raise IrError(
                    f"the function of a {code} returns what it takes, {', '.join(map(str, kinds))}; got {got}"
                )
            self.yield_(*results)
        remove_unused(region)
        if along.ordered and _commutes(region, op.params):
            op.attribute = along._replace(ordered=False)
        if any(isinstance(inner, BlockOp) for inner in walk(region)):
            raise IrError(f"the function of a {code} combines numbers, and has no blocks; make them before the {code}")
        op.results = tuple(Result(typed(kind, shape)) for kind in kinds)
        self._add(op)
        return op.results

    def dot(self, one: Value, other: Value, start: Value) -> Value:
        """The products of matrices (…, m, k) and (…, k, n), added to a block (…, m, n) of the type of the sums."""
        (*stack, m, k), (*other_stack, inner, n) = shape_of(one.type), shape_of(other.type)
        if inner != k or stack != other_stack or shape_of(start.type) != (*stack, m, n):
            got = f"{one.type}, {other.type} and {start.type}"
            raise IrError(f"dot takes (…, m, k), (…, k, n) and (…, m, n); got {got}")
        return self._add(BlockOp("dot", start.type, (one, other, start), None, (), self._loc))

    def stage(self, values: Sequence[Value], axes: Sequence[int], piece: int, n_pieces: int) -> tuple[Value, ...]:
        """Writes a piece of each block along its axis to workgroup memory; `part` reads it until the next exchange."""
        op = BlockOp("stage", None, tuple(values), Staged(tuple(axes), piece, n_pieces), (), self._loc)
        shapes = [list(shape_of(value.type)) for value in values]
        for shape, axis in zip(shapes, axes, strict=True):
            shape[axis] //= n_pieces
        kinds = [block(element_of(value.type), tuple(shape)) for value, shape in zip(values, shapes, strict=True)]
        op.results = tuple(map(Result, kinds))
        self._add(op)
        return op.results

    def part(self, staged: Value, number: Value, axis: int, n: int) -> Value:
        """The elements of a staged block from index `number * n` to `number * n + n` along an axis."""
        shape = list(shape_of(staged.type))
        shape[axis] = n
        kind = block(element_of(staged.type), tuple(shape))
        return self._add(BlockOp("part", kind, (staged, number), axis, (), self._loc))

    def report(self, text: str, values: Sequence[Value], mask: Value | None = None, *, fails: bool = False) -> None:
        """Prints values of one shape on the host, or fails the launch, for each element under a mask; see `Report`."""
        args = (*values, *(() if mask is None else (mask,)))
        self._add(BlockOp("report", None, args, Report(text, mask is not None, fails), (), self._loc))

    def assume_natural(self, value: Value) -> None:
        """States that an integer is not negative; the program is undefined where it is."""
        self._add(BlockOp("assume", None, (value,), None, (), self._loc))

    # -- internals ----------------------------------------------------------------------------------------------------

    def _block(self, code: str, args: tuple[Value, ...], kind: Block) -> Value:
        return self._add(BlockOp(code, kind, args, kind, (), self._loc))

    def _value(self, code: str, args: Sequence[Value], attribute: Any = None) -> Value:
        kinds = [value.type for value in args]
        if not any(isinstance(kind, Block) for kind in kinds):
            return self._scalar(code, args, attribute)
        kind = elementwise_type(code, kinds, attribute)
        folded = self._folded(code, args, attribute)
        if folded is not None:
            return self.full(folded, shape_of(kind))
        return self._add(BlockOp(code, kind, tuple(args), attribute, (), self._loc))

    def _folded(self, code: str, args: Sequence[Value], attribute: Any) -> Value | None:
        """Returns the scalar of which all elements are the result, if all operands are such."""
        scalars = [value.args[0] for value in args if isinstance(value, BlockOp) and value.code == "splat"]
        if len(scalars) < len(args):
            return None
        of = element_of(attribute) if isinstance(attribute, Block) else attribute
        return self._scalar(code, scalars, of)

    def _scalar(self, code: str, args: Sequence[Value], attribute: Any) -> Value:
        kinds = attribute, *[value.type for value in args]
        if any(isinstance(kind, SmallFloat) for kind in kinds):  # constants are not folded, as each is rounded
            return self._append(code, args, attribute)
        return super()._value(code, args, attribute)


def _check_alike(code: str, *values: Value | None) -> None:
    """Raises IrError for operands of unlike shapes."""
    kinds = [value.type for value in values if value is not None]
    if len({shape_of(kind) for kind in kinds}) > 1:
        raise IrError(f"{code} takes operands of one shape; got {', '.join(map(str, kinds))}")


def _check_axis(code: str, value: Value, axis: int) -> None:
    """Raises IrError for an axis that a block does not have."""
    n = len(shape_of(value.type))
    if not 0 <= axis < n:
        raise IrError(f"{code} takes axes from 0 to {n - 1} of {value.type}; got {axis}")


def _commutes(region: Region, params: Sequence[Value]) -> bool:
    """True if a function combines each pair of its operands by a commutative operation, and does nothing else."""
    *ops, end = region.ops
    pairs = [*zip(params, params[len(params) // 2 :], strict=False)]
    counts = [_n_combining(result, pair) for result, pair in zip(end.args, pairs, strict=True)]
    return all(counts) and sum(counts) == len(ops)


def _n_combining(result: Value, pair: tuple[Value, Value]) -> int:
    """Returns the number of operations of a commutative function of a pair; 0 for another function."""
    if not isinstance(result, Op):
        return 0
    if result.operation.commutative and {*result.args} == {*pair}:
        return 1
    return 4 if result.code == "select" and {*result.args[1:]} == {*pair} and _prefers_numbers(*result.args) else 0


def _prefers_numbers(is_first: Value, first: Value, second: Value) -> bool:
    """True for the condition of an extreme that leaves NaN out: `first > second`, or `second` is NaN."""
    if not isinstance(is_first, Op) or is_first.code != "or":
        return False
    wins, is_nan = is_first.args
    return (
        isinstance(wins, Op)
        and isinstance(is_nan, Op)
        and (wins.code in ("gt", "lt") and is_nan.code == "isnan")
        and (wins.args == (first, second) and is_nan.args == (second,))
    )


class BlockEmitter(Emitter):
    """Builds functions of the elements of blocks of one shape; () for scalars."""

    def __init__(self, builder: Builder, shape: tuple[int, ...]) -> None:
        super().__init__(builder)
        self._builder, self._shape = builder, shape

    def constant(self, number: Any, kind: Scalar) -> Any:
        """Returns a block of a number."""
        return self._builder.full(self._builder.const(number, kind), self._shape)

    def spread(self, x: Element) -> Element:
        """Repeats a scalar."""
        return x if shape_of(x.value.type) else Element(self, self._builder.full(x.value, self._shape))
