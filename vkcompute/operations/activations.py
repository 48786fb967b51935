"""Activations of neural networks, which are functions of one float. Their parameters have PyTorch's defaults."""

from __future__ import annotations

import math
from typing import Any

from vkcompute.operations.function import define


def _relu(f: Any, x: Any) -> Any:
    return f.where(x < 0.0, 0.0, x)  # NaN stays NaN


def leaky_relu(f: Any, x: Any, slope: float = 0.01) -> Any:
    """x, and x * slope below 0."""
    return f.where(x < 0.0, x * slope, x)


def elu(f: Any, x: Any, alpha: float = 1.0) -> Any:
    """x, and alpha * (exp(x) - 1) below 0."""
    return f.where(x > 0.0, x, f.expm1(x) * alpha)


def _sigmoid(f: Any, x: Any) -> Any:
    return 1.0 / (f.exp(-x) + 1.0)


def _silu(f: Any, x: Any) -> Any:
    return x / (f.exp(-x) + 1.0)


def _gelu(f: Any, x: Any) -> Any:
    """x * erfc(-x / sqrt(2)) / 2: 1 + erf(…) would lose the digits of small results."""
    return x * 0.5 * f.erfc(x * -math.sqrt(0.5))


def _gelu_tanh(f: Any, x: Any) -> Any:
    """The approximation by Hendrycks and Gimpel, 2016, section 2."""
    cube = x * x * x * 0.044715
    return x * 0.5 * (f.tanh((x + cube) * math.sqrt(2 / math.pi)) + 1.0)


def _log_sigmoid(f: Any, x: Any) -> Any:
    return f.minimum(x, 0.0) - f.log1p(f.exp(-abs(x)))


def softplus(f: Any, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    scaled = x * beta
    return f.where(scaled > threshold, x, f.log1p(f.exp(scaled)) / beta)


for _name, _meaning, _definition in (
    ("relu", "the elements that are positive, and 0 for the others; NaN stays NaN", _relu),
    ("leaky_relu", "x, and 0.01 * x below 0", leaky_relu),
    ("elu", "x, and exp(x) - 1 below 0", elu),
    ("sigmoid", "1 / (1 + exp(-x))", _sigmoid),
    ("silu", "x * sigmoid(x), also known as swish", _silu),
    ("gelu", "x times the normal distribution function of x", _gelu),
    ("gelu_tanh", "an approximation of gelu(x) without erf", _gelu_tanh),
    ("log_sigmoid", "log(1 / (1 + exp(-x)))", _log_sigmoid),
    ("softplus", "log(1 + exp(x)); x itself above 20", softplus),
):
    define(_name, 1, "float", _meaning, {"f": _definition}, public="nn" if _name != "gelu_tanh" else "", wide=True)
