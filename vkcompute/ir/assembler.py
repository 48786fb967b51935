"""Writes a SPIR-V module: assigns ids, fills the sections, and declares each type and constant once."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from vkcompute.ir.function import Constant
from vkcompute.ir.types import BFLOAT16, BOOL, UINT32, Matrix, Type, Vector, element_of, vector
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import (
    MAGIC,
    AddressingModel,
    BuiltIn,
    Capability,
    Decoration,
    Dim,
    ExecutionMode,
    ExecutionModel,
    FunctionControl,
    ImageFormat,
    MemoryModel,
    Scope,
    StorageClass,
)
from vkcompute.spirv.instruction import string_words

_VERSION, _VERSION_WITH_SHARED_BLOCKS = (1, 3), (1, 4)  # SPV_KHR_workgroup_memory_explicit_layout needs SPIR-V 1.4
_CAPABILITIES = {
    "f16": Capability.Float16,
    "f64": Capability.Float64,
    "i64": Capability.Int64,
    "u64": Capability.Int64,
    "i16": Capability.Int16,
    "u16": Capability.Int16,
    "i8": Capability.Int8,
    "u8": Capability.Int8,
}
_BRAIN_FLOAT = 0  # the encoding BFloat16KHR
_SMALL_STORAGE = {
    8: (Capability.StorageBuffer8BitAccess, "SPV_KHR_8bit_storage"),
    16: (Capability.StorageBuffer16BitAccess, "SPV_KHR_16bit_storage"),
}
"""Bits of a buffer's element -> the capability and extension that it needs."""
_SMALL_WORKGROUP = {
    8: Capability.WorkgroupMemoryExplicitLayout8BitAccessKHR,
    16: Capability.WorkgroupMemoryExplicitLayout16BitAccessKHR,
}
"""Bits of an element of a block in workgroup memory -> the capability that it needs."""


class Assembler:
    """Collects the words of each section; `words` joins them.

    Args:
        preserved: widths of floats of which the device keeps infinities, NaN and the sign of zero.

    Attributes:
        capabilities, extensions: those that are declared, in order.
        modes: execution modes for floats, with their widths.
        reads_num_workgroups: True if an input is the number of workgroups.
        code: the words of the function's body so far.
        standard: the id of GLSL.std.450.
    """

    def __init__(self, preserved: Collection[int] = ()) -> None:
        self._next, self._preserved = 1, preserved
        self.modes: list[tuple[int, int]] = []
        self.reads_num_workgroups = False
        self.capabilities, self._memory_model = {Capability.Shader: 0}, MemoryModel.GLSL450
        self.extensions: dict[str, int] = {}
        self._names: list[int] = []
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self.version = _VERSION
        self._inputs: list[int] = []
        self._variables: list[int] = []  # of the module, inputs included: the interface from SPIR-V 1.4 on
        self._declared: dict[tuple[object, ...], int] = {}
        self._types: dict[Type, int] = {}
        self._locals: list[int] = []
        self._functions: list[int] = []  # all but the entry point
        self.code: list[int] = []
        self.standard = self.id()

    def id(self) -> int:
        """A new id."""
        self._next += 1
        return self._next - 1

    def op(self, opcode: int, *operands: int) -> None:
        """Appends an instruction without a result to the body."""
        self.code.append(len(operands) + 1 << 16 | opcode)
        self.code += operands

    def value(self, opcode: int, kind: Type, *operands: int) -> int:
        """Appends an instruction with a result to the body."""
        result = self.id()
        self.op(opcode, self.type(kind), result, *operands)
        return result

    def pair(self, opcode: int, kind: Type, *operands: int) -> int:
        """Appends an instruction whose result is a structure of two members of this type."""
        result = self.id()
        self.op(opcode, self._declare(spv.OpTypeStruct, self.type(kind), self.type(kind)), result, *operands)
        return result

    def require(self, capability: int, extension: str = "") -> None:
        """Declares a capability, and the extension that defines it."""
        self.capabilities[capability] = 0
        if extension:
            self.extensions[extension] = 0

    def type(self, kind: Type) -> int:
        """The id of a value's type."""
        type_id = self._types.get(kind)
        if type_id is None:
            type_id = self._types[kind] = self._new_type(kind)
        return type_id

    def _new_type(self, kind: Type) -> int:
        if isinstance(kind, Matrix):
            return self._matrix_type(kind)
        if isinstance(kind, Vector):
            return self._declare(spv.OpTypeVector, self.type(kind.element), kind.n)
        if kind is BOOL:
            return self._declare(spv.OpTypeBool)
        if kind is BFLOAT16:
            self.require(Capability.BFloat16TypeKHR, "SPV_KHR_bfloat16")
            self.require(Capability.BFloat16CooperativeMatrixKHR)
            return self._declare(spv.OpTypeFloat, kind.bits, _BRAIN_FLOAT)
        capability = _CAPABILITIES.get(f"{kind.kind}{kind.bits}")
        if capability is not None:
            self.require(capability)
        if kind.kind == "f":
            self._preserve(kind.bits)
            return self._declare(spv.OpTypeFloat, kind.bits)
        return self._declare(spv.OpTypeInt, kind.bits, int(kind.kind == "i"))

    def _preserve(self, bits: int) -> None:
        """Declares that arithmetic on floats of this width keeps infinities, NaN and the sign of zero.

        Without it, drivers may take them not to occur: Mesa 26 computes x - x as 0.
        """
        mode = ExecutionMode.SignedZeroInfNanPreserve, bits
        if bits in self._preserved and mode not in self.modes:
            self.modes.append(mode)
            self.require(Capability.SignedZeroInfNanPreserve, "SPV_KHR_float_controls")

    def _matrix_type(self, kind: Matrix) -> int:
        self.use_vulkan_memory_model()
        self.require(Capability.CooperativeMatrixKHR, "SPV_KHR_cooperative_matrix")
        scope, shape = self.uint(Scope.Subgroup), map(self.uint, kind.shape)
        use = self.uint(("left", "right", "sums").index(kind.use))
        return self._declare(spv.OpTypeCooperativeMatrixKHR, self.type(kind.element), scope, *shape, use)

    def use_vulkan_memory_model(self) -> None:
        """Declares the memory model that cooperative matrices require."""
        self._memory_model = MemoryModel.Vulkan
        self.require(Capability.VulkanMemoryModel, "SPV_KHR_vulkan_memory_model")

    def constant(self, constant: Constant) -> int:
        """The id of a constant."""
        kind = constant.type
        if kind is BOOL:
            opcode = spv.OpConstantTrue if constant.value else spv.OpConstantFalse
            return self._declare_constant(opcode, self.type(kind))
        return self._declare_constant(spv.OpConstant, self.type(kind), *_literal(constant))

    def number(self, value: int, kind: Type) -> int:
        """The id of a small number of any type; of a vector or matrix type, with equal elements."""
        if isinstance(kind, Vector):
            parts = [self.number(value, kind.element)] * (1 if isinstance(kind, Matrix) else kind.n)
            return self._declare_constant(spv.OpConstantComposite, self.type(kind), *parts)
        return self.constant(Constant(kind, kind.numpy.type(value)))

    def composite(self, kind: int, parts: Sequence[int]) -> int:
        """The id of a constant array of these constants."""
        return self._declare_constant(spv.OpConstantComposite, kind, *parts)

    def null(self, kind: int) -> int:
        """The id of the zeros of a type."""
        return self._declare_constant(spv.OpConstantNull, kind)

    def uint(self, value: int) -> int:
        """The id of a uint32 constant."""
        return self._declare_constant(spv.OpConstant, self._declare(spv.OpTypeInt, 32, 0), value)

    def pointer(self, storage: int, pointee: int) -> int:
        """The id of a pointer type."""
        return self._declare(spv.OpTypePointer, storage, pointee)

    def variable(self, storage: int, pointee: int, name: str) -> int:
        """The id of a new variable: of the function, in its storage class, else a global one."""
        pointer, result = self.pointer(storage, pointee), self.id()
        section = self._locals if storage == StorageClass.Function else self._globals
        section += _instruction(spv.OpVariable, pointer, result, storage)
        if name:
            self._names += _instruction(spv.OpName, result, *string_words(name))
        if storage == StorageClass.Input:
            self._inputs.append(result)
        if storage != StorageClass.Function:
            self._variables.append(result)
        return result

    def buffer(self, name: str, element: Type, binding: tuple[int, int], *decorations: int) -> int:
        """The id of a new storage buffer at (set, binding): a block with one runtime array."""
        if element_of(element).bits < 32:
            self.require(*_SMALL_STORAGE[element_of(element).bits])
        array, block = self.id(), self.id()
        self._globals += _instruction(spv.OpTypeRuntimeArray, array, self.type(element))
        self._globals += _instruction(spv.OpTypeStruct, block, array)
        self.decorate(array, Decoration.ArrayStride, element.bits // 8)
        self.decorate(block, Decoration.Block)
        self._member(block, 0, name, 0)
        result = self.bound(StorageClass.StorageBuffer, block, name, binding)
        for decoration in decorations:
            self.decorate(result, decoration)
        return result

    def shared_block(self, name: str, element: Type, length: int, offset_bytes: int) -> int:
        """The id of an array in workgroup memory as a block at an offset, which may overlap others."""
        bits, self.version = element_of(element).bits, _VERSION_WITH_SHARED_BLOCKS
        self.require(Capability.WorkgroupMemoryExplicitLayoutKHR, "SPV_KHR_workgroup_memory_explicit_layout")
        if bits < 32:
            self.require(_SMALL_WORKGROUP[bits])
        array, block = self.id(), self.id()
        self._globals += _instruction(spv.OpTypeArray, array, self.type(element), self.uint(length))
        self._globals += _instruction(spv.OpTypeStruct, block, array)
        self.decorate(array, Decoration.ArrayStride, element.bits // 8)
        self.decorate(block, Decoration.Block)
        self._member(block, 0, name, offset_bytes)
        result = self.variable(StorageClass.Workgroup, block, name)
        self.decorate(result, Decoration.Aliased)
        return result

    def texel_buffer(self, name: str, binding: tuple[int, int], lanes: int) -> int:
        """The id of a new uniform texel buffer at (set, binding), of one or four uint32 per texel."""
        self.require(Capability.SampledBuffer)
        return self.bound(StorageClass.UniformConstant, self._texels(lanes), name, binding)

    def texel(self, variable: int, index: int, lanes: int) -> int:
        """The id of a texel: a uint32, or a vector of four."""
        image = self.id()
        self.op(spv.OpLoad, self._texels(lanes), image, variable)
        whole = self.value(spv.OpImageFetch, vector(UINT32, 4), image, index)
        return whole if lanes == 4 else self.value(spv.OpCompositeExtract, UINT32, whole, 0)

    def _texels(self, lanes: int) -> int:
        """The id of the type of texel buffers; the format tells those of one uint32 from the others."""
        texel_format = ImageFormat.R32ui if lanes == 1 else ImageFormat.Unknown
        whole, buffer, sampled = self.type(UINT32), Dim.Buffer, 1
        return self._declare(spv.OpTypeImage, whole, buffer, 0, 0, 0, sampled, texel_format)

    def bound(self, storage: int, pointee: int, name: str, binding: tuple[int, int]) -> int:
        """The id of a new global variable at (set, binding)."""
        result = self.variable(storage, pointee, name)
        self.decorate(result, Decoration.DescriptorSet, binding[0])
        self.decorate(result, Decoration.Binding, binding[1])
        return result

    def parameters(self, members: Sequence[tuple[str, Type]]) -> tuple[int, int]:
        """The id and the bytes of a block of parameters, each at the next multiple of its size."""
        block = self.id()
        types = [self.type(kind) for _, kind in members]
        self._globals += _instruction(spv.OpTypeStruct, block, *types)
        self.decorate(block, Decoration.Block)
        offset = 0
        for index, (name, kind) in enumerate(members):
            nbytes = kind.bits // 8
            offset = -(-offset // nbytes) * nbytes
            self._member(block, index, name, offset)
            offset += nbytes
        return block, offset

    def array_type(self, element: Type, length: int) -> int:
        """The id of the type of an array in workgroup or private memory."""
        return self._declare(spv.OpTypeArray, self.type(element), self.uint(length))

    def array(self, storage: int, name: str, element: Type, length: int) -> int:
        """The id of a new array in workgroup memory, or of the function's own."""
        return self.variable(storage, self.array_type(element, length), name)

    def input(self, kind: Type, built_in: int) -> int:
        """The id of a new built-in input variable."""
        result = self.variable(StorageClass.Input, self.type(kind), "")
        self.decorate(result, Decoration.BuiltIn, built_in)
        self.reads_num_workgroups |= built_in == BuiltIn.NumWorkgroups
        return result

    def decorate(self, target: int, *decoration: int) -> None:
        """Decorates an id."""
        self._decorations += _instruction(spv.OpDecorate, target, *decoration)

    @contextmanager
    def function(self, entry: int, params: Sequence[tuple[int, Type]], result: Type) -> Iterator[int]:
        """Collects `code` as the body of another function, and gives the function's id.

        Args:
            entry: the label of its first block.
            params: the ids of its parameters, and their types.
        """
        code, self.code, function_id, kind = self.code, [], self.id(), self.type(result)
        yield function_id
        types = [self.type(kind) for _, kind in params]
        signature = self._declare(spv.OpTypeFunction, kind, *types)
        head = [*_instruction(spv.OpFunction, kind, function_id, FunctionControl.MaskNone, signature)]
        for (param, _), type_id in zip(params, types, strict=True):
            head += _instruction(spv.OpFunctionParameter, type_id, param)
        head += _instruction(spv.OpLabel, entry)
        self._functions += [*head, *self.code, *_instruction(spv.OpFunctionEnd)]
        self.code = code

    def words(self, name: str, local_size: tuple[int, int, int], entry: int) -> bytes:
        """The module with the entry point "main", whose first block is `entry`; `name` is for debuggers."""
        void, main = self._declare(spv.OpTypeVoid), self.id()
        signature = self._declare(spv.OpTypeFunction, void)
        body = [
            *_instruction(spv.OpFunction, void, main, FunctionControl.MaskNone, signature),
            *_instruction(spv.OpLabel, entry),
            *self._locals,
            *self.code,
            *_instruction(spv.OpFunctionEnd),
            *self._functions,
        ]
        head = self._head(main, name, local_size)
        version = self.version[0] << 16 | self.version[1] << 8
        words = [MAGIC, version, 0, self._next, 0, *head, *self._names, *self._decorations, *self._globals, *body]
        return struct.pack(f"={len(words)}I", *words)

    def _head(self, main: int, name: str, local_size: tuple[int, int, int]) -> list[int]:
        """The sections before the names of variables."""
        words: list[int] = []
        for capability in self.capabilities:
            words += _instruction(spv.OpCapability, capability)
        for extension in self.extensions:
            words += _instruction(spv.OpExtension, *string_words(extension))
        words += _instruction(spv.OpExtInstImport, self.standard, *string_words("GLSL.std.450"))
        words += _instruction(spv.OpMemoryModel, AddressingModel.Logical, self._memory_model)
        interface = self._inputs if self.version < (1, 4) else self._variables
        words += _instruction(spv.OpEntryPoint, ExecutionModel.GLCompute, main, *string_words("main"), *interface)
        words += _instruction(spv.OpExecutionMode, main, ExecutionMode.LocalSize, *local_size)
        for mode in self.modes:
            words += _instruction(spv.OpExecutionMode, main, *mode)
        words += _instruction(spv.OpName, main, *string_words(name))
        return words

    def _declare(self, opcode: int, *operands: int) -> int:
        """The id of the type with these operands."""
        key = opcode, *operands
        constant_id = self._declared.get(key)
        if constant_id is None:
            constant_id = self._declared[key] = self.id()
            self._globals += _instruction(opcode, constant_id, *operands)
        return constant_id

    def _declare_constant(self, opcode: int, kind: int, *operands: int) -> int:
        """The id of the constant with this type and these operands."""
        key = opcode, kind, *operands
        constant_id = self._declared.get(key)
        if constant_id is None:
            constant_id = self._declared[key] = self.id()
            self._globals += _instruction(opcode, kind, constant_id, *operands)
        return constant_id

    def _member(self, block: int, index: int, name: str, offset: int) -> None:
        self._names += _instruction(spv.OpMemberName, block, index, *string_words(name))
        self._decorations += _instruction(spv.OpMemberDecorate, block, index, Decoration.Offset, offset)


def _instruction(opcode: int, *operands: int) -> tuple[int, ...]:
    return len(operands) + 1 << 16 | opcode, *operands


def _literal(constant: Constant) -> tuple[int, ...]:
    """A number in words, the low one first; a narrow signed integer is sign-extended."""
    data = constant.value.tobytes()
    negative = constant.type.kind == "i" and constant.value < 0  # type: ignore[union-attr,operator]
    data += (b"\xff" if negative else b"\0") * (-len(data) % 4)
    low_first = data if struct.pack("=H", 1) == b"\1\0" else data[::-1]
    return struct.unpack(f"<{len(data) // 4}I", low_first)
