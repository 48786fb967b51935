"""The library's own functions of elements, on numbers of the host: the simulator calls them, and constants are folded.

NumPy computes them from the same definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from vkcompute.ir.operations import OPERATIONS
from vkcompute.ir.types import SCALARS
from vkcompute.operations.emitter import is_operand
from vkcompute.operations.function import FUNCTIONS, ElementFunction


class _OfNumPy:
    """NumPy's functions under the names of the registry, in place of an emitter."""

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)[()]

    def epsilon(self, x: Any) -> float:
        return float(np.finfo(x.dtype).eps)

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name, None)
        return (lambda *operands: _computed(FUNCTIONS[name], *operands)) if function is None else function


_NUMPY = _OfNumPy()


def _computed(row: ElementFunction, *operands: Any) -> Any:
    given = [operand if isinstance(operand, np.floating) else np.float64(operand) for operand in operands]
    definition: Any = row.computes["f"]
    with np.errstate(all="ignore"):
        if isinstance(definition, str):
            kind = given[0].dtype
            evaluate: Any = OPERATIONS[definition].evaluate
            return kind.type(evaluate(tuple(given), SCALARS[kind.name]))
        return definition(_NUMPY, *given)


def _own(row: ElementFunction) -> Callable[..., Any]:
    """Makes the function that kernels and block programs call, and that computes numbers outside of these."""

    def function(*operands: Any) -> Any:
        if len(operands) != row.arity:
            raise TypeError(f"{row.name} takes {row.arity} numbers; got {len(operands)}")
        element = next(filter(is_operand, operands), None)
        if element is not None:
            return element.f.apply(row.name, *operands)
        if any(getattr(operand, "ndim", 0) for operand in operands):
            raise TypeError(f"vkcompute.{row.name} takes numbers; for arrays, write vkcompute.{row.public}.{row.name}")
        return _computed(row, *operands)

    names = ["x"] if row.arity == 1 else [f"x{n}" for n in range(1, row.arity + 1)]
    function.__name__ = function.__qualname__ = row.name
    function.__module__, function.__doc__ = "vkcompute", f"{row.meaning}; for kernels and block programs."
    function.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names]
    )
    return function


OWN = {
    row.name: _own(row)
    for row in FUNCTIONS.values()
    if row.public and callable(row.computes.get("f")) and not hasattr(np, row.name)
}
"""Functions that neither Python nor NumPy has, by name: `vkcompute.xlogy` and others."""
