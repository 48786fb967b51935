"""The largest elements along an axis, and those at a rank."""

from __future__ import annotations

from vkcompute.arrays.algorithms import partitions, sorting
from vkcompute.arrays.algorithms.gather import take_along_axis
from vkcompute.arrays.algorithms.lines import axis_of
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


def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Returns the k-th smallest element along an axis, and its index; NaN is the largest number.

    It is selected without sorting, where that takes less time; of equal elements it may be any.

    Raises:
        ValueError: k is not from 1 to the length of the axis.
    """
    axis = axis_of("kthvalue", input.ndim, dim)
    if not 1 <= k <= input.shape[axis]:
        raise ValueError(f"kthvalue takes k from 1 to the length of the axis, {input.shape[axis]}; got {k}")
    before = (slice(None),) * axis
    here, first = (*before, slice(k - 1, k)), (*before, 0)
    indices = partitions.argpartition(input, [k - 1], axis)[here]
    values = take_along_axis(input, indices, axis)
    return (values, indices) if keepdim else (values[first], indices[first])


accept_host_data(globals())
