"""Imports all files of the library, which registers their functions as intrinsics."""

from vkcompute.jit.library import (  # noqa: F401
    atomic,
    bit_operations,
    elementary,
    failures,
    fma,
    functions,
    ids,
    printing,
    private,
    random,
    subgroup,
    vector,
    warp,
    workgroup,
)
