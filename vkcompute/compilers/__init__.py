"""GLSL to SPIR-V, without Vulkan.

    preprocessor.py     includes and defines resolved into one text, the same for every compiler
    diagnostics.py      a compiler's log -> errors with file, line, source text and caret
    compiler.py         the interface of a compiler
    shaderc.py          the shaderc shared library, in process
    command_line.py     glslc, glslang and spirv-opt
    discovery.py        search for an installed compiler
    compilation.py      compilation of one text, with a cache on disk

Needs only the standard library: `build_shaders.py` uses it before the dependencies of a wheel are installed.
"""
