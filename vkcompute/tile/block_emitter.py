"""Builds functions of elements of blocks."""

from __future__ import annotations

from typing import Any

from vkcompute.ir.types import Scalar
from vkcompute.operations import Element, Emitter
from vkcompute.tile.builder import Builder
from vkcompute.tile.types import shape_of


class BlockEmitter(Emitter):
    """Builds functions of the elements of blocks of one shape; () for scalars."""

    def __init__(self, builder: Builder, shape: tuple[int, ...]) -> None:
        super().__init__(builder)
        self._builder, self._shape = builder, shape

    def constant(self, number: Any, kind: Scalar) -> Any:
        """Returns a block of a number."""
        return self._builder.full(self._builder.const(number, kind), self._shape)

    def spread(self, x: Element) -> Element:
        """Repeats a scalar."""
        return x if shape_of(x.value.type) else Element(self, self._builder.full(x.value, self._shape))
