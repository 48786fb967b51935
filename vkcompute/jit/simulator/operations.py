"""What each operation of `ir/` does in a simulation: one table, from an operation's code to a function."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.ir import BOOL, SCALARS, Builder, Constant, Function
from vkcompute.ir.function import Op, Region, Value
from vkcompute.ir.rules import BINARY, COMPARISONS, ELEMENTARY, TESTS, UNARY
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


def _numeric(function: Callable[..., Any]) -> Operation:
    return lambda machine, args, _: function(*args)


def _elementary(function: Callable[..., Any]) -> Operation:
    """A function of floats, computed in float64 and rounded."""
    return lambda machine, args, _: function(*[x.astype(np.float64) for x in args]).astype(args[0].dtype)


def _python(name: str) -> Callable[..., Any]:
    """A function of `math`, with numbers where it raises: at its poles, and where the result is too large."""

    def function(x: Any) -> Any:
        try:
            return np.float64(getattr(math, name)(x))
        except (OverflowError, ValueError):
            pole = x < 0 and x == np.floor(x) and name == "gamma"
            return np.float64(math.nan if pole else math.copysign(math.inf, x if name == "gamma" else 1))

    return function


def _divided(machine: Machine, args: list[Any], _: Any) -> Any:
    x, y = args
    if x.dtype.kind == "f":
        return x / y
    _demand_divisor(machine, x, y)
    return (x - np.fmod(x, y)) // y


def _demand_divisor(machine: Machine, x: Any, y: Any) -> None:
    """Integer division by zero, and a quotient that the type does not hold, give anything on a device."""
    if np.any(y == 0):
        raise machine.fault(f"{x} is divided by zero, which for integers is undefined; test the divisor before")
    if x.dtype.kind == "i" and np.any((x == np.iinfo(x.dtype).min) & (y == -1)):
        raise machine.fault(f"{x} // {y} does not fit {x.dtype}, and is undefined; divide in a wider type")


def _remainder(function: Callable[[Any, Any], Any]) -> Operation:
    def remainder(machine: Machine, args: list[Any], _: Any) -> Any:
        if args[0].dtype.kind != "f":
            _demand_divisor(machine, *args)
        return function(*args)

    return remainder


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


_UFUNCS: dict[str, Callable[..., Any]] = {
    **{code: getattr(operator, code) for code in "add sub mul xor lt le gt ge eq ne neg abs".split()},
    "and": operator.and_, "or": operator.or_, "not": operator.invert, "shl": operator.lshift, "shr": operator.rshift,
    "min": np.minimum, "max": np.maximum, "pow": np.power, "atan2": np.arctan2,
    **{name: _python(name) for name in ("erf", "erfc", "gamma", "lgamma")},
    "round": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x),
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    **{
        code: (_elementary if code in ELEMENTARY else _numeric)(_UFUNCS.get(code) or getattr(np, code))
        for code in (*BINARY, *COMPARISONS, *UNARY, *TESTS)
        if code in _UFUNCS or hasattr(np, code)
    },
    "div": _divided,
    "rem": _remainder(np.fmod),
    "mod": _remainder(np.mod),
    "cast": _cast,
    "bitcast": lambda machine, args, kind: args[0].view(element_of(kind).numpy),
    "select": lambda machine, args, _: args[1] if args[0] else args[2],
    "vector": lambda machine, args, _: np.array(args),
    "extract": lambda machine, args, index: args[0][index],
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
WAITS = frozenset({"barrier", "subgroup"})
"""Operations at which an invocation waits for others."""
