"""Branches and loops: what variables are where ways come together.

A way ends with an empty terminator at first. When all ways that meet are known, each of them is taken up again where it
ended: its variables are converted to the types that they have in common, and handed over.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from vkcompute import ir
from vkcompute.ir import INT32, Value
from vkcompute.ir.builder import Mark
from vkcompute.jit.expressions import Build, Expressions
from vkcompute.jit.source import Refused
from vkcompute.jit.values import Kind, Unset, is_static, kind_of, like, same, unpacked

RETURNED, RESULT = "whether it has returned", "what it returned"
"""Variables of an inlined function that no program can name. While the first is False, the second means nothing."""
LOOP = "this loop"
"""The message of the error that is a loop's place, for whoever has something to say of it"""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to where several meet: where it ended, with which variables, and what hands values over there."""

    mark: Mark
    env: dict[str, Any]
    end: Callable[..., None]


@dataclass(slots=True)
class LoopWays:
    """A loop that is being built: the ways out of it, those back to its start, and whether its else is being built."""

    loop: ir.Loop
    out: list[Way] = field(default_factory=list)
    back: list[Way] = field(default_factory=list)
    ended: bool = False


class Control(Expressions):
    """Builds branches and loops."""

    def leave(self, ways: list[Way], end: Callable[..., None], *, finish: bool = True) -> None:
        """Ends the present way, which goes where `ways` do."""
        ways.append(Way(self.builder.checkpoint(), self.env, end))
        if finish:
            end()
            self.alive = False

    def branch(self, condition: Value, then: Build, otherwise: Build, node: ast.AST) -> None:
        """An `if`, whose parts are built by these."""
        branch, before, ways = self.builder.if_(condition), self.env, list[Way]()
        for region, build in ((branch.then, then), (branch.otherwise, otherwise)):
            with region:
                self.env = dict(before)
                build()
                if self.alive:
                    self.leave(ways, self.builder.yield_, finish=False)
            self.alive = True
        self._meet(ways, before, lambda: branch.results, f"line {self.frames[-1].source.place(node)[0]}")

    def repeat(self, build: Build, names: set[str], node: ast.AST) -> None:
        """A loop whose body this builds, and which assigns to these names; built again until their types settle."""
        before = dict(self.env)
        set_before = [name for name in before if name in names and not isinstance(before[name], Unset)]
        kinds = {name: self._settled(before[name]) for name in set_before}
        mark, frame, place = self.builder.checkpoint(), self.frames[-1], self.error(node, LOOP)
        while True:
            initial = [v for name, kind in kinds.items() for v in self.packed(before[name], kind)]
            with self.builder.at(place):
                ways = LoopWays(self.builder.loop(*initial))
            params = iter(ways.loop.params)
            self.env = before | {name: unpacked(kind, params) for name, kind in kinds.items()}
            frame.loops.append(ways)
            with ways.loop.body:
                build()
                if self.alive:
                    self.leave(ways.back, self.builder.yield_, finish=False)
            frame.loops.pop()
            self.alive = True
            wider = self._wider(kinds, before, ways.back)
            if wider == kinds:
                break
            self.builder.rewind(mark)
            kinds = wider
        self._hand_over(ways.back, kinds)
        line = frame.source.place(node)[0]
        self._meet(ways.out, before, lambda: ways.loop.results, f"line {line}")
        why = Unset(f"the loop at line {line} may end before it is assigned; assign it before the loop, too")
        self.env |= dict.fromkeys(sorted(names.difference(self.env)), why)

    def _wider(self, kinds: dict[str, Any], before: dict[str, Any], back: list[Way]) -> dict[str, Any]:
        """The types that hold what the ways back bring, too; a name that has none loses its value before the loop."""
        wider = {}
        for name, kind in kinds.items():
            brought = [way.env[name] for way in back]
            unset = next((each for each in brought if isinstance(each, Unset)), None)
            try:
                if unset is not None:
                    raise Refused(unset.why)
                wider[name] = reduce(self.joined, map(self._settled, brought), kind)
            except Refused as refusal:
                before[name] = Unset(str(refusal))
        return wider

    def _meet(
        self, ways: list[Way], before: dict[str, Any], results: Callable[[], Iterable[Value]], where: str
    ) -> None:
        """Goes on where these ways come together, if there are any."""
        self.alive = bool(ways)
        self.env, handed = {}, dict[str, Any]()
        nothing = Unset(f"on some of the ways that meet after {where} it is not assigned; assign it on all of them")
        for name in dict.fromkeys(name for way in ways for name in way.env):
            found = [way.env.get(name, nothing) for way in ways]
            unset = next((each for each in found if isinstance(each, Unset)), None)
            if unset is not None and name != RESULT:
                self.env[name] = unset
                continue
            found = [each for each in found if not isinstance(each, Unset)]
            unchanged = all(each is before.get(name) for each in found)
            if unchanged or all(is_static(each) and same(each, found[0]) for each in found):
                self.env[name] = found[0]
                continue
            try:
                handed[name] = reduce(self.joined, map(self._settled, found))
            except Refused as refusal:
                self.env[name] = Unset(f"after {where} it is {refusal}")
        self._hand_over(ways, handed)
        values = iter(results())
        self.env |= {name: unpacked(kind, values) for name, kind in handed.items()}

    def _hand_over(self, ways: list[Way], kinds: dict[str, Any]) -> None:
        """Ends each way with these variables' values, in these types."""
        here = self.builder.checkpoint()
        for way in ways:
            self.builder.rewind(way.mark)
            values = [self._brought(way.env.get(name, Unset("")), kind) for name, kind in kinds.items()]
            way.end(*[each for brought in values for each in brought])
        self.builder.rewind(here)

    def _brought(self, value: Any, kind: Any) -> list[Value]:
        """The device values of a variable; where a function has not returned, any values stand for its result."""
        if not isinstance(value, Unset):
            return self.packed(value, kind)
        kinds = kind if isinstance(kind, tuple) else (kind,) if isinstance(kind, Kind) else ()
        return [v for k in kinds for v in (self.packed(0, k) if isinstance(k, Kind) else self._brought(value, k))]

    def _settled(self, value: Any) -> Any:
        """The type of a value that the device keeps: a Python int that is no int32 has found its type."""

        def settled(kind: Any) -> Any:
            if isinstance(kind, Kind):
                return Kind(kind.type, kind.weak and kind.type in (INT32, self.real))
            return like(kind, map(settled, kind)) if isinstance(kind, tuple) else kind

        return settled(kind_of(value, self.real))
