"""Barriers of blocks and grids, fences, and operations of warps."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkcompute.compat.numba.folded_grids import demand_unfolded
from vkcompute.compat.numba.kernel_names import Readable, in_kernels, refuse_outside_kernel
from vkcompute.compat.numba.language import CooperativeError, NumbaKernels
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, UINT32
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.jit.library import warp, workgroup

_ALL = 0xFFFFFFFF


def _called(function: Any, c: NumbaKernels) -> Any:
    return c.call_intrinsic(function, [])


def _voted(function: Any, c: NumbaKernels, predicate: Any) -> Number:
    demand_unfolded(c, "syncthreads with a predicate")
    return c.converted(c.call_intrinsic(function, [predicate]), INT32)


@in_kernels(partial(_called, workgroup.barrier))
def syncthreads() -> None:
    """Waits for all threads of the block."""
    refuse_outside_kernel("cuda.syncthreads")


@in_kernels(partial(_voted, workgroup.barrier_count))
def syncthreads_count(predicate: Any) -> int:
    """A barrier that counts the threads of the block for which a predicate is true."""
    refuse_outside_kernel("cuda.syncthreads_count")


@in_kernels(partial(_voted, workgroup.barrier_all))
def syncthreads_and(predicate: Any) -> int:
    """A barrier that returns 1 if a predicate is true for all threads of the block."""
    refuse_outside_kernel("cuda.syncthreads_and")


@in_kernels(partial(_voted, workgroup.barrier_any))
def syncthreads_or(predicate: Any) -> int:
    """A barrier that returns 1 if a predicate is true for a thread of the block."""
    refuse_outside_kernel("cuda.syncthreads_or")


@in_kernels(lambda c, mask=_ALL: c.call_intrinsic(warp.barrier, []))
def syncwarp(mask: int = _ALL) -> None:
    """Waits for the active lanes of the warp."""
    refuse_outside_kernel("cuda.syncwarp")


@in_kernels(partial(_called, workgroup.memory_fence))
def threadfence() -> None:
    """Orders writes for the device."""
    refuse_outside_kernel("cuda.threadfence")


@in_kernels(partial(_called, workgroup.memory_fence))
def threadfence_block() -> None:
    """Orders writes for the block."""
    refuse_outside_kernel("cuda.threadfence_block")


@in_kernels(partial(_called, workgroup.memory_fence))
def threadfence_system() -> None:
    """Orders writes for the device; the host sees them when the launch has finished."""
    refuse_outside_kernel("cuda.threadfence_system")


def _shuffled(function: Any, c: NumbaKernels, mask: Any, value: Any, lane: Any) -> Any:
    kind = c.kind(value).type
    return c.call_intrinsic(function, [c.converted(value, kind), lane])


@in_kernels(partial(_shuffled, warp.shuffle))
def shfl_sync(mask: int, value: Any, src_lane: int) -> Any:
    """Value of another lane."""
    refuse_outside_kernel("cuda.shfl_sync")


@in_kernels(partial(_shuffled, warp.shuffle_up))
def shfl_up_sync(mask: int, value: Any, delta: int) -> Any:
    """Value of the lane `delta` below; its own where there is none."""
    refuse_outside_kernel("cuda.shfl_up_sync")


@in_kernels(partial(_shuffled, warp.shuffle_down))
def shfl_down_sync(mask: int, value: Any, delta: int) -> Any:
    """Value of the lane `delta` above; its own where there is none."""
    refuse_outside_kernel("cuda.shfl_down_sync")


@in_kernels(partial(_shuffled, warp.shuffle_xor))
def shfl_xor_sync(mask: int, value: Any, lane_mask: int) -> Any:
    """Value of the lane `laneid ^ lane_mask`."""
    refuse_outside_kernel("cuda.shfl_xor_sync")


def _vote(function: Any, c: NumbaKernels, mask: Any, predicate: Any) -> Any:
    if c.kind(mask).type.kind not in "iu":
        raise UnsupportedError(f"Mask type must be an integer; got {c.describe(mask)}")
    if c.kind(predicate).type.kind not in "biu":
        raise UnsupportedError(f"Predicate must be an integer or boolean; got {c.describe(predicate)}")
    return c.call_intrinsic(function, [predicate, mask])


def _equal(c: NumbaKernels, mask: Any, predicate: Any) -> Any:
    all_of, any_of = [c.call_intrinsic(vote, [predicate, mask]) for vote in (warp.all, warp.any)]
    return c.binary("|", all_of, c.unary("not", any_of))


@in_kernels(partial(_vote, warp.all))
def all_sync(mask: int, predicate: Any) -> bool:
    """True if a predicate is true for all lanes of the mask."""
    refuse_outside_kernel("cuda.all_sync")


@in_kernels(partial(_vote, warp.any))
def any_sync(mask: int, predicate: Any) -> bool:
    """True if a predicate is true for a lane of the mask."""
    refuse_outside_kernel("cuda.any_sync")


@in_kernels(_equal)
def eq_sync(mask: int, predicate: Any) -> bool:
    """True if a predicate is the same for all lanes of the mask."""
    refuse_outside_kernel("cuda.eq_sync")


@in_kernels(partial(_vote, warp.ballot))
def ballot_sync(mask: int, predicate: Any) -> int:
    """Mask of the lanes of the mask for which a predicate is true; uint32."""
    refuse_outside_kernel("cuda.ballot_sync")


@in_kernels(lambda c, mask, value: c.call_intrinsic(warp.match_any, [value, mask]))
def match_any_sync(mask: int, value: Any) -> int:
    """Mask of the lanes that have the same value."""
    refuse_outside_kernel("cuda.match_any_sync")


def _match_all(c: NumbaKernels, mask: Any, value: Any) -> Any:
    alike = c.call_intrinsic(warp.match_all, [value, mask])
    lanes = c.call_intrinsic(warp.active_mask, [])
    lanes = Number(c.builder.compute("and", lanes.value, c.cast(mask, UINT32)), Kind(UINT32))
    return c.where(alike, lanes, c.converted(0, UINT32)), alike


@in_kernels(_match_all)
def match_all_sync(mask: int, value: Any) -> Any:
    """Mask of the lanes if all have the same value, else 0; and whether they have."""
    refuse_outside_kernel("cuda.match_all_sync")


@in_kernels(partial(_called, warp.active_mask))
def activemask() -> int:
    """Mask of the active lanes; uint32."""
    refuse_outside_kernel("cuda.activemask")


def _lanes_below(c: NumbaKernels) -> Number:
    b, lane = c.builder, c.call_intrinsic(warp.local_id, [])
    bit = b.compute("shl", b.const(1, UINT32), b.cast(lane.value, UINT32))
    return Number(b.compute("sub", bit, b.const(1, UINT32)), Kind(UINT32))


@in_kernels(_lanes_below)
def lanemask_lt() -> int:
    """Mask of the lanes below this one; uint32."""
    refuse_outside_kernel("cuda.lanemask_lt")


@in_kernels(lambda c, ns: None)
def nanosleep(ns: int) -> None:
    """Has no effect here."""
    refuse_outside_kernel("cuda.nanosleep")


def _wait_for_grid(c: NumbaKernels) -> None:
    c.call_intrinsic(workgroup.barrier if c.has_one_block else workgroup.grid_barrier, [])


_GRID = Readable("cuda.cg.this_grid()", lambda c, _: Intrinsic(_wait_for_grid, 0, 0), "sync")


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
        refuse_outside_kernel("cuda.cg.this_grid")
