"""A kernel cut into parts without loops.

A part begins where a loop starts over, where it has ended, or where the branches around a loop meet. It ends with jumps
to others, which give names to what those need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from vkcompute.ir.function import EFFECTS, Constant, Function, Op, Push, Value, endings, walk

_COMPUTED = EFFECTS | {"load", "div", "rem", "mod"}  # all others may be computed again in each launch
_LEADS = frozenset({"loop", "return", "break", "continue"})


@dataclass(slots=True, eq=False)
class Part:
    """A piece without loops; `nodes` are operations, names, and at last a fork or a jump; `number` is its turn."""

    nodes: list[Node] = field(default_factory=list)
    number: int = -1


@dataclass(slots=True, eq=False)
class Fork:
    """A branch whose ways lead to different parts; nothing follows it."""

    condition: Value
    ways: list[list[Node]]


@dataclass(slots=True, eq=False)
class Jump:
    """What comes next, None at the end of the kernel, and values that others become there."""

    to: Part | None
    values: dict[Value, Value]


@dataclass(slots=True, eq=False)
class Names:
    """Results of a branch of which one way only goes on here."""

    values: dict[Value, Value]


Node = Op | Fork | Jump | Names
_Follow = Callable[[Sequence[Value]], list[Node]]


class Parts:
    """A function cut into parts.

    Attributes:
        first: from the beginning to the first loop.
        looping: those from which control may come to a loop, in the order in which a pass goes through them.
        final: those that come after all loops.
        certain: whether there is one looping part only, with which every invocation begins.
        prologue: operations that every launch may compute.
        carried: values that one part leaves to another; `fixed` are those that the first one leaves to all.
    """

    def __init__(self, function: Function) -> None:
        self._list: list[Part] = []
        self._ways: dict[Op, tuple[Part, Part]] = {}
        self.first = Part(self._run(function.body.ops, lambda _: [Jump(None, {})]))
        heads = {head for head, _ in self._ways.values()}
        self.looping = [part for part in self._list if heads & _reached(part)]
        self.final = [part for part in self._list if part not in self.looping]
        for number, part in enumerate((*self.looping, *self.final)):
            part.number = number
        self.certain = len(self.looping) == 1 and {*_targets(self.first.nodes)} == {*self.looping}
        self.prologue = list(_prologue(function))
        self._find_carried()

    def _run(self, ops: Sequence[Op], follow: _Follow) -> list[Node]:
        """Operations as nodes, up to where another part takes over; `follow` continues behind a yield."""
        nodes: list[Node] = []
        for n, op in enumerate(ops):
            if op.code == "loop":
                return [*nodes, self._loop(op, ops[n + 1 :], follow)]
            if op.code == "if" and any(each.code in _LEADS for region in op.regions for each in walk(region)):
                return [*nodes, self._fork(op, ops[n + 1 :], follow)]
            if op.code == "yield":
                return nodes + follow(op.args)
            if op.code in ("return", "unreachable"):
                return [*nodes, Jump(None, {})]
            if op.code in ("break", "continue"):
                loop, leaves = op.attribute, op.code == "break"
                names = loop.results if leaves else loop.params
                return [*nodes, Jump(self._ways[loop][leaves], dict(zip(names, op.args, strict=False)))]
            nodes.append(op)
        return nodes + follow(())

    def _loop(self, op: Op, rest: Sequence[Op], follow: _Follow) -> Jump:
        def start(values: Sequence[Value]) -> Jump:
            return Jump(head, dict(zip(op.params, values, strict=True)))

        head, after = self._ways[op] = Part(), Part()
        self._list.append(head)
        head.nodes = self._run(op.regions[0].ops, lambda values: [start(values)])
        self._list.append(after)
        after.nodes = self._run(rest, follow)
        return start(op.args)

    def _fork(self, op: Op, rest: Sequence[Op], follow: _Follow) -> Fork:
        def named(values: Sequence[Value]) -> dict[Value, Value]:
            return dict(zip(op.results, values, strict=False))

        if sum(1 for _ in endings(op)) < 2:
            return self._ways_of(op, lambda values: [Names(named(values)), *self._run(rest, follow)])
        join = Part()
        fork = self._ways_of(op, lambda values: [Jump(join, named(values))])
        self._list.append(join)
        join.nodes = self._run(rest, follow)
        return fork

    def _ways_of(self, op: Op, follow: _Follow) -> Fork:
        return Fork(op.args[0], [self._run(region.ops, follow) for region in op.regions])

    def _find_carried(self) -> None:
        everywhere = set(self.prologue)
        used: dict[Value, None] = {}
        given: dict[Part, set[Value]] = {}
        for part in (self.first, *self._list):
            given[part] = set()
            for value, defined in _uses(part.nodes, set(), given[part]):
                if value not in defined and value not in everywhere and not isinstance(value, (Constant, Push)):
                    used[value] = None
        changed = set().union(*(given[part] for part in self._list))
        self.carried = [value for value in used if value in changed]
        self.fixed = [value for value in used if value not in changed]


def _reached(part: Part) -> set[Part]:
    """The parts that control may come to after this one, and this one."""
    found, todo = {part}, [part]
    while todo:
        for to in _targets(todo.pop().nodes):
            if to is not None and to not in found:
                found.add(to)
                todo.append(to)
    return found


def _targets(nodes: list[Node]) -> Iterator[Part | None]:
    for node in nodes:
        if isinstance(node, Jump):
            yield node.to
        elif isinstance(node, Fork):
            for way in node.ways:
                yield from _targets(way)


def _uses(nodes: list[Node], defined: set[Value], given: set[Value]) -> Iterator[tuple[Value, set[Value]]]:
    """The values that nodes use, each with those that the part has defined before; `given` gets all it defines."""
    for node in nodes:
        if isinstance(node, Op):
            inner = [op for region in node.regions for op in walk(region)]
            defined.update(inner, *[op.results for op in inner])
            for op in (node, *inner):
                for value in op.args:
                    yield value, defined
            new: set[Value] = {node, *node.results}
        elif isinstance(node, Fork):
            yield node.condition, defined
            for way in node.ways:
                yield from _uses(way, set(defined), given)
            new = set()
        else:
            for value in node.values.values():
                yield value, defined
            new = set(node.values)
        given |= new
        defined |= new


def _prologue(function: Function) -> Iterator[Op]:
    """Operations at the top that depend on nothing but the launch."""
    known: set[Value] = set()
    for op in function.body.ops:
        if op.code not in _COMPUTED and all(isinstance(v, (Constant, Push)) or v in known for v in op.args):
            known.add(op)
            yield op
