"""Kernels that stop after so many passes through their loops, and go on in another launch where they stopped.

All loops become one, which goes through the parts of the kernel in order; a number says which part comes next. So each
pass takes every invocation to the start of its next iteration, whichever loop that is of: invocations in different
loops do not wait for each other, and an invocation's passes are those of all that run in step with it. What one part
computes and another uses is carried, and so it is all that has to be kept from one launch to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Memory, Op, Value, walk
from vkcompute.ir.parts import Fork, Jump, Node, Part, Parts
from vkcompute.ir.remainder import passes_of
from vkcompute.ir.types import SCALARS, UINT32, UINT64, Type, Vector


def can_resume(function: Function) -> bool:
    """Whether an invocation may stop while others of its workgroup go on."""
    together = {"barrier", "subgroup"}
    return not function.shared_memory and not any(op.code in together for op in walk(function.body))


def repeatable(function: Function) -> bool:
    """Whether what was begun may begin again: it reads nothing that it writes."""
    ops = list(walk(function.body))
    written = {op.attribute for op in ops if op.code == "store"}
    return not any(
        op.code in ("atomic", "compare_exchange") or (op.code == "load" and op.attribute in written) for op in ops
    )


def resumable(function: Function, budget: int, *, again: bool = False, keep: bool = True) -> tuple[Function, int]:
    """A kernel that does the same, but stops after `budget` passes.

    It has two more buffers of uint32: `status`, whose element becomes 1 if an invocation has not come to its end, and
    `state`, in which what it goes on from is kept.

    Args:
        function: that `can_resume`.
        budget: at least 1; the passes of remainders of floats count, and one pass is made whatever they are.
        again: whether it goes on from the state rather than from its beginning.
        keep: whether there is a state.

    Returns:
        The kernel, and the words of state per invocation.
    """
    return _Machine(function, Parts(function), keep=keep).build(max(budget // weight(function), 1), again=again)


def weight(function: Function) -> int:
    """How many passes there are at most to one pass through all parts, by the loops of remainders of floats."""
    return 1 + sum(map(passes_of, walk(function.body)))


class _Machine:
    """Builds a function of parts."""

    def __init__(self, function: Function, parts: Parts, *, keep: bool) -> None:
        self._function, self._parts = Function(function.name, function.local_size), parts
        self._function.buffers, self._function.pushes = [*function.buffers], function.pushes
        self._b = Builder(self._function)
        self._env: dict[Value, Value] = {}
        self._status = self._function.buffer("status", UINT32)
        self._state, self._keep = Memory("state", UINT32), keep
        self._function.buffers += [self._state] * keep

    def build(self, budget: int, *, again: bool) -> tuple[Function, int]:
        """The function, and the words of state per invocation."""
        parts, b = self._parts, self._b
        for op in parts.prologue:
            b.copy(op, self._env)
        self._index, self._stride = self._b.linear_id()
        if again:
            part = b.load(self._state, self._index)
            with b.if_(b.binary("lt", part, self._number(len(parts.looping)))).then:
                return self._function, self._go_on(budget, part, self._loaded(), certain=len(parts.looping) == 1)
        zeros = {value: self._zero(value.type) for value in (*parts.carried, *parts.fixed)}
        part, changed = self._way(parts.first.nodes, self._env | zeros, zeros)
        return self._function, self._go_on(budget, part, zeros | changed, certain=parts.certain)

    def _go_on(self, budget: int, part: Value, values: dict[Value, Value], *, certain: bool) -> int:
        """The loop, what follows it, and the state that is left."""
        parts = self._parts
        self._env |= {value: values[value] for value in parts.fixed}
        initial = [values[value] for value in parts.carried]
        run = self._all_parts if len(parts.looping) > 1 else self._one_part if certain else self._one_part_or_none
        part, *carried = run(budget, part, initial)
        part, current = self._through(parts.final, part, dict(zip(parts.carried, carried, strict=True)))
        return self._save(part, [*current.values(), *[self._env[value] for value in parts.fixed]])

    def _all_parts(self, budget: int, part: Value, initial: Sequence[Value]) -> Sequence[Value]:
        """A loop through all parts; gives the next part and what is carried there, as the next two do."""
        b, parts = self._b, self._parts
        loop = b.loop(self._number(0), part, *initial)
        with loop.body:
            count, part = loop.params[:2]
            part, current = self._through(parts.looping, part, dict(zip(parts.carried, loop.params[2:], strict=True)))
            following = b.binary("add", count, self._number(1))
            ended = b.binary("ge", part, self._number(len(parts.looping)))
            leave = b.if_(b.binary("or", ended, b.binary("ge", following, self._number(budget))))
            with leave.then:
                b.break_(loop, part, *current.values())
            b.yield_(following, part, *current.values())
        return loop.results

    def _one_part_or_none(self, budget: int, part: Value, initial: Sequence[Value]) -> Sequence[Value]:
        """A loop through the only part, for those who come to it."""
        b = self._b
        branch = b.if_(b.binary("eq", part, self._number(0)))
        with branch.then:
            b.yield_(*self._one_part(budget, part, initial))
        with branch.otherwise:
            b.yield_(part, *initial)
        return branch.results

    def _one_part(self, budget: int, _: Value, initial: Sequence[Value]) -> Sequence[Value]:
        """A loop through the only part, which leaves it and starts over where that does."""
        b, parts = self._b, self._parts

        def run(nodes: list[Node], env: dict[Value, Value]) -> None:
            end = self._straight(nodes, env)
            if isinstance(end, Fork):
                branch = b.if_(env.get(end.condition, end.condition))
                for region, way in zip((branch.then, branch.otherwise), end.ways, strict=True):
                    with region:
                        run(way, dict(env))
                return
            carried, number = [env[value] for value in parts.carried], self._number_of(end)
            if end.to is parts.looping[0]:
                following = b.binary("add", loop.params[0], self._number(1))
                with b.if_(b.binary("ge", following, self._number(budget))).then:
                    b.break_(loop, number, *carried)
                b.continue_(loop, following, *carried)
            else:
                b.break_(loop, number, *carried)

        loop = b.loop(self._number(0), *initial)
        with loop.body:
            run(parts.looping[0].nodes, self._env | dict(zip(parts.carried, loop.params[1:], strict=True)))
        return loop.results

    def _through(
        self, parts: Sequence[Part], number: Value, current: dict[Value, Value]
    ) -> tuple[Value, dict[Value, Value]]:
        """Those of the parts whose turn comes; gives the number of the next, and what is carried there."""
        b = self._b
        for part in parts:
            before = number, dict(current)
            branch = b.if_(b.binary("eq", number, self._number(part.number)))
            with branch.then:
                number, changed = self._way(part.nodes, self._env | current, current)
                b.yield_(number, *changed.values())
            with branch.otherwise:
                b.yield_(before[0], *[current[value] for value in changed])
            number, *results = branch.results
            current = current | dict(zip(changed, results, strict=True))
        return number, current

    def _way(
        self, nodes: list[Node], env: dict[Value, Value], before: dict[Value, Value]
    ) -> tuple[Value, dict[Value, Value]]:
        """Nodes up to a jump: the number of the part that it leads to, and what is not as `before` there."""
        end = self._straight(nodes, env)
        if isinstance(end, Fork):
            return self._both(end, env, before)
        return self._number_of(end), {value: env[value] for value in before if env[value] is not before[value]}

    def _straight(self, nodes: list[Node], env: dict[Value, Value]) -> Fork | Jump:
        """Nodes up to a fork or a jump, which it gives; `env` is as there."""
        for node in nodes:
            if isinstance(node, Op):
                self._b.copy(node, env)
            elif isinstance(node, Fork):
                return node
            else:
                env |= {value: env.get(each, each) for value, each in node.values.items()}
                if isinstance(node, Jump):
                    return node
        raise AssertionError("a part ends with a jump or a fork")

    def _both(
        self, fork: Fork, env: dict[Value, Value], before: dict[Value, Value]
    ) -> tuple[Value, dict[Value, Value]]:
        b, found, marks = self._b, [], []
        branch = b.if_(env.get(fork.condition, fork.condition))
        for region, way in zip((branch.then, branch.otherwise), fork.ways, strict=True):
            with region:
                found.append(self._way(way, dict(env), before))
                marks.append(b.checkpoint())
        here = b.checkpoint()
        names = [value for value in before if any(value in changed for _, changed in found)]
        for mark, (number, changed) in zip(marks, found, strict=True):
            b.rewind(mark)
            b.yield_(number, *[changed.get(value, before[value]) for value in names])
        b.rewind(here)
        number, *results = branch.results
        return number, dict(zip(names, results, strict=True))

    # -- state --------------------------------------------------------------------------------------------------------

    def _number_of(self, jump: Jump) -> Value:
        """The number of the part that comes next, or the one after the last."""
        return self._number(jump.to.number if jump.to else len(self._parts.looping) + len(self._parts.final))

    def _number(self, value: int) -> Value:
        return self._b.const(value, UINT32)

    def _zero(self, kind: Type) -> Value:
        if isinstance(kind, Vector):
            return self._b.vector(*[self._b.const(0, kind.element)] * kind.n)
        return self._b.const(0, kind)

    def _word(self, n: int) -> Value:
        """Where word n of the invocation's state lies: those of all invocations side by side."""
        return self._b.binary("add", self._index, self._b.binary("mul", self._stride, self._number(n)))

    def _save(self, part: Value, values: Sequence[Value]) -> int:
        b = self._b
        if self._keep:
            b.store(self._state, self._index, part)
        unfinished = b.if_(b.binary("lt", part, self._number(len(self._parts.looping))))
        with unfinished.then:
            b.store(self._status, self._number(0), self._number(1))
            words = [word for value in values for word in _words(b, value)] if self._keep else []
            for n, word in enumerate(words):
                b.store(self._state, self._word(n + 1), word)
        return len(words) + 1

    def _loaded(self) -> dict[Value, Value]:
        def words() -> Iterator[Value]:
            n = 0
            while True:
                n += 1
                yield self._b.load(self._state, self._word(n))

        following = words()
        return {value: _value(self._b, value.type, following) for value in (*self._parts.carried, *self._parts.fixed)}


def _words(b: Builder, value: Value) -> Iterator[Value]:
    """A value as numbers of 32 bits."""
    kind = value.type
    if isinstance(kind, Vector):
        for n in range(kind.n):
            yield from _words(b, b.extract(value, n))
        return
    if kind.kind == "f":
        value = b.bitcast(value, SCALARS[f"uint{kind.bits}"])
    if kind.bits == 64:
        value = b.cast(value, UINT64)
        yield b.cast(value, UINT32)
        value = b.binary("shr", value, b.const(32, UINT64))
    yield b.cast(value, UINT32)


def _value(b: Builder, kind: Type, words: Iterator[Value]) -> Value:
    """The value of which `_words` made these."""
    if isinstance(kind, Vector):
        return b.vector(*[_value(b, kind.element, words) for _ in range(kind.n)])
    number = next(words)
    if kind.bits == 64:
        high = b.binary("shl", b.cast(next(words), UINT64), b.const(32, UINT64))
        number = b.binary("or", b.cast(number, UINT64), high)
    if kind.kind == "f":
        return b.bitcast(b.cast(number, SCALARS[f"uint{kind.bits}"]), kind)
    return b.cast(number, kind)
