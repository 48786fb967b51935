"""Products of matrices with a bias and an activation, which the program of the product applies to its sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.block_product import multiplies_halves, prepared
from vkcompute.arrays.expressions.promotion import floating
from vkcompute.arrays.expressions.ufunc import apply
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.arrays.functions.products import accumulator_dtype, converted, matmul, require_arrays
from vkcompute.errors import IrError
from vkcompute.nn.activations import ACTIVATIONS, OF_ARRAYS, of_elements
from vkcompute.nn.programs.products import linear as linear_program
from vkcompute.nn.rows import bindable
from vkcompute.operations.recording import Recording, recorded, replayed
from vkcompute.runtime.graphs.results import reshaped
from vkcompute.runtime.memory.array import Array

Activation = str | Callable[[Any], Any] | None


def linear(
    input: Array, weight: Array, bias: Array | None = None, activation: Activation = None, scale: float = 1.0
) -> Array:
    """Returns input @ weight.T * scale + bias, and an activation of that.

    Args:
        input: an array whose last axis has `in_features` elements.
        weight: of shape (out_features, in_features).
        bias: of shape (out_features,).
        activation: the name of a function of one float, such as an activation with its default arguments; "gelu_tanh"
            is gelu(x, "tanh"). Or a function of Python that applies operators and functions of elements to its
            argument and to numbers: `lambda x: x * np.tanh(x)`. A program is compiled for each.
        scale: a constant of the program: one is compiled for each.

    Raises:
        ValueError: the shapes do not fit, or there is no such activation.
    """
    arrays = [input, weight] if bias is None else [input, weight, bias]
    dtype = floating(require_arrays("linear", *arrays))
    steps = known("linear", activation)
    fits = input.ndim and weight.ndim == 2 and input.shape[-1] == weight.shape[-1]
    if not fits or (bias is not None and bias.shape != (len(weight),)):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"linear takes (…, in), (out, in) and a bias (out,); got {shapes}")
    result = _fused(input, weight, bias, steps, float(scale), dtype)
    if result is None:
        sums = matmul(widened(input, dtype), widened(weight, dtype).T)
        result = activated(sums if scale == 1 else apply("multiply", sums, float(scale)), bias, steps)
    return converted(result, dtype)


def known(name: str, activation: Activation) -> Recording:
    """Returns the steps of an activation, () for none.

    Raises:
        ValueError: there is no such activation.
    """
    if activation is None:
        return ()
    try:
        return recorded(activation)
    except IrError as error:
        names, got = ", ".join(ACTIVATIONS), repr(activation)
        got = f"{got}, {error}" if callable(activation) else got
        raise ValueError(
            f"{name}: activation is None or one of {names}, another function of one float, or a Python function of "
            f"one; got {got}"
        ) from None


def widened(x: Array, dtype: np.dtype[Any]) -> Array:
    """Returns an array in the dtype in which products are added: float32 for float16."""
    return converted(x, accumulator_dtype(dtype))


def activated(sums: Array, bias: Array | None, activation: Recording) -> Array:
    """Returns the lazy activation of sums plus a bias that broadcasts."""
    biased = sums if bias is None else apply("add", sums, widened(bias, sums.dtype))
    return of_elements(partial(replayed, OF_ARRAYS, activation), biased) if activation else biased


def _fused(
    x: Array, weight: Array, bias: Array | None, activation: Recording, scale: float, dtype: np.dtype[Any]
) -> Array | None:
    """Returns the result of one program; None if a product with no more than itself takes another way."""
    n_rows = math.prod(x.shape[:-1])
    if (bias is None and not activation and scale == 1) or min(n_rows, *weight.shape) <= 1:
        return None
    if dtype != np.float16 or not multiplies_halves(x):
        dtype = accumulator_dtype(dtype)
    given = converted(x, dtype).reshape((1, n_rows, x.shape[-1]))
    turned = converted(weight, dtype).T.reshape((1, *weight.shape[::-1]))
    made = prepared(given, turned, whole=True)
    if made is None:
        return None
    own_bias = None if bias is None else bindable(widened(bias, dtype))
    linear_program[made.grid[:2]](
        made.left, made.right, made.out, own_bias, *made.numbers, activation, scale, *made.tile
    )
    return reshaped(made.out, (*x.shape[:-1], len(weight)))


accept_host_data(globals())
