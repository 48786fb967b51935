"""The evaluation of Python's expressions: operators, names, attributes, subscripts, calls and nested functions."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from vkcompute.compiled.arguments import suggestion
from vkcompute.frontend.constants import is_named, made_tuple
from vkcompute.frontend.control_flow import CHOSEN
from vkcompute.frontend.desugaring import BUILTIN, CheckedBuiltin
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.scopes import Unset
from vkcompute.frontend.source import Definition, function_def
from vkcompute.frontend.syntax import SIGNS, is_cheap
from vkcompute.frontend.unsupported import UnsupportedError

_NOTHING = Unset("it has no value")
NUMBERS_AND_TEXT = int, float, str, type(None)
NOT_PYTHON = object()
"""The result of `call_python` for other functions."""


def _constant(e: Evaluator, node: ast.Constant) -> Any:
    return constant(e, node, NUMBERS_AND_TEXT)


def constant(e: Evaluator, node: ast.Constant, kinds: tuple[type, ...]) -> Any:
    """Evaluates a literal of one of the kinds that a language has."""
    if not isinstance(node.value, kinds):
        rule = f"not supported in {e.language.programs}: {node.value!r}"
        raise UnsupportedError(f"{rule}; numbers are bools, ints and floats")
    return node.value


def _tuple(e: Evaluator, node: ast.Tuple) -> Any:
    return tuple([item for part in node.elts for item in e.unpacked(part)])


def _slice(e: Evaluator, node: ast.Slice) -> slice:
    return slice(*[bound and e.value(bound) for bound in (node.lower, node.upper, node.step)])


# -- operators --------------------------------------------------------------------------------------------------------


def binary(e: Evaluator, node: ast.BinOp) -> Any:
    """Evaluates an operation of two operands."""
    return e.language.binary(SIGNS[type(node.op)], e.value(node.left), e.value(node.right))


def _unary(e: Evaluator, node: ast.UnaryOp) -> Any:
    return e.language.unary(SIGNS[type(node.op)], e.value(node.operand))


def _compare(e: Evaluator, node: ast.Compare) -> Any:
    def chain(left: Any, at: int) -> Any:
        right = e.value(node.comparators[at])
        first = e.language.compare(SIGNS[type(node.ops[at])], left, right)
        rest = node.comparators[at + 1 :]
        if not rest:
            return first
        return e.language.connected(True, first, lambda: chain(right, at + 1), e.here(node), is_cheap=is_cheap(*rest))

    return chain(e.value(node.left), 0)


def _bool_op(e: Evaluator, node: ast.BoolOp) -> Any:
    is_and, last = isinstance(node.op, ast.And), len(node.values) - 1
    costly = max((at for at, operand in enumerate(node.values) if not is_cheap(operand)), default=0)

    def chain(at: int) -> Any:
        first = e.value(node.values[at])
        if at == last:
            return first
        return e.language.connected(is_and, first, lambda: chain(at + 1), e.here(node), is_cheap=at >= costly)

    return chain(0)


def _if_exp(e: Evaluator, node: ast.IfExp) -> Any:
    test = e.value(node.test)
    truth = e.language.truth(test)
    if isinstance(truth, bool):
        return e.language.known(test, e.value(node.body if truth else node.orelse))
    if is_cheap(node.body, node.orelse):
        one, other = e.value(node.body), e.value(node.orelse)
        try:
            return e.language.selected(truth, one, other)
        except UnsupportedError as error:
            raise UnsupportedError(e.language.mismatch(CHOSEN, str(error))) from None
    return e.flow.choose(truth, partial(e.value, node.body), partial(e.value, node.orelse), e.here(node))


# -- names ------------------------------------------------------------------------------------------------------------


def name(e: Evaluator, node: ast.Name) -> Any:
    """Evaluates a name: a variable, of an outer function, too, a global or a builtin."""
    frame, identifier, flow = e.frames[-1], node.id, e.flow
    if identifier.startswith(BUILTIN):
        return getattr(builtins, identifier.removeprefix(BUILTIN))
    env = flow.env
    while frame.outer is not None and identifier not in frame.locals:
        frame = frame.outer
        env = frame.scope.env
    value = env.get(identifier, _NOTHING)
    if type(value) is not Unset:
        return value
    if identifier in env or identifier in frame.locals:
        return flow.read(identifier, env)
    function = frame.function
    if identifier in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(identifier)]
        return e.captured_value(cell, "cell_contents", identifier)
    if identifier in function.__globals__:
        return e.captured_value(function.__globals__, identifier, identifier, item=True)
    if hasattr(builtins, identifier):
        e.captured.look_up(function.__globals__, identifier, identifier, item=True)  # a global may hide it later
        return getattr(builtins, identifier)
    own = {caller.function.__name__ for caller in e.frames}
    known = {*frame.locals, *function.__globals__, *dir(builtins)} - own  # recursion is not supported
    near = e.language.suggestion(identifier) or suggestion(identifier, known)
    raise UnsupportedError(f"the name {identifier} is not defined{near}")


def _checked_builtin(e: Evaluator, node: CheckedBuiltin) -> Any:
    value = name(e, node)
    if value is not getattr(builtins, node.id):
        rule = f"{node.id} is not Python's own here, but {e.language.describe(value)}"
        raise UnsupportedError(f"{rule}; write a for loop over range(…)")
    return value


def _named(e: Evaluator, node: ast.NamedExpr) -> Any:
    value = e.value(node.value)
    store_to(e, node.target, value)
    return value


def store_to(e: Evaluator, target: ast.expr, value: Any) -> None:
    """Assigns a value to a target."""
    e.handled(partial(_store_at, value), target)


def _store_at(value: Any, e: Evaluator, target: ast.expr) -> None:
    language = e.language
    match target:
        case ast.Name():
            e.flow.env[target.id] = language.assigned(target.id, value)
        case ast.Subscript():
            base = assignable(e, target)
            language.assign(base, e.value(target.slice), value)
        case ast.Attribute():
            base = assignable(e, target)
            language.assign(base, target.attr, value)
        case ast.Tuple() | ast.List() if language.items(value) is not value:
            _store_at(language.items(value), e, target)
        case ast.Tuple() | ast.List() if isinstance(value, tuple) and _one_each(target.elts, value):
            for item, part in zip(target.elts, value, strict=True):
                store_to(e, item, part)
        case ast.Tuple() | ast.List() if any(isinstance(item, ast.Starred) for item in target.elts):
            _store_starred(e, target.elts, value)
        case ast.Tuple() | ast.List():
            n = len(target.elts)
            raise UnsupportedError(f"{n} names take a tuple of {n}; got {language.describe(value)}")
        case _:
            raise UnsupportedError("a kernel assigns to variables and to elements of arrays; vectors are immutable")


def _one_each(targets: list[ast.expr], values: tuple[Any, ...]) -> bool:
    return len(targets) == len(values) and not any(isinstance(target, ast.Starred) for target in targets)


def _store_starred(e: Evaluator, targets: list[ast.expr], value: Any) -> None:
    """Assigns the items of a tuple to targets, one of which takes the rest as a tuple."""
    at, n = next(k for k, target in enumerate(targets) if isinstance(target, ast.Starred)), len(targets) - 1
    if not isinstance(value, tuple) or len(value) < n:
        raise UnsupportedError(f"these names take a tuple of at least {n}; got {e.language.describe(value)}")
    rest = at + len(value) - n
    parts = *value[:at], tuple(value[at:rest]), *value[rest:]
    for target, part in zip(targets, parts, strict=True):
        store_to(e, target.value if isinstance(target, ast.Starred) else target, part)


def assignable(e: Evaluator, target: ast.Subscript | ast.Attribute) -> Any:
    """Evaluates the value whose element or field is assigned."""
    base = e.value(target.value)
    if isinstance(base, tuple) and isinstance(target, ast.Attribute):
        raise UnsupportedError("a kernel assigns to variables and to elements of arrays; vectors are immutable")
    e.language.demand_assignable(base, partial(ast.unparse, target.value))
    return base


# -- attributes and subscripts ----------------------------------------------------------------------------------------


def _attribute(e: Evaluator, node: ast.Attribute) -> Any:
    return attribute(e, e.value(node.value), node)


def attribute(e: Evaluator, base: Any, node: ast.Attribute) -> Any:
    """Returns an attribute of a value."""
    if isinstance(base, (ModuleType, type)):
        owner = ast.unparse(node.value) or base.__name__.rpartition(".")[2]  # of getattr, it has no text
        return e.captured_value(base, node.attr, f"{owner}.{node.attr}")
    return e.language.attribute(base, node.attr)


def _subscript(e: Evaluator, node: ast.Subscript) -> Any:
    return subscript(e, e.value(node.value), node)


def subscript(e: Evaluator, base: Any, node: ast.Subscript) -> Any:
    """Returns an element of a value."""
    index = e.value(node.slice)
    return _entry(e, base, index) if isinstance(base, dict) else e.language.item(base, index)


def _entry(e: Evaluator, base: dict[Any, Any], index: Any) -> Any:
    """Returns an entry of a dict from outside of the program."""
    if not isinstance(index, (str, int)):
        got = e.language.describe(index)
        raise UnsupportedError(f"keys of dicts are strings and ints known at compile time; got {got}")
    if index not in base:
        keys = textwrap.shorten(", ".join(map(repr, base)), 200, placeholder=" …") or "none"
        raise UnsupportedError(f"the {type(base).__name__} has no key {index!r}; it has {keys}")
    return e.captured_value(base, index, repr(index), item=True)


# -- calls and nested functions ---------------------------------------------------------------------------------------


def _call(e: Evaluator, node: ast.Call) -> Any:
    function, forms = e.value(node.func), e.language.special_forms
    if isinstance(function, Callable) and function in forms:  # type: ignore[arg-type]
        return forms[function](e, node)
    args = [item for arg in node.args for item in e.unpacked(arg)]
    if any(keyword.arg is None for keyword in node.keywords):
        raise UnsupportedError(f"not supported in {e.language.programs}: unpacking with **; name each argument")
    named = {keyword.arg or "": e.value(keyword.value) for keyword in node.keywords}
    return e.language.apply(function, args, named, node)


def call_python(e: Evaluator, function: Any, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
    """Calls a function written in Python, which is inlined, or a class of named tuples; NOT_PYTHON for others."""
    if isinstance(defined := getattr(function, "definition", None), Definition):  # made by vc.vectorize, triton.jit
        function = defined.function
        e.sources[function] = defined.source
    if isinstance(function, FunctionType):
        return e.language.inline(function, args, named, node)
    if isinstance(function, type) and is_named(function):
        return made_tuple(function, args, named)
    return NOT_PYTHON


def _lambda(e: Evaluator, node: ast.Lambda) -> FunctionType:
    return e.language.define(function_def(node.args, node.body), node)


EXPRESSIONS: Mapping[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: name,
    CheckedBuiltin: _checked_builtin,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Tuple: _tuple,
    ast.BinOp: binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool_op,
    ast.IfExp: _if_exp,
    ast.NamedExpr: _named,
    ast.Call: _call,
    ast.Lambda: _lambda,
}
"""Handlers of Python's expressions; a language may add others, and replace some."""
