"""GLSL to SPIR-V, without Vulkan.

    preprocessor.py     includes and defines resolved into one text, the same for every compiler
    diagnostics.py      a compiler's log -> errors with file, line, source text and caret
    compiler.py         the interface of a compiler
    shaderc.py          the shaderc shared library, in process
    command_line.py     glslc, glslang, spirv-opt and spirv-val
    discovery.py        search for an installed compiler
    compilation.py      compilation of one text, with a cache on disk
    builtin_shaders.py  table of the library's own shaders
    build.py            compilation of the library's own shaders for a wheel

Needs only the standard library: a wheel is built before its dependencies are installed.
"""
