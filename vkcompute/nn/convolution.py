"""Convolutions as products of matrices: the weights, and windows of the input.

For each shift along the last axis there is a copy of the input, padded to whole groups of four columns. A shift along
the axis before is another offset in the copy, so that there are no further copies. With a stride along that axis each
of its shifts has a copy, too, which is as much shorter.
"""

from __future__ import annotations

from typing import Any

from vkcompute.arrays.block_offsets import LARGEST, rounded
from vkcompute.arrays.block_product import Taps, build_product, product_by_taps
from vkcompute.arrays.lines import contiguous
from vkcompute.arrays.operands import accept_host_data
from vkcompute.arrays.products import converted, matmul, taken, working, zeros
from vkcompute.arrays.promotion import floating
from vkcompute.arrays.ufunc import assign
from vkcompute.nn.linear import activated, finished, known, wide
from vkcompute.nn.rows import bindable
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.program import Built, Program, is_wide
from vkcompute.tile.registers import ADJACENT

Pair = int | tuple[int, int]
_STEP = 8  # terms that a program loads together


def _convolution(bias: str, activation: str, *form: Any) -> Built:
    dtype, rows, columns, step, aligned = form
    return build_product(dtype, rows, columns, step, aligned, lambda sums: finished(sums, bias, activation), taps=True)


CONVOLUTION = Program(_convolution)


def pair(name: str, key: str, value: Pair, least: int = 1) -> tuple[int, int]:
    """Returns an argument for both axes.

    Raises:
        ValueError: it is neither an int nor two ints, or too small.
    """
    found = (value, value) if isinstance(value, int) else tuple(value)
    if len(found) != 2 or any(not isinstance(each, int) or each < least for each in found):
        raise ValueError(f"{name}: {key} is an int or two ints, {least} or more; got {value!r}")
    return found[0], found[1]


def conv2d(
    input: Array, weight: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair | str = 0,
    dilation: Pair = 1, groups: int = 1, activation: str | None = None,
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
        ValueError: the shapes do not fit.
    """
    arrays = [input, weight] if bias is None else [input, weight, bias]
    dtype, name = floating(taken("conv2d", *arrays)), known("conv2d", activation)
    if input.ndim == 3:
        found = conv2d(input.reshape((1, *input.shape)), weight, bias, stride, padding, dilation, groups, activation)
        return found.reshape(found.shape[1:])
    _check(input, weight, bias, groups)
    steps, dilations = pair("conv2d", "stride", stride), pair("conv2d", "dilation", dilation)
    pads = _pads(padding, weight.shape[2:], steps, dilations)
    lengths = [_length(*each) for each in zip(input.shape[2:], weight.shape[2:], steps, pads, dilations, strict=True)]
    if min(lengths) < 1:
        raise ValueError(f"conv2d: dilated filters of {weight.shape[2:]} exceed padded images of {input.shape[2:]}")
    shape = len(input), len(weight), lengths[0], lengths[1]
    if not len(input) or not len(weight) or not weight.size:
        empty = zeros(input, shape, working(dtype))
        found = activated(empty, None if bias is None else bias.reshape((-1, 1, 1)), name) if empty.size else empty
        return converted(found, dtype)
    found = _convolved(wide(input, dtype), wide(weight, dtype), bias, (steps, pads, dilations), groups, lengths, name)
    return converted(found, dtype)


def conv1d(
    input: Array, weight: Array, bias: Array | None = None, stride: int = 1, padding: int | str = 0, dilation: int = 1,
    groups: int = 1, activation: str | None = None,
) -> Array:  # fmt: skip
    """Returns the correlation of signals with filters, as `conv2d` with one axis.

    Args:
        input: of shape (n, in_channels, length), or without n.
        weight: of shape (out_channels, in_channels / groups, length).
    """
    if input.ndim not in (2, 3) or weight.ndim != 3:
        raise ValueError(
            f"conv1d takes (n, channels, length), with weights of 3 axes; got {input.shape}, {weight.shape}"
        )
    image = input.reshape((*input.shape[:-1], 1, input.shape[-1]))
    filters = weight.reshape((*weight.shape[:2], 1, weight.shape[2]))
    pads = padding if isinstance(padding, str) else (0, padding)
    found = conv2d(image, filters, bias, (1, stride), pads, (1, dilation), groups, activation)
    return found.reshape((*found.shape[:-2], found.shape[-1]))


def _check(x: Array, weight: Array, bias: Array | None, groups: int) -> None:
    if x.ndim != 4 or weight.ndim != 4 or groups < 1:
        raise ValueError(
            f"conv2d takes (n, channels, height, width), with weights of 4 axes; got {x.shape}, {weight.shape}"
        )
    if x.shape[1] != weight.shape[1] * groups or len(weight) % groups:
        raise ValueError(
            f"conv2d: the weights have shape (out, {x.shape[1]} / groups, height, width), and groups divide both; got "
            f"{weight.shape} and {groups} groups"
        )
    if bias is not None and bias.shape != (len(weight),):
        raise ValueError(f"conv2d: the bias has shape ({len(weight)},); got {bias.shape}")


def _pads(
    padding: Pair | str, kernel: tuple[int, ...], steps: tuple[int, int], dilations: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the padding before and behind each axis."""
    if not isinstance(padding, str):
        rows, columns = pair("conv2d", "padding", padding, 0)
        return (rows, rows), (columns, columns)
    if padding not in ("valid", "same") or (padding == "same" and steps != (1, 1)):
        raise ValueError(f'conv2d: padding is "valid", or "same" with a stride of 1, or a number; got {padding!r}')
    if padding == "valid":
        return (0, 0), (0, 0)
    totals = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    return (totals[0] // 2, totals[0] - totals[0] // 2), (totals[1] // 2, totals[1] - totals[1] // 2)


def _length(n: int, kernel: int, step: int, pads: tuple[int, int], dilation: int) -> int:
    return (n + sum(pads) - dilation * (kernel - 1) - 1) // step + 1


def _convolved(
    x: Array, weight: Array, bias: Array | None, geometry: Any, groups: int, lengths: Any, activation: str
) -> Array:
    """Returns the convolution in the dtype of the operands, in slices of images that fit in a binding."""
    steps, pads, dilations = geometry
    rows, columns = weight.shape[2:]
    is_strided = steps[0] > 1
    height = lengths[0] if is_strided else lengths[0] + dilations[0] * (rows - 1)
    shifts = [(row, column) for column in range(columns) for row in (range(rows) if is_strided else [0])]
    width, taps = rounded(lengths[1], ADJACENT), 1 if is_strided else rows
    period = rounded(weight.shape[1] * len(shifts), _STEP)
    area = height * width
    filters = _filters(weight, groups, is_strided, taps, period)
    limit = min(x.runtime.device.max_binding_bytes // x.dtype.itemsize, LARGEST - 1)
    most = max(1, min(limit // (groups * period * area), limit // (len(weight) * lengths[0] * width)))
    others = [] if bias is None else [bindable(wide(bias, x.dtype))]
    form = "row" if others else "", activation
    out: Array | None = None
    for start in range(0, len(x), most):
        part = x if most >= len(x) else x[start : start + most]
        n = len(part) * groups
        windows = _windows(part, groups, shifts, (height, width, lengths[1]), (steps, pads, dilations), period)
        found = product_by_taps(
            CONVOLUTION, form, filters,
            Taps(windows, taps, period, dilations[0] * width, area, period * area, lengths[0] * width, n), others,
        )  # fmt: skip
        if found is None:
            found = _by_products(filters, windows, taps, dilations[0] * width, lengths[0] * width)
            by_row = None if bias is None else bias.reshape((groups, -1, 1))
            found = activated(found.reshape((len(part), groups, *found.shape[1:])), by_row, activation)
        found = found.reshape((len(part), len(weight), lengths[0], width))[..., : lengths[1]]
        if most >= len(x):
            return found if width == lengths[1] else contiguous(found)
        out = temporary(x.runtime, (len(x), len(weight), *lengths), x.dtype) if out is None else out
        assign(out[start : start + most], found)
    return out  # type: ignore[return-value]


def _filters(weight: Array, groups: int, is_strided: bool, taps: int, period: int) -> Array:
    """Returns the weights as matrices, of shape (groups, rows, taps * period), with zeros behind each tap's."""
    n, channels, rows, columns = weight.shape
    given = weight.transpose((0, 1, 3, 2) if is_strided else (0, 2, 1, 3))
    n_terms = channels * columns * (rows if is_strided else 1)
    found = temporary(weight.runtime, (n, taps, period), weight.dtype)
    if period > n_terms:
        found.fill(weight.dtype.type(0))
    assign(found[:, :, :n_terms], contiguous(given).reshape((n, taps, n_terms)))
    return found.reshape((groups, n // groups, taps * period))


def _windows(x: Array, groups: int, shifts: Any, sizes: tuple[int, int, int], geometry: Any, period: int) -> Array:
    """Returns the shifted copies of images, of shape (n * groups, period, height * width), with zeros around them."""
    steps, pads, dilations = geometry
    n, channels, n_rows, n_columns = x.shape
    height, width, used = sizes
    each = channels // groups
    if shifts == [(0, 0)] and (height, width, steps[1]) == (n_rows, n_columns, 1) and each == period:
        return (x if is_wide(x) else x.copy()).reshape((n * groups, period, height * width))
    found = temporary(x.runtime, (n, groups, period, height, width), x.dtype).fill(x.dtype.type(0))
    given = x.reshape((n, groups, each, n_rows, n_columns))
    for at, (row, column) in enumerate(shifts):
        rows = _overlap(row * dilations[0] - pads[0][0], steps[0], height, n_rows)
        columns = _overlap(column * dilations[1] - pads[1][0], steps[1], used, n_columns)
        target = found[:, :, at : each * len(shifts) : len(shifts), rows[0], columns[0]]
        if target.size:
            assign(target, given[:, :, :, rows[1], columns[1]])
    return found.reshape((n * groups, period, height * width))


def _overlap(start: int, step: int, n: int, length: int) -> tuple[slice, slice]:
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
    found = None
    for tap in range(taps):
        left = filters[:, :, tap * period : (tap + 1) * period]
        each = matmul(left, stacked[..., tap * jump : tap * jump + n_columns])
        found = each if found is None else found + each
    return found.reshape((len(windows), rows, n_columns))  # type: ignore[union-attr]


accept_host_data(globals())
