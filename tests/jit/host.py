"""NumPy arrays with as much of a device array's interface as the tests of kernels use, and launches on either."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.jit.simulator.subgroup import SUBGROUP_SIZE

Shape = int | tuple[int, ...]


class HostArray(np.ndarray[Any, Any]):
    """A NumPy array that gives itself where a device array would be downloaded."""

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.array(self)


class SimulatedRuntime(AbstractContextManager["SimulatedRuntime", None]):
    """Makes NumPy arrays as a runtime makes device arrays."""

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def array(self, data: Any) -> HostArray:
        return np.array(data).view(HostArray)

    def full(self, shape: Shape, value: Any, dtype: Any = np.float32) -> HostArray:
        return self.array(np.full(shape, value, dtype))

    def zeros(self, shape: Shape, dtype: Any = np.float32) -> HostArray:
        return self.full(shape, 0, dtype)

    empty = zeros
    device = SimpleNamespace(
        physical=SimpleNamespace(subgroup_size=SUBGROUP_SIZE, subgroup_operations={"arithmetic", "shuffle"})
    )


def run(
    gpu: Any, kernel: Any, n: int, out: np.ndarray[Any, Any], *args: Any, local_size: int = 64
) -> np.ndarray[Any, Any]:
    """Launches kernel(*args, out) with `n` invocations or more, and returns what is in `out` then."""
    try:
        arrays = [gpu.array(arg) if isinstance(arg, np.ndarray) else arg for arg in (*args, out)]
        kernel[-(-n // local_size), local_size](*arrays)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    result: np.ndarray[Any, Any] = arrays[-1].numpy()
    return result
