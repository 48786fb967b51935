"""Functions of elements as objects, and their methods: reduce, accumulate, outer, at, reduceat."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from inspect import Parameter, Signature
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms import axis_reductions, gather, scans, scatter, sorting
from vkcompute.arrays.algorithms.lines import Axis, axis_of, flat, iota, reduced_axes
from vkcompute.arrays.algorithms.selection import flatnonzero
from vkcompute.arrays.expressions.call_plan import by_value, planned
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, dtype_with_out, operand_dtype, written
from vkcompute.arrays.expressions.ufunc import where as choose
from vkcompute.arrays.functions import indexing, reductions
from vkcompute.arrays.functions.called_names import add_public, name_caller, named_methods
from vkcompute.arrays.functions.creation import Casting, asarray, in_order
from vkcompute.arrays.functions.manipulation import concat, reshape
from vkcompute.arrays.functions.operands import NUMBERS, on_device
from vkcompute.arrays.functions.standard import scanned
from vkcompute.dtypes import as_dtype, can_cast
from vkcompute.operations import FUNCTIONS
from vkcompute.operations.host import OWN
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.layout import is_basic, is_empty

_REDUCTIONS: dict[str, Any] = {
    "add": reductions.sum, "multiply": reductions.prod, "logical_and": reductions.all, "logical_or": reductions.any,
    **{row: partial(reductions.extreme, row) for row in ("maximum", "minimum")},
}  # fmt: skip
_BITS = "bitwise_and", "bitwise_or", "bitwise_xor"
_COMBINED = {"add": "sum", "subtract": "sum", "maximum": "max", "minimum": "min"}
"""Functions whose repeated elements `at` combines at once -> the operation of `indexing.combine`."""
_MODULAR = "add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor"
"""Functions of integers whose result in a dtype depends on the operands in this dtype only."""
_SCANS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


_OPTIONS = {"out": None, "where": True, "dtype": None, "casting": "same_kind", "order": "K", "subok": True}


def _signature(names: Sequence[str]) -> Signature:
    """Returns the signature of a function of these operands."""
    operands = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names]
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=value)
               for name, value in _OPTIONS.items()]  # fmt: skip
    return Signature([*operands, *options])


def function_of_elements(name: str, row: str) -> Ufunc:
    """Makes the function of this name that computes a row of the table, with its methods and documentation."""
    add_public(name)
    kind: type[Ufunc] = BinaryUfunc if FUNCTIONS[row].arity == 2 else UnaryUfunc
    function = kind(name, row)
    function.__signature__ = _signature(["x1", "x2"] if function.nin == 2 else ["x"])  # type: ignore[attr-defined]
    return function


class Ufunc:
    """A function that is applied to each element; shapes broadcast as in NumPy.

    Attributes:
        nin, nout, nargs: the numbers of operands, of results, and of both.
        identity: the neutral element of a reduction; None if there is none.
        of_numbers: the function of numbers that kernels call in its place; None if there is none.
        signature: None, as it is applied to elements.
    """

    nout, signature = 1, None

    def __init__(self, name: str, row: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._row, self._function = row, FUNCTIONS[row]
        self.__doc__, self.nin, identity = self._function.docstring, self._function.arity, self._function.identity
        self.nargs, self.identity = self.nin + 1, None if type(identity) is str else identity
        self.of_numbers = OWN.get(row) or getattr(np, row, None)

    def __call__(
        self, *operands: Any, out: Any = None, where: Any = True, dtype: npt.DTypeLike | None = None,
        casting: Casting = "same_kind", order: str | None = "K", subok: bool = True,
    ) -> Array:  # fmt: skip
        """Applies the function.

        Args:
            operands: arrays, numbers, sequences of these, and NumPy arrays, which are copied to the device; and `out`.
            out: an array for the result, of the broadcast shape; or a tuple of it.
            where: a bool array; elements of `out` where it is false keep their value.
            dtype: the dtype of the result, to which arrays are converted first.
            casting: which conversions of the operands and of the result are allowed, as of `numpy.can_cast`.
            order: "F" for a column-major result; others are row-major.
            subok: has no effect.

        Raises:
            TypeError, ValueError, OverflowError, MissingFeature: as the operators of arrays.
        """
        try:
            has_options = out is not None or where is not True or dtype is not None or order != "K"
            if has_options or casting != "same_kind" or len(operands) != self.nin:
                return self._with_options(operands, out, where, dtype, casting, order)
            kinds = {*map(type, operands)}
            if Array not in kinds or not kinds <= _OPERANDS:
                operands = tuple(on_device(self.__name__, operands))
            return apply(self._row, *operands)
        except Exception as error:
            name_caller(error, self.__name__)
            raise

    def _with_options(
        self, operands: tuple[Any, ...], out: Any, where: Any, dtype: npt.DTypeLike | None, casting: Casting,
        order: str | None,
    ) -> Array:  # fmt: skip
        """Applies the function with options that are not the default ones."""
        if len(operands) == self.nin + 1 and out is None:
            *operands, out = operands  # type: ignore[assignment]
        if type(out) is tuple and len(out) == 1:
            (out,) = out
        if len(operands) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} operands; got {len(operands)}")
        if out is not None and type(out) is not Array:
            raise TypeError(f"out is a device array; got {type(out).__name__}")
        operands = tuple(on_device(self.__name__, operands))
        if dtype is not None:
            operands = self._in_dtype(operands, as_dtype(dtype), casting)
        result = apply(self._row, *operands)
        if casting != "same_kind":
            result = self._cast(operands, result, out, casting)
        if order not in ("K", "C"):
            result = in_order(result, order)
        if dtype is not None and result.dtype != dtype:
            raise TypeError(f"{self.__name__} has no result of {as_dtype(dtype)} for these operands; got dtype={dtype}")
        if where is not True:
            if out is None:
                raise ValueError(f"{self.__name__}: where= needs out=, whose other elements keep their value")
            result = choose(where, result, out)
        return result if out is None else assign(out, result, fresh=True)

    def _in_dtype(self, operands: Sequence[Any], dtype: np.dtype[Any], casting: Casting) -> tuple[Any, ...]:
        """Returns the operands in the dtype of the result; as they are if that is bool, which says nothing of them."""
        if self._function.gives_bools:
            return tuple(operands)
        for x in operands:
            if type(x) is Array and not can_cast(x.dtype, dtype, casting):
                raise TypeError(
                    f"{self.__name__}: operands become dtype={dtype} if casting={casting!r} allows it; got {x.dtype}; "
                    'convert with .astype(), or pass casting="unsafe"'
                )
        return tuple([astype(x, dtype) if type(x) is Array else x for x in operands])

    def _cast(self, operands: Sequence[Any], result: Array, out: Any, casting: Casting) -> Array:
        """Returns a result in the dtype of `out`.

        Raises:
            TypeError: the casting does not allow this conversion, or one of an operand.
        """
        dtype = operand_dtype(self._row, result.runtime, operands)
        pairs = [(x.dtype, dtype) for x in operands if type(x) is Array and dtype is not None]
        pairs.append((result.dtype, result.dtype if out is None else out.dtype))
        for given, wanted in pairs:
            if not can_cast(given, wanted, casting):
                raise TypeError(
                    f"{self.__name__} converts {given} to {wanted}, which casting={casting!r} does not allow; convert "
                    "with .astype()"
                )
        return result if out is None else astype(result, out.dtype)

    def __repr__(self) -> str:
        return f"<vkcompute.numpy.{self.__name__}, a function of elements>"


_OPERANDS = NUMBERS | {Array}


@by_value
@named_methods
class BinaryUfunc(Ufunc):
    """A function of two elements, and its uses along axes."""

    def reduce(
        self, array: Array, axis: Axis = 0, dtype: npt.DTypeLike | None = None, out: Array | None = None,
        keepdims: bool = False, **selection: Any,
    ) -> Array:  # fmt: skip
        """Combines the elements along axes.

        Sums, products, extremes and functions of bits are one reduction. Other functions are applied once per element
        of the axis, in order.

        Args:
            selection: `initial` and `where`, as of `vkcompute.numpy.sum`.

        Raises:
            TypeError: the function takes no `where=`.
            ValueError: there are no elements, and no `initial`; or a function without a reduction has several axes.
        """
        (array,) = on_device(self.__name__, (array,))
        if self._row in _BITS:
            given = dtype_with_out(array.runtime, dtype, out, array.dtype)
            result = self._of_bits(array, axis, given, keepdims, **selection)
        elif self._row in _REDUCTIONS:
            self._combined_in(array, dtype, out)
            if not self._row.startswith("logical_"):
                return _REDUCTIONS[self._row](array, axis, dtype=dtype, out=out, keepdims=keepdims, **selection)  # type: ignore[no-any-return]
            initial = selection.pop("initial", None)
            result = _REDUCTIONS[self._row](array, axis, keepdims=keepdims, **selection)
            if initial is not None:
                result = self(result, reductions.started_by(initial) if type(initial) is Array else bool(initial))
        else:
            result = self._folded(array, axis, self._combined_in(array, dtype, out), keepdims, **selection)
        return written(result, out)

    def _combined_in(self, array: Array, dtype: npt.DTypeLike | None, out: Array | None) -> np.dtype[Any] | None:
        """Returns the dtype in which elements are combined; None for the function's own.

        Raises:
            TypeError: the function's results are bools, and another dtype is given.
        """
        if not self._function.gives_bools:
            return dtype_with_out(array.runtime, dtype, out, array.dtype)
        if dtype is not None and as_dtype(dtype) != np.bool_:
            raise TypeError(f"{self.__name__} gives bools; got dtype={as_dtype(dtype)}; convert with .astype()")
        return None

    def _of_bits(
        self, array: Array, axis: Axis, dtype: npt.DTypeLike | None, keepdims: bool, initial: Any = None,
        where: Any = True,
    ) -> Array:  # fmt: skip
        """Returns the reduction by a function of bits."""
        name = f"{self.__name__}.reduce"
        kinds = array.dtype if array.dtype.kind not in "biu" or dtype is None else as_dtype(dtype)
        if kinds.kind not in "biu":
            raise TypeError(f"{name} takes integers or bools; got {kinds}; convert with .astype()")
        array = array if dtype is None else astype(array, dtype)
        axes = reduced_axes(self.__name__, array.ndim, axis)
        if where is not True:
            neutral = np.array(self.identity).astype(array.dtype)[()]  # -1, of all bits, also of unsigned integers
            array = choose(reductions.mask_of(where, array), array, neutral)
        wide = astype(array, np.int32) if array.dtype.kind == "b" else array
        result = axis_reductions.reduce(self._row, wide, axes, wide.dtype, keepdims)
        result = astype(result, np.bool_) if array.dtype.kind == "b" else result
        if initial is None:
            return result
        start = np.asarray(initial.numpy() if type(initial) is Array else reductions.started_by(initial))
        if start.dtype.kind not in "biu":
            raise TypeError(f"{name}: initial is an integer; got {initial!r}")
        return self(result, asarray(np.asarray(start.tolist(), result.dtype), device=result.runtime))

    @planned
    def accumulate(
        self, array: Array, axis: int = 0, dtype: npt.DTypeLike | None = None, out: Array | None = None
    ) -> Array:
        """Combines the elements up to each along an axis: sums, products and extremes by a scan, others one by one."""
        (array,) = on_device(self.__name__, (array,))
        dtype = self._combined_in(array, dtype, out)
        is_complex = "c" in ((dtype or array.dtype).kind, array.dtype.kind)
        if self._row not in _SCANS or (is_complex and self._row in ("maximum", "minimum")):
            at = axis_of(self.__name__, array.ndim, axis)
            return written(concat(self._steps(array, at, dtype), axis=at), out)
        return written(scanned(array, _SCANS[self._row], axis_of(self.__name__, array.ndim, axis), dtype), out)

    def _steps(
        self, array: Array, axis: int, dtype: npt.DTypeLike | None, initial: Any = None, where: Array | None = None
    ) -> list[Array]:
        """Returns the partial results along an axis, which is kept: one per element, and one for `initial`.

        Elements where `where`, of the array's shape, is false are left out.
        """
        if self._row.startswith("logical_"):
            array = astype(array, np.bool_)
        if self._function.gives_bools and array.dtype.kind != "b":
            raise TypeError(
                f"{self.__name__} gives bools, which it combines with no {array.dtype}; convert with .astype()"
            )
        shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
        zero = asarray(np.zeros((), array.dtype), device=array.runtime)
        result = self(zero, zero, dtype=dtype).dtype
        parts = [array[_at_axis(axis, slice(k, k + 1))] for k in range(array.shape[axis])]
        if initial is not None:
            parts.insert(0, astype(asarray(initial, device=array.runtime), result).broadcast_to(shape))
        steps = [astype(part, result) for part in parts[:1]]
        for k, part in enumerate(parts[1:]):
            step = self(steps[-1], part, dtype=dtype)
            steps.append(step if where is None else choose(where[_at_axis(axis, slice(k, k + 1))], step, steps[-1]))
        return steps or [temporary(array.runtime, (*array.shape[:axis], 0, *array.shape[axis + 1 :]), result)]

    def _folded(
        self, array: Array, axis: Axis, dtype: npt.DTypeLike | None, keepdims: bool, initial: Any = None,
        where: Any = True,
    ) -> Array:  # fmt: skip
        """Returns the elements combined one after the other along axes, after `initial` or the neutral element."""
        axes = reduced_axes(self.__name__, array.ndim, axis)
        if len(axes) > 1 and not self._function.commutative:
            raise ValueError(f"{self.__name__}.reduce takes one axis, as its order counts; got axis={axis}")
        initial = self.identity if initial is None else reductions.started_by(initial)
        if initial is None and not reductions.all_axes_have_elements(array, axes):
            raise ValueError(f"{self.__name__}.reduce takes at least one element; the array has shape {array.shape}")
        if initial is None and where is not True:
            raise ValueError(f"{self.__name__}.reduce has no neutral element, so that where= needs initial=; got none")
        rest = [at for at in range(array.ndim) if at not in axes]
        lengths = [array.shape[at] for at in rest]
        shape = (*lengths, math.prod([array.shape[at] for at in axes]))
        lines = reshape(array.transpose((*rest, *axes)), shape)
        mask = reductions.mask_of(where, array)
        if mask is not True:
            mask = reshape(mask.broadcast_to(array.shape).transpose((*rest, *axes)), shape)
        combined = self._steps(lines, len(rest), dtype, initial, None if mask is True else mask)[-1]
        kept = [1 if at in axes else n for at, n in enumerate(array.shape)]
        return reshape(combined, tuple(kept if keepdims else lengths))

    def outer(self, a: Any, b: Any, **named: Any) -> Array:
        """Applies the function to each element of `a` with each of `b`: the shape is that of `a`, then that of `b`."""
        a, b = on_device(self.__name__, (a, b))
        if type(a) is Array and type(b) is Array:
            a = reshape(a, a.shape + (1,) * b.ndim)
        return self(a, b, **named)

    @planned
    def at(self, array: Array, indices: Any, values: Any) -> None:
        """Combines the elements at indices with values, one after the other where an element is indexed several times.

        Sums, differences and extremes combine all values at once. Other functions take as many steps as the most
        frequent element is indexed.

        Raises:
            TypeError: the result is of a higher kind than the array.
        """
        _require_array(array)
        given = values if type(values) is Array else _values(self.__name__, values, array)
        if self._row in _MODULAR and given.dtype.kind in "iu" and array.dtype.kind in "iu":
            given = astype(given, array.dtype)
        operation = _COMBINED.get(self._row) if given.dtype == array.dtype and array.dtype.kind != "b" else None
        is_complex = array.dtype.kind == "c"
        if is_basic(indices):
            _combine_once(self._row, array, indices, given)
        elif operation and (operation == "sum" or not is_complex):
            given = apply("negative", given) if self._row == "subtract" else given
            for target, values in (
                [(array.real, given.real), (array.imag, given.imag)] if is_complex else [(array, given)]
            ):
                indexing.combine(operation, target, indices, values)
        else:
            _combine_at(self._row, array, indices, given)

    @planned
    def reduceat(
        self, array: Array, indices: Any, axis: int = 0, dtype: npt.DTypeLike | None = None, out: Array | None = None
    ) -> Array:
        """Combines the elements from each index to the next one, if that is larger, else takes the one at the index.

        It is one reduction per index, and waits for indices on the device.

        Raises:
            IndexError: an index is out of range.
            TypeError: the function has no reduction.
        """
        (array,) = on_device(self.__name__, (array,))
        at = axis_of("reduceat", array.ndim, axis)
        n, starts = array.shape[at], [index(k) for k in (indices.tolist() if type(indices) is Array else indices)]
        if wrong := [start for start in starts if not 0 <= start < n]:
            raise IndexError(f"{self.__name__}.reduceat takes indices from 0 to {n - 1}; got {wrong[0]}")
        ends = [max(stop, start + 1) for start, stop in pairwise([*starts, n])]
        dtype = self._combined_in(array, dtype, out)
        parts = [
            self.reduce(array[_at_axis(at, slice(start, end))], at, dtype, keepdims=True)
            for start, end in zip(starts, ends, strict=True)
        ]
        result = (
            concat(parts, axis=at) if parts else self.reduce(array, at, dtype, keepdims=True)[_at_axis(at, slice(0))]
        )
        return written(result, out)


def _at_axis(axis: int, item: Any) -> tuple[Any, ...]:
    """Returns the index of an item along an axis."""
    return (slice(None),) * axis + (item,)


@by_value
@named_methods
class UnaryUfunc(Ufunc):
    """A function of one element, and its use at indices."""

    @planned
    def at(self, array: Array, indices: Any) -> None:
        """Applies the function to the elements at indices, again where an element is indexed several times.

        Raises:
            TypeError: the result is of a higher kind than the array.
        """
        _require_array(array)
        (_combine_once if is_basic(indices) else _combine_at)(self._row, array, indices)


def _require_array(array: Any) -> None:
    """Raises TypeError for what is no device array, and so cannot be changed."""
    if type(array) is not Array:
        raise TypeError(f"at changes a device array; got {type(array).__name__}; upload it before, with gpu.array(x)")


def _values(name: str, values: Any, array: Array) -> Array:
    """Returns values of the host as an array; Python's numbers adapt to the dtype of `array`.

    Raises:
        OverflowError: a Python int does not fit.
        TypeError: a Python number is of a higher kind.
    """
    host = np.asarray(values)
    if not hasattr(values, "dtype"):
        if not can_cast(host.dtype, array.dtype, "same_kind") and host.dtype.kind + array.dtype.kind != "iu":
            raise TypeError(f"{name}.at of {array.dtype} takes no {host.dtype}; convert the array with .astype()")
        host = np.asarray(values, array.dtype)
    return asarray(host, device=array.runtime)


def _combine_once(row: str, array: Array, index: Any, *values: Array) -> None:
    """Applies a function to a view, each of whose elements is indexed once, and values that broadcast to it.

    Raises:
        TypeError: the result is of a higher kind than the array.
    """
    array.refuse_shared()
    target = array[... if is_empty(index) else index]
    result = apply(row, target, *[value.broadcast_to(target.shape) for value in values])
    _require_kind(row, result, array)
    assign(target, result, fresh=True)


def _require_kind(row: str, result: Array, array: Array) -> None:
    """Raises TypeError for a result of a higher kind than the array that it changes."""
    if not can_cast(result.dtype, array.dtype, "same_kind"):
        raise TypeError(f"{row} gives {result.dtype}, and the array that it changes is {array.dtype}; convert it")


def _combine_at(row: str, array: Array, indices: Any, *values: Array) -> None:
    """Applies a function to the elements at indices, and values that broadcast to these, in the order of the indices.

    Raises:
        TypeError: the result is of a higher kind than the array.
    """
    array.refuse_shared()
    addresses = iota(array.runtime, array.size).reshape(array.shape)[indices]
    given = [flat(value.broadcast_to(addresses.shape)) for value in values]
    addresses, target = flat(addresses), flat(array)
    for chosen in _by_occurrence(addresses):
        here = gather.take(addresses, chosen)
        result = apply(row, gather.take(target, here), *[gather.take(value, chosen) for value in given])
        _require_kind(row, result, array)
        scatter.put(target, here, result)
    scatter.write_back(array, target.reshape(array.shape) if target.size else array)


def _by_occurrence(indices: Array) -> Iterator[Array]:
    """Yields where each index occurs for the first time, for the second, and so on; waits for the numbers."""
    if not indices.size:
        return
    order = sorting.argsort(indices)
    ordered, numbers = gather.take(indices, order), iota(indices.runtime, indices.size)
    begins = choose(apply("equal", ordered[1:], ordered[:-1]), np.int32(0), numbers[1:])
    starts = scans.cumulative(concat([numbers[:1], begins]), "max", 0)
    times = apply("subtract", numbers, starts)
    for time in range(int(reductions.max(times)) + 1):
        yield gather.take(order, flatnonzero(apply("equal", times, time)))
