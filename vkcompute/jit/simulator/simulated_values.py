"""The values of a simulated kernel: numbers, vectors, records and arrays.

They have Python's operators, and work with `print` and debuggers. `rules` is the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype
from vkcompute.ir import Constant, Value
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.complex_values import conjugate, real_parts
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.frontend.record_types import element_type
from vkcompute.jit.frontend.values import ArrayValue, Complex, Kind, Number, Record, Row, Vector, like, sliced, swizzled


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
    rules: Any
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

    def __init__(self, value: Value, kind: Kind, rules: Any) -> None:
        super().__init__(value, kind)
        object.__setattr__(self, "rules", rules)

    @property
    def real(self) -> SimulatedNumber:
        """The number itself."""
        return self

    @property
    def imag(self) -> Any:
        """Zero."""
        return self.rules.simulated(real_parts(self.rules, self)[1])

    def conjugate(self) -> SimulatedNumber:
        """Returns the number itself."""
        return self

    conj = conjugate

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

    def __new__(cls, parts: Iterable[Any], rules: Any) -> SimulatedVector:
        result = super().__new__(cls, parts)
        result.rules = rules
        return result

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.rules.simulated(sliced(Vector(self), index))
        return self.rules.simulated(self.rules.element(Vector(self), index))

    def __getattr__(self, name: str) -> Any:
        return self.rules.simulated(swizzled(Vector(self), name))

    def __repr__(self) -> str:
        return f"{type(self[0].scalar).__name__}x{len(self)}({', '.join(map(str, self))})"


class SimulatedComplex(Operators, Complex):
    """A complex number of simulated parts."""

    def __new__(cls, parts: Iterable[Any], rules: Any) -> SimulatedComplex:
        result = super().__new__(cls, parts)
        result.rules = rules
        return result

    @property
    def real(self) -> Any:
        """The real part."""
        return tuple.__getitem__(self, 0)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return tuple.__getitem__(self, 1)

    def conjugate(self) -> Any:
        """Returns the complex conjugate."""
        return self.rules.simulated(conjugate(self.rules, self))

    conj = conjugate

    def __bool__(self) -> bool:
        return bool(complex(self))

    def __complex__(self) -> complex:
        return complex(float(self.real), float(self.imag))

    def __repr__(self) -> str:
        return str(complex(self))


class SimulatedRow(Operators, Row):
    """A row of an array."""

    __slots__ = ("rules",)

    def __init__(self, row: Row, rules: Any) -> None:
        super().__init__(row.array, row.indices)
        object.__setattr__(self, "rules", rules)

    def __getitem__(self, index: Any) -> Any:
        return self.rules.simulated(self.rules.item(self, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.rules.assign(self, plain(index), _in_memory(value))

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute or a method of the part of the array."""
        return getattr(self.rules.simulated(self.rules.part(self.array, self.indices)), name)

    def __len__(self) -> int:
        length: int = self.rules.offsets_in_memory.shape(self.array)[-1]
        return length

    def __repr__(self) -> str:
        return f"{self.array.name}[{', '.join(map(str, self.indices))}]"


class SimulatedArray:
    """An array argument or a shared array of a simulated kernel.

    Attributes:
        array: the compiler's value for it.
    """

    def __init__(self, array: ArrayValue, rules: Any) -> None:
        self.array, self._rules = array, rules

    def __getitem__(self, index: Any) -> Any:
        return self._rules.simulated(self._rules.item(self.array, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._rules.assign(self.array, plain(index), _in_memory(value))

    @property
    def shape(self) -> tuple[Any, ...]:
        """Lengths of the axes: int32 for an argument, constants for a shared array."""
        lengths = [self._rules.arrays.extent(self.array, axis) for axis in range(self.array.ndim)]
        return tuple(map(self._rules.simulated, lengths))

    @property
    def size(self) -> Any:
        """Number of elements."""
        return self._rules.simulated(self._rules.arrays.extent(self.array, -1))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.array.element.numpy

    def view(self, dtype: Any) -> Any:
        """Returns the same memory as elements of another type."""
        element = element_type(as_dtype(dtype))
        if element is self.array.element:
            return self
        self._rules.demand_counted(self.array)
        return self._rules.simulated(array_views.retyped(self._rules, self.array, element))

    def __getattr__(self, name: str) -> Any:
        """Returns the array of a field of records, or a method."""
        value = self._rules.attribute(self.array, name)
        if isinstance(value, Intrinsic):
            return lambda *args: self._rules.simulated(value.emit(self._rules, *map(plain, args)))
        return self._rules.simulated(value)

    def __len__(self) -> int:
        length: int = self._rules.offsets_in_memory.shape(self.array)[0]
        return length

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        array = self.array
        shape = self._rules.offsets_in_memory.shape(array)
        if isinstance(array, View):
            return f"{array.name}: a view of {shape} elements of {array.element}"
        data = self._rules.contents(array.memory).view(array.element.numpy).reshape(shape)
        return f"{array.name}: {data!r}"


class SimulatedRecord:
    """A record in memory."""

    __slots__ = ("_record", "_rules")
    _record: Record
    _rules: Any

    def __init__(self, record: Record, rules: Any) -> None:
        object.__setattr__(self, "_record", record)
        object.__setattr__(self, "_rules", rules)

    def __getitem__(self, name: Any) -> Any:
        return self._rules.simulated(self._rules.item(self._record, plain(name)))

    def __setitem__(self, name: Any, value: Any) -> None:
        self._rules.assign(self._record, plain(name), plain(value))

    __getattr__, __setattr__ = __getitem__, __setitem__

    def __repr__(self) -> str:
        names = self._record.array.element.numpy.names or ()
        return f"({', '.join(f'{name}={self[name]!r}' for name in names)})"


def _in_memory(value: Any) -> Any:
    """Converts what is copied from memory to a value of the compiler; others are converted where they are stored."""
    return plain(value) if isinstance(value, (SimulatedArray, SimulatedRecord)) else value


def plain(value: Any) -> Any:
    """Converts a simulated value to one of the compiler, with constants as Python or numpy objects."""
    if isinstance(value, tuple) and not isinstance(value, (Vector, Complex)):
        return like(value, map(plain, value))
    if isinstance(value, SimulatedArray):
        return value.array
    if isinstance(value, SimulatedRecord):
        return object.__getattribute__(value, "_record")
    return value.scalar if type(value) is SimulatedConstant else value
