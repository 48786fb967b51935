"""Facts about syntax nodes: signs of operators, unsupported nodes and their remedies, names, cost, control flow."""

from __future__ import annotations

import ast
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.UAdd: "+", ast.USub: "-", ast.Invert: "~",
    ast.Not: "not",
}  # fmt: skip
BLOCKS = "body", "orelse"
"""Fields of statements that have statements."""
_LEAVES = "ctx", "op", "ops", "id", "attr", "arg", "kind", "type_comment"
UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.Dict: "a dict; use variables",
    ast.Set: "a set; use a tuple",
    ast.Starred: "unpacking with *; name each value",
    ast.Await: "await; a kernel runs on the device",
    **dict.fromkeys((ast.Yield, ast.YieldFrom), "a generator; write values to an array"),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp), "a comprehension; write a for loop"),
    ast.GeneratorExp: "a generator, but as the only argument of sum, any or all, with no := in it; write a for loop",
    **dict.fromkeys((ast.Assert, ast.Raise), "assert and raise; write to an array, and check it on the host"),
    ast.Try: "try; nothing raises on the device",
    ast.With: "with",
    ast.AsyncFunctionDef: "async def; a kernel runs on the device",
    ast.ClassDef: "a class; use tuples",
    **dict.fromkeys((ast.Import, ast.ImportFrom), "import; import outside of the kernel"),
    ast.Delete: "del; variables end with the kernel",
    ast.Global: "global; write to an array",
    ast.Nonlocal: "nonlocal; return the value",
    **dict.fromkeys(
        (ast.MatchSingleton, ast.MatchSequence, ast.MatchMapping, ast.MatchClass, ast.MatchStar),
        "a pattern beside numbers, names, 1 | 2 and _; write if and elif",
    ),
}
ITERABLES = "a for loop iterates over range(…), enumerate(…), zip(…), a tuple, a vector or an array"
LOOP_CALLS: dict[object, str] = {
    enumerate: "enumerate takes a sequence, and optionally the first number",
    zip: "zip takes one or more sequences and stops at the shortest; strict=True cannot raise in a kernel",
    reversed: "reversed takes a sequence, or a range of a constant step; write range(2, -1, -2) for range(0, 4, 2)",
}
"""Calls that a for loop does not accept with these arguments -> rule."""


_parsing = threading.RLock()


def _renew_lock() -> None:
    """Replaces the lock in a forked child: a thread that the child does not have may hold it."""
    global _parsing
    _parsing = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def parse(text: str) -> ast.Module:
    """Parses a text, one thread at a time; raises as `ast.parse`.

    CPython 3.11 counts the depth of the tree that it makes in one variable of all threads. If another thread parses
    meanwhile, it raises SystemError.
    """
    with _parsing:
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Parses an expression, as `parse`."""
    with _parsing:
        return ast.parse(text, mode="eval").body


def children(node: ast.AST) -> list[ast.AST]:
    """Returns the nodes below a node, as ast.iter_child_nodes, without operators and contexts, which is faster."""
    nodes: list[ast.AST] = []
    for name in _branches(node._fields):
        value = getattr(node, name, None)
        if isinstance(value, list):
            nodes += [child for child in value if isinstance(child, ast.AST)]
        elif isinstance(value, ast.AST):
            nodes.append(value)
    return nodes


@cache
def _branches(fields: tuple[str, ...]) -> list[str]:
    """Returns the fields of a node that may have nodes with names or statements."""
    return [name for name in fields if name not in _LEAVES]


def walk(node: ast.AST) -> list[ast.AST]:
    """Returns a node and all nodes below it, as ast.walk, without operators and contexts."""
    nodes = [node]
    for current in nodes:
        nodes += children(current)
    return nodes


def statements(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements of a block and of those inside them."""
    for statement in block:
        yield statement
        for name in BLOCKS:
            yield from statements(getattr(statement, name, []))


def is_cheap(*nodes: ast.expr) -> bool:
    """True if expressions may be evaluated where their value is not needed: no loads, calls, divisions, assignments."""
    costly = (ast.NamedExpr, ast.Subscript, ast.Call, ast.FloorDiv, ast.Mod, ast.Pow)
    return not any(isinstance(part, costly) for node in nodes for part in walk(node))


def named_in(condition: ast.expr) -> set[str]:
    """Returns the names that `and` or `or` assigns once all of its operands are evaluated."""
    if not isinstance(condition, ast.BoolOp):
        return set()
    names, pending = set[str](), list[ast.AST](condition.values[1:])  # the first one is always evaluated
    for node in pending:
        if isinstance(node, ast.NamedExpr):
            names.add(node.target.id)
        if not isinstance(node, (ast.BoolOp, ast.IfExp, ast.Lambda)):
            pending += children(node)
    return names


def returns(body: list[ast.stmt]) -> bool:
    """True if a block ends in a return on every path."""
    last = body[-1]
    both = isinstance(last, ast.If) and bool(last.orelse) and returns(last.body) and returns(last.orelse)
    return both or isinstance(last, ast.Return)


def mangled(definition: ast.FunctionDef, class_name: str) -> ast.FunctionDef:
    """Replaces names like __x in a function of a class by those that Python gives them, _Class__x, in place."""
    prefix = class_name.lstrip("_")
    for node in ast.walk(definition) if prefix else ():
        for field in ("id", "attr", "arg", "name"):
            name = getattr(node, field, None)
            private = isinstance(name, str) and name.startswith("__") and not name.endswith("__")
            if private and node is not definition:
                setattr(node, field, f"_{prefix}{name}")
    return definition


class _Names(NamedTuple):
    """Names in a tree.

    Attributes:
        nodes: all of them.
        assigned: those that it assigns to, without the variables of functions in it.
    """

    nodes: frozenset[ast.Name]
    assigned: frozenset[str]


@lru_cache(maxsize=1024)  # the body of a loop is built several times
def _names(part: ast.AST) -> _Names:
    pending, nodes, assigned_names = [(part, True)], set[ast.Name](), set[str]()
    for node, outside in pending:
        if isinstance(node, ast.Name):
            nodes.add(node)
            if outside and isinstance(node.ctx, ast.Store):
                assigned_names.add(node.id)
        elif outside and isinstance(node, ast.FunctionDef):
            assigned_names.add(node.name)
        outside = outside and not isinstance(node, (ast.FunctionDef, ast.Lambda))  # these have variables of their own
        for child in children(node):
            if isinstance(child, ast.stmt):
                inner = _names(child)
                nodes |= inner.nodes
                assigned_names |= inner.assigned if outside else set()
            else:
                pending.append((child, outside))
    return _Names(frozenset(nodes), frozenset(assigned_names))


def assigned(body: Sequence[ast.AST]) -> set[str]:
    """Returns the names that statements and expressions assign to."""
    return {name for node in body for name in _names(node).assigned}


def names_in(part: ast.AST) -> frozenset[ast.Name]:
    """Returns the names in a tree."""
    return _names(part).nodes


def stores(part: ast.AST) -> Counter[str]:
    """Returns how often a tree assigns to each name."""
    return Counter(name.id for name in names_in(part) if isinstance(name.ctx, ast.Store))


@lru_cache(maxsize=64)
def values_in(tree: ast.FunctionDef) -> dict[ast.AST, str]:
    """Returns the values in a tree that are assigned to a variable, with its name."""
    nodes = [statement for statement in statements(tree.body) if isinstance(statement, ast.Assign)]
    return {node.value: node.targets[0].id for node in nodes if isinstance(node.targets[0], ast.Name)}
