"""The syntax tree of a function, and errors that point into its text."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import partial
from types import FunctionType

from vkcompute.errors import KernelError
from vkcompute.jit.sequences import over_places


class Refused(Exception):
    """What kernels cannot do, said where the place is not known: whoever evaluates the expression adds it."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a function is written.

    Attributes:
        file: its path, as in tracebacks.
        lines: its text, decorators included.
        above: lines of the file before those, less those put in front for the parser.
        shift: lines put in front.
        tree: its definition; line numbers count from those put in front.
    """

    file: str
    lines: list[str]
    above: int
    shift: int
    tree: ast.FunctionDef

    def place(self, node: ast.AST) -> tuple[int, int]:
        """Line and column in the file, both from 1."""
        line: int = getattr(node, "lineno", self.tree.lineno)
        before = self._text(line).encode()[: getattr(node, "col_offset", 0)]
        return line + self.above, len(before.decode(errors="replace")) + 1

    def error(self, node: ast.AST, message: object) -> KernelError:
        """The error: file, line, column and message; the line of source; a caret below."""
        line, column = self.place(node)
        text = self._text(line - self.above)
        blank = "".join("\t" if each == "\t" else " " for each in text[: column - 1])
        return KernelError(f"{self.file}:{line}:{column}: {message}\n    {text}\n    {blank}^")

    def _text(self, line: int) -> str:
        return self.lines[line - 1 - self.shift].rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A function, and where it is written."""

    function: FunctionType
    source: Source


def read(function: FunctionType) -> Source:
    """The source of a function. Decorators may have noted it somewhere, but not put another in its place.

    Raises:
        KernelError: there is no text, or it is no plain `def`.
    """
    name = function.__name__
    if name == "<lambda>":
        return _lambda(function)
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise _no_source(name) from None
    shift = int(lines[0][:1].isspace())
    try:
        statement = ast.parse("if True:\n" * shift + "".join(lines)).body[0]
    except SyntaxError:
        raise KernelError(f"the source of {name} has changed since it was imported; start Python again") from None
    tree = statement.body[0] if isinstance(statement, ast.If) else statement
    if not isinstance(tree, ast.FunctionDef):
        raise KernelError(f"{name} is no plain function; write it with def")
    source = Source(function.__code__.co_filename, lines, first - 1 - shift, shift, over_places(tree))
    if hasattr(function, "__wrapped__"):
        where = [*tree.decorator_list, tree][0]
        raise source.error(where, f"{name} is decorated, and what a decorator does is not compiled")
    return source


def definition(arguments: ast.arguments, body: ast.expr) -> ast.FunctionDef:
    """A function that returns the expression."""
    found = ast.FunctionDef("<lambda>", arguments, [ast.Return(body)], [])
    return ast.fix_missing_locations(ast.copy_location(found, body))


def _lambda(function: FunctionType) -> Source:
    """The source of a lambda: of several in its line the innermost in whose body all of its code is."""
    code = function.__code__
    try:
        lines, _ = inspect.findsource(function)
    except (OSError, TypeError):
        raise _no_source("the lambda") from None
    try:
        nodes = ast.walk(ast.parse("".join(lines)))
    except SyntaxError:
        raise KernelError("the source of the lambda has changed since it was imported; start Python again") from None
    found = [node for node in nodes if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    if len(found) > 1 and hasattr(code, "co_positions"):  # Python 3.11
        places = [(line or 0, column or 0) for line, _, column, end in code.co_positions() if end]
        found = [node for node in found if places and all(map(partial(_inside, node.body), places))][-1:]
    if len(found) != 1:
        where = f"{code.co_filename}:{code.co_firstlineno}"
        raise KernelError(f"{where}: this line has {len(found)} lambdas; write each in a line of its own, or with def")
    return Source(code.co_filename, lines, 0, 0, definition(found[0].args, found[0].body))


def _inside(node: ast.expr, place: tuple[int, int]) -> bool:
    return (node.lineno, node.col_offset) <= place < (node.end_lineno or 0, node.end_col_offset or 0)


def _no_source(name: str) -> KernelError:
    return KernelError(
        f"the source of {name} is not found, and kernels are compiled from their source; define it in a file or in a "
        "cell of a notebook, not at a prompt or by exec()"
    )


def assigned(body: list[ast.stmt]) -> set[str]:
    """The names that statements assign to."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
