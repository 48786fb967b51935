"""GLSL compiled while the program runs: `vkcompute.glsl(source)` gives SPIR-V, from a cache on disk the second time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vkcompute import disk
from vkcompute.compilers import chain, programs
from vkcompute.compilers.source import Define, SourceFile, Unit, assemble, read

CACHE_LIMIT_NBYTES = 64 << 20

_FORMAT = "glsl-1"  # part of every key: raise it when the same input is to give another output
_PACKAGE = Path(__file__).parent
# A wheel carries the includes inside of the package; a checkout has them beside it.
INCLUDE_FOLDER = next(
    (str(folder) for folder in (_PACKAGE / "_include", _PACKAGE.parent / "shaders" / "include") if folder.is_dir()),
    str(_PACKAGE / "_include"),
)


def glsl(
    source: str | os.PathLike[str],
    *,
    defines: Mapping[str, Define] | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    name: str = "<glsl>",
    target: str = "vulkan1.2",
    optimize: bool = False,
    compiler: str | os.PathLike[str] | None = None,
) -> bytes:
    """Compile a GLSL compute shader to SPIR-V.

    Args:
        source: the text, or a path: a `pathlib.Path`, or a str of one line that ends in ".comp". `#version 460` is
            added to a text that has none; line numbers stay those of the text.
        defines: preprocessor names -> values; None and True are 1, False is 0.
        include_dirs: where `#include "x"` and `#include <x>` are looked for, after the folder of the including file and
            before the library's own includes.
        name: what errors call a text that has no path.
        target: the Vulkan version whose SPIR-V is written, "vulkan1.0" to "vulkan1.3".
        optimize: for speed, by shaderc or spirv-opt. Drivers optimize as well, so it seldom pays.
        compiler: a program (glslc, glslangValidator) or a shaderc library to use; else VKCOMPUTE_GLSLC names one,
            else the first is taken of: the shaderc library, glslc, glslangValidator, glslang.

    Raises:
        CompileError: with file, line and source text of each error.
        NoCompiler: with what was tried, and how to install one.
        OSError: the path cannot be read.
    """
    if target not in chain.TARGETS:
        raise ValueError(f"target is one of {', '.join(chain.TARGETS)}; got {target!r}")
    main, folder = _main(source, name)
    unit = assemble(main, folder, defines, (*include_dirs, INCLUDE_FOLDER))
    tool = chain.find(compiler)
    path = disk.cache_folder() / "glsl" / _key(unit, tool, target, optimize)
    spirv = disk.read_cached(path)
    if spirv is None:
        spirv = chain.compile_unit(unit, tool, target, optimize)
        disk.write_cached(path, spirv)
        disk.prune(path.parent, CACHE_LIMIT_NBYTES)
    return spirv


def _main(source: str | os.PathLike[str], name: str) -> tuple[SourceFile, str | None]:
    """The user's text, and the folder that it lies in if it has one."""
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
