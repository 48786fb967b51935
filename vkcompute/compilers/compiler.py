"""The interface that every GLSL compiler implements."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

TARGETS = ("vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3")


@dataclass(frozen=True, slots=True)
class CompileResult:
    """SPIR-V, or None after a failure; the log holds errors and warnings."""

    spirv: bytes | None
    log: str


class Compiler(Protocol):
    """One GLSL compiler.

    Attributes:
        name: "shaderc", "glslc" or "glslang".
        path: its file.
        identity: differs between builds; found without running the compiler.
    """

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def identity(self) -> str: ...

    def version(self) -> str:
        """Name and version for people; may run a program."""

    def compile(self, text: str, target: str, optimize: bool) -> CompileResult:
        """Compiles `text` to SPIR-V for `target`, one of `TARGETS`."""


def fingerprint(path: str) -> str:
    """Identifies one build of a tool without running it: real path, size and modification time of the file."""
    real = os.path.realpath(path)
    info = os.stat(real)
    return f"{real}:{info.st_size}:{info.st_mtime_ns}"
