"""The pipeline of compiler passes."""

from __future__ import annotations

from collections.abc import Callable

from vkcompute.ir.array_fills import expand_fills
from vkcompute.ir.bools import expand_bools
from vkcompute.ir.elimination import eliminate_common_subexpressions, eliminate_dead_code, fold_branches
from vkcompute.ir.flattening import flatten_chains
from vkcompute.ir.float_division import expand_divisions
from vkcompute.ir.float_remainders import expand_float_remainders
from vkcompute.ir.function import Function
from vkcompute.ir.interface import KernelModule
from vkcompute.ir.loop_invariants import hoist_loop_invariants
from vkcompute.ir.lowering import to_spirv
from vkcompute.ir.narrowing import narrow_integers
from vkcompute.ir.promotion import promote_arrays
from vkcompute.ir.recomputation import prevent_recomputation
from vkcompute.ir.small_types import widen_small_floats, widen_small_types
from vkcompute.ir.target import ANY, Target
from vkcompute.ir.unrolling import unroll_loops
from vkcompute.ir.wide_types import split_wide_types

Pass = Callable[[Function], Function]
"""Returns a valid function with the same results: its argument, changed in place, or a new one."""

OPTIMIZATIONS: tuple[Pass, ...] = (
    widen_small_floats,
    unroll_loops,
    promote_arrays,
    expand_fills,
    narrow_integers,
    hoist_loop_invariants,
    eliminate_common_subexpressions,
    eliminate_dead_code,
)
LEGALIZATIONS: tuple[Pass, ...] = (
    fold_branches,  # validation layers reject a branch on a constant whose untaken side continues a loop
    expand_float_remainders,
    flatten_chains,
)


def optimize(function: Function) -> Function:
    """Optimizes a function in place."""
    return run(OPTIMIZATIONS, function)


def legalize(function: Function) -> Function:
    """Replaces what `lower` has no instructions for, in place, as far as that depends on no target."""
    return run(LEGALIZATIONS, function)


def lower(function: Function, target: Target = ANY) -> KernelModule:
    """The SPIR-V 1.3 module of a valid function, with its interface; its entry point is "main"."""
    function = expand_bools(legalize(function))
    if not target.divides_exactly:
        function = expand_divisions(function)
    function = split_wide_types(widen_small_types(function, target), target)
    if target.recomputes_across_barriers:
        function = prevent_recomputation(function)
    return to_spirv(function, target)


def run(passes: tuple[Pass, ...], function: Function) -> Function:
    """Runs passes in order."""
    for transform in passes:
        function = transform(function)
    return function
