"""Imports all files of the library, which registers their functions as intrinsics."""

from vkcompute.jit.library import elementary, functions, ids, printing, subgroup, vectors, workgroup  # noqa: F401
