"""The intermediate representation of kernels: typed, in single assignment, with structured control flow.

A front end builds a `Function` with a `Builder`, and gets a module from `lower(optimize(function))`.
"""

from __future__ import annotations

from vkcompute.errors import IrError
from vkcompute.ir.array_bindings import bind_arrays, excess_bindings
from vkcompute.ir.atomics import ATOMICS
from vkcompute.ir.builder import Builder, Loop
from vkcompute.ir.divergence import Divergence
from vkcompute.ir.float_atomics import emulate_float_atomics, float_atomics
from vkcompute.ir.float_conversions import saturate_conversions
from vkcompute.ir.float_polynomials import Polynomial
from vkcompute.ir.function import Constant, Function, GridPhases, Value
from vkcompute.ir.grid_barriers import divide_at_grid_barriers
from vkcompute.ir.grid_phases import phase_pushes
from vkcompute.ir.grid_wrapping import wrap_grid
from vkcompute.ir.interface import KernelModule
from vkcompute.ir.invocation_ids import IdAxes, id_axes
from vkcompute.ir.iterations import certain_excess, most_iterations
from vkcompute.ir.loop_cuts import with_cut_detection
from vkcompute.ir.loop_returns import move_returns_out
from vkcompute.ir.memory import ArrayBindings, Memory, Pack, Split, view_of
from vkcompute.ir.memory_views import merge_views
from vkcompute.ir.operation import Operation
from vkcompute.ir.operations import OPERATIONS
from vkcompute.ir.pipeline import legalize, lower, optimize
from vkcompute.ir.predication import predicate
from vkcompute.ir.printer import text
from vkcompute.ir.small_atomics import expand_small_atomics
from vkcompute.ir.small_types import in_words
from vkcompute.ir.subgroups import SUBGROUP_OPERATIONS
from vkcompute.ir.target import Target
from vkcompute.ir.texel_loads import load_texels
from vkcompute.ir.tile_coverage import TileMisfit, tile_misfits
from vkcompute.ir.types import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    SCALARS,
    UINT8,
    UINT32,
    UINT64,
    Scalar,
)
from vkcompute.ir.verifier import verify
from vkcompute.ir.warps import WARP_SIZE, expand_warps, order_volatile
from vkcompute.ir.workgroup_coverage import local_size_misfit
from vkcompute.ir.workgroup_division import divide_workgroups, is_divisible
from vkcompute.ir.workgroup_words import expand_workgroup_sums

__all__ = [
    "ATOMICS", "BOOL", "FLOAT16", "FLOAT32", "FLOAT64", "INT16", "INT32", "INT64", "OPERATIONS", "SCALARS",
    "SUBGROUP_OPERATIONS", "UINT32", "UINT64", "UINT8", "WARP_SIZE", "ArrayBindings", "Builder", "Constant",
    "Divergence", "Function", "GridPhases", "IdAxes", "IrError", "KernelModule", "Loop", "Memory", "Operation", "Pack",
    "Polynomial", "Scalar", "Split", "Target", "TileMisfit", "Value", "bind_arrays", "certain_excess",
    "divide_at_grid_barriers", "divide_workgroups", "emulate_float_atomics", "excess_bindings", "expand_small_atomics",
    "expand_warps", "expand_workgroup_sums", "float_atomics", "id_axes", "in_words", "is_divisible", "legalize",
    "load_texels", "local_size_misfit", "lower", "merge_views", "most_iterations", "move_returns_out", "optimize",
    "order_volatile", "phase_pushes", "predicate", "saturate_conversions", "text", "tile_misfits", "verify", "view_of",
    "with_cut_detection", "wrap_grid",
]  # fmt: skip
