"""Branches and loops: the values of variables where control flow joins.

Predecessors of a join get placeholder terminators. Once all of them are built, each gets the values of its variables,
converted to the types that the variables have after the join.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from vkcompute import ir
from vkcompute.compiled.captured import same
from vkcompute.compiled.specialization import LOOP
from vkcompute.ir import BOOL, SCALARS, Constant, Scalar, Value
from vkcompute.ir.builder import Mark
from vkcompute.jit.frontend.private import PrivateArrays
from vkcompute.jit.frontend.source import UnsupportedError, names_in
from vkcompute.jit.frontend.values import (
    Kind,
    Number,
    Unset,
    describe,
    is_python,
    is_static,
    kind_of,
    started,
    stored,
    unpacked,
)

Build = Callable[[], object]
RETURNED, RESULT = "whether it has returned", "what it returned"
"""Variables of an inlined function, with names that no program can have. RESULT is meaningless while not RETURNED."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A predecessor of a join.

    Attributes:
        mark: the place of its terminator.
        env: its variables.
        end: appends the terminator, given the values to hand over.
    """

    mark: Mark
    env: dict[str, Any]
    end: Callable[..., None]


@dataclass(slots=True)
class LoopEdges:
    """A loop that is being built.

    Attributes:
        node: its syntax node.
        start: the variables at the start of its body.
        kinds: the types of those that it carries.
        exits: edges out of the loop.
        continues: edges back to its start.
    """

    loop: ir.Loop
    node: ast.AST
    start: dict[str, Any]
    kinds: dict[str, Any]
    exits: list[Edge] = field(default_factory=list)
    continues: list[Edge] = field(default_factory=list)


class _WiderError(Exception):
    """A loop inside of another needs wider types of variables that both carry: the other one is built again at once.

    Attributes:
        loop: the other loop.
        kinds: the types.
    """

    def __init__(self, loop: LoopEdges, kinds: dict[str, Any]) -> None:
        super().__init__()
        self.loop, self.kinds = loop, kinds


class ControlFlow(PrivateArrays):
    """Builds branches and loops.

    Attributes:
        partial: variables that keep a value where some paths to a join do not assign it.
    """

    partial: Collection[str] = ()

    def leave(self, edges: list[Edge], end: Callable[..., None], *, finish: bool = True) -> None:
        """Ends the current block with an edge to a join."""
        edges.append(Edge(self.builder.checkpoint(), self.env, end))
        if finish:
            end()
            self.alive = False

    def branch(self, condition: Value, then: Build, otherwise: Build, node: ast.AST) -> None:
        """Builds an `if` from functions that build its two sides."""
        branch, before, edges = self.builder.if_(condition), self.env, list[Edge]()
        for region, build in ((branch.then, then), (branch.otherwise, otherwise)):
            with region:
                self.env = dict(before)
                build()
                if self.alive:
                    self.leave(edges, self.builder.yield_, finish=False)
            self.alive = True
        self._join(edges, before, lambda: branch.results, f"line {self.frames[-1].source.location(node)[0]}")

    def repeat(self, build: Build, names: set[str], node: ast.AST, late: Collection[str] = ()) -> None:
        """Builds a loop; the body is built again until the types of its variables reach a fixed point.

        Args:
            build: builds the body.
            names: the variables that the body assigns to.
            late: those that have no value before the loop, which runs at least once, but may have one after it.
        """
        before = dict(self.env)
        set_before = [name for name in before if name in names and not isinstance(before[name], Unset)]
        kinds = {name: started(self._stored_type(before[name])) for name in set_before}
        mark, frame, location = self.builder.checkpoint(), self.frames[-1], self.error(node, LOOP)
        limits = set(self.limits)
        while True:
            initial = [v for name, kind in kinds.items() for v in self._incoming(before.get(name, Unset("")), kind)]
            with self.builder.at(location):
                loop = self.builder.loop(*initial)
            params = iter(loop.params)
            self.env = before | {name: unpacked(kind, params) for name, kind in kinds.items()}
            edges = LoopEdges(loop, node, dict(self.env), kinds)
            frame.loops.append(edges)
            try:
                with loop.body:
                    build()
                    if self.alive:
                        self.leave(edges.continues, self.builder.yield_, finish=False)
                wider = self._widened(kinds, before, edges.continues)
                late = [name for name in late if name in wider or name not in kinds]  # others differ in each build
                wider |= self._assigned_by_all(late, edges.continues)
            except _WiderError as error:
                if error.loop is not edges:
                    raise
                wider = kinds | error.kinds
            finally:
                frame.loops.pop()
            self.alive = True
            if wider == kinds:
                break
            self._restart_outer(edges, before, wider)
            self.builder.rewind(mark)
            kinds, self.limits = wider, set(limits)
        self._terminate(edges.continues, kinds)
        line = frame.source.location(node)[0]
        self._join(edges.exits, before, lambda: edges.loop.results, f"line {line}")
        why = Unset(f"the loop at line {line} may end before it is assigned; assign it before the loop, too")
        self.env |= dict.fromkeys(sorted(names.difference(self.env)), why)

    def _restart_outer(self, inner: LoopEdges, before: dict[str, Any], wider: dict[str, Any]) -> None:
        """Raises _WiderError if the enclosing loop will need these wider types, too.

        That is certain if it assigns to these variables in the inner loop only.
        """
        changed = {name: kind for name, kind in wider.items() if kind != inner.kinds.get(name)}
        outer = next(reversed(self.frames[-1].loops), None)
        if outer is None or wider.keys() != inner.kinds.keys() or not outer.kinds.keys() >= changed.keys():
            return
        beside = {each.id for each in names_in(outer.node) - names_in(inner.node) if isinstance(each.ctx, ast.Store)}
        if beside.isdisjoint(changed) and all(before[name] is outer.start[name] for name in changed):
            raise _WiderError(outer, changed)

    def counted(self, args: Sequence[Any]) -> tuple[Number, Number, Number]:
        """Returns start, number of iterations and step of `range(*args)`.

        They are int32 and uint32, or have 64 bits if an argument has. A start and a step are unsigned if the start is.
        """
        if not 1 <= len(args) <= 3:
            raise UnsupportedError(f"range takes 1 to 3 integers by position; got {len(args)}")
        kinds = [self.kind(each) for each in args]
        wrong = [describe(each) for each, kind in zip(args, kinds, strict=True) if kind.type.kind not in "iu"]
        if wrong:
            raise UnsupportedError(f"range takes integers; got {', '.join(wrong)}; write // for /, or int(…)")
        if len(args) == 3 and args[2] == 0 and is_python(args[2]):
            raise UnsupportedError("the step of a range is not 0")
        bounds = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        start, stop, step = map(self.converted, bounds, self.range_types(bounds))
        unsigned = SCALARS[f"uint{start.kind.type.bits}"]
        count = self._n_iterations(unsigned, start, stop, step)
        return start, count, self.converted(step, start.kind.type)

    def _n_iterations(self, unsigned: Scalar, start: Number, stop: Number, step: Number) -> Number:
        """Returns the length of a range by the values of its bounds, 0 for a step of 0."""
        b = self.builder
        first, end, size = [b.cast(each.value, unsigned) for each in (start, stop, step)]
        up: Value
        down: Value
        zero, one = b.const(0, unsigned), b.const(1, unsigned)
        if isinstance(step.value, Constant):
            n = int(step.value.value)
            up, down = b.const(n > 0, BOOL), b.const(n < 0, BOOL)
            size = b.const(max(abs(n), 1), unsigned)
        else:
            up, down = self._is_less(0, step), self._is_less(step, 0)
            size = b.select(up, size, b.select(down, b.compute("sub", zero, size), one))
        before, after = b.select(up, first, end), b.select(up, end, first)
        span = b.compute("sub", b.compute("sub", after, before), one)
        count = b.compute("add", b.compute("div", span, size), one)
        if start.kind.type is not stop.kind.type:
            signed, other = (stop, end) if start.kind.type is unsigned else (start, first)
            other = first if other is end else end
            beyond = b.compute("and", self._is_less(signed, 0), b.compute("lt", b.compute("sub", after, before), other))
            count = b.select(beyond, self._n_beyond(unsigned, span, size), count)
        forward, backward = self._is_less(start, stop), self._is_less(stop, start)
        runs = b.select(up, forward, b.compute("and", down, backward))
        return Number(b.select(runs, count, zero), Kind(unsigned))

    def _n_beyond(self, unsigned: Scalar, span: Value, size: Value) -> Value:
        """Returns the length of a range whose span, less one, is `span` and one beyond the type; at most its limit."""
        b, most = self.builder, self.builder.const(-1, unsigned)
        whole, rest = b.compute("div", most, size), b.compute("mod", most, size)
        more = b.compute("div", b.compute("add", b.compute("add", span, rest), b.const(1, unsigned)), size)
        count = b.compute("add", b.compute("add", whole, more), b.const(1, unsigned))
        return b.select(b.compute("eq", size, b.const(1, unsigned)), most, count)

    def _is_less(self, one: Any, other: Any) -> Value:
        """Compares integers by value."""
        return self.cast(self.compare("<", one, other), BOOL)

    def _assigned_by_all(self, names: Collection[str], edges: list[Edge]) -> dict[str, Any]:
        """Returns the types of the variables that have a value at the end of each iteration."""
        found = {}
        for name in names:
            values = [edge.env.get(name, Unset("")) for edge in edges]
            if values and not any(isinstance(each, Unset) for each in values):
                with contextlib.suppress(UnsupportedError):
                    found[name] = reduce(self.joined, map(self._stored_type, values))
        return found

    def _widened(self, kinds: dict[str, Any], before: dict[str, Any], continues: list[Edge]) -> dict[str, Any]:
        """Returns the types that also hold the values at the end of an iteration.

        A variable without a common type loses its value before the loop.
        """
        wider = {}
        for name, kind in kinds.items():
            found = [edge.env[name] for edge in continues]
            unset = next((each for each in found if isinstance(each, Unset)), None)
            try:
                if unset is not None:
                    raise UnsupportedError(unset.why)
                wider[name] = reduce(self.joined, map(self._stored_type, found), kind)
            except UnsupportedError as error:
                before[name] = Unset(str(error))
        return wider

    def _join(
        self, edges: list[Edge], before: dict[str, Any], results: Callable[[], Iterable[Value]], where: str
    ) -> None:
        """Continues after a join of these edges, if there are any."""
        self.alive = bool(edges)
        self.env, merged = {}, dict[str, Any]()
        nothing = Unset(f"on some of the paths that join after {where} it is not assigned; assign it on all of them")
        for name in dict.fromkeys(name for edge in edges for name in edge.env):
            found, first = [edge.env.get(name, nothing) for edge in edges], before.get(name, nothing)
            if all(each is first for each in found):
                self.env[name] = first
                continue
            unset = next((each for each in found if isinstance(each, Unset)), None)
            if unset is not None and name != RESULT and name not in self.partial:
                self.env[name] = unset
                continue
            found = [each for each in found if not isinstance(each, Unset)]
            unchanged = all(each is first for each in found)
            if unchanged or all(is_static(each) and same(each, found[0]) for each in found):
                self.env[name] = found[0]
                continue
            try:
                merged[name] = reduce(self.joined, map(self._stored_type, found))
            except UnsupportedError as error:
                self.env[name] = Unset(f"after {where} it is {error}")
        self._terminate(edges, merged)
        values = iter(results())
        self.env |= {name: unpacked(kind, values) for name, kind in merged.items()}

    def _terminate(self, edges: list[Edge], kinds: dict[str, Any]) -> None:
        """Ends each predecessor with the values of these variables, in these types."""
        here = self.builder.checkpoint()
        for edge in edges:
            self.builder.rewind(edge.mark)
            values = [self._incoming(edge.env.get(name, Unset("")), kind) for name, kind in kinds.items()]
            edge.end(*[each for incoming in values for each in incoming])
        self.builder.rewind(here)

    def _incoming(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a variable; zeros for the result of a function that has not returned."""
        if not isinstance(value, Unset):
            return self.packed(value, kind)
        kinds = kind if isinstance(kind, tuple) else (kind,) if isinstance(kind, Kind) else ()
        return [v for k in kinds for v in (self.packed(0, k) if isinstance(k, Kind) else self._incoming(value, k))]

    def _stored_type(self, value: Any) -> Any:
        """Returns the type of a variable with this value."""
        return stored(kind_of(value, self.real), self.real)
