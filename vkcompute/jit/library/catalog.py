"""Imports all files of the library, which registers their functions as intrinsics."""

from vkcompute.jit.library import (  # noqa: F401
    atomic,
    elementary,
    fma,
    functions,
    ids,
    printing,
    subgroup,
    vector,
    workgroup,
)
