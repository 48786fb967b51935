"""A compiler that records the value of each expression, and the types of variables at joins."""

from __future__ import annotations

import ast
import pdb
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.errors import KernelError
from vkcompute.frontend.control_flow import Location
from vkcompute.frontend.evaluator import Frame, Here
from vkcompute.frontend.language import Handler
from vkcompute.frontend.scopes import Edge
from vkcompute.frontend.source import Source
from vkcompute.ir.function import walk
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.type_rules import TypeRules
from vkcompute.jit.frontend.values import Number, is_static, like

DEBUGGING = print, breakpoint, pdb.set_trace
"""Functions that a simulated kernel calls as they are."""


@dataclass(slots=True)
class Notes:
    """The values and types in one function, for one call of it.

    Attributes:
        values: values of expressions; device values only serve for their type.
        joined: types of the variables that a branch or a loop assigns, after it.
        heads: the same at the start of each iteration.
        late: the variables that have no value before a loop.
        calls: notes of the functions that it calls.
        unrolled: the bodies of loops that are unrolled, one per item.
        nested: notes of each call of the functions that are defined in it, by their definition.
        index: of a nested function, the number of its call.
    """

    function: FunctionType
    source: Source = field(init=False)
    values: dict[ast.AST, Any] = field(default_factory=dict)
    joined: dict[ast.AST, dict[str, Any]] = field(default_factory=dict)
    heads: dict[ast.AST, dict[str, Any]] = field(default_factory=dict)
    late: dict[ast.AST, Collection[str]] = field(default_factory=dict)
    calls: dict[ast.AST, Notes] = field(default_factory=dict)
    unrolled: dict[ast.AST, list[list[ast.stmt]]] = field(default_factory=dict)
    nested: dict[ast.AST, list[Notes]] = field(default_factory=dict)
    index: int | None = None


def type_of(value: Any) -> Any:
    """Returns the type of a device value: a Kind or a tuple of types; None for a constant."""
    if isinstance(value, Number):
        return value.kind
    return like(value, map(type_of, value)) if isinstance(value, tuple) and not is_static(value) else None


class NoteRecorder(Compiler):
    """Compiles a function as for a device, only to record notes.

    Attributes:
        notes: those of the function.
        has_views: True if it accesses fields of records, or memory as other types.
    """

    notes: Notes
    has_views = False

    def __init__(self, function: ir.Function, rules: TypeRules) -> None:
        super().__init__(function, rules)
        self.accumulated = self._accumulated
        self.evaluator.flow.observer = self
        self.evaluator.around = self._noted
        self._mixed: set[str] = set()
        self._defined: dict[FunctionType, list[Notes]] = {}

    def run(self, function: FunctionType, source: Source, args: dict[str, Any]) -> None:
        """Compiles the kernel itself."""
        self.notes = Notes(function)
        self.notes.source = source
        super().run(function, source, args)
        ops = walk(self.function.body)
        self.has_views = any(op.memory is not None and op.memory.of is not None for op in ops)

    def note(self, frame: Frame, function: FunctionType, args: list[Any]) -> tuple[Notes, Any]:
        """Compiles a function for the kernel of this frame; returns its notes and the type of its result."""
        self.evaluator.frames.append(frame)
        self.notes, node = Notes(function), ast.Pass()
        result = self.inline(function, args, {}, node)
        return self.notes.calls[node], type_of(result)

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Inlines a function, and records the notes of this call."""
        outer = self.notes
        inner = self.notes = outer.calls[node] = Notes(function)
        if function in self._defined:
            inner.index = len(self._defined[function])
            self._defined[function].append(inner)
        try:
            return super().inline(function, args, named, node)
        finally:  # also where a list gets wider items
            self.notes = outer
            if function in self.evaluator.sources:
                inner.source = self.evaluator.sources[function]

    def _noted(self, handler: Handler, node: ast.AST) -> Any:
        """Evaluates a node, and records it."""
        evaluate, flow = self.evaluator.evaluate, self.evaluator.flow
        if isinstance(node, (ast.If, ast.While, ast.For)):
            outer, self._mixed = self._mixed, set()
            evaluate(handler, node)
            self.notes.joined[node] = self._types(self._mixed) if flow.alive else {}
            self._mixed |= outer
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and self._tried(node.value.func) in DEBUGGING[1:]
        ):
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.Call) and inner is not node.value:
                    self._tried(inner)
        else:
            outer, self._mixed = self._mixed, set()
            value = evaluate(handler, node)
            if self._mixed:  # by an assignment in an expression
                self.notes.joined[node] = self._types(self._mixed.difference(flow.partial))
            self._mixed |= outer
            if isinstance(node, ast.expr):
                self.notes.values[node] = value
            return value
        return None

    def report(self, text: str, values: Sequence[Any], *, fails: bool = False, error: str = "") -> None:
        """Builds nothing: Python prints and raises."""

    def _accumulated(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`, and records the operand of a Python int for the statement."""
        if type(one) is int:
            self.notes.values[self.evaluator.node] = self.widened(other)
        return self.arithmetic.accumulated(sign, one, other)

    def assigned(self, name: str, value: Any) -> Any:
        """Returns the value that a variable takes, and records its type if the assignment converts it."""
        converted = super().assigned(name, value)
        if converted is not value:
            self._mixed.add(name)
        return converted

    def annotated(self, node: ast.AnnAssign, kind: Any, value: Any) -> Any:
        """Converts a value to the type of its annotation, and records the type."""
        self.notes.values[node] = kind
        return super().annotated(node, kind, value)

    def define(self, definition: ast.FunctionDef, node: ast.AST) -> FunctionType:
        """Returns a nested function, whose calls are recorded."""
        function = super().define(definition, node)
        self._defined[function] = self.notes.nested[node] = []
        return function

    def unrolled(self, loop: ast.For, bodies: list[list[ast.stmt]]) -> None:
        """Records the bodies of a loop that is unrolled."""
        self.notes.unrolled[loop] = bodies

    def iterates(self, where: Location, names: Collection[str], late: Collection[str]) -> None:
        """Records the types of a loop's variables at the start of an iteration."""
        assert isinstance(where, Here)
        self.notes.late[where.node], self.notes.heads[where.node] = late, self._types(names)
        self._mixed.update(names)  # before the loop, they may have had another type

    def _types(self, names: Collection[str]) -> dict[str, Any]:
        types = {name: type_of(self.evaluator.flow.env.get(name)) for name in sorted(names) if name.isidentifier()}
        return {name: kind for name, kind in types.items() if kind is not None}

    def joins(self, edges: Sequence[Edge], kinds: dict[str, Any]) -> None:
        """Records the variables whose types differ among the predecessors of a join."""
        for edge in edges:
            self._mixed.update(name for name in kinds if type_of(edge.env.get(name)) != kinds[name])

    def _tried(self, node: ast.expr) -> Any:
        """Returns the value of an expression; None if kernels do not support it."""
        try:
            return self.evaluator.value(node)
        except KernelError:
            return None
