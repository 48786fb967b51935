"""The source of a Python function: its syntax tree, and errors that point into its text."""

from __future__ import annotations
import __future__

import ast
import contextlib
import inspect
import io
import os
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import pairwise
from operator import or_
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from vkcompute.errors import KernelError
from vkcompute.frontend.code_objects import PROGRAM, code_parts, codes_in, has_generator, last_line
from vkcompute.frontend.desugaring import desugared
from vkcompute.frontend.syntax import mangled, parse

_PACKAGE = "vkcompute.jit."
_ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_TOO_DEEP = "; chains of elif, cases and operators count, too; divide it into functions, loops and variables"
_LINES: WeakKeyDictionary[FunctionType, list[str]] = WeakKeyDictionary()
_FUTURES = reduce(or_, [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names])


class NoSourceError(KernelError):
    """The source of a function is not found."""


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
        program: a text that was given for the function, and that may have the functions that it calls.
    """

    file: str
    lines: list[str]
    above: int
    shift: int
    tree: ast.FunctionDef
    code: CodeType | None = None
    program: str | None = None

    def location(self, node: ast.AST) -> tuple[int, int]:
        """Line and column of a node in the file, both from 1."""
        line: int = getattr(node, "lineno", self.tree.lineno)
        before = self._text(line).encode()[: getattr(node, "col_offset", 0)]
        return line + self.above, len(before.decode(errors="replace")) + 1

    def error(self, node: ast.AST, message: object) -> KernelError:
        """An error at a node: file, line, column and message; then the source line, and a caret below it."""
        line, column = self.location(node)
        text = self._text(line - self.above)
        blank = "".join("\t" if character == "\t" else " " for character in text[: column - 1])
        return KernelError(f"{self.file}:{line}:{column}: {message}\n    {text}\n    {blank}^")

    def too_deep(self) -> KernelError:
        """The error for a function whose nesting exceeds Python's recursion limit."""
        return self.error(self.tree, f"this is nested too deeply{_TOO_DEEP}")

    def _text(self, line: int) -> str:
        return self.lines[line - 1 - self.shift].rstrip()


class Definition:
    """A function and its source, which is read when it is first needed: a kernel from the disk cache needs none.

    Attributes:
        function: the function.
    """

    def __init__(self, function: FunctionType, source: Source | None = None) -> None:
        self.function = function
        if source is not None:
            self.source = source

    @cached_property
    def source(self) -> Source:
        """The source.

        Raises:
            KernelError: as `read`.
        """
        return read(self.function)

    @property
    def name(self) -> str:
        """The function's name; the text of an expression or of a lambda."""
        if self.function.__name__ != "<lambda>":
            return self.function.__name__
        tree = self.source.tree
        return f"lambda {ast.unparse(tree.args)}: {ast.unparse(tree.body[-1]).removeprefix('return ')}"

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters with their defaults."""
        return parameters_of(self.function)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self.function.__code__.co_varnames[: self.function.__code__.co_argcount]

    @property
    def functions(self) -> tuple[FunctionType, ...]:
        """The function."""
        return (self.function,)

    @property
    def sources(self) -> dict[FunctionType, Source]:
        """The source by the function."""
        return {self.function: self.source}

    @property
    def text(self) -> str:
        """Nothing else: kernels depend on the function alone."""
        return ""

    def call(self, c: Any, args: Sequence[Any]) -> Any:
        """Compiles a call with `c`, and returns its value."""
        return c.inline(self.function, list(args), {}, self.source.tree)

    def error(self, message: object) -> KernelError:
        """Returns an error at the function."""
        return self.source.error(self.source.tree, message)

    def too_deep(self) -> KernelError:
        """Returns the error of a function that is nested too deeply."""
        return self.source.too_deep()


def definition_of(
    function: FunctionType, what: str = "a kernel", program: str | None = None, *, takes_rest: bool = False
) -> Definition:
    """Returns a function with its source, whose text is that of today.

    Args:
        what: description of the function, for errors.
        program: a text that has the function.
        takes_rest: True if it may have a parameter *args.

    Raises:
        KernelError: there is no source, or a decorator replaced the function; or it has parameters that are not
            positional-or-keyword.
    """
    source = None if program is None else _found(function, program)
    if program is not None and source is None:
        raise KernelError(
            f"the text that is given as source has no function {function.__name__} with this code; give the text that "
            "was executed"
        )
    if source is None:
        keep_text(function)
    definition = Definition(function, source)
    for parameter in definition.signature.parameters.values():
        is_rest = takes_rest and parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD and not is_rest:
            raise definition.error(f"{what} takes positional-or-keyword parameters only; got {parameter}")
    return definition


def keep_text(function: FunctionType) -> None:
    """Keeps the text of a function's file, so that the file may change before the function is compiled.

    Raises:
        KernelError: there is no source, or a decorator replaced the function.
    """
    lines = lines_of(function)
    if lines:
        _LINES[function] = lines
    if not lines or hasattr(function, "__wrapped__") or function.__code__.co_flags & _ASYNCHRONOUS:
        read(function)


def lines_of(function: FunctionType) -> list[str]:
    """Returns the lines of a function's file: those of `keep_text`, else today's. There are none without a file."""
    lines = _LINES.get(function)
    if lines is None:
        with contextlib.suppress(OSError, TypeError):
            lines = inspect.findsource(function)[0]
    return lines or []


def read(function: FunctionType, program: str | None = None) -> Source:
    """Returns the source of a function.

    Args:
        program: a text that may have it. Else it is in the file, or in a program that has none.

    Raises:
        KernelError: the source is not available, is not a plain `def`, or a decorator replaced the function.
    """
    if hasattr(function, "__wrapped__"):
        raise _decorated(function)
    try:
        return _read(function, program)
    except RecursionError:
        location = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        raise KernelError(f"{location}: {function.__name__} is nested too deeply{_TOO_DEEP}") from None


def _read(function: FunctionType, program: str | None) -> Source:
    """Returns the source of a function that no decorator replaced; raises as `read`."""
    for text in (program, vars(function).get(PROGRAM)):
        source = None if text is None else _found(function, text)
        if source is not None:
            return source
    if function.__name__ == "<lambda>":
        return _lambda(function)
    lines, code = lines_of(function), function.__code__
    if not lines:
        return _in_program(function, _no_source(function))
    for text in _texts(lines, code):
        shift = int(text[0][:1].isspace())
        tree = _parsed(text, shift)
        if tree is not None and _has_code(tree, function):
            if not isinstance(tree, ast.FunctionDef):
                raise KernelError(f"{function.__name__} is not a plain function; write it with def")
            source = Source(code.co_filename, text, code.co_firstlineno - 1 - shift, shift, tree, code)
            return _desugared(source, function)
    return _in_program(function, changed(function))


def _texts(lines: list[str], code: CodeType) -> Iterator[list[str]]:
    """Yields texts that may be that of a function: to the next line with less indentation, and as a tokenizer ends it.

    The second one takes ten times as long.
    """
    first, last = code.co_firstlineno - 1, last_line(code)
    if first < len(lines):
        margin = _indentation(lines[first])
        ends = (n for n in range(last, len(lines)) if lines[n].strip() and _indentation(lines[n]) <= margin)
        yield lines[first : next(ends, len(lines))]
        with contextlib.suppress(SyntaxError, tokenize.TokenError):
            yield inspect.getblock(lines[first:])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parsed(text: list[str], shift: int) -> ast.stmt | None:
    """Returns the definition that a text begins with; None if there is none."""
    try:
        body = parse("if True:\n" * shift + "".join(text)).body[:1]
    except (SyntaxError, ValueError):
        return None
    inner = body[0].body if body and isinstance(body[0], ast.If) else body
    return inner[0] if inner and isinstance(inner[0], (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _decorated(function: FunctionType) -> KernelError:
    """Returns the error for a function that a decorator replaced, at the decorator."""
    message = f"{function.__name__} is decorated, and decorators are not compiled; remove the decorator"
    if not isinstance(inner := inspect.unwrap(function), FunctionType):
        return KernelError(message)
    source = read(inner)
    return source.error([*source.tree.decorator_list, source.tree][0], message)


def _desugared(source: Source, function: FunctionType) -> Source:
    """Returns the source with its tree desugared, and with the names that Python mangles in a class."""
    try:
        tree = mangled(source.tree, _class_of(function))
        return replace(source, tree=desugared(tree, generators=has_generator(source.code)))
    except RecursionError:
        raise source.too_deep() from None


def _in_program(function: FunctionType, error: KernelError) -> Source:
    """Returns the source of a function in the program that Python reads from its command line or its input.

    Raises:
        KernelError: `error`, for a function that is not from such a program.
    """
    file = function.__code__.co_filename
    for program in _programs(file, function.__globals__.get("In")):
        source = _found(function, program)
        if source is not None:
            return source
    raise _no_source(function) if file in ("<string>", "<stdin>") else error


def _programs(file: str, cells: Any) -> Iterator[str]:
    """Yields texts that may be the program of `python -c`, of a file that is its standard input, or of a cell magic.

    IPython keeps the cells in the list `In`; one that begins with %%time is a call with the program as a string.
    """
    if file == "<string>":
        for text in sys.orig_argv[1:]:
            yield from (text, textwrap.dedent(text))  # Python 3.14 removes the indentation
    elif file == "<stdin>":
        with contextlib.suppress(OSError, UnicodeDecodeError, AttributeError):  # a pipe; Windows has no pread
            yield os.pread(0, os.fstat(0).st_size, 0).decode()
    elif file.startswith("<") and isinstance(cells, list):
        for cell in [source for source in reversed(cells) if "run_cell_magic" in source]:
            with contextlib.suppress(SyntaxError):
                nodes = [node for node in ast.walk(parse(cell)) if isinstance(node, ast.Constant)]
                yield from (node.value for node in nodes if isinstance(node.value, str))


def _found(function: FunctionType, program: str) -> Source | None:
    """Returns the source of a function in a text that has it, at any line."""
    try:
        nodes = [*ast.walk(parse(program))]
    except (SyntaxError, ValueError):
        return None
    lines, code = io.StringIO(program, newline=None).readlines(), function.__code__
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__ and _has_code(node, function, program):
            first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
            ast.increment_lineno(node, 1 - first)
            text = lines[first - 1 : first - 1 + (node.end_lineno or 1)]
            above = code.co_firstlineno - 1
            return _desugared(Source(code.co_filename, text, above, 0, node, code, program), function)
    return _of_lambda(function, lines, nodes, program) if function.__name__ == "<lambda>" else None


def _has_code(definition: ast.stmt, function: FunctionType, program: str = "") -> bool:
    """True if the function's code is that of a definition, at any level of optimization.

    The definition is from a program, or from the function's file.

    Since Python 3.11, `name.method()` has other code where a module imports the name. A notebook compiles each
    statement as a module.
    """
    code, wanted = function.__code__, [*code_parts(function.__code__)]
    cells = ast.arguments([], [ast.arg(name) for name in code.co_freevars], None, [], [], None, [])
    inner = _in_class(definition, function)
    names = {getattr(statement, "name", function.__name__) for statement in (inner, definition)}.difference(
        code.co_freevars
    )
    declared: list[ast.stmt] = [ast.Global([*names])] if names else []  # a function that names itself has a cell
    outer = ast.fix_missing_locations(ast.FunctionDef("outer", cells, declared, []))
    outer.body.append(inner)  # which has its locations
    for modules in (partial(_names, function), tuple, partial(imported, function, program)):
        imports: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in modules()]
        module = ast.Module([*map(ast.fix_missing_locations, imports), outer], [])
        for level in (-1, 0, 1, 2):
            unit = compile(
                module, code.co_filename, "exec", code.co_flags & _FUTURES, dont_inherit=True, optimize=level
            )
            compiled = codes_in(codes_in(unit)[-1])[-1]
            while not compiled.co_flags & inspect.CO_OPTIMIZED or compiled.co_name.startswith("<generic"):
                compiled = codes_in(compiled)[-1]  # a class, or the scope of type parameters
            if [*code_parts(compiled)] == wanted or _is_rewritten(code, compiled):
                return True
    return False


def _is_rewritten(code: CodeType, plain: CodeType) -> bool:
    """True if pytest made a code of the plain one: it replaces the asserts, and keeps all other names."""
    if "@pytest_ar" not in code.co_names:
        return False
    names = tuple([name for name in code.co_varnames if not name.startswith("@")])
    return (code.co_argcount, names, code.co_freevars) == (
        plain.co_argcount, plain.co_varnames, plain.co_freevars,
    ) and {*plain.co_names} <= {*code.co_names}  # fmt: skip


def _in_class(definition: ast.stmt, function: FunctionType) -> ast.stmt:
    """A definition in the class, if any, that mangles its names like __x."""
    name = _class_of(function)
    if not name:
        return definition
    class_def = ast.fix_missing_locations(ast.ClassDef(name, [], [], [], []))
    class_def.body.append(definition)
    return class_def


def _class_of(function: FunctionType) -> str:
    """The name of the innermost class around a function, or nothing."""
    path = getattr(function.__code__, "co_qualname", function.__qualname__).split(".")  # Python 3.11
    classes = [one for one, inner in pairwise(path) if one.isidentifier() and inner != "<locals>"]
    return classes[-1] if classes else ""


def _names(function: FunctionType) -> set[str]:
    """The names that a function uses, of globals and of attributes."""
    pending, names = [function.__code__], set[str]()
    for code in pending:
        names.update(code.co_names)
        pending += codes_in(code)
    return names


def imported(function: FunctionType, program: str) -> frozenset[str]:
    """The names that a program imports, or else the file of a function."""
    return _imported(program or "".join(lines_of(function)))


@lru_cache(maxsize=64)  # a file may have many functions
def _imported(text: str) -> frozenset[str]:
    try:
        pending: list[ast.AST] = [parse(text)]
    except SyntaxError:
        return frozenset()
    names = set[str]()
    for node in pending:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            pending += ast.iter_child_nodes(node)
    return frozenset(names)


def parameters_of(function: Callable[..., object]) -> inspect.Signature:
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
    definition = ast.FunctionDef("<lambda>", arguments, [ast.Return(body)], [])
    return ast.fix_missing_locations(ast.copy_location(definition, body))


def _lambda(function: FunctionType) -> Source:
    """Returns the source of a lambda."""
    lines = lines_of(function)
    if not lines:
        return _in_program(function, _no_source(function))
    try:
        nodes = ast.walk(parse("".join(lines)))
    except (SyntaxError, ValueError):
        raise changed(function) from None
    return _of_lambda(function, lines, nodes) or _in_program(function, changed(function))


def _of_lambda(
    function: FunctionType, lines: list[str], nodes: Iterable[ast.AST], program: str | None = None
) -> Source | None:
    """Returns the source of a lambda: of those in its line, the first one with its code."""
    code = function.__code__
    for node in nodes:
        if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        if _has_code(ast.copy_location(ast.Expr(node), node), function, program or ""):
            tree = mangled(function_def(node.args, node.body), _class_of(function))
            return Source(code.co_filename, lines, 0, 0, tree, code, program)
    return None


def _no_source(function: FunctionType) -> KernelError:
    name = "the lambda" if function.__name__ == "<lambda>" else function.__name__
    remedy = "define it in a file or in a cell of a notebook"
    if function.__code__.co_filename == "<stdin>":
        remedy = "a pipe or a prompt cannot be read again: run the program as a file, as python FILE or python < FILE"
    return NoSourceError(f"the source of {name} is not found, and functions are compiled from their source; {remedy}")


def changed(function: FunctionType) -> KernelError:
    """Returns the error for a function whose code is not that of its source."""
    code, name = function.__code__, "the lambda" if function.__name__ == "<lambda>" else function.__name__
    return KernelError(
        f"{code.co_filename}:{code.co_firstlineno}: the source of {name} has changed since it was imported, or another "
        "tool has changed its code, and kernels are compiled from their source; start Python again"
    )
