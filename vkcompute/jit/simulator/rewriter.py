"""Rewrites a kernel for the simulation: calls, joins and constants go through the simulator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import CellType, CodeType, FunctionType
from typing import Any, cast

import numpy as np

from vkcompute.jit.frontend.intrinsics import INTRINSICS
from vkcompute.jit.frontend.values import ArrayValue, Number, is_static
from vkcompute.jit.library.private import display, local
from vkcompute.jit.simulator.machine import Machine
from vkcompute.jit.simulator.recorder import DEBUGGING, Notes, type_of

_TABLE = "<simulator>"  # a name that no program can have


def rewritten(notes: Notes, machine: Machine) -> FunctionType:
    """Returns the rewritten function of these notes, with the file and lines of its source."""
    function, source = notes.function, notes.source
    rewriter = Rewriter(notes, machine)
    tree = rewriter.function()
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_TABLE] = CellType(rewriter.table)
    outer = ast.FunctionDef(_TABLE, _parameters([ast.arg(name) for name in cells]), [tree], [])
    module = ast.increment_lineno(ast.fix_missing_locations(ast.Module([outer], [])), source.above)
    code = _inner(_inner(compile(module, source.file, "exec", dont_inherit=True)))
    machine.stack.add(code, function, source)
    for each in _within(code):
        if each.co_name in rewriter.variants:
            inner = rewriter.variants[each.co_name]
            machine.stack.add(each, inner.function, inner.source)
    defaults = tuple(map(machine.constant, function.__defaults__ or ()))
    if function.__name__ in code.co_freevars:  # a global of this name, which is the function inside of `outer`
        cells[function.__name__] = CellType(function.__globals__.get(function.__name__))
    closure = tuple([cells[name] for name in code.co_freevars])
    found = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    found.__kwdefaults__ = {name: machine.constant(each) for name, each in (function.__kwdefaults__ or {}).items()}
    return found


def _inner(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _within(code: CodeType) -> Iterator[CodeType]:
    """All code objects in a code object."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _within(each)


def _parameters(args: list[ast.arg]) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[])


def _has_numpy_scalar(value: Any) -> bool:
    """True if a constant contains numpy's scalars, whose arithmetic differs from a kernel's."""
    if isinstance(value, tuple):
        return is_static(value) and any(map(_has_numpy_scalar, value))
    return isinstance(value, np.generic)


class Rewriter(ast.NodeVisitor):
    """Rewrites one function; each visit returns a new node.

    Attributes:
        table: the objects to which the rewritten function refers, by index.
        variants: the nested functions by name, one for each call.
    """

    def __init__(self, notes: Notes, machine: Machine, outer: Rewriter | None = None) -> None:
        self._notes, self._machine = notes, machine
        self.table: list[Any] = [] if outer is None else outer.table
        self.variants: dict[str, Notes] = {} if outer is None else outer.variants

    def function(self) -> ast.FunctionDef:
        """Returns the rewritten definition."""
        tree = self._notes.source.tree
        args = cast(ast.arguments, self.generic_visit(tree.args))
        args.defaults, args.kw_defaults = [], [None] * len(args.kwonlyargs)
        return cast(ast.FunctionDef, _placed(ast.FunctionDef(tree.name, args, self._block(tree.body), []), tree))

    def generic_visit(self, node: ast.AST) -> Any:
        """Copies a node, with its fields rewritten."""
        found = type(node)(**vars(node))
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(found, name, self.visit(value))
            elif isinstance(value, list):
                setattr(found, name, [self.visit(each) if isinstance(each, ast.AST) else each for each in value])
        return found

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Removes the annotation of a parameter."""
        return ast.copy_location(ast.arg(node.arg), node)

    def _value(self, node: ast.AST) -> Any:
        """Returns the compiler's value of an expression; None also for code that it did not reach."""
        return self._notes.values.get(node)

    def _entry(self, value: Any, like: ast.AST) -> ast.expr:
        """Returns an expression for an object."""
        self.table.append(value)
        found = ast.Subscript(ast.Name(_TABLE, ast.Load()), ast.Constant(len(self.table) - 1), ast.Load())
        return cast(ast.expr, _placed(found, like))

    def _as_type(self, kind: Any, node: ast.expr) -> ast.expr:
        """Converts an expression to a type."""
        if kind is None:
            return node
        call = ast.Call(self._entry(partial(self._machine.as_type, kind), node), [node], [])
        return cast(ast.expr, _placed(call, node))

    def _assignments(self, types: dict[str, Any], like: ast.AST) -> list[ast.stmt]:
        """Returns statements that convert variables to their types."""
        return [
            _placed(ast.Assign([ast.Name(name, ast.Store())], self._variable(name, kind, like)), like)
            for name, kind in types.items()
        ]

    def _variable(self, name: str, kind: Any, like: ast.AST) -> ast.expr:
        return self._as_type(kind, _placed(ast.Name(name, ast.Load()), like))

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrites statements. After a branch or loop, variables are converted, at the line of the next statement."""
        found: list[ast.stmt] = []
        for each, following in zip(statements, [*statements[1:], None], strict=False):
            types = self._notes.joined.get(each, {})
            if isinstance(each, ast.While) and self._machine.counts:
                found.append(_placed(ast.Expr(self._call(self._machine.begin_loop, each)), each))
            visited = self.visit(each)
            found += visited if isinstance(visited, list) else [visited]
            found += self._assignments(types, following or each)
        return found

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """Rewrites an assignment; the rest of a sequence is a tuple."""
        targets = [each for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Starred)]
        rest = [each.value.id for each in targets if isinstance(each.value, ast.Name)]
        calls = [ast.Call(self._entry(tuple, node), [ast.Name(name, ast.Load())], []) for name in rest]
        stored = [ast.Assign([ast.Name(n, ast.Store())], call) for n, call in zip(rest, calls, strict=True)]
        return [self.generic_visit(node), *[_placed(each, node) for each in stored]]

    def _call(self, function: Callable[[int], object], loop: ast.AST) -> ast.expr:
        """Returns a call with the line of a loop."""
        return cast(ast.expr, _placed(ast.Call(self._entry(partial(function, self._line(loop)), loop), [], []), loop))

    def _line(self, node: ast.AST) -> int:
        return cast(int, node.lineno) + self._notes.source.above  # type: ignore[attr-defined]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt]:
        """Rewrites a nested function as a tuple of functions, one for each call."""
        defaults, values = self._defaults(node)
        found: list[ast.stmt] = [_placed(ast.Assign([ast.Name(defaults, ast.Store())], values), node)]
        names: list[ast.expr] = []
        for inner in self._notes.nested.get(node, ()):
            variant = Rewriter(inner, self._machine, self).function()
            variant.name = f"{node.name} {len(self.variants)}"
            self.variants[variant.name] = inner
            _with_defaults(variant.args, node.args, defaults)
            found.append(variant)
            names.append(ast.Name(variant.name, ast.Load()))
        whole = ast.Assign([ast.Name(node.name, ast.Store())], ast.Tuple(names, ast.Load()))
        return [*found, _placed(whole, node)]

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        """Rewrites a lambda, likewise."""
        defaults, values = self._defaults(node)
        found: list[ast.expr] = []
        for inner in self._notes.nested.get(node, ()):
            variant = Rewriter(inner, self._machine, self).function()
            _with_defaults(variant.args, node.args, defaults)
            found.append(ast.Lambda(variant.args, cast(ast.Return, variant.body[0]).value or node.body))
        only = ast.arguments([], [ast.arg(defaults)], None, [], [], None, [])
        whole = ast.Call(ast.Lambda(only, ast.Tuple(found, ast.Load())), [values], [])
        return cast(ast.expr, _placed(whole, node))

    def _defaults(self, node: ast.FunctionDef | ast.Lambda) -> tuple[str, ast.Tuple]:
        """Returns a name for the defaults of a nested function, which are evaluated once, and their values."""
        args = node.args
        values = [self.visit(each) for each in (*args.defaults, *args.kw_defaults) if each is not None]
        return f"defaults of {node.lineno}:{node.col_offset}", ast.Tuple(values, ast.Load())

    def visit_If(self, node: ast.If) -> ast.If:
        """Rewrites a branch."""
        parts = self.visit(node.test), self._block(node.body), self._block(node.orelse)
        return ast.copy_location(ast.If(*parts), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AugAssign:
        """Rewrites an augmented assignment; the operand of a Python int is converted."""
        found = cast(ast.AugAssign, self.generic_visit(node))
        found.value = self._as_type(type_of(self._value(node)), found.value)
        return found

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        """Rewrites an annotated assignment, whose annotation converts the value."""
        kind, value = self._value(node), self.visit(node.value) if node.value is not None else ast.Constant(None)

        def converted(given: Any) -> Any:
            found = self._machine.invoke(node, kind, None, given)
            return self._machine.constant(found) if isinstance(found, np.generic) else found

        call = value if kind in (None, Any) else ast.Call(self._entry(converted, node), [value], [])
        return cast(ast.Assign, _placed(ast.Assign([self.visit(node.target)], call), node))

    def visit_While(self, node: ast.While) -> ast.While:
        """Rewrites a loop; its variables are converted before each test."""
        heads, test = self._notes.heads.get(node, {}), self.visit(node.test)
        first: list[ast.expr] = [
            ast.NamedExpr(ast.Name(name, ast.Store()), self._variable(name, kind, node.test))
            for name, kind in heads.items()
        ]
        if self._machine.counts:
            first.append(self._call(self._machine.begin_iteration, node))
        if first:
            both = ast.Tuple([*first, test], ast.Load())
            test = _placed(ast.Subscript(both, ast.Constant(-1), ast.Load()), node.test)
        return ast.copy_location(ast.While(test, self._block(node.body), self._block(node.orelse)), node)

    def visit_For(self, node: ast.For) -> ast.For:
        """Rewrites a loop over a range."""
        if not isinstance(node.iter, ast.Call) or self._value(node.iter.func) is not range:  # not compiled
            return ast.copy_location(ast.For(node.target, node.iter, node.body, self._block(node.orelse)), node)
        heads = dict(self._notes.heads.get(node, {}))  # an empty loop has none
        heads.pop(getattr(node.target, "id", ""), None)
        args = [self.visit(each) for each in node.iter.args]
        numbers = partial(self._machine.range, self._line(node))
        call = _placed(ast.Call(self._entry(numbers, node.iter), args, []), node.iter)
        late = self._notes.late.get(node, ())
        known = {name: kind for name, kind in heads.items() if name not in late}
        body = [*self._assignments(known, node.iter), *self._block(node.body)]
        orelse = [*self._assignments(heads, node.orelse[0]), *self._block(node.orelse)] if node.orelse else []
        return ast.copy_location(ast.For(self.visit(node.target), call, body, orelse), node)

    # -- expressions --------------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> Any:
        """Rewrites a node; numpy's scalars and arrays from outside become simulated ones."""
        value = self._value(node)
        if isinstance(value, ArrayValue) and value.constant:
            return self._entry(self._machine.constant_table(value), node)
        known = type(value) is bool and any(_has_numpy_scalar(self._value(each)) for each in ast.iter_child_nodes(node))
        if not known and not _has_numpy_scalar(value):
            return super().visit(node)
        found = self._machine.constant(value)
        if not any(each in self._notes.calls or isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
            return self._entry(found, node)
        call = ast.Call(self._entry(lambda _: found, node), [super().visit(node)], [])  # for its side effects
        return _placed(call, node)

    def _joined(self, node: ast.expr) -> ast.expr:
        found = self._as_type(type_of(self._value(node)), self.generic_visit(node))
        names = self._notes.joined.get(node)
        if not names:
            return found
        stored = [
            ast.NamedExpr(ast.Name(name, ast.Store()), self._variable(name, k, node)) for name, k in names.items()
        ]
        both = ast.Subscript(ast.Tuple([found, *stored], ast.Load()), ast.Constant(0), ast.Load())
        return cast(ast.expr, _placed(both, node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Rewrites a subscript; a device index into a tuple returns the common type of its elements."""
        found, kind = cast(ast.Subscript, self.generic_visit(node)), type_of(self._value(node))
        if not isinstance(self._value(node.value), tuple) or not isinstance(self._value(node.slice), Number):
            return found
        picked = self._entry(partial(self._machine.selected, kind), node)
        return cast(ast.expr, _placed(ast.Call(picked, [found.value, found.slice], []), node))

    def visit_List(self, node: ast.List) -> ast.expr:
        """Rewrites a list; a target of an assignment is left as it is."""
        return self._created(node) if isinstance(self._value(node), ArrayValue) else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Rewrites an operation; `[…] * n` is a list."""
        return self._created(node) if isinstance(self._value(node), ArrayValue) else self.generic_visit(node)

    def _created(self, node: ast.expr) -> ast.expr:
        """Returns a call that makes a private array."""
        items = [self.visit(each) for each in self._items(node)] or [ast.Constant(0)]
        call = ast.Call(self._entry(partial(self._machine.created, self._value(node)), node), items, [])
        return cast(ast.expr, _placed(call, node))

    def _items(self, node: ast.expr) -> list[ast.expr]:
        """Returns the expressions of a list's items in row-major order, without repetitions of the whole."""
        found: list[ast.expr] = []
        [whole, _] = display(node) or (ast.List([]), None)
        for each in whole.elts:
            row = display(each)
            times = 1 if row is None or row[1] is None else self._value(row[1])
            found += [each] if row is None else self._items(each) * times
        return found

    visit_BoolOp = visit_IfExp = visit_Compare = visit_UnaryOp = _joined  # noqa: N815

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Rewrites a call of an intrinsic or of an inlined function; others are left to Python."""
        function, kind = self._value(node.func), type_of(self._value(node))
        if function is local:
            return self._created(node)
        emitted = function in INTRINSICS and not node.keywords
        if function in (None, *DEBUGGING) or not (emitted or node in self._notes.calls):
            return cast(ast.expr, self.generic_visit(node))
        inner = self._notes.calls.get(node)
        if inner is not None and inner.index is not None:
            found = cast(ast.Call, self.generic_visit(node))
            found.func = _placed(ast.Subscript(found.func, ast.Constant(inner.index), ast.Load()), node)
            return self._as_type(kind, found)
        if emitted:
            target: Any = partial(self._machine.invoke, node, function, kind)
        else:
            target = rewritten(self._notes.calls[node], self._machine)
        args, named = ([self.visit(each) for each in given] for given in (node.args, node.keywords))
        call = _placed(ast.Call(self._entry(target, node.func), args, named), node)
        return call if emitted else self._as_type(kind, call)


def _with_defaults(args: ast.arguments, like: ast.arguments, name: str) -> None:
    """Gives parameters the defaults of others, which are in a tuple with this name."""
    places = count()

    def item() -> ast.expr:
        return ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(next(places)), ast.Load())

    args.defaults = [item() for _ in like.defaults]
    args.kw_defaults = [None if each is None else item() for each in like.kw_defaults]


def _placed(node: Any, like: ast.AST) -> Any:
    """Gives a new node, and those below it without a location, the location of another."""
    ast.copy_location(node, like)
    for each in ast.iter_child_nodes(node):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            _placed(each, like)
    return node
