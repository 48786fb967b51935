"""What a launch is told: its arguments and its grid. On the device or simulated, they mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Signature as Parameters
from numbers import Number
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from vkcompute import dtypes

Sizes = tuple[int, ...]
MOST_ELEMENTS = 2**31 - 1  # ids are int32
_INTEGERS = [int, np.uint32, np.int64, np.uint64]  # int is int32


class Where(NamedTuple):
    """What stands in the brackets of a launch: groups, invocations of each, and queue; None is left to the kernel."""

    groups: Sizes | None = None
    local: tuple[int, int, int] | None = None
    queue: int | str | None = None


OF_GLSL = {  # what launches of kernels in GLSL take, and what to do instead
    "grid": "a kernel in Python takes its grid in brackets, as {name}[groups, local_size](…)",
    "queue": "a kernel in Python takes its queue in brackets, as {name}[None, None, queue](…)",
}


def bound(
    name: str,
    parameters: Parameters,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Any, ...]:
    """The arguments in the order of the parameters, defaults included.

    Args:
        remedies: what to do instead of giving arguments of such names.

    Raises:
        TypeError: they are not the kernel's.
    """
    try:
        found = parameters.bind(*args, **named)
    except TypeError as error:
        wrong = [each for each in named if each in remedies and each not in parameters.parameters]
        instead = [remedies[each].format(name=name) for each in wrong]
        raise TypeError("; ".join([f"{name}(): {error}", *instead])) from None
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
    if isinstance(arg, np.generic):
        return kind if arg.dtype in dtypes.BY_NUMPY else None
    if isinstance(arg, int):  # also of enums
        for each in _INTEGERS:
            limits = np.iinfo(np.int32 if each is int else each)
            if limits.min <= arg <= limits.max:
                return each
        raise ValueError(f"an int argument has at most 64 bits; got {int(arg)}; pass a float")
    return float if isinstance(arg, float) else None


def remedy(arg: Any, name: str) -> str:
    """What to pass instead of what is neither a tensor nor a number."""
    if isinstance(arg, (complex, np.complexfloating)):
        return f"; pass {name}.real and {name}.imag"
    if isinstance(arg, Number) and hasattr(arg, "__float__"):  # Fraction, Decimal, numpy's longdouble
        return f"; pass float({name})"
    return "; pass a number, or read it in the kernel as a constant from outside"


def grid_over(name: str, shape: Sizes | None, local_size: Sizes) -> Sizes:
    """Workgroups that give an invocation to each element of the tensor that is written, its last axis along x."""
    if shape is None:
        raise ValueError(
            f"{name} assigns to no tensor in what is compiled for these arguments, and its grid would take that one's "
            f"shape (atomics do not count): give the grid, as {name}[groups, local_size](…)"
        )
    if len(shape) > 3:
        raise ValueError(
            f"{name} writes a tensor of {len(shape)} axes, and a grid has three: give it, as "
            f"{name}[groups, local_size](…)"
        )
    return tuple([-(-n // size) for n, size in zip(shape[::-1], local_size, strict=False)]) or (1,)
