"""A SPIR-V module while it is written: ids, sections, and each type and constant once."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from vkcompute.ir.function import Constant
from vkcompute.ir.types import BOOL, Scalar, Type, Vector

# Numbers of the SPIR-V specification 1.3, chapter 3.
_EXTENSION, _EXT_INST_IMPORT, _MEMORY_MODEL, _ENTRY_POINT, _EXECUTION_MODE, _CAPABILITY = 10, 11, 14, 15, 16, 17
_NAME, _MEMBER_NAME, _DECORATE, _MEMBER_DECORATE, _VARIABLE = 5, 6, 71, 72, 59
_TYPE_VOID, _TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR, _TYPE_ARRAY = 19, 20, 21, 22, 23, 28
_TYPE_RUNTIME_ARRAY, _TYPE_STRUCT, _TYPE_POINTER, _TYPE_FUNCTION = 29, 30, 32, 33
_CONSTANT_TRUE, _CONSTANT_FALSE, _CONSTANT, _CONSTANT_COMPOSITE = 41, 42, 43, 44
_FUNCTION, _FUNCTION_END, _LABEL = 54, 56, 248
_SHADER, _FLOAT16, _FLOAT64, _INT64, _INT16, _INT8 = 1, 9, 10, 11, 22, 39
_CAPABILITY_OF = {"f16": _FLOAT16, "f64": _FLOAT64, "i64": _INT64, "i16": _INT16, "i8": _INT8}
_BLOCK, _BUILT_IN, _NON_WRITABLE, _ARRAY_STRIDE, _BINDING, _DESCRIPTOR_SET, _OFFSET = 2, 11, 24, 6, 33, 34, 35
_GL_COMPUTE, _LOCAL_SIZE, _MAGIC = 5, 17, 0x07230203
INPUT, WORKGROUP, PUSH_CONSTANT, STORAGE_BUFFER = 1, 4, 9, 12  # storage classes


class Assembly:
    """Collects the words of each section; `words` puts them together.

    Attributes:
        code: the words of the function's body so far.
        standard: the id of GLSL.std.450.
    """

    def __init__(self) -> None:
        self._next = 1
        self._capabilities = {_SHADER: 0}
        self._extensions: dict[str, int] = {}
        self._names: list[int] = []
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._interface: list[int] = []
        self._known: dict[tuple[object, ...], int] = {}
        self.code: list[int] = []
        self.standard = self.id()

    def id(self) -> int:
        """A new id."""
        self._next += 1
        return self._next - 1

    def op(self, opcode: int, *operands: int) -> None:
        """An instruction of the body that has no result."""
        self.code.append(len(operands) + 1 << 16 | opcode)
        self.code += operands

    def value(self, opcode: int, kind: Type, *operands: int) -> int:
        """An instruction of the body that has one."""
        result = self.id()
        self.op(opcode, self.type(kind), result, *operands)
        return result

    def require(self, capability: int, extension: str = "") -> None:
        """Declares what the module needs."""
        self._capabilities[capability] = 0
        if extension:
            self._extensions[extension] = 0

    def type(self, kind: Type) -> int:
        """The id of a value's type."""
        if isinstance(kind, Vector):
            return self._declare(_TYPE_VECTOR, self.type(kind.element), kind.n)
        if kind is BOOL:
            return self._declare(_TYPE_BOOL)
        capability = _CAPABILITY_OF.get(f"{kind.kind.replace('u', 'i')}{kind.bits}")
        if capability is not None:
            self.require(capability)
        if kind.kind == "f":
            return self._declare(_TYPE_FLOAT, kind.bits)
        return self._declare(_TYPE_INT, kind.bits, int(kind.kind == "i"))

    def constant(self, constant: Constant) -> int:
        """The id of a constant."""
        kind = constant.type
        if kind is BOOL:
            return self._typed(_CONSTANT_TRUE if constant.value else _CONSTANT_FALSE, self.type(kind))
        return self._typed(_CONSTANT, self.type(kind), *_literal(constant))

    def number(self, value: int, kind: Type) -> int:
        """The id of a small number of any type, a vector of them where the type is one."""
        if isinstance(kind, Vector):
            element = self.number(value, kind.element)
            return self._typed(_CONSTANT_COMPOSITE, self.type(kind), *[element] * kind.n)
        return self.constant(Constant(kind, kind.numpy.type(value)))

    def uint(self, value: int) -> int:
        """The id of a uint32 constant that is none of the program's values: a scope, a length, a member."""
        return self._typed(_CONSTANT, self._declare(_TYPE_INT, 32, 0), value)

    def pointer(self, storage: int, pointee: int) -> int:
        """The id of a pointer type."""
        return self._declare(_TYPE_POINTER, storage, pointee)

    def variable(self, storage: int, pointee: int, name: str) -> int:
        """The id of a new global variable."""
        pointer, result = self.pointer(storage, pointee), self.id()
        self._globals += (4 << 16 | _VARIABLE, pointer, result, storage)
        if name:
            self._names += _instruction(_NAME, result, *_string(name))
        if storage == INPUT:
            self._interface.append(result)
        return result

    def buffer(self, name: str, element: Scalar, slot: tuple[int, int], *, writable: bool) -> int:
        """The id of a new storage buffer at (set, binding): a block with one array of unknown length."""
        if element.bits < 32:
            self.require(*_SMALL_STORAGE[element.bits])
        array, block = self.id(), self.id()
        self._globals += (3 << 16 | _TYPE_RUNTIME_ARRAY, array, self.type(element))
        self._globals += (3 << 16 | _TYPE_STRUCT, block, array)
        self.decorate(array, _ARRAY_STRIDE, element.bits // 8)
        self.decorate(block, _BLOCK)
        self._member(block, 0, name, 0)
        result = self.variable(STORAGE_BUFFER, block, name)
        self.decorate(result, _DESCRIPTOR_SET, slot[0])
        self.decorate(result, _BINDING, slot[1])
        if not writable:
            self.decorate(result, _NON_WRITABLE)
        return result

    def push_constants(self, members: Sequence[tuple[str, Scalar]]) -> int:
        """The id of the block of push constants, each at the next multiple of its size."""
        block = self.id()
        types = [self.type(kind) for _, kind in members]
        self._globals += _instruction(_TYPE_STRUCT, block, *types)
        self.decorate(block, _BLOCK)
        offset = 0
        for index, (name, kind) in enumerate(members):
            nbytes = kind.bits // 8
            offset = -(-offset // nbytes) * nbytes
            self._member(block, index, name, offset)
            offset += nbytes
        return self.variable(PUSH_CONSTANT, block, "")

    def shared(self, name: str, element: Scalar, length: int) -> int:
        """The id of an array in workgroup memory."""
        array = self._declare(_TYPE_ARRAY, self.type(element), self.uint(length))
        return self.variable(WORKGROUP, array, name)

    def input(self, kind: Type, built_in: int) -> int:
        """The id of an input variable."""
        result = self.variable(INPUT, self.type(kind), "")
        self.decorate(result, _BUILT_IN, built_in)
        return result

    def words(self, name: str, local_size: tuple[int, int, int], entry: int) -> bytes:
        """The module: one entry point "main" of this body, whose first block is `entry`; `name` is for debuggers."""
        void, main = self._declare(_TYPE_VOID), self.id()
        signature = self._declare(_TYPE_FUNCTION, void)
        head: list[int] = []
        for capability in self._capabilities:
            head += (2 << 16 | _CAPABILITY, capability)
        for extension in self._extensions:
            head += _instruction(_EXTENSION, *_string(extension))
        head += _instruction(_EXT_INST_IMPORT, self.standard, *_string("GLSL.std.450"))
        head += (3 << 16 | _MEMORY_MODEL, 0, 1)
        head += _instruction(_ENTRY_POINT, _GL_COMPUTE, main, *_string("main"), *self._interface)
        head += (6 << 16 | _EXECUTION_MODE, main, _LOCAL_SIZE, *local_size)
        head += _instruction(_NAME, main, *_string(name))
        body = (5 << 16 | _FUNCTION, void, main, 0, signature, 2 << 16 | _LABEL, entry)
        words = [_MAGIC, 0x10300, 0, self._next, 0, *head, *self._names, *self._decorations, *self._globals, *body]
        words += self.code
        words.append(1 << 16 | _FUNCTION_END)
        return struct.pack(f"={len(words)}I", *words)

    def _declare(self, opcode: int, *operands: int) -> int:
        """The id of the type with these operands."""
        key = opcode, *operands
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.id()
            self._globals += _instruction(opcode, found, *operands)
        return found

    def _typed(self, opcode: int, kind: int, *operands: int) -> int:
        """The id of the constant with these operands."""
        key = opcode, kind, *operands
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.id()
            self._globals += _instruction(opcode, kind, found, *operands)
        return found

    def decorate(self, target: int, *what: int) -> None:
        """Adds a decoration to what has this id."""
        self._decorations += _instruction(_DECORATE, target, *what)

    def _member(self, block: int, index: int, name: str, offset: int) -> None:
        self._names += _instruction(_MEMBER_NAME, block, index, *_string(name))
        self._decorations += _instruction(_MEMBER_DECORATE, block, index, _OFFSET, offset)


_SMALL_STORAGE = {8: (4448, "SPV_KHR_8bit_storage"), 16: (4433, "SPV_KHR_16bit_storage")}
"""Bits of an element -> StorageBuffer8BitAccess, StorageBuffer16BitAccess."""


def _instruction(opcode: int, *operands: int) -> tuple[int, ...]:
    return len(operands) + 1 << 16 | opcode, *operands


def _string(text: str) -> tuple[int, ...]:
    """A literal string: UTF-8, ended by a zero byte, in words whose first byte is the lowest."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def _literal(constant: Constant) -> tuple[int, ...]:
    """A number in words, the low one first; what is narrower than a word is sign-extended, if it has a sign."""
    data = constant.value.tobytes()
    negative = constant.type.kind == "i" and constant.value < 0  # type: ignore[union-attr,operator]
    data += (b"\xff" if negative else b"\0") * (-len(data) % 4)
    low_first = data if struct.pack("=H", 1) == b"\1\0" else data[::-1]
    return struct.unpack(f"<{len(data) // 4}I", low_first)
