"""The configuration of a launch: workgroups, local size and queue.

Every kernel, in GLSL or in Python, on a device or on a group, takes it in brackets or by keywords:
`kernel[groups, local_size, queue](…)`, `kernel(…, grid=groups, local_size=…, queue=…)`. The kernel chooses the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vkcompute.ir import IdAxes

Sizes = tuple[int, ...]


class LaunchConfig(NamedTuple):
    """Workgroups, invocations per workgroup, and queue of a launch; the kernel chooses those that are None."""

    groups: Sizes | None = None
    local_size: tuple[int, int, int] | None = None
    queue: int | str | None = None


DEFAULT = LaunchConfig()
_KEYWORDS = {"grid": "groups", "local_size": "local_size", "queue": "queue"}


class Launchable(ABC):
    """Base of kernels: the configuration of a launch is given in brackets."""

    def __getitem__(self, given: Any) -> Callable[..., Any]:
        """Returns a function that launches so: `kernel[groups, local_size](…)`, `kernel[groups, local_size, queue](…)`.

        Groups and local size are ints, or tuples of one to three ints along x, y and z. The queue is one of
        `runtime.device.queues`, by its index, or "compute". The kernel chooses those that are None or left out.

        Raises:
            TypeError: there are more than three, or they have another type.
            ValueError: groups or local size are negative, or at least 2**32.
        """
        entries = given if isinstance(given, tuple) else (given,)
        if not 1 <= len(entries) <= 3:
            raise TypeError(f"a kernel takes [groups, local_size, queue] in brackets; got {given!r}")
        groups, local_size, queue = (*entries, None, None)[:3]
        return partial(self._launch_with, LaunchConfig(_sizes(groups), checked_local_size(local_size), _queue(queue)))

    @abstractmethod
    def _launch_with(self, config: LaunchConfig, *args: Any, **named: Any) -> Any:
        """Launches with this configuration."""


def take_keywords(
    config: LaunchConfig, named: Mapping[str, Any], parameters: Collection[str] = ()
) -> tuple[LaunchConfig, dict[str, Any]]:
    """Moves `grid`, `local_size` and `queue` from keyword arguments to a configuration; returns it and the others.

    Args:
        parameters: the kernel's own: a keyword of the same name belongs to it.

    Raises:
        TypeError, ValueError: as `Launchable.__getitem__`; or one is given in brackets, too.
    """
    rest, fields = dict(named), dict[str, Any]()
    for keyword, field in _KEYWORDS.items():
        if keyword not in rest or keyword in parameters:
            continue
        given = rest.pop(keyword)
        if given is not None and getattr(config, field) is not None:
            raise TypeError(f"{keyword}={given!r} is given in brackets, too; give it once")
        fields[field] = getattr(config, field) if given is None else _CHECKS[keyword](given)
    return config._replace(**fields), rest


def _sizes(given: Any) -> Sizes | None:
    if given is None or (type(given) is int and 0 <= given < 1 << 32):
        return given if given is None else (given,)
    sizes = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, (int, np.integer)) for n in sizes):
        raise TypeError(f"groups and local size are ints, or tuples of one to three; got {given!r}")
    if not all(0 <= n < 1 << 32 for n in sizes):
        raise ValueError(f"groups and local size are not negative, and less than 2**32; got {given!r}")
    return tuple(map(int, sizes))


def checked_local_size(given: Any) -> tuple[int, int, int] | None:
    """Returns a local size along x, y and z. Raises TypeError and ValueError as `Launchable.__getitem__`."""
    sizes = _sizes(given)
    if sizes is None:
        return None
    x, y, z = (*sizes, 1, 1)[:3]
    if not (x and y and z):
        raise ValueError(f"workgroups of {(x, y, z)} have no invocations; give each axis of the local size at least 1")
    return x, y, z


def _queue(given: Any) -> int | str | None:
    """Returns the index or the role of a queue; the launch checks that the device has it."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"a queue is one of runtime.device.queues, by its index; got {given!r}")
    return int(given)


_CHECKS: dict[str, Callable[[Any], Any]] = {"grid": _sizes, "local_size": checked_local_size, "queue": _queue}


ONE_INVOCATION = (1, 1, 1)
"""The local size on the default grid of a kernel that reads no ids, and cannot skip those beyond the array."""


def grid_over(name: str, shape: Sizes | None, local_size: Sizes, ids: IdAxes) -> Sizes:
    """Returns the workgroups for one invocation per element of an array of this shape, its last axis along x.

    Raises:
        ValueError: there is no such array, it has too many axes, or several invocations would have the same ids.
    """
    if shape is None:
        raise ValueError(
            f"{name} assigns to no array for arguments of these types (atomic operations do not count), and the "
            f"default grid has the shape of the first one: give the grid, as {name}[groups, local_size](…)"
        )
    if len(shape) > 3:
        raise ValueError(
            f"{name} writes an array of {len(shape)} axes, and a grid has at most three; give the grid, as "
            f"{name}[groups, local_size](…)"
        )
    if any(axis >= max(len(shape), 1) and local_size[axis] == 1 for axis in ids.of_groups):
        raise ValueError(
            f"{name} reads {_described(ids)}, and the default grid has the axes of an array of shape {tuple(shape)}; "
            f"give the grid, as {name}[groups, local_size](…)"
        )
    lengths = (*shape[::-1], 1, 1, 1)[:3]
    grid = tuple([-(-n // size) for n, size in zip(lengths, local_size, strict=True)])
    alone = [
        (n_groups < 2 or axis in ids.of_groups) and (size == 1 or axis in ids.in_group)
        for axis, (n_groups, size) in enumerate(zip(grid, local_size, strict=True))
    ]
    if any(ids) and not all(alone):
        raise ValueError(
            f"{name} reads {_described(ids)} only, and the default grid has one invocation per element of an array of "
            f"shape {tuple(shape)}, in workgroups of {local_size}: several with the same id; give the grid, as "
            f"{name}[groups, local_size](…)"
        )
    return grid[: max(len(shape), 1)]


def demand_axes(name: str, config: LaunchConfig, ids: IdAxes) -> None:
    """Raises ValueError for a grid with fewer axes than those along which a kernel reads ids of workgroups.

    A local size of more than 1 along such an axis gives it invocations of one workgroup.
    """
    groups, local_size, _ = config
    axes = [] if groups is None else [axis for axis in ids.of_groups if axis >= len(groups)]
    if groups is not None and any(local_size is None or local_size[axis] == 1 for axis in axes):
        padded = (*groups, 1, 1)[: axes[-1] + 1]
        raise ValueError(
            f"{name} reads {_described(ids)}, and the grid {groups} has fewer axes; give workgroups for each axis, as "
            f"grid={padded}{grid_remedy(config)}"
        )


def declared(name: str, config: LaunchConfig, local_size: tuple[int, int, int] | None) -> LaunchConfig:
    """Returns a configuration with the local size that a kernel declares, if any.

    Raises:
        ValueError: it has another one.
    """
    if local_size is None or config.local_size == local_size:
        return config
    if config.local_size is not None:
        raise ValueError(
            f"{name} has workgroups of {local_size}, as it declares; got {config.local_size}; leave the local size out"
            f"{grid_remedy(config)}"
        )
    return config._replace(local_size=local_size)


def grid_remedy(config: LaunchConfig) -> str:
    """Returns the remedy for a local size that may be a part of the grid, for the end of an error."""
    meant = grid_meant(config)
    return "" if meant is None else f", or write grid={meant} if brackets have these workgroups"


def grid_meant(config: LaunchConfig) -> Sizes | None:
    """Returns the grid in brackets if they may have been taken for one: `kernel[(10, 13)]` is `kernel[10, 13]`."""
    groups, local_size, queue = config
    if groups is None or local_size is None or len(groups) > 1 or local_size[1:] != (1, 1):
        return None
    return (*groups, local_size[0], queue) if type(queue) is int else (*groups, local_size[0])


def _described(ids: IdAxes) -> str:
    axes = sorted({*ids.of_groups, *ids.in_group})
    return f"ids along {' and '.join('xyz'[axis] for axis in axes)}"
