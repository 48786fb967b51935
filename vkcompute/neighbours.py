"""Nearest points, without an array of all distances: for neighbours, clusters and look-ups of the closest value.

    from vkcompute import neighbours

    near = neighbours.nearest(points, queries, 5)
    label = neighbours.nearest(centres, points).indices  # a step of k-means

Points and queries have a row each. Distances are Euclidean: sums of squared differences, so nothing cancels where
points are far from the origin. Results are the same in each run.
"""

from __future__ import annotations

from operator import index

from vkcompute.arrays.algorithms import nearest as algorithm
from vkcompute.arrays.algorithms.nearest import Neighbours
from vkcompute.runtime.memory.array import Array

__all__ = ["Neighbours", "nearest"]


def nearest(points: Array, queries: Array, k: int = 1) -> Neighbours:
    """Returns the distances and the indices of the k nearest of some points for each query, the nearest first.

    Of equal distances the first point is taken. Coordinates are float32, or float64 if one array has it. A distance
    that is NaN counts as infinite.

    Args:
        points, queries: of shape (n, coordinates).

    Raises:
        TypeError: they are no arrays of a device or complex, or k is no integer.
        ValueError: the shapes do not fit, or k is not from 1 to the number of points.
    """
    for array in (points, queries):
        if not isinstance(array, Array):
            text = f"nearest takes arrays of a device; got {type(array).__name__}"
            raise TypeError(f"{text}; upload it by vkcompute.numpy.asarray")
    return algorithm.nearest(points, queries, index(k))
