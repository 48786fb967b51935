"""Formulas that are given as steps, as array expressions are; `Definition` gives them as functions of Python."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

from vkcompute.errors import KernelError
from vkcompute.frontend.source import Source
from vkcompute.ir import SCALARS
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.jit.library import catalog  # noqa: F401
from vkcompute.jit.library.element_functions import KernelEmitter
from vkcompute.operations import FUNCTIONS, Emitter

_MAX_TEXT = 200  # characters: results that are used twice are written twice


Step = tuple[str, str, tuple[int, ...]]
"""One operation of an expression: (operation, dtype, operands).

The operation is a name in the registry `FUNCTIONS`. The operands are converted to the dtype of this name, which may be
complex; "" leaves them as they are. Operands from 0 on are parameters; -1 is the result of the first step, -2 of the
second.
"""
_PARTS = {"complex64": SCALARS["float32"], "complex128": SCALARS["float64"]}


def _converted(f: Emitter, x: Any, dtype: str) -> Any:
    """Converts a value, or a complex one to a complex dtype or to a bool."""
    part = _PARTS.get(dtype)
    if part is None:
        return f.builder.cast(f.truth(f.operand(x)).value if type(x) is tuple else x, SCALARS[dtype])
    pair = x if type(x) is tuple else (x, f.constant(0, part))
    return tuple([f.builder.cast(value, part) for value in pair])


def _value(c: Compiler, x: Any) -> Any:
    return x.value if isinstance(x, Number) else c.cast(x, c.kind(x).type)


def _number(value: Any) -> Any:
    """Returns a value with its type; those of the parts of a complex one."""
    return tuple(map(_number, value)) if type(value) is tuple else Number(value, Kind(value.type))


def _written(steps: Sequence[Step], parameters: Sequence[str]) -> str:
    """Returns the formula as text, abbreviated if it is long."""
    results: list[str] = []
    infix: set[str] = set()
    for operation, dtype, operands in steps:
        given = [parameters[at] if at >= 0 else results[-1 - at] for at in operands]
        name = dtype if operation == "astype" else operation
        if len(given) == 2 and (sign := FUNCTIONS[name].sign if name in FUNCTIONS else ""):
            text = f" {sign} ".join([f"({operand})" if operand in infix else operand for operand in given])
            infix.add(text)
        else:
            text = f"{name}({', '.join(given)})" if name else given[0]
        if len(text) > _MAX_TEXT:
            return f"{text[:_MAX_TEXT]}… ({len(steps)} operations)"
        results.append(text)
    return results[-1]


class Expression:
    """A formula that is given as steps; its value is that of the last one. A complex value is a tuple of its parts.

    Args:
        n: the number of parameters.
    """

    def __init__(self, n: int, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.parameters = tuple([f"x{at}" for at in range(n)])
        self.name = _written(steps, self.parameters)
        self.functions: tuple[FunctionType, ...] = ()
        self.sources: dict[FunctionType, Source] = {}
        self.text = repr(list(steps))

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters."""
        return inspect.Signature(
            [inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_ONLY) for parameter in self.parameters]
        )

    def call(self, c: Compiler, args: Sequence[Any]) -> Any:
        """Builds the steps, and returns the value of the last one."""
        f, values, results = KernelEmitter(c), [_value(c, arg) for arg in args], list[Any]()
        for operation, dtype, operands in self._steps:
            given = [values[at] if at >= 0 else results[-1 - at] for at in operands]
            if dtype:
                given = [_converted(f, x, dtype) for x in given]
            results.append(f.emit(FUNCTIONS[operation], *given))
        return _number(results[-1])

    def error(self, message: object) -> KernelError:
        """Returns an error that names the operations."""
        return KernelError(f"{self.name}: {message}")

    def too_deep(self) -> KernelError:
        """Returns the error of an expression that is nested too deeply."""
        return self.error("this expression has too many steps; look at a part of it before")
