"""Rewrites loops over tuples, vectors and tensors as loops over a range, the only loops that the compiler has."""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

BUILTIN = "builtin "
"""Prefix of names that stand for Python's own len, min and range; the space keeps them apart from user names."""


class CheckedBuiltin(ast.Name):
    """The name `enumerate` or `zip` of a rewritten loop; the compiler checks that it means Python's own function."""


def desugared(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Rewrites `for x in xs:` as `for k in range(len(xs)): x = xs[k]`, and likewise loops over enumerate and zip."""
    _Loops().visit(tree)
    return tree


class _Loops(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> list[ast.stmt] | ast.For:
        """Returns the assignments of the sequences, then the loop; loops over other calls stay as they are."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call) and not _is_supported_call(node.iter):
            return node
        assignments: list[ast.stmt] = []
        index_name = f"index of {node.lineno}:{node.col_offset}"
        length, item = _unrolled(node.iter, partial(ast.Name, index_name), assignments)
        iterations = ast.copy_location(_call("range", length), node.iter)
        taken = ast.copy_location(ast.Assign([node.target], ast.copy_location(item, node.iter)), node.target)
        loop = ast.For(ast.Name(index_name, ast.Store()), iterations, [taken, *node.body], node.orelse)
        located = ast.fix_missing_locations(ast.copy_location(loop, node))
        return [*map(ast.fix_missing_locations, assignments), located]


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
