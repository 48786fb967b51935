"""The largest elements along an axis."""

from __future__ import annotations

from vkcompute.arrays.algorithms import sorting
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.runtime.memory.array import Array


def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """Returns the k largest or smallest elements along an axis, and their indices; of equal ones the first.

    Args:
        sorted: has no effect: the elements are in order.

    Raises:
        ValueError: there are fewer than k elements along the axis.
    """
    return sorting.topk(input, k, dim, largest=largest)


accept_host_data(globals())
