"""Hints to the compiler, checks and messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.blocks.compiler.accessed_elements import demand, offsets_of
from vkcompute.blocks.compiler.arithmetic import describe, describe_dynamic
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.combination import Failure
from vkcompute.blocks.compiler.functions import STATEMENTS, block_function
from vkcompute.blocks.compiler.types import Pointer
from vkcompute.compiled.report import escaped
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, INT32, INT64, SCALARS, Constant, Scalar
from vkcompute.ir.function import Op, Push
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import shape_of

_LEAST, _MOST = {"ge": 0, "gt": 1}, {"le": 0, "lt": -1}
"""Comparison with a constant -> what is added to it for the least, or the greatest, value."""


def _numbers_per_axis(c: BlockCompiler, name: str, input: Any, values: Any) -> list[int]:
    """Returns the numbers that a hint states, one per axis of a block.

    Raises:
        UnsupportedError: they are not.
    """
    given = list(values) if isinstance(values, (tuple, list)) else [values]
    if not given or any(type(number) is not int or number < 1 for number in given):
        raise UnsupportedError(f"tl.{name} takes ints from 1 on, known at compile time; got {describe(values)}")
    n_axes = len(c.shape(input)) if isinstance(input, (Number, Pointer)) else len(given)
    if len(given) != max(1, n_axes) and c.is_users():
        raise UnsupportedError(f"tl.{name} takes one int per axis; got {describe(input)} and {describe(values)}")
    return given


def _hint(name: str) -> Any:
    def emit(c: BlockCompiler, input: Any, values: Any) -> Any:
        _numbers_per_axis(c, name, input, values)
        return input

    emit.__name__, emit.__doc__ = name, "Returns its operand; the hint is not needed here."
    return block_function(emit)


max_contiguous, max_constancy = (_hint(name) for name in ("max_contiguous", "max_constancy"))


@block_function
def multiple_of(c: BlockCompiler, input: Any, values: Any) -> Any:
    """Returns its operand, an integer argument stated to be a multiple; of other values the hint has no effect.

    Rows of such a length begin at aligned elements, which are loaded four together. Interpreted launches check it.
    """
    n = _numbers_per_axis(c, "multiple_of", input, values)[0]
    value = input.value if isinstance(input, Number) else None
    if isinstance(value, Push) and value.type is INT32:
        c.divisors[value] = max(c.divisors.get(value, 1), n & -n)
        rest = c.builder.compute("rem", value, c.builder.const(n, INT32))
        holds = c.builder.compute("eq", rest, c.builder.const(0, INT32))
        demand(c, holds, None, f"states that {{}} is a multiple of {n}; drop tl.multiple_of", value)
    return input


@block_function
def assume(c: BlockCompiler, cond: Any) -> None:
    """States a condition.

    That a scalar is not negative helps to find adjacent offsets behind a remainder. Bounds of an integer argument, as
    `n <= 4096`, bound the iterations of loops.
    """
    if c.is_users() and type(cond) is not bool and not (isinstance(cond, Number) and cond.kind.type is BOOL):
        raise UnsupportedError(f"tl.assume takes a scalar condition; got {describe(cond)}; write tl.max(x, 0) != 0")
    comparison = cond.value if isinstance(cond, Number) else None
    if not isinstance(comparison, Op) or comparison.code not in _LEAST | _MOST:
        return
    value, constant = comparison.args
    if not (isinstance(constant, Constant) and isinstance(value.type, Scalar) and value.type.kind == "i"):
        return
    code, bound = comparison.code, int(constant.value)
    if code in _LEAST and bound >= 0:
        c.builder.assume_natural(value)
    if isinstance(value, Push):
        limits = np.iinfo(value.type.name)
        least, most = c.bounds.get(value, (int(limits.min), int(limits.max)))
        least = max(least, bound + _LEAST[code]) if code in _LEAST else least
        c.bounds[value] = least, min(most, bound + _MOST[code]) if code in _MOST else most


@block_function
def condition(c: BlockCompiler, arg1: Any, disable_licm: Any = False) -> Any:
    """Returns the condition of a while loop; the hint has no effect."""
    return arg1


@block_function
def debug_barrier(c: BlockCompiler) -> None:
    """Orders the accesses of a program, which they are anyway."""


@block_function
def static_assert(c: BlockCompiler, cond: Any, msg: Any = "") -> None:
    """Raises an error at compile time if a constant condition is False."""
    if isinstance(cond, Number) or (type(cond) is not bool and c.is_users()):
        raise UnsupportedError(f"tl.static_assert takes a bool known at compile time; got {describe_dynamic(cond)}")
    if not cond:
        raise UnsupportedError(f"static assertion failed{': ' if msg else ''}{msg}")


@block_function
def static_print(
    c: BlockCompiler, *values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False
) -> None:
    """Prints constants, and the types of other values, at compile time."""
    shown = [describe(value) if isinstance(value, (Number, Pointer)) else value for value in values]
    print(*shown, sep=sep, end=end, file=file, flush=flush)


def _labels(c: BlockCompiler, values: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """Returns the shape of the values that a report has. Raises UnsupportedError for a value that is no number."""
    for value in values:
        if (isinstance(value, (str, tuple)) and not isinstance(value, Pointer)) or value is None:
            raise UnsupportedError(f"tl.{name} takes numbers and blocks after its text; got {describe(value)}")
    return c.common_shape(*values) if values else ()


def _address_of(c: BlockCompiler, pointer: Pointer) -> Number:
    """Returns the bytes from the beginning of a pointer's array."""
    offsets = c.builder.cast(offsets_of(c, pointer), INT64)
    size = c.builder.full(c.builder.const(pointer.array.memory.element.bits // 8, INT64), shape_of(offsets.type))
    return c.number(c.builder.compute("mul", offsets, size))


@block_function
def device_print(c: BlockCompiler, prefix: Any, *args: Any, hex: Any = False) -> None:
    """Prints a text and numbers, of blocks each element with its index, when the launch has completed.

    Floats have six decimals. Pointers are printed as the bytes from the beginning of their array.
    """
    if not isinstance(prefix, str):
        raise UnsupportedError(f"tl.device_print takes a text first; got {describe(prefix)}")
    shapes = [_labels(c, (arg,), "device_print") for arg in args]
    label = prefix.rstrip(" ").removesuffix(":") + ": "  # as Triton's
    label = f" {label}" if len(label) > 2 and not label.startswith(" ") else label
    for at, (given, shape) in enumerate(zip(args, shapes, strict=True)):
        is_pointer = isinstance(given, Pointer)
        arg = _address_of(c, given) if is_pointer else given
        index = ", ".join(f"{{{3 + axis}:{len(str(n - 1))}}}" for axis, n in enumerate(shape))
        operand = f"(operand {at}) " if len(args) > 1 else ""
        kind = c.element_type(arg)
        value, form = c.cast(arg, kind), ":f" if kind.kind == "f" else ""
        if (hex or is_pointer) and kind.kind in "iuf":  # the bits, in the width of the type
            value, form = c.builder.bitcast(value, SCALARS[f"uint{kind.bits}"]), f":#0{2 + kind.bits // 4}x"
        number = f"{{{3 + len(shape)}{form}}}"
        c.builder.report(f"pid ({{0}}, {{1}}, {{2}}) idx ({index}){escaped(label)}{operand}{number}\n", [value])
    if not args:
        c.builder.report(f"pid ({{0}}, {{1}}, {{2}}) {escaped(prefix)}\n", [])


@block_function
def device_assert(c: BlockCompiler, cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Fails the launch where a condition is False, if TRITON_DEBUG=1, triton.jit(debug=True), or interpreted."""
    if not isinstance(msg, str):
        raise UnsupportedError(f"the message of tl.device_assert is a text; got {describe(msg)}")
    shape = c.common_shape(cond, *(() if mask is None else (mask,)))
    wrong = c.spread(c.builder.compute("not", c.cast(cond, BOOL)), shape)
    if mask is not None:
        wrong = c.builder.compute("and", wrong, c.spread(c.cast(mask, BOOL), shape))
    failure = Failure(wrong, msg, escaped(str(c.error("\0"))))
    if c.combination is None:
        fail(c, failure)
    elif c.asserts:
        c.combination.add(c.builder, failure)


def fail(c: BlockCompiler, failure: Failure) -> None:
    """Fails the launch where an assertion does not hold."""
    shape, text = shape_of(failure.fails.type), failure.text
    element = f" at element ({', '.join(f'{{{3 + axis}}}' for axis in range(len(shape)))})" if shape else ""
    message = f"assertion failed{': ' if text else ''}{escaped(text)} in program ({{0}}, {{1}}, {{2}}){element}"
    c.builder.report(failure.location.replace("\0", message), [failure.fails], failure.fails, fails=True)


STATEMENTS |= {"print": device_print, "assert": device_assert}
