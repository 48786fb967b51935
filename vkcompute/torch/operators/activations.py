"""Activations of neural networks and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import elementwise

Formula = Callable[..., Any]


def _one_minus(x: Any) -> Any:
    return apply("subtract", 1, x)


def _conjugate(x: Any) -> Any:
    """Returns the conjugate of a slope, which PyTorch multiplies with a complex gradient."""
    return apply("conjugate", x) if x.dtype.kind == "c" else x


def _product(*factors: Any) -> Any:
    result = factors[0]
    for factor in factors[1:]:
        result = apply("multiply", result, factor)
    return result


@kernel("relu")
def relu(self: Any) -> Any:
    """Returns the positive elements, and 0 for others; NaN stays."""
    return torch.clamp_min(self, 0)


@kernel("relu_")
def relu_in_place(self: Any) -> Any:
    """Sets negative elements to 0."""
    return self.clamp_min_(0)


@kernel("threshold.out")
def threshold(self: Any, threshold: Any, value: Any, *, out: Any) -> Any:
    """Computes the elements above a threshold, and a value for the others."""
    return elementwise(out, lambda x, t, v: where(apply("less_equal", x, t), v, x), self, threshold, value,
                       dtype=self.dtype)  # fmt: skip


@kernel("threshold_backward.grad_input")
def threshold_backward(grad_output: Any, self: Any, threshold: Any, *, grad_input: Any) -> Any:
    """Computes the gradient where elements are above a threshold, else 0."""

    def compute(g: Any, x: Any, t: Any) -> Any:
        return where(apply("less_equal", x, t), 0, g)

    return elementwise(grad_input, compute, grad_output, self, threshold, dtype=grad_input.dtype)


@kernel("gelu.out")
def gelu(self: Any, *, approximate: str = "none", out: Any) -> Any:
    """Computes x * Phi(x)."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    row = "gelu" if approximate == "none" else "gelu_tanh"
    return elementwise(out, lambda x: apply(row, x), self)


@kernel("gelu_backward.grad_input")
def gelu_backward(grad_output: Any, self: Any, *, approximate: str = "none", grad_input: Any) -> Any:
    """Computes the gradient of gelu."""
    formula = _gelu_slope if approximate == "none" else _gelu_tanh_slope
    return elementwise(grad_input, lambda g, x: apply("multiply", g, formula(x)), grad_output, self)


def _gelu_slope(x: Any) -> Any:
    """Returns Phi(x) + x * phi(x)."""
    below = _product(apply("add", apply("erf", _product(x, math.sqrt(0.5))), 1), 0.5)
    density = _product(apply("exp", _product(apply("square", x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return apply("add", below, _product(x, density))


def _gelu_tanh_slope(x: Any) -> Any:
    """Returns the derivative of 0.5 * x * (1 + tanh(u)), with u = sqrt(2 / pi) * (x + 0.044715 * x**3)."""
    factor, cubic = math.sqrt(2 / math.pi), 0.044715
    squared = apply("square", x)
    inner = _product(x, apply("add", _product(squared, cubic), 1), factor)
    t = apply("tanh", inner)
    slope = _product(apply("add", _product(squared, 3 * cubic), 1), factor)
    left = _product(apply("add", t, 1), 0.5)
    return apply("add", left, _product(x, _one_minus(apply("square", t)), slope, 0.5))


@kernel("silu.out")
def silu(self: Any, *, out: Any) -> Any:
    """Computes x * sigmoid(x)."""
    return elementwise(out, lambda x: apply("silu", x), self)


@kernel("silu_backward.grad_input")
def silu_backward(grad_output: Any, self: Any, *, grad_input: Any) -> Any:
    """Computes the gradient of silu."""

    def compute(g: Any, x: Any) -> Any:
        s = apply("sigmoid", x)
        return _product(g, s, apply("add", _product(x, _one_minus(s)), 1))

    return elementwise(grad_input, compute, grad_output, self)


@kernel("silu_backward")
def silu_backward_new(grad_output: Any, self: Any) -> Any:
    """Returns the gradient of silu, which PyTorch composes of operators that round to the dtype otherwise."""
    return silu_backward(grad_output, self, grad_input=torch.empty_like(self))


@kernel("sigmoid_backward.grad_input")
def sigmoid_backward(grad_output: Any, output: Any, *, grad_input: Any) -> Any:
    """Computes the gradient of sigmoid from its result."""
    return elementwise(
        grad_input, lambda g, y: _product(g, _conjugate(_product(y, _one_minus(y)))), grad_output, output
    )


@kernel("tanh_backward.grad_input")
def tanh_backward(grad_output: Any, output: Any, *, grad_input: Any) -> Any:
    """Computes the gradient of tanh from its result."""
    return elementwise(
        grad_input, lambda g, y: _product(g, _conjugate(_one_minus(apply("square", y)))), grad_output, output
    )


@kernel("elu.out")
def elu(self: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1, *, out: Any) -> Any:
    """Computes scale * x, or scale * alpha * (exp(input_scale * x) - 1) below 0."""

    def compute(x: Any) -> Any:
        below = _product(apply("expm1", _product(x, float(input_scale))), float(alpha * scale))
        return where(apply("greater", x, 0), _product(x, float(scale)), below)

    return elementwise(out, compute, self)


@kernel("elu_backward.grad_input")
def elu_backward(
    grad_output: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Any, *, grad_input: Any
) -> Any:
    """Computes the gradient of elu from its argument or its result."""
    factor, inner = float(alpha * scale), float(input_scale)

    def compute(g: Any, x: Any) -> Any:
        if is_result:
            below = _product(g, apply("add", x, factor), inner)
        else:
            below = _product(g, apply("exp", _product(x, inner)), factor * inner)
        return where(apply("less_equal", x, 0), below, _product(g, float(scale)))

    return elementwise(grad_input, compute, grad_output, self_or_result)


@kernel("leaky_relu.out")
def leaky_relu(self: Any, negative_slope: Any = 0.01, *, out: Any) -> Any:
    """Computes x, or negative_slope * x below 0."""
    slope = float(negative_slope)
    return elementwise(out, lambda x: where(apply("greater", x, 0), x, _product(x, slope)), self)


@kernel("leaky_relu_backward.grad_input")
def leaky_relu_backward(
    grad_output: Any, self: Any, negative_slope: Any, self_is_result: bool, *, grad_input: Any
) -> Any:
    """Computes the gradient of leaky_relu."""
    slope = float(negative_slope)
    return elementwise(grad_input, lambda g, x: where(apply("greater", x, 0), g, _product(g, slope)), grad_output, self)


@kernel("softplus.out")
def softplus(self: Any, beta: Any = 1, threshold: Any = 20, *, out: Any) -> Any:
    """Computes log(1 + exp(beta * x)) / beta, and x above the threshold."""

    def compute(x: Any) -> Any:
        scaled = _product(x, float(beta))
        rest = apply("divide", apply("log1p", apply("exp", scaled)), float(beta))
        return where(apply("greater", scaled, float(threshold)), x, rest)

    return elementwise(out, compute, self)


@kernel("softplus_backward.grad_input")
def softplus_backward(grad_output: Any, self: Any, beta: Any, threshold: Any, *, grad_input: Any) -> Any:
    """Computes the gradient of softplus."""

    def compute(g: Any, x: Any) -> Any:
        scaled = _product(x, float(beta))
        return where(apply("greater", scaled, float(threshold)), g, _product(g, apply("sigmoid", scaled)))

    return elementwise(grad_input, compute, grad_output, self)


@kernel("hardtanh_backward.grad_input")
def hardtanh_backward(grad_output: Any, self: Any, min_val: Any, max_val: Any, *, grad_input: Any) -> Any:
    """Computes the gradient between the limits, else 0."""

    def compute(g: Any, x: Any) -> Any:
        outside = apply("logical_or", apply("less_equal", x, min_val), apply("greater_equal", x, max_val))
        return where(outside, 0, g)

    return elementwise(grad_input, compute, grad_output, self)


@kernel("hardtanh")
def hardtanh(self: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    """Returns elements between the limits."""
    if not self.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)
    return torch.clamp(self, min_val, max_val)


@kernel("hardtanh_")
def hardtanh_in_place(self: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    """Limits the elements in place."""
    return self.clamp_(min_val, max_val)


@kernel("hardtanh_backward")
def hardtanh_backward_new(grad_output: Any, self: Any, min_val: Any, max_val: Any) -> Any:
    """Returns the gradient between the limits, else 0."""
    return hardtanh_backward(grad_output, self, min_val, max_val, grad_input=torch.empty_like(self))


@kernel("hardshrink_backward.grad_input", "softshrink_backward.grad_input")
def shrink_backward(grad_output: Any, self: Any, lambd: Any, *, grad_input: Any) -> Any:
    """Computes the gradient outside of [-lambd, lambd], else 0."""

    def compute(g: Any, x: Any) -> Any:
        return where(apply("less_equal", apply("absolute", x), float(lambd)), 0, g)

    return elementwise(grad_input, compute, grad_output, self)
