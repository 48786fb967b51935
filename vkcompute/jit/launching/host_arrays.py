"""NumPy arrays as arguments of a launch: copies on the device, which are copied back where the kernel writes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.errors import HostCopyWarning, warn_caller
from vkcompute.jit.launching.spilling_kernel import AnyKernel
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.layout import shares_memory
from vkcompute.runtime.runtime import Runtime

_ARRAYS = np.ndarray, np.memmap
"""Other classes may hold more than the elements, as the mask of a masked array."""


def is_host_array(arg: Any) -> bool:
    """True for a NumPy array with axes, of a dtype that device arrays have."""
    return type(arg) in _ARRAYS and arg.ndim > 0 and arg.dtype in dtypes.BY_NUMPY


class HostArrays:
    """The NumPy arrays among the arguments of one launch.

    Attributes:
        args: the arguments, with a device array for each NumPy array; one for a NumPy array that is given twice.
    """

    def __init__(self, name: str, runtime: Runtime, args: Sequence[Any]) -> None:
        self._name = name
        self._arrays: list[np.ndarray[Any, Any] | None] = [arg if is_host_array(arg) else None for arg in args]
        copies: dict[tuple[Any, ...], Array] = {}
        for array in self._arrays:
            if array is not None and (key := _key(array)) not in copies:
                copies[key] = temporary(runtime, array.shape, array.dtype)
                copies[key].write(array)
        self.args = tuple([copies[_key(arg)] if is_host_array(arg) else arg for arg in args])
        _warn(name)

    def check(self, kernel: AnyKernel) -> None:
        """Checks the arrays that a kernel writes.

        Raises:
            ValueError: one is read-only, or shares memory with another array without being the same.
        """
        written = {_key(array): array for _, array in self._results(kernel)}
        if not all(array.flags.writeable for array in written.values()):
            raise ValueError(f"{self._name} writes an array that is read-only; pass a copy of it")
        distinct = {_key(array): array for array in self._arrays if array is not None}
        for one, other in combinations(distinct, 2):
            if not written.keys().isdisjoint((one, other)) and shares_memory(distinct[one], distinct[other]):
                raise ValueError(
                    f"{self._name} writes one of two arrays that share memory, and each is copied; pass views of one "
                    "array, or copies"
                )

    def read(self, kernel: AnyKernel) -> None:
        """Copies the arrays back that a kernel writes. Waits for it."""
        for array, host in {id(array): (array, host) for array, host in self._results(kernel)}.values():
            array.read(host)

    def _results(self, kernel: AnyKernel) -> list[tuple[Array, np.ndarray[Any, Any]]]:
        arrays = [(arg, host) for arg, host in zip(self.args, self._arrays, strict=True) if type(arg) is Array]
        written = [arrays[at] for at in kernel.writes if at < len(arrays)]  # behind them is the buffer for reports
        return [(array, host) for array, host in written if host is not None]


def _key(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Returns equal keys for arrays with the same elements in the same memory."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _warn(name: str) -> None:
    warn_caller(
        f"{name} is launched on NumPy arrays, which each launch copies to the device, and back where the kernel writes "
        "them, and waits for; keep the data on the device, as runtime.array(data), and read the result by .numpy()",
        HostCopyWarning,
    )
