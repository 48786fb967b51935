"""Grid barriers: a kernel that waits for all workgroups becomes one that each dispatch continues.

A push constant, the target, has the number of the barrier where a dispatch begins; 0 for the kernel's start. Until it
has been reached, code is skipped: values are what earlier dispatches kept. At the next barrier, an invocation keeps
what later code uses, and returns. Branches and loops around barriers are entered where the target is inside.

Kept are values in single assignment, private arrays, and shared arrays, in a buffer behind the arrays. Of values that
the host knows, it passes those of the phase as push constants (ir/grid_phases.py): so they stay uniform. Ids, and
numbers computed from them, are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from vkcompute.ir.builder import Branch, Builder, Loop
from vkcompute.ir.function import Constant, Function, GridPhases, Op, Push, Region, Value, walk
from vkcompute.ir.grid_phases import BARRIER, GridPlan, plan_of
from vkcompute.ir.memory import Memory
from vkcompute.ir.memory_views import of_integer, to_integer
from vkcompute.ir.types import BOOL, SCALARS, UINT32, Scalar, Type, Vector, element_of, vector


def divide_at_grid_barriers(function: Function) -> None:
    """Divides a kernel at its grid barriers, in place; sets `function.phases`.

    Raises:
        KernelError: the host does not know which barriers a launch passes.
    """
    if any(op.code == BARRIER for op in walk(function.body)):
        _Division(function, plan_of(function)).run()


class _Lifetimes:
    """The values that are used after a barrier and computed before it.

    Attributes:
        kept: per number of a barrier, these values.
        all_kept: those of all barriers, in order of their definitions.
        may_return: True if an invocation may return before a barrier.
    """

    def __init__(self, body: Region, plan: GridPlan, free: frozenset[Value]) -> None:
        self._at: dict[Op, tuple[int, int]] = {}
        self._n = 0
        self._count(body)
        ops = walk(body)
        defined: dict[Value, int] = {op: self._at[op][0] for op in ops if op.has_result}
        for op in ops:
            defined |= dict.fromkeys(op.params, self._at[op][0]) | dict.fromkeys(op.results, self._at[op][1])
        uses: dict[Value, list[int]] = {value: [] for value in defined if value not in free}
        for op in ops:
            for value in op.args:
                if value in uses:
                    uses[value].append(self._at[op][0])
        loops = [self._at[op] for op in plan.structural if op.code == "loop"]
        self.kept: dict[int, list[Value]] = {}
        for number, barrier in enumerate(plan.barriers, 1):
            here = self._at[barrier][0]
            around = [span for span in loops if span[0] < here < span[1]]
            self.kept[number] = [
                value
                for value, at in uses.items()
                if defined[value] < here and _is_live(at, here, [span for span in around if defined[value] < span[0]])
            ]
        self.all_kept = [value for value in uses if any(value in kept for kept in self.kept.values())]
        last = self._at[plan.barriers[-1]][0]
        left = [self._at[op][0] for op in ops if op.code == "return"]
        self.may_return = any(at < last or any(start < at < stop for start, stop in loops) for at in left)

    def _count(self, region: Region) -> None:
        for op in region.ops:
            start, self._n = self._n, self._n + 1
            for inner in op.regions:
                self._count(inner)
            self._at[op] = start, self._n + 1  # the results of an operation come before the next one
            self._n += 2


def _is_live(uses: Sequence[int], here: int, loops: Sequence[tuple[int, int]]) -> bool:
    return any(at > here or any(start < at < stop for start, stop in loops) for at in uses)


class _Division:
    """Builds the divided kernel."""

    def __init__(self, function: Function, plan: GridPlan) -> None:
        self._old, self._plan = function, plan
        self._free = frozenset(_free(function.body, plan))
        self._lifetimes = _Lifetimes(function.body, plan, self._free)
        self._arguments = tuple(function.pushes)
        self._new = function.empty_copy()
        self._b = Builder(self._new)
        self._env: dict[Value, Value] = {}
        self._loops: dict[Op, Loop] = {}
        self._zero: Value = self._b.const(0, UINT32)
        self._target = self._new.push("phase", UINT32)
        self._numbers: dict[Value, Push] = {}  # kept values that the host passes
        self._words: dict[Value | Memory, int] = {}  # where the others are among the words of an invocation
        self._n_words = 1 if self._lifetimes.may_return else 0  # the first one has the barrier that it has reached
        self._shared: dict[Memory, int] = {}
        self._n_shared = 0
        self._assign()
        self._memory = self._buffer()
        self._index: Value = self._zero
        self._n_invocations: Value = self._zero
        self._n_groups: Value = self._zero
        self._group: Value = self._zero

    def run(self) -> None:
        """Replaces the function's body."""
        self._ids()
        self._restore()
        end = self._ops(self._old.body.ops, self._target)
        if end is not None and self._b.reachable:
            self._b.copy(end, self._env)
        known = tuple(self._numbers)
        old = self._old
        old.phases = GridPhases(
            Region(old.body.ops), self._plan.structural, known, self._arguments, self._n_words, self._n_shared
        )
        old.body, old.buffers, old.pushes = self._new.body, self._new.buffers, self._new.pushes

    # -- memory -------------------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        """Assigns push constants and words to what is kept."""
        for value in self._lifetimes.all_kept:
            if self._plan.is_known(value):
                kind = value.type if value.type is not BOOL else UINT32
                assert isinstance(kind, Scalar)
                self._numbers[value] = self._new.push(f"kept{len(self._numbers)}", kind)
            else:
                self._words[value] = self._n_words
                self._n_words += _n_words(value.type)
        for memory in _across(self._old.body, self._plan):
            length = (memory.length or 0) * _n_words(memory.type)
            if memory.private:
                self._words[memory] = self._n_words
                self._n_words += length
            else:
                self._shared[memory] = self._n_shared
                self._n_shared += length

    def _buffer(self) -> Memory:
        """Returns the buffer for what is kept, before that of reports."""
        buffers = self._new.buffers
        at = next((at for at, memory in enumerate(buffers) if memory.for_host), len(buffers))
        memory = Memory("kept", UINT32, for_host=True)
        buffers.insert(at, memory)
        return memory

    def _ids(self) -> None:
        """Builds the linear indices of the invocation and of its workgroup, and the sizes of the grid."""
        b = self._b
        self._index, self._n_groups, self._group = b.linear_id(), b.const(1, UINT32), self._zero
        for axis in reversed(range(3)):
            length = b.builtin("n_groups", axis)
            self._n_groups = b.compute("mul", self._n_groups, length)
            self._group = b.compute("add", b.compute("mul", self._group, length), b.builtin("group_id", axis))
        x, y, z = self._new.local_size
        self._n_invocations = b.compute("mul", self._n_groups, b.const(x * y * z, UINT32))

    def _word(self, at: Value) -> Value:
        """Returns the index of a word of this invocation."""
        return self._b.compute("add", self._b.compute("mul", at, self._n_invocations), self._index)

    def _group_word(self, at: Value) -> Value:
        """Returns the index of a word of this workgroup."""
        b = self._b
        start = b.compute("mul", self._n_invocations, b.const(self._n_words, UINT32))
        here = b.compute("mul", self._group, b.const(self._n_shared, UINT32))
        return b.compute("add", b.compute("add", start, here), at)

    @contextmanager
    def _where(self, condition: Value) -> Iterator[None]:
        """Builds code for a condition."""
        branch = self._b.if_(condition)
        with branch.then:
            yield
        with branch.otherwise:
            self._b.yield_()

    def _store(self, index: Callable[[Value], Value], at: Value, value: Value) -> None:
        """Stores a value as words from `at` on."""
        for n, word in enumerate(_to_words(self._b, value)):
            self._b.store(self._memory, index(self._b.compute("add", at, self._b.const(n, UINT32))), word)

    def _load(self, index: Callable[[Value], Value], at: Value, kind: Type) -> Value:
        """Loads a value from words from `at` on."""
        b = self._b
        offsets = [b.compute("add", at, b.const(n, UINT32)) for n in range(_n_words(kind))]
        return _of_words(b, [b.load(self._memory, index(word)) for word in offsets], kind)

    def _for_elements(self, memory: Memory, start: Value, step: Value, build: Callable[[Value, Value], None]) -> None:
        """Builds a loop over elements of an array; `build` gets the index, and that of its first word."""
        b, length = self._b, self._b.const(memory.length or 0, UINT32)
        loop = b.loop(start)
        with loop.body:
            (at,) = loop.params
            with self._where(b.compute("ge", at, length)):
                b.break_(loop)
            build(at, b.compute("mul", at, b.const(_n_words(memory.type), UINT32)))
            b.yield_(b.compute("add", at, step))

    def _copy_arrays(self, *, keeps: bool) -> None:
        """Keeps the private arrays of the invocation, or restores them."""
        for memory, first in self._words.items():
            if isinstance(memory, Memory):
                copy = self._copier(memory, first, self._word, keeps=keeps)
                self._for_elements(memory, self._zero, self._b.const(1, UINT32), copy)

    def _copy_shared(self, *, keeps: bool) -> None:
        """Keeps the shared arrays of the workgroup, or restores them.

        Where invocations may have returned, each of the others keeps all elements.
        """
        b = self._b
        alone = keeps and self._lifetimes.may_return
        x, y, z = self._new.local_size
        start, step = (self._zero, 1) if alone else (b.builtin("local_index"), x * y * z)
        for memory, first in self._shared.items():
            copy = self._copier(memory, first, self._group_word, keeps=keeps)
            self._for_elements(memory, start, b.const(step, UINT32), copy)

    def _copier(
        self, memory: Memory, first: int, index: Callable[[Value], Value], *, keeps: bool
    ) -> Callable[[Value, Value], None]:
        """Returns a function that builds the copy of an element to or from its words, of which `first` is the first."""
        b = self._b

        def copy(at: Value, word: Value) -> None:
            word = b.compute("add", word, b.const(first, UINT32))
            if keeps:
                self._store(index, word, b.load(memory, at))
            else:
                b.store(memory, at, self._load(index, word, memory.type))

        return copy

    # -- phases -------------------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        """Builds the restoration of kept arrays, for dispatches that continue the kernel."""
        b = self._b
        with self._where(b.compute("ne", self._target, self._zero)), b.at(self._plan.barriers[0].loc):
            if self._shared:
                self._copy_shared(keeps=False)
                b.barrier()
            if self._lifetimes.may_return:
                reached = b.load(self._memory, self._word(self._zero))
                with self._where(b.compute("ne", reached, self._target)):
                    b.return_()
            self._copy_arrays(keeps=False)
        if self._lifetimes.may_return:
            b.store(self._memory, self._word(self._zero), self._zero)

    def _kept(self, value: Value) -> Value:
        """Returns what an earlier dispatch has kept of a value; a zero if no later code uses it."""
        b = self._b
        if value in self._numbers:
            number = self._numbers[value]
            return b.compute("ne", number, self._zero) if value.type is BOOL else number
        if value in self._words:
            return self._load(self._word, b.const(self._words[value], UINT32), value.type)
        return b.zero(value.type)

    def _has_reached(self, target: Value) -> Value:
        """True if the target has been reached, so that code runs."""
        return self._b.compute("eq", target, self._zero)

    def _ops(self, ops: Sequence[Op], target: Value) -> Op | None:
        """Builds operations; returns the terminator, before which the target has been reached."""
        segment: list[Op] = []
        last = max([at for at, op in enumerate(ops) if self._number(op)], default=-1)
        if last < 0:
            target = self._zero  # the target is not inside, so it has been reached
        for at, op in enumerate(ops):
            if op.operation.terminator:
                self._flush(segment, target)
                return op
            if op.code != BARRIER and op not in self._plan.structural:
                segment.append(op)
                continue
            self._flush(segment, target)
            segment = []
            if not self._b.reachable:
                return None
            with self._b.at(op.loc):
                self._barrier(op, target) if op.code == BARRIER else self._structural(op, target)
                number = self._b.const(self._number(op), UINT32)
                if at >= last:
                    target = self._zero
                elif self._b.reachable:
                    target = self._b.select(self._b.compute("gt", target, number), target, self._zero)
        self._flush(segment, target)
        return None

    def _number(self, op: Op) -> int:
        """Returns the number of a barrier, or of the last one inside an operation; 0 without one."""
        return self._plan.barriers.index(op) + 1 if op.code == BARRIER else self._plan.highest(op)

    def _flush(self, segment: Sequence[Op], target: Value) -> None:
        """Builds operations, which are skipped until the target has been reached."""
        if not self._b.reachable:
            return
        for op in segment:
            if op in self._free:
                self._b.copy(op, self._env)
        rest = [op for op in segment if op not in self._free]
        runs = self._has_reached(target)
        if isinstance(runs, Constant):
            self._copy(rest)
            return
        used = _used_after(rest, self._old.body)
        if rest:
            self._guarded(runs, used, lambda: self._copied(rest, used))

    def _copy(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if self._b.reachable:
                self._b.copy(op, self._env)

    def _copied(self, ops: Iterable[Op], used: Sequence[Value]) -> list[Value]:
        self._copy(ops)
        return [self._env.get(value, value) for value in used]

    def _guarded(self, condition: Value, values: Sequence[Value], build: Callable[[], Sequence[Value]]) -> None:
        """Builds code that is skipped where a condition is False, with the kept values then."""
        branch: Branch = self._b.if_(condition)
        with branch.then:
            results = build()
            if self._b.reachable:
                self._b.yield_(*results)
        with branch.otherwise:
            self._b.yield_(*map(self._kept, values))
        self._env.update(zip(values, branch.results, strict=True))

    def _barrier(self, op: Op, target: Value) -> None:
        """Builds the end of a dispatch at a barrier."""
        b, number = self._b, self._number(op)
        with self._where(self._has_reached(target)):
            if self._shared:
                b.barrier()
                self._copy_shared(keeps=True)
            for value in self._lifetimes.kept[number]:
                if value in self._words:
                    first = b.const(self._words[value], UINT32)
                    self._store(self._word, first, self._env.get(value, value))
            self._copy_arrays(keeps=True)
            if self._lifetimes.may_return:
                b.store(self._memory, self._word(self._zero), b.const(number, UINT32))
            b.return_()

    def _structural(self, op: Op, target: Value) -> None:
        """Builds a branch or a loop around barriers, which is entered if the target is inside or has been reached."""
        build = self._branch if op.code == "if" else self._loop
        enters = self._b.compute("le", target, self._b.const(self._number(op), UINT32))
        if isinstance(enters, Constant):
            results = build(op, target)
            self._env.update(zip(op.results, results, strict=False))
        else:
            self._guarded(enters, op.results, lambda: build(op, target)[: len(op.results)])

    def _branch(self, op: Op, target: Value) -> Sequence[Value]:
        b = self._b
        condition = self._env.get(op.args[0], op.args[0])
        first = b.const(max([self._number(inner) for inner in op.regions[0].ops], default=0), UINT32)
        runs = self._has_reached(target)
        branch = b.if_(b.select(runs, condition, b.compute("le", target, first)))
        for region, part in zip(op.regions, (branch.then, branch.otherwise), strict=True):
            with part:
                self._end(self._ops(region.ops, target))
        return branch.results

    def _loop(self, op: Op, target: Value) -> Sequence[Value]:
        b, runs = self._b, self._has_reached(target)
        values = [
            b.select(runs, self._env.get(value, value), self._kept(param))
            for param, value in zip(op.params, op.args, strict=True)
        ]
        loop = self._loops[op] = b.loop(*values, target)
        with loop.body:
            self._env.update(zip(op.params, loop.params, strict=False))
            self._end(self._ops(op.regions[0].ops, loop.params[-1]), in_loop=True)
        return loop.results

    def _end(self, end: Op | None, *, in_loop: bool = False) -> None:
        """Builds the terminator of a region; the next iteration of a loop has no target."""
        if end is None or not self._b.reachable:
            return
        values = [self._env.get(value, value) for value in end.args]
        if end.code == "yield":
            self._b.yield_(*values, *[self._zero] * in_loop)
        elif end.code == "continue":
            self._b.continue_(self._loops[end.attribute], *values, self._zero)
        elif end.code == "break":
            self._b.break_(self._loops[end.attribute], *values)
        else:
            self._b.copy(end, self._env)


def _free(body: Region, plan: GridPlan) -> set[Value]:
    """Returns the ids, and what is computed from them and from push constants alone, at the level of barriers."""
    free: set[Value] = set()

    def visit(region: Region) -> None:
        for op in region.ops:
            if op in plan.structural:
                for inner in op.regions:
                    visit(inner)
                continue
            row = op.operation
            fixed = op.has_result and row.repeatable and not (row.may_trap or row.divergent or op.memory)
            if fixed and all(value in free or isinstance(value, (Constant, Push)) for value in op.args):
                free.add(op)

    visit(body)
    return free


def _across(body: Region, plan: GridPlan) -> list[Memory]:
    """Returns the private and shared arrays that code before and after a barrier accesses."""
    parts: dict[Memory, set[int]] = {}
    n = 0

    def visit(region: Region) -> None:
        nonlocal n
        for op in region.ops:
            if op.code == BARRIER or op in plan.structural:
                n += 1
            inner = [op] if op in plan.structural else walk(Region([op]))
            for access in inner:
                if access.memory is not None and access.memory.length is not None:
                    parts.setdefault(access.memory, set()).add(n)
            for part in op.regions if op in plan.structural else ():
                visit(part)
                n += 1

    visit(body)
    loops = [op for op in plan.structural if op.code == "loop"]
    in_loops = {op.memory for loop in loops for op in walk(loop.regions[0])}
    return [memory for memory, at in parts.items() if len(at) > 1 or (memory in in_loops and not memory.private)]


def _used_after(ops: Sequence[Op], body: Region) -> list[Value]:
    """Returns the values of operations that others use."""
    inside = {inner for op in ops for inner in walk(Region([op]))}
    defined = [value for op in ops for value in ((op,) if op.has_result else op.results)]
    others = {value for op in walk(body) if op not in inside for value in op.args}
    return [value for value in defined if value in others]


def _n_words(kind: Type) -> int:
    n = kind.n if isinstance(kind, Vector) else 1
    return n * (2 if element_of(kind).bits == 64 else 1)


def _to_words(b: Builder, value: Value) -> list[Value]:
    """Returns the bits of a value as uint32; of small numbers, one word each."""
    if isinstance(value.type, Vector):
        return [word for at in range(value.type.n) for word in _to_words(b, b.extract(value, at))]
    bits = to_integer(b, value)
    if value.type.bits == 64:
        halves = b.bitcast(bits, vector(UINT32, 2))
        return [b.extract(halves, 0), b.extract(halves, 1)]
    return [b.cast(bits, UINT32)]


def _of_words(b: Builder, words: Sequence[Value], kind: Type) -> Value:
    """Returns the value of a type with these bits."""
    if isinstance(kind, Vector):
        n = len(words) // kind.n
        parts = [words[at : at + n] for at in range(0, len(words), n)]
        return b.vector(*[_of_words(b, part, kind.element) for part in parts])
    if kind.bits == 64:
        return of_integer(b, b.bitcast(b.vector(*words), SCALARS["uint64"]), kind)
    if kind is BOOL:
        return b.compute("ne", words[0], b.const(0, UINT32))
    return of_integer(b, b.cast(words[0], SCALARS[f"uint{kind.bits}"]), kind)
