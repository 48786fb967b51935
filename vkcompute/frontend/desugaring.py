"""Rewrites what the compiler lacks.

That is loops over sequences, `match`, break and continue in the else of a loop, and generators in sum, any and all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from vkcompute.frontend.syntax import BLOCKS

BUILTIN = "builtin "
"""Prefix of names that stand for Python's own len, min and range; the space keeps them apart from user names."""


class CheckedBuiltin(ast.Name):
    """The name of a builtin function in rewritten syntax; the compiler checks that it means Python's own function."""


def desugared(tree: ast.FunctionDef, *, generators: bool) -> ast.FunctionDef:
    """Rewrites `for x in xs:` as `for k in range(len(xs)): x = xs[k]`, and likewise loops over enumerate and zip.

    With `generators`, sum(f(x) for x in xs) becomes a call of a nested function with a loop, defined before the
    statement.
    """
    if generators:
        _Generators().visit(tree)
    _Statements().visit(tree)
    return tree


class _Generators(ast.NodeTransformer):
    def __init__(self) -> None:
        self._before: list[ast.stmt] = []

    def visit(self, node: ast.AST) -> Any:
        """Returns the rewritten node; for a statement, with the functions that its generators become before it."""
        if not isinstance(node, ast.stmt):
            return super().visit(node)
        outer, self._before = self._before, []
        rewritten = super().visit(node)
        before, self._before = self._before, outer
        return [*before, *(rewritten if isinstance(rewritten, list) else [rewritten])] if before else rewritten

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """Returns the lambda as it is: a function before the statement has none of its parameters."""
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Returns a call of a function with a loop, for sum, any and all of a generator; other calls stay as they are.

        A generator that assigns stays as well: its variable is the kernel's, not the function's.
        """
        match node:
            case ast.Call(ast.Name(("sum" | "any" | "all") as name), [ast.GeneratorExp() as generator], []):
                if any(isinstance(part, ast.NamedExpr) for part in ast.walk(generator)):
                    return node
                function = _reduction(name, generator, f"{name} of {node.lineno}:{node.col_offset}")
                builtin = ast.Expr(CheckedBuiltin(name, ast.Load()))
                for statement in (builtin, function):
                    _placed(statement, node.func)
                self._before += [builtin, self.visit(function)]
                return ast.copy_location(ast.Call(ast.Name(function.name, ast.Load()), [], []), node)
        self.generic_visit(node)
        return node


class _Statements(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Rewrites the statements below a statement; its expressions have none."""
        for name in (*BLOCKS, "cases"):
            block = getattr(node, name, [])
            rewritten = [self.visit(statement) for statement in block]
            block[:] = [
                statement for result in rewritten for statement in (result if isinstance(result, list) else [result])
            ]
        return node

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """Returns the assignments of the sequences, then the loop; loops over ranges stay as they are."""
        self.generic_visit(node)
        before, after = _separate_else(node)
        if _is_range(node.iter) or (_is_iterator(node.iter) and not _is_supported_call(node.iter)):
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
            assignments = [
                ast.Assign([ast.Name(capture, ast.Store())], ast.Name(name, ast.Load())) for capture in captures
            ]
            if case.guard is not None:
                stored = [ast.NamedExpr(assignment.targets[0], assignment.value) for assignment in assignments]  # type: ignore[arg-type]
                guard = ast.Subscript(ast.Tuple([*stored, case.guard], ast.Load()), _number(-1), ast.Load())
                matches = ast.BoolOp(ast.And(), [matches, guard])
                assignments = []  # the guard may have assigned the names anew
            body = [*assignments, *case.body]
            is_last = case.guard is None and isinstance(matches, ast.Constant)
            rest = body if is_last else [ast.If(matches, body, rest)]
            _placed(rest[0], case.pattern)
        subject = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node.subject), node)
        return [ast.fix_missing_locations(subject), *rest]


def _reduction(name: str, generator: ast.GeneratorExp, function: str) -> ast.FunctionDef:
    """Returns a function of no parameters that computes sum, any or all of a generator by a loop."""
    total = "total of the generator"
    first: list[ast.stmt] = []
    value: ast.expr
    step: ast.stmt
    if name == "sum":
        first, value = [ast.Assign([ast.Name(total, ast.Store())], ast.Constant(0))], ast.Name(total, ast.Load())
        step = ast.AugAssign(ast.Name(total, ast.Store()), ast.Add(), generator.elt)
    else:
        test = generator.elt if name == "any" else ast.UnaryOp(ast.Not(), generator.elt)
        step, value = ast.If(test, [ast.Return(ast.Constant(name == "any"))], []), ast.Constant(name == "all")
    for part in reversed(generator.generators):
        for condition in reversed(part.ifs):
            step = ast.If(condition, [step], [])
        step = ast.For(part.target, part.iter, [step], [])
        ast.copy_location(step, part.target)
    arguments = ast.arguments([], [], None, [], [], None, [])
    return ast.FunctionDef(function, arguments, [*first, step, ast.Return(value)], [])


def _separate_else(loop: ast.For | ast.While) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Returns statements for before and after a loop, where the else goes if it breaks or continues another loop.

    The loop's own else then notes that it has been reached.
    """
    if not any(map(leaves_loop, loop.orelse)):
        return [], []
    name = f"else of {loop.lineno}:{loop.col_offset}"
    noted = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)) for value in (False, True)]
    then = ast.If(ast.Name(name, ast.Load()), loop.orelse, [])
    loop.orelse = [noted[1]]
    for statement in (*noted, then):
        ast.fix_missing_locations(ast.copy_location(statement, loop))
    return [noted[0]], [then]


def leaves_loop(node: ast.AST) -> bool:
    """True if a statement has a break or a continue of a loop around it."""
    if isinstance(node, (ast.Break, ast.Continue)):
        return True
    inner = node.orelse if isinstance(node, (ast.For, ast.While)) else ast.iter_child_nodes(node)
    return not isinstance(node, (ast.FunctionDef, ast.Lambda)) and any(map(leaves_loop, inner))


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
            matches = [_matched(alternative, subject) for alternative in patterns]
            return ast.BoolOp(ast.Or(), [condition for condition, _ in matches]), matches[0][1]
    return pattern, []  # type: ignore[return-value]


def _number(n: int) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-n)) if n < 0 else ast.Constant(n)


def _placed(node: ast.AST, like: ast.AST) -> None:
    """Gives a node, and those below it without a location, the location of another."""
    if "lineno" in node._attributes and not hasattr(node, "lineno"):
        ast.copy_location(node, like)
        for child in ast.iter_child_nodes(node):
            _placed(child, node)


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
            for offset in [*start, *[keyword.value for keyword in keywords]]:
                number = ast.BinOp(once(offset)(ast.Load()), ast.Add(), number)
            return length, ast.Tuple([number, item], ast.Load())
        case ast.Call(ast.Name("zip"), args) if _is_supported_call(node):
            lengths, items = zip(*[_unrolled(arg, index, assignments) for arg in args], strict=True)
            return _call("min", *lengths) if len(lengths) > 1 else lengths[0], ast.Tuple(list(items), ast.Load())
        case ast.Call(ast.Name("range"), [stop]) if _is_range(node):
            return once(stop)(ast.Load()), index(ast.Load())
        case ast.Call(ast.Name("range"), [start, stop]) if _is_range(node):
            first, end = once(start), once(stop)
            length = ast.BinOp(_call("max", first(ast.Load()), end(ast.Load())), ast.Sub(), first(ast.Load()))
            return length, ast.BinOp(first(ast.Load()), ast.Add(), index(ast.Load()))
        case ast.Call(ast.Name("range"), [start, stop, step]) if _is_range(node):
            return _stepped(once(start), once(stop), ast.literal_eval(step), index)
        case ast.Call(ast.Name("reversed"), [over]) if _is_supported_call(node):
            n = partial(ast.Name, f"items of {node.lineno}:{node.col_offset}")
            length, item = _unrolled(over, partial(_from_end, n, index), assignments)
            assignments.append(ast.copy_location(ast.Assign([n(ast.Store())], length), node))
            return n(ast.Load()), item
    sequence = once(node)
    return _call("len", sequence(ast.Load())), ast.Subscript(sequence(ast.Load()), index(ast.Load()), ast.Load())


def _from_end(length: Callable[[ast.expr_context], ast.expr], index: Callable[..., ast.expr], *_: Any) -> ast.expr:
    last = ast.BinOp(length(ast.Load()), ast.Sub(), ast.Constant(1))
    return ast.BinOp(last, ast.Sub(), index(ast.Load()))


def _stepped(start: Any, stop: Any, step: int, index: Any) -> tuple[ast.expr, ast.expr]:
    """Returns expressions for the length of a range with this step, and for the item at `index`."""
    first, size = partial(start, ast.Load()), ast.Constant(abs(step))
    end = _call("max" if step > 0 else "min", first(), stop(ast.Load()))
    span = ast.BinOp(end, ast.Sub(), first()) if step > 0 else ast.BinOp(first(), ast.Sub(), end)
    length = ast.BinOp(ast.BinOp(span, ast.Add(), ast.Constant(abs(step) - 1)), ast.FloorDiv(), size)
    distance = ast.BinOp(index(ast.Load()), ast.Mult(), size)
    return length, ast.BinOp(first(), ast.Add() if step > 0 else ast.Sub(), distance)


def _is_range(node: ast.expr) -> bool:
    """True for a call of range, whose step is a constant other than 0."""
    match node:
        case ast.Call(ast.Name("range"), [_] | [_, _], []):
            return True
        case ast.Call(ast.Name("range"), [_, _, ast.Constant(step) | ast.UnaryOp(ast.USub(), ast.Constant(step))], []):
            return isinstance(step, int) and step != 0
    return False


def _is_iterator(node: ast.expr) -> bool:
    """True for a call of enumerate, zip, reversed or a range; other calls are of functions that return a sequence."""
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in ("enumerate", "zip", "reversed") or name.endswith("range")


def _is_supported_call(node: ast.expr) -> bool:
    """True for a call of range, enumerate, zip or reversed with arguments that kernels support as a sequence."""
    match node:
        case ast.Call(ast.Name("reversed"), [over], []):
            return _is_range(over) or not _is_iterator(over)
        case ast.Call(ast.Name("enumerate"), [_], [ast.keyword("start")]):
            return True
        case ast.Call(ast.Name("enumerate"), [_] | [_, _], []) | ast.Call(ast.Name("zip"), [_, *_], []):
            return True
        case ast.Call(ast.Name("zip"), [_, *_], [ast.keyword("strict", ast.Constant(False))]):
            return True
    return _is_range(node)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(BUILTIN + name, ast.Load()), list(args), [])
