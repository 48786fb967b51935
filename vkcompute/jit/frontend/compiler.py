"""The compiler of kernels: evaluates the syntax tree of a function once, with device values for its numbers.

Functions that a kernel calls are found in the table of intrinsics (intrinsics.py) or inlined. Files of jit/library/
fill that table.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute.errors import KernelError
from vkcompute.frontend.binding import bind
from vkcompute.frontend.control_flow import Build, Unset, nothing
from vkcompute.frontend.source import Source, assigned, changed, names_in, parameters_of, read, stores
from vkcompute.frontend.syntax import ITERABLES, LOOP_CALLS, SIGNS, named_in, returns
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Constant
from vkcompute.jit.frontend.context import Frame
from vkcompute.jit.frontend.expressions import Expressions
from vkcompute.jit.frontend.intrinsics import INTRINSICS
from vkcompute.jit.frontend.memory import indexed
from vkcompute.jit.frontend.values import Number, Row, Vector, describe


class Compiler(Expressions):
    """Compiles the expressions and statements of a kernel and of the functions that it calls."""

    def run(self, function: FunctionType, source: Source, args: dict[str, Any]) -> None:
        """Compiles the body of the kernel itself."""
        if source.code is not function.__code__:
            raise changed(function)

        def build() -> None:
            frame = Frame(function, source, {*args, *assigned(source.tree.body)}, scope=self.flow.scopes[-1])
            self.frames.append(frame)
            self._block(source.tree.body)

        self.rebuilt(partial(self.flow.program, args, build))

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Compiles the body of a Python function in the place of a call, and returns its value."""
        if not self.frames:
            return self.rebuilt(partial(self._expanded, function, args, named, node))
        return self._expanded(function, args, named, node)

    def _expanded(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        if any(frame.function is function for frame in self.frames):
            raise UnsupportedError(f"{function.__name__} calls itself; kernels have no recursion: write a loop")
        if function not in self.sources:
            try:
                self.sources[function] = read(function, self.frames[0].source.program if self.frames else None)
            except KernelError as error:  # without a source location, unless it is in the function's own text
                raise (error if "\n" in str(error) else UnsupportedError(str(error))) from None
        source = self.sources[function]
        if source.code not in (None, function.__code__):
            raise UnsupportedError(str(changed(function)))
        try:
            bound = bind(parameters_of(function), args, named)
        except TypeError as error:
            raise UnsupportedError(f"{function.__name__}: {error}") from None
        bound.apply_defaults()

        def build() -> None:
            frame = Frame(function, source, {*bound.arguments, *assigned(source.tree.body)}, node)
            frame.scope, frame.outer = self.flow.scopes[-1], self.nested.get(function)
            self.frames.append(frame)
            self._block(source.tree.body)
            self.frames.pop()

        return self.flow.call(function.__name__, bound.arguments, build)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        """Compiles statements in order, as far as control reaches."""
        scope = self.frames[-1].scope
        if scope.inlined and not scope.loops:
            statements = _with_else(statements)
        self.flow.block(statements, self.statement, self.here)

    def statement(self, node: ast.stmt) -> None:
        """Compiles a statement."""
        handler = _STATEMENTS.get(type(node))
        self.located(self.unsupported if handler is None else partial(handler, self), node)

    def _pass(self, node: ast.stmt) -> None:
        """Builds nothing."""

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or ...
            self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.store_to(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        """Assigns a value, converted to the type of the annotation."""
        if node.value is None:
            raise UnsupportedError("an annotation without a value has no effect; annotate where the value is assigned")
        kind = self.value(node.annotation) if isinstance(node.annotation, (ast.Name, ast.Attribute)) else None
        self.store_to(node.target, self.annotated(node, kind, self.value(node.value)))

    def annotated(self, node: ast.AnnAssign, kind: Any, value: Any) -> Any:
        """Converts a value to the type of its annotation; that of `Any` is its own."""
        if kind is Any:
            return value
        if not (isinstance(kind, type) or hasattr(kind, "element")) or kind not in INTRINSICS:
            rule = "a variable is annotated with a type of numbers or vectors, as vc.int32, or Any"
            raise UnsupportedError(f"{rule}; got {ast.unparse(node.annotation)}; leave it out")
        return self.call_intrinsic(kind, [value])

    def store_to(self, target: ast.expr, value: Any) -> None:
        """Assigns a value to a target."""
        self.located(partial(self._store_at, value), target)

    def _store_at(self, value: Any, target: ast.expr) -> None:
        match target:
            case ast.Name():
                self.flow.assign(target.id, value)
            case ast.Subscript():
                array = self._assignable(target)
                self.assign(array, self.value(target.slice), value)
            case ast.Tuple() | ast.List() if self.items(value) is not value:
                self._store_at(self.items(value), target)
            case ast.Tuple() | ast.List() if isinstance(value, tuple) and _one_each(target.elts, value):
                for each, part in zip(target.elts, value, strict=True):
                    self.store_to(each, part)
            case ast.Tuple() | ast.List() if any(isinstance(each, ast.Starred) for each in target.elts):
                self._store_starred(target.elts, value)
            case ast.Tuple() | ast.List():
                n = len(target.elts)
                raise UnsupportedError(f"{n} names take a tuple of {n}; got {describe(value)}")
            case _:
                raise UnsupportedError("a kernel assigns to variables and to elements of arrays; vectors are immutable")

    def _store_starred(self, targets: list[ast.expr], value: Any) -> None:
        """Assigns the items of a tuple to targets, one of which takes the rest as a tuple."""
        at, n = next(k for k, each in enumerate(targets) if isinstance(each, ast.Starred)), len(targets) - 1
        if not isinstance(value, tuple) or len(value) < n:
            raise UnsupportedError(f"these names take a tuple of at least {n}; got {describe(value)}")
        rest = at + len(value) - n
        parts = *value[:at], tuple(value[at:rest]), *value[rest:]
        for each, part in zip(targets, parts, strict=True):
            self.store_to(each.value if isinstance(each, ast.Starred) else each, part)

    def _assignable(self, target: ast.Subscript) -> Any:
        array = self.value(target.value)
        if isinstance(array, tuple):
            what = "vector" if isinstance(array, Vector) else "tuple"
            raise UnsupportedError(f"the elements of a {what} cannot be assigned; make another {what}")
        return array

    def _augmented(self, node: ast.AugAssign) -> None:
        sign, target = SIGNS[type(node.op)], node.target
        if isinstance(target, ast.Subscript):
            array = self._assignable(target)
            array, indices, is_row = indexed(array, self.value(target.slice))
            if is_row:
                self.assign(array, indices, self.binary(sign, Row(array, indices), self.value(node.value)))
                return
            offset = self.offset(array, indices)
            self.store(array, offset, self.binary(sign, self.load(array, offset), self.value(node.value)))
        else:
            self.store_to(target, self.accumulated(sign, self.value(target), self.value(node.value)))

    def _function(self, node: ast.FunctionDef) -> None:
        """Defines a nested function, which is compiled where it is called."""
        if node.decorator_list:
            raise UnsupportedError(f"{node.name} is decorated, and decorators are not compiled; remove the decorator")
        self.flow.assign(node.name, self.define(node, node))

    def _if(self, node: ast.If) -> None:
        sides = partial(self._block, node.body), partial(self._block, node.orelse)
        self._test(node.test, *sides, node)

    def _test(self, test: ast.expr, then: Build, otherwise: Build, node: ast.AST) -> None:
        """Builds an `if` on an expression; the names that `and` assigns have a value where it is true."""
        flow, names = self.flow, set(filter(self.flow.is_unset, named_in(test)))
        outer, flow.partial = flow.partial, names
        condition = self.value(test)
        flow.partial = outer

        def without_names(build: Build) -> None:
            for each in names:
                flow.env[each] = Unset(f"it is assigned in a part of {ast.unparse(test)!r} only")
            build()

        if names and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            otherwise = partial(without_names, otherwise)
        elif names:
            then = partial(without_names, then)
        flow.if_(condition, then, otherwise, self.here(node))

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else None
        if value is not None and not self.frames[-1].scope.inlined:
            raise UnsupportedError("a kernel returns nothing; store the value in an array")
        self.flow.return_(value)

    # -- loops --------------------------------------------------------------------------------------------------------

    def _while(self, node: ast.While) -> None:
        def build() -> None:
            self._test(node.test, nothing, partial(self._exit, node), node)
            if self.flow.alive:
                self._block(node.body)

        names = assigned([node.test, *node.body, *node.orelse])
        self.flow.loop(build, names, self.here(node), stores=partial(stores, node))

    def _for(self, node: ast.For) -> None:
        first, n_iterations, step = self.located(self._range, node.iter)
        if not isinstance(node.target, ast.Name):
            raise UnsupportedError("a for loop over a range has one variable")
        name, counter = node.target.id, f"counter of {node.lineno}:{node.col_offset}"
        if isinstance(n_iterations.value, Constant) and n_iterations.value.value == 0:
            self._block(node.orelse)  # the body is not compiled: the items of an empty tuple have no type
            return
        env = self.flow.env
        env[counter] = self.converted(0, n_iterations.kind.type)
        names = {name, *assigned([*node.body, *node.orelse])}
        runs = isinstance(n_iterations.value, Constant)
        late = self._used_outside(node, names) if runs else set()
        if name in late:
            env[name] = first
            late.remove(name)

        def build() -> None:
            flow, iteration = self.flow, self.flow.env[counter]
            flow.if_(self.compare("<", iteration, n_iterations), nothing, partial(self._exit, node), self.here(node))
            for each in late:
                flow.env.pop(each, None)  # before it is assigned
            flow.env[name] = self.binary("+", first, self.binary("*", self.converted(iteration, first.kind.type), step))
            flow.env[counter] = self.binary("+", iteration, 1)
            self._block(node.body)

        self.flow.loop(build, {counter, *names}, self.here(node), late, partial(stores, node))
        self.flow.env.pop(counter, None)

    def _used_outside(self, loop: ast.For, names: set[str]) -> set[str]:
        """Returns those names without a value before a loop that are used outside of it."""
        unset = set(filter(self.flow.is_unset, names))
        outside = names_in(self.frames[-1].source.tree) - names_in(loop) if unset else ()
        return unset & {each.id for each in outside}

    def _range(self, node: ast.expr) -> tuple[Number, Number, Number]:
        """Evaluates the range of a for loop: start, number of iterations and step."""
        function = self.value(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or function is not range:
            raise UnsupportedError(LOOP_CALLS.get(function, ITERABLES) if isinstance(function, type) else ITERABLES)
        if node.keywords:
            raise UnsupportedError("range takes 1 to 3 integers by position")
        return self.counted([self.value(each) for each in node.args])

    def _exit(self, node: ast.For | ast.While) -> None:
        """Leaves a loop at its end, through its else."""
        self._block(node.orelse)
        if self.flow.alive:
            self.flow.break_()

    def _break(self, node: ast.Break) -> None:
        self.flow.break_()

    def _continue(self, node: ast.Continue) -> None:
        self.flow.continue_()


def _with_else(statements: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Makes what follows `if …: return` its else, so that the condition is tested once."""
    for n, each in enumerate(statements):
        if isinstance(each, ast.If) and not each.orelse and returns(each.body):
            whole = ast.If(each.test, each.body, list(statements[n + 1 :]))
            return [*statements[:n], ast.copy_location(whole, each)]
    return statements


def _one_each(targets: list[ast.expr], values: tuple[Any, ...]) -> bool:
    return len(targets) == len(values) and not any(isinstance(each, ast.Starred) for each in targets)


_STATEMENTS: dict[type[ast.AST], Callable[[Compiler, Any], None]] = {
    ast.Expr: Compiler._expression,
    ast.Assign: Compiler._assign,
    ast.AnnAssign: Compiler._annotated,
    ast.AugAssign: Compiler._augmented,
    ast.FunctionDef: Compiler._function,
    ast.If: Compiler._if,
    ast.While: Compiler._while,
    ast.For: Compiler._for,
    ast.Break: Compiler._break,
    ast.Continue: Compiler._continue,
    ast.Return: Compiler._return,
    ast.Pass: Compiler._pass,
}
