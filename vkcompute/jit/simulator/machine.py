"""The machine that runs a simulated kernel: the compiler, with a builder that evaluates operations immediately."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.compiled.specialization import OFFSET, STRIDE
from vkcompute.dtypes import step_bytes
from vkcompute.frontend.evaluator import Evaluator, Frame
from vkcompute.ir import UINT32, Constant, Function, Memory, Value
from vkcompute.ir.types import SmallFloat
from vkcompute.jit.frontend import array_views, records
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.element_access import ElementAccess
from vkcompute.jit.frontend.intrinsics import in_order
from vkcompute.jit.frontend.type_rules import kind_of
from vkcompute.jit.frontend.values import (
    PARTS,
    ArrayValue,
    Complex,
    Kind,
    Number,
    Record,
    Row,
    Vector,
    like,
    parts_of,
)
from vkcompute.jit.library import workgroup
from vkcompute.jit.simulator.callstack import CallStack
from vkcompute.jit.simulator.invocations import Grid
from vkcompute.jit.simulator.memory import DeviceMemory
from vkcompute.jit.simulator.operations import DIRECT, ImmediateBuilder, State
from vkcompute.jit.simulator.recorder import NoteRecorder, Notes, type_of
from vkcompute.jit.simulator.simulated_offsets import SimulatedOffsets
from vkcompute.jit.simulator.simulated_values import (
    SimulatedArray,
    SimulatedComplex,
    SimulatedConstant,
    SimulatedNumber,
    SimulatedRecord,
    SimulatedRow,
    SimulatedVector,
    plain,
)


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

    def __init__(
        self, recorder: NoteRecorder, rewrite: Callable[[Notes, Machine], FunctionType], *, counts: bool
    ) -> None:
        self.notes = notes = recorder.notes
        name = recorder.function.name
        self.stack, self.counts, self._rewrite = CallStack(), counts, rewrite
        self.grid = Grid(name, self.stack)
        self.offsets_in_memory = offsets = SimulatedOffsets(self.grid)
        function = Function(name, recorder.function.local_size)
        self.memory = DeviceMemory(self.grid, by_bytes=recorder.has_views)
        builder = ImmediateBuilder(function, State(self.grid, self.memory))
        super().__init__(
            function, recorder.rules, Evaluator(self, builder), arrays=lambda c: ElementAccess(c, c.numbers, offsets)
        )
        self.element_offsets = offsets
        self.evaluator.frames.append(Frame(notes.function, notes.source, set()))
        self._inlined = dict[Any, tuple[FunctionType, Any]]()
        self._kept_kinds: dict[tuple[str, str], bool] = {}
        self._shared: dict[tuple[ast.AST, str], SimulatedArray] = {}

    def array(
        self, value: ArrayValue | Record, data: np.ndarray[Any, Any], written: np.ndarray[Any, Any] | None
    ) -> SimulatedArray | SimulatedRecord:
        """Adds an array argument, or a record, with these elements; `written` as in `Cells`."""
        array = value.array if isinstance(value, Record) else value
        memory = array.memory.of or array.memory
        self.memory.add_array(memory, data, written)
        self.offsets_in_memory.shapes[array.position] = data.shape
        if array.strided:
            self._add_layout(array, data)
        own = self._own(array)
        return SimulatedRecord(Record(own), self) if isinstance(value, Record) else SimulatedArray(own, self)

    def _own(self, array: ArrayValue) -> ArrayValue:
        """Returns an array of the recorder with values of this machine: those of records have some."""
        if not isinstance(array, View):
            return array
        kept = {field.name: getattr(array, field.name) for field in fields(ArrayValue)}
        return records.in_memory(self, ArrayValue(**{**kept, "memory": array.memory.of or array.memory}))

    def _add_layout(self, array: ArrayValue, data: np.ndarray[Any, Any]) -> None:
        """Adds the offset and the strides of an array, which views of it need, from its first byte in memory."""
        step = step_bytes(data.dtype)
        steps = zip(data.shape, data.strides, strict=True)
        below = sum((length - 1) * stride for length, stride in steps if stride < 0)
        sizes = {OFFSET: -below, **{STRIDE + axis: stride for axis, stride in enumerate(data.strides)}}
        for source, nbytes in sizes.items():
            self.offsets.pushed[array.position, source] = self.builder.const(nbytes // step & 0xFFFFFFFF, UINT32)

    def part(self, array: ArrayValue, indices: Sequence[Any]) -> ArrayValue:
        """Returns a view; that of an array with gaps accesses the bytes of the array."""
        if array.strided and not isinstance(array, View):
            memory = Memory(array.memory.name, array.memory.element, of=array.memory)
            array = replace(array_views.whole(self, array), memory=memory)
        return super().part(array, indices)

    def demand_counted(self, array: ArrayValue) -> None:
        """Refuses a view of an array whose steps are no multiples of its elements, as that of a packed field."""
        if not array.strided and not self.contents(array.memory).flags.c_contiguous:
            raise self.grid.fault(f"{array.name} has elements at no multiples of their size; pass a copy of it")

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
        if type(value) is Record:
            return SimulatedRecord(value, self)
        if isinstance(value, ArrayValue):
            return SimulatedArray(value, self)
        return SimulatedNumber(value.value, value.kind, self) if type(value) is Number else value

    def constant_table(self, array: ArrayValue) -> SimulatedArray:
        """Converts a constant table."""
        return SimulatedArray(self._own(array), self)

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
        memory = array.memory.of or array.memory
        self.builder.fill(memory, self.builder.const(0, memory.element))
        if not isinstance(array, View):
            self.private_arrays.write_items(array, list(map(plain, items)))
        return SimulatedArray(self._own(array), self)

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
            if isinstance(array, View):  # of the words of records
                base = array.memory.of or array.memory
                self.memory.add_shared(base, (base.length or 0,), 0)
            else:
                self.memory.add_shared(array.memory, array.shape + parts, len(array.shape))
            self._shared[key] = SimulatedArray(array, self)
        return self._shared[key]

    def call(self, function: Any, *args: Any) -> Any:
        """Calls an internal function, which is rewritten once for each combination of types."""
        if function is records.copy_units:
            records.copy_units(*map(self.simulated, args))
            return None
        key = function, *map(_call_key, args)
        if key not in self._inlined:
            recorder = NoteRecorder(Function(function.__name__), self.rules)
            notes, kind = recorder.note(self.evaluator.frames[0], function, list(map(_stand_in, args)))
            self._inlined[key] = self._rewrite(notes, self), kind
        variant, kind = self._inlined[key]
        return self.as_type(kind, variant(*map(self.simulated, args)))

    def end_invocation(self) -> None:
        """Notes that the current invocation returns from the kernel."""
        self.grid.current.has_returned = True

    def wait_for_grid(self) -> None:
        """Waits for all invocations of the grid."""
        self.builder.grid_barrier()

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


def _call_key(value: Any) -> Any:
    """Returns what a rewritten function depends on in an argument."""
    if not isinstance(value, ArrayValue):
        return type(value), type_of(value) or repr(value)
    return type(value), value.element, value.ndim, value.shape, *map(type, getattr(value, "extents", ()))


def _stand_in(value: Any) -> Any:
    """Returns a value of the same type, to compile with."""
    if isinstance(value, tuple):
        return like(value, map(_stand_in, value))
    return Number(Value(value.kind.type), value.kind) if isinstance(value, Number) else value
