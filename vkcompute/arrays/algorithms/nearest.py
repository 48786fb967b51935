"""The nearest points to others, without an array of all distances.

The nearest one: block programs keep the distances of some queries from some points in registers, and the least so far.

Several: points are divided into chunks, of which the programs store the least distances. The k nearest points are in
the k chunks whose own nearest points are nearest (see `leading.py`). So the distances from the points of these chunks
are stored, and the first k of them are selected.

Where launches do not reach all arrays, the queries are halved, or the points: the nearest of both halves are merged.
"""

from __future__ import annotations

from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.gather import take_along_axis
from vkcompute.arrays.algorithms.lines import add, contiguous, converted, copy_into, iota, launch
from vkcompute.arrays.algorithms.programs.distances import least_of_chunks, nearest_in_parts, nearest_of_few
from vkcompute.arrays.algorithms.sorting import sort, topk
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.tile.launch_arrays import is_wide, rounded

_QUERIES, _CHUNKS = 16, 64
"""Of a block: the sums and the least distances of 1,024 pairs stay in the first cache of a CPU's core."""
_SQUARE, _FEW = 32, 1 << 10
"""Queries and points of a block where there are many queries and few points, 1,024 pairs, too; the most such points.

The nearest of 64 points of 32 dimensions to 200,000 take 32 ms of CPU time on lavapipe, and 38 by blocks of 16 queries.
"""
_BUSY = 128
"""Programs that keep a device busy."""
_MOST_TERMS = 1 << 15
"""Points of a chunk times dimensions: lavapipe runs at most 65,535 iterations."""
_MOST_STORED = 1 << 24
"""Distances in memory at a time; more queries are taken in turns."""
_DIVIDED = 4
"""Points per neighbour, from which chunks take less time than the distances from all points."""

_root = Elementwise("sqrt(total)", "total")


@kernel
def _distances_in_chunks(
    queries: Any, points: Any, chunks: Any, out: Any, n_items: int, n: int, n_chunks: int, length: int, width: int
) -> None:
    """Stores the squared distances of each query from the points of its chunks; NaN behind the last point.

    Args:
        chunks: the numbers of n_chunks chunks per query.
        width: dimensions of a point.
    """
    i = global_id(0)
    if i < n_items:
        line = i // length
        index, query = chunks[line] * length + i - line * length, line // n_chunks
        total = queries.dtype.type(0)
        for d in range(width):
            difference = queries[query * width + d] - points[min(index, n - 1) * width + d]
            total += difference * difference
        total = total if total == total else out.dtype.type(np.inf)
        out[i] = total if index < n else out.dtype.type(np.nan)


@kernel
def _store_indices(starts: Any, positions: Any, out: Any, n_items: int, k: int, n_starts: int, length: int) -> None:
    """Stores the indices of the points at k positions among each query's candidates: `length` from each start on."""
    i = global_id(0)
    if i < n_items:
        position = positions[i]
        out[i] = starts[i // k * n_starts + position // length] * length + position % length


class Neighbours(NamedTuple):
    """The nearest points of each query, the nearest first.

    Attributes:
        distances: Euclidean.
        indices: of the points, int32; of equal distances the first.
    """

    distances: Array
    indices: Array


def nearest(points: Array, queries: Array, k: int) -> Neighbours:
    """Returns the k nearest of `points` for each of `queries`; both have a row per point.

    Coordinates are float32, or float64 if one array is. A distance that is NaN counts as infinite.

    Raises:
        ValueError: the shapes do not fit, or k is not from 1 to the number of points.
        TypeError: coordinates are complex.
    """
    _check(points, queries, k)
    wide = np.float64 if np.float64 in (points.dtype, queries.dtype) else np.float32
    given = [array if array.dtype == wide else converted(array, wide) for array in (points, queries)]
    n_queries = len(queries)
    distances = empty_result(points.runtime, (n_queries, k), wide)
    indices = empty_result(points.runtime, (n_queries, k), np.int32)
    plan = _planned(len(points), n_queries, points.shape[1], k)
    rows = max(_MOST_STORED // max(points.shape[1], plan.n_stored), 1)
    for first in range(0, n_queries, rows):
        part = slice(first, first + rows)
        _root(_store_reached(given[0], given[1][part], plan, indices[part]), out=distances[part])
    return Neighbours(distances, indices)


def _check(points: Array, queries: Array, k: int) -> None:
    rule = "nearest takes points and queries with a row each, of the same number of coordinates"
    if points.ndim != 2 or queries.ndim != 2 or points.shape[1] != queries.shape[1] or not points.shape[1]:
        raise ValueError(f"{rule}; got the shapes {points.shape} and {queries.shape}")
    if "c" in (points.dtype.kind, queries.dtype.kind):
        raise TypeError(f"{rule}; got complex ones; take their real and imaginary parts as two coordinates")
    if not 1 <= k <= len(points):
        raise ValueError(f"nearest takes k from 1 to the number of points, {len(points)}; got {k}")


class _Plan(NamedTuple):
    """The division of the points into chunks, and of these into parts.

    Attributes:
        k: neighbours.
        length: points of a chunk.
        n_parts: parts of _CHUNKS chunks, of which a program takes one.
        n_chunks: chunks with points.
        is_few: a program takes all points, some at a time.
    """

    k: int
    length: int
    n_parts: int
    n_chunks: int
    is_few: bool = False

    @property
    def n_stored(self) -> int:
        """The most distances per query that are in memory."""
        return self.n_parts if self.k == 1 else max(self.n_chunks, self.n_starts * self.length)

    @property
    def n_starts(self) -> int:
        """The parts or chunks whose points are candidates of a query."""
        return self.n_parts if self.k == 1 else min(self.k, self.n_chunks)

    @property
    def block(self) -> tuple[int, int]:
        """The queries and points of a program."""
        return (_SQUARE, _SQUARE) if self.is_few else (_QUERIES, _CHUNKS)

    def padded(self, n: int) -> int:
        """Returns how many points programs take in the place of n."""
        return rounded(n, _SQUARE) if self.is_few else self.n_parts * _CHUNKS * self.length


def _planned(n: int, n_queries: int, width: int, k: int) -> _Plan:
    longest = max(_MOST_TERMS // width, 1)
    most = min(_FEW if n_queries >= _BUSY * _SQUARE else _CHUNKS, _SQUARE * longest)
    if k == 1 and n <= most:
        return _Plan(k, 1, 1, n, is_few=True)
    if k == 1:
        n_parts = min(-(-_BUSY * _QUERIES // max(n_queries, 1)), -(-n // _CHUNKS))
        length = min(-(-n // (n_parts * _CHUNKS)), longest)
    else:
        length = n if n < _DIVIDED * k else min(1 << isqrt(n // k).bit_length(), longest)
    n_chunks = -(-n // length)
    return _Plan(k, length, -(-n_chunks // _CHUNKS), n_chunks)


def _store_reached(points: Array, queries: Array, plan: _Plan, indices: Array) -> Array:
    """Stores the indices of the nearest points, and returns their squared distances; by halves if need be."""
    n, n_points = len(queries), len(points)
    if not _is_large(points, queries, plan) or max(n, n_points) < 2:
        return _store_nearest(points, queries, plan, indices)
    if n_points > 1 and (n < 2 or n * (points.shape[1] + plan.n_stored) < points.size):
        return _store_merged(points, queries, plan.k, indices)
    squares = temporary(points.runtime, indices.shape, points.dtype)
    for half in halves(n):
        copy_into(_store_reached(points, queries[half], plan, indices[half]), squares[half])
    return squares


def _store_merged(points: Array, queries: Array, k: int, indices: Array) -> Array:
    """Does as `_store_reached`, with the nearest of both halves of the points."""
    n, runtime, parts = len(queries), points.runtime, halves(len(points))
    lengths = [min(k, half.stop - half.start) for half in parts]
    squares, numbers = (temporary(runtime, (n, sum(lengths)), dtype) for dtype in (points.dtype, np.int32))
    for half, length, first in zip(parts, lengths, (0, lengths[0]), strict=True):
        plan = _planned(half.stop - half.start, n, points.shape[1], length)
        mine = temporary(runtime, (n, length), np.int32)
        copy_into(_store_reached(points[half], queries, plan, mine), squares[:, first : first + length])
        add(mine, half.start, out=numbers[:, first : first + length])
    least, positions = topk(squares, k, 1, largest=False)
    copy_into(take_along_axis(numbers, positions, 1), indices)
    return least


def _is_large(points: Array, queries: Array, plan: _Plan) -> bool:
    """True if a launch of `_store_nearest` takes too many bindings."""
    (n, width), nbytes = queries.shape, points.dtype.itemsize
    height, starts = rounded(n, plan.block[0]), 4 * n * plan.n_starts
    block = width * height * nbytes, width * plan.padded(len(points)) * nbytes
    launches: list[tuple[int, ...]] = []
    if max(plan.k, plan.n_starts) > 1:
        launches.append((starts, 8 * n * plan.k, 4 * n * plan.k))
    if plan.k == 1:
        launches.append((*block, height * plan.n_parts * nbytes, 4 * height * plan.n_parts))
    else:
        launches.append((queries.nbytes, points.nbytes, starts, n * plan.n_starts * plan.length * nbytes))
    if plan.n_chunks > plan.k > 1:
        launches.append((*block, height * plan.n_parts * _CHUNKS * nbytes))
    return any(bytes_exceed_bindings(points, *sizes) for sizes in launches)


def _store_nearest(points: Array, queries: Array, plan: _Plan, indices: Array) -> Array:
    """Stores the indices of the nearest points of some queries, and returns their squared distances."""
    n_queries, runtime = len(queries), points.runtime
    if plan.k == 1:
        shape = n_queries, plan.n_parts
        squares, starts = temporary(runtime, shape, points.dtype), temporary(runtime, shape, np.int32)
        program = nearest_of_few if plan.is_few else nearest_in_parts
        _launch(program, points, queries, plan, (squares, starts))
        length = 1
    else:
        starts, length = _nearest_chunks(points, queries, plan), plan.length
        squares = temporary(runtime, (n_queries, starts.shape[1] * length), points.dtype)
        arrays = [array.reshape(-1) for array in (contiguous(queries), contiguous(points), starts, squares)]
        sizes = squares.size, len(points), starts.shape[1], length, points.shape[1]
        launch(_distances_in_chunks, squares.size, *arrays, *sizes)
    if squares.shape[1] == 1:
        copy_into(starts, indices)
        return squares
    least, positions = topk(squares, plan.k, 1, largest=False)
    args = starts.reshape(-1), positions.reshape(-1), indices.reshape(-1)
    launch(_store_indices, indices.size, *args, indices.size, plan.k, starts.shape[1], length)
    return least


def _nearest_chunks(points: Array, queries: Array, plan: _Plan) -> Array:
    """Returns the k chunks whose own nearest points are nearest, in ascending order; all chunks if they are few."""
    n_queries, runtime = len(queries), points.runtime
    if plan.n_chunks <= plan.k:
        return contiguous(iota(runtime, plan.n_chunks).reshape((1, -1)).broadcast_to((n_queries, plan.n_chunks)))
    least = temporary(runtime, (n_queries, plan.n_parts * _CHUNKS), points.dtype)
    _launch(least_of_chunks, points, queries, plan, (least,))
    return sort(topk(least[:, : plan.n_chunks], plan.k, 1, largest=False)[1], 1)


def _launch(program: Any, points: Array, queries: Array, plan: _Plan, out: tuple[Array, ...]) -> None:
    """Launches a program for blocks of queries, and the parts of the points."""
    n_queries, width = queries.shape
    block, n_padded = plan.block, plan.padded(len(points))
    height, n_chunks = rounded(n_queries, block[0]), n_padded // (plan.n_parts * plan.length)
    given = _transposed(queries, height)
    shape = plan.n_parts, n_chunks, plan.length, width
    chunks = contiguous(_padded(points, n_padded).reshape(shape).transpose((3, 0, 2, 1)))
    results = [x if height == n_queries else temporary(x.runtime, (height, *x.shape[1:]), x.dtype) for x in out]
    numbers = width, height, chunks.size // width, n_chunks if plan.is_few else plan.length, width % 2
    program[height // block[0], plan.n_parts](given, chunks, *results, *numbers, *block)
    for result, x in zip(results, out, strict=True):
        if result is not x:
            copy_into(result[:n_queries], x)


def _transposed(queries: Array, height: int) -> Array:
    """Returns a row per coordinate, with zeros behind the last query."""
    turned = queries.T
    if len(queries) == height:
        return turned if is_wide(turned) else converted(turned, turned.dtype)
    result = temporary(queries.runtime, (queries.shape[1], height), queries.dtype).fill(0)
    copy_into(turned, result[:, : len(queries)])
    return result


def _padded(points: Array, n: int) -> Array:
    """Returns points with infinitely distant ones behind the last."""
    if len(points) == n:
        return contiguous(points)
    result = temporary(points.runtime, (n, points.shape[1]), points.dtype).fill(np.inf)
    copy_into(points, result[: len(points)])
    return result
