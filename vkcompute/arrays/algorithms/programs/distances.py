"""The nearest of many points to others: block programs that keep the distances in registers.

Points are in chunks, which adjacent elements of a block take. `points_ptr` has a row per dimension, in which the j-th
points of all chunks of a program's part follow each other. `queries_ptr` has a row per dimension, too.
"""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program

_TERMS = 4
"""Dimensions per iteration: sums exceed a CPU's registers, so that each iteration loads and stores them all."""


@block_program
def squared_distances(queries_ptrs, points_ptrs, n_dimensions, query_row, point_row):
    """Returns the squared distances of some queries from some points, of which the pointers are to the first row."""
    sums = tl.zeros((queries_ptrs.shape[0], points_ptrs.shape[0]), queries_ptrs.dtype.element_ty)
    whole = n_dimensions // _TERMS * _TERMS
    for first in range(0, whole, _TERMS):
        for d in tl.static_range(_TERMS):
            query, point = queries_ptrs + (first + d) * query_row, points_ptrs + (first + d) * point_row
            difference = tl.load(query)[:, None] - tl.load(point)[None, :]
            sums += difference * difference
    for d in range(whole, n_dimensions):
        difference = tl.load(queries_ptrs + d * query_row)[:, None] - tl.load(points_ptrs + d * point_row)[None, :]
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
    ROWS: tl.constexpr, CHUNKS: tl.constexpr,
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
        sums = squared_distances(queries_ptr + rows, points_ptrs, n_dimensions, query_row, point_row)
        is_nearer = sums < best
        best, which = tl.where(is_nearer, sums, best), tl.where(is_nearer, j, which)
    store_nearest(value_ptr, index_ptr, best, which + ((part * CHUNKS + chunks) * length)[None, :], rows)


@block_program
def nearest_of_few(
    queries_ptr, points_ptr, value_ptr, index_ptr, n_dimensions, query_row, point_row, length,
    ROWS: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Stores the results of `nearest_in_parts` for chunks of one point, without its loop over points."""
    query_row, point_row = tl.multiple_of(query_row, 4), tl.multiple_of(point_row, 4)
    rows, points = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * CHUNKS + tl.arange(0, CHUNKS)
    sums = squared_distances(queries_ptr + rows, points_ptr + points, n_dimensions, query_row, point_row)
    squares = tl.where(sums < float("inf"), sums, float("inf"))  # a distance that is NaN counts as infinite
    store_nearest(value_ptr, index_ptr, squares, points[None, :], rows)


@block_program
def least_of_chunks(
    queries_ptr, points_ptr, least_ptr, n_dimensions, query_row, point_row, length,
    ROWS: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Stores the least squared distance from the points of each chunk, for some queries; arguments as above."""
    query_row, point_row = tl.multiple_of(query_row, 4), tl.multiple_of(point_row, 4)
    rows, chunks = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, CHUNKS)
    part, n_parts = tl.program_id(1), tl.num_programs(1)
    best = tl.full((ROWS, CHUNKS), float("inf"), least_ptr.dtype.element_ty)
    for j in range(length):
        points_ptrs = points_ptr + (part * length + j) * CHUNKS + chunks
        sums = squared_distances(queries_ptr + rows, points_ptrs, n_dimensions, query_row, point_row)
        best = tl.where(sums < best, sums, best)
    tl.store(least_ptr + (rows * n_parts + part)[:, None] * CHUNKS + chunks[None, :], best)
