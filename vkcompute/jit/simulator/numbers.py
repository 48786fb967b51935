"""Numbers and arrays of a simulated kernel, as Python's operators, `print` and `pdb` find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.ir import Constant, Value
from vkcompute.jit.values import Array, Kind, Number, Row, Vector, like
from vkcompute.jit.vectors import element, sliced, swizzled

if TYPE_CHECKING:
    from vkcompute.jit.simulator.machine import Machine


def _binary(sign: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    def forward(self: Operators, other: Any) -> Any:
        return self.machine.operate(sign, self, other)

    def backward(self: Operators, other: Any) -> Any:
        return self.machine.operate(sign, other, self)

    return forward, backward


def _compared(sign: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self.machine.seen(self.machine.compare(sign, self, other))


def _unary(sign: str) -> Callable[[Any], Any]:
    return lambda self: self.machine.seen(self.machine.unary(sign, self))


class Operators:
    """Python's operators, as the compiler has them."""

    __slots__ = ()
    machine: Machine
    __array_ufunc__ = None  # numpy's scalars leave their operators to these

    __add__, __radd__ = _binary("+")
    __sub__, __rsub__ = _binary("-")
    __mul__, __rmul__ = _binary("*")
    __truediv__, __rtruediv__ = _binary("/")
    __floordiv__, __rfloordiv__ = _binary("//")
    __mod__, __rmod__ = _binary("%")
    __pow__, __rpow__ = _binary("**")
    __lshift__, __rlshift__ = _binary("<<")
    __rshift__, __rrshift__ = _binary(">>")
    __and__, __rand__ = _binary("&")
    __or__, __ror__ = _binary("|")
    __xor__, __rxor__ = _binary("^")
    __matmul__, __rmatmul__ = _binary("@")
    __eq__, __ne__ = _compared("=="), _compared("!=")
    __lt__, __le__, __gt__, __ge__ = map(_compared, ("<", "<=", ">", ">="))
    __neg__, __pos__, __invert__ = map(_unary, "-+~")


class SimulatedNumber(Operators, Number):
    """A number that the device would compute, of the type that it has there; its operators are the compiler's."""

    __slots__ = ("machine",)

    def __init__(self, value: Value, kind: Kind, machine: Machine) -> None:
        super().__init__(value, kind)
        object.__setattr__(self, "machine", machine)

    @property
    def scalar(self) -> Any:
        """As a numpy scalar."""
        assert isinstance(self.value, Constant)
        return self.value.value

    def __bool__(self) -> bool:
        return bool(self.scalar)

    def __int__(self) -> int:
        return int(self.scalar)

    def __float__(self) -> float:
        return float(self.scalar)

    def __index__(self) -> int:
        return self.scalar.__index__()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return str(self.scalar)

    def __format__(self, spec: str) -> str:
        return format(self.scalar, spec)


class Fixed(SimulatedNumber):
    """One of numpy's scalars from outside of the kernel, which the compiler knows."""

    __slots__ = ()


class SimulatedVector(Operators, Vector):
    """A vector of the device's numbers."""

    def __new__(cls, parts: Iterable[Any], machine: Machine) -> SimulatedVector:
        found = super().__new__(cls, parts)
        found.machine = machine
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.machine.seen(sliced(Vector(self), index))
        return self.machine.seen(element(self.machine, Vector(self), index))

    def __getattr__(self, name: str) -> Any:
        return self.machine.seen(swizzled(Vector(self), name))

    def __repr__(self) -> str:
        return f"{type(self[0].scalar).__name__}x{len(self)}({', '.join(map(str, self))})"


class SimulatedRow(Operators, Row):
    """A row of an array."""

    __slots__ = ("machine",)

    def __init__(self, row: Row, machine: Machine) -> None:
        super().__init__(row.array, row.indices)
        object.__setattr__(self, "machine", machine)

    def __getitem__(self, index: Any) -> Any:
        return self.machine.seen(self.machine.item(self, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.machine.assign(self, plain(index), value)

    def __len__(self) -> int:
        return self.machine.shape(self.array)[-1]

    def __repr__(self) -> str:
        return f"{self.array.name}[{', '.join(map(str, self.indices))}]"


class SimulatedArray:
    """A tensor or a shared array of a simulated kernel.

    Attributes:
        array: as the compiler has it.
    """

    def __init__(self, array: Array, machine: Machine) -> None:
        self.array, self._machine = array, machine

    def __getitem__(self, index: Any) -> Any:
        return self._machine.seen(self._machine.item(self.array, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._machine.assign(self.array, plain(index), value)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Lengths along the axes; of a tensor int32, of a shared array known at compile time."""
        return tuple(self._machine.seen(self._machine.extent(self.array, axis)) for axis in range(self.array.ndim))

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self._machine.seen(self._machine.extent(self.array, -1))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The elements' type."""
        return self.array.element.numpy

    def __len__(self) -> int:
        return self._machine.shape(self.array)[0]

    def __repr__(self) -> str:
        machine, array = self._machine, self.array
        data = machine.cells(array.memory).data.view(array.element.numpy).reshape(machine.shape(array))
        return f"{array.name}: {data!r}"


def plain(value: Any) -> Any:
    """A value as the compiler's functions take it: what is known at compile time is Python's or numpy's own."""
    if isinstance(value, tuple) and not isinstance(value, Vector):
        return like(value, map(plain, value))
    return value.array if isinstance(value, SimulatedArray) else value.scalar if type(value) is Fixed else value
