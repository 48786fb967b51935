"""Arrays of the device that a kernel names from outside: launches pass them as further arguments."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from vkcompute.compat.numba.cuda.arrays import is_cuda_array
from vkcompute.compiled.captured import NamedConstant

_OTHERS = ModuleType, type, NamedConstant, int, float, str, type(None)


def device_globals(function: FunctionType) -> list[Any]:
    """Returns the arrays of the device among the globals and closures of a function, and of those that it names."""
    functions, arrays = {id(function): function}, dict[int, Any]()
    pending = [function]
    while pending:
        for value in _outside(pending.pop(0)):
            if isinstance(value, _OTHERS):
                continue
            called = getattr(value, "py_func", value)
            if isinstance(called, FunctionType) and id(called) not in functions:
                functions[id(called)] = called
                pending.append(called)
            elif is_cuda_array(value):
                arrays[id(value)] = value
    return [*arrays.values()]


def _outside(function: FunctionType) -> Iterator[Any]:
    """Yields the values of the names of a function, and of nested ones, that are not its variables."""
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name in dict.fromkeys(name for code in codes for name in (*code.co_freevars, *code.co_names)):
        if name not in cells:
            yield function.__globals__.get(name)
            continue
        try:
            yield cells[name].cell_contents
        except ValueError:  # not yet assigned
            continue
