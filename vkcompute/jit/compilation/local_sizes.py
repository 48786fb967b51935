"""Kernels whose shared arrays or tiles are made for another local size than that of a launch."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute import ir
from vkcompute.compiled.specialization import Misfit
from vkcompute.errors import KernelError
from vkcompute.frontend.source import Definition
from vkcompute.jit.frontend.array_access import WHERE

_REMEDY = "declare the local size that the {} made for, as @vc.kernel(local_size=(16, 16)), or launch with it"


def demand_fit(function: ir.Function) -> None:
    """Raises KernelError if a kernel's shared arrays are indexed for another local size."""
    misfit = ir.local_size_misfit(function)
    if misfit is None or misfit.access.memory is None or not isinstance(misfit.access.loc, KernelError):
        return
    n, size = misfit.access.memory.length, function.local_size
    what = f"this accesses element {misfit.element} of a shared array of {n}, in workgroups of {size}"
    if not misfit.is_outside:
        what = (
            f"this reads element {misfit.element} of a shared array of {n}, which no invocation writes in workgroups "
            f"of {size}"
        )
    remedy = "index elements from 0" if misfit.element < 0 else _REMEDY.format("array is")
    raise KernelError(str(misfit.access.loc).replace(WHERE, f"{what}; {remedy}"))


def tile_misfits(function: ir.Function, definition: Definition) -> tuple[Misfit, ...]:
    """Returns the tiles of arrays that do not fit the local size; without a location of their own at the function's."""
    misfits = []
    for op, axis, stride, are_apart in ir.tile_misfits(function):
        harm = "leave out elements between them" if are_apart else "write elements that their neighbours write, too"
        what = (
            f"these tiles begin {stride} elements apart along {'xyz'[axis]} of the grid, and workgroups of "
            f"{function.local_size} {harm}; {_REMEDY.format('tiles are')}"
        )
        where = op.loc if isinstance(op.loc, KernelError) else definition.error(WHERE)
        misfits.append((axis, str(where).replace(WHERE, what)))
    return tuple(misfits)


def demand_tiles(misfits: Sequence[Misfit], groups: tuple[int, ...] | None) -> None:
    """Raises KernelError for a grid of several workgroups along an axis whose tiles do not fit the local size.

    So does the default grid, which is None.
    """
    for axis, error in misfits:
        if groups is None or (axis < len(groups) and groups[axis] > 1):
            raise KernelError(error)
