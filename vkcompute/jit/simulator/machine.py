"""The machine that runs a simulated kernel: the compiler, with a builder that evaluates operations immediately."""

from __future__ import annotations

import ast
import math
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.ir import INT32, INT64, Constant, Function, Memory, Scalar, Value
from vkcompute.jit.frontend.context import Frame
from vkcompute.jit.frontend.values import Array, Kind, Number, Row, Vector, like
from vkcompute.jit.library import workgroup
from vkcompute.jit.simulator.callstack import CallStack
from vkcompute.jit.simulator.invocations import Grid
from vkcompute.jit.simulator.memory import DeviceMemory
from vkcompute.jit.simulator.numbers import (
    Semantics,
    SimulatedArray,
    SimulatedConstant,
    SimulatedNumber,
    SimulatedRow,
    SimulatedVector,
    plain,
)
from vkcompute.jit.simulator.operations import DIRECT, Evaluator, State
from vkcompute.jit.simulator.recorder import Notes, Recorder, type_of
from vkcompute.jit.simulator.rewriter import rewritten


class Machine(Semantics):
    """Evaluates a kernel for the current invocation.

    Attributes:
        stack: the call stack of the kernel.
        grid: the invocations.
        memory: the elements of tensors and shared arrays.
        counts: True if iterations of loops are counted, which subgroup operations need.
    """

    def __init__(self, notes: Notes, real: Scalar, local_size: tuple[int, int, int], *, counts: bool) -> None:
        super().__init__(Function(notes.function.__name__, local_size), real)
        self.stack, self.counts = CallStack(), counts
        self.grid = Grid(notes.function.__name__, self.stack)
        self.memory = DeviceMemory(self.grid)
        self.builder = Evaluator(self.function, State(self.grid, self.memory))
        self.frames.append(Frame(notes.function, notes.source, set()))
        self._inlined = dict[Any, tuple[FunctionType, Any]]()
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._shared: dict[ast.AST, SimulatedArray] = {}

    def tensor(self, array: Array, data: np.ndarray[Any, Any], written: np.ndarray[Any, Any] | None) -> SimulatedArray:
        """Adds a tensor argument with these elements; `written` as in `Cells`."""
        self.memory.add_tensor(array.memory, data, written)
        self._shapes[array.position] = data.shape
        return SimulatedArray(array, self)

    # -- values -------------------------------------------------------------------------------------------------------

    def simulated(self, value: Any) -> Any:
        """Converts a value of the compiler to a simulated value."""
        if isinstance(value, tuple):
            parts = map(self.simulated, value)
            return SimulatedVector(parts, self) if isinstance(value, Vector) else like(value, parts)
        if type(value) is Row:
            return SimulatedRow(value, self)
        return SimulatedNumber(value.value, value.kind, self) if type(value) is Number else value

    def constant(self, value: Any) -> Any:
        """Converts a value from outside of the kernel."""
        if isinstance(value, tuple):
            return like(value, map(self.constant, value))
        if not isinstance(value, np.generic):
            return value
        kind = self.kind(value)
        return SimulatedConstant(self.builder.const(value, kind.type), kind, self)

    def as_type(self, kind: Any, value: Any) -> Any:
        """Converts a value to a type, as `type_of` returns it."""
        if isinstance(kind, tuple):
            return self.simulated(like(kind, [self.as_type(k, v) for k, v in zip(kind, value, strict=True)]))
        if kind is None or (type(value) is SimulatedNumber and value.kind == kind):
            return self.simulated(value)
        return SimulatedNumber(self.cast(value, kind.type), kind, self)

    def selected(self, kind: Any, values: tuple[Any, ...], index: Any) -> Any:
        """Returns an element of a tuple or a vector, in a type."""
        if not 0 <= int(index) < len(values):
            raise self.grid.fault(f"index {index} is out of bounds of {len(values)} values; compare the index before")
        return self.as_type(kind, tuple(values)[int(index)])

    def operate(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other` of simulated values."""
        if sign in DIRECT and type(one) is type(other) is SimulatedNumber and one.kind == other.kind:
            kind = one.kind  # a shortcut for the most frequent operations
            if kind.type.kind != "b":
                return SimulatedNumber(Constant(kind.type, DIRECT[sign](one.scalar, other.scalar)), kind, self)
        return self.simulated(self.binary(sign, one, other))

    # -- calls and loops ----------------------------------------------------------------------------------------------

    def invoke(self, node: ast.AST, function: Any, kind: Any, *args: Any) -> Any:
        """Calls an intrinsic at this node, and converts its result to a type."""
        self.node = node
        if function is not workgroup.shared:
            return self.as_type(kind, self.call_intrinsic(function, list(map(plain, args))))
        if node not in self._shared:
            array = self.call_intrinsic(function, list(map(plain, args)))
            self.memory.add_shared(array.memory, array.shape)
            self._shared[node] = SimulatedArray(array, self)
        return self._shared[node]

    def call(self, function: Any, *args: Any) -> Any:
        """Calls an internal function, which is rewritten once for each combination of types."""
        key = function, *[(type(each), type_of(each) or repr(each)) for each in args]
        if key not in self._inlined:
            recorder = Recorder(Function(function.__name__), self.real)
            notes, kind = recorder.note(self.frames[0], function, list(map(_stand_in, args)))
            self._inlined[key] = rewritten(notes, self), kind
        found, kind = self._inlined[key]
        return self.as_type(kind, found(*map(self.simulated, args)))

    def begin_loop(self, line: int) -> None:
        """Starts to count the iterations of a loop."""
        if self.counts:
            self.grid.current.iterations[len(self.stack.calls()), line] = 0

    def begin_iteration(self, line: int) -> None:
        """Counts an iteration of a loop."""
        if self.counts:
            self.grid.current.iterations[len(self.stack.calls()), line] += 1

    def range(self, line: int, *args: Any) -> Any:
        """Yields the numbers of a range, for a loop: int32, or int64 if an argument has 64 bits."""
        wide = any(self.kind(each).type.bits == 64 for each in args)
        kind = Kind(INT64 if wide else INT32)
        numbers = [int(self.converted(each, kind.type).value.value) for each in args]  # type: ignore[attr-defined]
        if len(numbers) < 3 or numbers[2] != 0:
            self.begin_loop(line)
            for each in range(*numbers):
                self.begin_iteration(line)
                yield SimulatedNumber(Constant(kind.type, kind.type.numpy.type(each)), kind, self)

    # -- elements -----------------------------------------------------------------------------------------------------

    def shape(self, array: Array) -> tuple[int, ...]:
        """Returns the shape of a tensor or shared array."""
        return self._shapes[array.position] if array.shape is None else array.shape

    def contents(self, memory: Memory) -> np.ndarray[Any, Any]:
        """Returns all elements of a memory."""
        return self.memory.cells(memory).data

    def extent(self, array: Array, axis: int) -> Any:
        """Returns the length of an axis, or the size for axis -1."""
        if array.shape is not None or array.ndim == 0:
            return super().extent(array, axis)
        found = math.prod(self.shape(array)) if axis < 0 else self.shape(array)[axis]
        return Number(Constant(INT32, np.int32(found)), Kind(INT32))

    def offset(self, array: Any, index: Any) -> Value:
        """Returns the offset of an element; an index out of bounds is an error."""
        along, flat, shape = [], 0, self.shape(array)
        for each, length in zip(index if isinstance(index, tuple) else (index,), shape, strict=True):
            known = not isinstance(each, Number)
            n = int(each if known else each.value.value)
            along.append(n)
            n += length if known and n < 0 else 0
            flat = flat * length + n if 0 <= n < length else -1 << 99
        if flat < 0:
            raise self.grid.fault(
                f"{array.name}[{', '.join(map(str, along))}] is out of bounds: {array.name} has the shape {shape}; "
                "compare the index before"
            )
        return Constant(INT64, np.int64(flat))


def _stand_in(value: Any) -> Any:
    """Returns a value of the same type, to compile with."""
    if isinstance(value, tuple):
        return like(value, map(_stand_in, value))
    return Number(Value(value.kind.type), value.kind) if isinstance(value, Number) else value
