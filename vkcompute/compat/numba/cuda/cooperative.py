"""Cooperative groups: `cuda.cg.this_grid()`, which waits for all threads of a grid."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.numba.kernel_names import Readable, in_kernels, outside
from vkcompute.compat.numba.language import CooperativeError, NumbaKernels
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.library import workgroup


def _synchronized(c: NumbaKernels) -> None:
    c.call_intrinsic(workgroup.barrier if c.has_one_block else workgroup.grid_barrier, [])


_GRID = Readable("cuda.cg.this_grid()", lambda c, _: Intrinsic(_synchronized, 0, 0), "sync")


def _this_grid(c: NumbaKernels) -> Readable:
    if not c.is_cooperative:
        raise CooperativeError(str(c.error("this kernel is launched cooperatively")))
    return _GRID


class cg:  # noqa: N801
    """Groups of threads."""

    @staticmethod
    @in_kernels(_this_grid)
    def this_grid() -> Any:
        """The grid; its `sync()` waits for all threads, at a workgroup's barrier if that holds them."""
        outside("cuda.cg.this_grid")
