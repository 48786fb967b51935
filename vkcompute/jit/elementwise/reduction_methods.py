"""Methods to reduce chunks of elements: their kernels, in the kernel language, and which one suits a shape."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any, NamedTuple, cast

from vkcompute.frontend.source import Source, definition_of, read
from vkcompute.jit.library.ids import global_id, group_id, local_id
from vkcompute.jit.library.workgroup import barrier, shared

CHUNK = 64
"""Elements that one invocation of a serial stage reduces."""
SHORT = 256
"""The longest rows that an invocation reduces whole on a CPU, where one more launch takes longer than the elements."""
FEW_ROWS = 16
"""Rows that one invocation of a stage of many rows reduces. CPUs read more of them at a slower rate."""
WHOLE, BLOCKS, PADDING = "whole", "blocks", "padding"
"""Ends of rows: behind a whole chunk, a whole block of elements, or elements of a block that are no part of the row."""
WIDTH, EACH = 64, 16
"""Invocations of a workgroup, and elements that each of a cooperative stage reduces first."""
LANES, UNIT, STEP_BITS, TILE = 8, 8, 6, 4096
"""Of interleaved stages: adjacent invocations, elements that each takes in turn, the logarithm of
their product, and elements that all of them take together.
CPUs run the lanes as one vector, which then loads adjacent cache lines."""
LONG = 512
"""The fewest elements of an interleaved row."""
AT_ONCE, TALL = 4, 128
"""Of wide stages: rows that are combined first, and all rows of an invocation. CPUs read much of a few rows at twice
the rate of little of many."""
FEWEST_COLUMNS = 512
"""The fewest columns of a wide stage."""
MOST_COPIED_COST = 20
"""Cost of a function that interleaved and wide stages call for dozens of elements: drivers compile each call."""
REGISTERS = 64
"""Words of the results of an invocation of a wide stage: of blocks of columns that are LANES blocks apart."""


def serial(
    begin: Any, extend: Any, store: Any, divided: Any, size: Any, chunk: Any, end: Any, n_results: Any, n: Any,
    n_chunks: Any,
) -> None:  # fmt: skip
    """Each invocation reduces contiguous elements, one block after the other."""
    i = global_id(0)
    if i < n_results:
        row, at = divided(i, n_chunks)
        first = at * chunk
        offset, count = row * n + first, min(chunk, n - first)
        result = begin(offset, count if end == PADDING else size)
        for k in range(size, chunk if end == WHOLE else count, size):  # a constant number of iterations is unrolled
            result = extend(result, offset + k, k, count - k if end == PADDING else size)
        store(i, result)


def columns(
    begin: Any, extend: Any, store: Any, divided: Any, size: Any, chunk: Any, end: Any, n_results: Any, n: Any,
    n_chunks: Any, n_columns: Any,
) -> None:  # fmt: skip
    """Each invocation reduces rows of a block of columns; offsets, results and columns count as blocks."""
    i = global_id(0)
    if i < n_results:
        row, column = divided(i, n_columns)
        row, at = divided(row, n_chunks)
        first = at * chunk
        offset, count = (row * n + first) * n_columns + column, min(chunk, n - first)
        result = begin(offset, size)
        for k in range(1, chunk if end == WHOLE else count):
            offset += n_columns
            result = extend(result, offset, k, size)
        store(i, result)


def cooperative(
    begin: Any, extend: Any, combined: Any, store: Any, dtype: Any, size: Any, n_results: Any, n: Any, n_chunks: Any,
) -> None:  # fmt: skip
    """Each workgroup reduces WIDTH * EACH contiguous elements; its partial results are combined pairwise, in order."""
    parts = shared(WIDTH, dtype)
    group, here = group_id(0), local_id(0)
    row, start = group // n_chunks, group % n_chunks * (WIDTH * EACH)
    first = start + here * EACH
    if first < n and group < n_results:
        offset, count = row * n + first, min(EACH, n - first)
        if count == EACH:  # with a constant number of iterations, all loads are started before the first is awaited
            result = begin(offset, EACH)
            for k in range(size, EACH, size):
                result = extend(result, offset + k, k, EACH)
        else:
            result = begin(offset, count)
            for k in range(size, count, size):
                result = extend(result, offset + k, k, count - k)
        parts[here] = result
    barrier()
    n_parts = min(WIDTH, (n - start + EACH - 1) // EACH)
    step = 1
    while step < n_parts:
        at = here * 2 * step
        if at + step < n_parts:
            parts[at] = combined(parts[at], parts[at + step])
        step *= 2
        barrier()
    if here == 0 and group < n_results:
        store(group, parts[0])


def interleaved(
    extend: Any, combined: Any, neutral: Any, units: Any, total: Any, store: Any, divided: Any, size: Any,
    n_results: Any, n: Any, n_chunks: Any,
) -> None:  # fmt: skip
    """Each of LANES invocations reduces every LANES-th unit: first the elements with the same number in their units.

    Single elements are reduced in the same order, in fewer registers.
    """
    i = global_id(0)
    if i < n_results:
        row, at = divided(i, n_chunks)
        tile, lane = divided(at, LANES)
        first, row, step = tile * TILE + lane * UNIT, row * n, LANES * UNIT
        result = neutral()
        if size == 1:
            for k in range(UNIT):
                part = neutral()
                for j in range(min((n - first - k + step - 1) >> STEP_BITS, TILE // step)):
                    part = extend(part, row + first + k + j * step, 0, 1)
                result = combined(result, part)
        else:
            n_units = min((n - first + step - 1) >> STEP_BITS, TILE // step)
            n_whole = min((n - first + step - UNIT) >> STEP_BITS, TILE // step)
            parts = units(None, row + min(first, n - 1 & -UNIT), 0, n - first, 0)
            for j in range(n_whole // AT_ONCE):
                parts = units(parts, row + first + j * AT_ONCE * step, j * AT_ONCE * step, UNIT, AT_ONCE)
            done = max(n_whole // AT_ONCE * AT_ONCE, 0)
            for j in range(min(n_units - done, AT_ONCE)):
                at = (done + j) * step
                parts = units(parts, row + first + at, at, n - first - at, 1)
            result = total(parts)
        store(i, result)


def wide(
    of_columns: Any, store_columns: Any, divided: Any, size: Any, spread: Any, chunk: Any, n_results: Any, n: Any,
    n_chunks: Any, n_columns: Any,
) -> None:  # fmt: skip
    """Each invocation reduces rows of several blocks of columns, AT_ONCE rows of a block after the other."""
    i = global_id(0)
    if i < n_results:
        row, at = divided(i, (n_columns + LANES * spread * size - 1) // (LANES * spread * size) * LANES)
        group, lane = divided(at, LANES)
        column = (group * LANES * spread + lane) * size
        row, at = divided(row, n_chunks)
        first = at * chunk
        offset, count = (row * n + first) * n_columns, max(min(chunk, n - first), 1)
        values = of_columns(None, offset, column, n_columns, 0, 1)
        n_single = 1 + (count - 1 & AT_ONCE - 1)
        for k in range(1, n_single):
            values = of_columns(values, offset, column, n_columns, k, 1)
        for k in range((count - 1) // AT_ONCE):
            values = of_columns(values, offset, column, n_columns, n_single + k * AT_ONCE, AT_ONCE)
        store_columns((row * n_chunks + at) * n_columns, column, n_columns, values)


def _identity(x: Any) -> Any:
    """Returns the element unchanged."""
    return x


class Method(NamedTuple):
    """One row of the table of methods to reduce chunks.

    Attributes:
        kernel: in the kernel language, for workgroups of WIDTH invocations.
        chunk: number of elements that become one.
        n_results: number of results of a workgroup, or of blocks of columns.
    """

    kernel: Any
    chunk: int
    n_results: int


METHODS = {
    "serial": Method(serial, CHUNK, WIDTH),
    "short": Method(serial, SHORT, WIDTH),
    "few rows": Method(columns, CHUNK, WIDTH),
    "many rows": Method(columns, FEW_ROWS, WIDTH),
    "cooperative": Method(cooperative, WIDTH * EACH, 1),
    "interleaved": Method(interleaved, TILE // LANES, WIDTH),
    "wide": Method(wide, TALL, WIDTH),
}
IDENTITY = definition_of(cast(FunctionType, _identity))


@cache
def kernel_sources() -> dict[FunctionType, Source]:
    """Returns the sources of the kernels of all methods."""
    return {row.kernel: read(row.kernel) for row in METHODS.values()}


def method_for(n: int, n_columns: int, *, cooperative: bool, commutes: bool) -> str:
    """Returns the method for rows of `n` elements."""
    if n_columns > 1:
        if n >= TALL and n_columns >= FEWEST_COLUMNS and not cooperative:
            return "wide"
        return "many rows" if n > CHUNK else "few rows"
    if cooperative:
        return "cooperative" if n > CHUNK else "serial"
    if commutes and n >= LONG:
        return "interleaved"
    return "short" if CHUNK < n <= SHORT else "serial"
