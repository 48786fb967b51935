"""Checks a function: types by the rules, values defined before their use, regions that end as their owners expect."""

from __future__ import annotations

from vkcompute.errors import IrError
from vkcompute.ir.function import TERMINATORS, Constant, Function, Memory, Op, Region, Value, endings
from vkcompute.ir.printer import text
from vkcompute.ir.rules import result_type


def verify(function: Function) -> None:
    """Raises IrError with the first thing that is wrong, and the function's text."""
    try:
        _Check(function).region(function.body, None, ())
    except IrError as error:
        raise IrError(f"{error}, in\n{text(function)}") from None


class _Check:
    """What is known at one place."""

    def __init__(self, function: Function) -> None:
        self._memories = {*function.buffers, *function.shared_memory}
        self._known: set[Value] = set(function.pushes)

    def region(self, region: Region, owner: Op | None, loops: tuple[Op, ...]) -> None:
        """Checks a region inside of `loops`, the innermost last."""
        before = set(self._known)
        for position, op in enumerate(region.ops):
            last = position == len(region.ops) - 1
            _demand(
                (op.code in TERMINATORS) == last or (last and owner is None), f"{op.code} at {position} of a region"
            )
            self._op(op, loops)
        end = region.end()
        if owner is not None:
            optional = owner.code == "if" and not owner.results
            _demand(end is not None or optional, f"a region of {owner.code} has no end")
        elif end is not None:
            _demand(end.code != "yield" or not end.args, "the body yields values")
        self._known = before

    def _op(self, op: Op, loops: tuple[Op, ...]) -> None:
        for value in op.args:
            known = isinstance(value, Constant) or value in self._known
            _demand(known, f"{op.code} uses a value that is not defined there")
        kind = result_type(op.code, op.args, op.attribute)
        _demand(op.has_result == (kind is not None) and (kind is None or op.type is kind), f"{op.code} is no {kind}")
        for attribute in op.attribute if isinstance(op.attribute, tuple) else (op.attribute,):
            _demand(
                not isinstance(attribute, Memory) or attribute in self._memories, "the memory is another function's"
            )
        if op.code in ("break", "continue"):
            _demand(bool(loops) and op.attribute is loops[-1], f"{op.code} leads to a loop that is not the innermost")
        self._nested(op, loops)
        if op.has_result:
            self._known.add(op)

    def _nested(self, op: Op, loops: tuple[Op, ...]) -> None:
        before = set(self._known)
        self._known |= {*op.params}
        for region in op.regions:
            self.region(region, op, (*loops, op) if op.code == "loop" else loops)
        self._known = before | {*op.results}
        if op.code == "loop":
            _alike(op, "carries", [value.type for value in op.args], [value.type for value in op.params])
            for end in endings(op, back=True):
                _alike(op, "carries", [value.type for value in end.args], [value.type for value in op.params])
        for end in endings(op) if op.results else ():  # without results, what is handed over is dropped
            _alike(op, "gives", [value.type for value in end.args], [value.type for value in op.results])


def _alike(op: Op, what: str, have: list[object], wanted: list[object]) -> None:
    _demand(have == wanted, f"{op.code} {what} {wanted}; one way in or out has {have}")


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise IrError(message)
