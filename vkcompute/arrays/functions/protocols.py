"""NumPy's protocols: its functions of device arrays run on the device, or raise an error, never on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from vkcompute.array_namespace import namespace

_LAYOUTS = {"order": ("C", "K", "A", None), "subok": (True, False)}
"""Values of parameters that make no difference: device arrays have no subclasses, and new ones are in C order."""
_REMEDY = "convert with .numpy(), and back with gpu.array(x)"


def array_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], named: dict[str, Any]) -> Any:
    """Calls the function of elements of NumPy's name: `Array.__array_ufunc__`.

    Raises:
        TypeError: the result would be written to a NumPy array, or there is no such function on the device.
    """
    outputs = named.pop("out", None) or ()
    name = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
    if any(isinstance(output, np.ndarray) for output in outputs):
        raise TypeError(
            f"{name} of device arrays is not written to a NumPy array; convert the operands with .numpy(), or make a "
            "device array of the result's, with gpu.array(x)"
        )
    counterpart = getattr(namespace(), ufunc.__name__, None) if getattr(np, ufunc.__name__, None) is ufunc else None
    if method != "__call__":
        counterpart = getattr(counterpart, method, None)
    if outputs:
        named["out"] = outputs[0] if len(outputs) == 1 else outputs
    return _call(name, counterpart, inputs, named)


def array_function(array: Any, function: Callable[..., Any], args: Sequence[Any], named: Any) -> Any:
    """Calls the function of NumPy's name: `array.__array_function__`; `np.zeros(3, like=array)` does, too.

    Raises:
        TypeError: there is no such function on the device.
    """
    path = [*function.__module__.split(".")[1:], function.__name__]
    name = ".".join(["np", *path])
    counterpart: Any = namespace() if function.__module__.split(".")[0] == "numpy" else None
    for part in path[-1:] if path[0] == "lib" else path:
        counterpart = getattr(counterpart, part, None)
    if counterpart is not None and "like" in _signature(counterpart).parameters:
        named = {"like": array, **named}
    return _call(name, counterpart, args, named)


def _call(name: str, function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Calls a function of the namespace; raises TypeError if there is none, or if it has other parameters."""
    if function is None:
        raise TypeError(f"{name} has no form for device arrays; {_REMEDY}")
    signature = _signature(function)
    for option, values in _LAYOUTS.items():
        if option in named and option not in signature.parameters and named[option] in values:
            named = {key: value for key, value in named.items() if key != option}
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{name} of device arrays: {error}; {_REMEDY}") from None
    return function(*args, **named)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)
