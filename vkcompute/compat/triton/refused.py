"""Functions of Triton that block programs do not have: an error at compile time gives the reason."""

from __future__ import annotations

from typing import Any

from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import BlockFunction, block_function
from vkcompute.frontend.unsupported import UnsupportedError

REFUSED = {
    "inline_asm_elementwise": "it has no portable assembly; write the operations in the block language",
}
"""Remedies by name."""


def _refused(name: str) -> BlockFunction:
    def emit(c: BlockCompiler, *args: Any, **named: Any) -> None:
        raise UnsupportedError(f"tl.{name} is not supported: {REFUSED[name]}")

    emit.__name__, emit.__doc__ = name, "Raises an error at compile time."
    return block_function(emit)


(inline_asm_elementwise,) = map(_refused, REFUSED)
