"""Stages of a reduction: their kernels, in the kernel language, and their sizes.

A stage reduces (n_rows, n, n_columns) elements to (n_rows, n_chunks, n_columns), in row-major order. Long rows take
several stages.
"""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any, NamedTuple, cast

from vkcompute.ir import INT32, SCALARS, UINT32, Scalar
from vkcompute.jit.compilation.build import Signature
from vkcompute.jit.elementwise.broadcasting import Mask
from vkcompute.jit.elementwise.program import Body, Program, result
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.frontend.source import Definition, definition_of, read
from vkcompute.jit.frontend.values import Kind, Number, joined
from vkcompute.jit.library.ids import global_id, group_id, local_id
from vkcompute.jit.library.workgroup import barrier, shared

CHUNK = 64
"""Elements that one invocation of a serial stage reduces."""
WIDTH, EACH = 64, 16
"""Invocations of a workgroup, and elements that each of a cooperative stage reduces first."""


def _serial(
    element: Any, combine: Any, store: Any, dtype: Any, n_results: Any, n: Any, n_chunks: Any, n_columns: Any
) -> None:
    """Each invocation reduces CHUNK elements, one after the other."""
    i = global_id(0)
    if i < n_results:
        row, column = i // n_columns, i % n_columns
        row, first = row // n_chunks, row % n_chunks * CHUNK
        offset = (row * n + first) * n_columns + column
        result = element(offset)
        for _ in range(1, min(CHUNK, n - first)):
            offset += n_columns
            result = combine(result, element(offset))
        store(i, result)


def _cooperative(
    element: Any, combine: Any, store: Any, dtype: Any, n_results: Any, n: Any, n_chunks: Any, n_columns: Any
) -> None:
    """Each workgroup reduces WIDTH * EACH contiguous elements; its partial results are combined pairwise, in order."""
    parts = shared(WIDTH, dtype)
    group, here = group_id(0), local_id(0)
    row, start = group // n_chunks, group % n_chunks * (WIDTH * EACH)
    first = start + here * EACH
    if first < n and group < n_results:
        offset = row * n + first
        result = element(offset)
        for k in range(1, min(EACH, n - first)):
            result = combine(result, element(offset + k))
        parts[here] = result
    barrier()
    n_parts = min(WIDTH, (n - start + EACH - 1) // EACH)
    step = 1
    while step < n_parts:
        at = here * 2 * step
        if at + step < n_parts:
            parts[at] = combine(parts[at], parts[at + step])
        step *= 2
        barrier()
    if here == 0 and group < n_results:
        store(group, parts[0])


def _identity(x: Any) -> Any:
    """Returns the element unchanged."""
    return x


class Method(NamedTuple):
    """One row of the table of methods to reduce chunks.

    Attributes:
        kernel: in the kernel language, for workgroups of WIDTH invocations.
        chunk: number of elements that become one.
        n_results: number of results of a workgroup.
    """

    kernel: Any
    chunk: int
    n_results: int


METHODS = {
    "serial": Method(_serial, CHUNK, WIDTH),
    "cooperative": Method(_cooperative, WIDTH * EACH, 1),
}
_KERNELS = {row.kernel: read(row.kernel) for row in METHODS.values()}
IDENTITY = definition_of(cast(FunctionType, _identity))


def _method(n: int, n_columns: int, *, cooperative: bool) -> str:
    """Returns the method for rows of `n` elements."""
    return "cooperative" if cooperative and n_columns == 1 and n > CHUNK else "serial"


class Stage(NamedTuple):
    """A stage that reduces (n_rows, n, n_columns) elements to (n_rows, n_chunks, n_columns).

    Attributes:
        method: name of its row in METHODS.
    """

    method: str
    n_rows: int
    n: int
    n_columns: int

    @property
    def chunk(self) -> int:
        """Number of elements that become one."""
        return METHODS[self.method].chunk

    @property
    def pushes(self) -> tuple[int, int, int, int]:
        """Push constants of the kernel: n_results, n, n_chunks, n_columns."""
        n_chunks = -(-self.n // self.chunk)
        return self.n_rows * n_chunks * self.n_columns, self.n, n_chunks, self.n_columns

    @property
    def n_groups(self) -> int:
        """Number of workgroups to launch."""
        return -(-self.pushes[0] // METHODS[self.method].n_results)


def stages(n_rows: int, n: int, n_columns: int, *, cooperative: bool) -> list[Stage]:
    """Returns the stages that reduce (n_rows, n, n_columns) elements, n > 0, to (n_rows, n_columns).

    Args:
        cooperative: True to let workgroups reduce long contiguous rows.
    """
    found: list[Stage] = []
    while not found or n > 1:
        found.append(Stage(_method(n, n_columns, cooperative=cooperative), n_rows, n, n_columns))
        n = found[-1].pushes[2]
    return found


def stage_program(
    combine: Definition,
    initial: Any,
    each: Definition,
    real: Scalar,
    dtype: str | None,
    signature: Signature,
    masks: tuple[Mask, ...],
    form: tuple[str, bool],
    wanted: str | None,
) -> Program:
    """Builds the kernel of a stage.

    Its arguments are the tensors, the result, the numbers, the lengths of the broadcast axes except the first, and
    n_results, n, n_chunks and n_columns of the stage.

    Args:
        combine: the function of two elements.
        each: the function that is applied to the elements first.
        real: the type of Python floats.
        dtype: the dtype in which elements are combined; None for their common type.
        form: the method, and True for the last stage, which adds the initial value.
        wanted: the dtype of the result; None for that in which elements are combined.
    """
    body, pair, (method, last) = Body(each, signature, masks), Body(combine, (), ()), form
    kind = SCALARS[dtype] if dtype else _kind(body, pair, initial, real)
    c = body.compiler(WIDTH, real)
    c.sources |= _KERNELS | {IDENTITY.function: IDENTITY.source, combine.function: combine.source}
    arguments = body.arguments(c)
    out = result(c, wanted or kind.name)

    def element(c: Compiler, offset: Any) -> Number:
        return body.typed(c, body.at(c, arguments, c.cast(offset, UINT32)), kind)

    def combined(c: Compiler, one: Number, other: Number) -> Number:
        return pair.typed(c, pair.call(c, one, other), kind)

    def store(c: Compiler, offset: Any, value: Number) -> None:
        value = combined(c, pair.typed(c, initial, kind), value) if last else value
        c.store(out, c.index(offset), value)

    numbers = [
        Number(c.function.push(name, INT32), Kind(INT32)) for name in ("n_results", "n", "n_chunks", "n_columns")
    ]
    emitted = [Intrinsic(each, 0, None) for each in (element, combined, store)]
    c.inline(METHODS[method].kernel, [*emitted, kind.numpy.type, *numbers], {}, ast.Pass())
    return Program(c, (wanted or kind.name,))


def _kind(body: Body, pair: Body, initial: Any, real: Scalar) -> Scalar:
    """Returns the common type of the elements, the initial value, and the results of combining them."""
    c = body.compiler(1, real)
    c.sources[pair.function] = pair.source
    some = c.builder.builtin("global_id")
    first = body.at(c, body.arguments(c), some)
    body.number(c, first)
    kind = joined(c.kind(first), c.kind(initial), real)
    while True:
        found = pair.call(c, *[Number(c.builder.cast(some, kind.type), Kind(kind.type)) for _ in range(2)])
        pair.number(c, found)
        wider = joined(Kind(kind.type), c.kind(found), real)
        if wider.type is kind.type:
            return wider.type  # type: ignore[no-any-return]
        kind = wider
