"""Contractions: sums of products over labelled axes, as of einsum."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from vkcompute.arrays.algorithms import block_product, matrix_product
from vkcompute.arrays.algorithms.axis_reductions import reduce
from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.lines import contiguous, copy_into
from vkcompute.arrays.expressions.promotion import wide_float
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.runtime.graphs.results import reshaped, temporary
from vkcompute.runtime.memory.array import Array

Label = int | str


class Term(NamedTuple):
    """An array, and the labels of its axes."""

    array: Array
    labels: tuple[Label, ...]

    @property
    def lengths(self) -> dict[Label, int]:
        """The length of each labelled axis."""
        return dict(zip(self.labels, self.array.shape, strict=True))


def strided(x: Array, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Array:
    """Returns a view of an array that has elements; the offset is counted in bytes."""
    return x.viewed(offset, tuple(shape), tuple(strides))


def grouped(x: Array, counts: Sequence[int]) -> Array:
    """Returns an array whose axes are groups of those of `x`: a view if strides allow it, else a copy."""
    shape, strides, at = [], [], 0
    for n in counts:
        lengths, steps = x.shape[at : at + n], x.strides[at : at + n]
        shape.append(math.prod(lengths))
        strides.append(_common_step(lengths, steps))
        at += n
    if x.size and None not in strides:
        return strided(x, shape, [stride or 0 for stride in strides])
    return astype(x, x.dtype).reshape(tuple(shape))


def _common_step(lengths: Sequence[int], strides: Sequence[int]) -> int | None:
    """Returns the stride of several axes as one, in bytes; None if they have none."""
    used = [(n, step) for n, step in zip(lengths, strides, strict=True) if n > 1]
    for (_, step), (n, inner) in pairwise(used):
        if step != n * inner:
            return None
    return used[-1][1] if used else 0


def aligned(term: Term, labels: Sequence[Label]) -> Array:
    """Returns a view with the axes in another order; of length 1 where the term lacks the label."""
    if term.labels == tuple(labels):
        return term.array
    x, axes = term.array, {label: at for at, label in enumerate(term.labels)}
    strides = [x.strides[axes[label]] if label in axes else 0 for label in labels]
    return strided(x, [x.shape[axes[label]] if label in axes else 1 for label in labels], strides)


def summed(term: Term, kept: Collection[Label]) -> Term:
    """Returns a term summed over all axes whose labels are not kept, in its dtype."""
    axes = tuple([at for at, label in enumerate(term.labels) if label not in kept])
    if not axes:
        return term
    labels = tuple([label for label in term.labels if label in kept])
    return Term(reduce("add", term.array, axes, term.array.dtype, False), labels)


def contract(one: Term, other: Term, kept: Collection[Label]) -> Term:
    """Returns the product of two terms, summed over the axes whose labels are not kept.

    Args:
        one, other: arrays with elements, of one dtype; axes with one label have one length.
    """
    one = summed(one, {*kept, *other.labels})
    other = summed(other, {*kept, *one.labels})
    shared = [label for label in one.labels if label in other.labels]
    stacked, inner = [label for label in shared if label in kept], [label for label in shared if label not in kept]
    left = [label for label in one.labels if label not in shared]
    right = [label for label in other.labels if label not in shared]
    lengths = {**one.lengths, **other.lengths}
    if _is_product(inner, left, right, lengths):
        order = [*stacked, *left, *inner], [*stacked, *inner, *right]
        counts = [len(stacked), len(left), len(inner)], [len(stacked), len(inner), len(right)]
        a, b = (
            grouped(aligned(term, ordered), n) for term, ordered, n in zip((one, other), order, counts, strict=True)
        )
        labels = (*stacked, *left, *right)
        return Term(reshaped(product(a, b), tuple([lengths[label] for label in labels])), labels)
    order_of_all = (*stacked, *left, *right, *inner)
    products = apply("multiply", aligned(one, order_of_all), aligned(other, order_of_all))
    return summed(Term(products, order_of_all), kept)


def _is_product(
    inner: Sequence[Label], left: Sequence[Label], right: Sequence[Label], lengths: dict[Label, int]
) -> bool:
    """True for a product of matrices; products with vectors are as fast as sums of elementwise products."""
    rows, columns = (math.prod([lengths[label] for label in labels]) for labels in (left, right))
    return bool(inner) and rows > 1 and columns > 1


def product(a: Array, b: Array) -> Array:
    """Returns the products of stacked matrices, of shape (n, rows, columns); of float16, in float32."""
    shape, dtype = (a.shape[0], a.shape[1], b.shape[2]), wide_float(a.dtype)
    if bytes_exceed_bindings(a, a.nbytes, b.nbytes, math.prod(shape) * dtype.itemsize):
        out = temporary(a.runtime, shape, dtype)
        _multiply_parts(a, b, out)
        return out
    parts = block_product.stacked_product(a, b)
    if parts is None:
        a, b = (astype(x, wide_float(x.dtype)) for x in (a, b))
        parts = matrix_product.stacked_product(a, b)
    n, n_parts, rows, columns = parts.shape
    if n_parts > 1:
        return reduce("add", parts, (1,), parts.dtype, False)
    return reshaped(parts, (n, rows, columns))


def _multiply_parts(a: Array, b: Array, out: Array) -> None:
    """Halves the stack, or the longest axis of the matrices, and stores the products."""
    (n, rows, terms), columns = a.shape, b.shape[2]
    if n > 1:
        for half in halves(n):
            copy_into(product(a[half], b[half]), out[half])
    elif terms >= max(rows, columns):
        low, high = halves(terms)
        first = product(contiguous(a[:, :, low]), b[:, low])
        copy_into(apply("add", first, product(contiguous(a[:, :, high]), b[:, high])), out)
    elif rows >= columns:
        for half in halves(rows):
            copy_into(product(a[:, half], b), out[:, half])
    else:
        for half in halves(columns):
            copy_into(product(a, contiguous(b[:, :, half])), out[:, :, half])
