"""`KernelParam`: a parameter of a program, as libraries ask for it."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from vkcompute.blocks.compiler.types import Const


class KernelParam(NamedTuple):
    """A parameter of a program.

    Attributes:
        num: its index.
        annotation: as it is written, or the object.
        default: the value, or `inspect.Parameter.empty`.
        is_constexpr: True if it is annotated as tl.constexpr.
        do_not_specialize: True if its ints are not constant if 1, and have no known divisor.
        do_not_specialize_on_alignment: True if its ints have no known divisor.
    """

    num: int
    name: str
    annotation: Any
    default: Any
    is_constexpr: bool
    do_not_specialize: bool
    do_not_specialize_on_alignment: bool

    @property
    def has_default(self) -> bool:
        """True if it has a default."""
        return self.default is not inspect.Parameter.empty

    @property
    def is_const(self) -> bool:
        """True if nothing is written through it, by its annotation as tl.const."""
        return is_const(self.annotation)


def is_const(annotation: Any) -> bool:
    """True for the annotation tl.const, the object or its name."""
    if isinstance(annotation, str):
        return annotation.strip("'\"").rpartition(".")[2] == "const"
    return annotation is Const
