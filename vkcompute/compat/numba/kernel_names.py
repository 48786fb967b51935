"""Names of `cuda` that only kernels use: functions, which the compiler builds, and positions, which it reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TypeVar

from vkcompute.compat.numba import simulation
from vkcompute.compiled.captured import NamedConstant

NAMES: dict[Any, Callable[..., Any]] = {}
"""Functions of kernels -> what builds a call, given the compiler and the arguments by Python's rules."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_kernels(emit: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Registers the decorated function, whose calls in a kernel are built by `emit`, given the compiler."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            thread, simulated = simulation.current(), simulation.NAMES.get(function.__qualname__)
            if thread is None or simulated is None:
                return function(*args, **named)
            return simulated(thread, *args, **named)

        NAMES[call] = emit
        return call  # type: ignore[return-value]

    return decorate


def refuse_outside_kernel(name: str) -> NoReturn:
    """Raises the error for a function of kernels that is called on the host."""
    raise NotImplementedError(f"{name} can only be called in a kernel")


class Readable(NamedConstant):
    """A name that is a value in kernels, as `cuda.laneid`, or has attributes there, as `cuda.threadIdx`."""

    def __init__(self, name: str, read: Callable[[Any, str], Any], *attributes: str) -> None:
        self.name, self.read, self.attributes = name, read, attributes

    def __getattr__(self, name: str) -> Any:
        if name in vars(self).get("attributes", ()) and (thread := simulation.current()) is not None:
            return simulation.read(thread, self.name, name)
        raise AttributeError(f"{self!r} has no attribute {name!r} on the host")

    def __repr__(self) -> str:
        return f"<{self.name} of kernels>"


def _as_number(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an operator of a name that is a number in simulated kernels."""
    return lambda self, *others: NotImplemented if simulation.current() is None else operator(int(self), *others)


class ReadableNumber(Readable):
    """A name that is a number in kernels, as `cuda.laneid`."""

    __hash__ = Readable.__hash__

    def __index__(self) -> int:
        if (thread := simulation.current()) is None:
            raise TypeError(f"{self!r} has no value on the host")
        return simulation.read(thread, self.name)

    for _name in (
        "add", "and", "eq", "floordiv", "ge", "gt", "le", "lshift", "lt", "mod", "mul", "ne", "or", "radd", "rmod",
        "rmul", "rshift", "rsub", "sub", "truediv", "xor",
    ):  # fmt: skip
        locals()[f"__{_name}__"] = _as_number(getattr(int, f"__{_name}__"))
