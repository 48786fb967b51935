"""Imports all files of the library, which registers their functions as intrinsics."""

from vkcompute.jit.library import (  # noqa: F401
    array_reductions,
    atomic,
    bit_operations,
    element_functions,
    elementary,
    failures,
    functions,
    ids,
    printing,
    private,
    random,
    subgroup,
    unrolled_loops,
    vector,
    warp,
    workgroup,
)
