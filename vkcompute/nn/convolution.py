"""Convolutions as products of matrices: the weights, and windows of the input.

For each shift along the last axis there is a copy of the input, padded to whole groups of four columns. A shift along
the axis before is another offset in the copy, so that there are no further copies. With a stride along that axis each
of its shifts has a copy, too, which is as much shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from vkcompute.arrays.algorithms.block_product import tile_shape
from vkcompute.arrays.algorithms.lines import contiguous
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.matrices import LONGEST
from vkcompute.arrays.expressions.promotion import floating
from vkcompute.arrays.expressions.ufunc import assign
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.arrays.functions.products import accumulator_dtype, converted, matmul, require_arrays, zeros
from vkcompute.nn.linear import Activation, activated, known, widened
from vkcompute.nn.programs.products import convolution
from vkcompute.nn.rows import bindable
from vkcompute.operations.recording import Recording
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.launch_arrays import LARGEST, is_too_large, is_wide, rounded
from vkcompute.tile.registers import ADJACENT

Pair = int | tuple[int, int]
_STEP = 8  # terms that a program loads together


class Taps(NamedTuple):
    """The windows of an array with which filters are multiplied, one per tap.

    After `period` rows of one, the next one begins `jump` elements behind it.

    Attributes:
        windows: an array of which programs load four elements together, of int32 offsets.
        n_taps: their number.
        period: rows of each, a multiple of a step's terms.
        jump: elements from one window to the next.
        row, stack: elements from one row to the next, and from a matrix to that of the next product.
        n_columns: of the result; this and the three above are multiples of four.
        n: products.
    """

    windows: Array
    n_taps: int
    period: int
    jump: int
    row: int
    stack: int
    n_columns: int
    n: int


def pair(name: str, key: str, value: Pair, least: int = 1) -> tuple[int, int]:
    """Returns an argument for both axes.

    Raises:
        ValueError: it is neither an int nor two ints, or too small.
    """
    values = (value, value) if isinstance(value, int) else tuple(value)
    if len(values) != 2 or any(not isinstance(number, int) or number < least for number in values):
        raise ValueError(f"{name}: {key} is an int or two ints, {least} or more; got {value!r}")
    return values[0], values[1]


def conv2d(
    input: Array, weight: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair | str = 0,
    dilation: Pair = 1, groups: int = 1, activation: Activation = None,
) -> Array:  # fmt: skip
    """Returns the correlation of images with filters, plus a bias; float16 is added in float32.

    Args:
        input: of shape (n, in_channels, height, width), or without n.
        weight: of shape (out_channels, in_channels / groups, height, width).
        bias: of shape (out_channels,).
        stride, padding, dilation: for both axes, or two. "valid" pads by nothing, "same" so that the result has the
            size of the input.
        groups: of channels, which are convolved for themselves.
        activation: as of `linear`.

    Raises:
        TypeError: `groups` is no int.
        ValueError: the shapes do not fit.
    """
    _check("conv2d", ("height", "width"), input, weight, bias, groups)
    steps, dilations = pair("conv2d", "stride", stride), pair("conv2d", "dilation", dilation)
    pads = _pads(
        "conv2d", padding, weight.shape[2:], steps, dilations, lambda: pair("conv2d", "padding", cast(Pair, padding), 0)
    )
    return _correlated("conv2d", input, weight, bias, (steps, pads, dilations), groups, activation)


def conv1d(
    input: Array, weight: Array, bias: Array | None = None, stride: int = 1, padding: int | str = 0, dilation: int = 1,
    groups: int = 1, activation: Activation = None,
) -> Array:  # fmt: skip
    """Returns the correlation of signals with filters, as `conv2d` with one axis.

    Args:
        input: of shape (n, in_channels, length), or without n.
        weight: of shape (out_channels, in_channels / groups, length).
    """
    _check("conv1d", ("length",), input, weight, bias, groups)
    step, by = _single("stride", stride), _single("dilation", dilation)
    pads = _pads("conv1d", padding, weight.shape[2:], (step,), (by,), lambda: (_single("padding", padding, 0),))
    image = input.reshape((*input.shape[:-1], 1, input.shape[-1]))
    filters = weight.reshape((*weight.shape[:2], 1, weight.shape[2]))
    geometry = (1, step), ((0, 0), *pads), (1, by)
    result = _correlated("conv1d", image, filters, bias, geometry, groups, activation)
    return result.reshape((*result.shape[:-2], result.shape[-1]))


def _single(key: str, value: Any, least: int = 1) -> int:
    """Returns an argument for one axis: an int, or a sequence of one."""
    number = value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
    if not isinstance(number, int) or number < least:
        raise ValueError(f"conv1d: {key} is an int, {least} or more; got {value!r}")
    return number


def _check(name: str, axes: tuple[str, ...], x: Array, weight: Array, bias: Array | None, groups: int) -> None:
    """Checks the shapes of the arguments of a convolution along axes.

    Raises:
        TypeError: `groups` is no int.
        ValueError: the shapes do not fit.
    """
    lengths, n = ", ".join(axes), len(axes)
    if isinstance(groups, bool) or not isinstance(groups, (int, np.integer)):
        raise TypeError(f"{name}: groups is an int; got {groups!r}")
    if groups < 1:
        raise ValueError(f"{name}: groups is 1 or more; got {groups}")
    if x.ndim not in (n + 1, n + 2) or weight.ndim != n + 2:
        raise ValueError(
            f"{name} takes (n, channels, {lengths}), with weights of {n + 2} axes; got {x.shape}, {weight.shape}"
        )
    n_channels = x.shape[-n - 1]
    if n_channels != weight.shape[1] * groups or len(weight) % groups:
        raise ValueError(
            f"{name}: the weights have shape (out, {n_channels} / groups, {lengths}), and groups divide both; got "
            f"{weight.shape} and {groups} groups"
        )
    if bias is not None and bias.shape != (len(weight),):
        raise ValueError(f"{name}: the bias has shape ({len(weight)},); got {bias.shape}")


def _pads(
    name: str, padding: Any, kernel: tuple[int, ...], steps: tuple[int, ...], dilations: tuple[int, ...],
    numbers: Callable[[], tuple[int, ...]],
) -> tuple[tuple[int, int], ...]:  # fmt: skip
    """Returns the padding before and behind each axis; `numbers` returns one that is not a text."""
    if not isinstance(padding, str):
        return tuple([(number, number) for number in numbers()])
    if padding not in ("valid", "same") or (padding == "same" and {*steps} != {1}):
        raise ValueError(f'{name}: padding is "valid", or "same" with a stride of 1, or a number; got {padding!r}')
    totals = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilations, strict=True)]
    return tuple([(total // 2, total - total // 2) for total in totals])


def _correlated(
    name: str, x: Array, weight: Array, bias: Array | None, geometry: Any, groups: int, activation: Activation
) -> Array:
    """Returns the correlation of images; those of `conv1d` have one row."""
    dtype = floating(require_arrays(name, x, weight, *([] if bias is None else [bias])))
    function = known(name, activation)
    if x.ndim == 3:
        result = _correlated(name, x.reshape((1, *x.shape)), weight, bias, geometry, groups, activation)
        return result.reshape(result.shape[1:])
    steps, pads, dilations = geometry
    lengths = [_length(*values) for values in zip(x.shape[2:], weight.shape[2:], steps, pads, dilations, strict=True)]
    if min(lengths) < 1:
        sizes = [shape[2:] if name == "conv2d" else shape[3] for shape in (weight.shape, x.shape)]
        kind = "images" if name == "conv2d" else "signals"
        raise ValueError(f"{name}: dilated filters of {sizes[0]} exceed padded {kind} of {sizes[1]}")
    if not len(x) or not len(weight) or not weight.size:
        empty = zeros(x, (len(x), len(weight), *lengths), accumulator_dtype(dtype))
        result = activated(empty, None if bias is None else bias.reshape((-1, 1, 1)), function) if empty.size else empty
        return converted(result, dtype)
    result = _convolved(widened(x, dtype), widened(weight, dtype), bias, geometry, groups, lengths, function)
    return converted(result, dtype)


def _length(n: int, kernel: int, step: int, pads: tuple[int, int], dilation: int) -> int:
    return (n + sum(pads) - dilation * (kernel - 1) - 1) // step + 1


def _convolved(
    x: Array, weight: Array, bias: Array | None, geometry: Any, groups: int, lengths: Any, activation: Recording
) -> Array:
    """Returns the convolution in the dtype of the operands, in slices of images that fit in a binding."""
    steps, pads, dilations = geometry
    rows, columns = weight.shape[2:]
    is_strided = steps[0] > 1
    height = lengths[0] if is_strided else lengths[0] + dilations[0] * (rows - 1)
    shifts = [(row, column) for column in range(columns) for row in (range(rows) if is_strided else [0])]
    width, n_taps = rounded(lengths[1], ADJACENT), 1 if is_strided else rows
    period = rounded(weight.shape[1] * len(shifts), _STEP)
    area = height * width
    filters = _filters(weight, groups, is_strided, n_taps, period)
    limit = min(x.runtime.device.max_binding_bytes // x.dtype.itemsize, LARGEST - 1)
    most = max(1, min(limit // (groups * period * area), limit // (len(weight) * lengths[0] * width)))
    own_bias = None if bias is None else bindable(widened(bias, x.dtype))
    out: Array | None = None
    for start in range(0, len(x), most):
        part = x if most >= len(x) else x[start : start + most]
        n = len(part) * groups
        windows = _windows(part, groups, shifts, (height, width, lengths[1]), (steps, pads, dilations), period)
        taps = Taps(windows, n_taps, period, dilations[0] * width, area, period * area, lengths[0] * width, n)
        result = product_by_taps(filters, taps, own_bias, activation)
        if result is None:
            result = _by_products(filters, windows, n_taps, dilations[0] * width, lengths[0] * width)
            by_row = None if bias is None else bias.reshape((groups, -1, 1))
            result = activated(result.reshape((len(part), groups, *result.shape[1:])), by_row, activation)
        result = result.reshape((len(part), len(weight), lengths[0], width))[..., : lengths[1]]
        if most >= len(x):
            return result if width == lengths[1] else contiguous(result)
        out = temporary(x.runtime, (len(x), len(weight), *lengths), x.dtype) if out is None else out
        assign(out[start : start + most], result)
    return out  # type: ignore[return-value]


def product_by_taps(filters: Array, taps: Taps, bias: Array | None, activation: Recording) -> Array | None:
    """Returns products with windows of an array, of shape (n, rows, columns); None if one launch cannot do it.

    Args:
        filters: matrices of shape (groups, rows, n_taps * period), which repeat.
    """
    n_filters, n_rows, n_terms = filters.shape
    rows, columns, step = tile_shape(filters, n_rows, taps.n_columns, n_terms)
    grid = -(-n_rows // rows), -(-taps.n_columns // columns), taps.n
    sizes = filters.size, taps.windows.size, taps.n * n_rows * taps.n_columns
    if is_too_large(filters, sizes) or max(grid) > MOST_GROUPS or n_terms > LONGEST:
        return None
    out = temporary(filters.runtime, (taps.n, n_rows, taps.n_columns), filters.dtype)
    numbers = n_rows, taps.n_columns, n_terms, n_filters, taps.period, taps.row, taps.stack, taps.jump
    convolution[grid](filters, taps.windows, out, bias, *numbers, activation, rows, columns, step)
    return out


def _filters(weight: Array, groups: int, is_strided: bool, taps: int, period: int) -> Array:
    """Returns the weights as matrices, of shape (groups, rows, taps * period), with zeros behind each tap's."""
    n, channels, rows, columns = weight.shape
    given = weight.transpose((0, 1, 3, 2) if is_strided else (0, 2, 1, 3))
    n_terms = channels * columns * (rows if is_strided else 1)
    filters = temporary(weight.runtime, (n, taps, period), weight.dtype)
    if period > n_terms:
        filters.fill(weight.dtype.type(0))
    assign(filters[:, :, :n_terms], contiguous(given).reshape((n, taps, n_terms)))
    return filters.reshape((groups, n // groups, taps * period))


def _windows(x: Array, groups: int, shifts: Any, sizes: tuple[int, int, int], geometry: Any, period: int) -> Array:
    """Returns the shifted copies of images, of shape (n * groups, period, height * width), with zeros around them."""
    steps, pads, dilations = geometry
    n, channels, n_rows, n_columns = x.shape
    height, width, used = sizes
    per_group = channels // groups
    if shifts == [(0, 0)] and (height, width, steps[1]) == (n_rows, n_columns, 1) and per_group == period:
        return (x if is_wide(x) else x.copy()).reshape((n * groups, period, height * width))
    windows = temporary(x.runtime, (n, groups, period, height, width), x.dtype).fill(x.dtype.type(0))
    given = x.reshape((n, groups, per_group, n_rows, n_columns))
    for at, (row, column) in enumerate(shifts):
        rows = overlap(row * dilations[0] - pads[0][0], steps[0], height, n_rows)
        columns = overlap(column * dilations[1] - pads[1][0], steps[1], used, n_columns)
        target = windows[:, :, at : per_group * len(shifts) : len(shifts), rows[0], columns[0]]
        if target.size:
            assign(target, given[:, :, :, rows[1], columns[1]])
    return windows.reshape((n * groups, period, height * width))


def overlap(start: int, step: int, n: int, length: int) -> tuple[slice, slice]:
    """Returns where start + step * i is in a range, of the i below n and of the range."""
    first = max(0, -(start // step))
    last = min(n, (length - start + step - 1) // step)
    if last <= first:
        return slice(0, 0), slice(0, 0)
    return slice(first, last), slice(start + first * step, start + (last - 1) * step + 1, step)


def _by_products(filters: Array, windows: Array, taps: int, jump: int, n_columns: int) -> Array:
    """Returns the sums of one product per tap, for arrays that the program cannot index."""
    groups, rows, n_terms = filters.shape
    period = n_terms // taps
    stacked = windows.reshape((len(windows) // groups, groups, period, -1))
    sums = None
    for tap in range(taps):
        left = filters[:, :, tap * period : (tap + 1) * period]
        products = matmul(left, stacked[..., tap * jump : tap * jump + n_columns])
        sums = products if sums is None else sums + products
    return sums.reshape((len(windows), rows, n_columns))  # type: ignore[union-attr]


accept_host_data(globals())
