"""Arguments of launches, on a device and simulated: their order, their types and their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Signature as Parameters
from numbers import Number
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.frontend.binding import bind

MOST_ELEMENTS = 2**31 - 1  # ids are int32
_WIDE = "uint32", "int64", "uint64"


def bound(
    name: str,
    parameters: Parameters,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    options: Sequence[str] = (),
) -> tuple[Any, ...]:
    """Returns the arguments in the order of the parameters, defaults included.

    Args:
        options: names of further keywords of the launch, for errors.

    Raises:
        TypeError: they do not fit the parameters.
    """
    try:
        found = bind(parameters, args, named, options)
    except TypeError as error:
        is_unknown = any(each not in parameters.parameters for each in named)
        also = f", and options, as {options[0]}" if options else ""
        rule = f"{also}; the grid is given as {name}[grid](...)" if is_unknown else ""
        raise TypeError(f"{name}(): {error}{rule}") from None
    found.apply_defaults()
    return found.args


def group_of(args: Sequence[Any]) -> Any:
    """Returns the group of devices whose arrays are among the arguments; None for arguments of one device."""
    for arg in args:
        if hasattr(arg, "shards"):
            return arg.group
    return None


def kind_of_array(array: Any) -> tuple[str, int]:
    """Returns the part of a signature for a device array or a host array: the character of its dtype, and ndim."""
    refuse_complex(array)
    if array.size > MOST_ELEMENTS:
        rule = f"an array of a kernel in Python has at most {MOST_ELEMENTS} elements"
        raise ValueError(f"{rule}, the limit of int32; got {array.size}; pass parts of it")
    return array.dtype.char, len(array.shape)


def refuse_complex(array: Any) -> None:
    """Raises TypeError for an array of complex numbers, which kernels do not have."""
    if array.dtype.kind == "c":
        raise TypeError(f"kernels have no complex numbers; got an array of {array.dtype}; pass x.real and x.imag")


def kind_of_number(arg: Any) -> Any:
    """Returns the part of a signature for a number, as `Signature` has it; None if it is not a number."""
    kind = type(arg)
    if kind is float or kind is bool or (kind is int and -0x80000000 <= arg <= 0x7FFFFFFF):
        return kind
    if isinstance(arg, np.generic):
        return kind if arg.dtype in dtypes.BY_NUMPY else None
    if isinstance(arg, int):  # an IntEnum, too
        for name in ("int32", *_WIDE):
            if np.iinfo(name).min <= arg <= np.iinfo(name).max:
                return int if name == "int32" else name
        raise ValueError(f"an int argument has at most 64 bits; got {int(arg)}; pass a float")
    return float if isinstance(arg, float) else None


_CAPTURE = "pass a number, or read it in the kernel as a constant from outside"


def remedy(arg: Any, name: str, otherwise: str = _CAPTURE) -> str:
    """Returns the remedy for an argument that is neither an array nor a number."""
    if isinstance(arg, (complex, np.complexfloating)):
        return f"; pass {name}.real and {name}.imag"
    if isinstance(arg, Number) and hasattr(arg, "__float__"):  # Fraction, Decimal, numpy's longdouble
        return f"; pass float({name})"
    return f"; {otherwise}"
