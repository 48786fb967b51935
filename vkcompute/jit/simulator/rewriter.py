"""The function that a simulation runs: the user's own, with what Python would do in its own types handed over."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vkcompute.jit.functions import FUNCTIONS
from vkcompute.jit.simulator.recorder import SHOWS, Notes, type_of
from vkcompute.jit.values import Number, is_static

if TYPE_CHECKING:
    from vkcompute.jit.simulator.machine import Machine

_TABLE = "<simulator>"  # a name that no program can have


def rewritten(notes: Notes, machine: Machine) -> FunctionType:
    """The function at the place that the notes are of; file and lines are those of its source."""
    function, source = notes.function, notes.source
    rewriter = Rewriter(notes, machine)
    tree = rewriter.function()
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_TABLE] = CellType(rewriter.table)
    outer = ast.FunctionDef(_TABLE, _parameters([ast.arg(name) for name in cells]), [tree], [])
    module = ast.increment_lineno(ast.fix_missing_locations(ast.Module([outer], [])), source.above)
    code = _inner(_inner(compile(module, source.file, "exec", dont_inherit=True)))
    machine.runs(code, notes)
    defaults = tuple(map(machine.fixed, function.__defaults__ or ()))
    closure = tuple([cells[name] for name in code.co_freevars])
    found = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    found.__kwdefaults__ = {name: machine.fixed(each) for name, each in (function.__kwdefaults__ or {}).items()}
    return found


def _inner(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _parameters(args: list[ast.arg]) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[])


def _raw(value: Any) -> bool:
    """Whether a value from outside has numpy's scalars in it, whose arithmetic is not a kernel's."""
    if isinstance(value, tuple):
        return is_static(value) and any(map(_raw, value))
    return isinstance(value, np.generic)


class Rewriter(ast.NodeVisitor):
    """Rewrites one function: each node's visit gives a new one for it.

    Attributes:
        table: what the rewritten function refers to by number.
    """

    def __init__(self, notes: Notes, machine: Machine) -> None:
        self._notes, self._machine = notes, machine
        self.table: list[Any] = []

    def function(self) -> ast.FunctionDef:
        """The function's definition."""
        tree = self._notes.source.tree
        args = cast(ast.arguments, self.generic_visit(tree.args))
        args.defaults, args.kw_defaults = [], [None] * len(args.kwonlyargs)
        return cast(ast.FunctionDef, _placed(ast.FunctionDef(tree.name, args, self._block(tree.body), []), tree))

    def generic_visit(self, node: ast.AST) -> Any:
        """The node with what is visited in it."""
        found = type(node)(**vars(node))
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(found, name, self.visit(value))
            elif isinstance(value, list):
                setattr(found, name, [self.visit(each) if isinstance(each, ast.AST) else each for each in value])
        return found

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """A parameter, without its annotation."""
        return ast.copy_location(ast.arg(node.arg), node)

    def _value(self, node: ast.AST) -> Any:
        """What the compiler found an expression to be; None also where it never came."""
        return self._notes.values.get(node)

    def _entry(self, value: Any, like: ast.AST) -> ast.expr:
        """An expression for this object."""
        self.table.append(value)
        found = ast.Subscript(ast.Name(_TABLE, ast.Load()), ast.Constant(len(self.table) - 1), ast.Load())
        return cast(ast.expr, _placed(found, like))

    def _settled(self, kind: Any, node: ast.expr) -> ast.expr:
        """The expression in this type."""
        if kind is None:
            return node
        call = ast.Call(self._entry(partial(self._machine.settled, kind), node), [node], [])
        return cast(ast.expr, _placed(call, node))

    def _assignments(self, types: dict[str, Any], like: ast.AST) -> list[ast.stmt]:
        """Statements at this place that bring variables into their types."""
        return [
            _placed(ast.Assign([ast.Name(name, ast.Store())], self._variable(name, kind, like)), like)
            for name, kind in types.items()
        ]

    def _variable(self, name: str, kind: Any, like: ast.AST) -> ast.expr:
        return self._settled(kind, _placed(ast.Name(name, ast.Load()), like))

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements, and after branches and loops what joins the variables: at the line of what follows."""
        found: list[ast.stmt] = []
        for each, following in zip(statements, [*statements[1:], None], strict=False):
            types = self._notes.joined.get(each, {})
            if isinstance(each, ast.While) and self._machine.counts:
                found.append(_placed(ast.Expr(self._call(self._machine.begin_loop, each)), each))
            found += [self.visit(each), *self._assignments(types, following or each)]
        return found

    def _call(self, function: Callable[[int], object], loop: ast.AST) -> ast.expr:
        """A call with the line of a loop."""
        return cast(ast.expr, _placed(ast.Call(self._entry(partial(function, self._line(loop)), loop), [], []), loop))

    def _line(self, node: ast.AST) -> int:
        return cast(int, node.lineno) + self._notes.source.above  # type: ignore[attr-defined]

    def visit_If(self, node: ast.If) -> ast.If:
        """A branch."""
        parts = self.visit(node.test), self._block(node.body), self._block(node.orelse)
        return ast.copy_location(ast.If(*parts), node)

    def visit_While(self, node: ast.While) -> ast.While:
        """A loop, whose variables are brought into their types before each test."""
        heads, test = self._notes.heads.get(node, {}), self.visit(node.test)
        first: list[ast.expr] = [
            ast.NamedExpr(ast.Name(name, ast.Store()), self._variable(name, kind, node.test))
            for name, kind in heads.items()
        ]
        if self._machine.counts:
            first.append(self._call(self._machine.trip, node))
        if first:
            both = ast.Tuple([*first, test], ast.Load())
            test = _placed(ast.Subscript(both, ast.Constant(-1), ast.Load()), node.test)
        return ast.copy_location(ast.While(test, self._block(node.body), self._block(node.orelse)), node)

    def visit_For(self, node: ast.For) -> ast.For:
        """A loop over a range."""
        if not isinstance(node.iter, ast.Call) or self._value(node.iter.func) is not range:  # it never came here
            return ast.copy_location(ast.For(node.target, node.iter, node.body, self._block(node.orelse)), node)
        heads = dict(self._notes.heads.get(node, {}))  # none of a loop over nothing
        heads.pop(getattr(node.target, "id", ""), None)
        args = [self.visit(each) for each in node.iter.args]
        numbers = partial(self._machine.range, self._line(node))
        call = _placed(ast.Call(self._entry(numbers, node.iter), args, []), node.iter)
        body = [*self._assignments(heads, node.iter), *self._block(node.body)]
        orelse = [*self._assignments(heads, node.orelse[0]), *self._block(node.orelse)] if node.orelse else []
        return ast.copy_location(ast.For(self.visit(node.target), call, body, orelse), node)

    # -- expressions --------------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> Any:
        """A node; numpy's scalars from outside become numbers of the kernel."""
        value = self._value(node)
        known = type(value) is bool and any(_raw(self._value(each)) for each in ast.iter_child_nodes(node))
        if not known and not _raw(value):
            return super().visit(node)
        found = self._machine.fixed(value)
        if not any(each in self._notes.calls for each in ast.walk(node)):
            return self._entry(found, node)
        call = ast.Call(self._entry(lambda _: found, node), [super().visit(node)], [])  # for what it does
        return _placed(call, node)

    def _joined(self, node: ast.expr) -> ast.expr:
        kind = type_of(self._value(node))
        return self._settled(kind, self.generic_visit(node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """An element; of a tuple in the type that all have together, if the index is found by the kernel."""
        found, kind = cast(ast.Subscript, self.generic_visit(node)), type_of(self._value(node))
        if not isinstance(self._value(node.value), tuple) or not isinstance(self._value(node.slice), Number):
            return found
        picked = self._entry(partial(self._machine.picked, kind), node)
        return cast(ast.expr, _placed(ast.Call(picked, [found.value, found.slice], []), node))

    visit_BoolOp = visit_IfExp = visit_Compare = visit_UnaryOp = _joined  # noqa: N815

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call of what the compiler found there; of others Python's own, untouched."""
        function, kind = self._value(node.func), type_of(self._value(node))
        emitted = function in FUNCTIONS and not node.keywords
        if function in (None, *SHOWS) or not (emitted or node in self._notes.calls):
            return cast(ast.expr, self.generic_visit(node))
        if emitted:
            target: Any = partial(self._machine.invoke, node, function, kind)
        else:
            target = rewritten(self._notes.calls[node], self._machine)
        args, named = ([self.visit(each) for each in given] for given in (node.args, node.keywords))
        call = _placed(ast.Call(self._entry(target, node.func), args, named), node)
        return call if emitted else self._settled(kind, call)


def _placed(node: Any, like: ast.AST) -> Any:
    """A new node where another stands."""
    return ast.fix_missing_locations(ast.copy_location(node, like))
