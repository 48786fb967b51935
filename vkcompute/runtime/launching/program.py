"""Programs: SPIR-V with its interface, independent of any device."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from vkcompute.errors import SpirvError
from vkcompute.glsl import glsl
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration, StorageClass
from vkcompute.spirv.interface import Interface
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

BUILT_IN = Path(__file__).parents[2] / "_spv"

Source = str | os.PathLike[str] | bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Program:
    """A compute shader: its name for messages, its SPIR-V and the interface that this declares."""

    name: str
    spirv: bytes
    interface: Interface


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
    interface = reflect(module, entry_point)
    if any(each.writes for each in interface.bindings):
        _forget_nonwritable(module)
    return Program(name, module.words(), interface)


def _forget_nonwritable(module: Module) -> None:
    """Removes NonWritable from the buffers of a module, in place.

    It says that a variable is not stored to; another one may be bound to the same memory. SwiftShader takes the memory
    for constant, and loads it once. GLSL compilers decorate members of blocks, which it ignores.
    """
    classes = StorageClass.StorageBuffer, StorageClass.Uniform
    variables = [each.operands for each in module.declarations if each.opcode == op.OpVariable]
    buffers = {identifier for _, identifier, storage, *_ in variables if storage in classes}
    module.annotations = [
        each
        for each in module.annotations
        if each.opcode != op.OpDecorate or each.operands[1] != Decoration.NonWritable or each.operands[0] not in buffers
    ]


@lru_cache(maxsize=256)
def _built_in(name: str, entry_point: str | None, called: str) -> Program:
    path = BUILT_IN / f"{name}.spv"
    try:
        spirv = path.read_bytes()
    except FileNotFoundError:
        known = sorted(each.stem for each in BUILT_IN.glob("*.spv"))
        if not known:
            raise SpirvError(
                "the built-in kernels are not compiled in this checkout; run `python build_shaders.py`"
            ) from None
        raise ValueError(f"no built-in kernel is called {name!r}; there are {', '.join(known)}") from None
    return Program(called, spirv, reflect(Module.parse(spirv), entry_point))
