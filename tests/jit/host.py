"""Arrays of the host with as much of a tensor's interface as the tests of kernels use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import numpy as np

from vkcompute.jit.simulator.subgroup import SUBGROUP_SIZE

Shape = int | tuple[int, ...]


class HostTensor(np.ndarray[Any, Any]):
    """An array that gives itself where a tensor would be downloaded."""

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.array(self)


class SimulatedRuntime(AbstractContextManager["SimulatedRuntime", None]):
    """Makes arrays as a runtime makes tensors."""

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def tensor(self, data: Any) -> HostTensor:
        return np.array(data).view(HostTensor)

    def full(self, shape: Shape, value: Any, dtype: Any = np.float32) -> HostTensor:
        return self.tensor(np.full(shape, value, dtype))

    def zeros(self, shape: Shape, dtype: Any = np.float32) -> HostTensor:
        return self.full(shape, 0, dtype)

    empty = zeros
    device = SimpleNamespace(physical=SimpleNamespace(subgroup_size=SUBGROUP_SIZE))
