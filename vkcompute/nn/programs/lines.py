"""Block programs on the lines of an array along an axis: each element is read once and written once.

Arrays have shape (n_rows, length, n_columns), in row-major order. A block has ROWS lines of LENGTH elements, of COLUMNS
columns; all are powers of two. WHOLE says that lines are as long as the block, ALIGNED that no end of a line is between
four elements that are accessed together.

The mean is found before the squared distances from it are added, both in registers: as accurate as two passes over
memory, and with fewer operations than Welford's update.
"""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.language import libdevice
from vkcompute.blocks.launching.program import block_program
from vkcompute.tile.registers import ADJACENT


@block_program
def below(first, stop, N: tl.constexpr, UNIT: tl.constexpr):
    """Returns True for N indices from the first one on that are less than `stop`: one condition per UNIT of them."""
    n = max(N // UNIT, 1)
    inside = first + UNIT * tl.arange(0, n) < stop
    return tl.reshape(tl.broadcast_to(inside[:, None], (n, N // n)), (N,))


@block_program
def both(mask, other):
    """Returns mask & other; the other one without a mask."""
    return other if mask is None else mask & other


@block_program
def larger(x, y):
    """Returns the greater number; either one if the other is NaN."""
    return max(x, y)


@block_program
def _block(
    row, n_rows, length, n_columns,
    ROWS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Returns the offsets of a block of lines, and the mask of those in the array; None if all are."""
    if ALIGNED:
        tl.multiple_of(length if COLUMNS == 1 else n_columns, ADJACENT)
    column = tl.program_id(1) * COLUMNS
    offsets = ((row + tl.arange(0, ROWS)) * length)[:, None, None] + tl.arange(0, LENGTH)[None, :, None]
    if COLUMNS > 1:
        offsets = offsets * n_columns + (column + tl.arange(0, COLUMNS))[None, None, :]
    offsets = tl.broadcast_to(offsets, (ROWS, LENGTH, COLUMNS))
    mask = None
    if ROWS > 1:
        mask = below(row, n_rows, ROWS, 1)[:, None, None]
    if not WHOLE:
        mask = both(mask, below(0, length, LENGTH, ADJACENT if ALIGNED and COLUMNS == 1 else 1)[None, :, None])
    if COLUMNS > 1:
        mask = both(mask, below(column, n_columns, COLUMNS, ADJACENT if ALIGNED else 1)[None, None, :])
    return offsets, mask if mask is None else tl.broadcast_to(mask, (ROWS, LENGTH, COLUMNS))


@block_program
def _loaded(pointer, mask, other):
    """Returns elements, in float32 if they are narrower; `other` beyond the end of lines."""
    x = tl.load(pointer, mask, other)
    return x.to(tl.float32) if x.dtype.primitive_bitwidth < 32 else x


@block_program
def _highest(x):
    """Returns the greatest element of each line."""
    return tl.reduce(x, 1, larger, keep_dims=True)


@block_program
def _inside(x, mask):
    """Returns the elements, and 0 beyond the end of lines."""
    return x if mask is None else tl.where(mask, x, 0.0)


@block_program
def softmax(
    x_ptr, out_ptr, n_rows, length, n_columns,
    ROWS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Computes exp(x - max) * (1 / sum), of lines."""
    row = tl.program_id(0) * ROWS
    offsets, mask = _block(row, n_rows, length, n_columns, ROWS, LENGTH, COLUMNS, WHOLE, ALIGNED)
    x = _loaded(x_ptr + offsets, mask, -float("inf"))
    powers = tl.exp(x - _highest(x))
    total = tl.sum(_inside(powers, mask), 1, keep_dims=True)
    tl.store(out_ptr + offsets, powers * (1 / total), mask)  # one quotient per line


@block_program
def log_softmax(
    x_ptr, out_ptr, n_rows, length, n_columns,
    ROWS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Computes x - max - log(sum of exp(x - max)), of lines."""
    row = tl.program_id(0) * ROWS
    offsets, mask = _block(row, n_rows, length, n_columns, ROWS, LENGTH, COLUMNS, WHOLE, ALIGNED)
    x = _loaded(x_ptr + offsets, mask, -float("inf"))
    less = x - _highest(x)
    tl.store(out_ptr + offsets, less - _log_of_sum(less, mask), mask)


@block_program
def logsumexp(
    x_ptr, out_ptr, n_rows, length, n_columns,
    ROWS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Computes max + log(sum of exp(x - max)), of lines."""
    row = tl.program_id(0) * ROWS
    offsets, mask = _block(row, n_rows, length, n_columns, ROWS, LENGTH, COLUMNS, WHOLE, ALIGNED)
    x = _loaded(x_ptr + offsets, mask, -float("inf"))
    highest = _highest(x)
    origin = tl.where(libdevice.isinf(highest), 0.0, highest)
    result = origin + _log_of_sum(x - origin, mask)
    offsets, mask = _block(row, n_rows, 1, n_columns, ROWS, 1, COLUMNS, True, ALIGNED and COLUMNS > 1)
    tl.store(out_ptr + offsets, result, mask)


@block_program
def _log_of_sum(x, mask):
    """Returns log(sum of exp(x)), of lines whose largest element is 0.

    Zeros are counted apart from the sum of the others, whose digits would be lost beside them.
    """
    is_zero, zero = x == 0.0, tl.zeros_like(x)
    counted, powers = tl.where(is_zero, zero + 1.0, zero), tl.where(is_zero, zero, tl.exp(x))
    count, rest = tl.reduce((_inside(counted, mask), _inside(powers, mask)), 1, _sums, keep_dims=True)
    return libdevice.log1p(rest + (count - 1.0))


@block_program
def _sums(x, y, other_x, other_y):
    return x + other_x, y + other_y


@block_program
def _mean(x, mask, length):
    """Returns the mean of each line."""
    return tl.sum(_inside(x, mask), 1, keep_dims=True) / length


@block_program
def var_mean(
    x_ptr, out_ptr, n_rows, length, n_columns, CORRECTION: tl.constexpr,
    ROWS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Computes the sum of squared distances from the mean, divided by n - CORRECTION, and the mean, of lines."""
    row = tl.program_id(0) * ROWS
    offsets, mask = _block(row, n_rows, length, n_columns, ROWS, LENGTH, COLUMNS, WHOLE, ALIGNED)
    x = _loaded(x_ptr + offsets, mask, 0.0)
    mean = _mean(x, mask, length)
    distances = _inside(x - mean, mask)
    squares = tl.sum(distances * distances, 1, keep_dims=True)
    variance = squares / max(length.to(x.dtype) - CORRECTION, 0.0)
    offsets, mask = _block(row, n_rows, 2, n_columns, ROWS, 1, COLUMNS, True, ALIGNED and COLUMNS > 1)
    tl.store(out_ptr + offsets, variance, mask)
    tl.store(out_ptr + (offsets + n_columns), mean, mask)


@block_program
def layer_norm(
    x_ptr, weight_ptr, bias_ptr, out_ptr, n_rows, length, n_columns, EPS: tl.constexpr, REPEATS: tl.constexpr,
    ROWS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Computes (x - mean) / sqrt(variance + EPS) * weight + bias, of REPEATS blocks of lines along the last axis."""
    weight = _along(weight_ptr, length, LENGTH, WHOLE, ALIGNED)
    bias = _along(bias_ptr, length, LENGTH, WHOLE, ALIGNED)
    for at in tl.range(0, REPEATS):
        row = (tl.program_id(0) * REPEATS + at) * ROWS
        if REPEATS == 1 or row < n_rows:
            offsets, mask = _block(row, n_rows, length, n_columns, ROWS, LENGTH, COLUMNS, WHOLE, ALIGNED)
            x = _loaded(x_ptr + offsets, mask, 0.0)
            distances = _inside(x - _mean(x, mask, length), mask)
            squares = _mean(distances * distances, mask, length)
            tl.store(out_ptr + offsets, _scaled(distances, squares, EPS, weight, bias), mask)


@block_program
def rms_norm(
    x_ptr, weight_ptr, out_ptr, n_rows, length, n_columns, EPS: tl.constexpr, REPEATS: tl.constexpr,
    ROWS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Computes x / sqrt(mean of squares + EPS) * weight, of REPEATS blocks of lines along the last axis."""
    weight = _along(weight_ptr, length, LENGTH, WHOLE, ALIGNED)
    for at in tl.range(0, REPEATS):
        row = (tl.program_id(0) * REPEATS + at) * ROWS
        if REPEATS == 1 or row < n_rows:
            offsets, mask = _block(row, n_rows, length, n_columns, ROWS, LENGTH, COLUMNS, WHOLE, ALIGNED)
            x = _loaded(x_ptr + offsets, mask, 0.0)
            tl.store(out_ptr + offsets, _scaled(x, _mean(x * x, mask, length), EPS, weight, None), mask)


@block_program
def _along(pointer, length, LENGTH: tl.constexpr, WHOLE: tl.constexpr, ALIGNED: tl.constexpr):
    """Returns the elements of an array that has one per index along the lines; None without an array."""
    if pointer is None:
        return None
    mask = None if WHOLE else below(0, length, LENGTH, ADJACENT if ALIGNED else 1)
    return _loaded(pointer + tl.arange(0, LENGTH), mask, 0.0)[None, :, None]


@block_program
def _scaled(x, squares, EPS: tl.constexpr, weight, bias):
    """Returns x / sqrt(squares + EPS), times the weight and plus the bias, if there are any."""
    result = x * (1 / tl.sqrt(squares + EPS))
    if weight is not None:
        result = result * weight
    return result if bias is None else result + bias
