"""The operators of arrays, and their methods that functions compute. Arrays get them on first use of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.array_namespace import namespace
from vkcompute.arrays import namespace as _namespace
from vkcompute.arrays.algorithms.lines import copy_into
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.expressions.ufunc import apply, assign, operator_method
from vkcompute.arrays.functions import indexing
from vkcompute.arrays.functions.bits import byteswapped
from vkcompute.arrays.functions.creation import asarray
from vkcompute.arrays.functions.operands import on_device
from vkcompute.arrays.functions.products import matmul
from vkcompute.arrays.functions.protocols import array_function, array_ufunc
from vkcompute.errors import shorten_traceback
from vkcompute.runtime.memory.array import Array, copied
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.host_data import converted
from vkcompute.runtime.memory.layout import is_basic, is_empty
from vkcompute.runtime.memory.mathematics import DEFERRED
from vkcompute.runtime.runtime import runtime_of

names: Any = _namespace  # which sets most of its names by tables
_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "lshift": "left_shift", "rshift": "right_shift", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "matmul": "matmul",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "invert": "invert", "abs": "absolute"}


class _Methods(Array):
    """The methods that are more than a call of the function of their name.

    Their results are arrays; `runtime/memory/mathematics.pyi` has their types.
    """

    __slots__ = ()

    def to_device(self, device: Context, /, *, stream: None = None) -> Any:
        """Returns the array on another runtime; itself if it is there."""
        return names.asarray(self, device=device)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Returns the module with the functions of arrays.

        Raises:
            ValueError: it does not have this version of the Array API standard.
        """
        module = namespace()
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", module.__array_api_version__):
            raise ValueError(f"the version of the Array API is {module.__array_api_version__}; got {api_version!r}")
        return module

    @property
    def mT(self) -> Any:  # noqa: N802
        """The view with the last two axes exchanged."""
        return names.matrix_transpose(self)

    def byteswap(self, inplace: bool = False) -> Any:
        """Returns the elements with their bytes in reverse order.

        Args:
            inplace: True to write them to this array, which is returned.
        """
        swapped = byteswapped(self)
        if not inplace:
            return swapped
        self[...] = swapped
        return self

    def compress(self, condition: Any, axis: int | None = None, out: Array | None = None) -> Any:
        """Returns `vkcompute.numpy.compress` of the array."""
        return names.compress(condition, self, axis, out)

    def choose(self, *choices: Any, out: Array | None = None, mode: str = "raise") -> Any:
        """Returns `vkcompute.numpy.choose` of the array and choices, given one by one or as a sequence."""
        return names.choose(self, choices[0] if len(choices) == 1 else choices, out, mode)

    def flatten(self, order: str = "C") -> Any:
        """Returns a copy of the elements along one axis; `order` is as of `vkcompute.numpy.ravel`."""
        result = names.ravel(self, order)
        return result if result.buffer is not self.buffer else result.copy()

    def sort(self, axis: int = -1, kind: str | None = None, *, stable: bool | None = None) -> None:
        """Sorts the elements along an axis in place. The order of equal elements is kept, whatever `kind` is."""
        self[...] = names.sort(self, axis, kind)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect") -> None:
        """Places elements along an axis as `vkcompute.numpy.partition` does, in place. `kind` has no effect."""
        self[...] = names.partition(self, kth, axis, kind)

    def __contains__(self, value: object) -> bool:
        return bool(names.any(names.equal(self, value)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """Runs NumPy's function of elements on the device; raises TypeError for one that is not there."""
        return array_ufunc(ufunc, method, inputs, named)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        """Runs NumPy's function on the device; raises TypeError for one that is not there."""
        return array_function(self, function, args, named)

    def __round__(self, decimals: int | None = None) -> Any:
        result = names.round(self, decimals or 0)
        return int(result) if decimals is None and not self.shape else result

    _copied = planned(copied)

    @planned
    def _selected(self, index: Any) -> Any:
        """Returns the elements that an index with arrays, lists or bools selects, as a new array."""
        return indexing.get(self, index)

    @planned
    def _assign(self, index: Any, value: Any) -> None:
        """Writes a value, broadcast and converted within its kind, to the elements at an index."""
        if not is_basic(index):
            if type(value) is not Array:
                value = asarray(converted(value, self.dtype), device=self.runtime)
            indexing.put(self, index, value)
            return
        self.compute()
        target = self[... if is_empty(index) else index]
        extra = max(value.ndim - target.ndim, 0)
        if extra and value.shape[:extra] == (1,) * extra:
            value = value[(0,) * extra]
        assign(target, value)

    def _reordered(self, shape: Any, order: str, copy: bool | None) -> Any:
        """Returns the elements in another shape, read in an order; see `vkcompute.numpy.reshape`."""
        return names.reshape(self, shape, order, copy=copy)

    def _take_elements(self, source: Array) -> None:
        """Copies elements from an array of the same shape, by a kernel."""
        copy_into(source, self)


def operate(name: str, array: Array, other: Any, *, reflected: bool = False, inplace: bool = False) -> Any:
    """Returns the result of an operator; NotImplemented for an operand that is no array, number or sequence.

    Args:
        reflected: True if `array` is the right operand.
        inplace: True to write the result into `array`, which keeps its dtype.
    """
    if type(other) is not Array and not isinstance(other, (bool, int, float, complex, np.number, np.bool_)):
        if name in ("equal", "not_equal") and (other is None or isinstance(other, str)):
            return runtime_of(array).full(array.shape, name == "not_equal", np.bool_)  # no number equals them
        if not isinstance(other, (np.ndarray, list, tuple, range)):
            return NotImplemented
        other = on_device(name, [array, other])[1]
    if name == "matmul":
        return _matmul(*((other, array) if reflected else (array, other)), out=array if inplace else None)
    if name == "power" and not reflected and type(other) in (int, float):
        result = _power(array, other)
    else:
        result = apply(name, other, array) if reflected else apply(name, array, other)
    return assign(array, result, fresh=True) if inplace else result


_matmul = planned(matmul)


def _power(array: Array, exponent: int | float) -> Array:
    """Returns a power. As in NumPy, frequent exponents have operations of their own, which round once."""
    name = _POWERS.get(exponent)
    if name is not None and (array.dtype.kind in "fc" or (name == "square" and type(exponent) is int)):
        return apply(name, array)
    return apply("power", array, exponent)


_POWERS = {2: "square", 0.5: "sqrt", 1: "positive", -1: "reciprocal"}


def _operator(name: str, *, reflected: bool = False, inplace: bool = False) -> Callable[..., Any]:
    """Returns the method of an operator."""

    def method(self: Array, other: Any, *modulus: Any) -> Any:
        if modulus:  # pow(x, y, modulus)
            return NotImplemented
        try:
            return operate(name, self, other, reflected=reflected, inplace=inplace)
        except Exception as error:
            shorten_traceback(error)
            raise

    if inplace or reflected or name in ("matmul", "power"):
        return method
    return operator_method(name, method)


def _function(name: str) -> Callable[..., Any]:
    """Returns a method that calls the function of this name."""
    function = getattr(names, name)

    def method(self: Array, *args: Any, **named: Any) -> Any:
        try:
            return function(self, *args, **named)
        except Exception as error:
            shorten_traceback(error)
            raise

    method.__name__, method.__doc__ = name, f"Returns `vkcompute.numpy.{name}` of the array."
    return method


METHODS: dict[str, Any] = {name: value for name, value in vars(_Methods).items() if name in DEFERRED}
"""The attributes that arrays get, by name."""
for _name, _meant in _OPERATORS.items():
    METHODS[f"__{_name}__"] = _operator(_meant)
    METHODS[f"__r{_name}__"] = _operator(_meant, reflected=True)
    METHODS[f"__i{_name}__"] = _operator(_meant, inplace=True)
for _name, _meant in _COMPARISONS.items():
    METHODS[f"__{_name}__"] = _operator(_meant)
for _name, _meant in _UNARY.items():
    METHODS[f"__{_name}__"] = _function(_meant)
for _name in DEFERRED:
    if _name not in METHODS:
        METHODS[_name] = _function(_name)
