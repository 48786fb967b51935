"""NumPy arrays as arguments of a launch: copies on the device, which are copied back where the kernel writes them.

Arrays that a kernel captures are constant tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.compiled.captured import Table
from vkcompute.compiled.spilling_kernel import AnyKernel
from vkcompute.errors import HostCopyWarning, warn_caller
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.memory.layout import address, shares_elements, shares_memory
from vkcompute.runtime.runtime import Runtime

HostArray = npt.NDArray[Any]
Key = tuple[Any, ...]
_ARRAYS = np.ndarray, np.memmap
"""Other classes may hold more than the elements, as the mask of a masked array."""


def is_host_array(arg: Any) -> bool:
    """True for a NumPy array with axes, of a dtype that device arrays have."""
    return type(arg) in _ARRAYS and arg.ndim > 0 and dtypes.is_in_kernels(arg.dtype)


def is_record_scalar(arg: Any) -> bool:
    """True for a record of NumPy, which a launch copies to the device."""
    return isinstance(arg, np.void) and dtypes.is_record(arg.dtype)


def record_on(runtime: Runtime, record: np.void) -> Array:
    """Copies a record of NumPy to an array without axes, for one launch."""
    array = temporary(runtime, (), record.dtype)
    array.write(np.asarray(record))
    return array


class _Bytes:
    """The memory of arrays that share bytes, for NumPy."""

    def __init__(self, owners: list[HostArray], start: int, nbytes: int) -> None:
        self._owners = owners
        self.__array_interface__ = {"data": (start, True), "shape": (nbytes,), "typestr": "|u1", "version": 3}


class HostArrays:
    """The NumPy arrays among the arguments of one launch.

    Attributes:
        args: the arguments, with a device array for each NumPy array; one for a NumPy array that is given twice.
    """

    def __init__(self, name: str, runtime: Runtime, args: Sequence[Any]) -> None:
        self._name = name
        self._arrays: list[HostArray | None] = [arg if is_host_array(arg) else None for arg in args]
        self._blocks = _blocks([*{_key(array): array for array in self._arrays if array is not None}.values()])
        copies: dict[Key, Array] = {}
        for block in self._blocks:
            copies.update(_copied(runtime, block))
        self.args = tuple([copies[_key(arg)] if is_host_array(arg) else arg for arg in args])
        _warn(name)

    def check(self, kernel: AnyKernel, aliases: Sequence[int] = ()) -> None:
        """Checks the arrays that a kernel writes.

        Args:
            aliases: arrays that are bound once more, after all.

        Raises:
            ValueError: one is read-only, has elements that overlap, or shares memory with another array, and one of the
                two has gaps.
        """
        written = {_key(array): array for _, array in self._results(kernel, aliases)}
        if not all(array.flags.writeable for array in written.values()):
            raise ValueError(f"{self._name} writes an array that is read-only; pass a copy of it")
        if any(
            array.size and shares_elements(array.shape, array.strides, array.itemsize) for array in written.values()
        ):
            raise ValueError(
                f"{self._name} writes an array whose elements overlap in memory, and each is copied back; pass a "
                "contiguous array, and index it in the kernel"
            )
        for one, other in [pair for blocks in combinations(self._blocks, 2) for pair in product(*blocks)]:
            if not written.keys().isdisjoint((_key(one), _key(other))) and shares_memory(one, other):
                raise ValueError(
                    f"{self._name} writes one of two arrays that share memory, and each is copied, since one has gaps; "
                    "pass contiguous arrays, or copies"
                )

    def read(self, kernel: AnyKernel, aliases: Sequence[int] = ()) -> None:
        """Copies the arrays back that a kernel writes. Waits for it; see `check`."""
        for array, host in {id(array): (array, host) for array, host in self._results(kernel, aliases)}.values():
            array.read(host)

    def _results(self, kernel: AnyKernel, aliases: Sequence[int]) -> list[tuple[Array, HostArray]]:
        arrays = [(arg, host) for arg, host in zip(self.args, self._arrays, strict=True) if isinstance(arg, Array)]
        arrays += [arrays[at] for at in aliases]
        written = [arrays[at] for at in kernel.writes if at < len(arrays)]  # behind them is the buffer for reports
        return [(array, host) for array, host in written if host is not None]


def _key(array: HostArray) -> Key:
    """Returns equal keys for arrays with the same elements in the same memory."""
    return address(array), array.shape, array.strides, array.dtype


def _blocks(arrays: list[HostArray]) -> list[list[HostArray]]:
    """Returns arrays in groups: contiguous ones that share bytes are in one, by address, and have one copy."""
    whole = [array for array in arrays if array.flags.c_contiguous and array.size]
    blocks, end = [[array] for array in arrays if not (array.flags.c_contiguous and array.size)], 0
    for array in sorted(whole, key=address):
        start = address(array)
        if start < end and (start - address(blocks[-1][0])) % array.itemsize == 0:
            blocks[-1].append(array)
        else:
            blocks.append([array])
        end = max(end, start + array.nbytes)
    return blocks


def _copied(runtime: Runtime, block: list[HostArray]) -> dict[Key, Array]:
    """Copies the bytes of a block to the device once, and returns the array there for each of its arrays."""
    start = address(block[0])
    if len(block) == 1:
        copy = temporary(runtime, block[0].shape, block[0].dtype)
        copy.write(block[0])
        return {_key(block[0]): copy}
    nbytes = max(address(array) + array.nbytes for array in block) - start
    memory = temporary(runtime, nbytes, np.uint8)
    memory.write(np.asarray(_Bytes(block, start, nbytes)))
    parts = [(array, address(array) - start) for array in block]
    return {_key(array): memory[at : at + array.nbytes].view(array.dtype).reshape(array.shape) for array, at in parts}


def _warn(name: str) -> None:
    warn_caller(
        f"{name} is launched on host arrays, which each launch copies to the device, and back where the kernel writes "
        "them, and waits for; keep the data on the device, as runtime.array(data), and read the result by .numpy()",
        HostCopyWarning,
    )


def table_on(runtime: Runtime, table: Table) -> Array:
    """Returns the device array of a table, uploaded once; a graph that is recorded before that uploads its own."""
    arrays = _arrays(runtime)
    array = arrays.get(table)
    if array is None:
        array = temporary(runtime, table.array.shape, table.array.dtype)
        array.write(table.array)
        if recording_graph(runtime.scheduler) is None:
            arrays[table] = array
    return array


def _arrays(runtime: Runtime) -> WeakKeyDictionary[Table, Array]:
    """Returns the tables on a device; they are freed when memory runs short, and uploaded again."""
    return cached(runtime, "tables", WeakKeyDictionary[Table, Array], release=WeakKeyDictionary.clear)
