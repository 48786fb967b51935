"""Builds functions of elements in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.operations import Element, Emitter


class KernelEmitter(Emitter):
    """Builds functions of scalars; those in the kernel language are compiled in place."""

    def __init__(self, compiler: Compiler) -> None:
        super().__init__(compiler.builder)
        self._compiler = compiler

    def call(self, definition: Callable[..., Any], *operands: Any) -> Any:
        """Compiles a definition in the kernel language."""
        numbers = [Number(operand.value, Kind(operand.kind)) for operand in operands]
        return Element(self, self._compiler.call(definition, *numbers).value)
