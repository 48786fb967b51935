"""Offsets of elements of arrays and of views, in Numba's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, UINT32, Constant, Value
from vkcompute.ir.function import Op
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.element_offsets import along
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number

_NATURAL_OF = frozenset({"add", "mul", "min", "max", "and", "shr", "div", "mod", "or"})
_INDEX = Kind(INT32)


class NumbaOffsets:
    """Offsets of elements, of views, too; negative indices count from the end; `ElementOffsets`.

    Args:
        c: the language, which has the offsets of whole arrays.

    Attributes:
        natural: values that are known not to be negative.
    """

    def __init__(self, c: Compiler) -> None:
        self._c, self.guarded, self.condition = c, c.offsets.guarded, c.offsets.condition
        self.natural: set[Value] = set()

    def extent(self, array: ArrayValue, axis: int) -> Any:
        """Returns the length of an axis, or the size for axis -1."""
        return self._c.offsets.extent(array, axis)

    def offset(self, array: Any, index: Any) -> Value:
        """Returns the offset of an element in memory."""
        indices = along(index)
        if isinstance(array, View):
            return self._c.offsets.offset_in_view(array, indices, self.from_start)
        if isinstance(array, ArrayValue) and len(indices) == array.ndim:
            indices = tuple([self._counted(array, axis, at) for axis, at in enumerate(indices)])
        return self._c.offsets.offset(array, indices)

    def _counted(self, array: ArrayValue, axis: int, index: Any) -> Any:
        """Returns an index that counts from the start; constants unchanged."""
        if not isinstance(index, Number):
            return index
        at = self._c.index(index)
        return Number(at if self._is_counted(index) else self._wrapped(at, self.extent(array, axis)), _INDEX)

    def from_start(self, index: Any, length: Any) -> Value:
        """Returns an index along an axis of this length; a negative one counts from the end."""
        b, at = self._c.builder, self._c.index(index)
        if isinstance(index, (int, np.integer)):
            if isinstance(length, int) and not -length <= index < length:
                raise UnsupportedError(f"this axis has {length} elements; got index {index}; take one of them")
            return at if index >= 0 else b.compute("add", self._c.cast(length, INT32), at)
        return at if self._is_counted(index) else self._wrapped(at, length)

    def _is_counted(self, index: Any) -> bool:
        """True if an index is known to count from the start."""
        return self._c.kind(index).type.kind != "i" or self.is_natural(index.value)

    def _wrapped(self, at: Value, length: Any) -> Value:
        """Returns an index that counts from the start if it is not negative, and else from the end.

        As an unsigned number, a negative index is the smaller one after the addition; others are before it.
        """
        b = self._c.builder
        before = b.bitcast(at, UINT32)
        return b.bitcast(b.compute("min", before, b.compute("add", before, self._c.cast(length, UINT32))), INT32)

    def is_natural(self, value: Value) -> bool:
        """True if a value is known not to be negative, unless it wraps."""
        if isinstance(value, Constant):
            return not value.value < 0  # type: ignore[operator]
        if value in self.natural or not isinstance(value, Op):
            return value in self.natural
        if value.code == "builtin":
            return True
        if value.code in ("cast", "bitcast"):
            return value.args[0].type.kind == "u" or self.is_natural(value.args[0])  # type: ignore[union-attr]
        if value.code == "select":
            return all(map(self.is_natural, value.args[1:]))
        return value.code in _NATURAL_OF and all(map(self.is_natural, value.args))
