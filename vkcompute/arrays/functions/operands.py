"""Operands from the host: numbers, nested sequences and NumPy arrays in place of device arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, MutableMapping, Sequence
from functools import wraps
from itertools import takewhile
from operator import index
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.arrays.expressions.call_plan import CREATING, Planned, planned
from vkcompute.arrays.functions.called_names import add_public, name_caller, named
from vkcompute.arrays.functions.creation import asarray_weak
from vkcompute.dtypes import SMALL_FLOATS
from vkcompute.errors import HostCopyWarning, shorten_traceback, warn_caller
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.holders import held
from vkcompute.runtime.runtime import Runtime, current_runtime, runtime_of

NUMBERS = frozenset(
    [bool, int, float, complex, *[np.dtype(code).type for code in "?bBhHiIlLqQefdFD"]]
    + [row.numpy.type for row in SMALL_FLOATS]
)
_ARRAY, _SEVERAL, _OPERAND = ("Array", "Array | None"), ("Sequence[Array]",), ("Operand",)
"""Annotations of parameters: an array, a sequence of arrays, an array or a number."""
_INTEGER = "int", "int | None"
_NOWHERE = 1 << 30
"""The position of an argument that is given by its name only."""


def on_device(name: str, operands: Sequence[Any]) -> list[Any]:
    """Returns operands with device arrays in place of sequences and NumPy arrays; the first is an array if none was.

    Raises:
        TypeError: an operand is none of these, nor a number.
    """
    runtime = _runtime_of(operands)
    result = [x if type(x) in NUMBERS else _placed(name, x, runtime, operands) for x in operands]
    if not any(type(x) is Array for x in result):
        result[0] = asarray_weak(result[0], result, runtime)
    return result


def accept_host_data(names: MutableMapping[str, Any]) -> None:
    """Replaces the functions among the names of a module by ones that take data of the host for arrays, too."""
    for name, value in [*names.items()]:
        is_ours = isinstance(value, FunctionType) and value.__module__.startswith("vkcompute.")
        if is_ours and not name.startswith("_"):
            names[name] = _accepting(value)


def _accepting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with a copy to the device of each argument whose parameter is annotated as an array.

    Arguments whose parameters are annotated as integers are checked.
    """
    signature = inspect.signature(function)
    arrays, several, numbers = (_annotated(signature, annotations) for annotations in (_ARRAY, _SEVERAL, _OPERAND))
    variadic = {p.name for p in signature.parameters.values() if p.kind == p.VAR_POSITIONAL} & arrays
    arrays, several = arrays - variadic, several | variadic
    names = arrays | several | numbers
    integers = [
        (at if p.kind != p.KEYWORD_ONLY else _NOWHERE, p.name)
        for at, p in enumerate(signature.parameters.values())
        if p.annotation in _INTEGER
    ]
    fitting_by_name = {
        p.name: {Array, type(None)} if p.default is None or "None" in str(p.annotation) else {Array}
        for p in signature.parameters.values()
        if p.name in names
    }
    target = _written(signature)
    if not (names or integers) and target is None:
        return named(planned(function))
    add_public(function.__name__)
    leading = [*takewhile(names.__contains__, signature.parameters)]
    fitting = [NUMBERS | {Array} if name in numbers else {Array} for name in leading]
    is_quick = bool(leading) and len(leading) == len(names) and not several
    optional = {name for _, name in integers if signature.parameters[name].annotation != "int"}

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return plan(args, options)
        except Exception as error:
            name_caller(error, function.__name__)
            shorten_traceback(error)
            raise

    def placed(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kinds = [*map(type, args)]
        for at, name in integers:
            value = args[at] if at < len(args) else options.get(name, 0)
            if type(value) is not int and not (value is None and name in optional):
                _require_integer(function.__name__, name, value)
        if target is not None and (args or target in options):
            got = type(args[0] if args else options[target])
            if got is not Array:
                rule = f"{function.__name__} writes to {target}, a device array; got {got.__name__}"
                raise TypeError(f"{rule}; upload it before, with gpu.array(data)")
        fits = (
            is_quick
            and Array in kinds
            and all(type(options[name]) in fitting_by_name[name] for name in names & options.keys())
        )
        if fits and all(kind in allowed for kind, allowed in zip(kinds, fitting, strict=False)):
            return function(*args, **options)
        if not names:
            return function(*args, **options)
        bound = signature.bind(*args, **options)
        given, what = bound.arguments, function.__name__
        values = [*given.values()]
        runtime = _runtime_of(values)
        for name in [name for name in given if name in names]:
            value = given[name]
            if value is None and type(None) in fitting_by_name[name]:
                continue
            if name in several:
                given[name] = value if type(value) is Array else _all_placed(what, value, runtime)
            elif name in arrays or type(value) not in NUMBERS:
                given[name] = _placed(what, value, runtime, values)
        if numbers and leading and not any(type(given[name]) is Array for name in names & given.keys()):
            given[leading[0]] = asarray_weak(given[leading[0]], values, runtime)
        if any(isinstance(value, np.ndarray) for value in values):  # `plan` has no key for those
            return of_arrays(bound.args, bound.kwargs)
        return function(*bound.args, **bound.kwargs)

    of_arrays = Planned(lambda args, options: function(*args, **options))
    plan = Planned(placed, creates=function.__name__ in CREATING)
    return call


def _require_integer(function: str, name: str, value: Any) -> None:
    """Raises TypeError if an argument is not an integer; a bool was meant for another argument."""
    try:
        index(None if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # of an array with several elements
        raise TypeError(f"{function}: {name} is an integer; got {value!r}") from None


def _written(signature: inspect.Signature) -> str | None:
    """Returns the name of the array that a function writes: the first one, if it returns nothing."""
    first = next(iter(signature.parameters.values()), None)
    is_written = first is not None and first.annotation in _ARRAY and signature.return_annotation == "None"
    return first.name if first is not None and is_written else None


def _annotated(signature: inspect.Signature, annotations: Collection[str]) -> set[str]:
    """Returns the names of parameters with these annotations, without those that the function writes."""
    parameters, written = signature.parameters.values(), {"out", _written(signature)}
    return {p.name for p in parameters if p.annotation in annotations and p.name not in written}


def _placed(name: str, value: Any, runtime: Runtime, others: Sequence[Any]) -> Array:
    """Returns data of the host as a device array, beside others.

    Raises:
        TypeError: it is no data, or a NumPy array with more than its elements, as a masked array.
    """
    value = held(value)
    if type(value) is Array:
        return value
    is_array = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    has_more = isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap)
    if has_more or not (is_array or isinstance(value, (list, tuple, range, int, float, complex))):
        remedy = "; make a device array of it, with gpu.array(data)" if hasattr(value, "__len__") else ""
        raise TypeError(f"{name} takes arrays, numbers, and lists of these; got {type(value).__name__}{remedy}")
    if is_array and np.ndim(value):
        warn_caller(
            f"{name} is called with an array of the host, {type(value).__name__}, which each call copies to the "
            "device; keep the data there, as gpu.array(data)",
            HostCopyWarning,
        )
    return asarray_weak(value, others, runtime)


def _all_placed(name: str, values: Any, runtime: Runtime) -> tuple[Array, ...]:
    """Returns a sequence of data as device arrays.

    Raises:
        TypeError: it is no sequence, or holds no data.
    """
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{name} takes a sequence of arrays; got {type(values).__name__}")
    return tuple([_placed(name, value, runtime, values) for value in values])


def _runtime_of(operands: Sequence[Any]) -> Runtime:
    """Returns the runtime of the first array among operands, or in lists of them; the default one without arrays."""
    for x in map(held, operands):
        if type(x) is Array:
            return runtime_of(x)
        if isinstance(x, (list, tuple)):
            inner = next((value for value in x if type(value) is Array), None)
            if inner is not None:
                return runtime_of(inner)
    return current_runtime()
