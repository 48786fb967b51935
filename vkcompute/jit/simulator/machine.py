"""The machine that runs a simulated kernel, and its values: numbers, vectors and arrays.

It is the compiler, with a builder that evaluates operations immediately. Values have Python's operators, and work with
`print` and debuggers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.frontend.evaluator import Evaluator, Frame
from vkcompute.ir import Constant, Function, Memory, Value
from vkcompute.ir.types import SmallFloat
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.complex_values import conjugate, real_parts
from vkcompute.jit.frontend.element_access import ElementAccess
from vkcompute.jit.frontend.intrinsics import in_order
from vkcompute.jit.frontend.type_rules import kind_of
from vkcompute.jit.frontend.values import (
    PARTS,
    ArrayValue,
    Complex,
    Kind,
    Number,
    Row,
    Vector,
    like,
    parts_of,
    sliced,
    swizzled,
)
from vkcompute.jit.library import workgroup
from vkcompute.jit.simulator.callstack import CallStack
from vkcompute.jit.simulator.invocations import Grid
from vkcompute.jit.simulator.memory import DeviceMemory
from vkcompute.jit.simulator.operations import DIRECT, ImmediateBuilder, State
from vkcompute.jit.simulator.recorder import Notes, Recorder, type_of
from vkcompute.jit.simulator.simulated_offsets import SimulatedOffsets


class Machine(Compiler):
    """Evaluates a kernel for the current invocation.

    Args:
        recorder: has compiled the kernel.
        rewrite: returns the function of notes for this machine.

    Attributes:
        notes: those of the kernel itself.
        stack: the call stack of the kernel.
        grid: the invocations.
        memory: the elements of array arguments and shared arrays.
        offsets_in_memory: offsets of elements there.
        counts: True if iterations of loops are counted, which subgroup operations need.
    """

    def __init__(self, recorder: Recorder, rewrite: Callable[[Notes, Machine], FunctionType], *, counts: bool) -> None:
        self.notes = notes = recorder.notes
        name = recorder.function.name
        self.stack, self.counts, self._rewrite = CallStack(), counts, rewrite
        self.grid = Grid(name, self.stack)
        self.offsets_in_memory = offsets = SimulatedOffsets(self.grid)
        function = Function(name, recorder.function.local_size)
        self.memory = DeviceMemory(self.grid)
        builder = ImmediateBuilder(function, State(self.grid, self.memory))
        super().__init__(
            function, recorder.rules, Evaluator(self, builder), arrays=lambda c: ElementAccess(c, c.numbers, offsets)
        )
        self.evaluator.frames.append(Frame(notes.function, notes.source, set()))
        self._inlined = dict[Any, tuple[FunctionType, Any]]()
        self._kept_kinds: dict[tuple[str, str], bool] = {}
        self._shared: dict[tuple[ast.AST, str], SimulatedArray] = {}

    def array(
        self, value: ArrayValue, data: np.ndarray[Any, Any], written: np.ndarray[Any, Any] | None
    ) -> SimulatedArray:
        """Adds an array argument with these elements; `written` as in `Cells`."""
        self.memory.add_array(value.memory, data, written)
        self.offsets_in_memory.shapes[value.position] = data.shape
        return SimulatedArray(value, self)

    # -- values -------------------------------------------------------------------------------------------------------

    def simulated(self, value: Any) -> Any:
        """Converts a value of the compiler to a simulated value."""
        if isinstance(value, tuple):
            parts = map(self.simulated, value)
            if isinstance(value, Complex):
                return SimulatedComplex(parts, self)
            return SimulatedVector(parts, self) if isinstance(value, Vector) else like(value, parts)
        if type(value) is Row:
            return SimulatedRow(value, self)
        return SimulatedNumber(value.value, value.kind, self) if type(value) is Number else value

    def constant_table(self, array: ArrayValue) -> SimulatedArray:
        """Converts a constant table."""
        return SimulatedArray(array, self)

    def constant(self, value: Any) -> Any:
        """Converts a value from outside of the kernel."""
        if isinstance(value, tuple):
            return like(value, map(self.constant, value))
        if not isinstance(value, np.generic):
            return value
        if isinstance(value, np.complexfloating):
            return self.as_type(kind_of(value, self.rules), value)
        kind = self.kind(value)
        return SimulatedConstant(self.builder.const(value, kind.type), kind, self)

    def as_type(self, kind: Any, value: Any) -> Any:
        """Converts a value to a type, as `type_of` returns it."""
        if isinstance(kind, Complex):
            value = parts_of(value)
        if isinstance(kind, tuple):
            return self.simulated(like(kind, [self.as_type(k, v) for k, v in zip(kind, value, strict=True)]))
        if kind is None or (type(value) is SimulatedNumber and value.kind == kind):
            return self.simulated(value)
        return SimulatedNumber(self.cast(value, kind.type), kind, self)

    def picked(self, kind: Any, values: tuple[Any, ...], index: Any) -> Any:
        """Returns an element of a tuple or a vector, in a type."""
        if not 0 <= int(index) < len(values):
            raise self.grid.fault(f"index {index} is out of bounds of {len(values)} values; compare the index before")
        return self.as_type(kind, tuple(values)[int(index)])

    def _keeps_kind(self, sign: str, one: SimulatedNumber, other: SimulatedNumber) -> bool:
        """True if an operator of numbers of one type has a result of this type."""
        key = sign, one.kind.type.name
        if key not in self._kept_kinds:
            self._kept_kinds[key] = self.rules.binary(sign, one, other).type is one.kind.type
        return self._kept_kinds[key]

    def operate(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other` of simulated values."""
        if sign in DIRECT and type(one) is type(other) is SimulatedNumber and one.kind == other.kind:
            kind = one.kind  # a shortcut for the most frequent operations
            is_plain = kind.type.kind != "b" and not isinstance(kind.type, SmallFloat)
            if is_plain and not kind.weak and kind.argument is None and self._keeps_kind(sign, one, other):
                return SimulatedNumber(Constant(kind.type, DIRECT[sign](one.scalar, other.scalar)), kind, self)
        if isinstance(one, tuple) and not isinstance(one, (Vector, Complex)):  # repeated by a constant from outside
            other = plain(other)
        return self.simulated(self.binary(sign, one, other))

    def created(self, array: ArrayValue, *items: Any) -> SimulatedArray:
        """Makes a private array with these items, which are repeated."""
        self.builder.fill(array.memory, self.builder.const(0, array.memory.element))
        self.private_arrays.write_items(array, list(map(plain, items)))
        return SimulatedArray(array, self)

    # -- calls and loops ----------------------------------------------------------------------------------------------

    def invoke(self, node: ast.AST, function: Any, kind: Any, *args: Any, **named: Any) -> Any:
        """Calls an intrinsic at this node, and converts its result to a type."""
        self.evaluator.node = node
        args = (*in_order(function, [*args], named),) if named else args
        if function is not workgroup.shared:
            return self.as_type(kind, self.call_intrinsic(function, list(map(plain, args))))
        shape = _lengths(args[0])
        key = node, str((shape, *args[1:]))
        if key not in self._shared:
            array = self.call_intrinsic(function, [shape, *map(plain, args[1:])])
            parts = (2,) if array.element in PARTS else ()
            self.memory.add_shared(array.memory, array.shape + parts, len(array.shape))
            self._shared[key] = SimulatedArray(array, self)
        return self._shared[key]

    def call(self, function: Any, *args: Any) -> Any:
        """Calls an internal function, which is rewritten once for each combination of types."""
        key = function, *[(type(arg), type_of(arg) or repr(arg)) for arg in args]
        if key not in self._inlined:
            recorder = Recorder(Function(function.__name__), self.rules)
            notes, kind = recorder.note(self.evaluator.frames[0], function, list(map(_stand_in, args)))
            self._inlined[key] = self._rewrite(notes, self), kind
        variant, kind = self._inlined[key]
        return self.as_type(kind, variant(*map(self.simulated, args)))

    def end_invocation(self) -> None:
        """Notes that the current invocation returns from the kernel."""
        self.grid.current.has_returned = True

    def begin_loop(self, line: int) -> None:
        """Starts to count the iterations of a loop."""
        if self.counts:
            self.grid.current.iterations[len(self.stack.calls()), line] = 0

    def begin_iteration(self, line: int) -> None:
        """Counts an iteration of a loop."""
        if self.counts:
            self.grid.current.iterations[len(self.stack.calls()), line] += 1

    def range(self, line: int, *args: Any) -> Any:
        """Yields the numbers of a range, for a loop, in the type of its start."""
        bounds = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        types = self.rules.range_types(bounds)
        numbers = [self.converted(*pair).value.value for pair in zip(bounds, types, strict=True)]  # type: ignore[attr-defined]
        start, stop, step = map(int, numbers)
        kind = Kind(types[0])
        if step != 0:
            self.begin_loop(line)
            for value in range(start, stop, step):
                self.begin_iteration(line)
                number = np.uint64(value % (1 << 64)).astype(kind.type.numpy)  # wraps
                yield SimulatedNumber(Constant(kind.type, number), kind, self)

    # -- elements -----------------------------------------------------------------------------------------------------

    def contents(self, memory: Memory) -> np.ndarray[Any, Any]:
        """Returns all elements of a memory."""
        return self.memory.cells(memory).data


def _lengths(shape: Any) -> Any:
    """Returns the shape of a shared array, with ints for simulated numbers."""
    if isinstance(shape, tuple):
        return tuple(map(_lengths, shape))
    return int(shape) if isinstance(shape, SimulatedNumber) else shape


def _stand_in(value: Any) -> Any:
    """Returns a value of the same type, to compile with."""
    if isinstance(value, tuple):
        return like(value, map(_stand_in, value))
    return Number(Value(value.kind.type), value.kind) if isinstance(value, Number) else value


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
    rules: Machine
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

    def __init__(self, value: Value, kind: Kind, rules: Machine) -> None:
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

    def __new__(cls, parts: Iterable[Any], rules: Machine) -> SimulatedVector:
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

    def __new__(cls, parts: Iterable[Any], rules: Machine) -> SimulatedComplex:
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

    def __init__(self, row: Row, rules: Machine) -> None:
        super().__init__(row.array, row.indices)
        object.__setattr__(self, "rules", rules)

    def __getitem__(self, index: Any) -> Any:
        return self.rules.simulated(self.rules.item(self, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.rules.assign(self, plain(index), value)

    def __len__(self) -> int:
        return self.rules.offsets_in_memory.shape(self.array)[-1]

    def __repr__(self) -> str:
        return f"{self.array.name}[{', '.join(map(str, self.indices))}]"


class SimulatedArray:
    """An array argument or a shared array of a simulated kernel.

    Attributes:
        array: the compiler's value for it.
    """

    def __init__(self, array: ArrayValue, rules: Machine) -> None:
        self.array, self._rules = array, rules

    def __getitem__(self, index: Any) -> Any:
        return self._rules.simulated(self._rules.item(self.array, plain(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._rules.assign(self.array, plain(index), value)

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
        """Raises a TypeError: elements in simulated memory have one type."""
        raise TypeError(f"{self.array.name}.view is not simulated; launch the kernel on a device")

    def __len__(self) -> int:
        return self._rules.offsets_in_memory.shape(self.array)[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        array = self.array
        shape = self._rules.offsets_in_memory.shape(array)
        data = self._rules.contents(array.memory).view(array.element.numpy).reshape(shape)
        return f"{array.name}: {data!r}"


def plain(value: Any) -> Any:
    """Converts a simulated value to one of the compiler, with constants as Python or numpy objects."""
    if isinstance(value, tuple) and not isinstance(value, (Vector, Complex)):
        return like(value, map(plain, value))
    if isinstance(value, SimulatedArray):
        return value.array
    return value.scalar if type(value) is SimulatedConstant else value
