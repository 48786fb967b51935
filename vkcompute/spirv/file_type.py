"""The file type of data that is not SPIR-V, guessed from the first bytes for an error message."""

from __future__ import annotations

import re

_START = 4096  # bytes to search
# (pattern, file type and remedy); the first match wins.
_KINDS: tuple[tuple[bytes, str], ...] = (
    (rb"\A\x7fELF", "an ELF executable or library"),
    (rb"\ABC\xc0\xde", "LLVM bitcode"),
    (rb"\ADXBC", "a DirectX shader; compile the HLSL with dxc -spirv"),
    (rb"\AMTLB", "a Metal library"),
    (rb"\A\0asm", "WebAssembly"),
    (rb"\APK\x03\x04", "a ZIP archive; unpack it first"),
    (rb"\A\x1f\x8b", "gzip data; decompress it first"),
    (rb"\A\x28\xb5\x2f\xfd", "zstd data; decompress it first"),
    (rb"\A\x93NUMPY", "a numpy .npy file"),
    (rb"\Aversion https://git-lfs", "a Git LFS pointer; fetch the file with git lfs pull"),
    (rb"\A\s*; SPIR-V|\A\s*OpCapability\s", "SPIR-V assembly; assemble it with spirv-as"),
    (rb"\A\s*0x0*7230203", "SPIR-V words as text; convert them to binary words"),
    (rb"@compute|@workgroup_size|var<storage", "WGSL source; translate it to SPIR-V with naga or tint"),
    (rb"\[numthreads\s*\(", "HLSL source; compile it with dxc -spirv"),
    (rb"\A\s*#version|local_size_x|gl_GlobalInvocationID|layout\s*\(", "GLSL source; compile it with vc.glsl"),
    (
        rb"__kernel\s|__global\s|\bkernel\s+void\b",
        "OpenCL C source; write the kernel in GLSL and compile it with vc.glsl",
    ),
    (rb"__global__\s", "CUDA source; write the kernel in GLSL and compile it with vc.glsl"),
    (rb"\A\s*\.version\s|\.target\s+sm_", "PTX"),
    (rb"void\s+main\s*\(", "GLSL source; compile it with vc.glsl"),
    (rb"\A\s*(<!DOCTYPE|<html|<\?xml)", "HTML or XML, perhaps the error page of a download"),
    (rb"\A\s*[{\[]", "JSON"),
)


def describe_non_spirv(data: bytes) -> str:
    """An error message for `data` without SPIR-V's magic number."""
    if not data:
        return "no SPIR-V: the data is empty; check that the compiler wrote its output"
    start = bytes(data[:_START])
    for pattern, kind in _KINDS:
        if re.search(pattern, start, re.IGNORECASE):
            return f"not SPIR-V: this looks like {kind}"
    if re.fullmatch(rb"[\t\n\r\x20-\x7e]+", start):
        return f"not SPIR-V: this looks like text, {start[:32]!r}; compile GLSL with vc.glsl"
    return f"not SPIR-V: the first word is 0x{start[:4][::-1].hex()}, SPIR-V has the magic number 0x07230203"
