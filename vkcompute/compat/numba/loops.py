"""Loops of Numba's kernels: the iterations of `range(…)`, and tuples over which `literal_unroll` unrolls one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkcompute.compat.numba.element_offsets import NumbaOffsets
from vkcompute.frontend.unsupported import UnsupportedError
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


class Unrolled(tuple[Any, ...]):
    """A tuple over which a for loop is unrolled."""


def literal_unroll(container: Any) -> Any:
    """Returns the tuple; in a kernel, a loop over it takes items of different types."""
    return container


def unrolled(c: Any, value: Any) -> Unrolled:
    """Returns a tuple as one that is unrolled; arrays from outside of the kernel are constant tables.

    Raises:
        UnsupportedError: it is no tuple.
    """
    if not isinstance(value, tuple):
        raise UnsupportedError("literal_unroll takes a tuple, known at compile time; write a for loop over an array")
    line, take = c.evaluator.node.lineno, c.evaluator.captured_value
    return Unrolled(
        [
            take(value, k, f"item{k}_of_{line}", item=True) if isinstance(item, np.ndarray) else item
            for k, item in enumerate(value)
        ]
    )
