"""A tensor: numbers on the host, and memory on the device once a manager has created it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.compat import kp
from vkcompute.errors import KomputeError


class TensorTypes(Enum):
    """`device` and `staging` (later `host`) have a copy on each side; `storage` is never synchronized."""

    device = 0
    staging = 1
    host = 1  # noqa: PIE796
    storage = 2


class Tensor:
    """`Tensor([2, 2, 2])`: float32, flattened.

    Its numbers are read and written as a list's: `t[i]`, `t[i] = x`, `for x in t`, `x in t`, `len(t)`. What is written
    comes to the device with the next synchronization.
    """

    def __init__(self, data: npt.ArrayLike, tensor_type: TensorTypes = TensorTypes.device) -> None:
        if not isinstance(tensor_type, TensorTypes):
            raise TypeError(f"tensor_type is one of kp.TensorTypes; got {tensor_type!r}")
        self._data: npt.NDArray[np.float32] = np.array(data, np.float32).ravel()
        self._type = tensor_type
        self._memory: kp.Tensor | None = None

    def data(self) -> list[float]:
        """The numbers on the host's side, copied."""
        found: list[float] = self._data.tolist()
        return found

    def numpy(self) -> npt.NDArray[np.float32]:
        """The same as an array, copied."""
        return np.array(self._data)

    def set_data(self, data: npt.ArrayLike) -> None:
        """Replaces all numbers on the host's side.

        Raises:
            KomputeError: there are more or fewer.
        """
        given = np.ravel(np.asarray(data, np.float32))
        if given.size != self._data.size:
            raise KomputeError(f"the tensor has {self._data.size} numbers; got {given.size}; make another tensor")
        self._data[:] = given

    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    __len__ = size

    def __getitem__(self, index: int) -> float:
        return float(self._data[index])

    def __setitem__(self, index: int, value: float) -> None:
        self._data[index] = value

    def __iter__(self) -> Iterator[float]:
        return iter(self.data())

    def __reversed__(self) -> Iterator[float]:
        return reversed(self.data())

    def __contains__(self, value: Any) -> bool:
        return bool((self._data == value).any())

    def tensor_type(self) -> TensorTypes:
        """Where it lies."""
        return self._type

    def is_init(self) -> bool:
        """Whether it has memory on a device."""
        return self._memory is not None and self._memory.is_init()

    def map_data_from_host(self) -> None:
        """Copies the host's side to the device's at once."""
        self._sync(kp.OpSyncDevice)

    def map_data_into_host(self) -> None:
        """Copies the device's side to the host's at once."""
        self._sync(kp.OpSyncLocal)

    def _sync(self, operation: Any) -> None:
        memory = self.memory()
        memory.manager.sequence().eval(operation([memory]))

    # -- what managers do ---------------------------------------------------------------------------------------------

    def create(self, manager: kp.Manager) -> None:
        """Gives it memory on the manager's device, and lets go of what it had; the numbers are the host's."""
        self.destroy()
        storage = self._type is TensorTypes.storage
        self._memory = manager.tensor(self._data, kp.storage if storage else kp.device)
        if not storage:
            self._data = self._memory.data()

    def memory(self) -> kp.Tensor:
        """What it has on the device.

        Raises:
            KomputeError: it has nothing there.
        """
        if self._memory is None or not self._memory.is_init():
            raise KomputeError("this Tensor has no memory on a device; pass it to Manager.eval_tensor_create_def first")
        return self._memory

    def destroy(self) -> None:
        """Gives the device's memory back; the numbers stay."""
        if self._memory is not None:
            self._data = self._data.copy()
            self._memory.destroy()
        self._memory = None

    def __repr__(self) -> str:
        return f"<kp.Tensor of {self.size()}, {self._type.name}{'' if self.is_init() else ', not on a device'}>"
