"""Divides a function that calls itself into states: the pieces between its calls, without returns inside.

A state is a list of statements and its end: a jump, a branch, a call or a return. Statements that neither call nor
return stay as they are, whatever loops and branches they have. `call_stack.py` evaluates the states.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from vkcompute.frontend.desugaring import BUILTIN, CheckedBuiltin, leaves_loop
from vkcompute.frontend.syntax import assigned, is_cheap, names_in, walk
from vkcompute.frontend.unsupported import UnsupportedError


@dataclass(eq=False, slots=True)
class State:
    """A piece of a function, without calls of itself inside.

    Attributes:
        statements: in order.
        end: what follows them.
        resumes: the call whose value the state takes; None for other states.
    """

    statements: list[ast.stmt] = field(default_factory=list)
    end: Jump | Branch | Call | Return | None = None
    resumes: ast.Call | None = None

    def parts(self) -> list[ast.AST]:
        """Returns the statements, and the expression at the end."""
        match self.end:
            case Branch(test=last) | Call(node=last) | Return(value=ast.expr() as last):
                return [*self.statements, last]
        return [*self.statements]

    def names(self) -> set[str]:
        """Returns all names in the state."""
        return {name.id for part in self.parts() for name in names_in(part)}

    def assigned(self) -> set[str]:
        """Returns the names that the state assigns to."""
        return assigned(self.parts())


@dataclass(frozen=True, slots=True)
class Jump:
    """Continues with another state."""

    to: State


@dataclass(frozen=True, slots=True)
class Branch:
    """Continues with one of two states."""

    test: ast.expr
    then: State
    otherwise: State


@dataclass(frozen=True, slots=True)
class Call:
    """Calls the function, and continues with a state that takes its value; the arguments have no effects."""

    node: ast.Call
    then: State


@dataclass(frozen=True, slots=True)
class Return:
    """Returns a value, or nothing."""

    value: ast.expr | None


def states_of(tree: ast.FunctionDef, callee: str) -> list[State]:
    """Returns the states of a function, the first one first.

    Args:
        callee: the dump of the expression by which the function calls itself.

    Raises:
        UnsupportedError: a call is part of syntax that cannot be divided.
    """
    builder = _Builder(callee)
    builder.block(tree.body)
    builder.end(Return(None))
    return builder.states


class _Builder:
    """Builds states; `current` is None where control does not reach."""

    def __init__(self, callee: str) -> None:
        self._callee = callee
        self.states: list[State] = []
        self._loops: list[tuple[State, State]] = []  # where continue and break lead
        self._n_names = 0
        self._rebound = set[str]()  # names that an expression of the statement assigns to
        self._begin(State())

    # -- states -------------------------------------------------------------------------------------------------------

    def _begin(self, state: State) -> None:
        self.current: State | None = state
        self.states.append(state)

    def end(self, end: Jump | Branch | Call | Return) -> None:
        """Ends the current state, if control reaches it."""
        if self.current is not None:
            self.current.end = end
            self.current = None

    def _append(self, statement: ast.stmt) -> None:
        assert self.current is not None, "control reaches the statement"
        self.current.statements.append(statement)

    def _assign(self, name: str, value: ast.expr) -> None:
        statement = ast.Assign([ast.Name(name, ast.Store())], value)
        self._append(ast.fix_missing_locations(ast.copy_location(statement, value)))

    def _kept(self, value: ast.expr) -> ast.expr:
        """Assigns a value to a variable of its own, and returns that."""
        name = self._name()
        self._assign(name, value)
        return ast.copy_location(ast.Name(name, ast.Load()), value)

    def _name(self) -> str:
        self._n_names += 1
        return f"part {self._n_names}"  # no name of a program has a space

    # -- syntax -------------------------------------------------------------------------------------------------------

    def _is_call(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.dump(node.func) == self._callee

    def _has_call(self, node: ast.AST) -> bool:
        return any(map(self._is_call, walk(node)))

    def _divides(self, node: ast.stmt) -> bool:
        return leaves_loop(node) or any(self._is_call(part) or isinstance(part, ast.Return) for part in walk(node))

    def block(self, statements: list[ast.stmt]) -> None:
        """Builds statements in order, as far as control reaches."""
        for statement in statements:
            if self.current is None:
                return
            if isinstance(statement, ast.FunctionDef) or any(isinstance(part, ast.Lambda) for part in walk(statement)):
                raise _refused("has a function or a generator of its own", "define it outside")
            if self._divides(statement):
                self._rebound = {part.target.id for part in walk(statement) if isinstance(part, ast.NamedExpr)}
                self._statement(statement)
            else:
                self._append(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Return(value):
                self.end(Return(value and self._expression(value)))
            case ast.Break():
                self.end(Jump(self._loops[-1][1]))
            case ast.Continue():
                self.end(Jump(self._loops[-1][0]))
            case ast.If(test, body, orelse):
                self._if(self._expression(test), lambda: self.block(body), lambda: self.block(orelse))
            case ast.While(test, body, orelse):
                self._loop(test, body, orelse)
            case ast.For():
                self._for(node)
            case ast.Expr(ast.Call() as call) if self._is_call(call):
                self._call(call)
            case ast.AugAssign(ast.Subscript() | ast.Attribute()):
                self._accumulate(node)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
                changed = self._operands(node)
                assert isinstance(changed, ast.stmt), "a copy has the type of its node"
                self._append(changed)
            case _:
                raise _refused(f"calls itself in {ast.unparse(node).splitlines()[0]!r}", "assign the value before")

    def _if(self, test: ast.expr, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        sides, join, is_used = (State(), State()), State(), False
        self.end(Branch(test, *sides))
        for side, build in zip(sides, (then, otherwise), strict=True):
            self._begin(side)
            build()
            is_used |= self.current is not None
            self.end(Jump(join))
        if is_used:
            self._begin(join)

    def _loop(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        head, inside, otherwise, after = State(), State(), State(), State()
        self.end(Jump(head))
        self._begin(head)
        self.end(Branch(self._expression(test), inside, otherwise))
        self._begin(inside)
        self._loops.append((head, after))
        self.block(body)
        self._loops.pop()
        self.end(Jump(head))
        if not (isinstance(test, ast.Constant) and test.value):
            self._begin(otherwise)
            self.block(orelse)
            self.end(Jump(after))
        if any(state.end == Jump(after) for state in self.states):
            self._begin(after)

    def _for(self, node: ast.For) -> None:
        """Builds a loop over a range as one with a counter."""
        match node.iter:
            case ast.Call(ast.Name(name), [*bounds], []) if name in ("range", f"{BUILTIN}range") and bounds:
                check = ast.Expr(CheckedBuiltin("range", ast.Load()))
                self._append(ast.fix_missing_locations(ast.copy_location(check, node)))
            case _:
                raise _refused("calls itself in a loop that is not over a range", "write 'for i in range(n):'")
        start, stop, step = _bounds(bounds)
        try:
            by = ast.literal_eval(step)
        except ValueError:
            rule = "calls itself in a loop over a range whose step is no constant"
            raise _refused(rule, "write a while loop") from None
        counter, last = self._name(), self._name()
        for name, value in ((counter, start), (last, stop)):
            self._assign(name, ast.copy_location(self._expression(value), node))
        test = ast.Compare(
            ast.Name(counter, ast.Load()), [ast.Lt() if by > 0 else ast.Gt()], [ast.Name(last, ast.Load())]
        )
        taken = ast.Assign([node.target], ast.Name(counter, ast.Load()))
        following = ast.BinOp(ast.Name(counter, ast.Load()), ast.Add(), step)
        increased = ast.Assign([ast.Name(counter, ast.Store())], following)
        for part in (test, taken, increased):
            ast.fix_missing_locations(ast.copy_location(part, node))
        self._loop(test, [taken, increased, *node.body], node.orelse)

    def _accumulate(self, node: ast.AugAssign) -> None:
        """Builds `a[i] += f(…)`, which reads the element before the call."""
        target = self._operands(node.target, keep=True)
        assert isinstance(target, (ast.Subscript, ast.Attribute)), "a copy has the type of its node"
        before = copy.copy(target)
        before.ctx = ast.Load()
        old = self._kept(before)
        value = ast.copy_location(ast.BinOp(old, node.op, self._expression(node.value)), node)
        self._append(ast.copy_location(ast.Assign([target], value), node))

    # -- expressions --------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr) -> ast.expr:
        """Returns an expression without calls of the function, which are made before it."""
        if not self._has_call(node):
            return node
        match node:
            case ast.Call() if self._is_call(node):
                return self._kept(self._call(node))
            case ast.IfExp(test, body, orelse):
                name = self._name()
                sides = [lambda side=side: self._assign(name, self._expression(side)) for side in (body, orelse)]
                self._if(self._expression(test), *sides)
                return ast.copy_location(ast.Name(name, ast.Load()), node)
            case ast.BoolOp(op, values):
                return self._connected(isinstance(op, ast.And), values)
            case ast.NamedExpr() | ast.Compare(_, [_, _, *_]):
                raise _refused(f"calls itself in {ast.unparse(node)!r}", "assign the value before")
        changed = self._operands(node)
        assert isinstance(changed, ast.expr), "a copy has the type of its node"
        return changed

    def _connected(self, is_and: bool, values: list[ast.expr]) -> ast.expr:
        """Builds `and` or `or`: an operand is evaluated if those before it do not decide."""
        name = self._name()
        self._assign(name, self._expression(values[0]))
        result = ast.copy_location(ast.Name(name, ast.Load()), values[0])
        if len(values) > 1:

            def rest() -> None:
                self._assign(name, self._connected(is_and, values[1:]))

            sides = (rest, lambda: None) if is_and else (lambda: None, rest)
            self._if(result, *sides)
        return ast.copy_location(ast.Name(name, ast.Load()), values[0])

    def _call(self, node: ast.Call) -> ast.Call:
        """Builds a call, and returns the expression for its value, which is evaluated in the next state."""
        call = self._operands(node, keep=True)
        assert isinstance(call, ast.Call), "a copy has the type of its node"
        following = State(resumes=call)
        self.end(Call(call, following))
        self._begin(following)
        return call

    def _operands(self, node: ast.AST, *, keep: bool = False) -> ast.AST:
        """Returns a copy of a node whose operands are without calls of the function.

        Args:
            keep: assigns all operands that are not cheap to variables; else only those before the last call.
        """
        node = copy.copy(node)
        fields = dict.fromkeys(["value", *node._fields])  # the value of an assignment is the first operand
        operands = {name: _listed(getattr(node, name, None)) for name in fields}
        pending = sum(map(self._has_call, chain(*operands.values())))
        for name, parts in operands.items():
            changed = []
            for part in parts:
                pending -= self._has_call(part)
                is_operand = isinstance(part, (ast.expr, ast.keyword)) and not _is_base(node, name, part)
                changed.append(self._operand(part, keep=keep or pending > 0) if is_operand else part)
            if parts:
                setattr(node, name, changed if isinstance(getattr(node, name), list) else changed[0])
        return node

    def _operand(self, node: ast.AST, *, keep: bool) -> ast.AST:
        """Returns an operand without calls of the function; with `keep`, one that nothing changes later."""
        if not isinstance(node, ast.expr):  # a keyword, or a part of a slice
            return self._operands(node, keep=keep)
        if isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(node, (ast.Slice, ast.Tuple, ast.Starred)):
            return self._operands(node, keep=keep)
        inner = self._expression(node)
        return self._kept(inner) if keep and not self._lasts(inner) else inner

    def _lasts(self, node: ast.expr) -> bool:
        """True if an expression is cheap, and has the same value after a call and the operands after it."""
        changes = (isinstance(part, ast.Attribute) or getattr(part, "id", "") in self._rebound for part in walk(node))
        return is_cheap(node) and not any(changes)


def _is_base(node: ast.AST, name: str, part: ast.AST) -> bool:
    """True if a part of a node names a function, or what has an element or attribute."""
    has_base = isinstance(node, (ast.Subscript, ast.Attribute)) and name == "value"
    return (has_base or name == "func") and all(isinstance(of, (ast.Name, ast.Attribute)) for of in walk(part))


def _listed(value: Any) -> list[ast.AST]:
    """Returns the nodes of a field."""
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, ast.AST)]


def _bounds(args: list[ast.expr]) -> list[ast.expr]:
    """Returns start, stop and step of a range, from its arguments."""
    return [ast.Constant(0), *args, ast.Constant(1)] if len(args) == 1 else [*args, ast.Constant(1)][:3]


def _refused(what: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(f"a function that calls itself {what}; {remedy}")
