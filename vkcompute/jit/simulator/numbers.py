"""Numbers, vectors and arrays of a simulated kernel, for Python's operators, `print` and debuggers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from vkcompute.ir import Constant, Memory, Value
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.values import Array, Kind, Number, Row, Vector, like, sliced, swizzled


class Semantics(Compiler):
    """The compiler's rules, applied to simulated values."""

    @abstractmethod
    def operate(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other` of simulated values."""

    @abstractmethod
    def shape(self, array: Array) -> tuple[int, ...]:
        """Returns the shape of a tensor or shared array."""

    @abstractmethod
    def contents(self, memory: Memory) -> np.ndarray[Any, Any]:
        """Returns all elements of a memory."""

    @abstractmethod
    def simulated(self, value: Any) -> Any:
        """Converts a value of the compiler to a simulated value."""


def _binary(sign: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    def forward(self: Operators, other: Any) -> Any:
        return self.rules.operate(sign, self, other)

    def backward(self: Operators, other: Any) -> Any:
        return self.rules.operate(sign, other, self)

    return forward, backward


def _compared(sign: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self.rules.simulated(self.rules.compare(sign, self, other))


def _unary(sign: str) -> Callable[[Any], Any]:
    return lambda self: self.rules.simulated(self.rules.unary(sign, self))


class Operators:
    """Python's operators, with the compiler's rules."""

    __slots__ = ()
    rules: Semantics
    __array_ufunc__ = None  # so that numpy's scalars defer to these operators

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
    """A number that the device would compute, of the type that it has there."""

    __slots__ = ("rules",)

    def __init__(self, value: Value, kind: Kind, rules: Semantics) -> None:
        super().__init__(value, kind)
        object.__setattr__(self, "rules", rules)

    @property
    def scalar(self) -> Any:
        """The number as a numpy scalar."""
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


class SimulatedConstant(SimulatedNumber):
    """A numpy scalar from outside of the kernel, a compile-time constant."""

    __slots__ = ()


class SimulatedVector(Operators, Vector):
    """A vector of simulated numbers."""

    def __new__(cls, parts: Iterable[Any], rules: Semantics) -> SimulatedVector:
        found = super().__new__(cls, parts)
        found.rules = rules
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.rules.simulated(sliced(Vector(self), index))
        return self.rules.simulated(self.rules.element(Vector(self), index))

    def __getattr__(self, name: str) -> Any:
        return self.rules.simulated(swizzled(Vector(self), name))

    def __repr__(self) -> str:
        return f"{type(self[0].scalar).__name__}x{len(self)}({', '.join(map(str, self))})"


class SimulatedRow(Operators, Row):
    """A row of an array."""

    __slots__ = ("rules",)

    def __init__(self, row: Row, rules: Semantics) -> None:
        super().__init__(row.array, row.indices)
        object.__setattr__(self, "rules", rules)

    def __getitem__(self, index: Any) -> Any:
        return self.rules.simulated(self.rules.item(self, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.rules.assign(self, plain(index), value)

    def __len__(self) -> int:
        return self.rules.shape(self.array)[-1]

    def __repr__(self) -> str:
        return f"{self.array.name}[{', '.join(map(str, self.indices))}]"


class SimulatedArray:
    """A tensor or a shared array of a simulated kernel.

    Attributes:
        array: the compiler's value for it.
    """

    def __init__(self, array: Array, rules: Semantics) -> None:
        self.array, self._rules = array, rules

    def __getitem__(self, index: Any) -> Any:
        return self._rules.simulated(self._rules.item(self.array, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._rules.assign(self.array, plain(index), value)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Lengths of the axes: int32 for a tensor, constants for a shared array."""
        return tuple(self._rules.simulated(self._rules.extent(self.array, axis)) for axis in range(self.array.ndim))

    @property
    def size(self) -> Any:
        """Number of elements."""
        return self._rules.simulated(self._rules.extent(self.array, -1))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.array.element.numpy

    def __len__(self) -> int:
        return self._rules.shape(self.array)[0]

    def __repr__(self) -> str:
        array = self.array
        data = self._rules.contents(array.memory).view(array.element.numpy).reshape(self._rules.shape(array))
        return f"{array.name}: {data!r}"


def plain(value: Any) -> Any:
    """Converts a simulated value to one of the compiler, with constants as Python or numpy objects."""
    if isinstance(value, tuple) and not isinstance(value, Vector):
        return like(value, map(plain, value))
    if isinstance(value, SimulatedArray):
        return value.array
    return value.scalar if type(value) is SimulatedConstant else value
