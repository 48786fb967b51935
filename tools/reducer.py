"""Delta debugging of kernels in the intermediate form: removes what a fault does not need.

The algorithm is ddmin (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002), applied to the
operations of each region, the outermost first. Then branches are replaced by one of their sides, loops by one
iteration, and operations by their operands or constants. Where nothing more can go, an operation alone with a store
replaces what is left. Every candidate is valid, by `ir.verify`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from vkcompute import ir
from vkcompute.errors import IrError
from vkcompute.ir.elimination import eliminate_dead_code, fold_branches
from vkcompute.ir.function import Constant, Function, Op, Param, Region, Result, Value, back_edges, exits, walk
from vkcompute.ir.rewriting import rewrite
from vkcompute.ir.types import BOOL, UINT32, Scalar

Fails = Callable[[Function], bool]
"""True if the fault is still there. The function may be changed by it."""
Edit = Callable[[Function, Op, dict[Value, Value]], "list[Op] | None"]
"""Replaces an operation, as `rewrite` does. Raises IrError if that is not possible."""


def size_of(function: Function) -> int:
    """Returns the number of operations."""
    return len(walk(function.body))


def reduced(function: Function, fails: Fails, log: Callable[[str], None] = lambda text: None) -> Function:
    """Returns a smaller function that still fails; the given one must fail.

    Args:
        function: is not changed.
        fails: is called with each candidate.
        log: is called with a line after each success.
    """
    search = _Search(function, fails, log)
    while True:
        before = size_of(search.best)
        search.remove_ranges()
        search.take_branches()
        search.simplify()
        if size_of(search.best) == before:
            search.isolate()
        if size_of(search.best) == before:
            return search.best


class _Search:
    """The best candidate so far."""

    def __init__(self, function: Function, fails: Fails, log: Callable[[str], None]) -> None:
        self.best, self._fails, self._log = clone(function), fails, log
        self._n_tries = 0
        self._tried: set[str] = set()

    def remove_ranges(self) -> None:
        """Removes ranges of operations from each region: all, then halves, and so on down to single ones.

        A region that grows, as one side of a branch takes its place, begins anew with all of its operations.
        """
        at = 0
        while at < len(list(_regions(self.best.body))):
            length = max(1, len(self._removable(at)))
            while length:
                start = 0
                while start < len(ops := self._removable(at)):
                    if not self._try(dict.fromkeys(ops[start : start + length], _removed)):
                        start += length
                    elif (n_now := len(self._removable(at))) > len(ops):
                        start, length = 0, n_now
                length //= 2
            at += 1

    def _removable(self, at: int) -> list[Op]:
        """Returns the operations of a region but its terminator; none if the region has gone with another."""
        region = next(itertools.islice(_regions(self.best.body), at, None), Region())
        return [op for op in region.ops if not op.operation.terminator]

    def take_branches(self) -> None:
        """Replaces branches by one of their sides, and loops by one iteration."""
        for code, edit in (("if", _then), ("if", _otherwise), ("loop", _once)):
            for op in self._from_the_end(code):
                self._try({op: edit})

    def simplify(self) -> None:
        """Replaces operations by 0, or by an operand of the same type."""
        for op in self._from_the_end():
            if not op.has_result:
                continue
            operands = [at for at, value in enumerate(op.args) if value.type is op.type]
            edits: list[Edit] = [_zero, *(partial(_operand, at) for at in operands)]
            any(self._try({op: edit}) for edit in edits)

    def isolate(self) -> None:
        """Replaces everything by one operation and what it is computed from, outside of branches and loops."""
        for op in self._from_the_end():
            if not self._keep(isolated(self.best, op)):
                self._keep(isolated(self.best, op, by_id=True))

    def _from_the_end(self, code: str = "") -> Iterator[Op]:
        """Yields operations of the best candidate, the last first: so those before one keep their positions."""
        for at in reversed(range(size_of(self.best))):
            ops = walk(self.best.body)
            if at < len(ops) and ops[at].code == (code or ops[at].code):
                yield ops[at]

    def _try(self, edits: Mapping[Op, Edit]) -> bool:
        return self._keep(edited(self.best, edits))

    def _keep(self, candidate: Function | None) -> bool:
        """Keeps a candidate if it is valid, smaller and still fails."""
        if candidate is None or size_of(candidate) >= size_of(self.best) or (text := ir.text(candidate)) in self._tried:
            return False
        self._tried.add(text)
        self._n_tries += 1
        if not self._fails(clone(candidate)):
            return False
        self.best = candidate
        self._log(f"{size_of(candidate)} operations after {self._n_tries} tries")
        return True


def _regions(region: Region) -> Iterator[Region]:
    """Yields a region and those inside it, in preorder."""
    yield region
    for op in region.ops:
        for inner in op.regions:
            yield from _regions(inner)


def edited(function: Function, edits: Mapping[Op, Edit]) -> Function | None:
    """Returns a copy with edited operations; None if it is not valid, or has an endless loop."""
    copies: dict[Value, Value] = {}
    made = clone(function, copies)
    by_copy = {id(copies[op]): edit for op, edit in edits.items()}

    def replace(op: Op, replaced: dict[Value, Value]) -> list[Op] | None:
        edit = by_copy.get(id(op))
        return None if edit is None else edit(made, op, replaced)

    try:
        rewrite(made, replace)
        eliminate_dead_code(fold_branches(made))
        drop_unused(made)
        ir.verify(made)
    except IrError:
        return None
    return None if any(map(_is_endless, walk(made.body))) else made


def isolated(function: Function, op: Op, *, by_id: bool = False) -> Function | None:
    """Returns a copy of an operation, of those that it is computed from, and of a store of its result.

    Values that loops carry are those of the first iteration. It is None if no buffer takes the result, or if the copy
    is not valid.

    Args:
        by_id: stores to the invocation's own element rather than to the first one, where all must store the same.
    """
    if not op.has_result or op.regions:
        return None
    copies: dict[Value, Value] = {}
    made = clone(function, copies)
    memory = next(
        (memory for memory in reversed(made.buffers) if memory.element is op.type and memory.lanes == 1), None
    )
    if memory is None:
        return None
    first = {param: value for loop in walk(made.body) for param, value in zip(loop.params, loop.args, strict=False)}
    ops: dict[Op, None] = {}

    def needed(value: Value) -> Value:
        while value in first:
            value = first[value]
        if isinstance(value, Result):
            return _constant(made, value, 1)
        if isinstance(value, Op) and value not in ops:
            value.args = tuple(map(needed, value.args))
            ops[value] = None
        return value

    try:
        result = needed(copies[op])
        made.body.ops = [*ops]
        builder = ir.Builder(made)
        at = builder.builtin("global_id", 0) if by_id else made.constant(0, UINT32)
        builder.store(memory, at, result)
        ir.verify(made)
    except IrError:
        return None
    return made


def _is_endless(op: Op) -> bool:
    """Returns whether nothing leaves a loop: a driver may hang on it even where it is not reached."""
    inside = {inner.code for region in op.regions for inner in walk(region)}
    return op.code == "loop" and next(exits(op), None) is None and "return" not in inside


def drop_unused(function: Function) -> None:
    """Drops results of branches and loops that nothing uses, and values that loops carry for nothing, in place."""
    used = {value for op in walk(function.body) for value in op.args}
    for op in walk(function.body):
        kept = [at for at, value in enumerate(op.results) if value in used]
        if len(kept) < len(op.results):
            op.results = tuple(op.results[at] for at in kept)
            for end in list(exits(op)):
                end.args = tuple(end.args[at] for at in kept)
        kept = [at for at, value in enumerate(op.params) if value in used]
        if len(kept) < len(op.params):
            op.params = tuple(op.params[at] for at in kept)
            for edge in (op, *back_edges(op)):
                edge.args = tuple(edge.args[at] for at in kept)
    eliminate_dead_code(function)


def _removed(function: Function, op: Op, replaced: dict[Value, Value]) -> list[Op]:
    """Removes an operation; 1 takes the place of its results, which is no dangerous divisor, shift or index."""
    for value in (op, *op.results) if op.has_result else op.results:
        replaced[value] = _constant(function, value, 1)
    return []


def _zero(function: Function, op: Op, replaced: dict[Value, Value]) -> list[Op]:
    replaced[op] = _constant(function, op, 0)
    return []


def _operand(at: int, function: Function, op: Op, replaced: dict[Value, Value]) -> list[Op]:
    replaced[op] = op.args[at]
    return []


def _constant(function: Function, value: Value, number: int) -> Constant:
    """Returns a constant of the type of a value. Raises IrError for a vector, of which there are none."""
    if not isinstance(value.type, Scalar):
        raise IrError("no constant takes the place of a vector")
    return function.constant(number, value.type)


def _then(function: Function, op: Op, replaced: dict[Value, Value]) -> None:
    op.args = (function.constant(True, BOOL),)  # folded afterwards


def _otherwise(function: Function, op: Op, replaced: dict[Value, Value]) -> None:
    op.args = (function.constant(False, BOOL),)


def _once(function: Function, op: Op, replaced: dict[Value, Value]) -> list[Op]:
    """Replaces a loop by the body of its first iteration, without the branches that leave it."""
    body, end = op.regions[0], op.regions[0].terminator
    first: dict[Value, Value] = dict(zip(op.params, op.args, strict=True))
    ops = [each for each in body.ops[: -1 if end else None] if not any(_leaves(each, op))]
    for each in walk(Region(ops)):
        each.args = tuple(first.get(value, value) for value in each.args)
    after: dict[Value, Value] = {}
    if end is not None and end.code in ("yield", "continue"):
        after.update(zip(op.params, end.args, strict=True))
    left = next(exits(op), None)
    for result, value in zip(op.results, left.args if left and op.results else (), strict=True):
        last = after.get(value, value)
        replaced[result] = first.get(last, last)
    return ops


def _leaves(op: Op, loop: Op) -> Iterator[bool]:
    """Yields for each terminator inside an operation whether it leads to a loop, or ends the invocation."""
    for inner in walk(Region([op])):
        yield inner.operation.terminator and (inner.attribute is loop or inner.code in ("return", "unreachable"))


def clone(function: Function, copies: dict[Value, Value] | None = None) -> Function:
    """Returns a copy of a function with new operations; memories, constants and push constants are the same.

    Args:
        copies: gets the copy of each value.
    """
    made, known = function.empty_copy(), {} if copies is None else copies
    made.array_bindings = function.array_bindings

    def copied(region: Region) -> Region:
        return Region([operation(op) for op in region.ops])

    def operation(op: Op) -> Op:
        args = [known.get(value, value) for value in op.args]
        attribute: Any = known.get(op.attribute, op.attribute) if isinstance(op.attribute, Op) else op.attribute
        copy = Op(op.code, op.type if op.has_result else None, args, attribute, (), op.loc)
        known[op] = copy
        copy.params = tuple(Param(value.type) for value in op.params)
        known.update(zip(op.params, copy.params, strict=True))
        copy.regions = tuple(map(copied, op.regions))
        copy.results = tuple(Result(value.type) for value in op.results)
        known.update(zip(op.results, copy.results, strict=True))
        return copy

    made.body = copied(function.body)
    return made
