"""Statements, and the functions that are made of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute.errors import KernelError
from vkcompute.ir import INT32, INT64, SCALARS, Constant, Scalar, Value
from vkcompute.jit import library
from vkcompute.jit.annotations import parameters_of
from vkcompute.jit.control import RESULT, RETURNED, Control, LoopWays
from vkcompute.jit.expressions import GOES_OVER, SIGNS, Build, Frame, indexed
from vkcompute.jit.source import Refused, Source, assigned, read
from vkcompute.jit.values import Kind, Number, Row, Vector, describe, is_python

_INSTEAD: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.Assert, ast.Raise), "assert and raise; write to a tensor, and check it on the host"),
    ast.Try: "try; nothing raises on the device",
    ast.With: "with",
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), "a nested function; define it outside, and call it"),
    ast.ClassDef: "a class; use tuples",
    **dict.fromkeys((ast.Import, ast.ImportFrom), "import; import outside of the kernel"),
    ast.Delete: "del; variables end with the kernel",
    ast.Global: "global; write to a tensor",
    ast.Nonlocal: "nonlocal; return the value",
    ast.Match: "match; write if and elif",
}
_WALKERS: dict[type, str] = {
    enumerate: "enumerate takes a sequence, and the number to start at",
    zip: "zip takes one sequence or more, and goes as far as the shortest; strict=True cannot raise in a kernel",
    reversed: "a for loop goes over no reversed(…) in kernels; write range(2, -1, -1) for reversed(range(3))",
}


class Statements(Control):
    """Compiles the statements of the kernel and of the functions that it calls."""

    def run(self, function: FunctionType, source: Source, args: dict[str, Any]) -> None:
        """Compiles the body of the kernel itself."""
        self.frames.append(Frame(function, source, {*args, *assigned(source.tree.body)}))
        self.env = dict(args)
        self._block(source.tree.body)

    def call(self, name: str, *args: Any) -> Any:
        """The value of a function of the library, which is compiled here."""
        return self.inline(getattr(library, name), list(args), {}, self.node)

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """The value of a call of a Python function, whose body is compiled in its place."""
        if any(frame.function is function for frame in self.frames):
            raise Refused(f"{function.__name__} calls itself, which kernels cannot; write a loop")
        if function not in self.sources:
            try:
                self.sources[function] = read(function)
            except KernelError as error:  # which has no place, unless it is in the function's own text
                raise (error if "\n" in str(error) else Refused(str(error))) from None
        source = self.sources[function]
        try:
            bound = parameters_of(function).bind(*args, **named)
        except TypeError as error:
            raise Refused(f"{function.__name__}: {error}") from None
        bound.apply_defaults()
        outer = self.env
        self.frames.append(Frame(function, source, {*bound.arguments, *assigned(source.tree.body)}, node))
        self.env = {**bound.arguments, RETURNED: False}
        self._block(source.tree.body)
        self.frames.pop()
        inner, self.env = self.env, outer
        result = inner.get(RESULT)
        if result is not None and inner[RETURNED] is not True:
            raise Refused(f"{function.__name__} returns a value on some of its ways only; end it with a return")
        return result

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        """Statements one after the other, as far as control comes."""
        loops, inlined = self.frames[-1].loops, self.frames[-1].call is not None
        for n, each in enumerate(statements):
            rest = statements[n + 1 :]
            tail = inlined and not loops and isinstance(each, ast.If) and not each.orelse and _returns(each.body)
            if tail and isinstance(each, ast.If):  # what follows `if …: return` is its else: no need to ask again
                each, rest = ast.copy_location(ast.If(each.test, each.body, list(rest)), each), []
            self.located(partial(_STATEMENTS.get(type(each), Statements._refused), self), each)
            returned = self.env.get(RETURNED, False)
            if not self.alive or tail or (returned is True and not loops):
                return
            if returned is not False and loops:
                self._when(returned, self._break, partial(self._go_on, False), each)
            elif returned is not False:
                self._when(returned, partial(self._go_on, True), partial(self._go_on, False, rest), each)
                return

    def _go_on(self, returned: bool, statements: Sequence[ast.stmt] = ()) -> None:
        """Statements where it is known whether the function has returned."""
        self.env[RETURNED] = returned
        self._block(statements)

    def _when(self, condition: Any, then: Build, otherwise: Build, node: ast.AST) -> None:
        """Builds what a condition picks, or both where it is not known at compile time."""
        truth = self.truth(condition)
        if isinstance(truth, bool):
            (then if truth else otherwise)()
        else:
            self.branch(truth, then, otherwise, node)

    def _refused(self, node: ast.stmt) -> None:
        raise Refused(f"not supported in kernels: {_INSTEAD.get(type(node), type(node).__name__)}")

    def _pass(self, node: ast.stmt) -> None:
        """Nothing to do."""

    # -- assignments --------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # as a text, or ...
            self.value(node.value)

    def _assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        if node.value is not None:
            value = self.value(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._store(target, value)

    def _store(self, target: ast.expr, value: Any) -> None:
        self.located(partial(self._store_at, value), target)

    def _store_at(self, value: Any, target: ast.expr) -> None:
        match target:
            case ast.Name():
                self.env[target.id] = value
            case ast.Subscript():
                array = self._assignable(target)
                self.assign(array, self.value(target.slice), value)
            case ast.Tuple() | ast.List() if isinstance(value, tuple) and len(value) == len(target.elts):
                for each, part in zip(target.elts, value, strict=True):
                    self._store(each, part)
            case ast.Tuple() | ast.List():
                raise Refused(f"{len(target.elts)} names take a tuple of {len(target.elts)}; got {describe(value)}")
            case _:
                raise Refused("a kernel assigns to variables and to elements of tensors; of vectors it makes others")

    def _assignable(self, target: ast.Subscript) -> Any:
        array = self.value(target.value)
        if isinstance(array, tuple):
            what = "vector" if isinstance(array, Vector) else "tuple"
            raise Refused(f"the elements of a {what} cannot be assigned; make another {what}")
        return array

    def _augmented(self, node: ast.AugAssign) -> None:
        sign, target = SIGNS[type(node.op)], node.target
        if isinstance(target, ast.Subscript):
            array = self._assignable(target)
            array, indices, is_row = indexed(array, self.value(target.slice))
            if is_row:
                self.assign(array, indices, self.binary(sign, Row(array, indices), self.value(node.value)))
                return
            place = self.place(array, indices)
            self.store(array, place, self.binary(sign, self.load(array, place), self.value(node.value)))
        else:
            self._store(target, self.binary(sign, self.value(target), self.value(node.value)))

    # -- control ------------------------------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> None:
        ways = partial(self._block, node.body), partial(self._block, node.orelse)
        self._when(self.value(node.test), *ways, node)

    def _while(self, node: ast.While) -> None:
        def build() -> None:
            self._when(self.value(node.test), lambda: None, partial(self._end, node), node)
            if self.alive:
                self._block(node.body)

        self.repeat(build, assigned([*node.body, *node.orelse]), node)

    def _for(self, node: ast.For) -> None:
        first, n_trips, step = self.located(self._range, node.iter)
        if not isinstance(node.target, ast.Name):
            raise Refused("a for loop over a range has one variable")
        name, counter = node.target.id, f"counter of {node.lineno}:{node.col_offset}"
        if isinstance(n_trips.value, Constant) and n_trips.value.value == 0:  # no item of an empty tuple has a type
            self._block(node.orelse)
            return
        self.env[counter] = self.converted(0, n_trips.kind.type)

        def build() -> None:
            trip = self.env[counter]
            self._when(self.compare("<", trip, n_trips), lambda: None, partial(self._end, node), node)
            self.env[name] = self.binary("+", first, self.binary("*", self.converted(trip, first.kind.type), step))
            self.env[counter] = self.binary("+", trip, 1)
            self._block(node.body)

        self.repeat(build, {name, counter, *assigned([*node.body, *node.orelse])}, node)
        self.env.pop(counter, None)

    def _end(self, node: ast.For | ast.While) -> None:
        """Leaves a loop that no break has ended, by way of its else."""
        self.frames[-1].loops[-1].ended = True
        self._block(node.orelse)
        if self.alive:
            self._break()
        self.frames[-1].loops[-1].ended = False

    def _range(self, node: ast.expr) -> tuple[Number, Number, Number]:
        """Start, number of trips and step of a range: int32 and uint32, 64 bits where an argument has."""
        function = self.value(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or function is not range:
            raise Refused(_WALKERS.get(function, GOES_OVER) if isinstance(function, type) else GOES_OVER)
        args = [self.value(each) for each in node.args]
        if not 1 <= len(args) <= 3 or node.keywords:
            raise Refused(f"range takes 1 to 3 integers by position; got {len(args)}")
        kinds = [self.kind(each) for each in args]
        wrong = [describe(each) for each, kind in zip(args, kinds, strict=True) if kind.type.kind not in "iu"]
        if wrong:
            raise Refused(f"range takes integers; got {', '.join(wrong)}; write int(x)")
        if len(args) == 3 and args[2] == 0 and is_python(args[2]):
            raise Refused("the step of a range is not 0")
        kind = INT64 if any(each.type.bits == 64 for each in kinds) else INT32
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        numbers = [self.converted(each, kind) for each in (start, stop, step)]
        return numbers[0], self._trips(kind, *[each.value for each in numbers]), numbers[2]

    def _trips(self, kind: Scalar, start: Value, stop: Value, step: Value) -> Number:
        """How often a loop over the range runs; unsigned, so that no range is too long. None with a step of 0."""
        b, unsigned = self.builder, SCALARS[f"u{kind}"]
        zero, one = b.const(0, kind), b.const(1, kind)
        up, down = b.binary("gt", step, zero), b.binary("lt", step, zero)
        before, after = b.select(up, start, stop), b.select(up, stop, start)
        size = b.select(up, step, b.select(down, b.binary("sub", zero, step), one))
        span = b.bitcast(b.binary("sub", b.binary("sub", after, before), one), unsigned)
        count = b.binary("add", b.binary("div", span, b.bitcast(size, unsigned)), b.const(1, unsigned))
        runs = b.binary("and", b.binary("lt", before, after), b.binary("ne", step, zero))
        return Number(b.select(runs, count, b.const(0, unsigned)), Kind(unsigned))

    def _break(self, node: ast.AST | None = None) -> None:
        ways = self._innermost(node)
        self.leave(ways.out, partial(self.builder.break_, ways.loop))

    def _continue(self, node: ast.AST) -> None:
        ways = self._innermost(node)
        self.leave(ways.back, partial(self.builder.continue_, ways.loop))

    def _innermost(self, node: ast.AST | None) -> LoopWays:
        ways: LoopWays = self.frames[-1].loops[-1]
        if ways.ended and isinstance(node, (ast.Break, ast.Continue)):
            why = "break and continue out of the else of a loop; note in a variable how it ended"
            raise Refused(f"not supported in kernels: {why}")
        return ways

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else None
        if self.frames[-1].call is None:
            if value is not None:
                raise Refused("a kernel returns nothing; store the value in a tensor")
            self.builder.return_()
            self.alive = False
            return
        self.env |= {RETURNED: True, RESULT: value}
        if self.frames[-1].loops:
            self._break()


def _returns(body: list[ast.stmt]) -> bool:
    """Whether a block ends in a return on every way."""
    last = body[-1]
    both = isinstance(last, ast.If) and bool(last.orelse) and _returns(last.body) and _returns(last.orelse)
    return both or isinstance(last, ast.Return)


_STATEMENTS: dict[type[ast.AST], Callable[[Statements, Any], None]] = {
    ast.Expr: Statements._expression,
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._assign,
    ast.AugAssign: Statements._augmented,
    ast.If: Statements._if,
    ast.While: Statements._while,
    ast.For: Statements._for,
    ast.Break: Statements._break,
    ast.Continue: Statements._continue,
    ast.Return: Statements._return,
    ast.Pass: Statements._pass,
}
