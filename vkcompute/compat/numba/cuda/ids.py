"""Positions of threads: `cuda.grid`, `cuda.threadIdx` and others."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkcompute.compat.numba.kernel_names import Readable, ReadableNumber, in_kernels, refuse_outside_kernel
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, INT64, UINT32, WARP_SIZE
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.jit.library import warp
from vkcompute.jit.library.ids import builtin

_AXES = "x", "y", "z"


def _read(name: str, c: NumbaKernels, axis: int) -> Number:
    return builtin(name, c, axis) if c.folded is None else c.folded.id(c, name, axis)


def _threads(c: NumbaKernels, axis: int) -> int:
    return (c.function.local_size if c.folded is None else c.folded.threads)[axis]


def _along(name: str, c: NumbaKernels, axis: str) -> Number:
    return _read(name, c, _AXES.index(axis))


def _block_dim(c: NumbaKernels, axis: str) -> Number:
    return c.converted(_threads(c, _AXES.index(axis)), INT32)


threadIdx = Readable("threadIdx", partial(_along, "local_id"), *_AXES)  # noqa: N816
"""Position of the thread in its block along x, y and z; int32."""
blockIdx = Readable("blockIdx", partial(_along, "group_id"), *_AXES)  # noqa: N816
"""Position of the block in the grid; int32."""
blockDim = Readable("blockDim", _block_dim, *_AXES)  # noqa: N816
"""Threads of a block; int32."""
gridDim = Readable("gridDim", partial(_along, "n_groups"), *_AXES)  # noqa: N816
"""Blocks of the grid; int32."""
warpsize = ReadableNumber("warpsize", lambda c, _: c.converted(WARP_SIZE, INT32))
"""Threads of a warp: 32."""
laneid = ReadableNumber("laneid", lambda c, _: c.call_intrinsic(warp.local_id, []))
"""Position of the thread in its warp; int32."""


def _axes(c: NumbaKernels, ndim: Any, name: str) -> int:
    if not isinstance(ndim, int) or not 1 <= ndim <= 3:
        raise UnsupportedError(
            f"RequireLiteralValue: {name} takes 1, 2 or 3, known at compile time; got {c.describe(ndim)}"
        )
    return ndim


def _position(c: NumbaKernels, axis: int) -> Number:
    """Returns the position of the thread in the grid; below 2**31, as vc.kernel's ids."""
    return c.converted(_read("global_id", c, axis), INT64)


def _extent(c: NumbaKernels, axis: int) -> Number:
    groups = c.builder.cast(_read("n_groups", c, axis).value, UINT32)
    size = c.builder.compute("mul", groups, c.builder.const(_threads(c, axis), UINT32))
    return Number(c.builder.cast(size, INT64), Kind(INT64))


def _per_axis(one: Any, name: str, c: NumbaKernels, ndim: Any) -> Any:
    values = tuple([one(c, axis) for axis in range(_axes(c, ndim, name))])
    return values if len(values) > 1 else values[0]


@in_kernels(partial(_per_axis, _position, "grid"))
def grid(ndim: int) -> Any:
    """Position of the thread in the grid: an int64 for 1, else a tuple along x, y and z."""
    refuse_outside_kernel("cuda.grid")


@in_kernels(partial(_per_axis, _extent, "gridsize"))
def gridsize(ndim: int) -> Any:
    """Threads of the grid: an int64 for 1, else a tuple along x, y and z."""
    refuse_outside_kernel("cuda.gridsize")
