"""Launches of programs, in windows where tensors exceed the limits of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from vkcompute.jit.compilation.arguments import MOST_ELEMENTS
from vkcompute.jit.compilation.build import CompileOptions
from vkcompute.jit.elementwise.program import Programs
from vkcompute.jit.launching.loops import on_device
from vkcompute.jit.launching.plan import launch
from vkcompute.jit.launching.target import target_of
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.memory.layout import broadcast_strides
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime, runtime_of

_SLACK_BYTES = 256  # a view is bound from an aligned byte before it
_STEP = 1 << 18  # windows start at multiples of it: a multiple of each stage's chunk, and of every alignment in bytes


def dispatch(
    name: str,
    programs: Programs,
    key: tuple[Any, ...],
    args: Sequence[Any],
    pushes: Sequence[Any],
    n_groups: int,
    plan_key: tuple[Any, ...] | None = None,
) -> None:
    """Launches `n_groups` workgroups; the grid is wrapped beyond the device's limit along x.

    Args:
        key: of the program, except its last part, the options.
        args, pushes, plan_key: as for `launch`; the last of the arguments is a tensor.
    """
    runtime = runtime_of(args[-1])
    most = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
    n_rows = -(-n_groups // most)
    key = *key, options_on(runtime)._replace(grid_wrapped=n_rows > 1)
    found = programs.find(key)
    placed = on_device(runtime, name, found, lambda: programs.function(key))
    launch(plan_key, found, placed, args, pushes, (-(-n_groups // n_rows), n_rows, 1))


def options_on(runtime: Runtime) -> CompileOptions:
    """Returns the options of programs on a runtime."""
    return CompileOptions(target=target_of(runtime))


def windows(n: int, tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Returns (start, stop) of the windows of `n` elements: as many as a binding and int32 allow.

    If a tensor has neither `n` elements nor one, or is not contiguous, there is a single window; the launch checks the
    limits.
    """
    widest = max([tensor.dtype.itemsize for tensor in tensors])
    slack = _SLACK_BYTES if any(tensor.offset for tensor in tensors) else 0
    most = min((tensors[0].runtime.device.max_binding_bytes - slack) // widest, MOST_ELEMENTS)
    step = most // _STEP * _STEP
    if n <= most or not step or any(tensor.size not in (1, n) or not tensor.contiguous for tensor in tensors):
        step = max(n, 1)
    return [(start, min(start + step, n)) for start in range(0, n, step)]


def window(tensor: Tensor, start: int, stop: int, n: int) -> Tensor:
    """Returns the window of a tensor of `n` elements, and any other tensor whole."""
    return tensor if tensor.size != n or stop - start == n else tensor.reshape(-1)[start:stop]


def axis_to_halve(shape: Sequence[int], tensors: Sequence[Tensor], axes: Sequence[int] | None = None) -> int | None:
    """Returns the axis of a broadcast shape to halve, as a tensor exceeds the limits of a kernel; None if none does.

    Args:
        axes: those that may be halved; None for all.
    """
    largest = max(tensors, key=_nbytes_spanned)
    if not exceeds_binding(largest) and prod(shape) <= MOST_ELEMENTS:
        return None
    strides = broadcast_strides(largest.shape, largest.strides, tuple(shape))
    allowed = [axis for axis in (range(len(shape)) if axes is None else axes) if shape[axis] > 1]
    return max(allowed, key=lambda axis: (shape[axis] - 1) * abs(strides[axis]), default=None)


def exceeds_binding(tensor: Tensor) -> bool:
    """True if a tensor may be larger than a binding."""
    return _nbytes_spanned(tensor) > tensor.runtime.device.max_binding_bytes - _SLACK_BYTES


def _nbytes_spanned(tensor: Tensor) -> int:
    _, start, stop = tensor.span
    return int(stop - start)


def part_along(tensor: Any, axis: int, within: slice, shape: Sequence[int]) -> Any:
    """Returns the part of a tensor along an axis of the broadcast shape; a number, or a repeated tensor, whole."""
    if type(tensor) is not Tensor:
        return tensor
    at = axis - len(shape) + tensor.ndim
    if at < 0 or tensor.shape[at] != shape[axis]:
        return tensor
    return tensor[(slice(None),) * at + (within,)]


def halves(n: int) -> list[slice]:
    """Returns both halves of an axis."""
    return [slice(0, n // 2), slice(n // 2, n)]


def unaliased(tensors: Sequence[Any], masks: Sequence[tuple[bool, ...]], outs: Sequence[Tensor]) -> list[Any]:
    """Returns the tensors, with copies of those that alias a result other than element by element.

    Inputs of a graph that is recorded are checked in each run.
    """
    graph = recording_graph(outs[0].runtime.scheduler) if outs else None
    found = []
    for tensor, mask in zip(tensors, masks, strict=True):
        if any(tensor.overlaps(out) and not (all(mask) and _same(tensor, out)) for out in outs):
            found.append(tensor.copy())
            continue
        found.append(tensor)
        for out in outs:
            if graph is not None:
                graph.require_apart(tensor, out, unless_same=all(mask) and tensor.contiguous and out.contiguous)
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    """True if two overlapping tensors have the same elements in the same order."""
    if one.contiguous and other.contiguous:
        return bool(one.span == other.span)
    return (one.offset, one.shape, one.strides) == (other.offset, other.shape, other.strides)
