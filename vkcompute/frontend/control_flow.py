"""Scopes and control flow: variables, branches, loops, early exits and inlined functions.

Nothing here knows a syntax. A driver, such as the evaluator of Python's syntax trees or the parser of another language,
gives functions that build the parts. They run once or several times, in the order of control flow.

Predecessors of a join get placeholder terminators. Once all of them are built, each gets the values of its variables,
converted to the kinds that the variables have after the join.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial, reduce
from typing import Any, Protocol, TypeVar

from vkcompute import ir
from vkcompute.compiled.specialization import LOOP
from vkcompute.frontend.kinds import Kinds
from vkcompute.frontend.scopes import NOTHING, Edge, LoopEdges, Scope, Unset, UntypedError
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Value

Build = Callable[[], object]
_S = TypeVar("_S")
RETURNED, RESULT = "whether it has returned", "what it returned"
"""Variables of an inlined function, with names that no program can have. RESULT is meaningless while not RETURNED."""
CHOSEN = "value of the expression"
"""Another one: the value of a conditional expression."""
_MERGED = object()
"""The value of a variable that differs among the edges of a join."""


class Location(Protocol):
    """A place in the source."""

    @property
    def line(self) -> int:
        """The number of its line."""

    def error(self, message: object) -> Exception:
        """Returns an error at this place."""


class Observer(Protocol):
    """Is told of joins and iterations while they are built."""

    def iterates(self, where: Location, names: Collection[str], late: Collection[str]) -> None:
        """Notes the start of an iteration; `names` and `late` are those of the loop."""

    def joins(self, edges: Sequence[Edge], kinds: dict[str, Any]) -> None:
        """Notes a join of these edges, where the variables have these kinds."""


def nothing() -> None:
    """Builds nothing."""


class _WiderError(Exception):
    """A loop inside of another needs wider kinds of variables that both carry: the other one is built again at once.

    Attributes:
        loop: the other loop.
        kinds: the kinds.
    """

    def __init__(self, loop: LoopEdges, kinds: dict[str, Any]) -> None:
        super().__init__()
        self.loop, self.kinds = loop, kinds


class ControlFlow:
    """Builds the control flow of one program.

    Args:
        builder: appends operations to the function.
        kinds: those of the language.
        observer: is told of joins and iterations.

    Attributes:
        kinds: those of the language in which the innermost scope is written.
        env: the variables of the innermost scope.
        alive: True if control reaches the current place.
        partial: variables that keep a value where some paths to a join do not assign it.
        assumes_zero: True in a language whose numbers are 0 where no statement has assigned them.
        zeros: variables that are 0 on some path, so far.
        scopes: the program and the functions being inlined, the innermost last.
    """

    def __init__(self, builder: ir.Builder, kinds: Kinds, observer: Observer | None = None) -> None:
        self.builder, self.kinds, self.observer = builder, kinds, observer
        self.env: dict[str, Any] = {}
        self.alive = True
        self.partial: Collection[str] = ()
        self.assumes_zero, self.zeros = False, set[str]()
        self.scopes: list[Scope] = []

    # -- variables ----------------------------------------------------------------------------------------------------

    def read(self, name: str, env: dict[str, Any] | None = None) -> Any:
        """Returns the value of a variable.

        Args:
            env: the variables of its scope; None for the innermost one.

        Raises:
            UnsupportedError: it has none here.
            UntypedError: its type is not known yet.
        """
        value = (self.env if env is None else env).get(name, NOTHING)
        if isinstance(value, Unset) and value.untyped:
            raise UntypedError(value.why)
        if self._is_zero(value):
            self.zeros.add(name)
            return 0
        if value is NOTHING:
            raise UnsupportedError(f"{name} is used before it is assigned")
        if isinstance(value, Unset):
            raise UnsupportedError(f"{name} has no value that can be used here: {value.why}")
        return value

    def assign(self, name: str, value: Any) -> None:
        """Gives a variable a value."""
        self.env[name] = value

    def is_unset(self, name: str) -> bool:
        """True if a variable has no usable value."""
        return isinstance(self.env.get(name, NOTHING), Unset)

    def _is_zero(self, value: Any) -> bool:
        """True for a number that no statement has assigned, in a language where it is 0."""
        return self.assumes_zero and isinstance(value, Unset) and value.unassigned

    # -- scopes -------------------------------------------------------------------------------------------------------

    def program(self, variables: dict[str, Any], build: Build) -> None:
        """Builds the whole program, with these variables."""
        self.scopes.append(Scope(inlined=False))
        self.env = dict(variables)
        build()

    def call(self, name: str, variables: dict[str, Any], build: Build, kinds: Kinds | None = None) -> Any:
        """Builds a function in the place of its call, and returns its value.

        Args:
            variables: its parameters.
            kinds: those of its language; by default, of the caller's.

        Raises:
            UnsupportedError: it returns a value on some paths only.
        """
        outer, outer_kinds, scope = self.env, self.kinds, Scope(inlined=True)
        if self.scopes:
            self.scopes[-1].env = outer
        self.scopes.append(scope)
        self.env, self.kinds = {**variables, RETURNED: False}, kinds or outer_kinds
        build()
        self.scopes.pop()
        scope.env, self.env, self.kinds = self.env, outer, outer_kinds
        result = scope.env.get(RESULT)
        if result is not None and scope.env[RETURNED] is not True:
            raise UnsupportedError(f"{name} returns a value on some paths only; end it with a return")
        return result

    def block(self, statements: Sequence[_S], build: Callable[[_S], object], locate: Callable[[_S], Location]) -> None:
        """Builds statements in order, as far as control reaches.

        After one that may return, the rest is in a branch; in a loop, the loop ends.

        Args:
            build: builds a statement.
            locate: returns the place of a statement.
        """
        in_loop = bool(self.scopes[-1].loops)
        for n, statement in enumerate(statements):
            build(statement)
            returned = self.env.get(RETURNED, False)
            if not self.alive or (returned is True and not in_loop):
                return
            if returned is not False and in_loop:
                self.if_(returned, self.break_, partial(self._resume, False), locate(statement))
                if not self.alive:  # it returns on all paths
                    return
            elif returned is not False:
                rest = partial(self.block, statements[n + 1 :], build, locate)
                if n + 1 < len(statements):
                    sides = partial(self._resume, True), partial(self._resume, False, rest)
                    self.if_(returned, *sides, locate(statement))
                return

    def _resume(self, returned: bool, build: Build | None = None) -> None:
        """Builds what follows where RETURNED is known."""
        self.env[RETURNED] = returned
        if build is not None:
            build()

    def checkpoint(self) -> Callable[[], None]:
        """Returns a function that takes the program back to what it is now, outside of all scopes."""
        mark, env, kinds, state = self.builder.checkpoint(), self.env, self.kinds, self.kinds.state()

        def rewind() -> None:
            self.builder.rewind(mark)
            self.env, self.kinds, self.alive = env, kinds, True
            self.kinds.restore(state)
            self.scopes.clear()

        return rewind

    # -- branches -----------------------------------------------------------------------------------------------------

    def if_(self, condition: Any, then: Build, otherwise: Build, where: Location) -> None:
        """Builds an `if`; for a constant condition only the side that is taken."""
        truth = self.kinds.truth(condition)
        if isinstance(truth, bool):
            (then if truth else otherwise)()
        else:
            self.branch(truth, then, otherwise, where)

    def branch(self, condition: Value, then: Build, otherwise: Build, where: Location) -> None:
        """Builds an `if` from functions that build its two sides."""
        branch, before, edges = self.builder.if_(condition), self.env, list[Edge]()
        for region, build in ((branch.then, then), (branch.otherwise, otherwise)):
            with region:
                self.env = dict(before)
                build()
                if self.alive:
                    self._leave(edges, self.builder.yield_, finish=False)
            self.alive = True
        self._join(edges, before, lambda: branch.results, where)

    def choose(self, condition: Value, then: Callable[[], Any], otherwise: Callable[[], Any], where: Location) -> Any:
        """Builds a branch, and returns the value of the side that is taken.

        Raises:
            UnsupportedError: the two values have no common kind.
        """

        def keep(side: Callable[[], Any]) -> None:
            self.env[CHOSEN] = side()

        self.branch(condition, partial(keep, then), partial(keep, otherwise), where)
        result = self.env.pop(CHOSEN, None)
        if isinstance(result, Unset):
            raise UnsupportedError(f"the value cannot be used here: {result.why}")
        return result

    # -- loops --------------------------------------------------------------------------------------------------------

    def loop(
        self,
        build: Build,
        names: Collection[str],
        where: Location,
        late: Collection[str] = (),
        stores: Callable[[], Counter[str]] | None = None,
    ) -> None:
        """Builds a loop that ends at a break; the body is built again until the kinds of its variables are fixed.

        Args:
            build: builds the body.
            names: the variables that the body assigns to.
            late: those that have no value before the loop, which runs at least once, but may have one after it.
            stores: as of `LoopEdges`; with it, loops in loops are built fewer times.
        """
        before, names = dict(self.env), [name for name in names if name not in self.scopes[-1].constants]
        set_before = [name for name in before if name in names and not isinstance(before[name], Unset)]
        kinds = {name: self.kinds.kind_at_loop(self.kinds.kind_of_variable(before[name])) for name in set_before}
        mark, state = self.builder.checkpoint(), self.kinds.state()
        location = where.error(LOOP)
        while True:
            initial = [v for name, kind in kinds.items() for v in self._incoming(before.get(name, NOTHING), kind)]
            with self.builder.at(location):
                loop = self.builder.loop(*initial)
            params = iter(loop.params)
            self.env = before | {name: self.kinds.unpacked(kind, params) for name, kind in kinds.items()}
            edges = LoopEdges(loop, stores, dict(self.env), kinds)
            if self.observer is not None:
                self.observer.iterates(where, names, late)
            wider, late = self._built(edges, build, before, late)
            if wider == kinds:
                break
            self._restart_outer(edges, before, wider)
            self.builder.rewind(mark)
            self.kinds.restore(state)
            kinds = wider
        self._terminate(edges.continues, kinds)
        self._join(edges.exits, before, lambda: edges.loop.results, where)
        if missing := sorted(set(names).difference(self.env)):
            why = f"the loop at line {where.line} may end before it is assigned; assign it before the loop, too"
            self.env |= dict.fromkeys(missing, Unset(why))

    def _built(
        self, edges: LoopEdges, build: Build, before: dict[str, Any], late: Collection[str]
    ) -> tuple[dict[str, Any], Collection[str]]:
        """Builds the body of a loop; returns the kinds that its variables need, and the late ones that have some."""
        loops, kinds = self.scopes[-1].loops, edges.kinds
        loops.append(edges)
        try:
            with edges.loop.body:
                build()
                if self.alive:
                    self._leave(edges.continues, self.builder.yield_, finish=False)
            wider = self._widened(kinds, before, edges.continues)
            late = [name for name in late if name in wider or name not in kinds]  # others differ in each build
            if self.assumes_zero:
                late = [name for name in sorted({*late, *self.zeros}) if self._is_zero(before.get(name, NOTHING))]
            wider |= self._assigned_by_all(late, edges.continues)
        except _WiderError as error:
            if error.loop is not edges:
                raise
            wider = kinds | error.kinds
        finally:
            loops.pop()
        self.alive = True
        return wider, late

    def while_(self, test: Callable[[], Any], body: Build, names: Collection[str], where: Location) -> None:
        """Builds a loop that ends where `test()` is False; `names` are those that the test and the body assign to."""

        def build() -> None:
            self.if_(test(), nothing, self.break_, where)
            if self.alive:
                body()

        self.loop(build, names, where)

    def break_(self) -> None:
        """Leaves the innermost loop."""
        edges = self.scopes[-1].loops[-1]
        self._leave(edges.exits, partial(self.builder.break_, edges.loop))

    def continue_(self) -> None:
        """Starts the next iteration of the innermost loop."""
        edges = self.scopes[-1].loops[-1]
        self._leave(edges.continues, partial(self.builder.continue_, edges.loop))

    def return_(self, value: Any = None) -> None:
        """Ends the program, or the function that is inlined, with a value; `block` leaves what surrounds it."""
        scope = self.scopes[-1]
        if not scope.inlined:
            self.end()
            return
        self.env |= {RETURNED: True, RESULT: value}
        if scope.loops:
            self.break_()

    def end(self) -> None:
        """Ends the program, also from a function that is inlined."""
        self.builder.return_()
        self.alive = False

    def _restart_outer(self, inner: LoopEdges, before: dict[str, Any], wider: dict[str, Any]) -> None:
        """Raises _WiderError if the enclosing loop will need these wider kinds, too.

        That is certain if it assigns to these variables in the inner loop only.
        """
        changed = {name: kind for name, kind in wider.items() if kind != inner.kinds.get(name)}
        outer = next(reversed(self.scopes[-1].loops), None)
        if outer is None or outer.stores is None or inner.stores is None:
            return
        if wider.keys() != inner.kinds.keys() or not outer.kinds.keys() >= changed.keys():
            return
        beside = outer.stores() - inner.stores()
        if beside.keys().isdisjoint(changed) and all(before[name] is outer.start[name] for name in changed):
            raise _WiderError(outer, changed)

    def _assigned_by_all(self, names: Collection[str], edges: list[Edge]) -> dict[str, Any]:
        """Returns the kinds of the variables that have a value at the end of each iteration."""
        result = {}
        for name in names:
            values = [value for edge in edges if not self._is_zero(value := edge.env.get(name, NOTHING))]
            if values and not any(isinstance(value, Unset) for value in values):
                with contextlib.suppress(UnsupportedError):
                    kind = reduce(self.kinds.joined, map(self.kinds.kind_of_variable, values))
                    if not self.assumes_zero or self._is_numeric(kind):
                        result[name] = kind
        return result

    def _is_numeric(self, kind: Any) -> bool:
        """True for a kind of numbers, and of tuples of numbers."""
        return all(map(self._is_numeric, kind)) if isinstance(kind, tuple) else bool(self.kinds.filler(kind))

    def _widened(self, kinds: dict[str, Any], before: dict[str, Any], continues: list[Edge]) -> dict[str, Any]:
        """Returns the kinds that also hold the values at the end of an iteration.

        A variable without a common kind loses its value before the loop.
        """
        wider = {}
        for name, kind in kinds.items():
            values = [edge.env[name] for edge in continues]
            unset = next((value for value in values if isinstance(value, Unset)), None)
            try:
                if unset is not None:
                    raise UnsupportedError(unset.why)
                wider[name] = reduce(self.kinds.joined, map(self.kinds.kind_of_variable, values), kind)
            except UnsupportedError as error:
                before[name] = Unset(str(error))
        return wider

    # -- joins --------------------------------------------------------------------------------------------------------

    def _leave(self, edges: list[Edge], end: Callable[..., None], *, finish: bool = True) -> None:
        """Ends the current block with an edge to a join."""
        edges.append(Edge(self.builder.checkpoint(), self.env, end))
        if finish:
            end()
            self.alive = False

    def _join(
        self, edges: list[Edge], before: dict[str, Any], results: Callable[[], Iterable[Value]], where: Location
    ) -> None:
        """Continues after a join of these edges, if there are any."""
        self.alive = bool(edges)
        self.env, merged = {}, dict[str, Any]()
        line = f"line {where.line}"
        why = f"on some of the paths that join after {line} it is not assigned; assign it on all of them"
        nothing = Unset(why, unassigned=True)
        for name in dict.fromkeys(name for edge in edges for name in edge.env):
            values = [edge.env.get(name, nothing) for edge in edges]
            self.env[name] = self._known(name, values, before.get(name, nothing))
            if self.env[name] is not _MERGED:
                continue
            given = [value for value in values if not isinstance(value, Unset)]
            try:
                kind = reduce(self.kinds.joined, map(self.kinds.kind_of_variable, given))
            except UnsupportedError as error:
                self.env[name] = Unset(self.kinds.mismatch(name, f"after {line} it is {error}"))
                continue
            if len(given) == len(values) or self._keeps(name):
                merged[name] = kind
            elif self._is_numeric(kind):
                merged[name] = kind
                self.zeros.add(name)
            else:
                self.env[name] = Unset(why)
        self._terminate(edges, merged)
        operands = iter(results())
        self.env |= {name: self.kinds.unpacked(kind, operands) for name, kind in merged.items()}

    def _known(self, name: str, values: Sequence[Any], first: Any) -> Any:
        """Returns the value of a variable after a join of edges with these values; _MERGED for an operand of the join.

        Args:
            first: its value before the branch or loop.
        """
        if all(value is first for value in values):
            return first
        given = [value for value in values if not isinstance(value, Unset)]
        unset = next((value for value in values if isinstance(value, Unset)), None)
        if unset is not None and not self._keeps(name):
            others = [value for value in values if isinstance(value, Unset)]
            return _MERGED if given and all(map(self._is_zero, others)) else unset
        is_one = all(value is first for value in given) or all(self.kinds.is_same(value, given[0]) for value in given)
        return given[0] if is_one else _MERGED

    def _keeps(self, name: str) -> bool:
        """True for a variable that keeps its value where some paths to a join do not assign it."""
        return name == RESULT or name in self.partial

    def _terminate(self, edges: list[Edge], kinds: dict[str, Any]) -> None:
        """Ends each predecessor with the values of these variables, in these kinds."""
        if self.observer is not None:
            self.observer.joins(edges, kinds)
        here = self.builder.checkpoint()
        for edge in edges:
            self.builder.rewind(edge.mark)
            values = [self._incoming(edge.env.get(name, NOTHING), kind) for name, kind in kinds.items()]
            edge.end(*[operand for incoming in values for operand in incoming])
        self.builder.rewind(here)

    def _incoming(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a variable; any for the result of a function that has not returned."""
        return self.kinds.filler(kind) if isinstance(value, Unset) else self.kinds.packed(value, kind)
