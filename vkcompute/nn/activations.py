"""Activations: lazy functions of the elements, which fuse with what is computed before and after them.

Their definitions are rows of the registry, so that products apply them to their sums, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vkcompute.arrays.expressions.promotion import floating, require_dtype
from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.arrays.functions.products import accumulator_dtype, converted
from vkcompute.errors import DtypeError
from vkcompute.operations import FUNCTIONS, activations, public
from vkcompute.runtime.memory.array import Array

ACTIVATIONS = {row.name: row for row in (*public("nn"), FUNCTIONS["gelu_tanh"], FUNCTIONS["tanh"])}
"""Name -> row; further arguments have PyTorch's defaults."""
NAMES = [name for name in ACTIVATIONS if name != "gelu_tanh"]
"""Names of functions of arrays."""


class _OfArrays:
    """The functions of the registry on arrays, in place of an emitter."""

    def where(self, condition: Any, x: Any, y: Any) -> Array:
        return where(condition, x, y)

    def __getattr__(self, name: str) -> Any:
        return partial(apply, name)


OF_ARRAYS = _OfArrays()


def of_elements(build: Callable[..., Any], input: Array) -> Array:
    """Returns the lazy result; float16 is computed in float32, and integers become the default float."""
    dtype = require_dtype(input.runtime, floating(input.dtype), "an activation")
    if dtype.kind != "f":
        raise DtypeError(f"activations take real numbers; got {dtype}; pass x.real, x.imag or abs(x)")
    result: Array = build(converted(input, accumulator_dtype(dtype)))
    return converted(result, dtype)


def _activation(name: str) -> Callable[..., Array]:
    """Makes the function of arrays of a row."""

    def function(input: Array) -> Array:
        return of_elements(partial(apply, name), input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Returns {FUNCTIONS[name].meaning}."
    return function


def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """Returns the elements; negative ones are multiplied by a slope."""
    return of_elements(partial(activations.leaky_relu, OF_ARRAYS, slope=float(negative_slope)), input)


def elu(input: Array, alpha: float = 1.0) -> Array:
    """Returns x where it is positive, else alpha * (exp(x) - 1)."""
    return of_elements(partial(activations.elu, OF_ARRAYS, alpha=float(alpha)), input)


def gelu(input: Array, approximate: str = "none") -> Array:
    """Returns x times the normal distribution function of x.

    Args:
        approximate: "none", or "tanh" for an approximation without erf.

    Raises:
        ValueError: `approximate` is another text.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu: approximate is "none" or "tanh"; got {approximate!r}')
    return of_elements(partial(apply, "gelu" if approximate == "none" else "gelu_tanh"), input)


def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Returns log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    return of_elements(partial(activations.softplus, OF_ARRAYS, beta=float(beta), threshold=float(threshold)), input)


relu, sigmoid, silu, tanh = (_activation(name) for name in ("relu", "sigmoid", "silu", "tanh"))
for _name in NAMES:
    globals().setdefault(_name, _activation(_name))
accept_host_data(globals())
