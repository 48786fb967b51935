"""Delta debugging of kernels in the intermediate form: removes what a fault does not need.

The algorithm is ddmin (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002), applied to the
operations of each region, the outermost first. Then branches are replaced by the side that they take, and operations by
their operands or constants, until nothing more can go. Every candidate is a valid function, by `ir.verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from vkcompute import ir
from vkcompute.errors import IrError
from vkcompute.ir.branch_folding import fold_branches
from vkcompute.ir.dead_code import eliminate_dead_code
from vkcompute.ir.function import Constant, Function, Op, Param, Region, Result, Value, back_edges, exits, walk
from vkcompute.ir.rewriting import rewrite
from vkcompute.ir.types import BOOL, Scalar

Fails = Callable[[Function], bool]
"""True if the fault is still there. The function may be changed by it."""
Edit = Callable[[Function, Op], Value | None]
"""Returns the value in place of an operation's result; None if there is none."""


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
            return search.best


class _Search:
    """The best candidate so far."""

    def __init__(self, function: Function, fails: Fails, log: Callable[[str], None]) -> None:
        self.best, self._fails, self._log = clone(function), fails, log
        self._n_tries = 0

    def remove_ranges(self) -> None:
        """Removes ranges of operations from each region: all, then halves, and so on down to single ones."""
        at = 0
        while at < len(regions := list(_regions(self.best.body))):
            length = max(1, len(_removable(regions[at])))
            while length:
                start = 0
                while start < len(ops := _removable(list(_regions(self.best.body))[at])):
                    chosen = dict.fromkeys(ops[start : start + length], _default)
                    if not self._try(chosen):
                        start += length
                length //= 2
            at += 1

    def take_branches(self) -> None:
        """Replaces branches by one of their sides."""
        for taken in (True, False):
            self._each(lambda op: op.code == "if", partial(self._take, taken))

    def _take(self, taken: bool, op: Op) -> bool:
        return self._try({}, {op: taken})

    def simplify(self) -> None:
        """Replaces operations by an operand of the same type, or by 0."""
        self._each(lambda op: op.has_result, self._by_operands)

    def _by_operands(self, op: Op) -> bool:
        operands = [at for at, value in enumerate(op.args) if value.type is op.type]
        edits: list[Edit] = [lambda _, op, at=at: op.args[at] for at in operands]  # type: ignore[misc]
        return any(self._try({op: edit}) for edit in (_zero, *edits))

    def _each(self, chosen: Callable[[Op], bool], change: Callable[[Op], bool]) -> None:
        """Tries a change on each operation, the last ones first: so those before it keep their positions."""
        at = size_of(self.best)
        while at := at - 1:
            ops = walk(self.best.body)
            if at < len(ops) and chosen(ops[at]):
                change(ops[at])

    def _try(self, edits: Mapping[Op, Edit], taken: Mapping[Op, bool] = {}) -> bool:
        """Keeps a candidate if it is valid, smaller and still fails."""
        candidate = edited(self.best, edits, taken)
        if candidate is None or size_of(candidate) >= size_of(self.best):
            return False
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


def _removable(region: Region) -> list[Op]:
    return [op for op in region.ops if not op.operation.terminator]


def edited(function: Function, edits: Mapping[Op, Edit], taken: Mapping[Op, bool]) -> Function | None:
    """Returns a copy in which operations are replaced, and branches decided; None if it is not valid."""
    copies: dict[Value, Value] = {}
    made = clone(function, copies)
    by_copy = {id(copies[op]): edit for op, edit in edits.items()}
    for op, side in taken.items():
        copy = copies[op]
        if isinstance(copy, Op):
            copy.args = (made.constant(side, BOOL), *copy.args[1:])

    def replace(op: Op, replaced: dict[Value, Value]) -> list[Op] | None:
        edit = by_copy.get(id(op))
        if edit is None:
            return None
        for value in (op, *op.results) if op.has_result else op.results:
            other = edit(made, op) if value is op else _constant(made, value, 1)
            if other is None or other.type is not value.type:
                raise IrError("no value takes the place of the result")
            replaced[value] = other
        return []

    try:
        rewrite(made, replace)
        made = eliminate_dead_code(fold_branches(made))
        drop_unused(made)
        ir.verify(made)
    except IrError:
        return None
    return made


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


def _default(function: Function, op: Op) -> Value | None:
    return _constant(function, op, 1)


def _zero(function: Function, op: Op) -> Value | None:
    return _constant(function, op, 0)


def _constant(function: Function, value: Value, number: int) -> Constant | None:
    """Returns a constant of the type of a value; 1 is no dangerous divisor, shift or index."""
    return function.constant(number, value.type) if isinstance(value.type, Scalar) else None


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
