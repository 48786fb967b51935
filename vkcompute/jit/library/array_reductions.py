"""Reductions of arrays in kernels, as `x.sum()`: each invocation visits all elements, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT64, UINT64, Scalar
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import ARRAY_METHODS, register
from vkcompute.jit.frontend.record_types import RecordType
from vkcompute.jit.frontend.values import PARTS, ArrayValue, Complex, Kind, Number

# -- in the kernel language -------------------------------------------------------------------------------------------


def fold(combine: Any, x: Any, start: Any) -> Any:
    """Combines the elements of an array with one axis."""
    result = start
    for i in range(x.shape[0]):
        result = combine(result, x[i])
    return result


def fold_rows(combine: Any, x: Any, start: Any) -> Any:
    """Combines the elements of an array with several axes."""
    result = start
    for i in range(x.shape[0]):
        result = folded(combine, row(x, i), result)
    return result


def folded(combine: Any, x: Any, start: Any) -> Any:
    """Combines the elements of an array with any number of axes."""


def row(x: Any, i: Any) -> Any:
    """Returns the part of an array at an index along its first axis."""


def added(total: Any, v: Any) -> Any:
    """Returns a sum."""
    return total + v


def multiplied(total: Any, v: Any) -> Any:
    """Returns a product."""
    return total * v


def smaller(least: Any, v: Any) -> Any:
    """Returns the smaller number, or a NaN."""
    return np.minimum(least, v)


def larger(most: Any, v: Any) -> Any:
    """Returns the larger number, or a NaN."""
    return np.maximum(most, v)


def both(total: Any, v: Any) -> Any:
    """Returns whether both are true."""
    return total & bool(v)


def either(total: Any, v: Any) -> Any:
    """Returns whether one is true."""
    return total | bool(v)


def mean_of(x: Any) -> Any:
    """Returns the mean."""
    return x.sum() / x.size


def is_larger(v: Any, most: Any) -> Any:
    """Returns whether a number is larger, or the first NaN."""
    return v > most or (v != v and most == most)


def is_smaller(v: Any, least: Any) -> Any:
    """Returns whether a number is smaller, or the first NaN."""
    return v < least or (v != v and least == least)


def first_of(is_better: Any, extreme: Any, x: Any) -> Any:
    """Returns the index of the first extreme of an array with one axis."""
    index, best = 0, x[0]
    for i in range(1, x.shape[0]):
        v = x[i]
        if is_better(v, best):
            index, best = i, v
    return index


def first_of_rows(is_better: Any, extreme: Any, x: Any) -> Any:
    """Returns the index of the first extreme of the elements of an array with several axes, in their order."""
    index, best = 0, extreme(row(x, 0))
    for i in range(1, x.shape[0]):
        v = extreme(row(x, i))
        if is_better(v, best):
            index, best = i, v
    return index * (x.size // x.shape[0]) + index_of_first(is_better, extreme, row(x, index))


def index_of_first(is_better: Any, extreme: Any, x: Any) -> Any:
    """Returns the index of the first extreme of an array with any number of axes."""


def largest(x: Any) -> Any:
    """Returns the largest element, or a NaN."""
    return x.max()


def smallest(x: Any) -> Any:
    """Returns the smallest element, or a NaN."""
    return x.min()


# -- calls ------------------------------------------------------------------------------------------------------------


def _folded(c: Compiler, combine: Any, x: ArrayValue, start: Any) -> Any:
    return c.call(fold if x.ndim == 1 else fold_rows, combine, x, start)


def _row(c: Compiler, x: ArrayValue, i: Any) -> Any:
    return c.part(x, (i,))


def _from_number(combine: Any, start: int, c: Compiler, x: ArrayValue) -> Any:
    """Combines with a number, in int64 or uint64 for integers, and in float32 for smaller floats."""
    whole = {"b": INT64, "i": INT64, "u": UINT64}.get(x.element.kind)
    part = PARTS.get(x.element, x.element)
    kind: Scalar = whole or (FLOAT32 if part.bits < 32 else part)
    zero = Number(c.cast(start, kind), Kind(kind))
    if x.element in PARTS:
        return _folded(c, combine, x, Complex([zero, Number(c.cast(0, kind), Kind(kind))]))
    result = _folded(c, combine, x, zero)
    return c.converted(result, x.element) if whole is None else result


def _from_first(combine: Any, c: Compiler, x: ArrayValue) -> Any:
    if x.element is BOOL:
        return _from_constant(*((both, True) if combine is smaller else (either, False)), c, x)
    return _folded(c, combine, x, c.item(x, (0,) * x.ndim))


def _from_constant(combine: Any, start: bool, c: Compiler, x: ArrayValue) -> Any:
    return _folded(c, combine, x, Number(c.builder.const(start, c.kind(start).type), c.kind(start)))


def _first(c: Compiler, is_better: Any, extreme: Any, x: ArrayValue) -> Any:
    return c.call(first_of if x.ndim == 1 else first_of_rows, is_better, extreme, x)


def _reduced(name: str, emit: Callable[[Compiler, ArrayValue], Any], c: Compiler, x: ArrayValue, *axes: Any) -> Any:
    """Builds the reduction of this name."""
    if axes:
        raise UnsupportedError(f"{name} reduces all elements of an array in kernels; got an axis; reduce each row")
    if isinstance(x.element, RecordType) or not x.ndim:
        raise UnsupportedError(f"{name} reduces arrays of numbers with axes; got {c.describe(x)}; name a field")
    return emit(c, array_views.whole(c, x) if x.ndim > 1 else x)


_REDUCTIONS: dict[str, Callable[[Compiler, ArrayValue], Any]] = {
    "sum": partial(_from_number, added, 0), "prod": partial(_from_number, multiplied, 1),
    "min": partial(_from_first, smaller), "max": partial(_from_first, larger),
    "all": partial(_from_constant, both, True), "any": partial(_from_constant, either, False),
    "mean": lambda c, x: c.call(mean_of, x), "argmax": lambda c, x: _first(c, is_larger, largest, x),
    "argmin": lambda c, x: _first(c, is_smaller, smallest, x),
}  # fmt: skip

register([folded], _folded, 3)
register([row], _row, 2)
register([index_of_first], _first, 3)
ARRAY_METHODS.update({name: partial(_reduced, name, emit) for name, emit in _REDUCTIONS.items()})
