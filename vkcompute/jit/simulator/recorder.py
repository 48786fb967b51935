"""The compiler, taking notes: what each expression is, and the types that variables have where ways come together."""

from __future__ import annotations

import ast
import pdb
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.errors import KernelError
from vkcompute.ir import Scalar
from vkcompute.jit.control import Way
from vkcompute.jit.expressions import Frame
from vkcompute.jit.source import Source
from vkcompute.jit.statements import Statements
from vkcompute.jit.values import Number, is_static, like

SHOWS = print, breakpoint, pdb.set_trace
"""What a simulated kernel may call for the sake of who looks on."""


@dataclass(slots=True)
class Notes:
    """What was found about one function, at one place where it is called.

    Attributes:
        values: of expressions; numbers of the device for their type alone.
        joined: what a branch or a loop leaves behind: the types of variables that it assigns.
        heads: the same at the start of each iteration.
        calls: notes of the functions called there.
    """

    function: FunctionType
    source: Source = field(init=False)
    values: dict[ast.AST, Any] = field(default_factory=dict)
    joined: dict[ast.AST, dict[str, Any]] = field(default_factory=dict)
    heads: dict[ast.AST, dict[str, Any]] = field(default_factory=dict)
    calls: dict[ast.AST, Notes] = field(default_factory=dict)


def type_of(value: Any) -> Any:
    """The type that a value is to have: a Kind, a tuple of such, or None for what stays as it is."""
    if isinstance(value, Number):
        return value.kind
    return like(value, map(type_of, value)) if isinstance(value, tuple) and not is_static(value) else None


class Recorder(Statements):
    """Compiles a function as for a device, for the sake of the notes alone."""

    notes: Notes

    def __init__(self, function: ir.Function, real: Scalar, *, folded: bool = False) -> None:
        super().__init__(function, real, folded=folded)
        self._mixed: set[str] = set()

    def run(self, function: FunctionType, source: Source, args: dict[str, Any]) -> None:
        """Compiles the kernel itself."""
        self.notes, self.args = Notes(function), args
        self.notes.source = source
        super().run(function, source, args)

    def note(self, frame: Frame, function: FunctionType, args: list[Any]) -> tuple[Notes, Any]:
        """Compiles a function for the kernel of this frame; its notes, and the type of its result."""
        self.frames.append(frame)
        self.notes, node = Notes(function), ast.Pass()
        result = self.inline(function, args, {}, node)
        return self.notes.calls[node], type_of(result)

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """The value of a call of a Python function, whose notes are those of this place."""
        outer = self.notes
        inner = self.notes = outer.calls[node] = Notes(function)
        found = super().inline(function, args, named, node)
        self.notes, inner.source = outer, self.sources[function]
        return found

    def located(self, work: Callable[[Any], Any], node: ast.AST) -> Any:
        """`work(node)`, noted."""
        if isinstance(node, (ast.If, ast.While, ast.For)):
            outer, self._mixed = self._mixed, set()
            super().located(work, node)
            self.notes.joined[node] = self._types(self._mixed) if self.alive else {}
            self._mixed |= outer
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self._tried(node.value.func) in SHOWS:
            for each in ast.walk(node.value):
                if isinstance(each, ast.Call) and each is not node.value:
                    self._tried(each)
        else:
            found = super().located(work, node)
            if isinstance(node, ast.expr):
                self.notes.values[node] = found
            return found
        return None

    def repeat(self, build: Callable[[], object], names: set[str], node: ast.AST) -> None:
        """A loop, and the types of its variables where an iteration starts."""

        def noted() -> None:
            self.notes.heads[node] = self._types(names)
            build()

        super().repeat(noted, names, node)
        self._mixed |= names  # before the loop they may have been of another type

    def _types(self, names: set[str]) -> dict[str, Any]:
        found = {name: type_of(self.env.get(name)) for name in sorted(names) if name.isidentifier()}
        return {name: each for name, each in found.items() if each is not None}

    def _hand_over(self, ways: list[Way], kinds: dict[str, Any]) -> None:
        """Ends the ways, and notes which variables are not of the same type on all of them."""
        for way in ways:
            self._mixed.update(name for name in kinds if type_of(way.env.get(name)) != kinds[name])
        super()._hand_over(ways, kinds)

    def _tried(self, node: ast.expr) -> Any:
        """The value of an expression, None where kernels have none: then it is Python's own business."""
        try:
            return self.value(node)
        except KernelError:
            return None
