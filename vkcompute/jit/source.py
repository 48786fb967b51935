"""The syntax tree of a function, and errors that point into its text."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from types import FunctionType

from vkcompute.errors import KernelError


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


def read(function: FunctionType) -> Source:
    """The source of a function. Decorators may have noted it somewhere, but not put another in its place.

    Raises:
        KernelError: there is no text, or it is no plain `def`.
    """
    name = function.__name__
    if name == "<lambda>":
        raise KernelError("a lambda cannot be compiled; write it as a function with def")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise KernelError(
            f"the source of {name} is not found, and kernels are compiled from their source; define it in a file or in "
            "a cell of a notebook, not at a prompt or by exec()"
        ) from None
    shift = int(lines[0][:1].isspace())
    try:
        statement = ast.parse("if True:\n" * shift + "".join(lines)).body[0]
    except SyntaxError:
        raise KernelError(f"the source of {name} has changed since it was imported; start Python again") from None
    tree = statement.body[0] if isinstance(statement, ast.If) else statement
    if not isinstance(tree, ast.FunctionDef):
        raise KernelError(f"{name} is no plain function; write it with def")
    source = Source(function.__code__.co_filename, lines, first - 1 - shift, shift, tree)
    if hasattr(function, "__wrapped__"):
        where = [*tree.decorator_list, tree][0]
        raise source.error(where, f"{name} is decorated, and what a decorator does is not compiled")
    return source


def assigned(body: list[ast.stmt]) -> set[str]:
    """The names that statements assign to."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
