"""The memory of an entry point: lower bounds of the bytes of its Workgroup variables, and of its private ones.

It is a lower bound because drivers add padding: a module above a limit certainly fails, one below it may fail. It omits
types of a size that only the driver knows (pointers, cooperative matrices). Blocks with an explicit layout may alias,
so only the largest one of constant size counts.
"""

from __future__ import annotations

from vkcompute.spirv import access
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration, StorageClass
from vkcompute.spirv.index import Index, literal, scalar_name
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.interface import SharedMemoryTerm, WorkgroupMemory
from vkcompute.spirv.module import Module

_Factors = tuple[tuple[int, int], ...]  # sorted (spec id, default) of the factors
_Terms = dict[_Factors, int]  # product of constants -> bytes to multiply it by

_PRIVATE = (StorageClass.Private, StorageClass.Function)
# Far above real shaders. Beyond them, a hostile module's types do not count, or saturate.
_MAX_DEPTH = 64  # nested types, or nested products
_MAX_FACTORS = 16
_MAX_TERMS = 64
_MAX_NBYTES = 1 << 62


def workgroup_memory(module: Module, index: Index, entry: Instruction) -> WorkgroupMemory:
    """The memory of the Workgroup variables that `entry`, or a function that it calls, uses.

    Raises:
        SpirvError: a type or a constant is malformed or missing.
    """
    declared = [declaration for declaration in module.declarations if declaration.opcode == op.OpVariable]
    shared = [variable for variable in declared if variable.operands[2] == StorageClass.Workgroup]
    if not shared:
        return WorkgroupMemory(())
    used = access.trace(access.functions(module), entry.operands[1], [variable.operands[1] for variable in shared]).used
    return _memory(index, [variable for variable in shared if variable.operands[1] in used])


def private_memory(module: Module, index: Index, entry: Instruction) -> WorkgroupMemory:
    """The memory per invocation: of Private variables, and of those of `entry` and the functions that it calls.

    Raises:
        SpirvError: a type or a constant is malformed or missing.
    """
    table = access.functions(module)
    bodies = [module.declarations, *(table[function].body for function in access.reachable(table, entry.operands[1]))]
    variables = [instruction for body in bodies for instruction in body if instruction.opcode == op.OpVariable]
    return _memory(index, [variable for variable in variables if variable.operands[2] in _PRIVATE])


def _memory(index: Index, variables: list[Instruction]) -> WorkgroupMemory:
    """The sum of the sizes of variables, and the largest size of a block."""
    sizes, total, largest = _Sizes(index), _Terms(), 0
    for variable in variables:
        kind = index.pointee(variable.operands[0], f"the type of variable {variable.operands[1]}")
        nbytes = sizes.of(kind.operands[0])
        if Decoration.Block in index.decorations.get(kind.operands[0], {}):
            largest = max(largest, nbytes.get((), 0))
        else:
            _add(total, nbytes)
    if largest:
        _add(total, {(): largest})
    return WorkgroupMemory(tuple(SharedMemoryTerm(nbytes, factors) for factors, nbytes in sorted(total.items())))


def _add(total: _Terms, more: _Terms) -> None:
    for factors, nbytes in more.items():
        if factors in total or len(total) < _MAX_TERMS:
            total[factors] = min(total.get(factors, 0) + nbytes, _MAX_NBYTES)


class _Sizes:
    """Sizes of the types of one module, memoized."""

    __slots__ = ("_depth", "_index", "_known", "_lengths")

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[int, _Terms] = {}
        self._lengths: dict[int, tuple[int, _Factors] | None] = {}
        self._depth = 0

    def of(self, identifier: int) -> _Terms:
        """The bytes of a type, without padding."""
        if identifier not in self._known:
            self._known[identifier] = {}  # ends the recursion for a type that contains itself
            self._depth += 1
            if self._depth <= _MAX_DEPTH:
                self._known[identifier] = self._measure(self._index.definition(identifier, "a type"))
            self._depth -= 1
        return self._known[identifier]

    def _measure(self, kind: Instruction) -> _Terms:
        if kind.opcode == op.OpTypeBool:
            return {(): 1}
        if kind.opcode in (op.OpTypeInt, op.OpTypeFloat):
            return {(): kind.operands[1] // 8}
        if kind.opcode in (op.OpTypeVector, op.OpTypeMatrix):
            return _times(self.of(kind.operands[1]), (kind.operands[2], ()))
        if kind.opcode == op.OpTypeArray:
            return _times(self.of(kind.operands[1]), self._length(kind.operands[2]) or (1, ()))
        total = _Terms()
        if kind.opcode == op.OpTypeStruct:
            for part in kind.operands[1:]:
                _add(total, self.of(part))
        return total

    def _length(self, identifier: int) -> tuple[int, _Factors] | None:
        """An array's length, a number times specialization constants; None for any other expression."""
        if identifier not in self._lengths:
            self._lengths[identifier] = None
            self._depth += 1
            if self._depth <= _MAX_DEPTH:
                self._lengths[identifier] = self._read(self._index.definition(identifier, "an array's length"))
            self._depth -= 1
        return self._lengths[identifier]

    def _read(self, constant: Instruction) -> tuple[int, _Factors] | None:
        operands = constant.operands
        if constant.opcode in (op.OpConstant, op.OpSpecConstant):
            kind = self._index.definition(operands[0], "the type of an array's length")
            value = literal(operands[2:], scalar_name(kind), str(constant))
            spec_id = self._index.decoration(operands[1], Decoration.SpecId)
            if not isinstance(value, int) or value < 0:
                return None
            return (value, ()) if spec_id is None or constant.opcode == op.OpConstant else (1, ((spec_id, value),))
        if constant.opcode != op.OpSpecConstantOp:
            return None
        if operands[2] in (op.OpIMul, op.OpIAdd) and len(operands) == 5:
            one, other = self._length(operands[3]), self._length(operands[4])
            if operands[2] == op.OpIMul:
                return _product(one, other)
            return one if other == (0, ()) else None  # glslang converts int to uint by + 0u
        if operands[2] == op.OpCompositeExtract and len(operands) == 5:  # gl_WorkGroupSize.x
            parts = self._index.definition(operands[3], "a composite constant").operands[2:]
            return self._length(parts[operands[4]]) if operands[4] < len(parts) else None
        return None


def _product(one: tuple[int, _Factors] | None, other: tuple[int, _Factors] | None) -> tuple[int, _Factors] | None:
    if one is None or other is None or len(one[1]) + len(other[1]) > _MAX_FACTORS:
        return None
    return min(one[0] * other[0], _MAX_NBYTES), tuple(sorted(one[1] + other[1]))


def _times(terms: _Terms, length: tuple[int, _Factors]) -> _Terms:
    total = _Terms()
    for factors, nbytes in terms.items():
        product = _product((nbytes, factors), length)
        if product is not None:
            _add(total, {product[1]: product[0]})
    return total
