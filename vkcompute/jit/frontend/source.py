"""The source of a Python function: its syntax tree, and errors that point into its text."""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import or_
from types import CodeType, FunctionType
from typing import Any

from vkcompute.errors import KernelError
from vkcompute.jit.frontend.desugaring import desugared

_PACKAGE = "vkcompute.jit."
_FUTURES = reduce(or_, [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names])


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
        code: the function's code, which the text was compared with; None for an expression.
    """

    file: str
    lines: list[str]
    above: int
    shift: int
    tree: ast.FunctionDef
    code: CodeType | None = None

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

    def too_deep(self) -> KernelError:
        """The error for a function whose nesting exceeds Python's recursion limit."""
        return self.error(self.tree, "this is nested too deeply; divide it into loops and variables")

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
    code = function.__code__
    try:
        lines, first = inspect.getsourcelines(function)
        shift = int(lines[0][:1].isspace())
        statement = ast.parse("if True:\n" * shift + "".join(lines)).body[0]
    except (OSError, TypeError):
        raise _no_source(name) from None
    except (SyntaxError, ValueError, tokenize.TokenError):
        raise changed(function) from None
    tree = statement.body[0] if isinstance(statement, ast.If) else statement
    decorated = hasattr(function, "__wrapped__")
    if not decorated and not (first == code.co_firstlineno and _has_code(tree, function)):
        raise changed(function)
    if not isinstance(tree, ast.FunctionDef):
        raise KernelError(f"{name} is not a plain function; write it with def")
    source = Source(code.co_filename, lines, first - 1 - shift, shift, tree, code)
    if decorated:
        where = [*tree.decorator_list, tree][0]
        raise source.error(where, f"{name} is decorated, and decorators are not compiled; remove the decorator")
    try:
        return replace(source, tree=desugared(tree))
    except RecursionError:
        raise source.too_deep() from None


def _has_code(definition: ast.stmt, function: FunctionType) -> bool:
    """True if the function's code is that of a definition, at any level of optimization.

    Since Python 3.11, `name.method()` has other code where a module imports the name. A notebook compiles each
    statement as a module.
    """
    code, wanted = function.__code__, [*code_parts(function.__code__)]
    cells = ast.arguments([], [ast.arg(name) for name in code.co_freevars], None, [], [], None, [])
    inner = _in_class(definition, function)
    names = {getattr(each, "name", function.__name__) for each in (inner, definition)}.difference(code.co_freevars)
    outer = ast.FunctionDef("outer", cells, [ast.Global([*names]), inner], [])
    for imported in (_names, lambda _: (), _imported):
        imports: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in imported(function)]
        module = ast.fix_missing_locations(ast.Module([*imports, outer], []))
        for level in (-1, 0, 1, 2):
            unit = compile(
                module, code.co_filename, "exec", code.co_flags & _FUTURES, dont_inherit=True, optimize=level
            )
            found = _codes(_codes(unit)[-1])[-1]
            while not found.co_flags & inspect.CO_OPTIMIZED or found.co_name.startswith("<generic"):
                found = _codes(found)[-1]  # a class, or the scope of type parameters
            if [*code_parts(found)] == wanted:
                return True
    return False


def _in_class(definition: ast.stmt, function: FunctionType) -> ast.stmt:
    """A definition in the class, if any, that mangles its names like __x."""
    path = getattr(function.__code__, "co_qualname", function.__qualname__).split(".")  # Python 3.11
    classes = [one for one, inner in pairwise(path) if one.isidentifier() and inner != "<locals>"]
    return ast.ClassDef(classes[-1], [], [], [definition], []) if classes else definition


def _names(function: FunctionType) -> set[str]:
    """The names that a function uses, of globals and of attributes."""
    pending, found = [function.__code__], set[str]()
    for code in pending:
        found.update(code.co_names)
        pending += _codes(code)
    return found


def _imported(function: FunctionType) -> set[str]:
    """The names that the file of a function imports."""
    try:
        pending: list[ast.AST] = [ast.parse("".join(inspect.findsource(function)[0]))]
    except SyntaxError:
        return set()
    found = set[str]()
    for node in pending:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(each.asname or each.name.partition(".")[0] for each in node.names)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            pending += ast.iter_child_nodes(node)
    return found


def _codes(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def code_parts(code: CodeType, first_line: int | None = None) -> Iterator[str]:
    """Texts of all parts of a code object but its place: the file, the first line and the enclosing scopes."""
    first_line = code.co_firstlineno if first_line is None else first_line
    flags, lines = code.co_flags & ~inspect.CO_NESTED, getattr(code, "co_linetable", b"")
    for part in (code.co_name, code.co_firstlineno - first_line, lines, flags, code.co_code, code.co_names):
        yield repr(part)
    for part in (code.co_argcount, code.co_kwonlyargcount, code.co_varnames, code.co_freevars, code.co_cellvars):
        yield repr(part)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from code_parts(each, first_line)
        else:
            yield f"{type(each).__name__} {sorted(map(repr, each)) if isinstance(each, frozenset) else each!r}"


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
    """Returns the source of a lambda: of those in its line, the first one with its code."""
    code = function.__code__
    try:
        lines, _ = inspect.findsource(function)
        nodes = ast.walk(ast.parse("".join(lines)))
    except (OSError, TypeError):
        raise _no_source("the lambda") from None
    except (SyntaxError, ValueError):
        raise changed(function) from None
    for node in nodes:
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _has_code(ast.Expr(node), function):
            return Source(code.co_filename, lines, 0, 0, function_def(node.args, node.body), code)
    raise changed(function)


def _no_source(name: str) -> KernelError:
    return KernelError(
        f"the source of {name} is not found, and kernels are compiled from their source; define it in a file or in a "
        "cell of a notebook, not at a prompt or by exec()"
    )


def changed(function: FunctionType) -> KernelError:
    """Returns the error for a function whose code is not that of its source."""
    code, name = function.__code__, "the lambda" if function.__name__ == "<lambda>" else function.__name__
    return KernelError(
        f"{code.co_filename}:{code.co_firstlineno}: the source of {name} has changed since it was imported, or another "
        "tool has changed its code, and kernels are compiled from their source; start Python again"
    )


def assigned(body: list[ast.stmt]) -> set[str]:
    """Returns the names that statements assign to."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
