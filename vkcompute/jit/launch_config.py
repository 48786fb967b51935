"""The launch configuration of a kernel: workgroups, local size and queue, as in `kernel[groups, local_size, queue]`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Sizes = tuple[int, ...]


class LaunchConfig(NamedTuple):
    """Workgroups, invocations per workgroup, and queue of a launch; the kernel chooses those that are None."""

    groups: Sizes | None = None
    local: tuple[int, int, int] | None = None
    queue: int | str | None = None


DEFAULT = LaunchConfig()
GLSL_KEYWORDS = {  # keywords of launches of GLSL kernels -> remedy
    "grid": "a kernel in Python takes its grid in brackets, as {name}[groups, local_size](…)",
    "queue": "a kernel in Python takes its queue in brackets, as {name}[None, None, queue](…)",
}


def sizes_of(given: Any) -> Sizes:
    """Returns one to three ints, along x, y and z.

    Raises:
        TypeError: they are no ints.
        ValueError: one is negative, or at least 2**32.
    """
    if type(given) is int and 0 <= given < 1 << 32:
        return (given,)
    sizes = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, (int, np.integer)) for n in sizes):
        raise TypeError(f"groups and local size are ints, or tuples of one to three; got {given!r}")
    if not all(0 <= n < 1 << 32 for n in sizes):
        raise ValueError(f"groups and local size are not negative, and less than 2**32; got {given!r}")
    return tuple(map(int, sizes))


def queue_of(given: Any) -> int | str | None:
    """Returns the index or the role of a queue; the launch checks that the device has it."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"a queue is one of runtime.device.queues, by its index; got {given!r}")
    return int(given)


def grid_over(name: str, shape: Sizes | None, local_size: Sizes) -> Sizes:
    """Returns the workgroups for one invocation per element of a tensor of this shape, its last axis along x."""
    if shape is None:
        raise ValueError(
            f"{name} assigns to no tensor for arguments of these types (atomic operations do not count), and the "
            f"default grid has the shape of the first one: give the grid, as {name}[groups, local_size](…)"
        )
    if len(shape) > 3:
        raise ValueError(
            f"{name} writes a tensor of {len(shape)} axes, and a grid has at most three; give the grid, as "
            f"{name}[groups, local_size](…)"
        )
    return tuple([-(-n // size) for n, size in zip(shape[::-1], local_size, strict=False)]) or (1,)
