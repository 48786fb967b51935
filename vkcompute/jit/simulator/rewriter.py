"""Rewrites a kernel for the simulation: calls, joins and constants go through the simulator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import CellType, CodeType, FunctionType
from typing import Any, cast

import numpy as np

from vkcompute.jit.frontend.intrinsics import INTRINSICS, Intrinsic
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
    for nested in _within(code):
        if nested.co_name in rewriter.variants:
            inner = rewriter.variants[nested.co_name]
            machine.stack.add(nested, inner.function, inner.source)
    defaults = tuple(map(machine.constant, function.__defaults__ or ()))
    if function.__name__ in code.co_freevars:  # a global of this name, which is the function inside of `outer`
        cells[function.__name__] = CellType(function.__globals__.get(function.__name__))
    closure = tuple([cells[name] for name in code.co_freevars])
    result = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    result.__kwdefaults__ = {name: machine.constant(value) for name, value in (function.__kwdefaults__ or {}).items()}
    return result


def _inner(code: CodeType) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType))


def _within(code: CodeType) -> Iterator[CodeType]:
    """All code objects in a code object."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _within(const)


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
        copied = type(node)(**vars(node))
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(copied, name, self.visit(value))
            elif isinstance(value, list):
                setattr(copied, name, [self.visit(part) if isinstance(part, ast.AST) else part for part in value])
        return copied

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Removes the annotation of a parameter."""
        return ast.copy_location(ast.arg(node.arg), node)

    def _value(self, node: ast.AST) -> Any:
        """Returns the compiler's value of an expression; None also for code that it did not reach."""
        return self._notes.values.get(node)

    def _entry(self, value: Any, like: ast.AST) -> ast.expr:
        """Returns an expression for an object."""
        self.table.append(value)
        entry = ast.Subscript(ast.Name(_TABLE, ast.Load()), ast.Constant(len(self.table) - 1), ast.Load())
        return cast(ast.expr, _placed(entry, like))

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
        block: list[ast.stmt] = []
        for statement, following in zip(statements, [*statements[1:], None], strict=False):
            types = self._notes.joined.get(statement, {})
            if isinstance(statement, ast.While) and self._machine.counts:
                block.append(_placed(ast.Expr(self._call(self._machine.begin_loop, statement)), statement))
            visited = self.visit(statement)
            block += visited if isinstance(visited, list) else [visited]
            block += self._assignments(types, following or statement)
        return block

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """Rewrites an assignment; the rest of a sequence is a tuple."""
        targets = [star for target in node.targets for star in ast.walk(target) if isinstance(star, ast.Starred)]
        rest = [star.value.id for star in targets if isinstance(star.value, ast.Name)]
        calls = [ast.Call(self._entry(tuple, node), [ast.Name(name, ast.Load())], []) for name in rest]
        stored = [ast.Assign([ast.Name(n, ast.Store())], call) for n, call in zip(rest, calls, strict=True)]
        return [self.generic_visit(node), *[_placed(statement, node) for statement in stored]]

    def _call(self, function: Callable[[int], object], loop: ast.AST) -> ast.expr:
        """Returns a call with the line of a loop."""
        return cast(ast.expr, _placed(ast.Call(self._entry(partial(function, self._line(loop)), loop), [], []), loop))

    def _line(self, node: ast.AST) -> int:
        return cast(int, node.lineno) + self._notes.source.above  # type: ignore[attr-defined]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt]:
        """Rewrites a nested function as a tuple of functions, one for each call."""
        defaults, values = self._defaults(node)
        statements: list[ast.stmt] = [_placed(ast.Assign([ast.Name(defaults, ast.Store())], values), node)]
        names: list[ast.expr] = []
        for inner in self._notes.nested.get(node, ()):
            variant = Rewriter(inner, self._machine, self).function()
            variant.name = f"{node.name} {len(self.variants)}"
            self.variants[variant.name] = inner
            _with_defaults(variant.args, node.args, defaults)
            statements.append(variant)
            names.append(ast.Name(variant.name, ast.Load()))
        whole = ast.Assign([ast.Name(node.name, ast.Store())], ast.Tuple(names, ast.Load()))
        return [*statements, _placed(whole, node)]

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        """Rewrites a lambda, likewise."""
        defaults, values = self._defaults(node)
        lambdas: list[ast.expr] = []
        for inner in self._notes.nested.get(node, ()):
            variant = Rewriter(inner, self._machine, self).function()
            _with_defaults(variant.args, node.args, defaults)
            lambdas.append(ast.Lambda(variant.args, cast(ast.Return, variant.body[0]).value or node.body))
        only = ast.arguments([], [ast.arg(defaults)], None, [], [], None, [])
        whole = ast.Call(ast.Lambda(only, ast.Tuple(lambdas, ast.Load())), [values], [])
        return cast(ast.expr, _placed(whole, node))

    def _defaults(self, node: ast.FunctionDef | ast.Lambda) -> tuple[str, ast.Tuple]:
        """Returns a name for the defaults of a nested function, which are evaluated once, and their values."""
        args = node.args
        values = [self.visit(default) for default in (*args.defaults, *args.kw_defaults) if default is not None]
        return f"defaults of {node.lineno}:{node.col_offset}", ast.Tuple(values, ast.Load())

    def visit_Return(self, node: ast.Return) -> list[ast.stmt] | ast.Return:
        """Rewrites a return; barriers no longer wait for an invocation that returns from the kernel."""
        copied = cast(ast.Return, self.generic_visit(node))
        if self._notes is not self._machine.notes:
            return copied
        call = ast.Call(self._entry(self._machine.end_invocation, node), [], [])
        return [_placed(ast.Expr(call), node), copied]

    def visit_If(self, node: ast.If) -> ast.If:
        """Rewrites a branch."""
        parts = self.visit(node.test), self._block(node.body), self._block(node.orelse)
        return ast.copy_location(ast.If(*parts), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AugAssign:
        """Rewrites an augmented assignment; the operand of a Python int is converted."""
        assignment = cast(ast.AugAssign, self.generic_visit(node))
        assignment.value = self._as_type(type_of(self._value(node)), assignment.value)
        return assignment

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        """Rewrites an annotated assignment, whose annotation converts the value."""
        kind, value = self._value(node), self.visit(node.value) if node.value is not None else ast.Constant(None)

        def converted(given: Any) -> Any:
            result = self._machine.invoke(node, kind, None, given)
            return self._machine.constant(result) if isinstance(result, np.generic) else result

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

    def visit_For(self, node: ast.For) -> ast.For | list[ast.stmt]:
        """Rewrites a loop over a range."""
        if node in self._notes.unrolled:
            return self._unrolled(node)
        if not isinstance(node.iter, ast.Call) or self._value(node.iter.func) is not range:  # not compiled
            return ast.copy_location(ast.For(node.target, node.iter, node.body, self._block(node.orelse)), node)
        heads = dict(self._notes.heads.get(node, {}))  # an empty loop has none
        heads.pop(getattr(node.target, "id", ""), None)
        args = [self.visit(arg) for arg in node.iter.args]
        numbers = partial(self._machine.range, self._line(node))
        call = _placed(ast.Call(self._entry(numbers, node.iter), args, []), node.iter)
        late = self._notes.late.get(node, ())
        known = {name: kind for name, kind in heads.items() if name not in late}
        body = [*self._assignments(known, node.iter), *self._block(node.body)]
        orelse = [*self._assignments(heads, node.orelse[0]), *self._block(node.orelse)] if node.orelse else []
        return ast.copy_location(ast.For(self.visit(node.target), call, body, orelse), node)

    def _unrolled(self, node: ast.For) -> list[ast.stmt]:
        """Returns the bodies of a loop that is unrolled, one after the other."""
        block: list[ast.stmt] = []
        for index, body in enumerate(self._notes.unrolled[node]):
            block.append(_placed(ast.Assign([self.visit(node.target)], ast.Constant(index)), node))
            block += self._block(body)
        return [*block, *self._block(node.orelse)]

    # -- expressions --------------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> Any:
        """Rewrites a node; numpy's scalars and arrays from outside become simulated ones."""
        value = self._value(node)
        if isinstance(value, ArrayValue) and value.constant:
            return self._entry(self._machine.constant_table(value), node)
        known = type(value) is bool and any(_has_numpy_scalar(self._value(part)) for part in ast.iter_child_nodes(node))
        if not known and not _has_numpy_scalar(value):
            return super().visit(node)
        constant = self._machine.constant(value)
        if not any(part in self._notes.calls or isinstance(part, ast.NamedExpr) for part in ast.walk(node)):
            return self._entry(constant, node)
        call = ast.Call(self._entry(lambda _: constant, node), [super().visit(node)], [])  # for its side effects
        return _placed(call, node)

    def _joined(self, node: ast.expr) -> ast.expr:
        result = self._as_type(type_of(self._value(node)), self.generic_visit(node))
        names = self._notes.joined.get(node)
        if not names:
            return result
        stored = [
            ast.NamedExpr(ast.Name(name, ast.Store()), self._variable(name, k, node)) for name, k in names.items()
        ]
        both = ast.Subscript(ast.Tuple([result, *stored], ast.Load()), ast.Constant(0), ast.Load())
        return cast(ast.expr, _placed(both, node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Rewrites a subscript; a device index into a tuple returns the common type of its elements."""
        subscript, kind = cast(ast.Subscript, self.generic_visit(node)), type_of(self._value(node))
        if not isinstance(self._value(node.value), tuple) or not isinstance(self._value(node.slice), Number):
            return subscript
        picked = self._entry(partial(self._machine.picked, kind), node)
        return cast(ast.expr, _placed(ast.Call(picked, [subscript.value, subscript.slice], []), node))

    def visit_List(self, node: ast.List) -> ast.expr:
        """Rewrites a list; a target of an assignment is left as it is."""
        return self._created(node) if isinstance(self._value(node), ArrayValue) else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Rewrites an operation; `[…] * n` is a list."""
        return self._created(node) if isinstance(self._value(node), ArrayValue) else self.generic_visit(node)

    def _created(self, node: ast.expr) -> ast.expr:
        """Returns a call that makes a private array."""
        items = [self.visit(expr) for expr in self._items(node)] or [ast.Constant(0)]
        call = ast.Call(self._entry(partial(self._machine.created, self._value(node)), node), items, [])
        return cast(ast.expr, _placed(call, node))

    def _items(self, node: ast.expr) -> list[ast.expr]:
        """Returns the expressions of a list's items in row-major order, without repetitions of the whole."""
        items: list[ast.expr] = []
        [whole, _] = display(node) or (ast.List([]), None)
        for elt in whole.elts:
            row = display(elt)
            times = 1 if row is None or row[1] is None else self._value(row[1])
            items += [elt] if row is None else self._items(elt) * times
        return items

    visit_BoolOp = visit_IfExp = visit_Compare = visit_UnaryOp = _joined  # noqa: N815

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Rewrites a call of an intrinsic or of an inlined function; others are left to Python."""
        function, kind = self._value(node.func), type_of(self._value(node))
        if function is local:
            return self._created(node)
        emitted = function in INTRINSICS and not (node.keywords and INTRINSICS[function].keywords)
        is_method = isinstance(function, Intrinsic)  # of a simulated array
        if is_method or function in (None, *DEBUGGING) or not (emitted or node in self._notes.calls):
            return cast(ast.expr, self.generic_visit(node))
        inner = self._notes.calls.get(node)
        if inner is not None and inner.index is not None:
            indexed = cast(ast.Call, self.generic_visit(node))
            indexed.func = _placed(ast.Subscript(indexed.func, ast.Constant(inner.index), ast.Load()), node)
            return self._as_type(kind, indexed)
        if emitted:
            target: Any = partial(self._machine.invoke, node, function, kind)
        else:
            target = rewritten(self._notes.calls[node], self._machine)
        args, named = ([self.visit(argument) for argument in given] for given in (node.args, node.keywords))
        call = _placed(ast.Call(self._entry(target, node.func), args, named), node)
        return call if emitted else self._as_type(kind, call)


def _with_defaults(args: ast.arguments, like: ast.arguments, name: str) -> None:
    """Gives parameters the defaults of others, which are in a tuple with this name."""
    indices = count()

    def item() -> ast.expr:
        return ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(next(indices)), ast.Load())

    args.defaults = [item() for _ in like.defaults]
    args.kw_defaults = [None if default is None else item() for default in like.kw_defaults]


def _placed(node: Any, like: ast.AST) -> Any:
    """Gives a new node, and those below it without a location, the location of another."""
    ast.copy_location(node, like)
    for child in ast.iter_child_nodes(node):
        if "lineno" in child._attributes and not hasattr(child, "lineno"):
            _placed(child, like)
    return node
