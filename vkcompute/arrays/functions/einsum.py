"""Einstein's summation convention: `einsum`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.contraction import strided
from vkcompute.arrays.expressions.ufunc import dtype_with_out, written
from vkcompute.arrays.functions.creation import asarray_weak, in_order
from vkcompute.arrays.functions.operands import on_device
from vkcompute.arrays.functions.products import converted, require_arrays, total
from vkcompute.dtypes import can_cast
from vkcompute.runtime.memory.array import Array

_Labels = tuple[Any, ...]


def einsum(
    *operands: Any, out: Array | None = None, dtype: npt.DTypeLike | None = None, order: str | None = "K",
    optimize: Any = True,
) -> Array:  # fmt: skip
    """Returns sums of products, by Einstein's convention, as `numpy.einsum`.

        vnp.einsum("ij,jk->ik", a, b)                # the matrix product
        vnp.einsum(a, [0, 1], b, [1, 2], [0, 2])     # the same
        vnp.einsum("...ii", a)                       # the sums of diagonals... of stacked matrices

    Of one array whose labels are all in the result, it is a view, as in NumPy: `vnp.einsum("ii->i", a)[...] = 1`.

    Args:
        operands: the subscripts and the arrays; or arrays, each with the list of its labels, and those of the result.
        out: an array for the result.
        dtype: in which products are added; by default the common one of the arrays and `out`.
        order: of the result, as of the functions of elements.
        optimize: of `numpy.einsum_path`, which orders the products of three or more arrays; False for left to right.

    Raises:
        TypeError: the arrays' dtype is of a higher kind than `dtype`.
        ValueError: the subscripts do not fit the arrays.
    """
    inputs, output, arrays = _parsed(operands)
    arrays = on_device("einsum", arrays)
    runtime = next(array.runtime for array in arrays if type(array) is Array)
    arrays = [array if type(array) is Array else asarray_weak(array, arrays, runtime) for array in arrays]
    common = require_arrays("einsum", *arrays)
    terms = [_axes(labels, x.ndim, at) for at, (labels, x) in enumerate(zip(inputs, arrays, strict=True))]
    result = _result(terms, output)
    _check_lengths(terms, arrays)
    if len(arrays) == 1 and {*terms[0]} == {*result} and out is None:  # a view has the dtype of the array, as in NumPy
        return _diagonal(arrays[0], terms[0], result)
    added_in = dtype_with_out(runtime, dtype, out, common) or common
    if not can_cast(common, added_in, "same_kind"):
        raise TypeError(f"einsum adds products of {common} in no dtype of a lower kind; got dtype={added_in}")
    if added_in.kind == "c" and added_in != common:
        arrays = [converted(x, added_in) for x in arrays]  # products of parts have the arrays' own dtypes
    given = list(zip(arrays, terms, strict=True))
    for pair in _order(arrays, terms, result, optimize):
        chosen = [given[at] for at in pair]
        given = [term for at, term in enumerate(given) if at not in pair]
        kept = {*result, *[label for _, labels in given for label in labels]}
        labels = tuple([label for label in dict.fromkeys(_labels_of(chosen)) if label in kept])
        given.append((total(chosen, labels, added_in), labels))
    sums = total(given, result, added_in)
    return written(sums if order in ("K", "C") else in_order(sums, order), out)


def _diagonal(x: Array, labels: _Labels, result: _Labels) -> Array:
    """Returns the view of the elements whose indices of one label are equal."""
    lengths, strides = dict(zip(labels, x.shape, strict=True)), dict.fromkeys(labels, 0)
    for label, step in zip(labels, x.strides, strict=True):
        strides[label] += step
    return strided(x, [lengths[label] for label in result], [strides[label] for label in result])


def _labels_of(terms: Sequence[tuple[Array, _Labels]]) -> list[Any]:
    """Returns the labels of terms, in their order."""
    return [label for _, labels in terms for label in labels]


def _parsed(operands: Sequence[Any]) -> tuple[list[list[Any]], list[Any] | None, list[Array]]:
    """Returns the labels of each array, those of the result if they are given, and the arrays."""
    if operands and isinstance(operands[0], str):
        return _parsed_text(operands[0], list(operands[1:]))
    n = len(operands) // 2
    if not n:
        raise ValueError("einsum takes subscripts and arrays, or arrays with lists of labels; got neither")
    output = _labels(operands[-1]) if len(operands) % 2 else None
    return [_labels(labels) for labels in operands[1 : 2 * n : 2]], output, list(operands[0 : 2 * n : 2])


def _labels(given: Any) -> list[Any]:
    return given.tolist() if type(given) is Array else list(given)


def _parsed_text(text: str, arrays: list[Array]) -> tuple[list[list[Any]], list[Any] | None, list[Array]]:
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = [_letters(term, text) for term in left.split(",")]
    if len(inputs) != len(arrays):
        raise ValueError(f"einsum: {text!r} has the labels of {len(inputs)} arrays; got {len(arrays)} arrays")
    return inputs, _letters(right, text) if arrow else None, arrays


def _letters(term: str, text: str) -> list[Any]:
    labels = [Ellipsis if letter == "." else letter for letter in term.replace("...", ".")]
    if any(label is not Ellipsis and not label.isalpha() for label in labels) or term.count(".") not in (0, 3):
        raise ValueError(f"einsum: labels are letters, and one '...' per array; got {term!r} in {text!r}")
    return labels


def _axes(labels: list[Any], ndim: int, at: int) -> _Labels:
    """Returns a label per axis: those of "..." are tuples that count from the last."""
    n = ndim - len(labels) + labels.count(Ellipsis)
    if n < 0 or (n and Ellipsis not in labels) or labels.count(Ellipsis) > 1:
        named = len([label for label in labels if label is not Ellipsis])
        raise ValueError(f"einsum: array {at} has {ndim} axes, and {named} labels; '...' is for further axes")
    return _expanded(labels, n)


def _expanded(labels: list[Any], n: int) -> _Labels:
    more = [("...", k) for k in range(-n, 0)]
    return tuple([axis_label for label in labels for axis_label in (more if label is Ellipsis else [label])])


def _result(terms: Sequence[_Labels], output: list[Any] | None) -> _Labels:
    """Returns the labels of the result: by default those of "...", and all that occur once, sorted."""
    counts = Counter([label for term in terms for label in term])
    more = sorted([label for label in counts if isinstance(label, tuple)])
    if output is None:
        return (*more, *sorted([label for label, n in counts.items() if n == 1 and not isinstance(label, tuple)]))
    labels = _expanded(output, len(more)) if Ellipsis in output else tuple(output)
    unknown = [label for label in labels if label not in counts]
    if unknown or len(set(labels)) < len(labels):
        raise ValueError(f"einsum: labels of the result occur in it once, and in an array; got {output}")
    if more and Ellipsis not in output:
        raise ValueError("einsum: the result has a '...' where an array has axes for it; sum over named axes")
    return labels


def _check_lengths(terms: Sequence[_Labels], arrays: Sequence[Array]) -> None:
    """Raises ValueError if axes with one label have different lengths; a length of 1 broadcasts between arrays."""
    lengths: dict[Any, int] = {}
    for at, (labels, x) in enumerate(zip(terms, arrays, strict=True)):
        own: dict[Any, int] = {}
        for label, n in zip(labels, x.shape, strict=True):
            if own.setdefault(label, n) != n or (n != 1 and lengths.get(label, 1) not in (1, n)):
                known = own[label] if own[label] != n else lengths[label]
                rule = f"einsum: axes with the label {label!r} are as long as each other"
                raise ValueError(f"{rule}; got {known} and {n}, in array {at} of shape {x.shape}")
        lengths.update({label: n for label, n in own.items() if n != 1 or label not in lengths})


def _order(arrays: Sequence[Array], terms: Sequence[_Labels], result: _Labels, optimize: Any) -> list[tuple[int, ...]]:
    """Returns which terms are multiplied, one group after the other; results are added at the end."""
    if len(arrays) < 3 or optimize is False:
        return []
    numbers = {label: at for at, label in enumerate(dict.fromkeys([label for term in terms for label in term]))}
    given: list[Any] = []
    for x, labels in zip(arrays, terms, strict=True):
        given += [np.broadcast_to(np.float32(0), x.shape), [numbers[label] for label in labels]]
    path = np.einsum_path(*given, [numbers[label] for label in result], optimize=optimize)[0]
    return [tuple(group) for group in path[1:]]
