"""Rules that block programs have in common with kernels."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.compiled.captured import Table
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.ir import FLOAT32, Value
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.context import Context
from vkcompute.jit.frontend.tuples import Operators
from vkcompute.jit.frontend.type_rules import KernelTypes
from vkcompute.jit.frontend.values import ArrayValue, Kind


class KernelRules(Context):
    """The rules of a language that are those of kernels: variables and joins, constants, arguments and captured values.

    Args:
        operators: of the language itself, for parts of operands.

    Attributes:
        kernels: the language of kernels.
    """

    def __init__(self, function: ir.Function, evaluator: Evaluator, operators: Operators) -> None:
        super().__init__(function, evaluator)
        self.kernels = Compiler(function, KernelTypes(FLOAT32), evaluator, operators)

    # -- variables ----------------------------------------------------------------------------------------------------

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the type of a variable with this value."""
        return self.kernels.kind_of_variable(value)

    def kind_at_loop(self, kind: Any) -> Any:
        """Returns the type of a variable that has this one before a loop that assigns to it."""
        return self.kernels.kind_at_loop(kind)

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this type; constants have none."""
        return self.kernels.packed(value, kind)

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this type, made of the next device values."""
        return self.kernels.unpacked(kind, values)

    def filler(self, kind: Any) -> list[Value]:
        """Returns zeros."""
        return self.kernels.filler(kind)

    def is_same(self, one: Any, other: Any) -> bool:
        """True if both values are one constant."""
        return self.kernels.is_same(one, other)

    def state(self) -> Any:
        """Returns what is noted of the program so far."""
        return self.kernels.state()

    def restore(self, state: Any) -> None:
        """Forgets what was noted since `state`."""
        self.kernels.restore(state)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def kind(self, value: Any) -> Kind:
        """Returns the type of a number or block."""
        return self.kernels.kind(value)

    def known(self, condition: Any, value: Any) -> Any:
        """Returns the side of a conditional expression that a condition known at compile time takes."""
        return self.kernels.known(condition, value)

    def selected(self, truth: Value, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        return self.kernels.selected(truth, one, other)

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        return self.kernels.where(condition, one, other)

    def accumulated(self, sign: str, one: Any, other: Any) -> Any:
        """Returns the value of `one` after `one sign= other`."""
        return self.kernels.accumulated(sign, one, other)

    def items(self, value: Any) -> Any:
        """Returns the elements of a value as a tuple, where that is possible; other values unchanged."""
        return self.kernels.items(value)

    # -- arguments ----------------------------------------------------------------------------------------------------

    @property
    def written(self) -> dict[int, bool]:
        """The array arguments that are written, as of the language of kernels."""
        return self.kernels.arrays.written

    @property
    def extents(self) -> dict[tuple[int, int], Value]:
        """Push constants for lengths, offsets and strides, as of the language of kernels."""
        return self.kernels.offsets.pushed

    def parameter(self, array: ArrayValue, source: int) -> Value:
        """Returns a parameter of an array, as in kernels."""
        return self.kernels.offsets.parameter(array, source)

    def mark_written(self, array: ArrayValue, *, assigned: bool = True) -> None:
        """Notes that the program writes an array, by assignment or only by atomic operations."""
        self.kernels.arrays.mark_written(array, assigned=assigned)

    # -- names, elements and functions --------------------------------------------------------------------------------

    def suggestion(self, name: str) -> str:
        """Returns "; write …" with our word for another system's, or nothing."""
        return self.kernels.suggestion(name)

    def attribute(self, base: Any, name: str) -> Any:
        """Returns an attribute of a value that is no block and no pointer."""
        return self.kernels.attribute(base, name)

    def assigned(self, name: str, value: Any) -> Any:
        """Returns the value that a variable takes."""
        return value

    def table(self, table: Table, name: str) -> ArrayValue:
        """Returns a constant table."""
        return self.kernels.table(table, name)

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element of a tuple."""
        return self.kernels.item(base, index)

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Stores an element."""
        self.kernels.assign(base, index, value)

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element what `change` makes of it."""
        self.kernels.update(base, index, change)

    def define(self, definition: ast.FunctionDef, node: ast.AST) -> FunctionType:
        """Returns a nested function."""
        return self.kernels.define(definition, node)
