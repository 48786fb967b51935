"""PyShader's interface: compute shaders written in Python, as in Kompute's tutorials.

    import vkcompute.compat.pyshader as ps

A shader is compiled to SPIR-V where it is defined. No driver is loaded.
"""

from __future__ import annotations

from vkcompute.compat.pyshader import stdlib
from vkcompute.compat.pyshader.module import (
    RES_BUFFER,
    RES_INPUT,
    RES_OUTPUT,
    RES_SAMPLER,
    RES_TEXTURE,
    RES_UNIFORM,
    ShaderModule,
    python2shader,
)
from vkcompute.compat.pyshader.types import TYPES, Array, Matrix, ShaderType, Struct, Vector, void
from vkcompute.errors import KernelError as ShaderError

__all__ = [
    "RES_BUFFER",
    "RES_INPUT",
    "RES_OUTPUT",
    "RES_SAMPLER",
    "RES_TEXTURE",
    "RES_UNIFORM",
    "Array",
    "Matrix",
    "ShaderError",
    "ShaderModule",
    "Struct",
    "Vector",
    "python2shader",
    "stdlib",
    "void",
    *TYPES,
]


def __getattr__(name: str) -> ShaderType:
    if name not in TYPES:
        raise AttributeError(f"vkcompute.compat.pyshader has no attribute {name}")
    return TYPES[name]
