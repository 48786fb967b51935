"""GLSL to SPIR-V, outside of any Vulkan: assembling one text, finding a compiler, running it, reading its complaints.

    source.py       includes and defines resolved into one text, the same for every compiler
    diagnostics.py  a compiler's log -> errors with file, line, source text and caret
    shaderc.py      the shaderc shared library, in process
    programs.py     glslc and glslang as programs
    chain.py        which of them this machine has; what they made while a program ran, on disk
    build.py        the library's own shaders, compiled when a wheel is made

Needs nothing beyond the standard library, since a wheel is built before its dependencies are there.
"""
