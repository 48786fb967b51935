"""The descriptor bindings and the push constants of an entry point."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from vkcompute.errors import SpirvError
from vkcompute.spirv import access, enums
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration, Dim, StorageClass
from vkcompute.spirv.index import Index, scalar_name
from vkcompute.spirv.instruction import Instruction, string_at
from vkcompute.spirv.interface import Binding, InterfaceBlock, Texel
from vkcompute.spirv.layout import Layout
from vkcompute.spirv.module import Module

_DESCRIPTOR_CLASSES = (StorageClass.UniformConstant, StorageClass.Uniform, StorageClass.StorageBuffer)
_WRITABLE = ("storage_buffer", "storage_texel_buffer", "storage_image")
_OPAQUE = (op.OpTypeImage, op.OpTypeSampler, op.OpTypeSampledImage, op.OpTypeAccelerationStructureKHR)
_COMBINABLE = {"sampler", "sampled_image", "combined_image_sampler"}


class _Variable(NamedTuple):
    """One global variable, without its descriptor array."""

    identifier: int
    storage_class: int
    kind: Instruction  # the type of one descriptor, or of the block of push constants
    n_descriptors: int


class Resources:
    """The descriptors and push constants of one entry point.

    In a module with several entry points, only reachable variables count. With a single entry point, unused bindings
    count too, since callers match arguments with declarations.
    """

    __slots__ = ("_access", "_index", "_layout", "_variables")

    def __init__(self, module: Module, index: Index, entry: Instruction) -> None:
        self._index, self._layout = index, Layout(index)
        declared = [
            self._variable(declaration) for declaration in module.declarations if declaration.opcode == op.OpVariable
        ]
        variables = [variable for variable in declared if variable is not None]
        self._access = access.trace(
            access.functions(module),
            entry.operands[1],
            [variable.identifier for variable in variables],
            {variable.identifier for variable in variables if variable.kind.opcode in _OPAQUE},
            {
                imported.operands[0]
                for imported in module.imports
                if string_at(imported.operands, 1)[0].startswith("NonSemantic.")
            },
        )
        self._add_initializers(module)
        alone = len(module.entry_points) == 1
        self._variables = [variable for variable in variables if alone or variable.identifier in self._access.used]

    def _variable(self, instruction: Instruction) -> _Variable | None:
        """`instruction` as a variable of a descriptor or of push constants; None for other variables."""
        pointer, identifier, storage_class = instruction.operands[:3]
        if storage_class not in (*_DESCRIPTOR_CLASSES, StorageClass.PushConstant):
            return None
        kind, count = self._index.pointee(pointer, f"the type of variable {identifier}"), 1
        while kind.opcode in (op.OpTypeArray, op.OpTypeRuntimeArray):
            runtime = kind.opcode == op.OpTypeRuntimeArray
            count *= 0 if runtime else self._index.integer(kind.operands[2], "the length of a descriptor array")
            inner = self._index.definition(kind.operands[1], "the element of a descriptor array")
            if inner.offset >= kind.offset:
                raise SpirvError(f"{kind} is an array of a type declared later")
            kind = inner
        return _Variable(identifier, storage_class, kind, count)

    def _add_initializers(self, module: Module) -> None:
        """Counts a variable whose address initializes another variable as read and written."""
        variables = {
            declaration.operands[1] for declaration in module.declarations if declaration.opcode == op.OpVariable
        }
        for declaration in module.declarations:
            if declaration.opcode == op.OpVariable:
                escaped = variables.intersection(declaration.operands[3:4])
                self._access.used.update(escaped)
                self._access.reads.update(escaped)
                self._access.writes.update(escaped)

    def bindings(self) -> tuple[Binding, ...]:
        """The bindings, by (set, binding). Variables of one binding are merged.

        Raises:
            SpirvError: a variable has no DescriptorSet or Binding, a type that is not a descriptor's, or another kind
                than a variable with the same binding.
        """
        merged: dict[tuple[int, int], Binding] = {}
        for variable in self._variables:
            if variable.storage_class != StorageClass.PushConstant:
                binding = self._binding(variable)
                address = (binding.set, binding.binding)
                merged[address] = _merge(merged[address], binding) if address in merged else binding
        return tuple(merged[address] for address in sorted(merged))

    def push_constants(self) -> InterfaceBlock | None:
        """The block of push constants, or None.

        Raises:
            SpirvError: several blocks, or a block that is not a structure.
        """
        variables = [variable for variable in self._variables if variable.storage_class == StorageClass.PushConstant]
        if len(variables) > 1:
            variables = [variable for variable in variables if variable.identifier in self._access.used]
        if len(variables) > 1:
            raise SpirvError(f"the entry point uses {len(variables)} push constant blocks; Vulkan allows one")
        if variables and variables[0].kind.opcode != op.OpTypeStruct:
            raise SpirvError(f"the push constants are {variables[0].kind}; Vulkan requires a structure")
        return self._layout.block(variables[0].kind) if variables else None

    def _binding(self, variable: _Variable) -> Binding:
        identifier, index = variable.identifier, self._index
        number = index.decoration(identifier, Decoration.Binding)
        set_number = index.decoration(identifier, Decoration.DescriptorSet)
        if number is None or set_number is None:
            name = index.name(identifier) or f"id {identifier}"
            raise SpirvError(
                f"variable {name} has no DescriptorSet or Binding decoration; add layout(set = ..., binding = ...)"
            )
        if variable.kind.opcode in _OPAQUE:
            result = self._image(variable, set_number, number)
        elif variable.kind.opcode == op.OpTypeStruct:
            result = self._buffer(variable, set_number, number)
        else:
            raise SpirvError(
                f"variable {identifier} at binding {number} is {variable.kind}, which is not a descriptor type"
            )
        reads = identifier in self._access.reads and not self._decorated(variable, Decoration.NonReadable)
        writes = identifier in self._access.writes and not self._decorated(variable, Decoration.NonWritable)
        return replace(result, reads=reads, writes=writes and result.kind in _WRITABLE)

    def _decorated(self, variable: _Variable, decoration: int) -> bool:
        """True if the variable, or every member of its block, has `decoration`."""
        if decoration in self._index.decorations.get(variable.identifier, {}):
            return True
        members = self._index.member_decorations.get(variable.kind.operands[0], {})
        n_members = len(variable.kind.operands) - 1 if variable.kind.opcode == op.OpTypeStruct else 0
        return n_members > 0 and all(decoration in members.get(k, {}) for k in range(n_members))

    def _buffer(self, variable: _Variable, set_number: int, number: int) -> Binding:
        structure = variable.kind
        decorations = self._index.decorations.get(structure.operands[0], {})
        is_buffer_block = Decoration.BufferBlock in decorations
        if not is_buffer_block and Decoration.Block not in decorations:
            raise SpirvError(f"{structure}, of the buffer at binding {number}, is not decorated as a Block")
        is_storage = is_buffer_block or variable.storage_class == StorageClass.StorageBuffer
        block = self._layout.block(structure)
        name = self._index.name(variable.identifier)
        if not name:
            name = block.members[0].name if len(block.members) == 1 else block.name
        kind = "storage_buffer" if is_storage else "uniform_buffer"
        element = self._layout.element(structure) if is_storage else None
        return Binding(set_number, number, name, kind, variable.n_descriptors, False, False, element, block)

    def _image(self, variable: _Variable, set_number: int, number: int) -> Binding:
        kind, name, texel = variable.kind, self._index.name(variable.identifier), None
        image = kind
        if kind.opcode == op.OpTypeSampledImage:
            image = self._index.definition(kind.operands[1], "the image of a combined image and sampler")
        if image.opcode == op.OpTypeImage:
            texel = self._texel(image)
        return Binding(
            set_number, number, name, _descriptor(kind, image), variable.n_descriptors, False, False, texel=texel
        )

    def _texel(self, image: Instruction) -> Texel:
        _, part, dim, _, arrayed, multisampled, _, texel_format = image.operands[:8]
        kind = self._index.definition(part, "the type of an image's texels")
        return Texel(
            dtype="" if kind.opcode == op.OpTypeVoid else scalar_name(kind),
            dim=enums.name(Dim, dim),
            format=enums.name(enums.ImageFormat, texel_format),
            arrayed=bool(arrayed),
            multisampled=bool(multisampled),
        )


def _descriptor(kind: Instruction, image: Instruction) -> str:
    """The descriptor kind of an image, sampler or acceleration structure type."""
    if kind.opcode == op.OpTypeSampler:
        return "sampler"
    if image.opcode != op.OpTypeImage:
        return "acceleration_structure"
    dim, sampled = image.operands[2], image.operands[6]
    if dim == Dim.Buffer:
        return "storage_texel_buffer" if sampled == 2 else "uniform_texel_buffer"
    if dim == Dim.SubpassData:
        return "input_attachment"
    if kind.opcode == op.OpTypeSampledImage:
        return "combined_image_sampler"
    return "storage_image" if sampled == 2 else "sampled_image"


def _merge(one: Binding, other: Binding) -> Binding:
    """One binding for two variables with the same set and binding number."""
    kinds = {one.kind, other.kind}
    if len(kinds) > 1 and not kinds <= _COMBINABLE:
        raise SpirvError(
            f"set {one.set} binding {one.binding} is declared as {one.kind} ({one.name}) and as {other.kind} "
            f"({other.name}); give one of them another binding"
        )
    return replace(
        one,
        name=one.name or other.name,
        kind=one.kind if len(kinds) == 1 else "combined_image_sampler",
        count=0 if 0 in (one.count, other.count) else max(one.count, other.count),
        reads=one.reads or other.reads,
        writes=one.writes or other.writes,
        element=one.element if one.element == other.element else None,
        texel=one.texel or other.texel,
    )
