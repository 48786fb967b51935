"""What algorithms work on: tensors, with a side on the device and one that the host sees."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.compat.kp.manager import Manager
    from vkcompute.runtime.future import Future
    from vkcompute.runtime.tensor import Tensor as DeviceTensor

Array = npt.NDArray[Any]
Command = Callable[[], "Future"]
"""Gives work to the runtime, at once or into the graph that is being recorded."""


class Named(IntEnum):
    """An enumeration that prints its names, and counts as ints."""

    __str__ = Enum.__str__
    __repr__ = Enum.__repr__


class MemoryTypes(Named):
    """Where a memory object lies: `device` has a copy on each side, `host` and `deviceAndHost` one that both sides see,
    `storage` one that only the device sees.
    """

    device = 0
    host = 1
    storage = 2
    deviceAndHost = 3  # noqa: N815  # Kompute's name


class DataTypes(Named):
    """What elements are; `custom` stands for the types that Kompute has no name for (64-bit integers, float16)."""

    bool, int, uint, float, double, custom, short, ushort, char, uchar = range(10)


_DTYPES = "bool int32 uint32 float32 float64 other int16 uint16 int8 uint8".split()
_DATA_TYPES = dict(zip(_DTYPES, DataTypes, strict=True))


class View:
    """The bytes that `data()` shows, and its array's `base`: they stay for as long as somebody holds such an array."""

    def __init__(self, host: DeviceTensor) -> None:
        self._host = host
        buffer, start, stop = host.span
        memory = host.runtime.transfers.lend(buffer, start, stop - start)
        if memory is None:
            raise KomputeError(f"the host does not see this memory of {host.runtime.device}")
        self._memory = memory
        address = memory.__array_interface__["data"][0]
        self.__array_interface__ = {
            "data": (address, False), "shape": host.shape, "typestr": host.dtype.str, "version": 3
        }  # fmt: skip

    def is_init(self) -> bool:
        """Whether the memory object is still to be used: neither it nor its manager has been destroyed."""
        return not self._host.closed and not self._host.runtime.closed


class Memory:
    """A flat array of a manager's, as `Manager.tensor` makes it.

    Attributes:
        manager: whose it is.
        primary: what algorithms see: a tensor of vkcompute's runtime, or an image's texels.
    """

    def __init__(self, manager: Manager, data: Array, memory_type: MemoryTypes) -> None:
        if not isinstance(memory_type, MemoryTypes):
            raise TypeError(f"memory_type is one of kp.MemoryTypes; got {memory_type!r}")
        if not data.size:
            raise KomputeError("a memory object has at least one element; got none")
        self.manager, self._type = manager, memory_type
        runtime = manager.opened()
        buffer = runtime.device.buffer
        self._host: DeviceTensor | None = None
        self._data: Array | None = None
        if memory_type is not MemoryTypes.storage:
            self._host = runtime.tensor_on(lambda nbytes: buffer(nbytes, "download"), data.size, data.dtype)
            self._data = np.asarray(View(self._host))
            self._data[:] = data
        self.primary = self._make_primary(data)
        manager.add(self)

    def _make_primary(self, data: Array) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is made by a Manager, as a Tensor or an Image")

    # -- Kompute's ----------------------------------------------------------------------------------------------------

    def data(self) -> Array:
        """The host's side as a live array: writing to it writes to the memory. Nothing is waited for.

        It may be kept for as long as one likes, also after `destroy`.

        Raises:
            KomputeError: the object is destroyed, or `storage` memory.
        """
        if self._data is None:
            self.require()
            raise KomputeError("the host does not see storage memory; OpCopy it to a memory object of another type")
        return self._data

    def size(self) -> int:
        """Number of elements."""
        return int(self.primary.size)

    __len__ = size

    def memory_type(self) -> MemoryTypes:
        """Where it lies."""
        return self._type

    tensor_type = memory_type

    def data_type(self) -> DataTypes:
        """What the elements are."""
        return _DATA_TYPES.get(self.primary.dtype.name, DataTypes.custom)

    def is_init(self) -> bool:
        """Whether it can be used: neither it nor its manager has been destroyed."""
        return not self.primary.closed and not self.primary.runtime.closed

    def destroy(self) -> None:
        """Gives the memory back once nothing on the device uses it and no array of `data()` is left; twice is once."""
        if not self.primary.closed:
            self.manager.n_destroyed += 1
        self.primary.close()
        if self._host is not None:
            self._host.close()
        self._data = None

    # -- what operations do -------------------------------------------------------------------------------------------

    def require(self) -> None:
        """Raises KomputeError if it has been destroyed."""
        if not self.is_init():
            raise KomputeError(f"this {type(self).__name__} is destroyed; make a new one with its manager")

    def to_device(self) -> list[Command]:
        """Copies the host's side to the device's; nothing where they are one."""
        return self._sync(self.primary, self._host)

    def to_host(self) -> list[Command]:
        """Copies the device's side to the host's; nothing where they are one."""
        return self._sync(self._host, self.primary)

    def enter(self) -> list[Command]:
        """What comes before the device uses it, where both sides are to be one and are not."""
        return []

    def leave(self) -> list[Command]:
        """What comes after the device has used it, likewise."""
        return []

    def _sync(self, target: Any, source: Any) -> list[Command]:
        return [] if target is None or source is None or target is source else [_copy(target, source)]

    def copy_to(self, other: Memory) -> list[Command]:
        """Copies both sides to those of another object.

        Raises:
            KomputeError: their sizes or types differ.
        """
        mine, theirs = self.primary, other.primary
        if (mine.dtype, mine.size) != (theirs.dtype, theirs.size):
            raise KomputeError(
                f"OpCopy is between memory objects of one size and type; got {mine.size} elements of {mine.dtype} to "
                f"{theirs.size} of {theirs.dtype}"
            )
        copies = [*self.enter(), _copy(theirs, mine)]
        if self._host is not None and other._host is not None and theirs is not other._host:
            copies.append(_copy(other._host, self._host))
        return [*copies, *other.leave()]

    def __repr__(self) -> str:
        state = "" if self.is_init() else ", destroyed"
        return f"<kp.{type(self).__name__} of {self.size()} {self.primary.dtype}, {self._type.name}{state}>"


def _copy(target: Any, source: Any) -> Command:
    from_image = hasattr(source, "copy_into") and not hasattr(target, "copy_into")
    return partial(source.copy_into, target) if from_image else partial(target.copy_from, source)


class Tensor(Memory):
    """Made by `Manager.tensor` and `Manager.tensor_t`."""

    def _make_primary(self, data: Array) -> Any:
        if self._host is not None and self._type is not MemoryTypes.device:
            return self._host
        device_side = self.manager.opened().empty(data.size, data.dtype)
        if self._host is None:
            device_side.write(data)
        return device_side
