"""Loops over tuples, vectors and tensors, written as loops over their places, which is all that the compiler has."""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

BUILTIN = "builtin "
"""Before len, min and range in a name that no program can have: whatever it means by these, that is Python's own"""


class Walker(ast.Name):
    """Where a loop calls enumerate or zip: what the name stands for is looked up, and is to be Python's own."""


def over_places(tree: ast.FunctionDef) -> ast.FunctionDef:
    """The function with `for x in xs:` as `for k in range(len(xs)): x = xs[k]`; so too of enumerate and zip."""
    _Loops().visit(tree)
    return tree


class _Loops(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> list[ast.stmt] | ast.For:
        """The loop, after the sequences that it goes over; other calls are left, as that of range."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call) and not _called(node.iter):
            return node
        kept: list[ast.stmt] = []
        length, item = _walk(node.iter, partial(ast.Name, f"place in {node.lineno}:{node.col_offset}"), kept)
        target = ast.Name(f"place in {node.lineno}:{node.col_offset}", ast.Store())
        trips = ast.copy_location(_call("range", length), node.iter)
        taken = ast.copy_location(ast.Assign([node.target], ast.copy_location(item, node.iter)), node.target)
        loop = ast.For(target, trips, [taken, *node.body], node.orelse)
        return [*map(ast.fix_missing_locations, kept), ast.fix_missing_locations(ast.copy_location(loop, node))]


def _walk(node: ast.expr, place: Any, kept: list[ast.stmt]) -> tuple[ast.expr, ast.expr]:
    """How many items there are, and the one at a place; what is to be evaluated once, before, is kept."""

    def once(value: ast.expr) -> Any:
        name = f"sequence {len(kept)} of {node.lineno}:{node.col_offset}"
        kept.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), value))
        return partial(ast.Name, name)

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _called(node):
        name = ast.copy_location(Walker(node.func.id, ast.Load()), node.func)
        kept.append(ast.copy_location(ast.Expr(name), name))
    match node:
        case ast.Call(ast.Name("enumerate"), [over, *start], keywords) if _called(node):
            length, item = _walk(over, place, kept)
            number = place(ast.Load())
            for each in [*start, *[keyword.value for keyword in keywords]]:
                number = ast.BinOp(once(each)(ast.Load()), ast.Add(), number)
            return length, ast.Tuple([number, item], ast.Load())
        case ast.Call(ast.Name("zip"), args) if _called(node):
            lengths, items = zip(*[_walk(each, place, kept) for each in args], strict=True)
            return _call("min", *lengths) if len(lengths) > 1 else lengths[0], ast.Tuple(list(items), ast.Load())
    sequence = once(node)
    return _call("len", sequence(ast.Load())), ast.Subscript(sequence(ast.Load()), place(ast.Load()), ast.Load())


def _called(node: ast.expr) -> bool:
    """Whether it is enumerate or zip, with arguments that both have in a kernel."""
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
