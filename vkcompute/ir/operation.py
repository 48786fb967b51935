"""One operation as data, and the rules of types: what an operation takes, and the type of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkcompute.errors import IrError
from vkcompute.ir.atomics import ATOMICS
from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.memory import Memory
from vkcompute.ir.subgroups import SUBGROUP_OPERATIONS
from vkcompute.ir.types import BFLOAT16, BOOL, UINT16, UINT32, Matrix, Scalar, Type, Vector, element_of, vector

TypeRule = Callable[["Operation", list[Type], Any], Type | None]
"""(operation, types of the operands, attribute) -> type of the result, None without one; raises IrError."""
Evaluate = Callable[[Sequence[Any], Any], Any]
"""(operands as numpy scalars, or arrays for vectors; attribute) -> result."""
Foldable = Callable[[Sequence[Any], Any], bool]
"""(operands, attribute) -> True if `Evaluate` gives the same bits as every device."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One row of the table.

    Kinds of numbers are letters: "b" bool, "i" int, "u" uint, "f" float.

    Attributes:
        type_rule: checks the operands and returns the type of the result.
        arity: number of operands of an operation on numbers; None for all other operations.
        kinds: the kinds of numbers that it takes.
        opcodes: SPIR-V's opcode by kind.
        extended: the instruction of GLSL.std.450 by kind.
        evaluate: computes the result on the host; None if it depends on more than operands and attribute.
        foldable: see `Foldable`; None if constants are never folded.
        identity: the right operand that leaves the left one unchanged; on either side of a commutative operation.
        commutative: True if operands can be swapped.
        terminator: True if it ends a region.
        effect: True if dead-code elimination keeps it even without a use of its result.
        reads: True if the result depends on memory.
        writes: True if it writes memory.
        may_trap: True if it must not be executed speculatively: LICM does not hoist it.
        active_lanes: True if the result depends on which invocations are active.
        divergent: True if the result can differ within a workgroup although the operands are the same.
        waits: True if invocations wait for others.
        collective: True if all invocations of a workgroup must reach it; those that have returned do by predication.
        warp: True for an operation of the invocations of a warp that reach it (ir/warps.py).
        elementary: True for a function of floats that GLSL.std.450 has imprecisely, not for float64, or not at all.
            The front end replaces it before lowering.
    """

    name: str
    type_rule: TypeRule
    arity: int | None = None
    kinds: str = ""
    opcodes: Mapping[str, int] = field(default_factory=dict)
    extended: Mapping[str, int] = field(default_factory=dict)
    evaluate: Evaluate | None = None
    foldable: Foldable | None = None
    identity: int | None = None
    commutative: bool = False
    terminator: bool = False
    effect: bool = False
    reads: bool = False
    writes: bool = False
    may_trap: bool = False
    active_lanes: bool = False
    divergent: bool = False
    waits: bool = False
    collective: bool = False
    warp: bool = False
    elementary: bool = False

    @property
    def through_memory(self) -> bool:
        """True if it needs barriers of the workgroup, which predication makes all invocations reach."""
        return self.collective or self.warp

    @property
    def repeatable(self) -> bool:
        """True if equal operands give an equal result anywhere in the kernel, so that CSE and LICM apply."""
        return not (self.effect or self.reads or self.active_lanes)


def _demand(condition: bool, name: str, got: Sequence[object], rule: str, *values: object) -> None:
    """Raises IrError with a rule unless a condition holds; values are formatted into the rule, as in str.format."""
    if not condition:
        raise IrError(f"{name} {rule.format(*values)}; got {', '.join(map(str, got)) or 'nothing'}")


def same_type(name: str, operands: list[Type], arity: int, kinds: str) -> Type:
    alike = len(operands) == arity > 0 and operands.count(operands[0]) == arity
    _demand(alike, name, operands, "takes {} of one type", arity)
    _demand(element_of(operands[0]).kind in kinds, name, operands, "takes numbers of kind {}", ", ".join(kinds))
    return operands[0]


def one_type(operation: Operation, operands: list[Type], _: Any) -> Type:
    return same_type(operation.name, operands, operation.arity or 0, operation.kinds)


def comparison(operation: Operation, operands: list[Type], _: Any) -> Type:
    kind = one_type(operation, operands, None)
    return vector(BOOL, kind.n) if isinstance(kind, Vector) else BOOL


def word(operation: Operation, operands: list[Type], _: Any) -> Type:
    """The rule of operations that Vulkan has for 32 bits only (VUID-StandaloneSpirv-Base-04781, GLSL.std.450)."""
    kind = one_type(operation, operands, None)
    _demand(kind.bits == 32, operation.name, operands, "takes integers of 32 bits")
    return kind


def accesses(n_values: int, *, has_result: bool = True) -> TypeRule:
    """The rule of an operation on an element of memory, with this many values beside the index."""

    def rule(operation: Operation, operands: list[Type], memory: Any) -> Type | None:
        name = operation.name
        _demand(isinstance(memory, Memory), name, operands, "works on a memory, not {!r}", memory)
        takes_index = len(operands) == n_values + 1 and _is_index(operands[0])
        _demand(takes_index, name, operands, "takes an integer and {} values", n_values)
        alike = all(kind is memory.type for kind in operands[1:])
        _demand(alike, name, operands, "takes values of {}", memory.type)
        _demand(not memory.texels or not operation.writes, name, operands, "writes no texel buffer")
        return memory.type if has_result else None

    return rule


def fill(operation: Operation, operands: list[Type], memory: Any) -> None:
    name, is_private = operation.name, isinstance(memory, Memory) and memory.private
    _demand(is_private, name, operands, "works on a private memory, not {!r}", memory)
    _demand(operands == [memory.type], name, operands, "takes a value of {}", memory.type)


def _is_index(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.kind in "iu" and kind.bits >= 32


def length(operation: Operation, operands: list[Type], memory: Any) -> Type:
    _demand(isinstance(memory, Memory), operation.name, operands, "works on a memory, not {!r}", memory)
    _demand(not operands, operation.name, operands, "takes no index")
    counted = not memory.texels and memory.element is not BOOL
    _demand(counted, operation.name, [memory.type], "knows storage buffers and workgroup memory of numbers only")
    return UINT32


def atomic(operation: Operation, operands: list[Type], attribute: Any) -> Type | None:
    name, memory = attribute
    named = [name for name, row in ATOMICS.items() if not row.emulation_only]
    _demand(name in ATOMICS, operation.name, [name], f"is one of {', '.join(sorted(named))}")
    kinds = ", ".join(ATOMICS[name].opcodes)
    fits = memory.lanes == 1 and ATOMICS[name].takes(memory.element)
    _demand(fits, f"atomic {name}", [memory.type], f"works on numbers of kind {kinds}")
    return accesses(1)(operation, operands, memory)


def compare_exchange(operation: Operation, operands: list[Type], memory: Any) -> Type | None:
    fits = memory.lanes == 1 and memory.element.kind in "iuf"
    _demand(fits, operation.name, [memory.type], "works on numbers")
    return accesses(2)(operation, operands, memory)


def cast(operation: Operation, operands: list[Type], target: Any) -> Type:
    _demand(len(operands) == 1, operation.name, operands, "takes one value")
    same_shape = isinstance(operands[0], Vector) == isinstance(target, Vector)
    _demand(same_shape, operation.name, [*operands, target], "keeps the shape")
    kind: Type = target
    return kind


def bitcast(operation: Operation, operands: list[Type], target: Any) -> Type:
    _demand(len(operands) == 1, operation.name, operands, "takes one value")
    kind: Type = target
    same = operands[0].bits == kind.bits and BOOL not in (element_of(operands[0]), element_of(kind))
    _demand(same, operation.name, [*operands, kind], "keeps the number of bits")
    return kind


def select(operation: Operation, operands: list[Type], _: Any) -> Type:
    fits = len(operands) == 3 and operands[0] is BOOL and operands[1] is operands[2]
    _demand(fits, operation.name, operands, "takes a bool and two alike")
    return operands[1]


def vector_of_scalars(operation: Operation, operands: list[Type], _: Any) -> Type:
    first = operands[0] if operands else None
    alike = isinstance(first, Scalar) and {*operands} == {first} and 2 <= len(operands) <= 4
    _demand(alike, operation.name, operands, "takes 2 to 4 scalars of one type")
    return vector(element_of(operands[0]), len(operands))


def extract(operation: Operation, operands: list[Type], index: Any) -> Type:
    fits = len(operands) == 1 and isinstance(operands[0], Vector) and 0 <= index < operands[0].n
    _demand(fits, operation.name, operands, "takes a vector that has an element {}", index)
    return element_of(operands[0])


def fill_matrix(operation: Operation, operands: list[Type], kind: Any) -> Type:
    matrix: Matrix = kind
    _demand(operands == [matrix.element], operation.name, operands, "takes a value of {}", matrix.element)
    return matrix


def load_matrix(operation: Operation, operands: list[Type], attribute: Any) -> Type:
    kind, memory = attribute
    _demand_matrix_place(operation.name, operands, memory, kind)
    result: Type = kind
    return result


def store_matrix(operation: Operation, operands: list[Type], memory: Any) -> None:
    fits = len(operands) == 3 and isinstance(operands[2], Matrix)
    _demand(fits, operation.name, operands, "takes an index, a stride and a matrix")
    _demand_matrix_place(operation.name, operands[:2], memory, operands[2])


def _demand_matrix_place(name: str, operands: list[Type], memory: Any, kind: Type) -> None:
    element = UINT16 if element_of(kind) is BFLOAT16 else element_of(kind)
    fits = isinstance(memory, Memory) and memory.length is not None and memory.element is element
    _demand(fits, name, operands, "works on workgroup memory of {}, not {!r}", element, memory)
    _demand(len(operands) == 2 and all(map(_is_index, operands)), name, operands, "takes an index and a stride")


def multiply_matrices(operation: Operation, operands: list[Type], _: Any) -> Type:
    left, right, sums = operands
    fits = (
        isinstance(left, Matrix) and isinstance(right, Matrix) and isinstance(sums, Matrix)
        and (left.use, right.use, sums.use) == ("left", "right", "sums")
        and (left.shape[0], right.shape[1]) == sums.shape and left.shape[1] == right.shape[0]
    )  # fmt: skip
    _demand(fits, operation.name, operands, "takes the matrices of a product and its sums")
    return sums


def builtin(operation: Operation, operands: list[Type], attribute: Any) -> Type:
    name, axis = attribute
    fits = not operands and name in BUILTINS and 0 <= axis < BUILTINS[name].n_axes
    _demand(fits, operation.name, [name, axis], f"is one of {', '.join(BUILTINS)}, along one of its axes")
    return UINT32


def subgroup(operation: Operation, operands: list[Type], name: Any) -> Type:
    _demand(name in SUBGROUP_OPERATIONS, operation.name, [name], f"is one of {', '.join(SUBGROUP_OPERATIONS)}")
    row, called = SUBGROUP_OPERATIONS[name], f"{operation.name} {name}"
    if row.takes_lane:
        _demand(len(operands) == 2 and operands[1] is UINT32, called, operands, "takes a value and a uint32")
    kind = same_type(called, operands[:1], 1, "".join(row.opcodes)) if row.takes_value else BOOL
    return vector(UINT32, 4) if name == "ballot" else kind


def condition(operation: Operation, operands: list[Type], _: Any) -> None:
    _demand(operands == [BOOL], operation.name, operands, "takes one bool")


def word_operand(operation: Operation, operands: list[Type], _: Any) -> Type:
    _demand(operands == [UINT32], operation.name, operands, "takes one uint32")
    return UINT32


def of_warp(n: int) -> TypeRule:
    """The type rule of an operation of warps, on so many operands and the lanes that take part."""

    def kind(operation: Operation, operands: list[Type], _: Any) -> Type | None:
        shuffles = n == 2
        fits = len(operands) == n + 1 and operands[-1] is BOOL and (not shuffles or operands[1] is UINT32)
        fits &= all(isinstance(operand, Scalar) for operand in operands)
        _demand(fits, operation.name, operands, "takes {} scalars and a bool", n)
        return None if not n else operands[0] if shuffles else UINT32

    return kind


def no_operands(operation: Operation, operands: list[Type], _: Any) -> None:
    _demand(not operands, operation.name, operands, "takes no values")


def any_operands(operation: Operation, operands: list[Type], _: Any) -> None:
    """Accepts all operands; the verifier matches them with the enclosing operation."""
