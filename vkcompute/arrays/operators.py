"""The operators of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays import indexing
from vkcompute.arrays.call_plan import planned
from vkcompute.arrays.creation import asarray
from vkcompute.arrays.operands import on_device
from vkcompute.arrays.products import matmul
from vkcompute.arrays.ufunc import apply, assign
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.array import copied as copy_of
from vkcompute.runtime.memory.host_data import converted
from vkcompute.runtime.memory.layout import is_basic, is_empty
from vkcompute.runtime.runtime import runtime_of


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
copied = planned(copy_of)


def _power(array: Array, exponent: int | float) -> Array:
    """Returns a power. As in NumPy, frequent exponents have operations of their own, which round once."""
    name = _POWERS.get(exponent)
    if name is not None and (array.dtype.kind in "fc" or (name == "square" and type(exponent) is int)):
        return apply(name, array)
    return apply("power", array, exponent)


_POWERS = {2: "square", 0.5: "sqrt", 1: "positive", -1: "reciprocal"}


@planned
def get_item(array: Array, index: Any) -> Array:
    """Returns the elements that an index with arrays, lists or bools selects, as a new array."""
    return indexing.get(array, index)


@planned
def set_item(array: Array, index: Any, value: Any) -> None:
    """Writes a value, broadcast and converted within its kind, to the elements at an index."""
    if not is_basic(index):
        if type(value) is not Array:
            value = asarray(converted(value, array.dtype), device=array.runtime)
        indexing.put(array, index, value)
        return
    array.compute()
    target = array[... if is_empty(index) else index]
    if type(value) is Array:
        extra = max(value.ndim - target.ndim, 0)
        if extra and value.shape[:extra] == (1,) * extra:
            value = value[(0,) * extra]
        assign(target, value)
    elif np.ndim(value) == 0 and not isinstance(value, np.ndarray):
        target.fill(value)
    else:
        target.write(value)
