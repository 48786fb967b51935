"""Rewrites what the compiler lacks: loops over sequences, `match`, and break and continue in the else of a loop."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

BUILTIN = "builtin "
"""Prefix of names that stand for Python's own len, min and range; the space keeps them apart from user names."""


class CheckedBuiltin(ast.Name):
    """The name `enumerate` or `zip` of a rewritten loop; the compiler checks that it means Python's own function."""


def desugared(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Rewrites `for x in xs:` as `for k in range(len(xs)): x = xs[k]`, and likewise loops over enumerate and zip."""
    _Statements().visit(tree)
    return tree


class _Statements(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """Returns the assignments of the sequences, then the loop; loops over other calls stay as they are."""
        self.generic_visit(node)
        before, after = _separate_else(node)
        if isinstance(node.iter, ast.Call) and not _is_supported_call(node.iter):
            return [*before, node, *after]
        assignments: list[ast.stmt] = []
        index_name = f"index of {node.lineno}:{node.col_offset}"
        length, item = _unrolled(node.iter, partial(ast.Name, index_name), assignments)
        iterations = ast.copy_location(_call("range", length), node.iter)
        taken = ast.copy_location(ast.Assign([node.target], ast.copy_location(item, node.iter)), node.target)
        loop = ast.For(ast.Name(index_name, ast.Store()), iterations, [taken, *node.body], node.orelse)
        located = ast.fix_missing_locations(ast.copy_location(loop, node))
        return [*before, *map(ast.fix_missing_locations, assignments), located, *after]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """Returns the loop, with its else behind it if that leaves another loop."""
        self.generic_visit(node)
        before, after = _separate_else(node)
        return [*before, node, *after]

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        """Returns the assignment of the subject, then an `if` for the first case, whose `else` has the next one.

        A pattern that is not supported is the condition of its `if`, which the compiler refuses.
        """
        self.generic_visit(node)
        name = f"subject of {node.lineno}:{node.col_offset}"
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            matches, captures = _matched(case.pattern, partial(ast.Name, name, ast.Load()))
            assignments = [ast.Assign([ast.Name(each, ast.Store())], ast.Name(name, ast.Load())) for each in captures]
            if case.guard is not None:
                stored = [ast.NamedExpr(each.targets[0], each.value) for each in assignments]  # type: ignore[arg-type]
                guard = ast.Subscript(ast.Tuple([*stored, case.guard], ast.Load()), _number(-1), ast.Load())
                matches = ast.BoolOp(ast.And(), [matches, guard])
                assignments = []  # the guard may have assigned the names anew
            rest = [ast.If(matches, [*assignments, *case.body], rest)]
            _placed(rest[0], case.pattern)
        subject = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node.subject), node)
        return [ast.fix_missing_locations(subject), *rest]


def _separate_else(loop: ast.For | ast.While) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Returns statements for before and after a loop, where the else goes if it breaks or continues another loop.

    The loop's own else then notes that it has been reached.
    """
    if not any(map(_leaves_loop, loop.orelse)):
        return [], []
    name = f"else of {loop.lineno}:{loop.col_offset}"
    noted = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)) for value in (False, True)]
    then = ast.If(ast.Name(name, ast.Load()), loop.orelse, [])
    loop.orelse = [noted[1]]
    for each in (*noted, then):
        ast.fix_missing_locations(ast.copy_location(each, loop))
    return [noted[0]], [then]


def _leaves_loop(node: ast.AST) -> bool:
    """True if a statement has a break or a continue of a loop around it."""
    if isinstance(node, (ast.Break, ast.Continue)):
        return True
    inner = node.orelse if isinstance(node, (ast.For, ast.While)) else ast.iter_child_nodes(node)
    return not isinstance(node, (ast.FunctionDef, ast.Lambda)) and any(map(_leaves_loop, inner))


def _matched(pattern: ast.pattern, subject: Callable[[], ast.expr]) -> tuple[ast.expr, list[str]]:
    """Returns the condition for a pattern, and the names that it captures."""
    match pattern:
        case ast.MatchValue(value):
            return ast.Compare(subject(), [ast.Eq()], [value]), []
        case ast.MatchAs(None, name):
            return ast.Constant(True), [name] if name is not None else []
        case ast.MatchAs(ast.pattern() as inner, str(name)):
            condition, names = _matched(inner, subject)
            return condition, [*names, name]
        case ast.MatchOr(patterns):
            found = [_matched(each, subject) for each in patterns]
            return ast.BoolOp(ast.Or(), [condition for condition, _ in found]), found[0][1]
    return pattern, []  # type: ignore[return-value]


def _number(n: int) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-n)) if n < 0 else ast.Constant(n)


def _placed(node: ast.AST, like: ast.AST) -> None:
    """Gives a node, and those below it without a location, the location of another."""
    if "lineno" in node._attributes and not hasattr(node, "lineno"):
        ast.copy_location(node, like)
        for each in ast.iter_child_nodes(node):
            _placed(each, node)


def _unrolled(node: ast.expr, index: Any, assignments: list[ast.stmt]) -> tuple[ast.expr, ast.expr]:
    """Returns expressions for the length and for the item at `index`.

    Args:
        assignments: is extended by those of the expressions to evaluate once, before the loop.
    """

    def once(value: ast.expr) -> Any:
        name = f"sequence {len(assignments)} of {node.lineno}:{node.col_offset}"
        assignments.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), value))
        return partial(ast.Name, name)

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _is_supported_call(node):
        name = ast.copy_location(CheckedBuiltin(node.func.id, ast.Load()), node.func)
        assignments.append(ast.copy_location(ast.Expr(name), name))
    match node:
        case ast.Call(ast.Name("enumerate"), [over, *start], keywords) if _is_supported_call(node):
            length, item = _unrolled(over, index, assignments)
            number = index(ast.Load())
            for each in [*start, *[keyword.value for keyword in keywords]]:
                number = ast.BinOp(once(each)(ast.Load()), ast.Add(), number)
            return length, ast.Tuple([number, item], ast.Load())
        case ast.Call(ast.Name("zip"), args) if _is_supported_call(node):
            lengths, items = zip(*[_unrolled(each, index, assignments) for each in args], strict=True)
            return _call("min", *lengths) if len(lengths) > 1 else lengths[0], ast.Tuple(list(items), ast.Load())
    sequence = once(node)
    return _call("len", sequence(ast.Load())), ast.Subscript(sequence(ast.Load()), index(ast.Load()), ast.Load())


def _is_supported_call(node: ast.expr) -> bool:
    """True for a call of enumerate or zip with arguments that kernels support."""
    match node:
        case ast.Call(ast.Name("enumerate"), [_], [ast.keyword("start")]):
            return True
        case ast.Call(ast.Name("enumerate"), [_] | [_, _], []) | ast.Call(ast.Name("zip"), [_, *_], []):
            return True
        case ast.Call(ast.Name("zip"), [_, *_], [ast.keyword("strict", ast.Constant(False))]):
            return True
    return False


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(BUILTIN + name, ast.Load()), list(args), [])
