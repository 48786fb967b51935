"""Programs: SPIR-V with its interface, independent of any device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from vkcompute.errors import SpirvError
from vkcompute.glsl import glsl
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration, StorageClass
from vkcompute.spirv.id_axes import group_axes
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.interface import Interface
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

BUILT_IN = Path(__file__).parents[2] / "_spv"

_ARRAYS = op.OpTypeArray, op.OpTypeRuntimeArray
Source = str | os.PathLike[str] | bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Program:
    """A compute shader.

    Attributes:
        name: for messages.
        spirv: the module.
        interface: what it declares.
        group_axes: of a module from outside, the axes along which it reads ids of workgroups, but not their number.
        subgroup_size: the invocations of each subgroup, of a module that is right with this number only; else None.
    """

    name: str
    spirv: bytes
    interface: Interface
    group_axes: tuple[int, ...] = ()
    subgroup_size: int | None = None


def load(source: Source, entry_point: str | None = None, name: str | None = None) -> Program:
    """Loads a built-in by its name, a .comp or .spv file by its path, or SPIR-V from bytes; `name` is for messages.

    Raises:
        ValueError: no built-in has this name.
        SpirvError, CompileError, OSError: the file or the bytes cannot be used.
        TypeError: the source is of another type.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _checked(name or f"<spirv {crc32(source):08x}>", bytes(source), entry_point)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"a kernel is made from a built-in's name, a path to a .comp or .spv file, or SPIR-V bytes (such as "
            f"vc.glsl(source)); got {type(source).__name__}"
        )
    path = Path(source)
    if path.suffix == ".spv":
        return _checked(name or path.name, path.read_bytes(), entry_point)
    if path.suffix == ".comp":
        return _checked(name or path.name, glsl(path), entry_point)
    if isinstance(source, str) and source.isidentifier():
        return _built_in(source, entry_point, name or source)
    raise ValueError(
        f"a path to a kernel ends in .comp or .spv; got {str(source)[:80]!r}; GLSL text goes through vc.glsl"
    )


@lru_cache(maxsize=256)
def _checked(name: str, spirv: bytes, entry_point: str | None) -> Program:
    # A local import: the library's own kernels need no validation, which is half of spirv/.
    from vkcompute.spirv.validation import validate

    module = Module.parse(spirv)
    validate(module)
    _refuse_addresses(name, module)
    interface = reflect(module, entry_point)
    if any(binding.writes for binding in interface.bindings):
        _declare_aliases(module)
    return Program(name, module.words(), interface, group_axes(module))


def _refuse_addresses(name: str, module: Module) -> None:
    """Raises SpirvError if a module accesses memory by its address: any other number would crash the process."""
    pointers = [
        declaration.operands[1] for declaration in module.declarations if declaration.opcode == op.OpTypePointer
    ]
    if StorageClass.PhysicalStorageBuffer in pointers:
        raise SpirvError(
            f"{name} accesses memory by its address, as GLSL's buffer_reference does, and arrays have no address to "
            "pass; bind them, as in layout(binding = 0) buffer X { float x[]; };"
        )


def _declare_aliases(module: Module) -> None:
    """Declares that buffers of a module may share memory, in place: a launch may bind an array twice.

    Compilers load memory that is declared NonWritable once, or through caches that miss the stores of the same launch.
    They may take memory that is not declared Aliased for different memory (SPIR-V 2.18.2).
    """
    classes = StorageClass.StorageBuffer, StorageClass.Uniform
    variables = [declaration.operands for declaration in module.declarations if declaration.opcode == op.OpVariable]
    types = {
        declaration.operands[0]: declaration
        for declaration in module.declarations
        if declaration.opcode in (op.OpTypePointer, *_ARRAYS)
    }
    buffers = {variable: _block(types, pointer) for pointer, variable, storage, *_ in variables if storage in classes}
    decorated = {op.OpDecorate: frozenset(buffers), op.OpMemberDecorate: frozenset(buffers.values())}
    kept, declared = list[Instruction](), set[int]()
    for annotation in module.annotations:
        if annotation.operands[0] in decorated.get(annotation.opcode, ()):
            decoration = annotation.operands[1 if annotation.opcode == op.OpDecorate else 2]
            if decoration == Decoration.NonWritable:
                continue
            if decoration in (Decoration.Aliased, Decoration.Restrict):
                declared.add(annotation.operands[0])
        kept.append(annotation)
    undeclared = [variable for variable, block in buffers.items() if declared.isdisjoint((variable, block))]
    module.annotations = kept + [Instruction(op.OpDecorate, (variable, Decoration.Aliased)) for variable in undeclared]


def _block(types: Mapping[int, Instruction], pointer: int) -> int:
    """Returns the type of the block behind a pointer to it, or to an array of such blocks."""
    type_id = types[pointer].operands[2]
    while type_id in types:
        type_id = types[type_id].operands[1]
    return type_id


@lru_cache(maxsize=256)
def _built_in(name: str, entry_point: str | None, called: str) -> Program:
    path = BUILT_IN / f"{name}.spv"
    try:
        spirv = path.read_bytes()
    except FileNotFoundError:
        known = sorted(file.stem for file in BUILT_IN.glob("*.spv"))
        if not known:
            raise SpirvError(
                "the built-in kernels are not compiled in this checkout; run `python build_shaders.py`"
            ) from None
        raise ValueError(f"no built-in kernel is called {name!r}; there are {', '.join(known)}") from None
    return Program(called, spirv, reflect(Module.parse(spirv), entry_point))
