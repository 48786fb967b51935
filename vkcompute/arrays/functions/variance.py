"""Variances along axes. Long contiguous lines are read once: a block program finds the moments of their parts.

Each part's mean is found before the squared distances from it are added, both in registers. The moments of parts are
combined as by T. F. Chan, G. H. Golub and R. J. LeVeque: Updating formulae and a pairwise algorithm for computing
sample variances. 1979.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.axis_reductions import reduce
from vkcompute.arrays.algorithms.lines import Axis, axes_of
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.parts import moments_of_parts
from vkcompute.arrays.expressions.promotion import (
    Operand,
    common,
    floating,
    kind_of,
    part_of,
    promoted,
    require_dtype,
    wide_float,
)
from vkcompute.arrays.expressions.ufunc import apply, astype, part, written
from vkcompute.arrays.expressions.ufunc import where as where_
from vkcompute.arrays.functions import integer_means
from vkcompute.arrays.functions.reductions import checked, chosen, count_nonzero, dtype_of_mean, mask_of
from vkcompute.arrays.functions.reductions import mean as _mean
from vkcompute.arrays.functions.reductions import sum as _sum
from vkcompute.compiled.target import computes_by_words
from vkcompute.dtypes import as_dtype
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.device import block_target
from vkcompute.tile.launch_arrays import LARGEST, is_wide, rounded
from vkcompute.tile.registers import ADJACENT

_BLOCK = 1024  # elements of a block, at least
_SHORTEST = 257
"""The fewest elements of a line: for 256, two reads take 8.0 ms of CPU time on lavapipe, and the program 10.6."""
_ALIGNED = 256
"""Pieces of an array have a multiple of so many lines, so that any device can bind them."""
_LONG, _PIECES = 1 << 24, 1024
"""Elements beyond which a line is divided, so that grids and bindings hold it; and the number of its pieces."""
N_MOMENTS = 4


class _Matrix(NamedTuple):
    """An array as a matrix, whose rows are its elements along the last axes.

    Attributes:
        shape: the lengths of the other axes.
        axes: those of the others that are reduced.
        n_rows, n: rows, and elements of each.
        length: elements of a part of a row, except of the last ones.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    n_rows: int
    n: int
    length: int


def _matrix_of(x: Array, axes: tuple[int, ...]) -> _Matrix | None:
    """Returns an array as a matrix that a program reads faster than reductions read it twice; None for others.

    Along an axis before the last, the program takes up to twice as long as reductions on lavapipe.
    """
    runtime = runtime_of(x)
    tuning = tuning_of(runtime.device.physical)
    if x._expression is not None or x.dtype.kind not in "iuf" or needs_strides(x):
        return None  # an expression is computed twice, in registers, rather than stored
    if computes_by_words(runtime, [x.dtype]):
        return None
    if tuning.moments_need_texels and (x.dtype == np.float16 or not block_target(runtime).texels):
        return None
    first = x.ndim
    while first and (first - 1 in axes or x.shape[first - 1] == 1):
        first -= 1
    n, others = math.prod(x.shape[first:]), tuple([at for at in axes if at < first])
    shape = x.shape[:first]
    if n > _LONG and n % _PIECES == 0:
        shape, others, n = (*shape, _PIECES), (*others, first), n // _PIECES
    length = min(tuning.moment_lengths, key=lambda length: rounded(n, length))
    n_parts = -(-n // length)
    if n < _SHORTEST or n_parts > MOST_GROUPS or (x.size < tuning.fewest_moments and (n_parts > 1 or others)):
        return None
    return _Matrix(shape, others, math.prod(shape), n, length)


def _parts_of(x: Array, matrix: _Matrix) -> Array | None:
    """Returns the moments of the parts of rows, along the last two axes; None if bindings hold few rows."""
    _, _, n_rows, n, length = matrix
    wide = require_dtype(x.runtime, wide_float(floating(x.dtype)), "var")
    require_dtype(x.runtime, x.dtype, "var")
    rows = min(max(_BLOCK // length, 1), 1 << (n_rows - 1).bit_length())
    most = min(x.runtime.device.max_binding_bytes // x.dtype.itemsize, LARGEST - 1) // n
    most = min(most, MOST_GROUPS * rows)
    step = n_rows if n_rows <= most else most // _ALIGNED * _ALIGNED
    if not step:
        return None
    n_parts = -(-n // length)
    given, parts = x.reshape((n_rows, n)), temporary(x.runtime, (n_rows, n_parts, N_MOMENTS), wide)
    whole = n % length == 0
    for start in range(0, n_rows, step):
        piece, out = (given, parts) if step == n_rows else (given[start : start + step], parts[start : start + step])
        grid = n_parts, -(-len(piece) // rows)
        aligned = n % ADJACENT == 0 and is_wide(piece)
        moments_of_parts[grid](piece, out, len(piece), n, n_parts, rows, length, whole, aligned)
    return parts.reshape((*matrix.shape, n_parts, N_MOMENTS))


def moments(x: Array, axes: tuple[int, ...], *, keepdims: bool) -> tuple[Array, Array] | None:
    """Returns the mean along axes and the sum of squared distances from it, by one read; None if two are faster.

    Args:
        axes: as by `axes_of`.
    """
    matrix = _matrix_of(x, axes)
    parts = None if matrix is None else _parts_of(x, matrix)
    if matrix is None or parts is None:
        return None
    count, centre, rest, squares = (parts[..., at] for at in range(N_MOMENTS))
    along = *matrix.axes, centre.ndim - 1
    if math.prod([centre.shape[at] for at in along]) == 1:
        mean = apply("add", centre, rest)
    else:
        n = count.dtype.type(math.prod([x.shape[at] for at in axes]))
        origin = _mean(centre, along, keepdims=True)
        distance = apply("add", apply("subtract", centre, origin), rest)
        moment = apply("multiply", count, distance)
        excess = _sum(moment, along)
        shift = apply("divide", excess, n)
        own = _sum(squares, along)
        squares = _sum(apply("add", squares, apply("multiply", moment, distance)), along)
        square = apply("multiply", excess, shift)
        less = apply("maximum", apply("subtract", squares, square), 0)  # rounding may give less
        squares = where_(apply("less", square, np.inf), less, squares)
        squares = where_(apply("less", own, np.inf), squares, own)  # of infinite means, differences are NaN
        mean = apply("add", origin.reshape(shift.shape), shift)
    shape = tuple([1 if at in axes else n for at, n in enumerate(x.shape) if keepdims or at not in axes])
    return mean.reshape(shape), squares.reshape(shape)


def var(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Operand = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Returns the variance along axes: the mean of squared distances from the mean, by n - ddof.

    Args:
        where: a bool array; elements where it is false are left out.
        mean: an array or number, the mean along these axes, with keepdims=True, if it is known.
        correction: the standard's name for `ddof`.

    Raises:
        ValueError: `ddof` and `correction` are given, or `mean` does not broadcast to the array.
    """
    return written(_variance(a, axis, dtype, out, correction_of(ddof, correction), keepdims, where, mean), out)


def _variance(
    a: Array, axis: Axis, dtype: npt.DTypeLike | None, out: Array | None, ddof: float, keepdims: bool, where: Any,
    mean: Operand,
) -> Array:  # fmt: skip
    """Returns the variance, in the dtype in which it is computed for `out`, which it does not write."""
    a = checked("var", a)
    where = mask_of(where, a)
    if dtype is not None and as_dtype(dtype).kind not in ("fc" if a.dtype.kind == "c" else "f"):
        rule = f"a variance of {a.dtype} is of a float dtype; got dtype={as_dtype(dtype)}"
        raise TypeError(f"{rule}; convert it with .astype()")
    axes = axes_of("var", a.ndim, axis)
    n: Any = math.prod([a.shape[at] for at in axes])
    dtype = dtype_with_mean(a, mean, dtype, out)
    narrow, with_own_mean = part_of(dtype), where is True and mean is None and dtype == floating(a.dtype)
    is_rounded = integer_means.is_rounded(a.dtype, wide_float(dtype))
    known = moments(a, axes, keepdims=keepdims) if with_own_mean and not is_rounded else None
    total = _total(a, axes, dtype, keepdims, where, mean) if known is None else known[1]
    wide = total.dtype
    if where is not True:
        n = astype(count_nonzero(where.broadcast_to(a.shape), axes, keepdims=keepdims), wide)
        variance = apply("divide", total, apply("maximum", apply("subtract", n, ddof), 0))
    else:
        variance = apply("divide", total, wide.type(max(n - ddof, 0)))
    scale = integer_means.scale_of(a.dtype, wide)
    variance = variance if scale == 1 else apply("divide", variance, scale * scale)
    return astype(variance, narrow) if variance.dtype != narrow else variance


def _total(
    a: Array, axes: tuple[int, ...], dtype: np.dtype[Any], keepdims: bool, where: Any, mean: Operand
) -> Array:  # fmt: skip
    """Returns the sum of squared distances from the mean, times the square of the scale of large integers."""
    centre: Any = mean
    if mean is None and integer_means.is_rounded(a.dtype, wide_float(dtype)):
        count: Any = math.prod([a.shape[at] for at in axes])
        if where is not True:
            count = count_nonzero(where.broadcast_to(a.shape), axes, keepdims=True)
        centre = integer_means.Mean(
            *integer_means.mean_of(chosen(a, where, "add", a.dtype), axes, count, keepdims=True)
        )
    elif mean is None:
        centre = _mean(a, axes, wide_float(dtype), keepdims=True, where=where)
    difference = distances(a, centre, dtype)
    wide = part_of(difference.dtype)
    scale = integer_means.scale_of(a.dtype, wide)
    difference = difference if scale == 1 else apply("multiply", difference, scale)
    return reduce("add", chosen(squared(difference, wide), where, "add", wide), axes, wide, keepdims)


def dtype_with_mean(a: Array, mean: Operand, dtype: npt.DTypeLike | None, out: Array | None) -> np.dtype[Any]:
    """Returns the dtype of a variance, in which a mean that is given may widen the elements, as in NumPy."""
    own = dtype_of_mean(a, dtype, out)
    if dtype is not None or mean is None:
        return own
    return promoted(a.runtime, own, floating(common(a.runtime, [a.dtype, kind_of(mean)])))


def distances(a: Array, mean: Operand | integer_means.Mean, dtype: np.dtype[Any]) -> Array:
    """Returns the differences of elements from a mean, in at least a float dtype.

    Raises:
        TypeError: the mean of real numbers is complex.
        ValueError: the mean does not broadcast to the array.
    """
    wide = wide_float(promoted(a.runtime, dtype, floating(a.dtype)))
    if integer_means.is_rounded(a.dtype, wide):
        mean = mean if isinstance(mean, integer_means.Mean) else integer_means.split(mean, a.dtype)
        difference = integer_means.distances(a, mean)
    else:
        difference = apply("subtract", astype(a, wide) if a.dtype != wide else a, mean)
    if difference.dtype.kind == "c" and a.dtype.kind != "c":
        raise TypeError(f"the mean of real numbers is real; got one of {kind_of(mean)} for {a.dtype}")
    if difference.shape != a.shape:
        raise ValueError(f"mean= broadcasts to the array's shape {a.shape}; got one of shape {np.shape(mean)}")
    return difference


def correction_of(ddof: float, correction: float | None) -> float:
    """Returns the one of two arguments that was given.

    Raises:
        TypeError: it is no number.
        ValueError: both are.
    """
    if isinstance(ddof if correction is None else correction, (str, complex, type(None))):
        raise TypeError(f"ddof is a real number; got {ddof!r}")
    if ddof and correction is not None:
        raise ValueError(f"correction is ddof by another name: pass one; got ddof={ddof}, correction={correction}")
    return ddof if correction is None else correction


def squared(array: Array, dtype: np.dtype[Any]) -> Array:
    """Returns the squared distances from 0, in a float dtype."""
    if array.dtype.kind == "c":
        one, other = part("real", array), part("imag", array)
        return apply("add", apply("multiply", one, one), apply("multiply", other, other))
    array = astype(array, dtype) if array.dtype != dtype else array
    return apply("multiply", array, array)


def std(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Operand = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Returns the standard deviation along axes: the root of the variance, whose arguments it takes."""
    variance = _variance(a, axis, dtype, out, correction_of(ddof, correction), keepdims, where, mean)
    return written(apply("sqrt", variance), out)
