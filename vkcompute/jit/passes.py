"""The two ways to reduce a part of a row, in the language of kernels; reductions.py says what they are given.

What is reduced lies as (rows, n, columns), columns 1 or more; a result as (rows, n_chunks, columns).
"""

from __future__ import annotations

from typing import Any

from vkcompute.jit.ids import global_id, group_id, local_id
from vkcompute.jit.workgroup import barrier, shared

CHUNK = 64
"""Elements that an invocation reduces by itself"""
WIDTH, EACH = 64, 16
"""Invocations of a workgroup that reduces WIDTH * EACH elements, and how many each of them begins with"""


def alone(
    element: Any, combined: Any, store: Any, dtype: Any, n_results: Any, n: Any, n_chunks: Any, n_columns: Any
) -> None:
    """An invocation reduces CHUNK elements, one after the other."""
    i = global_id(0)
    if i < n_results:
        row, column = i // n_columns, i % n_columns
        row, first = row // n_chunks, row % n_chunks * CHUNK
        place = (row * n + first) * n_columns + column
        result = element(place)
        for _ in range(1, min(CHUNK, n - first)):
            place += n_columns
            result = combined(result, element(place))
        store(i, result)


def together(
    element: Any, combined: Any, store: Any, dtype: Any, n_results: Any, n: Any, n_chunks: Any, n_columns: Any
) -> None:
    """A workgroup reduces WIDTH * EACH neighbours; its invocations' results are combined two by two, in order."""
    parts = shared(WIDTH, dtype)
    group, here = group_id(0), local_id(0)
    row, start = group // n_chunks, group % n_chunks * (WIDTH * EACH)
    first = start + here * EACH
    if first < n and group < n_results:
        place = row * n + first
        result = element(place)
        for k in range(1, min(EACH, n - first)):
            result = combined(result, element(place + k))
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


def itself(x: Any) -> Any:
    """An element as it is."""
    return x
