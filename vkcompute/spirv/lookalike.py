"""What a file is that was taken for SPIR-V: for the error message, from its first bytes."""

from __future__ import annotations

import re

_START = 4096  # bytes that are looked at
# (pattern at the start or anywhere within the first bytes, what it is and what to do), first match wins
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
    (rb"\A\s*#version|local_size_x|gl_GlobalInvocationID|layout\s*\(", "GLSL source; pass it through vc.glsl"),
    (
        rb"__kernel\s|__global\s|\bkernel\s+void\b",
        "OpenCL C source; write the kernel in GLSL and pass it through vc.glsl",
    ),
    (rb"__global__\s", "CUDA source; write the kernel in GLSL and pass it through vc.glsl"),
    (rb"\A\s*\.version\s|\.target\s+sm_", "PTX"),
    (rb"void\s+main\s*\(", "GLSL source; pass it through vc.glsl"),
    (rb"\A\s*(<!DOCTYPE|<html|<\?xml)", "HTML or XML, perhaps the error page of a download"),
    (rb"\A\s*[{\[]", "JSON"),
)


def describe(data: bytes) -> str:
    """An error message for `data`, which does not start with SPIR-V's magic number."""
    if not data:
        return "empty: no SPIR-V at all; check that the compiler wrote its output"
    start = bytes(data[:_START])
    for pattern, kind in _KINDS:
        if re.search(pattern, start, re.IGNORECASE):
            return f"not SPIR-V: this looks like {kind}"
    if re.fullmatch(rb"[\t\n\r\x20-\x7e]+", start):
        return f"not SPIR-V: this looks like text, {start[:32]!r}; GLSL source goes through vc.glsl"
    return f"not SPIR-V: the first word is 0x{start[:4][::-1].hex()}, where SPIR-V has the magic number 0x07230203"
