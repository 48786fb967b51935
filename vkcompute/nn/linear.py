"""Products of matrices with a bias and an activation, which the program of the product applies to its sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vkcompute.arrays.block_product import Sums, build_product, multiplies_halves, stacked_product
from vkcompute.arrays.operands import accept_host_data
from vkcompute.arrays.products import converted, matmul, taken, working
from vkcompute.arrays.promotion import floating
from vkcompute.arrays.ufunc import apply
from vkcompute.blocks.launching.built import Built, Program
from vkcompute.errors import IrError
from vkcompute.ir import INT32, Value
from vkcompute.nn.activations import ACTIVATIONS, OF_ARRAYS, of_elements
from vkcompute.nn.rows import bindable
from vkcompute.operations.recording import Recording, recorded, replayed
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.block_emitter import BlockEmitter

Activation = str | Callable[[Any], Any] | None


def finished(sums: Sums, bias: str, activation: Recording, scale: float = 1.0) -> Value:
    """Builds the activation of sums * scale + bias: a number per "row" or "column" of the matrices, or "" for none."""
    c, found = sums.c, sums.values
    kind: Any = found.type
    if scale != 1:
        found = c.compute("mul", found, c.full(c.const(scale, kind.element), kind.shape))
    if bias:
        memory, is_row = sums.function.buffer("bias", kind.element), bias == "row"
        at = sums.rows if is_row else sums.columns
        first = c.compute("mul", sums.left, sums.shape[0]) if is_row else c.const(0, INT32)
        last = c.compute("sub", sums.shape[not is_row], c.const(1, INT32))
        (n,) = at.type.shape  # type: ignore[union-attr]
        at = c.compute("add", c.compute("min", at, c.full(last, (n,))), c.full(first, (n,)))
        each = c.reshape(c.load_block(memory, at), (n, 1) if is_row else (1, n))
        found = c.compute("add", found, c.broadcast(each, kind.shape))
    f = BlockEmitter(c, kind.shape)
    return replayed(f, activation, f.operand(found)).value if activation else found


def _linear(bias: str, activation: Recording, scale: str, *form: Any) -> Built:
    """Builds a program; the scale is in hexadecimal, as 0.0 and -0.0 would be the same key."""
    dtype, rows, columns, step, aligned = form
    factor = float.fromhex(scale)
    return build_product(dtype, rows, columns, step, aligned, lambda sums: finished(sums, bias, activation, factor))


LINEAR = Program(_linear)


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
    dtype = floating(taken("linear", *arrays))
    name = known("linear", activation)
    fits = input.ndim and weight.ndim == 2 and input.shape[-1] == weight.shape[-1]
    if not fits or (bias is not None and bias.shape != (len(weight),)):
        shapes = ", ".join(str(each.shape) for each in arrays)
        raise ValueError(f"linear takes (…, in), (out, in) and a bias (out,); got {shapes}")
    found = _fused(input, weight, bias, name, float(scale), dtype)
    if found is None:
        sums = matmul(wide(input, dtype), wide(weight, dtype).T)
        found = activated(sums if scale == 1 else apply("multiply", sums, float(scale)), bias, name)
    return converted(found, dtype)


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


def wide(x: Array, dtype: np.dtype[Any]) -> Array:
    """Returns an array in the dtype in which products are added: float32 for float16."""
    return converted(x, working(dtype))


def activated(sums: Array, bias: Array | None, activation: Recording) -> Array:
    """Returns the lazy activation of sums plus a bias that broadcasts."""
    found = sums if bias is None else apply("add", sums, wide(bias, sums.dtype))
    return of_elements(partial(replayed, OF_ARRAYS, activation), found) if activation else found


def _fused(
    x: Array, weight: Array, bias: Array | None, activation: Recording, scale: float, dtype: np.dtype[Any]
) -> Array | None:
    """Returns the result of one program; None if a product with no more than itself takes another way."""
    n_rows = math.prod(x.shape[:-1])
    if (bias is None and not activation and scale == 1) or min(n_rows, *weight.shape) <= 1:
        return None
    if dtype != np.float16 or not multiplies_halves(x):
        dtype = working(dtype)
    given = converted(x, dtype).reshape((1, n_rows, x.shape[-1]))
    turned = converted(weight, dtype).T.reshape((1, *weight.shape[::-1]))
    others = [] if bias is None else [bindable(wide(bias, dtype))]
    found = stacked_product(given, turned, LINEAR, ("column" if others else "", activation, scale.hex()), others)
    return None if found is None else found.reshape((*x.shape[:-1], len(weight)))


accept_host_data(globals())
