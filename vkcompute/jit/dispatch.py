"""Launches of what is compiled for each element, on the device of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vkcompute.jit.arguments import MOST_ELEMENTS
from vkcompute.jit.compile import unchanged
from vkcompute.jit.elements import Built
from vkcompute.jit.loops import on_device
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import runtime_of

_STEP = 1 << 18  # windows begin at multiples: those of what a pass reduces to one, and in bytes of every alignment


class Programs:
    """What has been compiled, by what it was compiled for; compiled again where constants from outside have changed."""

    def __init__(self, build: Callable[..., Built]) -> None:
        self._build = build
        self._built: dict[tuple[Any, ...], Built] = {}

    def __call__(self, *key: Any) -> Built:
        found = self._built.get(key)
        if found is None or (found.reads and not unchanged(found.reads)):
            found = self._built[key] = self._build(*key)
        return found


def dispatch(
    name: str, program: Callable[[bool], Built], tensors: Sequence[Tensor], pushes: Sequence[Any], n_groups: int
) -> None:
    """Launches so many workgroups; more than the device has along x go on along y (`program(True)`)."""
    runtime = runtime_of(tensors[0])
    most = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
    n_rows = -(-n_groups // most)
    built = program(n_rows > 1)
    load = partial(runtime.kernel, built.spirv, name=name)
    kernel, _, loops = on_device(runtime, built.spirv, built.passes, load, lambda: built.function)
    grid = -(-n_groups // n_rows), n_rows, 1
    if loops is None:
        kernel(*tensors, *pushes, grid=grid)
    else:
        loops.launch(tensors, pushes, grid)


def windows(n: int, tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    """(start, stop) of the elements to see at a time: all of `n`, or as many as the device binds and int32 counts.

    Where a tensor has neither `n` elements nor one, it is all: what does not fit is refused at the launch.
    """
    widest = max([tensor.dtype.itemsize for tensor in tensors])
    most = min(tensors[0].runtime.device.max_binding_bytes // widest, MOST_ELEMENTS)
    step = max(most // _STEP, 1) * _STEP
    if n <= most or any(tensor.size not in (1, n) for tensor in tensors):
        step = max(n, 1)
    return [(start, min(start + step, n)) for start in range(0, n, step)]


def window(tensor: Tensor, start: int, stop: int, n: int) -> Tensor:
    """What is seen of a tensor of `n` elements, and all of one that has others."""
    return tensor if tensor.size != n or stop - start == n else tensor.reshape(-1)[start:stop]


def apart(tensors: Sequence[Any], masks: Sequence[tuple[bool, ...]], outs: Sequence[Tensor]) -> list[Any]:
    """The tensors, with copies of those that share bytes with a result and are not read just where it is written."""
    found = []
    for tensor, mask in zip(tensors, masks, strict=True):
        # What is not contiguous is refused at the launch; a copy of it would not be.
        shared = tensor.contiguous and any(
            tensor.overlaps(out) and not (all(mask) and tensor.span == out.span) for out in outs
        )
        found.append(tensor.copy() if shared else tensor)
    return found
