"""Reductions of arrays in kernels, as `x.sum()` and `np.nanmax(x)`: one thread visits the elements, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vkcompute.compat.numba.kernel_names import in_kernels, refuse_outside_kernel
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.values import ArrayValue, describe


def _folded(c: NumbaKernels, combine: Any, x: ArrayValue, start: Any, extra: Any) -> Any:
    if x.ndim == 0:
        return c.call(combine, start, c.item(x, ()), extra)
    return c.call(fold if x.ndim == 1 else fold_rows, combine, x, start, extra)


# -- in the kernel language -------------------------------------------------------------------------------------------


def fold(combine: Any, x: Any, start: Any, extra: Any) -> Any:
    """Returns `combine(value so far, element, extra)` of the last element."""
    result = start
    for i in range(x.shape[0]):
        result = combine(result, x[i], extra)
    return result


def fold_rows(combine: Any, x: Any, start: Any, extra: Any) -> Any:
    """Folds the rows of an array with several axes."""
    result = start
    for i in range(x.shape[0]):
        result = folded(combine, x[i], result, extra)
    return result


@in_kernels(_folded)
def folded(combine: Any, x: Any, start: Any, extra: Any) -> Any:
    """Folds an array with any number of axes."""
    refuse_outside_kernel("folded")


def _added(total: Any, v: Any, _: Any) -> Any:
    return total + v


def _multiplied(total: Any, v: Any, _: Any) -> Any:
    return total * v


def _added_unless_nan(total: Any, v: Any, _: Any) -> Any:
    return total if v != v else total + v


def _multiplied_unless_nan(total: Any, v: Any, _: Any) -> Any:
    return total if v != v else total * v


def _number_counted(total: Any, v: Any, _: Any) -> Any:
    return total if v != v else total + 1


def _counted(total: Any, v: Any, _: Any) -> Any:
    return total + 1 if v else total


def _also(total: Any, v: Any, _: Any) -> Any:
    return total and bool(v)


def _either(total: Any, v: Any, _: Any) -> Any:
    return total or bool(v)


def _smaller(least: Any, v: Any, _: Any) -> Any:
    return np.minimum(least, v)


def _larger(most: Any, v: Any, _: Any) -> Any:
    return np.maximum(most, v)


def _smaller_number(least: Any, v: Any, _: Any) -> Any:
    return v if v < least or least != least else least


def _larger_number(most: Any, v: Any, _: Any) -> Any:
    return v if v > most or most != most else most


def _deviated(total: Any, v: Any, mean: Any) -> Any:
    d = v - mean
    return total + (d * d.conjugate()).real


def _number_deviated(total: Any, v: Any, mean: Any) -> Any:
    return total if v != v else _deviated(total, v, mean)


def mean_of(x: Any) -> Any:
    """Returns the mean."""
    return x.sum() / x.size


def nanmean_of(x: Any) -> Any:
    """Returns the mean of the elements that are not NaN."""
    return np.nansum(x) / folded(_number_counted, x, 0, 0)


def var_of(x: Any) -> Any:
    """Returns the variance."""
    return folded(_deviated, x, 0.0, mean_of(x)) / x.size


def nanvar_of(x: Any) -> Any:
    """Returns the variance of the elements that are not NaN."""
    return folded(_number_deviated, x, 0.0, nanmean_of(x)) / folded(_number_counted, x, 0, 0)


def std_of(x: Any) -> Any:
    """Returns the standard deviation."""
    return np.sqrt(var_of(x))


def nanstd_of(x: Any) -> Any:
    """Returns the standard deviation of the elements that are not NaN."""
    return np.sqrt(nanvar_of(x))


def least_at(x: Any) -> Any:
    """Returns the place of the first least element, or of the first NaN, in row-major order."""
    flat, at = x.ravel(), 0
    for i in range(flat.shape[0]):
        if flat[i] < flat[at] or (flat[i] != flat[i] and flat[at] == flat[at]):
            at = i
    return at


def most_at(x: Any) -> Any:
    """Returns the place of the first largest element, or of the first NaN, in row-major order."""
    flat, at = x.ravel(), 0
    for i in range(flat.shape[0]):
        if flat[i] > flat[at] or (flat[i] != flat[i] and flat[at] == flat[at]):
            at = i
    return at


# -- calls ------------------------------------------------------------------------------------------------------------


def _from_number(combine: Any, start: int, c: NumbaKernels, x: ArrayValue) -> Any:
    """Folds from a number, of the type of floats and of 64 bits for integers, as Numba sums."""
    kind = {"b": np.int64, "i": np.int64, "u": np.uint64}.get(x.element.kind, np.dtype(x.element.name).type)
    return _folded(c, combine, x, c.call_intrinsic(kind, [start]), 0)


def _from_first(combine: Any, c: NumbaKernels, x: ArrayValue) -> Any:
    return _folded(c, combine, x, c.item(x, (0,) * x.ndim), 0)


def _from_constant(combine: Any, start: Any, c: NumbaKernels, x: ArrayValue) -> Any:
    return _folded(c, combine, x, start, 0)


def _by_definition(definition: Any, c: NumbaKernels, x: ArrayValue) -> Any:
    return c.call(definition, x)


def reduced(name: str, c: NumbaKernels, x: Any, *args: Any, **named: Any) -> Any:
    """Builds the reduction of this name."""
    if args or any(value is not None for value in named.values()):
        raise UnsupportedError(f"{name} reduces all elements of an array, and takes no axis; call it with each row")
    if isinstance(x, ArrayValue):
        return REDUCTIONS[name](c, x)
    if isinstance(x, tuple) and name in ("all", "any"):
        return c.call_intrinsic(getattr(np, name), [x])
    raise UnsupportedError(f"{name} reduces arrays in kernels; got {describe(x)}; write it with operators")


REDUCTIONS: dict[str, Callable[[NumbaKernels, ArrayValue], Any]] = {
    "sum": partial(_from_number, _added, 0), "prod": partial(_from_number, _multiplied, 1),
    "nansum": partial(_from_number, _added_unless_nan, 0), "nanprod": partial(_from_number, _multiplied_unless_nan, 1),
    "min": partial(_from_first, _smaller), "max": partial(_from_first, _larger),
    "nanmin": partial(_from_first, _smaller_number), "nanmax": partial(_from_first, _larger_number),
    "all": partial(_from_constant, _also, True), "any": partial(_from_constant, _either, False),
    "count_nonzero": partial(_from_constant, _counted, 0),
    "mean": partial(_by_definition, mean_of), "nanmean": partial(_by_definition, nanmean_of),
    "var": partial(_by_definition, var_of), "nanvar": partial(_by_definition, nanvar_of),
    "std": partial(_by_definition, std_of), "nanstd": partial(_by_definition, nanstd_of),
    "argmin": partial(_by_definition, least_at), "argmax": partial(_by_definition, most_at),
}  # fmt: skip
"""NumPy's name of a reduction -> what builds it of an array."""
