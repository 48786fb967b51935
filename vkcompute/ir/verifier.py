"""The verifier: types, definitions before uses, and terminators that match the enclosing operations."""

from __future__ import annotations

from vkcompute.errors import IrError
from vkcompute.ir.function import Constant, Function, Op, Region, Value, back_edges, exits
from vkcompute.ir.operations import result_type
from vkcompute.ir.printer import text
from vkcompute.ir.types import Type


def verify(function: Function) -> None:
    """Raises IrError with the first error, and the function's text."""
    try:
        _Verifier(function).region(function.body, None, ())
    except IrError as error:
        raise IrError(f"{error}, in\n{text(function)}") from None


class _Verifier:
    """Walks a function with the set of defined values."""

    def __init__(self, function: Function) -> None:
        self._memories = {*function.buffers, *function.shared_memory}
        self._defined: set[Value] = set(function.pushes)

    def region(self, region: Region, owner: Op | None, loops: tuple[Op, ...]) -> None:
        """Verifies a region in `loops`, the innermost last."""
        visible: list[Value] = []
        for position, op in enumerate(region.ops):
            last = position == len(region.ops) - 1
            fits = op.operation.terminator == last or (last and owner is None)
            _demand(fits, f"{op.code} at {position} of a region")
            self._op(op, loops)
            results = (op, *op.results) if op.has_result else op.results
            visible += results
            self._defined.update(results)
        end = region.terminator
        if owner is not None:
            optional = owner.code == "if" and not owner.results
            _demand(end is not None or optional, f"a region of {owner.code} has no terminator")
        elif end is not None:
            _demand(end.code != "yield" or not end.args, "the body yields values")
        self._defined.difference_update(visible)

    def _op(self, op: Op, loops: tuple[Op, ...]) -> None:
        for value in op.args:
            known = isinstance(value, Constant) or value in self._defined
            _demand(known, f"{op.code} uses a value that is not defined there")
        kind = result_type(op.code, [value.type for value in op.args], op.attribute)
        _demand(op.has_result == (kind is not None) and (kind is None or op.type is kind), f"{op.code} is no {kind}")
        memory = op.memory
        _demand(memory is None or memory.private or memory in self._memories, "the memory is another function's")
        if op.code in ("break", "continue"):
            innermost = bool(loops) and op.attribute is loops[-1]
            _demand(innermost, f"{op.code} leads to a loop that is not the innermost")
        if op.regions:
            self._nested(op, loops)

    def _nested(self, op: Op, loops: tuple[Op, ...]) -> None:
        self._defined.update(op.params)
        for region in op.regions:
            self.region(region, op, (*loops, op) if op.code == "loop" else loops)
        self._defined.difference_update(op.params)
        if op.code == "loop":
            for values in (op.args, *[end.args for end in back_edges(op)]):
                _same_types(op, "carries", values, op.params)
        for end in exits(op) if op.results else ():  # values passed to an `if` or loop without results are unused
            _same_types(op, "gives", end.args, op.results)


def _same_types(op: Op, verb: str, passed: tuple[Value, ...], expected: tuple[Value, ...]) -> None:
    have: list[Type] = [value.type for value in passed]
    wanted: list[Type] = [value.type for value in expected]
    _demand(have == wanted, f"{op.code} {verb} {wanted}; a predecessor passes {have}")


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise IrError(message)
