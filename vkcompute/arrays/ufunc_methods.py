"""Functions of elements as objects, and the methods of those of two: reduce, accumulate, outer, at."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays import indexing, reductions, scans
from vkcompute.arrays.creation import asarray
from vkcompute.arrays.lines import Axis, axes_of, reduced_axes
from vkcompute.arrays.manipulation import reshape
from vkcompute.arrays.meanings import docstring
from vkcompute.arrays.operands import NUMBERS, on_device
from vkcompute.arrays.ufunc import RULES, apply, assign, astype
from vkcompute.arrays.ufunc import where as chosen
from vkcompute.runtime.memory.array import Array

_REDUCTIONS: dict[str, Any] = {
    "add": reductions.sum, "multiply": reductions.prod, "maximum": reductions.max, "minimum": reductions.min,
    "logical_and": reductions.all, "logical_or": reductions.any,
}  # fmt: skip
_BITS = "bitwise_and", "bitwise_or", "bitwise_xor"
_SCANS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


def _signature(names: Sequence[str]) -> Signature:
    """Returns the signature of a function of these operands."""
    operands = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names]
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=value)
               for name, value in (("out", None), ("where", True), ("dtype", None))]  # fmt: skip
    return Signature([*operands, *options])


def function_of_elements(name: str, row: str) -> Ufunc:
    """Makes the function of this name that computes a row of the table, with its methods and documentation."""
    kind = BinaryUfunc if RULES[row][0] == 2 else Ufunc
    found = kind(name, row, docstring(row))
    found.__signature__ = _signature(["x1", "x2"] if found.nin == 2 else ["x"])  # type: ignore[attr-defined]
    return found


class Ufunc:
    """A function that is applied to each element; shapes broadcast as in NumPy.

    Attributes:
        nin, nout: the numbers of operands and results.
    """

    nout = 1

    def __init__(self, name: str, row: str, doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self._row, self.nin = row, RULES[row][0]

    def __call__(
        self, *operands: Any, out: Array | None = None, where: Any = True, dtype: npt.DTypeLike | None = None
    ) -> Array:
        """Applies the function.

        Args:
            operands: arrays, numbers, sequences of these, and NumPy arrays, which are copied to the device.
            out: an array for the result, of the broadcast shape.
            where: a bool array; elements of `out` where it is false keep their value.
            dtype: the dtype in which to compute, to which arrays are converted first.

        Raises:
            TypeError, ValueError, OverflowError, MissingFeature: as the operators of arrays.
        """
        if len(operands) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} operands; got {len(operands)}")
        if dtype is not None:
            operands = tuple([astype(x, dtype) if type(x) is Array else x for x in operands])
        kinds = {*map(type, operands)}
        if Array not in kinds or not kinds <= _OPERANDS:
            operands = tuple(on_device(self.__name__, operands))
        found = apply(self._row, *operands)
        if where is not True:
            if out is None:
                raise ValueError(f"{self.__name__}: where= needs out=, whose other elements keep their value")
            found = chosen(where, found, out)
        return found if out is None else assign(out, found, fresh=True)

    def __repr__(self) -> str:
        return f"<vkcompute.numpy.{self.__name__}, a function of elements>"


_OPERANDS = NUMBERS | {Array}


class BinaryUfunc(Ufunc):
    """A function of two elements, and its uses along axes."""

    def _refused(self, method: str, others: Any) -> TypeError:
        listed = ", ".join(others)
        return TypeError(f"{self.__name__} has no {method} on the device; {listed} have; convert with .numpy()")

    def reduce(
        self, array: Array, axis: Axis = 0, dtype: npt.DTypeLike | None = None, out: Array | None = None,
        keepdims: bool = False, **selection: Any,
    ) -> Array:  # fmt: skip
        """Combines the elements along axes.

        Args:
            selection: `initial` and `where`, as of `vkcompute.numpy.sum`.

        Raises:
            TypeError: the function has no reduction.
        """
        if self._row in _BITS:
            axes = reduced_axes(self.__name__, array.ndim, axis)
            if array.dtype.kind not in "iu" or selection:
                raise TypeError(f"{self.__name__}.reduce takes integers, and no initial= or where=; got {array.dtype}")
            found = reductions.reduce(self._row, array, axes, np.dtype(dtype or array.dtype), keepdims)
        elif self._row in _REDUCTIONS:
            options = {"dtype": dtype} if self._row in ("add", "multiply") else {}
            found = _REDUCTIONS[self._row](array, axis, keepdims=keepdims, **options, **selection)
        else:
            raise self._refused("reduce", (*_REDUCTIONS, *_BITS))
        return found if out is None else assign(out, found)

    def accumulate(
        self, array: Array, axis: int = 0, dtype: npt.DTypeLike | None = None, out: Array | None = None
    ) -> Array:
        """Combines the elements up to each along an axis.

        Raises:
            TypeError: the function has no scan.
        """
        if self._row not in _SCANS:
            raise self._refused("accumulate", _SCANS)
        found = scans.cumulative(array, _SCANS[self._row], axes_of(self.__name__, array.ndim, axis)[0], dtype)
        return found if out is None else assign(out, found)

    def outer(self, a: Any, b: Any, **named: Any) -> Array:
        """Applies the function to each element of `a` with each of `b`: the shape is that of `a`, then that of `b`."""
        if type(a) is Array and type(b) is Array:
            a = reshape(a, a.shape + (1,) * b.ndim)
        return self(a, b, **named)

    def at(self, array: Array, indices: Any, values: Any) -> None:
        """Combines the elements at indices with values, each as often as it is indexed; `add` and `subtract` have it.

        Raises:
            TypeError: the function is another.
        """
        if self._row not in ("add", "subtract"):
            raise self._refused("at", ("add", "subtract"))
        given = values if type(values) is Array else asarray(np.asarray(values, array.dtype), device=array.runtime)
        indexing.add(array, indices, given if self._row == "add" else apply("negative", given))
