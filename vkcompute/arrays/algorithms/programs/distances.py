"""The nearest of many points to others: block programs that keep the distances in registers.

Points are in chunks, which adjacent elements of a block take. `points_ptr` has a row per dimension, in which the j-th
points of all chunks of a program's part follow each other. `queries_ptr` has a row per dimension, too.
"""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program


@block_program
def squared_distances(queries_ptrs, points_ptrs, n_dimensions, query_row, point_row, ODD: tl.constexpr):
    """Returns the squared distances of some queries from some points, of which the pointers are to the first row.

    Sums exceed a CPU's registers, so that each iteration loads and stores them all: it has two dimensions. A second
    loop, or a choice of the first sums, would load and store them once more.

    Args:
        ODD: 1 if n_dimensions is odd, else 0.
    """
    sums = tl.zeros((queries_ptrs.shape[0], points_ptrs.shape[0]), queries_ptrs.dtype.element_ty)
    if ODD:
        difference = tl.load(queries_ptrs)[:, None] - tl.load(points_ptrs)[None, :]
        sums = difference * difference
    for first in range(ODD, n_dimensions, 2):
        for d in tl.static_range(2):
            query = tl.load(queries_ptrs + (first + d) * query_row)
            difference = query[:, None] - tl.load(points_ptrs + (first + d) * point_row)[None, :]
            sums += difference * difference
    return sums


@block_program
def store_nearest(value_ptr, index_ptr, squares, indices, rows):
    """Stores the least squared distance of each query, and the least index of a point at this distance."""
    part, n_parts = tl.program_id(1), tl.num_programs(1)
    value = tl.min(squares, axis=1)
    index = tl.min(tl.where(squares == value[:, None], indices, 2147483647), axis=1)
    tl.store(value_ptr + rows * n_parts + part, value)
    tl.store(index_ptr + rows * n_parts + part, index)


@block_program
def nearest_in_parts(
    queries_ptr, points_ptr, value_ptr, index_ptr, n_dimensions, query_row, point_row, length,
    ODD: tl.constexpr, ROWS: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Stores the squared distance and the index of the nearest point of a part, for some queries.

    Args:
        query_row, point_row: elements of a row; multiples of four.
        length: points of a chunk.
    """
    query_row, point_row = tl.multiple_of(query_row, 4), tl.multiple_of(point_row, 4)
    rows, chunks, part = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, CHUNKS), tl.program_id(1)
    best = tl.full((ROWS, CHUNKS), float("inf"), value_ptr.dtype.element_ty)
    which = tl.zeros((ROWS, CHUNKS), tl.int32)
    for j in range(length):
        points_ptrs = points_ptr + (part * length + j) * CHUNKS + chunks
        sums = squared_distances(queries_ptr + rows, points_ptrs, n_dimensions, query_row, point_row, ODD)
        is_nearer = sums < best
        best, which = tl.where(is_nearer, sums, best), tl.where(is_nearer, j, which)
    store_nearest(value_ptr, index_ptr, best, which + ((part * CHUNKS + chunks) * length)[None, :], rows)


@block_program
def nearest_of_few(
    queries_ptr, points_ptr, value_ptr, index_ptr, n_dimensions, query_row, point_row, n_points,
    ODD: tl.constexpr, QUERIES: tl.constexpr, POINTS: tl.constexpr,
):  # fmt: skip
    """Stores the results of `nearest_in_parts` for all points, some at a time.

    Adjacent elements of a block take queries, so that each has its distances in the same invocation.

    Args:
        n_points: a multiple of POINTS.
    """
    query_row, point_row = tl.multiple_of(query_row, 4), tl.multiple_of(point_row, 4)
    queries, rows = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES), tl.arange(0, POINTS)
    best = tl.full((QUERIES,), float("inf"), value_ptr.dtype.element_ty)
    which = tl.zeros((QUERIES,), tl.int32)
    for first in range(0, n_points, POINTS):
        points_ptrs, queries_ptrs = points_ptr + first + rows, queries_ptr + queries
        sums = squared_distances(points_ptrs, queries_ptrs, n_dimensions, point_row, query_row, ODD)
        least = tl.min(sums, axis=0)
        index = first + tl.min(tl.where(sums == least[None, :], rows[:, None], 2147483647), axis=0)
        is_nearer = least < best
        best, which = tl.where(is_nearer, least, best), tl.where(is_nearer, index, which)
    tl.store(value_ptr + queries, best)
    tl.store(index_ptr + queries, which)


@block_program
def least_of_chunks(
    queries_ptr, points_ptr, least_ptr, n_dimensions, query_row, point_row, length,
    ODD: tl.constexpr, ROWS: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Stores the least squared distance from the points of each chunk, for some queries; arguments as above."""
    query_row, point_row = tl.multiple_of(query_row, 4), tl.multiple_of(point_row, 4)
    rows, chunks = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, CHUNKS)
    part, n_parts = tl.program_id(1), tl.num_programs(1)
    best = tl.full((ROWS, CHUNKS), float("inf"), least_ptr.dtype.element_ty)
    for j in range(length):
        points_ptrs = points_ptr + (part * length + j) * CHUNKS + chunks
        sums = squared_distances(queries_ptr + rows, points_ptrs, n_dimensions, query_row, point_row, ODD)
        best = tl.where(sums < best, sums, best)
    tl.store(least_ptr + (rows * n_parts + part)[:, None] * CHUNKS + chunks[None, :], best)
