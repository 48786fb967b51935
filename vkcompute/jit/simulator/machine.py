"""What runs a simulated kernel: the compiler's own rules on values that are known, and memory that is watched."""

from __future__ import annotations

import ast
import math
import sys
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.ir import INT32, INT64, Constant, Function, Memory, Scalar, Value
from vkcompute.jit import library, workgroup
from vkcompute.jit.expressions import Expressions, Frame
from vkcompute.jit.functions import call
from vkcompute.jit.simulator.invocations import Calls, Invocation
from vkcompute.jit.simulator.memory import Cells, Touched
from vkcompute.jit.simulator.numbers import Fixed, SimulatedArray, SimulatedNumber, SimulatedRow, SimulatedVector, plain
from vkcompute.jit.simulator.operations import DIRECT, Evaluator
from vkcompute.jit.simulator.recorder import Notes, Recorder, type_of
from vkcompute.jit.simulator.rewriter import rewritten
from vkcompute.jit.source import Source
from vkcompute.jit.values import Array, Kind, Number, Row, Vector, like


class Run(NamedTuple):
    """A function that is run, and the first and last lines of its loops, outer ones first."""

    function: FunctionType
    source: Source
    loops: list[tuple[int, int]]


class Machine(Expressions):
    """Does at once what the compiler would emit.

    Attributes:
        current: the invocation whose turn it is.
        codes: of the functions that are run.
        counts: whether to count how often loops go round, which matters to the operations of subgroups.
    """

    current: Invocation

    def __init__(self, notes: Notes, real: Scalar, local_size: tuple[int, int, int], *, counts: bool) -> None:
        super().__init__(Function(notes.function.__name__, local_size), real, folded=False)
        self.builder = Evaluator(self.function, self)
        self.frames.append(Frame(notes.function, notes.source, set()))
        self.codes, self.counts = dict[CodeType, Run](), counts
        self._kernel = notes.function.__name__
        self._touched, self._library = Touched(), dict[Any, tuple[FunctionType, Any]]()
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._tensors, self._cells = dict[Memory, Cells](), dict[Memory, Cells]()
        self._shared: dict[ast.AST, SimulatedArray] = {}

    def tensor(self, array: Array, data: np.ndarray[Any, Any], written: np.ndarray[Any, Any] | None) -> SimulatedArray:
        """A tensor argument that has these elements; `written` as `Cells` takes it."""
        flat = data.reshape(-1).view(array.memory.element.numpy)
        self._tensors[array.memory] = Cells(self, array.name, flat, data.shape, self._touched, written)
        self._shapes[array.position] = data.shape
        return SimulatedArray(array, self)

    def runs(self, code: CodeType, notes: Notes) -> None:
        """Notes the code of a function."""
        above, nodes = notes.source.above, ast.walk(notes.source.tree) if self.counts else ()
        loops = [
            (node.lineno + above, (node.body[-1].end_lineno or 0) + above)
            for node in nodes
            if isinstance(node, (ast.For, ast.While))
        ]
        self.codes[code] = Run(notes.function, notes.source, sorted(loops))

    def begin(self) -> None:
        """A workgroup begins, whose shared arrays hold nothing."""
        self._cells = dict(self._tensors)

    def cells(self, memory: Memory) -> Cells:
        """What a memory holds."""
        found = self._cells.get(memory)
        if found is None:
            shape = next(each.array.shape or () for each in self._shared.values() if each.array.memory is memory)
            data = np.zeros(memory.length or 0, memory.element.numpy)
            found = self._cells[memory] = Cells(self, memory.name, data, shape, None, np.zeros(data.size, bool))
        return found

    # -- values -------------------------------------------------------------------------------------------------------

    def seen(self, value: Any) -> Any:
        """A value of the compiler's as the kernel sees it."""
        if isinstance(value, tuple):
            parts = map(self.seen, value)
            return SimulatedVector(parts, self) if isinstance(value, Vector) else like(value, parts)
        if type(value) is Row:
            return SimulatedRow(value, self)
        return SimulatedNumber(value.value, value.kind, self) if type(value) is Number else value

    def fixed(self, value: Any) -> Any:
        """A value from outside as the kernel sees it."""
        if isinstance(value, tuple):
            return like(value, map(self.fixed, value))
        if not isinstance(value, np.generic):
            return value
        kind = self.kind(value)
        return Fixed(self.builder.const(value, kind.type), kind, self)

    def settled(self, kind: Any, value: Any) -> Any:
        """A value in the type that the compiler found for it, as `type_of` gives it."""
        if isinstance(kind, tuple):
            return self.seen(like(kind, [self.settled(k, v) for k, v in zip(kind, value, strict=True)]))
        if kind is None or (type(value) is SimulatedNumber and value.kind == kind):
            return self.seen(value)
        return SimulatedNumber(self.cast(value, kind.type), kind, self)

    def picked(self, kind: Any, values: tuple[Any, ...], index: Any) -> Any:
        """An element of a tuple or a vector, in this type."""
        if not 0 <= int(index) < len(values):
            raise self.fault(f"index {index} is out of bounds of {len(values)} values; compare the index before")
        return self.settled(kind, tuple(values)[int(index)])

    def operate(self, sign: str, one: Any, other: Any) -> Any:
        """`one sign other` of numbers as the kernel sees them."""
        if sign in DIRECT and type(one) is type(other) is SimulatedNumber and one.kind == other.kind:
            kind = one.kind  # what is most frequent is done at once
            if kind.type.kind != "b":
                return SimulatedNumber(Constant(kind.type, DIRECT[sign](one.scalar, other.scalar)), kind, self)
        return self.seen(self.binary(sign, one, other))

    def invoke(self, node: ast.AST, function: Any, kind: Any, *args: Any) -> Any:
        """The value of a call of one of FUNCTIONS at this node, which is of this type."""
        self.node = node
        if function is not workgroup.shared:
            return self.settled(kind, call(self, function, list(map(plain, args))))
        if node not in self._shared:
            self._shared[node] = SimulatedArray(call(self, function, list(map(plain, args))), self)
        return self._shared[node]

    def begin_loop(self, line: int) -> None:
        """The invocation comes to a loop; `progress` asks how often it has gone round."""
        if self.counts:
            self.current.trips[len(self.calls()), line] = 0

    def trip(self, line: int) -> None:
        """An iteration of the loop begins."""
        if self.counts:
            self.current.trips[len(self.calls()), line] += 1

    def range(self, line: int, *args: Any) -> Any:
        """The numbers of a range for a loop: int32, or int64 where an argument has 64 bits."""
        wide = any(self.kind(each).type.bits == 64 for each in args)
        kind = Kind(INT64 if wide else INT32)
        numbers = [int(self.converted(each, kind.type).value.value) for each in args]  # type: ignore[attr-defined]
        if len(numbers) < 3 or numbers[2] != 0:
            self.begin_loop(line)
            for each in range(*numbers):
                self.trip(line)
                yield SimulatedNumber(Constant(kind.type, kind.type.numpy.type(each)), kind, self)

    def call(self, name: str, *args: Any) -> Any:
        """The result of a function of the library."""
        key = name, *[(type(each), type_of(each) or repr(each)) for each in args]
        if key not in self._library:
            function, stand_ins = getattr(library, name), list(map(_stand_in, args))
            notes, kind = Recorder(Function(name), self.real).note(self.frames[0], function, stand_ins)
            self._library[key] = rewritten(notes, self), kind
        function, kind = self._library[key]
        return self.settled(kind, function(*map(self.seen, args)))

    # -- elements -----------------------------------------------------------------------------------------------------

    def shape(self, array: Array) -> tuple[int, ...]:
        """The lengths of a tensor or shared array."""
        return self._shapes[array.position] if array.shape is None else array.shape

    def extent(self, array: Array, axis: int) -> Any:
        """The length along an axis, or with -1 the number of elements."""
        if array.shape is not None or array.ndim == 0:
            return super().extent(array, axis)
        found = math.prod(self.shape(array)) if axis < 0 else self.shape(array)[axis]
        return Number(Constant(INT32, np.int32(found)), Kind(INT32))

    def place(self, array: Any, index: Any) -> Value:
        """Where an element lies; the indices are in range."""
        along, flat, shape = [], 0, self.shape(array)
        for each, length in zip(index if isinstance(index, tuple) else (index,), shape, strict=True):
            known = not isinstance(each, Number)
            n = int(each if known else each.value.value)
            along.append(n)
            n += length if known and n < 0 else 0
            flat = flat * length + n if 0 <= n < length else -1 << 99
        if flat < 0:
            raise self.fault(
                f"{array.name}[{', '.join(map(str, along))}] is out of bounds: {array.name} has the shape {shape}; "
                "compare the index before"
            )
        return Constant(INT64, np.int64(flat))

    # -- places in the source -----------------------------------------------------------------------------------------

    def calls(self, most: int = 1000) -> Calls:
        """Where the kernel is, and what called it, the innermost first; none where a debugger evaluates something."""
        found: list[tuple[CodeType, int, int]] = []
        frame = sys._getframe(1)
        while frame.f_back is not None and len(found) < most:
            if frame.f_code in self.codes:
                if self.codes[frame.f_code].function.__module__ != library.__name__:
                    found.append((frame.f_code, frame.f_lineno, frame.f_lasti))
            elif frame.f_code.co_name == "<module>" and not found:
                return ()
            frame = frame.f_back
        return tuple(found)

    def progress(self) -> tuple[tuple[int, ...], ...]:
        """How far the invocation has come, call by call: the loops that it is in, their iterations, and the line."""
        found, trips = list[tuple[int, ...]](), self.current.trips
        for depth, (code, line, instruction) in enumerate(reversed(self.calls()), 1):
            for start, end in self.codes[code].loops:
                if start <= line <= end and (depth, start) in trips:
                    found.append((start, 0, trips[depth, start]))
            found.append((line, 1, instruction))
        return tuple(found)

    def fault(self, message: str, invocation: Invocation | None = None, calls: Calls | None = None) -> KernelError:
        """An error of an invocation, the current one if none is given, with its place and the calls that led there."""
        who = invocation or self.current
        text = f"{self._kernel}, {who} of workgroup {who.group.place}: {message}"
        inner = ""
        for code, line, instruction in calls or self.calls():
            function, source, _ = self.codes[code]
            positions = getattr(code, "co_positions", None)  # since Python 3.11
            column = list(positions())[instruction // 2][2] if positions else None
            node = ast.Pass(lineno=line - source.above, col_offset=column or 0)
            called = source.error(node, f"in this call of {inner}" if inner else text)
            text, inner = f"{text}\n{called}" if inner else str(called), function.__name__
        return KernelError(text)


def _stand_in(value: Any) -> Any:
    """A value of the same type, to compile with."""
    if isinstance(value, tuple):
        return like(value, map(_stand_in, value))
    return Number(Value(value.kind.type), value.kind) if isinstance(value, Number) else value
