"""Functions of one element as data: an epilogue of a product is a constant of its program, and a key of its cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.errors import IrError
from vkcompute.operations.emitter import Emitter, Operand
from vkcompute.operations.function import FUNCTIONS

_Step = tuple[str, tuple[int | str, ...]]
Recording = tuple[_Step, ...]
"""Steps: a function of the registry and its operands, which are numbers of steps, -1 for the element, and constants.

Constants are in hexadecimal, as 0.0 and -0.0 would be the same key.
"""
_ITSELF = "positive"


class _Recorded(Operand):
    """The result of a step."""

    __slots__ = ("f", "number")

    def __init__(self, f: _Recorder, number: int) -> None:
        self.f, self.number = f, number


class _Recorder(Emitter):
    """Records which functions of the registry are applied to an element."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def apply(self, name: str, *operands: Any) -> _Recorded:
        """Records a step."""
        return self.record(
            name, *[operand.number if isinstance(operand, _Recorded) else float(operand).hex() for operand in operands]
        )

    def record(self, name: str, *operands: int | str) -> _Recorded:
        """Appends a step."""
        self.steps.append((name, operands))
        return _Recorded(self, len(self.steps) - 1)


def recorded(function: str | Callable[..., Any]) -> Recording:
    """Returns the steps of a function of one float, given by its name or as a function of Python.

    Raises:
        IrError: the registry has no such function, or Python's function does something else than to call these.
    """
    if not callable(function):
        row = FUNCTIONS.get(function)
        if row is None or row.arity != 1 or row.types != "float":
            raise IrError(f"no function of one float is named {function!r}")
        return ((function, (-1,)),)
    recorder = _Recorder()
    try:
        result = function(_Recorded(recorder, -1))
    except (AttributeError, TypeError, ValueError) as error:
        rule = "it applies functions of elements and operators to its argument and to numbers"
        raise IrError(f"{rule}: {error}") from error
    if not isinstance(result, _Recorded):
        raise IrError(f"it returns what it computes of its argument; got {type(result).__name__}")
    if result.number != len(recorder.steps) - 1 or not recorder.steps:
        recorder.record(_ITSELF, result.number)
    return tuple(recorder.steps)


def replayed(f: Any, recording: Recording, x: Any) -> Any:
    """Applies the steps to `x`, by the functions that are attributes of `f`."""
    results: list[Any] = []
    for name, operands in recording:
        given = [x if at == -1 else results[at] if isinstance(at, int) else float.fromhex(at) for at in operands]
        results.append(given[0] if name == _ITSELF else getattr(f, name)(*given))
    return results[-1]
