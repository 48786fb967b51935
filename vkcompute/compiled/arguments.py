"""Arguments of launches, on a device and simulated: their order, their types and their limits."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from inspect import BoundArguments
from inspect import Signature as Parameters
from numbers import Number
from typing import Any

import numpy as np

from vkcompute import dtypes

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
        binding = bind(parameters, args, named, options)
    except TypeError as error:
        is_unknown = any(keyword not in parameters.parameters for keyword in named)
        also = f", and options, as {options[0]}" if options else ""
        rule = f"{also}; the grid is given as {name}[grid](...)" if is_unknown else ""
        raise TypeError(f"{name}(): {error}{rule}") from None
    binding.apply_defaults()
    return binding.args


def group_of(args: Sequence[Any]) -> Any:
    """Returns the group of devices whose arrays are among the arguments; None for arguments of one device."""
    for arg in args:
        if hasattr(arg, "shards"):
            return arg.group
    return None


def kind_of_array(array: Any) -> tuple[Any, int]:
    """Returns the part of a signature for a device array or a host array: the character of its dtype, and ndim.

    Records have the dtype itself.
    """
    if array.size > MOST_ELEMENTS:
        rule = f"an array of a kernel in Python has at most {MOST_ELEMENTS} elements"
        raise ValueError(f"{rule}, the limit of int32; got {array.size}; pass parts of it")
    if not dtypes.is_in_kernels(array.dtype):
        raise TypeError(f"kernels have no elements of {array.dtype}; pass the records, or a view as another type")
    return array.dtype if dtypes.is_record(array.dtype) else array.dtype.char, len(array.shape)


def refuse_complex(array: Any) -> None:
    """Raises TypeError for an array of complex numbers, for programs without these."""
    if array.dtype.kind == "c":
        raise TypeError(f"this takes no complex numbers; got an array of {array.dtype}; pass x.real and x.imag")


def kind_of_number(arg: Any) -> Any:
    """Returns the part of a signature for a number, as `Signature` has it; None if it is not a number."""
    kind = type(arg)
    if kind is float or kind is bool or kind is complex or (kind is int and -0x80000000 <= arg <= 0x7FFFFFFF):
        return kind
    if isinstance(arg, np.generic):
        return kind if dtypes.is_known(arg.dtype) else None
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


def bind(
    signature: Parameters, args: Sequence[Any], named: Mapping[str, Any], options: Sequence[str] = ()
) -> BoundArguments:
    """Binds arguments to parameters.

    Args:
        options: names of further keywords of the call, for suggestions.

    Raises:
        TypeError: they do not fit. The message names all missing arguments, or the nearest name to an unknown one.
    """
    try:
        return signature.bind(*args, **named)
    except TypeError as error:
        raise TypeError(_misfit(signature, args, named, options, str(error))) from None


def _misfit(
    signature: Parameters, args: Sequence[Any], named: Mapping[str, Any], options: Sequence[str], error: str
) -> str:
    parameters = signature.parameters
    takes = f"it takes {', '.join(parameters) or 'nothing'}"
    unknown = next((name for name in named if name not in parameters), None)
    if unknown is not None:  # bind names missing arguments first
        near = suggestion(unknown, [*parameters, *options])
        return f"got an unexpected keyword argument {unknown!r}{near}; {takes}"
    if "too many" in error:
        return f"{error}; {takes}; got {len(args)}"
    if "missing" not in error:
        return error
    given = signature.bind_partial(*args, **named).arguments
    missing = [
        repr(name)
        for name, parameter in parameters.items()
        if name not in given and parameter.default is parameter.empty
    ]
    if len(missing) == 1:
        return f"missing a required argument: {missing[0]}"
    return f"missing {len(missing)} required arguments: {', '.join(missing)}"


def suggestion(name: str, known: Collection[str]) -> str:
    """Returns "; did you mean …?" with the known name most like an unknown one, or "" if none is close."""
    if name == "sub" and "compare_exchange" in known:  # vc.atomic
        return "; write atomic.add of a negative number"
    namespace, _, rest = name.partition("_")  # as in vc.atomic_add
    if rest and namespace in known:
        return f"; did you mean {namespace}.{rest}?"
    near = ["add"] if name == "sum" and "add" in known else difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
