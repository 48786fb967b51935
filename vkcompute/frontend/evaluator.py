"""The evaluator of Python's syntax trees: an interpreter whose numbers are operations of `ir/`.

It evaluates the tree of a function once. What values are, and what operators and functions do with them, is up to a
`Language`. Compile-time constants (captured globals, tuples, functions) stay Python objects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.compiled.arguments import bind
from vkcompute.compiled.captured import Table
from vkcompute.errors import IrError, KernelError
from vkcompute.frontend.captured import Captured
from vkcompute.frontend.code_objects import nested_function
from vkcompute.frontend.control_flow import ControlFlow
from vkcompute.frontend.language import Handler, Language
from vkcompute.frontend.scopes import Scope
from vkcompute.frontend.source import Source, changed, is_internal, parameters_of, read
from vkcompute.frontend.syntax import assigned, returns
from vkcompute.frontend.unsupported import UnsupportedError

_MOST_NODES = 100_000  # compiled in about 1 s; drivers take up to 20 s


class RebuildError(Exception):
    """The program has to be built again, with what the language has learned."""


@dataclass(slots=True)
class Frame:
    """A function whose body is being evaluated.

    Attributes:
        locals: names that it assigns to.
        scope: its variables and loops.
        outer: of a nested function, the function in which it is defined.
        call: the call at which it is inlined; None for the program itself.
    """

    function: FunctionType
    source: Source
    locals: set[str]
    call: ast.AST | None = None
    scope: Scope = field(default_factory=partial(Scope, inlined=True))
    outer: Frame | None = None


class Here:
    """The location of a node in a function that is being evaluated."""

    __slots__ = ("_evaluator", "node")

    def __init__(self, evaluator: Evaluator, node: ast.AST) -> None:
        self._evaluator, self.node = evaluator, node

    @property
    def line(self) -> int:
        """The number of its line."""
        return self._evaluator.frames[-1].source.location(self.node)[0]

    def error(self, message: object) -> KernelError:
        """Returns an error at the node."""
        return self._evaluator.error(self.node, message)


class Evaluator:
    """Evaluates the functions of one program.

    Attributes:
        language: that of the innermost function.
        flow: the variables and the control flow.
        frames: the program and the functions being inlined, the innermost last.
        node: the syntax node being evaluated.
        sources: sources of the functions that have been inlined.
        nested: nested functions, and the frames in which they are defined.
        captured: globals found outside of the program.
        most_levels: the most nested calls of a function that calls itself, with the first; 0 for no stack.
        recursive: functions that call themselves, with the dump of the expression by which they do.
        stacks: the stacks of functions whose calls are being built.
        n_nodes: expressions and statements evaluated so far.
        around: evaluates a node by its handler in place of `evaluate`, to observe it; None for none.
    """

    def __init__(self, language: Language, builder: ir.Builder) -> None:
        self.language, self.flow = language, ControlFlow(builder, language)
        self.frames: list[Frame] = []
        self.node: ast.AST = ast.Pass()
        self.sources: dict[FunctionType, Source] = {}
        self.nested: dict[FunctionType, Frame] = {}
        self.captured = Captured(language.suggestion)
        self.most_levels = 0
        self.recursive: dict[FunctionType, str] = {}
        self.stacks: dict[FunctionType, Any] = {}
        self.n_nodes = 0
        self.around: Callable[[Handler, ast.AST], Any] | None = None

    # -- nodes --------------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """Evaluates an expression.

        Raises:
            KernelError: the language does not support it.
        """
        return (self.around or self.evaluate)(self.language.expressions.get(type(node), _unsupported), node)

    def handled(self, handler: Handler, node: ast.AST) -> Any:
        """Evaluates a node by a handler of its own."""
        return (self.around or self.evaluate)(handler, node)

    def statement(self, node: ast.stmt) -> None:
        """Evaluates a statement."""
        (self.around or self.evaluate)(self.language.statements.get(type(node), _unsupported), node)

    def located(self, work: Callable[[Any], Any], node: ast.AST) -> Any:
        """Returns `work(node)`; unsupported operations raise a KernelError at this node."""
        return (self.around or self.evaluate)(lambda _, inner: work(inner), node)

    def evaluate(self, handler: Handler, node: ast.AST) -> Any:
        """Returns `handler(self, node)`; unsupported operations raise a KernelError at this node."""
        self.n_nodes += 1
        if self.n_nodes > _MOST_NODES:
            raise self.error(
                node,
                f"a kernel has at most {_MOST_NODES:,} expressions and statements, those of a function once per call; "
                "this one exceeds the limit; call the function in a loop, or divide the kernel",
            )
        outer, self.node = self.node, node
        try:
            return handler(self, node)
        except (UnsupportedError, IrError) as error:
            raise self.error(node, error) from None
        finally:
            self.node = outer

    def here(self, node: ast.AST) -> Here:
        """Returns the location of a node in the innermost function."""
        return Here(self, node)

    def error(self, node: ast.AST, message: object) -> KernelError:
        """Returns an error at a node with the calls that led there; internal functions appear as their call."""
        frames = list(self.frames)
        while len(frames) > 1 and is_internal(frames[-1].function):
            node = frames.pop().call or node
        frames = [frame for frame in frames if not is_internal(frame.function)] or frames
        text = str(frames[-1].source.error(node, message))
        for outer, inner in zip(frames[-2::-1], frames[:0:-1], strict=True):
            text += f"\n{outer.source.error(inner.call or node, f'in this call of {inner.function.__name__}')}"
        return KernelError(text)

    def unpacked(self, node: ast.expr) -> tuple[Any, ...]:
        """Evaluates an item of a tuple, a list or a call, which is several if it is `*values`."""
        if not isinstance(node, ast.Starred):
            return (self.value(node),)
        values = self.language.items(self.value(node.value))
        if not isinstance(values, tuple):
            rule = f"* takes a tuple, a vector or a list; got {self.language.describe(values)}"
            raise self.error(node, rule)
        return tuple(values)

    def captured_value(self, owner: Any, key: Any, name: str, *, item: bool = False) -> Any:
        """Returns a value from outside of the program: a constant, or a table."""
        value = self.captured.look_up(owner, key, name, item=item)
        return self.language.table(value, name) if isinstance(value, Table) else value

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Evaluates statements in order, as far as control reaches."""
        scope = self.flow.scopes[-1]
        if scope.inlined and not scope.loops:
            statements = _with_else(statements)
        self.flow.block(statements, self.statement, self.here)

    # -- functions ----------------------------------------------------------------------------------------------------

    def run(self, function: FunctionType, source: Source, args: dict[str, Any]) -> None:
        """Evaluates the body of the program itself."""
        if source.code is not function.__code__:
            raise changed(function)

        def build() -> None:
            frame = Frame(function, source, {*args, *assigned(source.tree.body)}, scope=self.flow.scopes[-1])
            self.frames.append(frame)
            self.block(source.tree.body)

        self._rebuilt(partial(self.flow.program, args, build))

    def inline(
        self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST, language: Language
    ) -> Any:
        """Evaluates the body of a function in the place of a call, and returns its value.

        Args:
            node: the call.
            language: that of the function.
        """
        work = partial(self._expanded, function, args, named, node, language)
        return work() if self.frames else self._rebuilt(work)

    def _rebuilt(self, work: Callable[[], Any]) -> Any:
        """Returns `work()`, which is done again as long as the language learns by it."""
        rewind, n_nodes, language = self.flow.checkpoint(), self.n_nodes, self.language
        try:
            return work()
        except RebuildError:
            rewind()
            self.n_nodes, self.language = n_nodes, language
            self.frames.clear()
        return self._rebuilt(work)

    def _expanded(
        self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST, language: Language
    ) -> Any:
        source = self._source_of(function, node)
        try:
            bound = bind(parameters_of(function), args, named)
        except TypeError as error:
            raise UnsupportedError(f"{function.__name__}: {error}") from None
        bound.apply_defaults()

        def build() -> None:
            names = {*bound.arguments, *assigned(source.tree.body)}
            self.frames.append(Frame(function, source, names, node, self.flow.scopes[-1], self.nested.get(function)))
            outer, self.language = self.language, language
            self.block(source.tree.body)
            self.language = outer
            self.frames.pop()

        return self.flow.call(function.__name__, bound.arguments, build, language)

    def _source_of(self, function: FunctionType, node: ast.AST) -> Source:
        """Returns the source of a function to inline at a call.

        Raises:
            UnsupportedError: it calls itself, or its source has changed.
        """
        depth = sum(frame.function is function for frame in self.frames)
        if depth > self.language.most_recursions:
            self._note_recursion(function, node)
            deep = f" {depth} deep, and its constants do not end that" if self.language.most_recursions else ""
            direct = "only a function defined outside of the kernel may call itself, and only directly"
            rule = direct if self.most_levels else "kernels have no recursion"
            raise UnsupportedError(f"{function.__name__} calls itself{deep}; {rule}: write a loop")
        if function not in self.sources:
            try:
                self.sources[function] = read(function, self.frames[0].source.program if self.frames else None)
            except KernelError as error:  # without a source location, unless it is in the function's own text
                raise (error if "\n" in str(error) else UnsupportedError(str(error))) from None
        source = self.sources[function]
        if source.code not in (None, function.__code__):
            raise UnsupportedError(str(changed(function)))
        return source

    def _note_recursion(self, function: FunctionType, node: ast.AST) -> None:
        """Notes that a function calls itself at a node, and raises RebuildError, if there is a stack for it."""
        is_direct = self.frames[-1].function is function and function not in self.nested
        if self.most_levels and is_direct and isinstance(node, ast.Call):
            self.recursive[function] = ast.dump(node.func)
            raise RebuildError

    def define(self, definition: ast.FunctionDef) -> FunctionType:
        """Returns a nested function; its defaults are evaluated here, and the outer variables where it is called."""
        args, frame = definition.args, self.frames[-1]
        positional = [*args.posonlyargs, *args.args]
        pairs = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
        pairs += [
            (arg, default)
            for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
            if default is not None
        ]
        defaults = {arg.arg: self.value(default) for arg, default in pairs}
        function = nested_function(definition, frame.function, defaults)
        self.sources[function] = replace(frame.source, tree=definition, code=None)
        self.nested[function] = frame
        return function


def _unsupported(evaluator: Evaluator, node: ast.AST) -> Any:
    """Raises the error for an expression or statement that the language lacks."""
    language = evaluator.language
    raise UnsupportedError(f"not supported in {language.programs}: {language.unsupported(node)}")


def _with_else(statements: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Makes what follows `if …: return` its else, so that the condition is tested once."""
    for n, statement in enumerate(statements):
        if isinstance(statement, ast.If) and not statement.orelse and returns(statement.body):
            whole = ast.If(statement.test, statement.body, list(statements[n + 1 :]))
            return [*statements[:n], ast.copy_location(whole, statement)]
    return statements
