"""Expressions of kernels: operators, names, subscripts, calls and nested functions.

Files of jit/library/ add syntax of their own to `EXPRESSIONS`.
"""

from __future__ import annotations

import ast
import builtins
import math
import textwrap
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute.frontend.captured import Table, suggestion
from vkcompute.frontend.constants import PLAIN, is_named, made_tuple
from vkcompute.frontend.control_flow import Unset
from vkcompute.frontend.desugaring import BUILTIN, CheckedBuiltin
from vkcompute.frontend.source import Definition, function_def, nested_function
from vkcompute.frontend.syntax import SIGNS, UNSUPPORTED, is_cheap
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, SCALARS
from vkcompute.jit.frontend.intrinsics import INTRINSICS, Intrinsic, accepted, folded, remedy_for
from vkcompute.jit.frontend.other_words import in_kernels
from vkcompute.jit.frontend.ranges import Ranges
from vkcompute.jit.frontend.values import (
    ArrayValue,
    Kind,
    Number,
    Row,
    Vector,
    describe,
    is_python,
    is_static,
    sliced,
    swizzled,
)


class Expressions(Ranges):
    """Evaluates the expressions of a kernel and of the functions that it calls."""

    @abstractmethod
    def store_to(self, target: ast.expr, value: Any) -> None:
        """Assigns a value to a target."""

    def value(self, node: ast.expr) -> Any:
        """Evaluates an expression.

        Raises:
            KernelError: kernels do not support it.
        """
        handler = EXPRESSIONS.get(type(node))
        return self.located(self.unsupported if handler is None else partial(handler, self), node)

    def unsupported(self, node: ast.AST) -> Any:
        """Raises the error for an expression or statement that is not supported."""
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
        return tuple([item for each in node.elts for item in self.unstarred(each)])

    def unstarred(self, node: ast.expr) -> tuple[Any, ...]:
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
        self.store_to(node.target, value)
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
            found = second() if truth == is_and else first
            return self.computed(found) if isinstance(first, Number) else found
        if not cheap:
            sides = (second, lambda: first) if is_and else (lambda: first, second)
            return self.flow.choose(truth, *sides, self.here(node))
        other = second()
        if self.kind(first) == self.kind(other) == Kind(BOOL):
            return self.binary("&" if is_and else "|", first, other)
        return self.where(first, *((other, first) if is_and else (first, other)))

    def _if_exp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        truth = self.truth(test)
        if isinstance(truth, bool):
            found = self.value(node.body if truth else node.orelse)
            return self.computed(found) if isinstance(test, Number) else found
        if is_cheap(node.body, node.orelse):
            return self.where(Number(truth, Kind(BOOL)), self.value(node.body), self.value(node.orelse))
        sides = partial(self.value, node.body), partial(self.value, node.orelse)
        return self.flow.choose(truth, *sides, self.here(node))

    # -- names --------------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Any:
        frame, name, env = self.frames[-1], node.id, self.flow.env
        if name.startswith(BUILTIN):
            return getattr(builtins, name.removeprefix(BUILTIN))
        while frame.outer is not None and name not in frame.locals:
            frame = frame.outer
            env = frame.scope.env
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
        raise UnsupportedError(f"the name {name} is not defined{in_kernels(name) or suggestion(name, known)}")

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
            rule = f"{node.id} is not Python's own here, but {describe(found)}"
            raise UnsupportedError(f"{rule}; write a for loop over range(…)")
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        return self.attribute(self.value(node.value), node)

    def attribute(self, base: Any, node: ast.Attribute) -> Any:
        """Returns an attribute of a value."""
        name = node.attr
        if isinstance(base, (ModuleType, type)):
            owner = ast.unparse(node.value) or base.__name__.rpartition(".")[2]  # of getattr, it has no text
            return self._captured(base, name, f"{owner}.{name}")
        if isinstance(base, ArrayValue) and base.item is None and name in ("shape", "size", "ndim", "dtype"):
            if name == "shape":
                return tuple([self.extent(base, axis) for axis in range(base.ndim)])
            if name == "size":
                return self.extent(base, -1)
            return base.ndim if name == "ndim" else base.element.numpy
        if isinstance(base, Vector):
            return swizzled(base, name)
        if isinstance(base, (np.iinfo, np.finfo)) and hasattr(base, name):
            return getattr(base, name)
        if is_named(type(base)):
            member = None if name in base._fields else getattr(type(base), name, None)
            if isinstance(member, property) or callable(member):
                kind = "property" if isinstance(member, property) else "method"
                raise UnsupportedError(f"{type(base).__name__}.{name} is a {kind}; write a function of its fields")
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
        args = [item for each in node.args for item in self.unstarred(each)]
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
        if isinstance(function, type) and function in (np.iinfo, np.finfo) and is_static(tuple(args)):
            if named:
                rule = f"{function.__name__} takes its dtype by position in a kernel"
                raise UnsupportedError(f"{rule}; write np.{function.__name__}(dtype)")
            return folded(function, args)
        if isinstance(function, type) and is_named(function):
            return made_tuple(function, args, named)
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

    # -- nested functions ---------------------------------------------------------------------------------------------

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


EXPRESSIONS: dict[type[ast.AST], Callable[[Expressions, Any], Any]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    CheckedBuiltin: Expressions._checked_builtin,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Tuple: Expressions._tuple,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._bool_op,
    ast.IfExp: Expressions._if_exp,
    ast.NamedExpr: Expressions._named,
    ast.Call: Expressions._call,
    ast.Lambda: Expressions._lambda,
}
NODE_INTRINSICS: dict[Any, Callable[[Expressions, ast.Call], Any]] = {}
"""Intrinsics that evaluate their arguments themselves."""
