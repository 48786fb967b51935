"""Calls of functions of arrays on a group of devices, each with its shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkcompute.runtime.groups.group import GroupArray


def by_device(work: Callable[..., Any], args: Sequence[Any], outs: Sequence[Any] = ()) -> tuple[list[Any], GroupArray]:
    """Calls `work` with each device's shards of arguments and results.

    Returns:
        The results per device, and an argument that is sharded in the same way.

    Raises:
        ValueError: as GroupKernel; or the sharded axis is not the first one of the broadcast shape.
    """
    arrays = [arg for arg in args if isinstance(arg, GroupArray)]
    group = arrays[0].group
    nothing: Any = lambda *_: None  # noqa: E731
    group.kernel(nothing)(*args, *outs)  # checks that all are sharded alike, and counts the rows
    n_axes = max(len(array.shape) for array in arrays)
    for array in arrays:
        if len(array.shape) == n_axes and array.rows is None and array.shape[0] != 1:
            raise ValueError(f"a replicated array has one row, or fewer than {n_axes} axes; got {array}")
        if len(array.shape) < n_axes and array.rows is not None:
            raise ValueError(f"an array sharded by rows has as many axes as the others, {n_axes}; got {array}")
    results = [work(_shards(args, n), _shards(outs, n)) for n in range(len(group.runtimes))]
    return results, next(array for array in arrays if array.rows is not None)


def _shards(args: Sequence[Any], n: int) -> tuple[Any, ...]:
    return tuple([arg.shards[n] if isinstance(arg, GroupArray) else arg for arg in args])


def joined(shards: Sequence[Any], like: GroupArray) -> Any:
    """Returns the group's array with these shards, or a tuple of arrays for tuples, sharded as `like`."""
    if isinstance(shards[0], tuple):
        return tuple([joined(parts, like) for parts in zip(*shards, strict=True)])
    return GroupArray(like.group, shards, like.rows)
