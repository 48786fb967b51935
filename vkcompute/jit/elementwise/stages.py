"""Stages of a reduction: their sizes and programs.

A stage reduces (n_rows, n, n_columns) elements to (n_rows, n_chunks, n_columns), in row-major order. Long rows take
several stages.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import copy
from functools import partial, reduce
from typing import Any, NamedTuple

from vkcompute.compiled.block_access import SINGLE, BlockAccess, ElementBlock
from vkcompute.ir import INT32, SCALARS, UINT32, Scalar
from vkcompute.jit.compilation.build import Signature
from vkcompute.jit.elementwise import reduction_methods
from vkcompute.jit.elementwise.broadcasting import Mask
from vkcompute.jit.elementwise.program import MOST_COST, Body, Formula, UnoptimizedKernel, cost, result
from vkcompute.jit.elementwise.reduction_methods import (
    BLOCKS,
    IDENTITY,
    LANES,
    METHODS,
    MOST_COPIED_COST,
    PADDING,
    REGISTERS,
    TILE,
    UNIT,
    WHOLE,
    WIDTH,
    kernel_sources,
    method_for,
)
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.frontend.values import Kind, Number


class StagePattern(NamedTuple):
    """The pattern of a stage's kernel.

    Attributes:
        method: name of its row in METHODS.
        end: the end of each row, such as WHOLE.
        last: True for the last stage, which adds the initial value.
        block: the elements that are loaded together: in a row, or in adjacent columns.
        axis: the one to reduce if an array is repeated along some axes; None if several axes are reduced as one.
    """

    method: str
    end: str
    last: bool
    block: ElementBlock
    axis: int | None = None


class Stage(NamedTuple):
    """A stage that reduces (n_rows, n, n_columns) elements to (n_rows, n_chunks, n_columns).

    Attributes:
        method: name of its row in METHODS.
    """

    method: str
    n_rows: int
    n: int
    n_columns: int

    def form(self, block: ElementBlock, lengths: Sequence[int] = (), *, last: bool) -> StagePattern:
        """Returns the pattern of the kernel for arrays that these blocks fit; single elements where they do not.

        Args:
            lengths: lengths of the axes except the first, if an array is repeated along some axes.
        """
        if self.method == "interleaved":
            block = block._replace(size=min(block.size, UNIT))
        padded = self.n_rows == self.n_columns == 1 and self.n % block.size != 0
        if not padded:
            block = block.dividing(self.n if self.n_columns == 1 else self.n_columns)
        end = WHOLE if self.n % self.chunk == 0 else PADDING if padded else BLOCKS
        if self.method == "interleaved":
            end = PADDING if self.n % UNIT else WHOLE
        elif self.method == "wide":
            end = BLOCKS
        return StagePattern(self.method, end, last, block, self._axis(lengths) if block.size > 1 else None)

    def _axis(self, lengths: Sequence[int]) -> int | None:
        """Returns the axis that the stage reduces; None if it is not one. An empty axis counts as one element."""
        n_columns, total = 1, self.n_rows * self.n * self.n_columns
        for axis in range(len(lengths), -1, -1):
            n = (lengths[axis - 1] or 1) if axis else total // n_columns
            if n_columns == self.n_columns:
                return axis if n == self.n and lengths else None
            n_columns *= n
        return None

    @property
    def chunk(self) -> int:
        """Number of elements that become one."""
        return METHODS[self.method].chunk

    @property
    def pushes(self) -> tuple[int, int, int, int]:
        """Push constants of the kernel for single elements: n_results, n, n_chunks, n_columns."""
        n_chunks = -(-self.n // TILE) * LANES if self.method == "interleaved" else -(-self.n // self.chunk)
        return self.n_rows * n_chunks * self.n_columns, self.n, n_chunks, self.n_columns

    def in_blocks(self, size: int) -> tuple[int, tuple[int, int, int, int]]:
        """Returns the number of workgroups and the push constants if invocations have results of `size` columns.

        An invocation of a wide stage may have fewer, so that n_results is the number of invocations.
        """
        n_results, n, n_chunks, n_columns = self.pushes
        if self.method == "wide":
            n_results = self.n_rows * n_chunks * -(-n_columns // (LANES * size)) * LANES
            return -(-n_results // WIDTH), (n_results, n, n_chunks, n_columns)
        n_results //= size
        return -(-n_results // METHODS[self.method].n_results), (n_results, n, n_chunks, n_columns // size)


def stages(n_rows: int, n: int, n_columns: int, *, cooperative: bool, commutes: bool = False) -> list[Stage]:
    """Returns the stages that reduce (n_rows, n, n_columns) elements, n > 0, to (n_rows, n_columns).

    Args:
        cooperative: True to let workgroups reduce long contiguous rows.
        commutes: True if elements may be combined in any order, and the initial value is neutral.
    """
    planned: list[Stage] = []
    while not planned or n > 1:
        method = method_for(n, n_columns, cooperative=cooperative, commutes=commutes)
        planned.append(Stage(method, n_rows, n, n_columns))
        n = planned[-1].pushes[2]
    return planned


def stage_program(
    combine: Formula,
    initial: Any,
    map_formula: Formula,
    real: Scalar,
    dtype: str | None,
    signature: Signature,
    masks: tuple[Mask, ...],
    form: StagePattern,
    wanted: str | None,
    more: Signature = (),
    *,
    finish: Formula | None = None,
) -> UnoptimizedKernel:
    """Builds the kernel of a stage.

    Its arguments are the arrays, the result, the numbers, those of `finish`, the lengths of the broadcast axes except
    the first, and n_results, n, n_chunks and n_columns of the stage.

    Args:
        combine: the function of two elements.
        map_formula: the function that is applied to the elements first.
        real: the type of Python floats.
        dtype: the dtype in which elements are combined; None for their common type.
        form: the pattern; a function that computes more than it loads gets single elements.
        wanted: the dtype of the result; None for that in which elements are combined.
        more: the types of the numbers of `finish`.
        finish: the function of a result and of these numbers that the last stage applies; None if it applies none.
    """
    body, pair = Body(map_formula, signature, masks, more), Body(combine, (), ())
    method, end, last, block, axis = form
    ending = Body(finish, (), ()) if finish is not None and last else None
    kind = SCALARS[dtype] if dtype else _kind(body, pair, initial, real)
    most_cost = MOST_COPIED_COST if method in ("interleaved", "wide") else MOST_COST
    costs_much = (block.size > 1 or method == "wide") and _cost(body, pair, kind, real) > most_cost
    block, kernel = SINGLE if costs_much else block, METHODS[method].kernel
    columns, stored = (
        kernel in (reduction_methods.columns, reduction_methods.wide) and block.size > 1,
        SCALARS[wanted] if wanted else kind,
    )
    spread = 1 if costs_much else max(REGISTERS // (block.size * max(kind.bits // 32, 1)), 1)
    c = body.compiler(WIDTH, real)
    c.evaluator.sources |= {
        **kernel_sources(),
        **IDENTITY.sources,
        **combine.sources,
        **(finish.sources if finish else {}),
    }
    load = body.block_arguments(c, block, axis) if block.size > 1 else []
    arguments = [] if load else body.arguments(c)
    out: Any = BlockAccess(c.function, "out", stored, block, is_result=True) if columns else result(c, stored.name)
    loads = [load, *[[copy(argument) for argument in load] for _ in range(1, max(spread, UNIT))]]

    def elements(c: Compiler, offset: Any, steps: Any = None, which: int = 0) -> list[Number]:
        """Returns the elements of a block: the first of the invocation, or the one so many elements behind it.

        Args:
            which: number of the block, if an invocation steps through several.
        """
        at = c.cast(offset, UINT32)
        if not load:
            return [body.typed(c, body.at(c, arguments, at), kind)]
        if kernel is not reduction_methods.columns:
            at = c.builder.compute("div", at, c.builder.const(block.size, UINT32))
        loaded = [arg.first(at) if steps is None else arg.next(at, c.cast(steps, UINT32)) for arg in loads[which]]
        return [body.typed(c, body.call(c, *row), kind) for row in zip(*loaded, strict=True)]

    def begin(c: Compiler, offset: Any, count: Any) -> Any:
        numbers = elements(c, offset)
        return tuple(numbers) if columns else extended(c, numbers[0], numbers[1:], count)

    def extend(c: Compiler, value: Any, offset: Any, steps: Any, count: Any) -> Any:
        numbers = elements(c, offset, steps)
        if columns:
            return merged(c, value, numbers)
        return extended(c, combined(c, value, numbers[0]), numbers[1:], count)

    def extended(c: Compiler, value: Number, others: list[Number], count: Any) -> Number:
        """Combines a value with the elements of a block after the first; from number `count` on they are padding."""
        for k, other in enumerate(others, 1):
            inside, longer = c.compare("<", k, count), combined(c, value, other)
            value = longer if inside is True else c.where(inside, longer, value)
        return value

    def combined(c: Compiler, one: Number, other: Number) -> Number:
        number: Number = pair.typed(c, pair.call(c, one, other), kind)
        return number

    def merged(c: Compiler, some: Sequence[Number], others: Sequence[Number]) -> tuple[Number, ...]:
        return tuple([combined(c, *two) for two in zip(some, others, strict=True)])

    def neutral(c: Compiler) -> Number:
        number: Number = pair.typed(c, initial, kind)
        return number

    def units(c: Compiler, values: Any, offset: Any, steps: Any, count: Any, n: int) -> Any:
        """Returns values combined with `n` units, LANES units apart; from number `count` on elements are padding.

        Without values, it finds the places from which the units are counted.
        """
        partial_unit = end == PADDING and count is not UNIT

        def unit(offset: Any, steps: Any) -> list[Number]:
            numbers = elements(c, offset, steps)
            for k in range(block.size, UNIT, block.size):
                at = c.binary("+", offset, k)
                at = c.where(c.compare("<", k, count), at, offset) if partial_unit else at
                numbers += elements(c, at, steps, k)
            return numbers

        if values is None:
            unit(offset, None)
            return (neutral(c),) * UNIT
        for number in range(n):
            beyond = number * LANES * UNIT
            longer = merged(c, values, unit(c.binary("+", offset, beyond), c.binary("+", steps, beyond)))
            if partial_unit:
                longer = tuple([c.where(c.compare("<", k, count), longer[k], values[k]) for k in range(UNIT)])
            values = longer
        return values

    def total(c: Compiler, values: Sequence[Number]) -> Number:
        """Combines the elements of a unit as single elements are: one after the other, behind the neutral one."""
        return reduce(partial(combined, c), values, neutral(c))

    def of_columns(c: Compiler, values: Any, offset: Any, column: Any, n_columns: Any, k: Any, n: int) -> Any:
        """Returns blocks of columns of `n` rows from number `k` on, combined with `values`, if any.

        Blocks beyond the last column have its elements.
        """
        numbers: list[Number] = []
        for which in range(spread):
            at = c.binary("-", n_columns, block.size)
            beyond = c.binary("+", column, which * LANES * block.size)
            at = c.where(c.compare("<", beyond, at), beyond, at)
            rows: list[Any] = []
            for row in range(n):
                number = c.binary("+", k, row)
                here = c.binary("+", c.binary("+", offset, at), c.binary("*", number, n_columns))
                rows.append(elements(c, here, None if values is None else number, which))
            while len(rows) > 1:
                rows = [merged(c, *two) for two in zip(rows[::2], rows[1::2], strict=True)]
            before = values and values[which * block.size : (which + 1) * block.size]
            numbers += merged(c, before, rows[0]) if before else rows[0]
        return tuple(numbers)

    def store(c: Compiler, offset: Any, value: Any) -> None:
        values = [combined(c, neutral(c), number) if last else number for number in _listed(value)]
        values = [ending.call(c, number, *body.numbers) for number in values] if ending is not None else values
        if columns:
            out.store(c.builder, c.cast(offset, UINT32), [body.typed(c, number, stored).value for number in values])
        else:
            c.arrays.store(out, c.index(offset), values[0])

    def store_columns(c: Compiler, offset: Any, column: Any, n_columns: Any, values: Any) -> None:
        for which in range(spread):
            at = c.binary("+", column, which * LANES * block.size)
            with c.builder.if_(c.compare("<", at, n_columns).value).then:
                number = c.binary("//", c.binary("+", offset, at), block.size) if columns else c.binary("+", offset, at)
                store(c, number, values[which * block.size : (which + 1) * block.size])

    def divided(c: Compiler, x: Number, y: Any) -> tuple[Number, Number]:
        """Returns the quotient and the remainder of indices; without signs, division takes the fewest instructions."""
        quotient = c.cast(Number(c.builder.compute("div", c.cast(x, UINT32), c.cast(y, UINT32)), Kind(UINT32)), INT32)
        whole = Number(quotient, Kind(INT32))
        return whole, c.binary("-", x, c.binary("*", whole, y))

    pushes = "n_results", "n", "n_chunks", "n_columns"
    emitted = (begin, extend, combined, neutral, units, total, of_columns, store, store_columns, divided)
    given: dict[str, Any] = {name: Number(c.function.push(name, INT32), Kind(INT32)) for name in pushes}
    given |= {function.__name__: Intrinsic(function, 0, None) for function in emitted}
    given |= {
        "dtype": kind.numpy.type,
        "size": block.size,
        "spread": spread,
        "end": end,
        "chunk": METHODS[method].chunk,
    }
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    c.inline(kernel, [given[name] for name in names], {}, ast.Pass())
    n_columns = block.size * spread if kernel is reduction_methods.wide else block.size if columns else 1
    return UnoptimizedKernel(c, (stored.name,), block=n_columns, strided=tuple(body.strided))


def _listed(value: Any) -> Sequence[Number]:
    return value if isinstance(value, tuple) else (value,)


def _cost(body: Body, pair: Body, kind: Scalar, real: Scalar) -> float:
    """Returns the cost of an element and of combining it with another."""
    c = body.compiler(1, real)
    c.evaluator.sources |= pair.formula.sources
    element = body.typed(c, body.at(c, body.arguments(c), c.builder.builtin("global_id")), kind)
    pair.call(c, element, element)
    return cost(c.function)


def _kind(body: Body, pair: Body, initial: Any, real: Scalar) -> Scalar:
    """Returns the common type of the elements, the initial value, and the results of combining them."""
    c = body.compiler(1, real)
    c.evaluator.sources |= pair.formula.sources
    some = c.builder.builtin("global_id")
    first = body.at(c, body.arguments(c), some)
    body.number(c, first)
    kind = c.rules.joined(c.kind(first), c.rules.accumulator(c.kind(initial)))
    while True:
        total = pair.call(c, *[Number(c.builder.cast(some, kind.type), Kind(kind.type)) for _ in range(2)])
        pair.number(c, total)
        wider = c.rules.joined(Kind(kind.type), c.kind(total))
        if wider.type is kind.type:
            return wider.type
        kind = wider
