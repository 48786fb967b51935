"""The protocol of a source language: what the evaluator of Python's syntax trees asks of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Protocol

from vkcompute.compiled.captured import Table
from vkcompute.frontend.control_flow import Location
from vkcompute.frontend.kinds import Kinds

Handler = Callable[[Any, Any], Any]


class Iterations(Protocol):
    """The iterations of a for loop, which a counter numbers.

    Attributes:
        length: their number, if it is known at compile time.
    """

    length: int | None

    def start(self) -> Any:
        """Returns the counter's first value."""

    def first(self) -> Any:
        """Returns the variable's first value."""

    def goes_on(self, counter: Any) -> Any:
        """Returns whether there is an iteration of this number."""

    def item(self, counter: Any) -> Any:
        """Returns the variable's value in an iteration."""

    def next(self, counter: Any) -> Any:
        """Returns the number of the next iteration."""


class Language(Kinds, Protocol):
    """A source language in Python's syntax.

    A method that refuses its operands raises UnsupportedError; the evaluator adds the place.
    """

    @property
    def programs(self) -> str:
        """Plural of its programs, for errors, as "kernels"."""

    @property
    def most_recursions(self) -> int:
        """Depth to which a function may call itself, with constants that end it."""

    @property
    def expressions(self) -> Mapping[type[ast.AST], Handler]:
        """The syntax of expressions -> function of the evaluator and the node; others are refused."""

    @property
    def statements(self) -> Mapping[type[ast.AST], Handler]:
        """The same of statements."""

    @property
    def special_forms(self) -> Mapping[Any, Handler]:
        """Functions whose calls evaluate their arguments themselves -> function of the evaluator and the call."""

    # -- errors -------------------------------------------------------------------------------------------------------

    def unsupported(self, node: ast.AST) -> str:
        """Describes syntax that the language lacks, with a remedy."""

    def describe(self, value: Any) -> str:
        """Describes a value or a kind."""

    def suggestion(self, name: str) -> str:
        """Returns "; write …" with the language's word for an unknown name, or nothing."""

    # -- operators ----------------------------------------------------------------------------------------------------

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""

    def accumulated(self, sign: str, one: Any, other: Any) -> Any:
        """Returns the value of `one` after `one sign= other`."""

    def unary(self, sign: str, value: Any) -> Any:
        """Returns `sign value`."""

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""

    def connected(self, is_and: bool, first: Any, second: Callable[[], Any], where: Location, *, is_cheap: bool) -> Any:
        """Returns `first and second()` or `first or second()`; a cheap second one may be evaluated in any case."""

    def known(self, condition: Any, value: Any) -> Any:
        """Returns the side of a conditional expression that a condition known at compile time takes."""

    def selected(self, truth: Any, one: Any, other: Any) -> Any:
        """Returns one of two values that have both been evaluated, by a device value."""

    # -- elements and attributes --------------------------------------------------------------------------------------

    def items(self, value: Any) -> Any:
        """Returns the elements of a value as a tuple, where that is possible; other values unchanged."""

    def item(self, base: Any, index: Any) -> Any:
        """Returns `base[index]`."""

    def demand_assignable(self, base: Any, text: Callable[[], str]) -> None:
        """Refuses a value whose elements cannot be assigned; `text` returns its expression."""

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Assigns `base[index] = value`."""

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns `base[index] = change(base[index])`."""

    def attribute(self, base: Any, name: str) -> Any:
        """Returns an attribute of a value, which is no module or class."""

    # -- variables ----------------------------------------------------------------------------------------------------

    def assigned(self, name: str, value: Any) -> Any:
        """Returns the value that a variable takes."""

    def annotated(self, node: ast.AnnAssign, kind: Any, value: Any) -> Any:
        """Converts a value to the type of its annotation."""

    def table(self, table: Table, name: str) -> Any:
        """Returns the value of an array from outside of the program."""

    # -- functions and loops ------------------------------------------------------------------------------------------

    def apply(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.Call) -> Any:
        """Returns the value of a call: from the table of functions, or of a function to inline."""

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Builds the body of a function in the place of a call, and returns its value."""

    def define(self, definition: ast.FunctionDef, node: ast.AST) -> FunctionType:
        """Returns a nested function."""

    def iterations(self, node: ast.expr) -> Iterations:
        """Evaluates what a for loop iterates over."""
