"""Tensors: arrays on the host, with device memory once a manager has created it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.compat import kp
from vkcompute.errors import KomputeError


class TensorTypes(Enum):
    """Placements: `device` and `staging` (later `host`) have a copy on each side; `storage` is never synchronized."""

    device = 0
    staging = 1
    host = 1  # noqa: PIE796
    storage = 2


class Tensor:
    """A flat array of float32, made by `Tensor([2, 2, 2])`.

    The host side is read and written as a list: `t[i]`, `t[i] = x`, `for x in t`, `x in t`, `len(t)`. The next
    synchronization copies it to the device.
    """

    def __init__(self, data: npt.ArrayLike, tensor_type: TensorTypes = TensorTypes.device) -> None:
        if not isinstance(tensor_type, TensorTypes):
            raise TypeError(f"tensor_type is one of kp.TensorTypes; got {tensor_type!r}")
        self._data: npt.NDArray[np.float32] = np.array(data, np.float32).ravel()
        self._type = tensor_type
        self._manager: kp.Manager | None = None
        self._memory: kp.Tensor | None = None

    def data(self) -> list[float]:
        """Returns the host side as a new list."""
        numbers: list[float] = self._data.tolist()
        return numbers

    def numpy(self) -> npt.NDArray[np.float32]:
        """Returns the host side as a new array."""
        return np.array(self._data)

    def set_data(self, data: npt.ArrayLike) -> None:
        """Overwrites the host side.

        Raises:
            KomputeError: the number of elements differs.
        """
        given = np.ravel(np.asarray(data, np.float32))
        if given.size != self._data.size:
            raise KomputeError(f"the tensor has {self._data.size} numbers; got {given.size}; make another tensor")
        self._data[:] = given

    def size(self) -> int:
        """Returns the number of elements."""
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
        """Returns the placement."""
        return self._type

    def is_init(self) -> bool:
        """Returns True if the tensor has device memory."""
        return self._memory is not None and self._memory.is_init()

    def map_data_from_host(self) -> None:
        """Copies the host side to the device side, and waits."""
        self._sync(kp.OpSyncDevice)

    def map_data_into_host(self) -> None:
        """Copies the device side to the host side, and waits."""
        self._sync(kp.OpSyncLocal)

    def _sync(self, operation: Any) -> None:
        memory = self.memory()
        assert self._manager is not None, "create() sets it with the memory"
        self._manager.sequence().eval(operation([memory]))

    # -- for managers -------------------------------------------------------------------------------------------------

    def create(self, manager: kp.Manager) -> None:
        """Allocates device memory, in place of an earlier allocation; the host side stays."""
        self.destroy()
        self._manager = manager
        storage = self._type is TensorTypes.storage
        self._memory = manager.tensor(self._data, kp.storage if storage else kp.device)
        if not storage:
            self._data = self._memory.data()

    def memory(self) -> kp.Tensor:
        """Returns the tensor's memory object.

        Raises:
            KomputeError: the tensor has no device memory.
        """
        if self._memory is None or not self._memory.is_init():
            raise KomputeError("this Tensor has no memory on a device; pass it to Manager.eval_tensor_create_def first")
        return self._memory

    def destroy(self) -> None:
        """Frees the device memory; the host side stays."""
        if self._memory is not None:
            self._data = self._data.copy()
            self._memory.destroy()
        self._manager = self._memory = None

    def __repr__(self) -> str:
        return f"<kp.Tensor of {self.size()}, {self._type.name}{'' if self.is_init() else ', not on a device'}>"
