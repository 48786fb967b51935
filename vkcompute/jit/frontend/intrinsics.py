"""The table of intrinsics: the functions that a kernel may call and that expand to operations.

Files of jit/library/ register their functions here, so that the compiler imports none of them. A function is found by
its object, whatever name a kernel has for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError


class Intrinsic(NamedTuple):
    """Expansion of a call.

    Attributes:
        emit: returns the value of a call, given the compiler and the arguments.
        fewest, most: number of arguments; `most` is None for any number.
        folds: True if a call on Python numbers is evaluated at compile time, and one on vectors per element.
        keywords: the same function in the kernel language, for calls with keyword arguments; None if they are refused.
        usage: the end of the error for a wrong number of arguments.
    """

    emit: Callable[..., Any]
    fewest: int
    most: int | None
    folds: bool = True
    keywords: Any = None
    usage: str = ""


_NAMESPACES = "atomic", "random", "subgroup", "vector", "warp"
_F = TypeVar("_F", bound=Callable[..., Any])
INTRINSICS: dict[Any, Intrinsic] = {}
ARRAY_METHODS: dict[str, Callable[..., Any]] = {}
"""Methods of arrays -> expansion of a call, given the compiler, the array and the arguments."""
REMEDIES: dict[Any, str] = {}
"""Known functions that kernels do not support -> replacement, for the error message."""


def of_numbers(function: Any) -> Any:
    """Returns the function of numbers that a function of arrays applies, its attribute `of_numbers`; others as is."""
    return getattr(function, "__dict__", {}).get("of_numbers") or function  # modules with __getattr__ are not asked


def register(
    functions: Iterable[Any],
    emit: Callable[..., Any],
    n: int | tuple[int, int | None],
    *,
    folds: bool = False,
    keywords: Any = None,
    usage: str = "",
) -> None:
    """Adds one expansion for several functions.

    Args:
        n: the number of arguments, or (fewest, most).
    """
    fewest, most = n if isinstance(n, tuple) else (n, n)
    INTRINSICS.update(dict.fromkeys(functions, Intrinsic(emit, fewest, most, folds, keywords, usage)))


def intrinsic(emit: Callable[..., Any], *, usage: str = "") -> Callable[[_F], _F]:
    """Registers the decorated function, which has the parameters of its expansion, less the compiler."""

    def decorate(function: _F) -> _F:
        n = function.__code__.co_argcount
        register([function], emit, (n - len(function.__defaults__ or ()), n), usage=usage)
        return function

    return decorate


def in_order(function: Any, args: list[Any], named: dict[str, Any]) -> list[Any]:
    """Returns the arguments of a call with keywords, by position.

    Raises:
        UnsupportedError: it is not one of the functions of kernels, or has no such parameter.
    """
    if not isinstance(function, FunctionType) or not function.__module__.startswith(f"{__name__.partition('.')[0]}."):
        raise UnsupportedError(f"{function.__name__} takes its arguments by position in kernels")
    try:
        given = inspect.signature(function).bind(*args, **named)
    except TypeError as error:
        raise UnsupportedError(f"{function.__name__}: {error}") from None
    given.apply_defaults()
    return [*given.args]


def accepted(function: Any, n: int) -> Intrinsic:
    """Returns the expansion of a function.

    Raises:
        UnsupportedError: it does not take `n` arguments.
    """
    entry = INTRINSICS[function]
    if n >= entry.fewest and (entry.most is None or n <= entry.most):
        return entry
    wanted = entry.fewest if entry.most == entry.fewest else f"{entry.fewest} to {entry.most or 'any number of'}"
    rule = f"{_public_name(function)} takes {wanted} argument{'s' * (wanted != 1)}; got {n}"
    raise UnsupportedError(f"{rule}{entry.usage}")


def remedy_for(function: Any) -> str:
    """Returns the replacement of a function that kernels do not support, for the error message."""
    if isinstance(function, Callable) and function in REMEDIES:  # type: ignore[arg-type]
        return REMEDIES[function]
    if type(getattr(function, "__self__", None)).__module__.startswith(("random", "numpy.random.")):
        return "write vc.random.uniform(counter, key)"
    return "call functions written in Python, or those that help(vc.kernel) lists; pass other values as arguments"


def _public_name(function: Any) -> str:
    """Returns the name with its namespace in vkcompute, if it has one."""
    namespace = (getattr(function, "__module__", "") or "").rpartition("vkcompute.jit.library.")[2]
    return f"{namespace}.{function.__name__}" if namespace in _NAMESPACES else str(function.__name__)


def folded(function: Any, args: list[Any]) -> Any:
    """Calls a function on Python numbers at compile time; numpy's scalars in the result become Python numbers.

    Raises:
        UnsupportedError: the function raises an error.
    """
    try:
        with np.errstate(all="ignore"):
            result = function(*args)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise UnsupportedError(f"{function.__name__}: {error}") from None
    return result if isinstance(function, type) else _as_python(result)


def _as_python(result: Any) -> Any:
    if type(result) is tuple:
        return tuple(map(_as_python, result))
    return result.item() if isinstance(result, np.generic) else result
