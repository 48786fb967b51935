"""Access analysis: the global variables that an entry point reads and writes, by tracing pointers to their uses.

Flow-insensitive and conservative: a pointer with several possible origins counts for each, and an unknown instruction
counts as reading and writing through all of its pointers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction, used_ids
from vkcompute.spirv.module import Module

# Opcode -> positions of the pointers from which its result is derived.
_DERIVES: dict[int, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            *(op.OpAccessChain, op.OpInBoundsAccessChain, op.OpPtrAccessChain, op.OpInBoundsPtrAccessChain),
            *(op.OpCopyObject, op.OpImageTexelPointer, op.OpImage, op.OpRawAccessChainNV),
        ),
        (2,),
    ),
    **dict.fromkeys((op.OpSampledImage,), (2, 3)),
    **dict.fromkeys((op.OpSelect,), (3, 4)),
    **dict.fromkeys(
        (
            *(op.OpUntypedAccessChainKHR, op.OpUntypedInBoundsAccessChainKHR),
            *(op.OpUntypedPtrAccessChainKHR, op.OpUntypedInBoundsPtrAccessChainKHR),
        ),
        (3,),
    ),
}
_IMAGE_READS = (
    *range(op.OpImageSampleImplicitLod, op.OpImageRead + 1),
    *range(op.OpImageSparseSampleImplicitLod, op.OpImageSparseDrefGather + 1),
    op.OpImageSparseRead,
)
_ATOMICS = (
    *range(op.OpAtomicExchange, op.OpAtomicXor + 1),
    *(op.OpAtomicFMinEXT, op.OpAtomicFMaxEXT, op.OpAtomicFAddEXT),
)
# Opcode -> positions of the pointers to read through, and to write through.
_EFFECTS: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    op.OpLoad: ((2,), ()),
    op.OpStore: ((), (0,)),
    op.OpCopyMemory: ((1,), (0,)),
    op.OpCopyMemorySized: ((1,), (0,)),
    op.OpAtomicLoad: ((2,), ()),
    op.OpAtomicStore: ((), (0,)),
    **dict.fromkeys(_ATOMICS, ((2,), (2,))),
    **dict.fromkeys(_IMAGE_READS, ((2,), ())),
    op.OpImageWrite: ((), (0,)),
    op.OpCooperativeMatrixLoadKHR: ((2,), ()),
    op.OpCooperativeMatrixStoreKHR: ((), (0,)),
    **dict.fromkeys(range(op.OpImageQuerySizeLod, op.OpImageQuerySamples + 1), ((), ())),
    **dict.fromkeys((op.OpArrayLength, op.OpUntypedArrayLengthKHR, op.OpUntypedPrefetchKHR), ((), ())),
    **dict.fromkeys((op.OpPtrEqual, op.OpPtrNotEqual, op.OpPtrDiff), ((), ())),
}
# Opcode -> position of a pointer operand that escapes: its later uses are not traced.
_ESCAPES: dict[int, int] = {op.OpStore: 1, op.OpAtomicStore: 3, op.OpAtomicExchange: 5}


class Access(NamedTuple):
    """Ids of the variables that are used in any way, read, and written."""

    used: set[int]
    reads: set[int]
    writes: set[int]


class Function(NamedTuple):
    """One function of a module: the ids of its parameters, and its instructions."""

    parameters: list[int]
    body: list[Instruction]
    is_defined: bool


def functions(module: Module) -> dict[int, Function]:
    """The functions of `module` by id."""
    functions_by_id: dict[int, Function] = {}
    identifier, parameters, body = 0, list[int](), list[Instruction]()
    for instruction in module.functions:
        if instruction.opcode == op.OpFunction:
            identifier, parameters, body = instruction.operands[1], [], []
        elif instruction.opcode == op.OpFunctionParameter:
            parameters.append(instruction.operands[1])
        elif instruction.opcode == op.OpFunctionEnd:
            functions_by_id[identifier] = Function(parameters, body, bool(body))
        else:
            body.append(instruction)
    return functions_by_id


def reachable(table: dict[int, Function], entry: int) -> list[int]:
    """Ids of `entry` and of the functions that it calls, directly or indirectly.

    Raises:
        SpirvError: `entry` is not a complete function.
    """
    if entry not in table:
        raise SpirvError(f"the entry point is id {entry}, which is not a complete function")
    order, seen = [entry], {entry}
    for identifier in order:
        for instruction in table[identifier].body:
            callee = instruction.operands[2] if instruction.opcode == op.OpFunctionCall else None
            if callee is not None and callee not in seen and callee in table:
                seen.add(callee)
                order.append(callee)
    return order


def trace(
    table: dict[int, Function],
    entry: int,
    variables: Collection[int],
    opaque: Collection[int] = (),
    non_semantic: Collection[int] = (),
) -> Access:
    """The accesses of `entry`, and of the functions that it calls, to `variables`.

    Args:
        table: the functions of the module.
        entry: id of the entry point's function.
        variables: ids of global variables.
        opaque: those of them with images or samplers: a load reads no memory, a use of the loaded value does.
        non_semantic: ids of imported instruction sets without effect (NonSemantic.*).
    """
    tracer = _Tracer(table, variables, opaque, non_semantic)
    for identifier in reachable(table, entry):
        tracer.collect(identifier)
    return tracer.result()


class _Tracer:
    """A graph of pointers and pointers derived from them, and the instructions that may access memory.

    A set of variables is a bit mask.
    """

    __slots__ = ("_edges", "_masks", "_non_semantic", "_opaque", "_table", "_uses", "_variables")

    def __init__(
        self,
        table: dict[int, Function],
        variables: Iterable[int],
        opaque: Collection[int],
        non_semantic: Collection[int],
    ) -> None:
        self._table = table
        self._variables = list(variables)
        self._masks = {variable: 1 << bit for bit, variable in enumerate(self._variables)}
        self._opaque = sum(1 << bit for bit, variable in enumerate(self._variables) if variable in opaque)
        self._non_semantic = non_semantic
        self._edges: dict[int, list[tuple[int, bool]]] = {}  # source -> (derived id, True for opaque variables only)
        self._uses: list[Instruction] = []

    def collect(self, function: int) -> None:
        """Adds the instructions of one function; a returned pointer has the key `-function`."""
        for instruction in self._table[function].body:
            opcode, operands = instruction.opcode, instruction.operands
            if opcode in _DERIVES:
                for position in _DERIVES[opcode]:
                    self._edge(operands[position], operands[1])
            elif opcode == op.OpPhi:
                for source in operands[2::2]:
                    self._edge(source, operands[1])
            elif opcode == op.OpFunctionCall:
                self._call(instruction)
            elif opcode == op.OpReturnValue:
                self._edge(operands[0], -function)
            else:
                if opcode == op.OpLoad:
                    self._edge(operands[2], operands[1], only_opaque=True)
                self._uses.append(instruction)

    def _edge(self, source: int, derived: int, only_opaque: bool = False) -> None:
        self._edges.setdefault(source, []).append((derived, only_opaque))

    def _call(self, instruction: Instruction) -> None:
        _, result, callee, *arguments = instruction.operands
        function = self._table.get(callee)
        if function is None or not function.is_defined:
            self._uses.append(instruction)  # its use of the arguments is unknown
            return
        for argument, parameter in zip(arguments, function.parameters, strict=False):
            self._edge(argument, parameter)
        self._edge(-callee, result)

    def _propagate(self) -> None:
        """Propagates variables along the edges to a fixed point."""
        pending = list(self._variables)
        while pending:
            source = pending.pop()
            for derived, only_opaque in self._edges.get(source, ()):
                mask = self._masks[source] & (self._opaque if only_opaque else -1)
                known = self._masks.get(derived, 0)
                if mask & ~known:
                    self._masks[derived] = known | mask
                    pending.append(derived)

    def result(self) -> Access:
        self._propagate()
        used = reads = writes = 0
        for source in self._edges.keys() & self._masks.keys():
            used |= self._masks[source]
        for instruction in self._uses:
            if self._masks.keys().isdisjoint(instruction.operands):
                continue
            touched, read, written = self._effect(instruction)
            used, reads, writes = used | touched, reads | read, writes | written
        return Access(self._named(used), self._named(reads), self._named(writes))

    def _effect(self, instruction: Instruction) -> tuple[int, int, int]:
        """Masks of the variables that one instruction uses, reads and writes."""
        masks, operands = self._masks, instruction.operands
        everything = 0
        # Any word of an unknown opcode may be an id.
        for identifier in used_ids(instruction) if instruction.opcode in op.SHAPES else operands:
            everything |= masks.get(identifier, 0)
        known = _EFFECTS.get(instruction.opcode)
        if known is None:
            harmless = instruction.opcode == op.OpExtInst and operands[2] in self._non_semantic
            return (everything, 0, 0) if harmless else (everything, everything, everything)
        read = written = escaped = 0
        for position in known[0]:
            read |= masks.get(operands[position], 0)
        for position in known[1]:
            written |= masks.get(operands[position], 0)
        if instruction.opcode == op.OpLoad:
            read &= ~self._opaque
        if instruction.opcode in _ESCAPES:
            escaped = masks.get(operands[_ESCAPES[instruction.opcode]], 0)
        return everything, read | escaped, written | escaped

    def _named(self, mask: int) -> set[int]:
        return {variable for bit, variable in enumerate(self._variables) if mask >> bit & 1}
