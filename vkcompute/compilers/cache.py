"""GLSL compiled once and kept on disk, by the content of everything that the result depends on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from vkcompute import disk
from vkcompute.compilers import chain, programs
from vkcompute.compilers.source import SourceFile, Unit, read

_FORMAT = "glsl-1"  # part of every key: raise it when the same input is to give another output


def compiled(unit: Unit, tool: chain.Compiler, target: str, optimize: bool) -> bytes:
    """SPIR-V of an assembled text, from the cache if it was compiled before.

    Raises:
        CompileError: `tool` refuses the text.
    """
    path = disk.cache_folder() / "glsl" / _key(unit, tool, target, optimize)
    spirv = disk.read_cached(path)
    if spirv is None:
        spirv = chain.compile_unit(unit, tool, target, optimize)
        disk.keep_cached(path, spirv)
    return spirv


def main_text(source: str | os.PathLike[str], name: str) -> tuple[SourceFile, str | None]:
    """The user's text, and the folder that it lies in if it has one; a str of one line that ends in .comp is a path."""
    if isinstance(source, str) and not (source.endswith(".comp") and "\n" not in source):
        return SourceFile(name, source), None
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"source is GLSL text or a path; got {type(source).__name__}")
    path = Path(source)
    return read(path), str(path.parent)


def _key(unit: Unit, tool: chain.Compiler, target: str, optimize: bool) -> str:
    optimizer = f"optimized {programs.optimizer_identity()}" if optimize else ""
    parts = (_FORMAT, tool.identity, target, optimizer, unit.text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
