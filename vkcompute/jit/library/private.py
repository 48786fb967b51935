"""Private arrays and lists of an invocation."""

from __future__ import annotations

import ast
import math
from typing import Any

from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import binary
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend import records
from vkcompute.jit.frontend.compiler import KERNEL_EXPRESSIONS, Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.private_arrays import MOST_ITEMS
from vkcompute.jit.frontend.record_types import RecordType
from vkcompute.jit.frontend.values import ArrayValue, describe
from vkcompute.jit.library.ids import refuse_outside_kernel
from vkcompute.jit.library.workgroup import assigned_name, layout

_Items = tuple[list[Any], tuple[int, ...]]
"""Items in row-major order, repeated to fill a shape, and the shape."""


def _local(c: Compiler, shape: Any, dtype: Any) -> ArrayValue:
    """Builds a private array of zeros."""
    element, lengths = layout(shape, dtype, "private")
    array = c.private_arrays.array(assigned_name(c, "local"), element, lengths, _origin(c.evaluator))
    c.private_arrays.write_items(array, [0])
    return records.in_memory(c, array) if isinstance(element, RecordType) else array


def _origin(e: Evaluator) -> tuple[Any, ...]:
    return *[frame.call for frame in e.frames], e.node


def display(node: ast.AST) -> tuple[ast.List, ast.expr | None] | None:
    """Returns the list in `[…]`, `[…] * n` or `n * […]`, and n; None for other expressions."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, times in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.List):
                return one, times
    return (node, None) if isinstance(node, ast.List) else None


def _list(e: Evaluator, node: ast.List | ast.BinOp) -> Any:
    """Evaluates `[…]` and `[…] * n` in a kernel."""
    assert isinstance(e.language, Compiler), "other languages have lists of their own"
    return listed(e.language, e, node)


def listed(c: Compiler, e: Evaluator, node: ast.List | ast.BinOp) -> Any:
    """Evaluates `[…]` and `[…] * n`, in a program whose lists are those of `c`; another operation by its language."""
    parts = display(node)
    if parts is None and isinstance(node, ast.BinOp):
        return binary(e, node)
    assert parts is not None, "a list is its own display"
    items, shape = _items(e, *parts)
    if math.prod(shape) > MOST_ITEMS and len(items) > 1:
        rule = f"a list has at most {MOST_ITEMS:,} items, unless it repeats one"
        raise UnsupportedError(f"{rule}; got {math.prod(shape):,}; write vc.local, and assign in a loop")
    return c.private_arrays.new_list(assigned_name(c, "list"), items, shape, _origin(e))


def _items(e: Evaluator, node: ast.List, times: ast.expr | None) -> _Items:
    """Evaluates the items of a list, and of the lists in it."""
    n = 1 if times is None else e.value(times)
    if not isinstance(n, int) or n < 1 or not node.elts:
        got = "[]" if not node.elts else n if isinstance(n, int) else describe(n)
        rule = "the length of a list is positive, known at compile time and fixed"
        raise UnsupportedError(f"{rule}; got {got}; write [0] * 8, or use a device array")
    rows = [display(elt) for elt in node.elts]
    if not any(rows):
        items = [item for elt in node.elts for item in e.unpacked(elt)]
        return items, (n * len(items),)
    if n > 1 or not all(rows):
        rule = "a list of lists is written out, since [[0] * 3] * 2 has the same list twice"
        raise UnsupportedError(f"{rule}; write [[0] * 3, [0] * 3], or vc.local((2, 3), vc.int32)")
    parts = [_items(e, *row) for row in rows if row is not None]
    if len({shape for _, shape in parts}) > 1:
        lengths = ", ".join(str(shape[0]) for _, shape in parts)
        raise UnsupportedError(f"the lists in a list have one length; got {lengths}")
    whole = [items[k % len(items)] for items, shape in parts for k in range(math.prod(shape))]
    return whole, (len(parts), *parts[0][1])


KERNEL_EXPRESSIONS[ast.List] = KERNEL_EXPRESSIONS[ast.BinOp] = _list


@intrinsic(_local, usage=": shape and dtype, as vc.local(8, vc.float32)")
def local(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """Makes a private array of the invocation, row-major and indexed as device arrays; its elements are 0.

        best = vc.local((2, 8), vc.float32)

    Shape and dtype are compile-time constants. The array is in registers if all indices are known at compile time,
    those in loops over short ranges included.
    """
    refuse_outside_kernel("local(shape, dtype)")
