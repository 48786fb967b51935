"""Launches of programs, in windows where arrays exceed the limits of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from vkcompute.compiled.arguments import MOST_ELEMENTS
from vkcompute.compiled.launches import Compiled, is_wrapped
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.compiled.target import target_of
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.launching.arguments import MAX_BINDING_SLACK
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.layout import broadcast_strides
from vkcompute.runtime.runtime import Runtime, runtime_of

N_RESERVED = 1
"""Bindings that a kernel may need beside its arrays: the buffer for loops that the driver ends early."""
_STEP = 1 << 18  # windows start at multiples of it: a multiple of each stage's chunk, and of every alignment in bytes


def dispatch(
    programs: Compiled,
    key: tuple[Any, ...],
    args: Sequence[Any],
    pushes: Sequence[Any],
    n_groups: int,
    plan_key: tuple[Any, ...] | None = None,
) -> None:
    """Launches `n_groups` workgroups; the grid is wrapped beyond the device's limit along x.

    Args:
        key: of the program, except its last part, the options.
        args, pushes, plan_key: as for `Loaded.launch`; the last of the arguments is an array.
    """
    runtime = runtime_of(args[-1])
    grid = n_groups, 1, 1
    options = options_on(runtime)._replace(grid_wrapped=is_wrapped(grid, runtime))
    programs.on(runtime, *key, options).launch(args, pushes, grid, key=plan_key)


def options_on(runtime: Runtime) -> CompileOptions:
    """Returns the options of programs on a runtime."""
    return CompileOptions(target=target_of(runtime))


def windows(n: int, arrays: Sequence[Array], n_more: int = 0) -> list[tuple[int, int]]:
    """Returns (start, stop) of the windows of `n` elements: as many as a binding and int32 allow.

    Of more arrays than the device binds, with `n_more` others, all of them fit one binding, which some share.

    If an array has neither `n` elements nor one, or is not contiguous, there is a single window; the launch checks the
    limits.
    """
    widest = max([array.dtype.itemsize for array in arrays])
    slack = MAX_BINDING_SLACK if any(array.offset for array in arrays) else 0
    runtime = runtime_of(arrays[0])
    most = min((runtime.device.max_binding_bytes - slack) // (widest * _n_sharing(arrays, n_more)), MOST_ELEMENTS)
    step = most // _STEP * _STEP
    if n <= most or not step or any(array.size not in (1, n) or not array.contiguous for array in arrays):
        step = max(n, 1)
    return [(start, min(start + step, n)) for start in range(0, n, step)]


def _n_sharing(arrays: Sequence[Array], n_more: int) -> int:
    """Returns how many of these arrays may share a binding: all, if they are more than the device binds."""
    n_bound, n = target_of(runtime_of(arrays[0])).max_storage_buffers, len(arrays) + n_more + N_RESERVED
    return len(arrays) if n_bound is not None and n > n_bound else 1


def window(array: Array, start: int, stop: int, n: int) -> Array:
    """Returns the window of an array of `n` elements, and any other array whole."""
    return array if array.size != n or stop - start == n else array.reshape(-1)[start:stop]


def axis_to_halve(
    shape: Sequence[int], arrays: Sequence[Array], axes: Sequence[int] | None = None, n_more: int = 0
) -> int | None:
    """Returns the axis of a broadcast shape to halve, as an array exceeds the limits of a kernel; None if none does.

    Args:
        axes: those that may be halved; None for all.
        n_more: the arrays that the kernel takes beside these.
    """
    largest = max(arrays, key=_nbytes_spanned)
    most = most_bytes(largest) // _n_sharing(arrays, n_more)
    if _nbytes_spanned(largest) <= most and prod(shape) <= MOST_ELEMENTS:
        return None
    strides = broadcast_strides(largest.shape, largest.strides, tuple(shape))
    allowed = [axis for axis in (range(len(shape)) if axes is None else axes) if shape[axis] > 1]
    return max(allowed, key=lambda axis: (shape[axis] - 1) * abs(strides[axis]), default=None)


def is_larger_than_binding(array: Array) -> bool:
    """True if an array may be larger than a binding."""
    return _nbytes_spanned(array) > most_bytes(array)


def most_bytes(array: Array) -> int:
    """Returns the bytes that a binding has on the array's device, wherever an array begins."""
    return int(array.runtime.device.max_binding_bytes) - MAX_BINDING_SLACK


def _nbytes_spanned(array: Array) -> int:
    _, start, stop = array.span
    return int(stop - start)


def part_along(array: Any, axis: int, within: slice, shape: Sequence[int]) -> Any:
    """Returns the part of an array along an axis of the broadcast shape; a number, or a repeated array, whole."""
    if type(array) is not Array:
        return array
    at = axis - len(shape) + array.ndim
    if at < 0 or array.shape[at] != shape[axis]:
        return array
    return array[(slice(None),) * at + (within,)]


def halves(n: int) -> list[slice]:
    """Returns both halves of an axis."""
    return [slice(0, n // 2), slice(n // 2, n)]


def unaliased(arrays: Sequence[Any], masks: Sequence[tuple[bool, ...]], outs: Sequence[Array]) -> list[Any]:
    """Returns the arrays, with copies of those that alias a result other than element by element.

    Of several results, none may alias an array: drivers may load an element for one after they stored another. Inputs
    of a graph that is recorded are checked in each run.
    """
    in_place = len(outs) == 1
    graph = recording_graph(outs[0].runtime.scheduler) if outs else None
    operands = []
    for array, mask in zip(arrays, masks, strict=True):
        if any(array.overlaps(out) and not (in_place and all(mask) and _same(array, out)) for out in outs):
            operands.append(array.copy())
            continue
        operands.append(array)
        for out in outs:
            if graph is not None:
                graph.require_apart(
                    array, out, unless_same=in_place and all(mask) and array.contiguous and out.contiguous
                )
    return operands


def _same(one: Array, other: Array) -> bool:
    """True if two overlapping arrays have the same elements in the same order."""
    if one.contiguous and other.contiguous:
        return bool(one.span == other.span)
    return (one.offset, one.shape, one.strides) == (other.offset, other.shape, other.strides)
