"""Products of matrices, vectors and arrays of more axes.

Integers are multiplied in at least 32 bits, and float16 in float32; results are converted back. Sums of float32 and
float64 are in the dtype itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.block_product import multiplies_halves
from vkcompute.arrays.algorithms.contraction import Term, contract, product, strided, summed
from vkcompute.arrays.algorithms.lines import axes_of, axis_of
from vkcompute.arrays.expressions.promotion import common, kind_of, part_of, promoted, require_dtype
from vkcompute.arrays.expressions.ufunc import apply, astype, joined, part, written
from vkcompute.arrays.functions.manipulation import expand_dims, moveaxis, ravel, reshape, squeeze, stack
from vkcompute.arrays.functions.reductions import sum
from vkcompute.dtypes import as_dtype, can_cast
from vkcompute.runtime.graphs.results import reshaped, temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import mixed_runtimes

Axes = int | tuple[int | Sequence[int], int | Sequence[int]]
_ACCUMULATORS = {"b": np.int32, "i": np.int32, "u": np.uint32, "f": np.float32}


def require_arrays(name: str, *arrays: Any) -> np.dtype[Any]:
    """Checks that arrays are of one runtime, and returns their common dtype.

    Raises:
        TypeError: one is not a device array.
        ValueError: they are of several runtimes.
        MissingFeature: the device lacks a dtype.
    """
    for array in arrays:
        if type(array) is not Array:
            kind_of(array)
            raise TypeError(f"{name} takes device arrays; got {type(array).__name__}; make one with gpu.array(x)")
        if array.runtime is not arrays[0].runtime:
            raise mixed_runtimes(name, arrays[0].runtime, array.runtime)
        require_dtype(array.runtime, array.dtype, name)
    return common(arrays[0].runtime, [array.dtype for array in arrays])


def accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype in which products are added: of at least 32 bits."""
    return dtype if dtype.itemsize >= 4 else np.dtype(_ACCUMULATORS[dtype.kind])


def _summed_in(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Returns the dtype in which one kernel adds products; None for complex numbers, which take four."""
    return None if dtype.kind == "c" else accumulator_dtype(dtype)


def as_given(x: Array) -> bool:
    """True if products take an array in its own dtype."""
    return x.dtype == _summed_in(x.dtype) or (x.dtype == np.float16 and multiplies_halves(x))


def converted(x: Array, dtype: np.dtype[Any]) -> Array:
    """Returns an array in a dtype: itself if it has it."""
    return x if x.dtype == dtype else astype(x, dtype)


def zeros(x: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns zeros on the device of `x`: sums of no products."""
    return temporary(x.runtime, shape, dtype).fill(dtype.type(0))


_OPTIONS = (
    inspect.Parameter("out", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Array | None"),
    *[
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, default, annotation in (
            ("dtype", None, "npt.DTypeLike | None"), ("axes", None, "Sequence[Any] | None"),
            ("casting", "same_kind", "str"), ("order", "K", "str"), ("subok", True, "bool"),
        )
    ],
)  # fmt: skip


def _generalized(
    *n_axes: int, result: Callable[[Array, Array], int]
) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Adds the keywords of NumPy's generalized functions.

    `out` is an array for the result. `dtype` is that in which to compute, and `casting` allows the conversion. `axes`
    has a tuple of axes per operand and for the result. `axis` is the last one by default. `order` and `subok` have no
    effect.

    Args:
        n_axes: the axes of each operand that the function takes together; vectors have one.
        result: returns the number of those of the result.
    """

    def decorate(function: Callable[..., Array]) -> Callable[..., Array]:
        name = function.__name__

        @wraps(function)
        def called(
            x1: Array, x2: Array, out: Array | None = None, *, dtype: npt.DTypeLike | None = None, axes: Any = None,
            casting: Any = "same_kind", order: str = "K", subok: bool = True, **named: Any,
        ) -> Array:  # fmt: skip
            can_cast(x1.dtype, x1.dtype, casting)  # an error for what is no casting
            if dtype is not None:
                require_arrays(name, x1, x2)
                wanted = as_dtype(dtype)
                for operand in (x1, x2):
                    if not can_cast(operand.dtype, wanted, casting):
                        raise TypeError(
                            f"{name}: operands become dtype={wanted} if casting={casting!r} allows it; got "
                            f"{operand.dtype}; convert with .astype()"
                        )
                x1, x2 = converted(x1, wanted), converted(x2, wanted)
            if takes_axis:
                named.setdefault("axis", -1)
            if axes is None:
                return written(function(x1, x2, **named), out)
            if named.get("axis", -1) != -1:
                raise TypeError(f"{name} takes axis or axes, not both")
            counts = [min(n, x.ndim) for n, x in zip(n_axes, (x1, x2), strict=True)]
            counts.append(result(x1, x2))
            given = _axes_of_cores(name, axes, counts)
            last = [tuple(range(-n, 0)) for n in counts]
            x1, x2 = (moveaxis(x, *move) for x, move in zip((x1, x2), zip(given, last, strict=True), strict=False))
            return written(moveaxis(function(x1, x2, **named), last[2], given[2]), out)

        parameters = [
            p.replace(kind=p.KEYWORD_ONLY, default=-1) if p.name == "axis" else p
            for p in inspect.signature(function).parameters.values()
        ]
        takes_axis = any(p.name == "axis" for p in parameters)
        first = [p for p in parameters if p.kind != p.KEYWORD_ONLY]
        rest = [p for p in parameters if p.kind == p.KEYWORD_ONLY]
        called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*first, _OPTIONS[0], *rest, *_OPTIONS[1:]], return_annotation="Array"
        )
        return called

    return decorate


def _axes_of_cores(name: str, axes: Any, counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns the axes per operand and of the result; those of the result may be missing if it has none.

    Raises:
        ValueError: there are more or fewer.
    """
    result = [(entry,) if isinstance(entry, (int, np.integer)) else tuple(entry) for entry in axes]
    if len(result) == 2 and not counts[2]:
        result.append(())
    if [len(entry) for entry in result] != list(counts):
        raise ValueError(
            f"{name}: axes has {counts[0]}, {counts[1]} and {counts[2]} axes, of the operands and of the result; got "
            f"{axes!r}"
        )
    return result


def _matrix_axes(x1: Array, x2: Array) -> int:
    return (x1.ndim > 1) + (x2.ndim > 1)


@_generalized(2, 2, result=_matrix_axes)
def matmul(x1: Array, x2: Array) -> Array:
    """Returns the matrix product: a vector is a row on the left, a column on the right; other axes broadcast.

    Raises:
        TypeError: an operand is not a device array.
        ValueError: an operand has no axes, the lengths differ, or the other axes do not broadcast.
    """
    return _matmul(x1, x2, require_arrays("matmul", x1, x2))


def wide_matmul(x1: Array, x2: Array) -> Array:
    """Returns the matrix product in the dtype in which it is added, not rounded to that of its operands.

    Raises:
        TypeError: an operand is not a device array.
        ValueError: as of `matmul`.
    """
    return _matmul(x1, x2, accumulator_dtype(require_arrays("matmul", x1, x2)))


def _matmul(x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """Returns the matrix product in a dtype."""
    if not x1.ndim or not x2.ndim:
        raise ValueError(f"matmul takes vectors and matrices; got shapes {x1.shape} and {x2.shape}; use multiply")
    inner = x2.shape[-2] if x2.ndim > 1 else x2.shape[0]
    if x1.shape[-1] != inner:
        raise ValueError(
            f"matmul: the last axis of the first operand is as long as the first of the second matrix; got "
            f"{x1.shape[-1]} and {inner}, of shapes {x1.shape} and {x2.shape}"
        )
    if x1.ndim == x2.ndim == 2 and x1.dtype == x2.dtype and min(*x1.shape, *x2.shape) > 1 and as_given(x1):
        a, b = (strided(x, (1, *x.shape), (0, *x.strides)) for x in (x1, x2))
        return converted(reshaped(product(a, b), (x1.shape[0], x2.shape[1])), dtype)
    row, column = ("row",) if x1.ndim > 1 else (), ("column",) if x2.ndim > 1 else ()
    stacks = x1.shape[:-2], x2.shape[:-2]
    batch = _broadcast(stacks, f"matmul: shapes {x1.shape} and {x2.shape}")
    labels = tuple(range(-len(batch), 0))
    terms = [(x1, (*labels[len(labels) - len(stacks[0]) :], *row, "inner")),
             (x2, (*labels[len(labels) - len(stacks[1]) :], "inner", *column))]  # fmt: skip
    result = total(terms, (*labels, *row, *column), dtype)
    return result if result.contiguous else result.copy()


def _broadcast(shapes: Sequence[tuple[int, ...]], what: str) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{what} have stacks of matrices that do not broadcast: {shapes[0]} and {shapes[1]}") from None


def total(terms: Sequence[tuple[Array, tuple[Any, ...]]], labels: tuple[Any, ...], dtype: np.dtype[Any]) -> Array:
    """Returns the product of arrays, summed over the axes whose labels are not among `labels`.

    Args:
        terms: arrays and the labels of their axes; lengths of one label are equal, or 1 to broadcast.
        labels: of the axes of the result.
        dtype: of the result.
    """
    first = next((at for at, (x, _) in enumerate(terms) if x.dtype.kind == "c"), None)
    if first is not None:
        return _complex(terms, first, labels)
    dtype = part_of(dtype)
    lengths: dict[Any, int] = {}
    for x, names in terms:
        for name, n in zip(names, x.shape, strict=True):
            lengths[name] = n if lengths.get(name, 1) == 1 else lengths[name]
    shape = tuple([lengths[label] for label in labels])
    if 0 in lengths.values():
        return zeros(terms[0][0], shape, dtype)
    pending = [_term(converted(x, accumulator_dtype(dtype)), names, lengths) for x, names in terms]
    while len(pending) > 1:
        one, other, *rest = pending
        kept = {*labels, *[name for term in rest for name in term.labels]}
        pending = [contract(one, other, kept), *rest]
    last = summed(pending[0], labels)
    result = last.array
    if last.labels != labels:
        axes = {label: at for at, label in enumerate(last.labels)}
        strides = [result.strides[axes[label]] if label in axes else 0 for label in labels]
        result = strided(result, shape, strides)
    return converted(result, dtype)


def _complex(terms: Sequence[tuple[Array, tuple[Any, ...]]], at: int, labels: tuple[Any, ...]) -> Array:
    """Returns the product of arrays of which the one at this index is complex: those with its parts, added."""
    x, names = terms[at]
    others = [array.dtype for k, (array, _) in enumerate(terms) if k != at]
    dtype = promoted(x.runtime, part_of(x.dtype), *others)
    one, other = (total([*terms[:at], (half, names), *terms[at + 1 :]], labels, dtype) for half in (x.real, x.imag))
    if one.dtype.kind != "c":
        return joined(one, other)
    turned = joined(apply("negative", part("imag", other)), part("real", other))
    return apply("add", one, turned)


def _term(x: Array, names: tuple[Any, ...], lengths: dict[Any, int]) -> Term:
    """Returns a term without axes that broadcast; axes with one label become their diagonal."""
    distinct = list(dict.fromkeys(names))
    kept = [label for label in distinct if all(
        x.shape[at] == lengths[label] for at, name in enumerate(names) if name == label)]  # fmt: skip
    if kept == list(names):
        return Term(x, names)
    strides = [np.sum([x.strides[at] for at, name in enumerate(names) if name == label], dtype=int) for label in kept]
    return Term(strided(x, [lengths[label] for label in kept], [int(stride) for stride in strides]), tuple(kept))


def dot(a: Array, b: Array, out: Array | None = None) -> Array:
    """Returns the sum of products over the last axis of `a` and the last but one of `b`, or its only axis.

    Raises:
        as `matmul`.
        ValueError: `out` has another dtype than the result, as its elements would wrap before they are converted.
    """
    dtype = require_arrays("dot", a, b)
    if type(out) is Array and out.dtype != dtype:
        raise ValueError(f"dot: out has the dtype of the result, {dtype}; got {out.dtype}; convert with .astype()")
    if a.ndim and b.ndim:
        product = _over(("dot", a, b), (a.ndim - 1,), (max(b.ndim - 2, 0),), dtype)
    else:
        product = apply("multiply", a, b)
    return written(product, out)


def _over(given: tuple[str, Array, Array], left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> Array:
    """Returns the sum of products over axes of two arrays: the other axes of the first, then of the second."""
    name, a, b = given
    lengths = [a.shape[at] for at in left], [b.shape[at] for at in right]
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"{name}: axes {left} of shape {a.shape} and {right} of {b.shape} are as long as each other; got "
            f"{lengths[0]} and {lengths[1]}"
        )
    labels = tuple(range(a.ndim)), [a.ndim + at for at in range(b.ndim)]
    for one, other in zip(left, right, strict=True):
        labels[1][other] = one
    kept = [at for at in labels[0] if at not in left], [at for at in labels[1] if at >= a.ndim]
    return total([(a, labels[0]), (b, tuple(labels[1]))], (*kept[0], *kept[1]), dtype)


def inner(a: Array, b: Array) -> Array:
    """Returns the sum of products over the last axes of both arrays."""
    dtype = require_arrays("inner", a, b)
    if not a.ndim or not b.ndim:
        return apply("multiply", a, b)
    return _over(("inner", a, b), (a.ndim - 1,), (b.ndim - 1,), dtype)


def vdot(a: Array, b: Array) -> Array:
    """Returns the sum of products of the elements of both arrays, flattened; of the conjugates of the first."""
    require_arrays("vdot", a, b)
    return inner(ravel(apply("conjugate", a) if a.dtype.kind == "c" else a), ravel(b))


def outer(a: Array, b: Array, out: Array | None = None) -> Array:
    """Returns the products of all elements of `a`, one per row, with all of `b`."""
    require_arrays("outer", a, b)
    product = apply("multiply", reshape(a, (-1, 1)) if a.size else a.reshape((0, 1)), ravel(b))
    return written(product, out)


def tensordot(a: Array, b: Array, axes: Axes = 2) -> Array:
    """Returns the sum of products over several axes.

    Args:
        axes: the number of last axes of `a` and of first axes of `b`; or the axes of both.

    Raises:
        TypeError: an operand is not a device array.
        ValueError: the axes are no pairs of equal length, or out of range.
    """
    dtype = require_arrays("tensordot", a, b)
    if isinstance(axes, (int, np.integer)):
        n = index(axes)
        if not 0 <= n <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot sums over 0 to {min(a.ndim, b.ndim)} axes; got {n}")
        return _over(("tensordot", a, b), tuple(range(a.ndim - n, a.ndim)), tuple(range(n)), dtype)
    left, right = (
        axes_of("tensordot", x.ndim, tuple(np.atleast_1d(np.asarray(given, int)).tolist()))
        for x, given in zip((a, b), axes, strict=True)
    )
    if len(left) != len(right):
        raise ValueError(f"tensordot takes as many axes of the first array as of the second; got {axes}")
    return _over(("tensordot", a, b), left, right, dtype)


@_generalized(1, 1, result=lambda x1, x2: 0)
def vecdot(x1: Array, x2: Array, axis: int) -> Array:
    """Returns the sum of products over an axis, as long in both arrays; of the conjugates of the first.

    The other axes broadcast.
    """
    dtype = require_arrays("vecdot", x1, x2)
    (one,), (other,) = (axes_of("vecdot", x.ndim, axis) for x in (x1, x2))
    if x1.shape[one] != x2.shape[other]:
        raise ValueError(f"vecdot: axis {axis} is as long in both arrays; got shapes {x1.shape} and {x2.shape}")
    a, b = moveaxis(apply("conjugate", x1) if x1.dtype.kind == "c" else x1, one, -1), moveaxis(x2, other, -1)
    _broadcast((a.shape, b.shape), "vecdot: the arrays")
    labels = [tuple(range(-x.ndim, 0)) for x in (a, b)]
    return total([(a, labels[0]), (b, labels[1])], tuple(range(-max(a.ndim, b.ndim), -1)), dtype)


def kron(a: Array, b: Array) -> Array:
    """Returns the Kronecker product: a copy of `b` per element of `a`, multiplied by it."""
    require_arrays("kron", a, b)
    n = max(a.ndim, b.ndim)
    shapes = [(1,) * (n - x.ndim) + x.shape for x in (a, b)]
    left = reshape(a, tuple([size for length in shapes[0] for size in (length, 1)]))
    right = reshape(b, tuple([size for length in shapes[1] for size in (1, length)]))
    return apply("multiply", left, right).reshape(tuple([p * q for p, q in zip(*shapes, strict=True)]))


def cross(
    a: Array, b: Array, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:  # fmt: skip
    """Returns the vector products of vectors of 3 elements along an axis; the other axes broadcast.

    Args:
        axisa, axisb, axisc: the axes of the vectors in `a`, in `b` and in the result.
        axis: all three.

    Raises:
        ValueError: vectors have another length.
    """
    require_arrays("cross", a, b)
    axes = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    lengths = [x.shape[axis_of("cross", x.ndim, at)] for x, at in zip((a, b), axes, strict=False)]
    if lengths != [3, 3]:
        raise ValueError(
            f"cross takes vectors of 3 elements; along axes {axes[0]} and {axes[1]} there are {lengths[0]} and "
            f"{lengths[1]}"
        )
    x, y = ([moveaxis(array, at, 0)[k] for k in range(3)] for array, at in zip((a, b), axes, strict=False))
    parts = [apply("subtract", apply("multiply", x[j], y[k]), apply("multiply", x[k], y[j]))
             for j, k in ((1, 2), (2, 0), (0, 1))]  # fmt: skip
    return moveaxis(stack(parts), 0, axes[2])


def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Returns a view of the diagonals of matrices, along a new last axis.

    Args:
        offset: of the diagonal above the main one, if positive; below it, if negative.
        axis1, axis2: the axes of the rows and of the columns.
    """
    require_arrays("diagonal", a)
    if a.ndim < 2:
        raise ValueError(f"a diagonal is part of a matrix; the array has {a.ndim} axes")
    rows, columns = axes_of("diagonal", a.ndim, (axis1, axis2))
    n = max(min(a.shape[rows] - max(-offset, 0), a.shape[columns] - max(offset, 0)), 0)
    others = [at for at in range(a.ndim) if at not in (rows, columns)]
    shape = (*[a.shape[at] for at in others], n)
    if 0 in shape:
        return zeros(a, shape, a.dtype)
    strides = [*[a.strides[at] for at in others], a.strides[rows] + a.strides[columns]]
    start = offset * a.strides[columns] if offset > 0 else -offset * a.strides[rows]
    return strided(a, shape, strides, start)


def trace(
    a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """Returns the sums of the diagonals of matrices, in the dtype of a sum."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@_generalized(2, 1, result=lambda x1, x2: 1)
def matvec(x1: Array, x2: Array) -> Array:
    """Returns the products of matrices and vectors, which are the last axes."""
    return squeeze(matmul(x1, expand_dims(x2, -1)), -1)


@_generalized(1, 2, result=lambda x1, x2: 1)
def vecmat(x1: Array, x2: Array) -> Array:
    """Returns the products of vectors, conjugated if they are complex, and matrices."""
    conjugates = apply("conjugate", x1) if x1.dtype.kind == "c" else x1
    return squeeze(matmul(expand_dims(conjugates, -2), x2), -2)
