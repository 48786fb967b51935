"""Shaders in the forms that operations take: SPIR-V, GLSL, and files of either."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vkcompute.compat.kp.shader import Shader
from vkcompute.spirv.enums import MAGIC

__all__ = ["Shader", "spirv_from_data", "spirv_from_file"]


def spirv_from_data(data: Any) -> bytes:
    """Returns the SPIR-V of a shader given as SPIR-V or as GLSL: a str, its bytes, or a list of its characters.

    Raises:
        TypeError: the shader has another type.
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


def spirv_from_file(path: str | os.PathLike[str]) -> bytes:
    """Returns the SPIR-V of a .spv file, or of the GLSL in a .comp file."""
    from vkcompute.runtime.launching.program import load

    return load(Path(path)).spirv
