"""The source of a Python function: its syntax tree, and errors that point into its text."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute.errors import KernelError
from vkcompute.jit.frontend.desugaring import desugared

_PACKAGE = "vkcompute.jit."


class UnsupportedError(Exception):
    """An operation that kernels do not support; `Context.located` makes it a KernelError with a source location."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text and the syntax tree of a function.

    Attributes:
        file: path, as in tracebacks.
        lines: the text, decorators included.
        above: lines of the file before the text, less `shift`.
        shift: lines that were put in front of the text for the parser.
        tree: the definition; its line numbers include `shift`.
    """

    file: str
    lines: list[str]
    above: int
    shift: int
    tree: ast.FunctionDef

    def location(self, node: ast.AST) -> tuple[int, int]:
        """Line and column of a node in the file, both from 1."""
        line: int = getattr(node, "lineno", self.tree.lineno)
        before = self._text(line).encode()[: getattr(node, "col_offset", 0)]
        return line + self.above, len(before.decode(errors="replace")) + 1

    def error(self, node: ast.AST, message: object) -> KernelError:
        """An error at a node: file, line, column and message; then the source line, and a caret below it."""
        line, column = self.location(node)
        text = self._text(line - self.above)
        blank = "".join("\t" if each == "\t" else " " for each in text[: column - 1])
        return KernelError(f"{self.file}:{line}:{column}: {message}\n    {text}\n    {blank}^")

    def _text(self, line: int) -> str:
        return self.lines[line - 1 - self.shift].rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A function and its source."""

    function: FunctionType
    source: Source


def definition_of(function: FunctionType, what: str = "a kernel") -> Definition:
    """Returns a function with its source.

    Args:
        what: description of the function, for errors.

    Raises:
        KernelError: as `read`; or it has parameters that are not positional-or-keyword.
    """
    source = read(function)
    for parameter in parameters_of(function).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise source.error(source.tree, f"{what} takes positional-or-keyword parameters only; got {parameter}")
    return Definition(function, source)


def read(function: FunctionType) -> Source:
    """Returns the source of a function.

    Raises:
        KernelError: the source is not available, is not a plain `def`, or a decorator replaced the function.
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
        raise _changed(name) from None
    tree = statement.body[0] if isinstance(statement, ast.If) else statement
    if not isinstance(tree, ast.FunctionDef):
        raise KernelError(f"{name} is not a plain function; write it with def")
    source = Source(function.__code__.co_filename, lines, first - 1 - shift, shift, desugared(tree))
    if hasattr(function, "__wrapped__"):
        where = [*tree.decorator_list, tree][0]
        raise source.error(where, f"{name} is decorated, and decorators are not compiled; remove the decorator")
    return source


def parameters_of(function: FunctionType) -> inspect.Signature:
    """Returns the signature of a function; its annotations may contain names that do not exist."""
    return inspect.signature(function, **unevaluated("annotation_format"))


def unevaluated(option: str) -> dict[str, Any]:
    """Returns keyword arguments that leave annotations unevaluated where a name does not exist."""
    # Python 3.14 evaluates annotations on access; 3 is annotationlib.Format.FORWARDREF.
    return {option: 3} if sys.version_info >= (3, 14) else {}


def is_internal(function: Callable[..., object]) -> bool:
    """True for this package's own functions in the kernel language, which error messages do not show."""
    return str(function.__module__).startswith(_PACKAGE)


def function_def(arguments: ast.arguments, body: ast.expr) -> ast.FunctionDef:
    """Returns the syntax tree of a function that returns the expression."""
    found = ast.FunctionDef("<lambda>", arguments, [ast.Return(body)], [])
    return ast.fix_missing_locations(ast.copy_location(found, body))


def _lambda(function: FunctionType) -> Source:
    """Returns the source of a lambda. Of several in one line, it is the innermost that contains all of its code."""
    code = function.__code__
    try:
        lines, _ = inspect.findsource(function)
    except (OSError, TypeError):
        raise _no_source("the lambda") from None
    try:
        nodes = ast.walk(ast.parse("".join(lines)))
    except SyntaxError:
        raise _changed("the lambda") from None
    found = [node for node in nodes if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    if len(found) > 1 and hasattr(code, "co_positions"):  # Python 3.11
        locations = [(line or 0, column or 0) for line, _, column, end in code.co_positions() if end]
        found = [node for node in found if locations and all(map(partial(_is_inside, node.body), locations))][-1:]
    if len(found) != 1:
        where = f"{code.co_filename}:{code.co_firstlineno}"
        raise KernelError(f"{where}: this line has {len(found)} lambdas; write each on a line of its own, or with def")
    return Source(code.co_filename, lines, 0, 0, function_def(found[0].args, found[0].body))


def _is_inside(node: ast.expr, location: tuple[int, int]) -> bool:
    return (node.lineno, node.col_offset) <= location < (node.end_lineno or 0, node.end_col_offset or 0)


def _no_source(name: str) -> KernelError:
    return KernelError(
        f"the source of {name} is not found, and kernels are compiled from their source; define it in a file or in a "
        "cell of a notebook, not at a prompt or by exec()"
    )


def _changed(name: str) -> KernelError:
    return KernelError(f"the source of {name} has changed since it was imported; start Python again")


def assigned(body: list[ast.stmt]) -> set[str]:
    """Returns the names that statements assign to."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
