"""Memory layout of blocks: offsets, strides and scalar types of a structure's members, from decorations."""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration
from vkcompute.spirv.index import Decorations, Index, scalar_name
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.interface import Element, InterfaceBlock, Member

_MAX_DEPTH = 64  # nested types. SPIR-V allows 255; at four calls each here, that would exhaust the stack
_MAX_MEMBERS = 16_383  # members of a structure (the limit of SPIR-V), here including those of inner structures


class _Shape(NamedTuple):
    """A type in memory; fields as in `Member`."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    nbytes: int
    members: tuple[Member, ...]
    n_members: int = 0  # including those of inner structures, each as often as it occurs


class Layout:
    """Layouts of the blocks of one module, memoized."""

    __slots__ = ("_index", "_known", "_path")

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[tuple[int, int, bool], _Shape] = {}
        self._path: list[int] = []  # ids of the types being described, outermost first

    def block(self, structure: Instruction) -> InterfaceBlock:
        """The block of an OpTypeStruct.

        Raises:
            SpirvError: a member has no Offset, an array no ArrayStride, a matrix no MatrixStride, or a type that
                memory cannot hold.
        """
        identifier = structure.operands[0]
        shape = self._describe(identifier, 0, False)
        return InterfaceBlock(self._index.name(identifier), shape.members, shape.nbytes + -shape.nbytes % 4)

    def element(self, structure: Instruction) -> Element | None:
        """The element of a structure that is one runtime-sized array of scalars or vectors, else None."""
        if len(structure.operands) != 2:
            return None
        array = self._index.definition(structure.operands[1], "a block's member")
        members = self.block(structure).members
        if array.opcode != op.OpTypeRuntimeArray or members[0].offset_bytes or members[0].members:
            return None
        part = self._index.definition(array.operands[1], "an array's element")
        if part.opcode not in (op.OpTypeInt, op.OpTypeFloat, op.OpTypeVector):
            return None
        width = members[0].shape[1] if len(members[0].shape) > 1 else 1
        return Element(members[0].dtype, width, members[0].strides_bytes[0])

    def _describe(self, identifier: int, matrix_stride: int, row_major: bool) -> _Shape:
        key = (identifier, matrix_stride, row_major)
        if key not in self._known:
            if identifier in self._path or len(self._path) >= _MAX_DEPTH:
                raise SpirvError(f"type {identifier} contains itself, or nests deeper than {_MAX_DEPTH} types")
            self._path.append(identifier)
            self._known[key] = self._make(self._index.definition(identifier, "a type"), matrix_stride, row_major)
            self._path.pop()
        return self._known[key]

    def _make(self, kind: Instruction, matrix_stride: int, row_major: bool) -> _Shape:
        if kind.opcode == op.OpTypeStruct:
            return self._structure(kind)
        if kind.opcode in (op.OpTypeArray, op.OpTypeRuntimeArray):
            return self._array(kind, matrix_stride, row_major)
        if kind.opcode == op.OpTypeMatrix:
            return self._matrix(kind, matrix_stride, row_major)
        if kind.opcode == op.OpTypeVector:
            part = self._describe(kind.operands[1], 0, False)
            count = kind.operands[2]
            return _Shape(part.dtype, (count,), (part.nbytes,), part.nbytes * count, ())
        if kind.opcode == op.OpTypePointer:  # a buffer's address, PhysicalStorageBuffer64
            return _Shape("uint64", (), (), 8, ())
        if kind.opcode in (op.OpTypeInt, op.OpTypeFloat):
            return _Shape(scalar_name(kind), (), (), kind.operands[1] // 8, ())
        raise SpirvError(f"{kind} is not a type for buffers or push constants")

    def _structure(self, kind: Instruction) -> _Shape:
        identifier = kind.operands[0]
        names = self._index.member_names.get(identifier, {})
        decorations = self._index.member_decorations.get(identifier, {})
        members, n_members = [], len(kind.operands) - 1
        for number, part in enumerate(kind.operands[1:]):
            offset, shape = self._member(identifier, number, part, decorations.get(number, {}))
            n_members += shape.n_members
            if n_members > _MAX_MEMBERS:
                raise SpirvError(f"{kind} has more than {_MAX_MEMBERS} members, including those of inner structures")
            members.append(Member(names.get(number, ""), offset, *shape[:5]))
        nbytes = max((member.offset_bytes + member.nbytes for member in members), default=0)
        return _Shape("", (), (), nbytes, tuple(members), n_members)

    def _member(self, structure: int, number: int, part: int, decorations: Decorations) -> tuple[int, _Shape]:
        """Offset in bytes and shape of one member."""
        offset = decorations.get(Decoration.Offset)
        if not offset:
            where = f"member {number} of structure {structure} ({self._index.name(structure) or 'unnamed'})"
            raise SpirvError(f"{where} has no Offset decoration; members of a block need one")
        stride = decorations.get(Decoration.MatrixStride) or (0,)
        return offset[0], self._describe(part, stride[0], Decoration.RowMajor in decorations)

    def _array(self, kind: Instruction, matrix_stride: int, row_major: bool) -> _Shape:
        identifier, part_id = kind.operands[:2]
        part = self._describe(part_id, matrix_stride, row_major)
        stride = self._index.decoration(identifier, Decoration.ArrayStride)
        if stride is None:
            raise SpirvError(f"{kind} has no ArrayStride decoration; an array in a block needs one")
        length = 0
        if kind.opcode == op.OpTypeArray:
            length = self._index.integer(kind.operands[2], "an array's length")
            if length <= 0:
                raise SpirvError(f"{kind} has a length of {length}; it must be at least 1")
        last = max(stride, part.nbytes) if part.members else part.nbytes  # numpy pads every structure of an array
        nbytes = stride * (length - 1) + last if length else 0
        shape, strides = (length, *part.shape), (stride, *part.strides)
        return _Shape(part.dtype, shape, strides, nbytes, part.members, part.n_members)

    def _matrix(self, kind: Instruction, matrix_stride: int, row_major: bool) -> _Shape:
        column = self._describe(kind.operands[1], 0, False)
        columns = kind.operands[2]
        if not matrix_stride or len(column.shape) != 1:
            raise SpirvError(f"{kind} has no MatrixStride decoration, or columns that are not vectors")
        outer, inner = (column.shape[0], columns) if row_major else (columns, column.shape[0])
        scalar = column.strides[0]
        nbytes = matrix_stride * (outer - 1) + scalar * inner
        return _Shape(column.dtype, (outer, inner), (matrix_stride, scalar), nbytes, ())
