"""Flattening: a long chain of branches, each at the end of a side of the one before, becomes branches in sequence.

    if a: A                         go = True
    else:                           if a: A; go = False
        if b: B           ->        else: …
        else: …                     if go:
                                        if b: B
                                        else: …

Such chains come from `elif`, from early returns, and from `and` and `or`. Drivers limit the depth of control flow, and
not all of them report what is deeper (`core/quirks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.ir.function import Constant, Function, Op, Region, Result, Value, walk
from vkcompute.ir.types import BOOL, Scalar

_STEP = 32
"""Depth at which a chain is cut. Shorter chains are faster as they are."""

Link = tuple[Op, Region]
"""A branch of a chain, and its side that the chain continues in."""


def flatten_chains(function: Function) -> Function:
    """Flattens the chains of branches that are deeper than `_STEP`, in place."""
    if _depth(function.body)[0] > _STEP:
        _absorb(function.body, "return")
        for op in walk(function.body):
            if op.code == "loop":
                _absorb(op.regions[0], "continue", op)
        _cut_chains(function, function.body)
    return function


def _depth(region: Region) -> tuple[int, set[str]]:
    """Returns the depth of control flow in a region, and the codes by which it may be left.

    Code after a branch that may be left counts as deeper: drivers move it into the branch.
    """
    deepest, after, codes = 0, 0, set[str]()
    for op in region.ops:
        codes |= {op.code} & {"return", "continue"}
        if op.regions:
            inner = [_depth(region) for region in op.regions]
            left = set[str]().union(*[edges for _, edges in inner]) - ({"continue"} if op.code == "loop" else set())
            deepest = max(deepest, after + 1 + max(depth for depth, _ in inner))
            after, codes = after + bool(left), codes | left
    return deepest, codes


def _absorb(body: Region, leave: str, loop: Op | None = None) -> None:
    """Moves the code after a branch that leaves a body on one side, by "return" or "continue", into its other side."""
    moved: dict[Value, Value] = {}
    region, at = body, 0
    while at < len(region.ops):
        op, end = region.ops[at], region.terminator
        ends = [side.terminator.code if side.terminator else "yield" for side in op.regions]
        if op.code != "if" or {*ends} != {leave, "yield"} or (end and end.code not in ("yield", leave)):
            at += 1
            continue
        stays, leaves = op.regions[ends.index("yield")], op.regions[ends.index(leave)]
        if leaves.ops[-1].attribute is not loop:
            at += 1
            continue
        moved.update(zip(op.results, _yielded(stays), strict=False))
        rest = [op for op in region.ops[at + 1 :] if op is not end]
        given = end.args if end else ()
        op.results = tuple(Result(value.type) for value in given)
        _end(leaves, leaves.ops[-1].args)
        region.ops[at + 1 :] = [Op("yield", None, op.results)]
        at = len(stays.ops) - bool(stays.terminator)
        stays.ops = [*stays.ops[:at], *rest, Op("yield", None, given)]
        region = stays
    _replace(body, moved)


def _replace(region: Region, values: dict[Value, Value]) -> None:
    """Replaces values that may themselves be replaced, in all operands."""

    def final(value: Value) -> Value:
        while value in values:
            value = values[value]
        return value

    for op in walk(region) if values else ():
        op.args = tuple(map(final, op.args))


def _cut_chains(function: Function, region: Region) -> None:
    at = 0
    while at < len(region.ops):
        op = region.ops[at]
        deep = bool(op.regions) and max(_depth(side)[0] for side in op.regions) >= _STEP
        chain = _chain(op) if deep else None
        rest = _cut(function, *chain) if chain else None
        if rest is not None:
            region.ops.insert(at + 1, rest)
        for side in op.regions if deep else ():
            _cut_chains(function, side)
        at += 1


def _chain(op: Op) -> tuple[list[Link], Op] | None:
    """Returns the first links of a chain, and the branch after them; None if a link is not the end of its side."""
    links: list[Link] = []
    for _ in range(_STEP):
        if op.code != "if":
            return None
        side = max(op.regions, key=lambda region: _depth(region)[0])
        ops = side.ops[:-1] if side.terminator else side.ops
        if not ops or not ops[-1].regions or (side.terminator and side.terminator.code != "yield"):
            return None
        links.append((op, side))
        op = ops[-1]
    return links, op


def _cut(function: Function, links: Sequence[Link], rest: Op) -> Op | None:
    """Cuts a chain before the operation `rest`; returns the branch that continues it. None if a vector is carried."""
    first, given = links[0][0], dict[Value, Value]()
    for branch, side in reversed(links):
        given.update(zip(branch.results, [given.get(value, value) for value in _yielded(side)], strict=False))
    results = [given[result] for result in first.results]
    carried = _carried(links, rest, results)
    old = first.results
    if not all(isinstance(value.type, Scalar) for value in (*carried, *(r for link, _ in links for r in link.results))):
        return None
    passed: tuple[Any, ...] = (function.constant(True, BOOL), *carried)
    last = links[-1][1]
    last.ops = [op for op in last.ops if op is not rest and op is not last.terminator]
    for branch, side in reversed(links):
        kept = [] if side is last else list(_yielded(side)[: len(branch.results)])
        zeros = [_zero(function, result) for result in branch.results] if side is last else kept
        _end(side, (*zeros, *passed))
        for other in branch.regions:
            if other is not side and (other.terminator is None or other.terminator.code == "yield"):
                _end(other, (*_yielded(other)[: len(branch.results)], *[_zero(function, value) for value in passed]))
        passed = tuple(Result(value.type) for value in passed)
        branch.results = (*branch.results, *passed)
    go, *values = passed
    first.results = (*[Result(value.type) for value in old], *passed)
    continued = Region([rest, Op("yield", None, results)])
    _replace(continued, dict(zip(carried, values, strict=True)))
    otherwise = Region([Op("yield", None, first.results[: len(old)])])
    joined = Op("if", None, (go,), regions=(continued, otherwise))
    joined.results = old
    return joined


def _yielded(side: Region) -> tuple[Value, ...]:
    return side.terminator.args if side.terminator else ()


def _end(side: Region, values: Sequence[Value]) -> None:
    """Ends a side with these values."""
    side.ops = [*[op for op in side.ops if op is not side.terminator], Op("yield", None, values)]


def _zero(function: Function, value: Value) -> Constant:
    assert isinstance(value.type, Scalar)
    return function.constant(0, value.type)


def _carried(links: Sequence[Link], rest: Op, results: Sequence[Value]) -> list[Value]:
    """Returns the values that the links compute and the rest of the chain uses."""
    nodes = [rest, *[node for side in rest.regions for node in walk(side)]]
    used = {*results, *[value for node in nodes for value in node.args]}
    inside = {branch for branch, _ in links} | {rest}
    computed = [op for _, side in links for op in side.ops if op not in inside]
    values = [value for op in computed for value in (*([op] if op.has_result else []), *op.results)]
    return [value for value in values if value in used]
