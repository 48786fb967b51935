"""The iterations of `range(…)` in Numba's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.compat.numba.element_offsets import NumbaOffsets
from vkcompute.jit.frontend.number_conversion import NumberConversion
from vkcompute.jit.frontend.ranges import Range
from vkcompute.jit.frontend.values import Kind, Number


class NumbaRange(Range):
    """The iterations of `range(…)`, whose items have the type of its bounds.

    Args:
        offsets: learn which items are not negative.
    """

    def __init__(self, numbers: NumberConversion, args: Sequence[Any], offsets: NumbaOffsets) -> None:
        super().__init__(numbers, args)
        self._offsets = offsets

    def item(self, counter: Any) -> Any:
        """Returns the variable's value in an iteration."""
        b, kind = self._numbers.builder, self._start.kind.type
        first, by = self._start.value, self._step.value
        value = b.compute("add", first, b.compute("mul", b.cast(counter.value, kind), by))
        if self._offsets.is_natural(first) and self._offsets.is_natural(by):
            self._offsets.natural.add(value)
        return Number(value, Kind(kind))

    def next(self, counter: Any) -> Any:
        """Returns the number of the next iteration."""
        b = self._numbers.builder
        return Number(b.compute("add", counter.value, b.const(1, counter.kind.type)), counter.kind)
