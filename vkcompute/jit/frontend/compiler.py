"""The language of kernels: numbers, vectors, arrays and lists, and the functions that kernels call.

Functions are found in the table of intrinsics (intrinsics.py) or inlined. Files of jit/library/ fill that table, and
add syntax to `KERNEL_EXPRESSIONS`, `KERNEL_STATEMENTS` and `SPECIAL_FORMS`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from types import EllipsisType, FunctionType
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.compiled.captured import PLAIN, Table
from vkcompute.compiled.report import Reports, Site, escaped
from vkcompute.frontend.constants import field_of, is_named
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import EXPRESSIONS, NOT_PYTHON, NUMBERS_AND_TEXT, call_python, constant
from vkcompute.frontend.language import Handler, Iterations
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.syntax import ITERABLES, LOOP_CALLS, UNSUPPORTED
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Scalar
from vkcompute.jit.frontend import array_views, complex_values
from vkcompute.jit.frontend.arithmetic import Arithmetic
from vkcompute.jit.frontend.array_choices import ArrayChoice, ArrayChoices, chosen, has_array
from vkcompute.jit.frontend.complex_values import NUMBER_ATTRIBUTES
from vkcompute.jit.frontend.context import CompilerContext
from vkcompute.jit.frontend.element_access import ElementAccess, indexed, is_sliced
from vkcompute.jit.frontend.element_offsets import DeviceOffsets
from vkcompute.jit.frontend.intrinsics import (
    ARRAY_METHODS,
    INTRINSICS,
    Intrinsic,
    accepted,
    folded,
    in_order,
    of_numbers,
    remedy_for,
)
from vkcompute.jit.frontend.item_types import ItemTypes
from vkcompute.jit.frontend.other_words import in_kernels
from vkcompute.jit.frontend.private_arrays import PrivateArrays
from vkcompute.jit.frontend.ranges import Range
from vkcompute.jit.frontend.tuples import Operators
from vkcompute.jit.frontend.type_rules import TypeRules
from vkcompute.jit.frontend.values import (
    ArrayValue,
    Number,
    Record,
    Row,
    Vector,
    demand_sequence,
    describe,
    is_complex,
    is_python,
    is_static,
    sliced,
    swizzled,
)

KERNEL_EXPRESSIONS: dict[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    **EXPRESSIONS,
    ast.Constant: partial(constant, kinds=(*NUMBERS_AND_TEXT, complex, EllipsisType)),
}
KERNEL_STATEMENTS: dict[type[ast.AST], Callable[[Evaluator, Any], None]] = {**STATEMENTS}
SPECIAL_FORMS: dict[Any, Callable[[Evaluator, ast.Call], Any]] = {}
"""Functions of kernels whose calls evaluate their arguments themselves."""


class Compiler(CompilerContext):
    """The language of kernels, for one kernel.

    Args:
        rules: type numbers.
        evaluator: of a program that is written in another language, which uses this one.
        host: that language, if operators are to use its own for parts of their operands.
        arrays: makes `arrays` of this compiler; None for the elements of whole arrays in the memory of a device.

    Attributes:
        rules: as they are given.
        host: the language whose operators compute with parts of operands: this one, or the one that uses it.
        choices: kinds of variables, with those of arrays; their methods are also the compiler's.
        numbers: convert numbers; their methods are also the compiler's.
        arithmetic: has the operators, which are also the compiler's.
        offsets: those of elements in the memory of a device.
        element_offsets: those of the language, by which views are indexed.
        item_types: those of lists.
        arrays: loads and stores elements.
        private_arrays: private arrays and lists.
        reports: the kernel's reports; None where no host reads them.
        tables: the constant tables, in the order of their buffers.
        shared_arrays: by place in the source, type and shape, the last shared array.
        leaves: the values of the kernel's arguments, and of the parts of composite ones.
        device_globals: arrays of the device from outside of the kernel, which are passed as its last arguments.
        freezes_globals: True if a kernel keeps the values of captured globals from its first compilation.
        waits_in_branches: True if invocations that do not take a branch wait at its barriers, too.
    """

    programs = "kernels"
    most_recursions, freezes_globals, waits_in_branches = 0, False, False
    device_globals: tuple[Any, ...] = ()
    expressions: Mapping[type[ast.AST], Handler] = KERNEL_EXPRESSIONS
    statements: Mapping[type[ast.AST], Handler] = KERNEL_STATEMENTS
    special_forms: Mapping[Any, Handler] = SPECIAL_FORMS

    def __init__(
        self,
        function: ir.Function,
        rules: TypeRules,
        evaluator: Evaluator | None = None,
        host: Operators | None = None,
        arrays: Callable[[Compiler], ElementAccess] | None = None,
    ) -> None:
        super().__init__(function, evaluator or Evaluator(self, ir.Builder(function)))
        self.rules, self.host = rules, host or self
        self._hold_numbers(ArrayChoices(self.builder, rules, self.host))
        self._hold_operators(Arithmetic(self.numbers, self.evaluator.flow, self.call, self.loaded))
        report = partial(self.report, fails=True)
        self.offsets, self.item_types = DeviceOffsets(function, self.numbers, report), ItemTypes(rules)
        self.element_offsets: Any = self.offsets
        self.arrays = (arrays or _of_device)(self)
        self.private_arrays = PrivateArrays(self, self.numbers, self.arrays, self.item_types)
        self.reports: Reports | None = None
        self.tables: dict[Table, ArrayValue] = {}
        self.shared_arrays: dict[tuple[ast.AST, Scalar, tuple[int, ...]], ArrayValue] = {}
        self.leaves: list[Any] = []

    def _hold_numbers(self, choices: ArrayChoices) -> None:
        self.choices = choices
        self.numbers = numbers = choices.numbers
        self.kind, self.cast, self.converted = numbers.kind, numbers.cast, numbers.converted
        self.common_type, self.to_common_type = numbers.common_type, numbers.to_common_type
        self.index, self.widened = numbers.index, numbers.widened
        self.kind_at_loop, self.is_same = numbers.kind_at_loop, choices.is_same
        self.kind_of_variable, self.joined, self.filler = choices.kind_of_variable, choices.joined, choices.filler
        self.packed, self.unpacked = choices.packed, choices.unpacked
        self.state, self.restore = numbers.state, numbers.restore

    def _hold_operators(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.binary, self.accumulated = arithmetic.binary, arithmetic.accumulated
        self.unary, self.compare = arithmetic.unary, arithmetic.compare
        self.truth, self.boolean = arithmetic.truth, arithmetic.boolean
        self.elementwise, self.element, self.where = arithmetic.elementwise, arithmetic.element, arithmetic.where
        self.connected, self.known = arithmetic.connected, arithmetic.known
        self.demand_kind = arithmetic.demand_kind

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

    def selected(self, truth: ir.Value, one: Any, other: Any) -> Any:
        """Returns one of two values that have both been computed; of arrays, in tuples, too, a variable of either."""
        if has_array(one):
            e = self.evaluator
            return e.flow.choose(truth, lambda: one, lambda: other, e.here(e.node))
        return self.arithmetic.selected(truth, one, other)

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element of an array, a tuple or a vector, or a part of them."""
        if isinstance(base, ArrayChoice):
            return self._item_of_choice(base, index)
        demand_sequence(base)
        if isinstance(base, tuple) and not is_complex(base):
            return sliced(base, index) if isinstance(index, slice) else self.host.element(base, index)
        array, indices, _ = indexed(base, index)
        if is_sliced(array, indices):
            return self.part(array, indices)
        return self.arrays.item(base, index)

    def _item_of_choice(self, choice: ArrayChoice, index: Any) -> Any:
        """Returns an element of the array that is chosen, or a choice of the parts of all arrays."""
        array, indices, is_row = indexed(choice.arrays[0], index)
        if is_row or is_sliced(array, indices):
            return ArrayChoice(tuple([self.part(array, indices) for array in choice.arrays]), choice.at)
        return chosen(self, choice, lambda array: self.item(array, index))

    def part(self, array: ArrayValue, indices: Sequence[Any]) -> ArrayValue:
        """Returns the view that indices denote, some of which are slices, or are left out."""
        return array_views.part(self, array, indices)

    def items(self, value: Any) -> Any:
        """Returns the elements of a private array or of its row as a tuple; other values unchanged."""
        demand_sequence(value)
        return self.private_arrays.items(value)

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Stores an element or a field, or the elements of a row or a slice."""
        if isinstance(base, ArrayChoice):
            chosen(self, base, lambda array: self.assign(array, index, value))
        else:
            self.arrays.assign(base, index, value)

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element, a field or a row what `change` makes of it."""
        if isinstance(base, ArrayChoice):
            chosen(self, base, lambda array: self.update(array, index, change))
        else:
            self.arrays.update(base, index, change)

    def loaded(self, row: Row, n: int) -> Vector:
        """Loads a row of `n` elements."""
        return self.arrays.loaded(row, n)

    def demand_assignable(self, base: Any, text: Callable[[], str]) -> None:
        """Refuses vectors and tuples."""
        if isinstance(base, tuple):
            what = "complex number" if is_complex(base) else "vector" if isinstance(base, Vector) else "tuple"
            raise UnsupportedError(f"the elements of a {what} cannot be assigned; make another {what}")

    def attribute(self, base: Any, name: str) -> Any:
        """Returns an attribute of a value."""
        if isinstance(base, Row):
            base = self.part(base.array, base.indices)
        if isinstance(base, ArrayChoice):
            return self._attribute_of_choice(base, name)
        if isinstance(base, ArrayValue) and base.item is None and name in ("shape", "size", "ndim", "dtype"):
            if name == "shape":
                return tuple([self.arrays.extent(base, axis) for axis in range(base.ndim)])
            if name == "size":
                return self.arrays.extent(base, -1)
            return base.ndim if name == "ndim" else base.element.numpy
        if (known := self.arrays.attribute(base, name)) is not None:
            return known
        if isinstance(base, ArrayValue) and base.item is None and name in ARRAY_METHODS:
            method = ARRAY_METHODS[name]
            return Intrinsic(lambda c, *args: method(c, base, *args), 0, None)
        if isinstance(base, Vector):
            return swizzled(base, name)
        if is_complex(base) or (name in NUMBER_ATTRIBUTES and isinstance(base, (Number, int, float, np.generic))):
            return complex_values.attribute(self, base, name)
        if isinstance(base, (np.iinfo, np.finfo)) and hasattr(base, name):
            return getattr(base, name)
        if is_named(type(base)):
            return field_of(base, name)
        if isinstance(base, Enum) or not isinstance(base, (Number, ArrayValue, Record, tuple, *PLAIN)):
            return self.evaluator.captured_value(base, name, f"{type(base).__name__}.{name}")
        has = (
            "an array has shape, size, ndim, dtype, view and reductions, as sum"
            if isinstance(base, ArrayValue)
            else "call functions, as vc.int32(x)"
        )
        has = "the length of a list is fixed, and is len(h)" if isinstance(base, ArrayValue) and base.item else has
        raise UnsupportedError(f"{describe(base)} has no attribute {name} that a kernel can use; {has}")

    def _attribute_of_choice(self, choice: ArrayChoice, name: str) -> Any:
        """Returns an attribute of the array that is chosen, or a method that calls that of this array."""
        if isinstance(self.attribute(choice.arrays[0], name), Intrinsic):

            def call(c: Any, *args: Any) -> Any:
                return chosen(c, choice, lambda array: c.attribute(array, name).emit(c, *args))

            return Intrinsic(call, 0, None)
        return chosen(self, choice, lambda array: self.attribute(array, name))

    def assigned(self, name: str, value: Any) -> Any:
        """Returns the value that a variable takes, by the rules of the language."""
        kind = self.rules.assigned(self.evaluator.flow.env.get(name), value)
        return value if kind is None else Number(self.cast(value, kind.type), kind)

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
            self.tables[table] = self.arrays.table(name, table.array)
        return self.tables[table]

    def report(self, text: str, values: Sequence[Any], *, fails: bool = False, error: str = "") -> None:
        """Reports to the host from the current place in the kernel.

        Args:
            text: format string for `str.format` with the values, at most 100.
            fails: True if the launch fails, with an error that adds the source location and the invocation.
            error: Python's name of the error's class; KernelError by default.
        """
        if self.reports is None:
            raise UnsupportedError("only kernels of vc.kernel can report to the host; write values to an array")
        kinds = [self.kind(value).type for value in values]
        if fails:
            message = f"{text}{', ' * bool(text)}in {{invocation}} of {self.function.name}{{more}}"
            text = escaped(str(self.error("\0"))).replace("\0", message)
        site = Site(text, tuple([kind.name for kind in kinds]), fails, error)
        self.reports.add(site, (self.cast(value, kind) for value, kind in zip(values, kinds, strict=True)))

    def wait_for_grid(self) -> None:
        """Builds a grid barrier, where the launch of the kernel is divided."""
        if self.reports is None:
            raise UnsupportedError("only kernels of vc.kernel wait for the grid; make it one")
        self.builder.grid_barrier()

    # -- functions and loops ------------------------------------------------------------------------------------------

    def apply(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.Call) -> Any:
        """Returns the value of a call: of an intrinsic, or of a function to inline."""
        function = of_numbers(function)
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
        if args and isinstance(choice := args[0], ArrayChoice):
            return chosen(self, choice, lambda array: self.call_intrinsic(function, [array, *args[1:]]))
        if len(args) == 1 and function in (sum, math.prod, min, max, any, all):
            args = [self.items(args[0])]
        if entry.folds and args and all(is_python(x) or isinstance(x, str) for x in args):  # float("inf")
            return folded(function, args)
        whole = function in (int, float, bool) or (entry.most is None and len(args) == 1)  # as in min(v)
        if entry.folds and not whole and any(isinstance(x, Vector) for x in args):
            rows = self.elementwise(lambda *row: self.call_intrinsic(function, list(row)), *args)
            return tuple(map(Vector, zip(*rows, strict=True))) if isinstance(rows[0], tuple) else rows
        return entry.emit(self, *args)

    def call(self, function: Any, *args: Any) -> Any:
        """Inlines a function of this package that is written in the kernel language."""
        return self.inline(function, list(args), {}, self.evaluator.node)

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Builds the body of a function in the place of a call, and returns its value."""
        return self.evaluator.inline(function, args, named, node, self)

    def define(self, definition: ast.FunctionDef, node: ast.AST) -> FunctionType:
        """Returns a nested function."""
        return self.evaluator.define(definition)

    def iterations(self, node: ast.expr) -> Iterations:
        """Evaluates the range of a for loop."""
        return Range(self.numbers, self.range_arguments(node))

    def range_arguments(self, node: ast.expr) -> list[Any]:
        """Evaluates the arguments of the range of a for loop."""
        function = self.evaluator.value(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or function is not range:
            raise UnsupportedError(LOOP_CALLS.get(function, ITERABLES) if isinstance(function, type) else ITERABLES)
        if node.keywords:
            raise UnsupportedError("range takes 1 to 3 integers by position")
        return [self.evaluator.value(argument) for argument in node.args]

    def unrolls(self, values: Any) -> bool:
        """True for a tuple over which a loop is unrolled, as it has arrays, or items of several types."""
        return isinstance(values, tuple) and not isinstance(values, Vector) and not self.arithmetic.has_numbers(values)

    def unrolled(self, loop: ast.For, bodies: list[list[ast.stmt]]) -> None:
        """Takes the bodies of a loop that is unrolled, one per item."""


def _of_device(c: Compiler) -> ElementAccess:
    """Returns the elements of whole arrays in the memory of a device."""
    return ElementAccess(c, c.numbers, c.offsets, c.item_types)
