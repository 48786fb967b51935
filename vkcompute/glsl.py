"""GLSL compiled at run time: `vkcompute.glsl(source)` returns SPIR-V."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkcompute.compilers.preprocessor import Define


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
    """Compiles a GLSL compute shader to SPIR-V.

    Args:
        source: the text, or a path: a `pathlib.Path`, or a str of one line that ends in ".comp". `#version 460` is
            added to a text without #version; line numbers stay those of the text.
        defines: preprocessor names -> values; None and True are 1, False is 0.
        include_dirs: folders to search for `#include "x"` and `#include <x>`, after the folder of the including file.
        name: the name in error messages of a text without a path.
        target: the Vulkan version to compile for, "vulkan1.0" to "vulkan1.3".
        optimize: optimize for speed, by shaderc or spirv-opt. Drivers optimize as well, so it seldom pays.
        compiler: a program (glslc, glslangValidator) or a shaderc library. By default VKCOMPUTE_GLSLC names one, else
            the first one installed of these: the shaderc library, glslc, glslangValidator, glslang.

    Returns:
        SPIR-V, from a cache on disk if the same text was compiled before.

    Raises:
        CompileError: lists file, line and source text of each error.
        NoCompiler: no compiler is installed; lists the attempts and how to install one.
        OSError: the path cannot be read.
        TypeError, ValueError: an argument is invalid, e.g. a define that is no preprocessor name.
    """
    # Imported late: most programs never compile, and subprocess and ctypes take milliseconds to import.
    from vkcompute.compilers import compilation, discovery, preprocessor
    from vkcompute.compilers import compiler as interface

    if target not in interface.TARGETS:
        raise ValueError(f"target is one of {', '.join(interface.TARGETS)}; got {target!r}")
    if isinstance(include_dirs, (str, os.PathLike)):  # a str is a sequence of letters, too
        raise TypeError(f"include_dirs is a sequence of folders; got {include_dirs!r}; pass [{include_dirs!r}]")
    main, folder = preprocessor.main_text(source, name)
    unit = preprocessor.preprocess(main, folder, defines, include_dirs)
    return compilation.compile_cached(unit, discovery.find(compiler), target, optimize)
