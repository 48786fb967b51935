"""GLSL compiled while the program runs: `vkcompute.glsl(source)` gives SPIR-V, from a cache on disk the second time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkcompute.compilers.source import Define


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
        include_dirs: where `#include "x"` and `#include <x>` are looked for, after the folder of the including file.
        name: what errors call a text that has no path.
        target: the Vulkan version whose SPIR-V is written, "vulkan1.0" to "vulkan1.3".
        optimize: for speed, by shaderc or spirv-opt. Drivers optimize as well, so it seldom pays.
        compiler: a program (glslc, glslangValidator) or a shaderc library to use; else VKCOMPUTE_GLSLC names one,
            else the first is taken of: the shaderc library, glslc, glslangValidator, glslang.

    Raises:
        CompileError: with file, line and source text of each error.
        NoCompiler: with what was tried, and how to install one.
        OSError: the path cannot be read.
        TypeError, ValueError: an argument is not what it is to be, e.g. a define that is no preprocessor name.
    """
    # Imported here, since most programs never compile and `import vkcompute` is to stay quick.
    from vkcompute.compilers import chain
    from vkcompute.compilers import source as sources

    if target not in chain.TARGETS:
        raise ValueError(f"target is one of {', '.join(chain.TARGETS)}; got {target!r}")
    if isinstance(include_dirs, (str, os.PathLike)):  # a str is a sequence too, of letters
        raise TypeError(f"include_dirs is a sequence of folders; got {include_dirs!r}; pass [{include_dirs!r}]")
    main, folder = sources.main_text(source, name)
    unit = sources.assemble(main, folder, defines, include_dirs)
    return chain.compiled(unit, chain.find(compiler), target, optimize)
