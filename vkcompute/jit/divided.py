"""Calls of functions of tensors on a group of devices: on each with its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkcompute.runtime.groups.group import GroupTensor


def is_divided(args: Sequence[Any]) -> bool:
    """Whether an argument lies on several devices."""
    return any(isinstance(arg, GroupTensor) for arg in args)


def by_device(work: Callable[..., Any], args: Sequence[Any], outs: Sequence[Any] = ()) -> tuple[list[Any], GroupTensor]:
    """What `work` gives for each device's parts of arguments and results, and an argument that is divided as all are.

    Raises:
        ValueError: as of GroupKernel; or rows are not along the first axis of all together.
    """
    tensors = [arg for arg in args if isinstance(arg, GroupTensor)]
    group = tensors[0].group
    nothing: Any = lambda *_: None  # noqa: E731
    group.kernel(nothing)(*args, *outs)  # looks whether they are divided alike, and counts the rows
    n_axes = max(len(each.shape) for each in tensors)
    for each in tensors:
        if len(each.shape) == n_axes and each.rows is None and each.shape[0] != 1:
            raise ValueError(f"what every device has whole has one row, or an axis less than {n_axes}; got {each}")
        if len(each.shape) < n_axes and each.rows is not None:
            raise ValueError(f"what is divided by rows has as many axes as any of them, {n_axes}; got {each}")
    found = [work(_parts(args, n), _parts(outs, n)) for n in range(len(group.runtimes))]
    return found, next(each for each in tensors if each.rows is not None)


def _parts(args: Sequence[Any], n: int) -> tuple[Any, ...]:
    return tuple([arg.shards[n] if isinstance(arg, GroupTensor) else arg for arg in args])


def whole(parts: Sequence[Any], like: GroupTensor) -> Any:
    """The array of these parts, divided as another is; of tuples a tuple."""
    if isinstance(parts[0], tuple):
        return tuple([whole(each, like) for each in zip(*parts, strict=True)])
    return GroupTensor(like.group, parts, like.rows)
