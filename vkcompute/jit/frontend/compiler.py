"""The compiler of kernels: evaluates the syntax tree of a function once, with device values for its numbers.

Functions that a kernel calls are found in the table of intrinsics (intrinsics.py) or inlined. Files of jit/library/
fill that table, and add syntax of their own to `EXPRESSIONS`.
"""

from __future__ import annotations

import ast
import builtins
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from vkcompute.errors import KernelError
from vkcompute.ir import BOOL, SCALARS, Constant, Value
from vkcompute.jit.frontend.captured import Table, suggestion
from vkcompute.jit.frontend.context import Frame
from vkcompute.jit.frontend.control import RESULT, RETURNED, Build, ControlFlow, LoopEdges
from vkcompute.jit.frontend.desugaring import BUILTIN, CheckedBuiltin
from vkcompute.jit.frontend.intrinsics import INTRINSICS, Intrinsic, accepted, folded, remedy_for
from vkcompute.jit.frontend.memory import indexed
from vkcompute.jit.frontend.source import (
    Definition,
    Source,
    UnsupportedError,
    assigned,
    changed,
    function_def,
    nested_function,
    parameters_of,
    read,
)
from vkcompute.jit.frontend.syntax import ITERABLES, LOOP_CALLS, SIGNS, UNSUPPORTED, is_cheap, named_in, returns
from vkcompute.jit.frontend.values import (
    PLAIN,
    ArrayValue,
    Kind,
    Number,
    Row,
    Unset,
    Vector,
    describe,
    is_named,
    is_python,
    sliced,
    swizzled,
)

_RESULT = "value of the expression"  # a variable with a name that no program can have


class Compiler(ControlFlow):
    """Compiles the expressions and statements of a kernel and of the functions that it calls."""

    def run(self, function: FunctionType, source: Source, args: dict[str, Any]) -> None:
        """Compiles the body of the kernel itself."""
        if source.code is not function.__code__:
            raise changed(function)

        def build() -> None:
            self.frames.append(Frame(function, source, {*args, *assigned(source.tree.body)}))
            self.env = dict(args)
            self._block(source.tree.body)

        self.rebuilt(build)

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
            bound = parameters_of(function).bind(*args, **named)
        except TypeError as error:
            raise UnsupportedError(f"{function.__name__}: {error}") from None
        bound.apply_defaults()
        outer = self.env
        if self.frames:
            self.frames[-1].env = outer
        frame = Frame(function, source, {*bound.arguments, *assigned(source.tree.body)}, node)
        frame.outer = self.nested.get(function)
        self.frames.append(frame)
        self.env = {**bound.arguments, RETURNED: False}
        self._block(source.tree.body)
        self.frames.pop()
        inner, self.env = self.env, outer
        frame.env = inner
        result = inner.get(RESULT)
        if result is not None and inner[RETURNED] is not True:
            raise UnsupportedError(f"{function.__name__} returns a value on some paths only; end it with a return")
        return result

    def value(self, node: ast.expr) -> Any:
        """Evaluates an expression.

        Raises:
            KernelError: kernels do not support it.
        """
        return self.located(partial(EXPRESSIONS.get(type(node), Compiler._unsupported), self), node)

    def _unsupported(self, node: ast.AST) -> Any:
        kind = type(node)
        is_expression = isinstance(node, ast.expr)
        what = UNSUPPORTED.get(kind, f"{kind.__name__}; see vc.kernel for what is" if is_expression else kind.__name__)
        raise UnsupportedError(f"not supported in kernels: {what}")

    # -- operators ----------------------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, (complex, bytes)) or node.value is Ellipsis:
            raise UnsupportedError(f"not supported in kernels: {node.value!r}; numbers are bools, ints and floats")
        return node.value

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple([item for each in node.elts for item in self.unpacked(each)])

    def unpacked(self, node: ast.expr) -> tuple[Any, ...]:
        """Evaluates an item of a tuple, a list or a call, which is several if it is `*values`."""
        if not isinstance(node, ast.Starred):
            return (self.value(node),)
        values = self.items(self.value(node.value))
        if not isinstance(values, tuple):
            self.located(partial(self._refused, f"* takes a tuple, a vector or a list; got {describe(values)}"), node)
        return tuple(values)

    def _refused(self, why: str, _: ast.AST) -> Any:
        raise UnsupportedError(why)

    def _named(self, node: ast.NamedExpr) -> Any:
        value = self.value(node.value)
        self._store(node.target, value)
        return value

    def _binary(self, node: ast.BinOp) -> Any:
        return self.binary(SIGNS[type(node.op)], self.value(node.left), self.value(node.right))

    def _unary(self, node: ast.UnaryOp) -> Any:
        return self.unary(SIGNS[type(node.op)], self.value(node.operand))

    def _compare(self, node: ast.Compare) -> Any:
        def chain(left: Any, at: int) -> Any:
            right = self.value(node.comparators[at])
            first = self.compare(SIGNS[type(node.ops[at])], left, right)
            rest = node.comparators[at + 1 :]
            return self._connect(True, first, lambda: chain(right, at + 1), is_cheap(*rest), node) if rest else first

        return chain(self.value(node.left), 0)

    def _bool_op(self, node: ast.BoolOp) -> Any:
        is_and, last = isinstance(node.op, ast.And), len(node.values) - 1
        costly = max((at for at, each in enumerate(node.values) if not is_cheap(each)), default=0)

        def chain(at: int) -> Any:
            first = self.value(node.values[at])
            return self._connect(is_and, first, lambda: chain(at + 1), at >= costly, node) if at < last else first

        return chain(0)

    def _connect(self, is_and: bool, first: Any, second: Callable[[], Any], cheap: bool, node: ast.AST) -> Any:
        """Builds `first and second()` or `first or second()`; a second one that is not cheap is in a branch."""
        truth = self.truth(first)
        if isinstance(truth, bool):
            return second() if truth == is_and else first
        if not cheap:
            sides = (second, lambda: first) if is_and else (lambda: first, second)
            return self._choose(truth, *sides, node)
        other = second()
        if self.kind(first) == self.kind(other) == Kind(BOOL):
            return self.binary("&" if is_and else "|", first, other)
        return self.where(first, *((other, first) if is_and else (first, other)))

    def _if_exp(self, node: ast.IfExp) -> Any:
        truth = self.truth(self.value(node.test))
        if isinstance(truth, bool):
            return self.value(node.body if truth else node.orelse)
        if is_cheap(node.body, node.orelse):
            return self.where(Number(truth, Kind(BOOL)), self.value(node.body), self.value(node.orelse))
        return self._choose(truth, partial(self.value, node.body), partial(self.value, node.orelse), node)

    def _choose(self, truth: Value, then: Callable[[], Any], otherwise: Callable[[], Any], node: ast.AST) -> Any:
        """Builds a branch, and returns the value of the side that is taken."""

        def keep(side: Callable[[], Any]) -> None:
            self.env[_RESULT] = side()

        self.branch(truth, partial(keep, then), partial(keep, otherwise), node)
        result = self.env.pop(_RESULT, None)
        if isinstance(result, Unset):
            raise UnsupportedError(f"the value is {result.why}")
        return result

    # -- names --------------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Any:
        frame, name, env = self.frames[-1], node.id, self.env
        if name.startswith(BUILTIN):
            return getattr(builtins, name.removeprefix(BUILTIN))
        while frame.outer is not None and name not in frame.locals:
            frame = frame.outer
            env = frame.env
        if name in env:
            found = env[name]
            if isinstance(found, Unset):
                raise UnsupportedError(f"{name} has no value that can be used here: {found.why}")
            return found
        if name in frame.locals:
            raise UnsupportedError(f"{name} is used before it is assigned")
        function = frame.function
        if name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            return self._captured(cell, "cell_contents", name)
        if name in function.__globals__:
            return self._captured(function.__globals__, name, name, item=True)
        if hasattr(builtins, name):
            self.captured.look_up(function.__globals__, name, name, item=True)  # a global may hide it later
            return getattr(builtins, name)
        own = {each.function.__name__ for each in self.frames}
        known = {*frame.locals, *function.__globals__, *dir(builtins)} - own  # recursion is not supported
        raise UnsupportedError(f"the name {name} is not defined{suggestion(name, known)}")

    def _captured(self, owner: Any, key: Any, name: str, *, item: bool = False) -> Any:
        """Returns a value from outside of the kernel: a constant, or a table."""
        found = self.captured.look_up(owner, key, name, item=item)
        return self._table(found, name) if isinstance(found, Table) else found

    def _table(self, table: Table, name: str) -> ArrayValue:
        """Returns a constant table, with a buffer of its own."""
        if table not in self.tables:
            element = SCALARS[table.array.dtype.name]
            memory = self.function.buffer(name, element)
            shape = table.array.shape
            self.tables[table] = ArrayValue(name, -1, element, len(shape), memory, shape, constant=True)
        return self.tables[table]

    def _checked_builtin(self, node: CheckedBuiltin) -> Any:
        found = self._name(node)
        if found is not getattr(builtins, node.id):
            raise UnsupportedError(f"{node.id} is not Python's own here, but {describe(found)}; {ITERABLES}")
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        base, name = self.value(node.value), node.attr
        if isinstance(base, (ModuleType, type)):
            return self._captured(base, name, f"{base.__name__.rpartition('.')[2]}.{name}")
        if isinstance(base, ArrayValue) and base.item is None and name in ("shape", "size", "ndim", "dtype"):
            if name == "shape":
                return tuple([self.extent(base, axis) for axis in range(base.ndim)])
            if name == "size":
                return self.extent(base, -1)
            return base.ndim if name == "ndim" else base.element.numpy
        if isinstance(base, Vector):
            return swizzled(base, name)
        if is_named(type(base)):
            if name not in base._fields:
                fields = ", ".join(base._fields)
                raise UnsupportedError(f"{type(base).__name__} has no attribute {name}; its fields are {fields}")
            return getattr(base, name)
        if isinstance(base, Enum) or not isinstance(base, (Number, ArrayValue, Row, tuple, *PLAIN)):
            return self._captured(base, name, f"{type(base).__name__}.{name}")
        has = (
            "an array has shape, size, ndim, dtype"
            if isinstance(base, ArrayValue)
            else "call functions, as vc.int32(x)"
        )
        has = "the length of a list is fixed, and is len(h)" if isinstance(base, ArrayValue) and base.item else has
        raise UnsupportedError(f"{describe(base)} has no attribute {name} that a kernel can use; {has}")

    # -- subscripts and calls -----------------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> Any:
        base, index = self.value(node.value), self.value(node.slice)
        if isinstance(base, tuple):
            return sliced(base, index) if isinstance(index, slice) else self.element(base, index)
        return self._entry(base, index) if isinstance(base, dict) else self.item(base, index)

    def _entry(self, base: dict[Any, Any], index: Any) -> Any:
        """Returns an entry of a dict from outside of the kernel."""
        if not isinstance(index, (str, int)):
            raise UnsupportedError(f"keys of dicts are strings and ints known at compile time; got {describe(index)}")
        if index not in base:
            keys = textwrap.shorten(", ".join(map(repr, base)), 200, placeholder=" …") or "none"
            raise UnsupportedError(f"the {type(base).__name__} has no key {index!r}; it has {keys}")
        return self._captured(base, index, repr(index), item=True)

    def _slice(self, node: ast.Slice) -> slice:
        return slice(*[each and self.value(each) for each in (node.lower, node.upper, node.step)])

    def _call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if isinstance(function, Callable) and function in NODE_INTRINSICS:  # type: ignore[arg-type]
            return NODE_INTRINSICS[function](self, node)
        args = [item for each in node.args for item in self.unpacked(each)]
        if any(each.arg is None for each in node.keywords):
            raise UnsupportedError("not supported in kernels: unpacking with **; name each argument")
        named = {each.arg or "": self.value(each.value) for each in node.keywords}
        if isinstance(function, Callable) and function in INTRINSICS:  # type: ignore[arg-type]
            definition = INTRINSICS[function].keywords
            if named and definition is not None:
                return self.inline(definition, args, named, node)
            if named:
                raise UnsupportedError(f"{function.__name__} takes its arguments by position in kernels")
            return self.call_intrinsic(function, args)
        if isinstance(function, Intrinsic):  # an argument of an internal function
            return function.emit(self, *args)
        if isinstance(defined := getattr(function, "definition", None), Definition):  # made by vc.vectorize
            function = defined.function
            self.sources[function] = defined.source
        if isinstance(function, FunctionType):
            return self.inline(function, args, named, node)
        if isinstance(function, type) and is_named(function):
            try:
                return function(*args, **named)
            except TypeError as error:
                raise UnsupportedError(str(error).replace(".__new__", "")) from None
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
            each = self.each(lambda *row: self.call_intrinsic(function, list(row)), *args)
            return tuple(map(Vector, zip(*each, strict=True))) if isinstance(each[0], tuple) else each
        return entry.emit(self, *args)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        """Compiles statements in order, as far as control reaches."""
        loops, inlined = self.frames[-1].loops, self.frames[-1].call is not None
        for n, each in enumerate(statements):
            rest = statements[n + 1 :]
            tail = inlined and not loops and isinstance(each, ast.If) and not each.orelse and returns(each.body)
            if tail and isinstance(each, ast.If):  # the rest becomes the else of `if …: return`, without a second test
                each, rest = ast.copy_location(ast.If(each.test, each.body, list(rest)), each), []
            self.statement(each)
            returned = self.env.get(RETURNED, False)
            if not self.alive or tail or (returned is True and not loops):
                return
            if returned is not False and loops:
                self._when(returned, self._break, partial(self._resume, False), each)
                if not self.alive:  # it returns on all paths
                    return
            elif returned is not False:
                self._when(returned, partial(self._resume, True), partial(self._resume, False, rest), each)
                return

    def statement(self, node: ast.stmt) -> None:
        """Compiles a statement."""
        self.located(partial(_STATEMENTS.get(type(node), Compiler._unsupported), self), node)

    def _resume(self, returned: bool, statements: Sequence[ast.stmt] = ()) -> None:
        """Compiles statements where RETURNED is known."""
        self.env[RETURNED] = returned
        self._block(statements)

    def _when(self, condition: Any, then: Build, otherwise: Build, node: ast.AST) -> None:
        """Builds an `if`; for a constant condition only the side that is taken."""
        truth = self.truth(condition)
        if isinstance(truth, bool):
            (then if truth else otherwise)()
        else:
            self.branch(truth, then, otherwise, node)

    def _pass(self, node: ast.stmt) -> None:
        """Builds nothing."""

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or ...
            self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._store(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        """Assigns a value, converted to the type of the annotation."""
        if node.value is None:
            raise UnsupportedError("an annotation without a value has no effect; annotate where the value is assigned")
        kind = self.value(node.annotation) if isinstance(node.annotation, (ast.Name, ast.Attribute)) else None
        self._store(node.target, self.annotated(node, kind, self.value(node.value)))

    def annotated(self, node: ast.AnnAssign, kind: Any, value: Any) -> Any:
        """Converts a value to the type of its annotation; that of `Any` is its own."""
        if kind is Any:
            return value
        if not (isinstance(kind, type) or hasattr(kind, "element")) or kind not in INTRINSICS:
            rule = "a variable is annotated with a type of numbers or vectors, as vc.int32, or Any"
            raise UnsupportedError(f"{rule}; got {ast.unparse(node.annotation)}; leave it out")
        return self.call_intrinsic(kind, [value])

    def _store(self, target: ast.expr, value: Any) -> None:
        self.located(partial(self._store_at, value), target)

    def _store_at(self, value: Any, target: ast.expr) -> None:
        match target:
            case ast.Name():
                self.env[target.id] = value
            case ast.Subscript():
                array = self._assignable(target)
                self.assign(array, self.value(target.slice), value)
            case ast.Tuple() | ast.List() if self.items(value) is not value:
                self._store_at(self.items(value), target)
            case ast.Tuple() | ast.List() if isinstance(value, tuple) and _one_each(target.elts, value):
                for each, part in zip(target.elts, value, strict=True):
                    self._store(each, part)
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
            self._store(each.value if isinstance(each, ast.Starred) else each, part)

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
            self._store(target, self.accumulated(sign, self.value(target), self.value(node.value)))

    def _function(self, node: ast.FunctionDef) -> None:
        """Defines a nested function, which is compiled where it is called."""
        if node.decorator_list:
            raise UnsupportedError(f"{node.name} is decorated, and decorators are not compiled; remove the decorator")
        self.env[node.name] = self.define(node, node)

    def _lambda(self, node: ast.Lambda) -> FunctionType:
        return self.define(function_def(node.args, node.body), node)

    def define(self, definition: ast.FunctionDef, node: ast.AST) -> FunctionType:
        """Returns a nested function; its defaults are evaluated here, and the outer variables where it is called."""
        args, frame = definition.args, self.frames[-1]
        positional = [*args.posonlyargs, *args.args]
        pairs = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
        pairs += [(arg, each) for arg, each in zip(args.kwonlyargs, args.kw_defaults, strict=True) if each is not None]
        found = nested_function(definition, frame.function, {arg.arg: self.value(each) for arg, each in pairs})
        self.sources[found], self.nested[found] = replace(frame.source, tree=definition, code=None), frame
        return found

    def _if(self, node: ast.If) -> None:
        sides = partial(self._block, node.body), partial(self._block, node.orelse)
        self._test(node.test, *sides, node)

    def _test(self, test: ast.expr, then: Build, otherwise: Build, node: ast.AST) -> None:
        """Builds an `if` on an expression; the names that `and` assigns have a value where it is true."""
        names = {each for each in named_in(test) if isinstance(self.env.get(each, Unset("")), Unset)}
        outer, self.partial = self.partial, names
        condition = self.value(test)
        self.partial = outer

        def without_names(build: Build) -> None:
            for each in names:
                self.env[each] = Unset(f"it is assigned in a part of {ast.unparse(test)!r} only")
            build()

        if names and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            otherwise = partial(without_names, otherwise)
        elif names:
            then = partial(without_names, then)
        self._when(condition, then, otherwise, node)

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else None
        if self.frames[-1].call is None:
            if value is not None:
                raise UnsupportedError("a kernel returns nothing; store the value in an array")
            self.builder.return_()
            self.alive = False
            return
        self.env |= {RETURNED: True, RESULT: value}
        if self.frames[-1].loops:
            self._break()

    # -- loops --------------------------------------------------------------------------------------------------------

    def _while(self, node: ast.While) -> None:
        def build() -> None:
            self._test(node.test, lambda: None, partial(self._exit, node), node)
            if self.alive:
                self._block(node.body)

        self.repeat(build, assigned([node.test, *node.body, *node.orelse]), node)

    def _for(self, node: ast.For) -> None:
        first, n_iterations, step = self.located(self._range, node.iter)
        if not isinstance(node.target, ast.Name):
            raise UnsupportedError("a for loop over a range has one variable")
        name, counter = node.target.id, f"counter of {node.lineno}:{node.col_offset}"
        if isinstance(n_iterations.value, Constant) and n_iterations.value.value == 0:
            self._block(node.orelse)  # the body is not compiled: the items of an empty tuple have no type
            return
        self.env[counter] = self.converted(0, n_iterations.kind.type)
        names = {name, *assigned([*node.body, *node.orelse])}
        runs = isinstance(n_iterations.value, Constant)
        late = self._used_outside(node, names) if runs else set()
        if name in late:
            self.env[name] = first
            late.remove(name)

        def build() -> None:
            iteration = self.env[counter]
            self._when(self.compare("<", iteration, n_iterations), lambda: None, partial(self._exit, node), node)
            for each in late:
                self.env.pop(each, None)  # before it is assigned
            self.env[name] = self.binary("+", first, self.binary("*", self.converted(iteration, first.kind.type), step))
            self.env[counter] = self.binary("+", iteration, 1)
            self._block(node.body)

        self.repeat(build, {counter, *names}, node, late)
        self.env.pop(counter, None)

    def _used_outside(self, loop: ast.For, names: set[str]) -> set[str]:
        """Returns those names without a value before a loop that are used outside of it."""
        unset = {name for name in names if isinstance(self.env.get(name, Unset("")), Unset)}
        inside = {*ast.walk(loop)}
        every = ast.walk(self.frames[-1].source.tree) if unset else ()
        used = {each.id for each in every if isinstance(each, ast.Name) and each not in inside}
        return unset & used

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
        self.frames[-1].loops[-1].in_else = True
        self._block(node.orelse)
        if self.alive:
            self._break()
        self.frames[-1].loops[-1].in_else = False

    def _break(self, node: ast.AST | None = None) -> None:
        edges = self._innermost(node)
        self.leave(edges.exits, partial(self.builder.break_, edges.loop))

    def _continue(self, node: ast.AST) -> None:
        edges = self._innermost(node)
        self.leave(edges.continues, partial(self.builder.continue_, edges.loop))

    def _innermost(self, node: ast.AST | None) -> LoopEdges:
        edges: LoopEdges = self.frames[-1].loops[-1]
        if edges.in_else and isinstance(node, (ast.Break, ast.Continue)):
            why = "break and continue in the else of a loop; note in a variable how it ended"
            raise UnsupportedError(f"not supported in kernels: {why}")
        return edges


def _one_each(targets: list[ast.expr], values: tuple[Any, ...]) -> bool:
    return len(targets) == len(values) and not any(isinstance(each, ast.Starred) for each in targets)


EXPRESSIONS: dict[type[ast.AST], Callable[[Compiler, Any], Any]] = {
    ast.Constant: Compiler._constant,
    ast.Name: Compiler._name,
    CheckedBuiltin: Compiler._checked_builtin,
    ast.Attribute: Compiler._attribute,
    ast.Subscript: Compiler._subscript,
    ast.Slice: Compiler._slice,
    ast.Tuple: Compiler._tuple,
    ast.BinOp: Compiler._binary,
    ast.UnaryOp: Compiler._unary,
    ast.Compare: Compiler._compare,
    ast.BoolOp: Compiler._bool_op,
    ast.IfExp: Compiler._if_exp,
    ast.NamedExpr: Compiler._named,
    ast.Call: Compiler._call,
    ast.Lambda: Compiler._lambda,
}
NODE_INTRINSICS: dict[Any, Callable[[Compiler, ast.Call], Any]] = {}
"""Intrinsics that evaluate their arguments themselves."""
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
