"""Hints to the compiler, and checks at compile time."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.triton.arithmetic import told
from vkcompute.compat.triton.compiler import BlockCompiler
from vkcompute.compat.triton.functions import block_function
from vkcompute.compat.triton.types import Pointer
from vkcompute.ir import Constant, Scalar
from vkcompute.ir.function import Op
from vkcompute.jit.frontend.source import UnsupportedError
from vkcompute.jit.frontend.values import Number


def _hint(name: str) -> Any:
    def emit(c: BlockCompiler, input: Any, values: Any = None) -> Any:
        return input

    emit.__name__, emit.__doc__ = name, "Returns its operand; the hint is not needed here."
    return block_function(emit)


multiple_of, max_contiguous, max_constancy = (
    _hint(name) for name in ("multiple_of", "max_contiguous", "max_constancy")
)


@block_function
def assume(c: BlockCompiler, cond: Any) -> None:
    """States a condition. That a scalar is not negative helps to find adjacent offsets behind a remainder."""
    comparison = cond.value if isinstance(cond, Number) else None
    if isinstance(comparison, Op) and comparison.code in ("ge", "gt"):
        value, least = comparison.args
        if not isinstance(least, Constant):
            return
        if isinstance(value.type, Scalar) and value.type.kind == "i" and int(least.value) >= 0:
            c.builder.assume_natural(value)


@block_function
def debug_barrier(c: BlockCompiler) -> None:
    """Orders the accesses of a program, which they are anyway."""


@block_function
def static_assert(c: BlockCompiler, cond: Any, msg: Any = "") -> None:
    """Raises an error at compile time if a constant condition is False."""
    if isinstance(cond, Number):
        raise UnsupportedError("tl.static_assert takes a condition known at compile time")
    if not cond:
        raise UnsupportedError(f"static assertion failed{': ' if msg else ''}{msg}")


@block_function
def static_print(c: BlockCompiler, *values: Any, sep: Any = " ", end: Any = "\n") -> None:
    """Prints constants, and the types of other values, at compile time."""
    print(*[told(each) if isinstance(each, (Number, Pointer)) else each for each in values], sep=sep, end=end)
