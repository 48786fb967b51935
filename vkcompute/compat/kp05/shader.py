"""Shaders in the forms in which they are passed: SPIR-V, GLSL, files of either."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vkcompute.spirv.enums import MAGIC


class Shader:
    """Compiles GLSL."""

    @staticmethod
    def compile_source(source: str, entryPoint: str = "main", definitions: Sequence[tuple[str, str]] = ()) -> bytes:
        """The SPIR-V of a compute shader in GLSL, with these macros defined.

        Raises:
            CompileError: with file, line and source text of each error.
            NoCompiler: this machine has no GLSL compiler.
            ValueError: another entry point; GLSL has "main" only.
        """
        from vkcompute.glsl import glsl

        if entryPoint != "main":
            raise ValueError(f'the entry point of GLSL is "main"; got {entryPoint!r}')
        return glsl(source, defines=dict(definitions))


def from_data(data: Any) -> bytes:
    """The SPIR-V of a shader that is given as SPIR-V, or as GLSL: a text, its bytes, or a list of its characters.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(data, (list, tuple)) and all(isinstance(each, str) for each in data):
        data = "".join(data)
    if isinstance(data, (bytes, bytearray, memoryview)):
        spirv = bytes(data)
        if MAGIC in (int.from_bytes(spirv[:4], "little"), int.from_bytes(spirv[:4], "big")):
            return spirv
        data = spirv.decode(errors="replace")
    if not isinstance(data, str):
        raise TypeError(f"a shader is SPIR-V as bytes, or the text of a GLSL shader; got {type(data).__name__}")
    return Shader.compile_source(data)


def from_file(path: str | os.PathLike[str]) -> bytes:
    """The SPIR-V of a file of it (.spv) or of GLSL (.comp)."""
    from vkcompute.runtime.program import load

    return load(Path(path)).spirv
