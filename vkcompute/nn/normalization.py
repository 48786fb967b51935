"""Softmax and normalization along axes.

Lines that fit in the registers of a workgroup take one block program, which reads and writes each element once. Longer
ones take reductions and fused expressions, which many workgroups compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.lines import axis_of, reduced_axes
from vkcompute.arrays.expressions.promotion import floating, require_dtype
from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.arrays.functions import integer_means
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.arrays.functions.products import accumulator_dtype, converted
from vkcompute.arrays.functions.reductions import max as _max
from vkcompute.arrays.functions.reductions import mean as _mean
from vkcompute.arrays.functions.reductions import sum as _sum
from vkcompute.arrays.functions.variance import moments, var
from vkcompute.blocks.launching.program import JITFunction
from vkcompute.dtypes import as_dtype, finfo
from vkcompute.errors import DtypeError
from vkcompute.nn import rows
from vkcompute.nn.linear import widened
from vkcompute.nn.programs import lines as programs
from vkcompute.runtime.graphs.results import reshaped, temporary
from vkcompute.runtime.memory.array import Array


def softmax(input: Array, dim: int = -1, dtype: npt.DTypeLike | None = None) -> Array:
    """Returns exp(x) divided by its sum along an axis; stable for all finite numbers.

    Args:
        dtype: to which the elements are converted first; integers become the default float.
    """
    x, axis = _prepared("softmax", input, dim, dtype)
    result = _by_program(programs.softmax, x, axis)
    if result is None:
        powers = apply("exp", apply("subtract", widened(x, x.dtype), _largest(x, axis)))
        result = converted(apply("divide", powers, _sum(powers, axis, keepdims=True)), x.dtype)
    return reshaped(result, input.shape)


def log_softmax(input: Array, dim: int = -1, dtype: npt.DTypeLike | None = None) -> Array:
    """Returns the logarithm of `softmax`, without its underflow.

    Args:
        dtype: as of `softmax`.
    """
    x, axis = _prepared("log_softmax", input, dim, dtype)
    result = _by_program(programs.log_softmax, x, axis)
    if result is None:
        less = apply("subtract", widened(x, x.dtype), _largest(x, axis))
        result = converted(apply("subtract", less, _log_of_sum(less, axis)), x.dtype)
    return reshaped(result, input.shape)


def logsumexp(input: Array, dim: int | tuple[int, ...], keepdim: bool = False) -> Array:
    """Returns log(sum of exp(x)) along axes, without overflow.

    Args:
        keepdim: True to keep the axes, with length 1.
    """
    lines, shape = _flattened("logsumexp", input, dim, keepdim)
    if not input.size:
        dtype = floating(input.dtype)
        return temporary(input.runtime, shape, dtype).fill(dtype.type(-np.inf))
    x, _ = _prepared("logsumexp", lines, 1, None)
    result = _by_program(programs.logsumexp, x, 1, reduces=1)
    if result is None:
        largest = _largest(x, 1)
        origin = where(apply("isinf", largest), 0.0, largest)
        less = apply("subtract", widened(x, x.dtype), origin)
        result = converted(apply("add", origin, _log_of_sum(less, 1)), x.dtype)
    return reshaped(result, shape)


def _log_of_sum(x: Array, axis: int) -> Array:
    """Returns log(sum of exp(x)) along an axis, where the largest elements are 0, as the program of `rows` does."""
    is_zero, one = apply("equal", x, 0), x.dtype.type(1)
    count = _sum(where(is_zero, one, one - one), axis, keepdims=True)
    rest = _sum(where(is_zero, one - one, apply("exp", x)), axis, keepdims=True)
    return apply("log1p", apply("add", rest, apply("subtract", count, 1)))


def var_mean(
    input: Array, dim: int | tuple[int, ...] | None = None, correction: float = 1, keepdim: bool = False
) -> tuple[Array, Array]:
    """Returns the variance and the mean along axes, all by default, from one read of axes with up to 4,096 elements.

    Args:
        correction: the variance is the sum of squared distances from the mean, divided by n - correction.
        keepdim: True to keep the axes, with length 1.
    """
    if integer_means.is_rounded(input.dtype, floating(input.dtype)):
        axes = reduced_axes("var_mean", input.ndim, dim)
        return var(input, axes, ddof=correction, keepdims=keepdim), _mean(input, axes, keepdims=keepdim)
    lines, shape = _flattened("var_mean", input, dim, keepdim)
    if not input.size:
        empty = temporary(input.runtime, shape, floating(input.dtype)).fill(np.nan)
        return empty, empty.copy()
    x, _ = _prepared("var_mean", lines, 1, None)
    result = _by_program(programs.var_mean, x, 1, reduces=2, CORRECTION=float(correction))
    if result is not None:
        return result[:, 0].reshape(shape), result[:, 1].reshape(shape)
    known = moments(x, (1,), keepdims=True)
    if known is not None:
        mean, total = known
    else:
        given = widened(x, x.dtype)
        mean = _mean(given, 1, keepdims=True)
        distances = apply("subtract", given, mean)
        total = _sum(apply("multiply", distances, distances), 1)
    both = apply("divide", total, max(x.shape[1] - float(correction), 0.0)), mean
    return tuple([converted(part, x.dtype).reshape(shape) for part in both])  # type: ignore[return-value]


def _flattened(
    name: str, x: Array, dim: int | tuple[int, ...] | None, keepdim: bool
) -> tuple[Array, tuple[int, ...]]:  # fmt: skip
    """Returns a view or copy with three axes, the middle one for the given axes, and the shape of their reduction."""
    axes = sorted(reduced_axes(name, x.ndim, dim))
    kept = tuple([1 if at in axes else n for at, n in enumerate(x.shape)])
    shape = kept if keepdim else tuple([n for at, n in enumerate(x.shape) if at not in axes])
    others = [at for at in range(x.ndim) if at not in axes]
    if axes and axes != [*range(axes[0], axes[-1] + 1)]:  # no lines along one axis
        x, axes = x.transpose((*others, *axes)), [*range(len(others), x.ndim)]
    first, last = (axes[0], axes[-1] + 1) if axes else (0, 0)
    lengths = [prod(part) for part in (x.shape[:first], x.shape[first:last], x.shape[last:])]
    return x.reshape(tuple(lengths)), shape


def layer_norm(
    input: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    """Returns (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the last axes.

    Args:
        normalized_shape: the lengths of the last axes, over which elements are averaged.
        weight, bias: arrays of this shape, of the input's dtype, or of float32 beside float16.

    Raises:
        ValueError: the last axes, or an array, have another shape.
    """
    x, others = _lines("layer_norm", input, normalized_shape, {"weight": weight, "bias": bias})
    result = _by_program(programs.layer_norm, x, 1, others, EPS=float(eps))
    if result is None:
        given = widened(x, x.dtype)
        distances = apply("subtract", given, _mean(given, 1, keepdims=True))
        result = _scaled(distances, distances, weight, bias, eps)
    return reshaped(converted(result, floating(input.dtype)), input.shape)


def rms_norm(
    input: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    """Returns x / sqrt(mean of squares + eps) * weight, with the mean over the last axes.

    Args:
        normalized_shape, weight: as of `layer_norm`.
        eps: None for the machine epsilon of the dtype in which it is computed.
    """
    x, others = _lines("rms_norm", input, normalized_shape, {"weight": weight})
    eps = float(finfo(accumulator_dtype(x.dtype)).eps if eps is None else eps)
    result = _by_program(programs.rms_norm, x, 1, others, EPS=eps)
    if result is None:
        result = _scaled(widened(x, x.dtype), widened(x, x.dtype), weight, None, eps)
    return reshaped(converted(result, floating(input.dtype)), input.shape)


def _scaled(x: Array, distances: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    """Returns x / sqrt(mean of squared distances + eps) * weight + bias."""
    squares = _mean(apply("multiply", distances, distances), 1, keepdims=True)
    result = apply("divide", x, apply("sqrt", apply("add", squares, eps)))
    if weight is not None:
        result = apply("multiply", result, weight.reshape(-1))
    return result if bias is None else apply("add", result, bias.reshape(-1))


def _by_program(
    program: JITFunction, x: Array, axis: int, others: Sequence[Array | None] = (), **options: Any
) -> Array | None:
    """Returns the result of a program; None if it cannot have such lines."""
    if not x.size:
        return temporary(x.runtime, x.shape, x.dtype)
    return rows.over_lines(program, x, axis, others, **options)


def _prepared(name: str, x: Array, axis: int, dtype: npt.DTypeLike | None) -> tuple[Array, int]:
    """Returns an array of floats with an axis or more, and an axis, counted from 0.

    Raises:
        TypeError: the elements are complex, or `axis` is no int.
        ValueError: the axis is out of range.
        MissingFeature: the device lacks the dtype.
    """
    kind = require_dtype(x.runtime, floating(x.dtype) if dtype is None else as_dtype(dtype), name)
    if kind.kind != "f" or x.dtype.kind == "c":
        raise DtypeError(f"{name} takes real numbers, and computes with floats; got {x.dtype} and dtype={kind}")
    shape = x.shape or (1,)
    if isinstance(axis, tuple):
        raise TypeError(f"{name}: dim is an int; got {axis!r}")
    at = axis_of(name, len(shape), axis)
    return converted(x, kind).reshape(shape), at


def _lines(
    name: str, x: Array, normalized_shape: int | Sequence[int], arrays: dict[str, Array | None]
) -> tuple[Array, list[Array | None]]:
    """Returns an array as a matrix of lines, and the other arrays, as vectors of its dtype.

    All are in float32 if the array is of float16, and another of float32.
    """
    if isinstance(normalized_shape, Array):
        raise TypeError(
            f"{name}: normalized_shape has the lengths of the last axes, as (3, 4); got an array of shape "
            f"{normalized_shape.shape}; the weight is the argument after it"
        )
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ValueError(f"{name}: the last axes have the shape normalized_shape, {shape}; the input's is {x.shape}")
    x, _ = _prepared(name, x, -1, None)
    dtype, vectors = x.dtype, list[Array | None]()
    if any(vector is not None and vector.dtype == accumulator_dtype(dtype) for vector in arrays.values()):
        x = widened(x, dtype)
    for key, vector in arrays.items():
        if vector is None:
            vectors.append(None)
            continue
        if vector.shape != shape or vector.dtype not in (dtype, x.dtype):
            or_wide = " or float32" if dtype.itemsize < 4 else ""
            wanted, got = f"shape {shape} and dtype {dtype}{or_wide}", f"{vector.shape} and {vector.dtype}"
            raise ValueError(f"{name}: the {key} has {wanted}, as the input; got {got}")
        vectors.append(converted(vector, x.dtype).reshape(-1))
    return x.reshape((prod(x.shape[: -len(shape)]), prod(shape))), vectors


def _largest(x: Array, axis: int) -> Array:
    return widened(_max(x, axis, keepdims=True), x.dtype)


accept_host_data(globals())
