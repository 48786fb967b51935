"""Grids: the number of workgroups of a launch along x, y and z."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.cost import Grid
from vkcompute.spirv.interface import Binding


class Grids:
    """The grids of one kernel's launches.

    Args:
        group_axes: the axes along which it reads ids of workgroups; none if it may compute one index from all of them.
    """

    def __init__(
        self,
        kernel: str,
        device: Device,
        local_size: tuple[int, int, int],
        bindings: Sequence[Binding],
        group_axes: Sequence[int] = (),
    ) -> None:
        self._kernel, self._device, self._local_size = kernel, device, local_size
        self._more_axes = [axis for axis in group_axes if axis > 0]
        self._limits: Grid = device.physical.limits["maxComputeWorkGroupCount"]
        self._first = next((at for at, binding in enumerate(bindings) if binding.writes), 0)
        self._written = next((binding for binding in bindings if binding.writes), None)

    def of(self, arrays: Sequence[Any], grid: int | Sequence[int] | None) -> Grid:
        """The grid of a launch on checked arrays: the given one, or by default one invocation per element.

        Raises:
            TypeError: the given grid is not one to three ints.
            ValueError: it exceeds the device's limits; or none is given, and there is no default.
        """
        chosen = self.default(arrays) if grid is None else self._checked(grid)
        if chosen is None:
            raise ValueError(self._no_default())
        return chosen

    def default(self, arrays: Sequence[Any]) -> Grid | None:
        """One invocation per element of the first array that the kernel writes; None if that does not apply."""
        x, y, z = self._local_size
        if y != 1 or z != 1 or self._more_axes or self._written is None or self._written.element is None:
            return None
        items = -(-arrays[self._first].nbytes // self._written.element.stride_bytes)
        groups = -(-items // x)
        return (groups, 1, 1) if groups <= self._limits[0] else None

    def _no_default(self) -> str:
        """The message for a launch that needs a grid: the reason and the remedy."""
        if self._local_size[1:] != (1, 1):
            why = f"its workgroups have {self._local_size} invocations, and only one dimension is guessed"
        elif self._more_axes:
            axes = " and ".join("xyz"[axis] for axis in self._more_axes)
            why = f"it reads ids along {axes}, and the default grid has workgroups along x only"
        elif self._written is None:
            why = "it writes no array"
        elif self._written.element is None:
            why = f"binding {self._written.binding}, the first that it writes, is no plain array"
        else:
            why = (
                f"one invocation per element is more than {self._limits[0]} groups along x; give two dimensions, and "
                "compute the index from both"
            )
        return f"{self._kernel} needs grid=(x, y, z), in workgroups of {self._local_size}: {why}"

    def _checked(self, grid: int | Sequence[int]) -> Grid:
        given = tuple(grid) if isinstance(grid, Iterable) else (grid,)
        if not 1 <= len(given) <= 3 or not all(isinstance(n, (int, np.integer)) for n in given):
            raise TypeError(f"a grid is one to three ints, in workgroups; got {grid!r}")
        if not all(0 <= n <= limit for n, limit in zip(given, self._limits, strict=False)):
            raise ValueError(
                f"grid {given} exceeds the limits of {self._device}, 0 to {self._limits}; launch several smaller grids"
            )
        x, y, z = (*map(int, given), 1, 1)[:3]
        return x, y, z
