"""A kernel as data: typed values in single assignment, operations in regions instead of jumps.

A region is a list of operations, the last of which says how it ends: `yield` hands values to the operation that owns
the region, `continue` and `break` to a loop around it, `return` ends the invocation, and `unreachable` stands where
control cannot come. What an operation uses is defined before it in its own region or in one around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkcompute.ir.types import Scalar, Type

TERMINATORS = frozenset({"yield", "continue", "break", "return", "unreachable"})
EFFECTS = TERMINATORS | {"store", "atomic", "compare_exchange", "barrier", "if", "loop"}
"""Operations that are kept although nothing uses their result."""
EXACT = "exact"
"""The attribute of arithmetic on floats that no device may combine with other operations into one."""


class Value:
    """Something with a type that operations use."""

    __slots__ = ("type",)

    def __init__(self, kind: Type) -> None:
        self.type = kind


class Constant(Value):
    """A number known at compile time, as numpy's scalar of its type."""

    __slots__ = ("value",)

    def __init__(self, kind: Scalar, value: np.generic) -> None:
        super().__init__(kind)
        self.value = value


class Param(Value):
    """A value that a loop carries, as its body finds it."""

    __slots__ = ()


class Result(Value):
    """One of the values that an `if` or a loop ends with."""

    __slots__ = ()


class Push(Value):
    """A push constant."""

    __slots__ = ("name",)

    def __init__(self, name: str, kind: Scalar) -> None:
        super().__init__(kind)
        self.name = name


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """An array that operations load from and store to.

    Attributes:
        length: elements of workgroup memory; None for a buffer, whose length the device is asked for.
        slot: descriptor set and binding of a buffer; None for set 0 and its place among the buffers.
    """

    name: str
    element: Scalar
    length: int | None = None
    slot: tuple[int, int] | None = None


@dataclass(slots=True)
class Region:
    """Operations in order; the last one is a terminator once the region is finished."""

    ops: list[Op] = field(default_factory=list)

    def end(self) -> Op | None:
        """The terminator, if there is one yet."""
        return self.ops[-1] if self.ops and self.ops[-1].code in TERMINATORS else None


class Op(Value):
    """An operation; it is its own result where it has one.

    Attributes:
        code: what it does; ir/rules.py has the list.
        args: the values that it uses.
        attribute: what is no value: the memory of a load, the axis of a builtin, the loop of a break.
        regions: of an `if` (then, otherwise) or a loop (body).
        params, results: of a loop; of an `if` and a loop, empty where nobody wants them.
        loc: where it comes from, in the front end's own terms.
    """

    __slots__ = ("args", "attribute", "code", "has_result", "loc", "params", "regions", "results")

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
        self.regions = tuple(regions)
        self.params: tuple[Param, ...] = ()
        self.results: tuple[Result, ...] = ()


class Function:
    """One compute kernel.

    Attributes:
        buffers: bound at set 0, bindings 0, 1, …
        pushes: push constants in order.
        shared_memory: that of a workgroup.
        body: what an invocation does.
    """

    def __init__(self, name: str, local_size: tuple[int, int, int] = (64, 1, 1)) -> None:
        self.name, self.local_size = name, local_size
        self.buffers: list[Memory] = []
        self.shared_memory: list[Memory] = []
        self.pushes: list[Push] = []
        self.body = Region()
        self._constants: dict[tuple[Scalar, bytes], Constant] = {}

    def buffer(self, name: str, element: Scalar, slot: tuple[int, int] | None = None) -> Memory:
        """The next binding, or that at `slot` (set, binding): an array of `element`, as long as what is bound.

        Raises:
            TypeError: memory holds no bools; take uint8.
        """
        self.buffers.append(_memory(name, element, None, slot))
        return self.buffers[-1]

    def shared(self, name: str, element: Scalar, length: int) -> Memory:
        """`length` elements of memory that a workgroup shares; their content is undefined at first."""
        self.shared_memory.append(_memory(name, element, length))
        return self.shared_memory[-1]

    def push(self, name: str, kind: Scalar) -> Push:
        """The next push constant, of 4 or 8 bytes."""
        if kind.bits < 32:
            raise TypeError(f"push constant {name} has 4 or 8 bytes; got {kind}")
        self.pushes.append(Push(name, kind))
        return self.pushes[-1]

    def constant(self, value: Any, kind: Scalar) -> Constant:
        """The constant; the same bits give the same object. The value is converted as numpy's `astype` does."""
        with np.errstate(all="ignore"):
            number = np.asarray(value).astype(kind.numpy).reshape(1)[0]
        key = kind, number.tobytes()
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = Constant(kind, number)
        return found


def walk(region: Region) -> Iterator[Op]:
    """All operations, each before those inside of it."""
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from walk(inner)


def endings(op: Op, *, back: bool = False) -> Iterator[Op]:
    """The terminators that lead out of an `if` (its yields) or a loop (its breaks), or `back` to the loop's start."""
    if op.code == "if":
        yield from (end for region in op.regions if (end := region.end()) is not None and end.code == "yield")
        return
    body = op.regions[0]
    for inner in walk(body):
        if inner.code == ("continue" if back else "break") and inner.attribute is op:
            yield inner
    if back and (end := body.end()) is not None and end.code == "yield":
        yield end


def falls_through(op: Op) -> bool:
    """Whether control comes out of an `if` or a loop at its end; of an `if` that is being built it does."""
    return next(endings(op), None) is not None or (op.code == "if" and any(not r.end() for r in op.regions))


def _memory(name: str, element: Scalar, length: int | None, slot: tuple[int, int] | None = None) -> Memory:
    if element.kind == "b":
        raise TypeError(f"{name}: memory holds numbers, a bool is a uint8 there; got {element}")
    return Memory(name, element, length, slot)
