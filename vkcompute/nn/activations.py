"""Activations: lazy functions of the elements, which fuse with what is computed before and after them.

Each is defined once, by the operations that it gets, so that products apply them to their sums, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from vkcompute.arrays import lazy
from vkcompute.arrays.operands import accept_host_data
from vkcompute.arrays.products import converted, working
from vkcompute.arrays.promotion import floating, require_dtype
from vkcompute.arrays.ufunc import apply
from vkcompute.arrays.ufunc import where as _where
from vkcompute.runtime.memory.array import Array

Operations = Callable[..., Any]
"""Applies an operation, given by NumPy's name or "erfc", to values and numbers."""


def _relu(o: Operations, x: Any) -> Any:
    return o("where", o("less", x, 0.0), 0.0, x)  # NaN stays NaN


def _leaky_relu(o: Operations, x: Any, slope: float = 0.01) -> Any:
    return o("where", o("less", x, 0.0), o("multiply", x, slope), x)


def _elu(o: Operations, x: Any, alpha: float = 1.0) -> Any:
    return o("where", o("greater", x, 0.0), x, o("multiply", o("expm1", x), alpha))


def _sigmoid(o: Operations, x: Any) -> Any:
    return o("divide", 1.0, o("add", o("exp", o("negative", x)), 1.0))


def _silu(o: Operations, x: Any) -> Any:
    return o("divide", x, o("add", o("exp", o("negative", x)), 1.0))


def _gelu(o: Operations, x: Any) -> Any:
    """Builds x * erfc(-x / sqrt(2)) / 2: 1 + erf(…) would lose the digits of small results."""
    return o("multiply", o("multiply", x, 0.5), o("erfc", o("multiply", x, -math.sqrt(0.5))))


def _gelu_tanh(o: Operations, x: Any) -> Any:
    """Builds the approximation by Hendrycks and Gimpel, 2016, section 2."""
    cube = o("multiply", o("multiply", o("multiply", x, x), x), 0.044715)
    inner = o("multiply", o("add", x, cube), math.sqrt(2 / math.pi))
    return o("multiply", o("multiply", x, 0.5), o("add", o("tanh", inner), 1.0))


def _tanh(o: Operations, x: Any) -> Any:
    return o("tanh", x)


def _softplus(o: Operations, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = o("multiply", x, beta)
    found = o("divide", o("log1p", o("exp", scaled)), beta)
    return o("where", o("greater", scaled, threshold), x, found)


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "tanh": _tanh,
    "softplus": _softplus,
}
"""Name -> function that builds it of operations and a value; further arguments have PyTorch's defaults."""


def of_elements(build: Callable[..., Any], input: Array) -> Array:
    """Returns the lazy result; float16 is computed in float32, and integers become the default float."""
    dtype = require_dtype(input.runtime, floating(input.dtype), "an activation")
    if dtype.kind != "f":
        raise TypeError(f"activations take real numbers; got {dtype}; pass x.real, x.imag or abs(x)")
    found: Array = build(_lazy, converted(input, working(dtype)))
    return converted(found, dtype)


def _lazy(name: str, *operands: Any) -> Any:
    if name == "where":
        return _where(*operands)
    if name == "erfc":
        (x,) = operands
        return lazy.make("erfc", x.dtype.name, (x,), x.shape, x.dtype, x.runtime)
    return apply(name, *operands)


def relu(input: Array) -> Array:
    """Returns the elements that are positive, and 0 for the others; NaN stays NaN."""
    return of_elements(_relu, input)


def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """Returns the elements; negative ones are multiplied by a slope."""
    return of_elements(partial(_leaky_relu, slope=float(negative_slope)), input)


def elu(input: Array, alpha: float = 1.0) -> Array:
    """Returns x where it is positive, else alpha * (exp(x) - 1)."""
    return of_elements(partial(_elu, alpha=float(alpha)), input)


def sigmoid(input: Array) -> Array:
    """Returns 1 / (1 + exp(-x))."""
    return of_elements(_sigmoid, input)


def silu(input: Array) -> Array:
    """Returns x * sigmoid(x), also known as swish."""
    return of_elements(_silu, input)


def gelu(input: Array, approximate: str = "none") -> Array:
    """Returns x times the normal distribution function of x.

    Args:
        approximate: "none", or "tanh" for an approximation without erf.

    Raises:
        ValueError: `approximate` is another text.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu: approximate is "none" or "tanh"; got {approximate!r}')
    return of_elements(_gelu if approximate == "none" else _gelu_tanh, input)


def tanh(input: Array) -> Array:
    """Returns the hyperbolic tangent."""
    return of_elements(_tanh, input)


def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Returns log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    return of_elements(partial(_softplus, beta=float(beta), threshold=float(threshold)), input)


accept_host_data(globals())
