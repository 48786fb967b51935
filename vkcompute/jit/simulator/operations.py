"""Evaluation of the operations of `ir/` in a simulation: one table, from opcode to function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute import ir
from vkcompute.ir import BOOL, SCALARS, Builder, Constant, Function
from vkcompute.ir.function import Op, Value
from vkcompute.ir.operations import converted
from vkcompute.ir.types import SmallFloat, element_of, vector
from vkcompute.jit.simulator.invocations import Grid
from vkcompute.jit.simulator.memory import DeviceMemory


class State(NamedTuple):
    """State of a simulated launch."""

    grid: Grid
    memory: DeviceMemory


Operation = Callable[[State, list[Any], Any], Any]
"""(state, operands, attribute) -> result. Operands and results are numpy scalars; vectors are arrays."""
_TYPES = {kind.numpy: kind for kind in SCALARS.values() if not isinstance(kind, SmallFloat)}


class ImmediateBuilder(Builder):
    """A builder that evaluates operations immediately: all values are constants."""

    def __init__(self, function: Function, state: State) -> None:
        super().__init__(function)
        self._state = state

    def _value(self, code: str, args: Sequence[Value], attribute: Any = None) -> Constant:
        small = _small_float(code, args, attribute)
        if code == "bitcast" and (bits := _bits_of(args[0], attribute)) is not None:
            return bits
        value = self._evaluated(code, args, attribute)
        if small is not None and value.dtype == np.float32:
            return Constant(small, np.float32(small.format.rounded(value)))
        kind = _TYPES[value.dtype]
        return Constant(vector(kind, value.size) if value.ndim else kind, value)  # type: ignore[arg-type]

    def _append(self, code: str, args: Sequence[Value] = (), attribute: Any = None, *_: Any, **__: Any) -> Op:
        self._evaluated(code, args, attribute)
        return Op(code, None)

    def _evaluated(self, code: str, args: Sequence[Value], attribute: Any) -> Any:
        self._state.grid.check()
        operation = OPERATIONS.get(code)
        if operation is None:
            raise self._state.grid.fault(f"the simulator does not support {code}; run the kernel on a device")
        return operation(self._state, [arg.value for arg in args], attribute)  # type: ignore[attr-defined]


def _small_float(code: str, args: Sequence[Value], attribute: Any) -> SmallFloat | None:
    """Returns the type to which a float result is rounded: one that numpy lacks; None for numpy's."""
    if code == "cast":
        kinds = [element_of(attribute)]
    elif code in ("load", "atomic"):
        kinds = [(attribute[1] if code == "atomic" else attribute).element]
    else:
        kinds = [element_of(arg.type) for arg in args]
    return next((kind for kind in kinds if isinstance(kind, SmallFloat)), None)


def _bits_of(value: Value, kind: Any) -> Constant | None:
    """Returns a number with the bits of another, if one of both is a float that numpy lacks."""
    number = value.value  # type: ignore[attr-defined]
    if isinstance(kind, SmallFloat):
        return Constant(kind, np.float32(kind.format.decoded(number.view(f"u{kind.bits // 8}"))))
    if not isinstance(value.type, SmallFloat):
        return None
    bits = value.type.format.encoded(number)
    return Constant(kind, bits.view(kind.numpy)[()])


def _evaluated(row: ir.Operation) -> Operation:
    """Returns the evaluation in the table; that of an integer division checks the divisor."""
    evaluate: Any = row.evaluate
    if row.elementary:  # computed in float64 and rounded
        return lambda state, args, attribute: evaluate([x.astype(np.float64) for x in args], attribute).astype(
            args[0].dtype
        )
    if not row.may_trap:
        return lambda state, args, attribute: evaluate(args, attribute)

    def divided(state: State, args: list[Any], attribute: Any) -> Any:
        if args[0].dtype.kind != "f":
            _demand_divisor(state, *args)
        return evaluate(args, attribute)

    return divided


def _demand_divisor(state: State, x: Any, y: Any) -> None:
    """Raises KernelError for an integer division by zero, which is undefined on a device."""
    if np.any(y == 0):
        raise state.grid.fault(f"{x} is divided by zero, which is undefined for integers; test the divisor before")


def _cast(state: State, args: list[Any], kind: Any) -> Any:
    number, target = args[0], element_of(kind)
    if target is BOOL:
        return number != 0
    return converted(number, target)


def _builtin(state: State, args: list[Any], attribute: tuple[str, int]) -> Any:
    return np.uint32(state.grid.current.builtin(*attribute))


def _atomic(state: State, args: list[Any], attribute: Any) -> Any:
    name, memory = attribute

    def changed(before: Any) -> Any:
        return args[1] if name == "exchange" else OPERATIONS[name](state, [before, args[1]], None)

    return state.memory.cells(memory).exchange(args[0], changed)


def _compare_exchange(state: State, args: list[Any], memory: Any) -> Any:
    return state.memory.cells(memory).exchange(args[0], lambda before: args[2] if before == args[1] else before)


def _lockstep(access: Operation) -> Operation:
    """Adds a barrier of the warp to an access to volatile memory, as ir/warps.py does."""

    def ordered(state: State, args: list[Any], attribute: Any) -> Any:
        result = access(state, args, attribute)
        memory = attribute[1] if isinstance(attribute, tuple) else attribute
        if memory.volatile:
            state.grid.current.exchange("warp_barrier", [np.bool_(True)])
        return result

    return ordered


def _of_warp(name: str) -> Operation:
    return lambda state, args, _: state.grid.current.exchange(name, args)


OPERATIONS: dict[str, Operation] = {
    **{name: _evaluated(row) for name, row in ir.OPERATIONS.items() if row.evaluate is not None},
    "cast": _cast,
    "builtin": _builtin,
    "length": lambda state, args, memory: np.uint32(state.memory.cells(memory).data.size),
    "load": _lockstep(lambda state, args, memory: state.memory.cells(memory).load(args[0])),
    "store": _lockstep(lambda state, args, memory: state.memory.cells(memory).store(*args)),
    "fill": lambda state, args, memory: state.memory.fill(memory, *args),
    "atomic": _lockstep(_atomic),
    "compare_exchange": _lockstep(_compare_exchange),
    "barrier": lambda state, args, _: state.grid.current.wait(),
    "grid_barrier": lambda state, args, _: state.grid.current.wait(for_grid=True),
    "workgroup_sum": lambda state, args, _: state.grid.current.sum(args[0]),
    **{name: _of_warp(name) for name in ("warp_ballot", "warp_shuffle", "warp_match", "warp_barrier")},
    "fence": lambda state, args, _: state.grid.current.fence(),
    "subgroup": lambda state, args, name: state.grid.current.exchange(name, args),
}
DIRECT = {"+": operator.add, "-": operator.sub, "*": operator.mul}
"""Operators that are a single operation on numbers of one type."""
