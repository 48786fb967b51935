"""What makes a function smaller and faster without changing what it computes; each pass leaves a valid function."""

from __future__ import annotations

from collections.abc import Callable

from vkcompute.ir.function import EFFECTS, TERMINATORS, Constant, Function, Op, Region, Value, falls_through, walk

# Two of these in different places may differ, though their arguments do not; subgroups by who comes there.
_NOT_EQUAL = EFFECTS | {"load", "subgroup"}
_MAY_TRAP = frozenset({"div", "rem", "mod"})  # by zero; where it is not asked for, it is not done


def rewrite(function: Function, instead: Callable[[Op, dict[Value, Value]], list[Op] | None]) -> None:
    """Puts other operations in the place of some, inner regions first; what can no longer be reached is dropped.

    `instead(op, replaced)` gives them, or None where the operation stays, and notes in `replaced` what stands for its
    results from then on. They may end with a terminator.
    """
    replaced: dict[Value, Value] = {}

    def visit(region: Region) -> None:
        kept: list[Op] = []
        for op in region.ops:
            op.args = tuple([replaced.get(value, value) for value in op.args])
            for inner in op.regions:
                visit(inner)
            ops = instead(op, replaced)
            kept += [op] if ops is None else ops
            if kept and kept[-1].code in TERMINATORS:
                break
            if kept and kept[-1].regions and not falls_through(kept[-1]):
                kept += [] if region is function.body else [Op("unreachable", None)]
                break
        region.ops = kept

    visit(function.body)


def decide(function: Function) -> None:
    """Branches on constants: what is taken stands in the branch's place."""
    rewrite(function, _taken)


def _taken(op: Op, replaced: dict[Value, Value]) -> list[Op] | None:
    if op.code != "if" or not isinstance(op.args[0], Constant):
        return None
    ops = op.regions[0 if op.args[0].value else 1].ops
    if ops[-1].code != "yield":
        return ops
    replaced.update(zip(op.results, ops[-1].args, strict=False))  # no results where nobody wants them
    return ops[:-1]


def share(function: Function) -> None:
    """Common subexpressions: of operations with the same arguments, the later ones use the first one's result."""
    replaced: dict[Value, Value] = {}

    def visit(region: Region, seen: dict[object, Op]) -> None:
        kept = []
        for op in region.ops:
            op.args = tuple([replaced.get(value, value) for value in op.args])
            if op.code not in _NOT_EQUAL:
                first = seen.setdefault((op.code, op.args, op.attribute), op)
                if first is not op:
                    replaced[op] = first
                    continue
            kept.append(op)
            for inner in op.regions:
                visit(inner, dict(seen))
        region.ops = kept

    visit(function.body, {})


def drop(function: Function) -> None:
    """Dead code: operations without an effect, whose result nothing uses."""
    used: set[Value] = set()

    def visit(region: Region) -> None:
        kept = []
        for op in reversed(region.ops):
            if op.code in EFFECTS or op in used:
                for inner in op.regions:
                    visit(inner)
                used.update(op.args)
                kept.append(op)
        region.ops = kept[::-1]

    # Whatever the terminators hand over counts as used, so that one pass from the end sees every use before its value,
    # but for what a loop hands to itself.
    used.update(value for op in walk(function.body) if op.code in ("yield", "continue", "break") for value in op.args)
    visit(function.body)


def hoist(function: Function) -> None:
    """Loop-invariant code: what depends on nothing inside of a loop moves in front of it."""

    def visit(region: Region, inside: set[Value], moved: list[Op] | None) -> None:
        """Moves what can leave the innermost loop to `moved`; `inside` is what has been found to be defined in it."""
        kept: list[Op] = []

        def place(op: Op) -> None:
            stays = op.code in _NOT_EQUAL or op.code in _MAY_TRAP
            if moved is None or stays or inside.intersection(op.args):
                kept.append(op)
                inside.update((op, *op.results))
            else:
                moved.append(op)

        for op in region.ops:
            if op.code == "loop":
                invariant: list[Op] = []
                body: set[Value] = {*op.params}
                visit(op.regions[0], body, invariant)
                inside |= body
                for each in invariant:
                    place(each)
            else:
                for inner in op.regions:
                    visit(inner, inside, moved)
            place(op)
        region.ops = kept

    visit(function.body, set(), None)
