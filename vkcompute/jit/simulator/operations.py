"""What each operation of `ir/` does in a simulation: one table, from an operation's code to a function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute import ir
from vkcompute.ir import BOOL, SCALARS, Builder, Constant, Function
from vkcompute.ir.function import Op, Region, Value
from vkcompute.ir.types import element_of, vector

if TYPE_CHECKING:
    from vkcompute.jit.simulator.machine import Machine

Operation = Callable[["Machine", list[Any], Any], Any]
"""(the machine, the operands as numpy's scalars or, of a vector, an array, the attribute) -> the same of the result"""
_TYPES = {kind.numpy: kind for kind in SCALARS.values()}


class Evaluator(Builder):
    """A builder whose operations are done at once: all values are constants."""

    def __init__(self, function: Function, machine: Machine) -> None:
        super().__init__(function)
        self._machine = machine

    def _value(self, code: str, args: Sequence[Value], attribute: Any = None) -> Constant:
        found = self._done(code, args, attribute)
        kind = _TYPES[found.dtype]
        return Constant(vector(kind, found.size) if found.ndim else kind, found)  # type: ignore[arg-type]

    def _append(
        self,
        code: str,
        args: Sequence[Value] = (),
        attribute: Any = None,
        regions: Sequence[Region] = (),
        *,
        anyway: bool = False,
    ) -> Op:
        self._done(code, args, attribute)
        return Op(code, None)

    def _done(self, code: str, args: Sequence[Value], attribute: Any) -> Any:
        self._machine.current.check()
        operation = OPERATIONS.get(code)
        if operation is None:
            raise self._machine.fault(f"the simulator cannot do this: it has no {code}; run it on a device")
        return operation(self._machine, [each.value for each in args], attribute)  # type: ignore[attr-defined]


def _evaluated(row: ir.Operation) -> Operation:
    """The table's evaluation; of integer divisions, with a check of the divisor."""
    evaluate: Any = row.evaluate
    if row.elementary:  # computed in float64 and rounded
        return lambda machine, args, attribute: evaluate([x.astype(np.float64) for x in args], attribute).astype(
            args[0].dtype
        )
    if not row.may_trap:
        return lambda machine, args, attribute: evaluate(args, attribute)

    def divided(machine: Machine, args: list[Any], attribute: Any) -> Any:
        if args[0].dtype.kind != "f":
            _demand_divisor(machine, *args)
        return evaluate(args, attribute)

    return divided


def _demand_divisor(machine: Machine, x: Any, y: Any) -> None:
    """Raises where a device gives anything: integer division by zero, and a quotient that the type does not hold."""
    if np.any(y == 0):
        raise machine.fault(f"{x} is divided by zero, which for integers is undefined; test the divisor before")
    if x.dtype.kind == "i" and np.any((x == np.iinfo(x.dtype).min) & (y == -1)):
        raise machine.fault(f"{x} // {y} does not fit {x.dtype}, and is undefined; divide in a wider type")


def _cast(machine: Machine, args: list[Any], kind: Any) -> Any:
    number, target = args[0], element_of(kind)
    if target is BOOL:
        return number != 0
    if number.dtype.kind == "f" and target.kind in "iu":
        limits, whole = np.iinfo(target.name), np.trunc(number)
        if not np.all((whole >= float(limits.min)) & (whole < float(limits.max) + 1)):  # the latter is a power of two
            raise machine.fault(f"{number} does not fit {target}, and becomes anything there; bound it before")
    return number.astype(target.numpy)


def _builtin(machine: Machine, args: list[Any], attribute: tuple[str, int]) -> Any:
    return np.uint32(machine.current.builtin(*attribute))


def _atomic(machine: Machine, args: list[Any], attribute: Any) -> Any:
    name, memory = attribute
    cells = machine.cells(memory)
    before = cells.exchange(args[0])
    cells.data[int(args[0])] = args[1] if name == "exchange" else OPERATIONS[name](machine, [before, args[1]], None)
    return before


def _compare_exchange(machine: Machine, args: list[Any], memory: Any) -> Any:
    cells = machine.cells(memory)
    before = cells.exchange(args[0])
    if before == args[1]:
        cells.data[int(args[0])] = args[2]
    return before


OPERATIONS: dict[str, Operation] = {
    **{name: _evaluated(row) for name, row in ir.OPERATIONS.items() if row.evaluate is not None},
    "cast": _cast,
    "builtin": _builtin,
    "length": lambda machine, args, memory: np.uint32(machine.cells(memory).data.size),
    "load": lambda machine, args, memory: machine.cells(memory).load(args[0]),
    "store": lambda machine, args, memory: machine.cells(memory).store(*args),
    "atomic": _atomic,
    "compare_exchange": _compare_exchange,
    "barrier": lambda machine, args, _: machine.current.wait(),
    "subgroup": lambda machine, args, name: machine.current.ask(name, args),
}
DIRECT = {"+": operator.add, "-": operator.sub, "*": operator.mul}
"""Operators that on numbers of one type are one operation."""
