"""A kernel as data: typed values in single assignment, and operations in structured regions.

A region is a list of operations that ends with a terminator. `yield` passes values to the operation that owns the
region; `continue` and `break` pass them to an enclosing loop. `return` ends the invocation, and `unreachable` marks
code that control flow cannot reach. An operation uses values that are defined before it, in its region or an enclosing
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vkcompute.ir.memory import ArrayBindings, Memory
from vkcompute.ir.operations import OPERATIONS
from vkcompute.ir.types import Scalar, SmallFloat, Type

NO_CONTRACTION = "no_contraction"
"""The attribute of arithmetic on floats that a device must not contract or reassociate with other operations.

Quotients and square roots of float16 and float32 with it are rounded to the nearest (ir/float_division.py).
"""


class Value:
    """A typed operand."""

    __slots__ = ("type",)

    def __init__(self, kind: Type) -> None:
        self.type = kind


class Constant(Value):
    """A number known at compile time, as a numpy scalar of its type."""

    __slots__ = ("value",)

    def __init__(self, kind: Scalar, value: np.generic) -> None:
        super().__init__(kind)
        self.value = value


class Param(Value):
    """A loop-carried value at the start of an iteration."""

    __slots__ = ()


class Result(Value):
    """A result of an `if` or a loop."""

    __slots__ = ()


class Push(Value):
    """A push constant.

    Attributes:
        host: the type of the number that the host passes; its own, but for one of 64 bits as a vector of two words.
    """

    __slots__ = ("host", "name")

    def __init__(self, name: str, kind: Type, host: Scalar) -> None:
        super().__init__(kind)
        self.name, self.host = name, host


@dataclass(slots=True)
class Region:
    """Operations in order; a finished region ends with a terminator."""

    ops: list[Op] = field(default_factory=list)

    @property
    def terminator(self) -> Op | None:
        """The last operation, if it is a terminator."""
        return self.ops[-1] if self.ops and self.ops[-1].operation.terminator else None


class Op(Value):
    """An operation; it is its own result if it has one.

    Attributes:
        code: its name in the table of operations.
        operation: its row there.
        args: operands.
        attribute: further data: the memory of a load, the name and axis of a builtin, the loop of a break.
        regions: of an `if` (then, otherwise) or a loop (body).
        params: loop-carried values.
        results: of an `if` or a loop; empty if unused.
        loc: source location, in the front end's own form.
    """

    __slots__ = ("args", "attribute", "code", "has_result", "loc", "operation", "params", "regions", "results")

    def __init__(
        self,
        code: str,
        kind: Type | None,
        args: Sequence[Value] = (),
        attribute: Any = None,
        regions: Sequence[Region] = (),
        loc: object = None,
    ) -> None:
        self.has_result = kind is not None
        if kind is not None:
            super().__init__(kind)
        self.code, self.args, self.attribute, self.loc = code, tuple(args), attribute, loc
        self.operation = OPERATIONS[code]
        self.regions = tuple(regions)
        self.params: tuple[Param, ...] = ()
        self.results: tuple[Result, ...] = ()

    @property
    def memory(self) -> Memory | None:
        """The memory that it accesses."""
        memory = self.attribute[1] if self.code in ("atomic", "load_matrix") else self.attribute
        return memory if isinstance(memory, Memory) else None


class GridPhases(NamedTuple):
    """The phases of a kernel with grid barriers (ir/grid_phases.py).

    Attributes:
        body: the kernel before it was divided.
        structural: the branches and loops around barriers, and the branches that leave or continue such a loop.
        known: the kept values that the host computes.
        arguments: the push constants of the kernel.
        n_words: the words of memory that an invocation keeps.
        n_group_words: the words that a workgroup keeps, of its shared arrays.
    """

    body: Region
    structural: frozenset[Op]
    known: tuple[Value, ...]
    arguments: tuple[Push, ...]
    n_words: int
    n_group_words: int


class Routine(NamedTuple):
    """An implementation of an operation, without memory and loops.

    Attributes:
        params: for the operands.
        body: ends with a yield of the result.
    """

    params: tuple[Param, ...]
    body: Region


class Function:
    """One compute kernel.

    Attributes:
        buffers: at set 0, bindings 0, 1, …, or at bindings of their own.
        pushes: push constants in order.
        shared_memory: workgroup memory.
        body: the operations of an invocation.
        array_bindings: those of arrays, unless each has one of its own.
        aliased: buffers that may have bytes in common with a written one, so that drivers must not take them for
            constant. Also arrays in workgroup memory that begin at the same byte; they need the feature
            workgroupMemoryExplicitLayout.
        routines: by code and type, the implementations of operations that are calls in the module.
        phases: those of a kernel with grid barriers; else None.
    """

    def __init__(self, name: str, local_size: tuple[int, int, int] = (64, 1, 1)) -> None:
        self.name, self.local_size = name, local_size
        self.buffers: list[Memory] = []
        self.shared_memory: list[Memory] = []
        self.pushes: list[Push] = []
        self.body = Region()
        self.array_bindings: ArrayBindings | None = None
        self.aliased: frozenset[Memory] = frozenset()
        self.routines: dict[tuple[str, Type], Routine] = {}
        self.phases: GridPhases | None = None
        self._constants: dict[tuple[Scalar, bytes], Constant] = {}
        self._ints: dict[tuple[Scalar, int], Constant] = {}  # the same, by Python ints: these need no conversion

    def empty_copy(self) -> Function:
        """A function with the same interface and an empty body."""
        made = Function(self.name, self.local_size)
        made.buffers, made.pushes, made.shared_memory = [*self.buffers], [*self.pushes], [*self.shared_memory]
        made.aliased, made.routines, made.phases = self.aliased, {**self.routines}, self.phases
        return made

    def buffer(
        self,
        name: str,
        element: Scalar,
        binding: tuple[int, int] | None = None,
        *,
        lanes: int = 1,
        texels: bool = False,
        for_host: bool = False,
        window: bool = False,
    ) -> Memory:
        """Adds a buffer at the next binding, or at `binding` (set, binding)."""
        self.buffers.append(Memory(name, element, None, binding, lanes, texels, for_host=for_host, window=window))
        return self.buffers[-1]

    def shared(self, name: str, element: Scalar, length: int, *, volatile: bool = False) -> Memory:
        """Adds workgroup memory of `length` elements; its initial content is undefined."""
        self.shared_memory.append(Memory(name, element, length, volatile=volatile))
        return self.shared_memory[-1]

    def push(self, name: str, kind: Scalar) -> Push:
        """Adds the next push constant, of 4 or 8 bytes."""
        if kind.bits < 32:
            raise TypeError(f"push constant {name} has 4 or 8 bytes; got {kind}")
        self.pushes.append(Push(name, kind, kind))
        return self.pushes[-1]

    def constant(self, value: Any, kind: Scalar) -> Constant:
        """The constant, converted as by numpy's `astype`; equal bits give the same object."""
        if type(value) is int and (kind, value) in self._ints:
            return self._ints[kind, value]
        is_typed = isinstance(value, np.generic) and value.dtype == kind.numpy and not isinstance(kind, SmallFloat)
        number = value if is_typed else _converted(value, kind)
        constant = self._constants.setdefault((kind, number.tobytes()), Constant(kind, number))
        if type(value) is int:
            self._ints[kind, value] = constant
        return constant


def _converted(value: Any, kind: Scalar) -> np.generic:
    value = kind.format.rounded(value) if isinstance(kind, SmallFloat) else value
    with np.errstate(all="ignore"):
        number: np.generic = np.asarray(value).astype(kind.numpy).reshape(1)[0]
    return number


def walk(region: Region) -> list[Op]:
    """All operations in preorder."""
    ops: list[Op] = []
    start = 0
    for stop, op in enumerate(region.ops, 1):
        if op.regions:
            ops += region.ops[start:stop]
            start = stop
            for inner in op.regions:
                ops += walk(inner)
    return ops + region.ops[start:]


def terminators(region: Region) -> Iterator[Op]:
    """The terminators of a region and of those inside it, in preorder of the operations."""
    for op in region.ops:
        for inner in op.regions:
            yield from terminators(inner)
    if region.terminator is not None:
        yield region.terminator


def exits(op: Op) -> Iterator[Op]:
    """The terminators that lead to the end of an `if` (its yields) or a loop (its breaks)."""
    if op.code == "if":
        ends = (region.terminator for region in op.regions)
        yield from (end for end in ends if end is not None and end.code == "yield")
    else:
        yield from (end for end in terminators(op.regions[0]) if end.code == "break" and end.attribute is op)


def back_edges(loop: Op) -> Iterator[Op]:
    """The terminators that lead to the start of a loop: its continues and its body's yield."""
    body = loop.regions[0]
    yield from (end for end in terminators(body) if end.code == "continue" and end.attribute is loop)
    end = body.terminator
    if end is not None and end.code == "yield":
        yield end


def falls_through(op: Op) -> bool:
    """True if control can reach the code after an `if` or a loop; an `if` under construction counts as such."""
    return next(exits(op), None) is not None or (op.code == "if" and any(not r.terminator for r in op.regions))
