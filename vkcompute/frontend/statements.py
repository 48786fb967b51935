"""The evaluation of Python's statements: assignments, branches, loops, returns and nested functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from vkcompute.frontend.control_flow import Build, nothing
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import assignable, store_to
from vkcompute.frontend.language import Iterations
from vkcompute.frontend.scopes import Unset
from vkcompute.frontend.syntax import SIGNS, assigned, named_in, names_in, stores
from vkcompute.frontend.unsupported import UnsupportedError


def _pass(e: Evaluator, node: ast.stmt) -> None:
    """Builds nothing."""


def _expression(e: Evaluator, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):  # a docstring, or ...
        e.value(node.value)


# -- assignments ------------------------------------------------------------------------------------------------------


def _assign(e: Evaluator, node: ast.Assign) -> None:
    value = e.value(node.value)
    for target in node.targets:
        store_to(e, target, value)


def _annotated(e: Evaluator, node: ast.AnnAssign) -> None:
    """Assigns a value, converted to the type of the annotation."""
    if node.value is None:
        raise UnsupportedError("an annotation without a value has no effect; annotate where the value is assigned")
    kind = e.value(node.annotation) if isinstance(node.annotation, (ast.Name, ast.Attribute)) else None
    store_to(e, node.target, e.language.annotated(node, kind, e.value(node.value)))


def _augmented(e: Evaluator, node: ast.AugAssign) -> None:
    sign, target, language = SIGNS[type(node.op)], node.target, e.language
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        base = assignable(e, target)
        index = target.attr if isinstance(target, ast.Attribute) else e.value(target.slice)
        language.update(base, index, lambda old: language.binary(sign, old, e.value(node.value)))
    else:
        store_to(e, target, language.accumulated(sign, e.value(target), e.value(node.value)))


def _function(e: Evaluator, node: ast.FunctionDef) -> None:
    """Defines a nested function, which is evaluated where it is called."""
    if node.decorator_list:
        raise UnsupportedError(f"{node.name} is decorated, and decorators are not compiled; remove the decorator")
    e.flow.assign(node.name, e.language.define(node, node))


# -- branches and loops -----------------------------------------------------------------------------------------------


def _if(e: Evaluator, node: ast.If) -> None:
    _test(e, node.test, partial(e.block, node.body), partial(e.block, node.orelse), node)


def _test(e: Evaluator, test: ast.expr, then: Build, otherwise: Build, node: ast.AST) -> None:
    """Builds an `if` on an expression; the names that `and` assigns have a value where it is true."""
    flow, names = e.flow, sorted(filter(e.flow.is_unset, named_in(test)))
    outer, flow.partial = flow.partial, set(names)
    condition = e.value(test)
    flow.partial = outer

    def without_names(build: Build) -> None:
        for name in names:
            flow.env[name] = Unset(f"it is assigned in a part of {ast.unparse(test)!r} only")
        build()

    if names and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        otherwise = partial(without_names, otherwise)
    elif names:
        then = partial(without_names, then)
    flow.if_(condition, then, otherwise, e.here(node))


def _return(e: Evaluator, node: ast.Return) -> None:
    value = e.value(node.value) if node.value is not None else None
    if value is not None and not e.flow.scopes[-1].inlined:
        raise UnsupportedError("a kernel returns nothing; store the value in an array")
    e.flow.return_(value)


def _while(e: Evaluator, node: ast.While) -> None:
    def build() -> None:
        _test(e, node.test, nothing, partial(_exit, e, node), node)
        if e.flow.alive:
            e.block(node.body)

    names = assigned([node.test, *node.body, *node.orelse])
    late = _used_outside(e, node, names) if e.flow.assumes_zero else []
    e.flow.loop(build, names, e.here(node), late, partial(stores, node))


def _for(e: Evaluator, node: ast.For) -> None:
    for_each(e, node, e.located(e.language.iterations, node.iter))


def for_each(e: Evaluator, node: ast.For, iterations: Iterations) -> None:
    """Builds a for loop over these iterations."""
    if not isinstance(node.target, ast.Name):
        raise UnsupportedError("a for loop over a range has one variable")
    name, counter, env = node.target.id, f"counter of {node.lineno}:{node.col_offset}", e.flow.env
    if iterations.length == 0:
        e.block(node.orelse)  # the body is not evaluated: the items of an empty tuple have no type
        return
    env[counter] = iterations.start()
    names = {name, *assigned([*node.body, *node.orelse])}
    runs = iterations.length is not None
    late = _used_outside(e, node, names) if runs or e.flow.assumes_zero else []
    if name in late and runs:
        env[name] = iterations.first()
        late.remove(name)

    def build() -> None:
        flow, number = e.flow, e.flow.env[counter]
        flow.if_(iterations.goes_on(number), nothing, partial(_exit, e, node), e.here(node))
        for other in late if not flow.assumes_zero else ():
            flow.env.pop(other, None)  # before it is assigned
        flow.env[name] = iterations.item(number)
        flow.env[counter] = iterations.next(number)
        e.block(node.body)

    e.flow.loop(build, {counter, *names}, e.here(node), late, partial(stores, node))
    e.flow.env.pop(counter, None)


def _used_outside(e: Evaluator, loop: ast.For | ast.While, names: set[str]) -> list[str]:
    """Returns those names without a value before a loop that are used outside of it, in an order of their own."""
    unset = set(filter(e.flow.is_unset, names))
    outside = names_in(e.frames[-1].source.tree) - names_in(loop) if unset else ()
    return sorted(unset & {node.id for node in outside})


def _exit(e: Evaluator, node: ast.For | ast.While) -> None:
    """Leaves a loop at its end, through its else."""
    e.block(node.orelse)
    if e.flow.alive:
        e.flow.break_()


def _break(e: Evaluator, node: ast.Break) -> None:
    e.flow.break_()


def _continue(e: Evaluator, node: ast.Continue) -> None:
    e.flow.continue_()


STATEMENTS: Mapping[type[ast.AST], Callable[[Evaluator, Any], None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.FunctionDef: _function,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Pass: _pass,
}
"""Handlers of Python's statements; a language may add others, and replace some."""
