"""Launches of programs, in windows where tensors exceed the limits of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.jit.compilation.arguments import MOST_ELEMENTS
from vkcompute.jit.elementwise.program import Programs
from vkcompute.jit.launching.loops import on_device
from vkcompute.jit.launching.plan import launch
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import runtime_of

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
        key: of the program, except its last part, `grid_wrapped`.
        args, pushes, plan_key: as for `launch`; the last of the arguments is a tensor.
    """
    runtime = runtime_of(args[-1])
    most = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
    n_rows = -(-n_groups // most)
    key = *key, n_rows > 1
    found = programs.find(key)
    placed = on_device(runtime, name, found, lambda: programs.function(key))
    launch(plan_key, found, placed, args, pushes, (-(-n_groups // n_rows), n_rows, 1))


def windows(n: int, tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Returns (start, stop) of the windows of `n` elements: as many as a binding and int32 allow.

    If a tensor has neither `n` elements nor one, there is a single window; the launch checks the limits.
    """
    widest = max([tensor.dtype.itemsize for tensor in tensors])
    most = min(tensors[0].runtime.device.max_binding_bytes // widest, MOST_ELEMENTS)
    step = max(most // _STEP, 1) * _STEP
    if n <= most or any(tensor.size not in (1, n) for tensor in tensors):
        step = max(n, 1)
    return [(start, min(start + step, n)) for start in range(0, n, step)]


def window(tensor: Tensor, start: int, stop: int, n: int) -> Tensor:
    """Returns the window of a tensor of `n` elements, and any other tensor whole."""
    return tensor if tensor.size != n or stop - start == n else tensor.reshape(-1)[start:stop]


def unaliased(tensors: Sequence[Any], masks: Sequence[tuple[bool, ...]], outs: Sequence[Tensor]) -> list[Any]:
    """Returns the tensors, with copies of those that alias a result other than element by element."""
    found = []
    for tensor, mask in zip(tensors, masks, strict=True):
        # Do not copy a non-contiguous tensor here: the launch must reject it.
        shared = tensor.contiguous and any(
            tensor.overlaps(out) and not (all(mask) and tensor.span == out.span) for out in outs
        )
        found.append(tensor.copy() if shared else tensor)
    return found
