"""The language of kernels: numbers, vectors, arrays and lists, and the functions that kernels call.

Functions are found in the table of intrinsics (intrinsics.py) or inlined. Files of jit/library/ fill that table, and
add syntax to `KERNEL_EXPRESSIONS`, `KERNEL_STATEMENTS` and `SPECIAL_FORMS`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.compiled.captured import PLAIN, Table
from vkcompute.frontend.constants import field_of, is_named
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import EXPRESSIONS, NOT_PYTHON, NUMBERS_AND_TEXT, call_python, constant
from vkcompute.frontend.language import Handler, Iterations
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.syntax import ITERABLES, LOOP_CALLS, UNSUPPORTED
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Scalar
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.complex_values import NUMBER_ATTRIBUTES, is_complex
from vkcompute.jit.frontend.intrinsics import INTRINSICS, Intrinsic, accepted, folded, in_order, remedy_for
from vkcompute.jit.frontend.other_words import in_kernels
from vkcompute.jit.frontend.private import PrivateArrays
from vkcompute.jit.frontend.ranges import Range
from vkcompute.jit.frontend.tuples import Operators
from vkcompute.jit.frontend.values import (
    ELEMENTS,
    PARTS,
    ArrayValue,
    Number,
    Row,
    Vector,
    describe,
    is_python,
    is_static,
    sliced,
    swizzled,
)

KERNEL_EXPRESSIONS: dict[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    **EXPRESSIONS,
    ast.Constant: partial(constant, kinds=(*NUMBERS_AND_TEXT, complex)),
}
KERNEL_STATEMENTS: dict[type[ast.AST], Callable[[Evaluator, Any], None]] = {**STATEMENTS}
SPECIAL_FORMS: dict[Any, Callable[[Evaluator, ast.Call], Any]] = {}
"""Functions of kernels whose calls evaluate their arguments themselves."""


class Compiler(PrivateArrays):
    """The language of kernels, for one kernel.

    Args:
        evaluator: of a program that is written in another language, which uses this one.
        host: that language, if operators are to use its own for parts of their operands.

    Attributes:
        tables: the constant tables, in the order of their buffers.
        shared_arrays: by place in the source, type and shape, the last shared array.
    """

    programs = "kernels"
    most_recursions = 0
    expressions: Mapping[type[ast.AST], Handler] = KERNEL_EXPRESSIONS
    statements: Mapping[type[ast.AST], Handler] = KERNEL_STATEMENTS
    special_forms: Mapping[Any, Handler] = SPECIAL_FORMS

    def __init__(
        self,
        function: ir.Function,
        real: Scalar,
        evaluator: Evaluator | None = None,
        host: Operators | None = None,
    ) -> None:
        super().__init__(function, evaluator or Evaluator(self, ir.Builder(function)), real, host)
        self.tables: dict[Table, ArrayValue] = {}
        self.shared_arrays: dict[tuple[ast.AST, Scalar, tuple[int, ...]], ArrayValue] = {}

    @property
    def id_axes(self) -> ir.IdAxes:
        """The axes along which the kernel reads ids, so far."""
        return ir.id_axes(self.function, self.ids)

    # -- errors -------------------------------------------------------------------------------------------------------

    def unsupported(self, node: ast.AST) -> str:
        """Describes syntax that kernels lack, with a remedy."""
        kind = type(node)
        is_expression = isinstance(node, ast.expr)
        return UNSUPPORTED.get(kind, f"{kind.__name__}; see vc.kernel for what is" if is_expression else kind.__name__)

    def describe(self, value: Any) -> str:
        """Describes a value or its type."""
        return describe(value)

    def suggestion(self, name: str) -> str:
        """Returns "; write …" with our word for another system's, or nothing."""
        return in_kernels(name)

    # -- elements, attributes and variables ---------------------------------------------------------------------------

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element of an array, a tuple or a vector, or a part of them."""
        if isinstance(base, tuple) and not is_complex(base):
            return sliced(base, index) if isinstance(index, slice) else self.host.element(base, index)
        return super().item(base, index)

    def demand_assignable(self, base: Any, text: Callable[[], str]) -> None:
        """Refuses vectors and tuples."""
        if isinstance(base, tuple):
            what = "complex number" if is_complex(base) else "vector" if isinstance(base, Vector) else "tuple"
            raise UnsupportedError(f"the elements of a {what} cannot be assigned; make another {what}")

    def attribute(self, base: Any, name: str) -> Any:
        """Returns an attribute of a value."""
        if isinstance(base, ArrayValue) and base.item is None and name in ("shape", "size", "ndim", "dtype"):
            if name == "shape":
                return tuple([self.extent(base, axis) for axis in range(base.ndim)])
            if name == "size":
                return self.extent(base, -1)
            return base.ndim if name == "ndim" else base.element.numpy
        if isinstance(base, Vector):
            return swizzled(base, name)
        if is_complex(base) or (name in NUMBER_ATTRIBUTES and isinstance(base, (Number, int, float, np.generic))):
            return complex_values.attribute(self, base, name)
        if isinstance(base, (np.iinfo, np.finfo)) and hasattr(base, name):
            return getattr(base, name)
        if is_named(type(base)):
            return field_of(base, name)
        if isinstance(base, Enum) or not isinstance(base, (Number, ArrayValue, Row, tuple, *PLAIN)):
            return self.evaluator.captured_value(base, name, f"{type(base).__name__}.{name}")
        has = (
            "an array has shape, size, ndim, dtype"
            if isinstance(base, ArrayValue)
            else "call functions, as vc.int32(x)"
        )
        has = "the length of a list is fixed, and is len(h)" if isinstance(base, ArrayValue) and base.item else has
        raise UnsupportedError(f"{describe(base)} has no attribute {name} that a kernel can use; {has}")

    def assigned(self, name: str, value: Any) -> Any:
        """Returns the value that a variable takes."""
        return value

    def annotated(self, node: ast.AnnAssign, kind: Any, value: Any) -> Any:
        """Converts a value to the type of its annotation; that of `Any` is its own."""
        if kind is Any:
            return value
        if not (isinstance(kind, type) or hasattr(kind, "element")) or kind not in INTRINSICS:
            rule = "a variable is annotated with a type of numbers or vectors, as vc.int32, or Any"
            raise UnsupportedError(f"{rule}; got {ast.unparse(node.annotation)}; leave it out")
        return self.call_intrinsic(kind, [value])

    def table(self, table: Table, name: str) -> ArrayValue:
        """Returns a constant table, with a buffer of its own."""
        if table not in self.tables:
            element = ELEMENTS[table.array.dtype.name]
            memory = self.function.buffer(name, PARTS.get(element, element))
            shape = table.array.shape
            self.tables[table] = ArrayValue(name, -1, element, len(shape), memory, shape, constant=True)
        return self.tables[table]

    # -- functions and loops ------------------------------------------------------------------------------------------

    def apply(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.Call) -> Any:
        """Returns the value of a call: of an intrinsic, or of a function to inline."""
        if isinstance(function, Callable) and function in INTRINSICS:  # type: ignore[arg-type]
            definition = INTRINSICS[function].keywords
            if named and definition is not None:
                return self.inline(definition, args, named, node)
            return self.call_intrinsic(function, in_order(function, args, named) if named else args)
        if isinstance(function, Intrinsic):  # an argument of an internal function
            return function.emit(self, *args)
        if isinstance(function, type) and function in (np.iinfo, np.finfo) and is_static(tuple(args)):
            if named:
                rule = f"{function.__name__} takes its dtype by position in a kernel"
                raise UnsupportedError(f"{rule}; write np.{function.__name__}(dtype)")
            return folded(function, args)
        result = call_python(self.evaluator, function, args, named, node)
        if result is not NOT_PYTHON:
            return result
        remedy = "write it as 'for i in range(n):' only" if function is range else remedy_for(function)
        name = ast.unparse(node.func) if hasattr(function, "__name__") else describe(function)
        raise UnsupportedError(f"{name} cannot be called in a kernel; {remedy}")

    def call_intrinsic(self, function: Any, args: list[Any]) -> Any:
        """Expands a call of one of INTRINSICS.

        Raises:
            UnsupportedError: the number or the types of the arguments do not fit.
        """
        entry = accepted(function, len(args))
        if len(args) == 1 and function in (sum, math.prod, min, max, any, all):
            args = [self.items(args[0])]
        if entry.folds and args and all(is_python(x) or isinstance(x, str) for x in args):  # float("inf")
            return folded(function, args)
        whole = function in (int, float, bool) or (entry.most is None and len(args) == 1)  # as in min(v)
        if entry.folds and not whole and any(isinstance(x, Vector) for x in args):
            rows = self.each(lambda *row: self.call_intrinsic(function, list(row)), *args)
            return tuple(map(Vector, zip(*rows, strict=True))) if isinstance(rows[0], tuple) else rows
        return entry.emit(self, *args)

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Builds the body of a function in the place of a call, and returns its value."""
        return self.evaluator.inline(function, args, named, node, self)

    def define(self, definition: ast.FunctionDef, node: ast.AST) -> FunctionType:
        """Returns a nested function."""
        return self.evaluator.define(definition)

    def iterations(self, node: ast.expr) -> Iterations:
        """Evaluates the range of a for loop."""
        return Range(self, self.range_arguments(node))

    def range_arguments(self, node: ast.expr) -> list[Any]:
        """Evaluates the arguments of the range of a for loop."""
        function = self.evaluator.value(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or function is not range:
            raise UnsupportedError(LOOP_CALLS.get(function, ITERABLES) if isinstance(function, type) else ITERABLES)
        if node.keywords:
            raise UnsupportedError("range takes 1 to 3 integers by position")
        return [self.evaluator.value(argument) for argument in node.args]
