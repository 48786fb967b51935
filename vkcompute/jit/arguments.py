"""What a launch is told: its arguments and its grid. On the device or simulated, they mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Signature as Parameters
from typing import Any

import numpy as np

from vkcompute import dtypes

Sizes = tuple[int, ...]
MOST_ELEMENTS = 2**31 - 1  # ids are int32
_LARGE = {np.uint32: range(2**32), np.int64: range(-(2**63), 2**63), np.uint64: range(2**64)}


def bound(name: str, parameters: Parameters, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments in the order of the parameters, defaults included.

    Raises:
        TypeError: they are not the kernel's.
    """
    try:
        found = parameters.bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    found.apply_defaults()
    return found.args


def kind_of_array(array: Any) -> tuple[str, int]:
    """What distinguishes a tensor, or an array of the host, for the compiler."""
    if array.size > MOST_ELEMENTS:
        raise ValueError(f"a tensor of {array.size} elements; Python kernels count in int32: pass parts of it")
    return array.dtype.char, len(array.shape)


def kind_of_number(arg: Any) -> Any:
    """What distinguishes a number; None if it is none."""
    kind = type(arg)
    if kind is float or kind is bool or (kind is int and -0x80000000 <= arg <= 0x7FFFFFFF):
        return kind
    if kind is int:
        for wider, limits in _LARGE.items():
            if arg in limits:
                return wider
        raise ValueError(f"an int argument has at most 64 bits; got {arg}; pass a float")
    return kind if isinstance(arg, np.generic) and arg.dtype in dtypes.BY_NUMPY else None


def grid_over(name: str, shape: Sizes | None, local_size: Sizes) -> Sizes:
    """Workgroups that give an invocation to each element of the tensor that is written, its last axis along x."""
    if shape is None:
        raise ValueError(f"{name} writes no tensor: give the grid, as {name}[groups, local_size](…)")
    if len(shape) > 3:
        raise ValueError(
            f"{name} writes a tensor of {len(shape)} axes, and a grid has three: give it, as "
            f"{name}[groups, local_size](…)"
        )
    return tuple([-(-n // size) for n, size in zip(shape[::-1], local_size, strict=False)]) or (1,)
