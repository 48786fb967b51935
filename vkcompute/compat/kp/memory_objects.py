"""Memory objects: the arrays of a manager, each with a device side and a host side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vkcompute.compat.kp.context import Child, ManagerBase
from vkcompute.dtypes import lookup
from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.runtime.memory.array import Array as DeviceArray
    from vkcompute.runtime.scheduling.future import Future

HostArray = npt.NDArray[Any]
Command = Callable[[], "Future"]
"""Submits one copy or launch to the runtime, or adds it to the graph that is being recorded"""


class NamedIntEnum(IntEnum):
    """An IntEnum whose `str` and `repr` show the member's name."""

    __str__ = Enum.__str__
    __repr__ = Enum.__repr__


class MemoryTypes(NamedIntEnum):
    """Placement of a memory object.

    `device` has one copy on each side, `host` and `deviceAndHost` one copy that both sides see, `storage` one copy on
    the device only.
    """

    device = 0
    host = 1
    storage = 2
    deviceAndHost = 3  # noqa: N815  # Kompute's name


class DataTypes(NamedIntEnum):
    """Types of elements; `custom` is any type without a name in Kompute (64-bit integers, float16)."""

    bool, int, uint, float, double, custom, short, ushort, char, uchar = range(10)


_DTYPES = "bool int32 uint32 float32 float64 other int16 uint16 int8 uint8".split()
_DATA_TYPES = dict(zip(_DTYPES, DataTypes, strict=True))


class HostView:
    """Host-visible memory of a tensor, as the `base` of the array that `data()` returns.

    The memory stays allocated as long as such an array exists.
    """

    def __init__(self, host: DeviceArray) -> None:
        self._host = host
        buffer, start, stop = host.span
        memory = host.runtime.transfers.lend(buffer, start, stop - start, synchronous=False)
        if memory is None:
            raise KomputeError(f"memory of {host.runtime.device} is not host-visible; use a storage tensor")
        self._memory = memory
        address = memory.__array_interface__["data"][0]
        self.__array_interface__ = {
            "data": (address, False), "shape": host.shape, "typestr": host.dtype.str, "version": 3
        }  # fmt: skip

    def is_init(self) -> bool:
        """Returns True if the memory object can be used: neither it nor its manager is destroyed."""
        return not self._host.closed and not self._host.runtime.closed


class Memory(Child):
    """A flat array of a manager; base class of `Tensor` and `Image`.

    Attributes:
        manager: the manager that made it.
        primary: the array that algorithms use: a tensor of vkcompute's runtime, or a DeviceImage.
    """

    def __init__(self, manager: ManagerBase, data: HostArray, memory_type: MemoryTypes) -> None:
        if not isinstance(memory_type, MemoryTypes):
            raise TypeError(f"memory_type is one of kp.MemoryTypes; got {memory_type!r}")
        if not data.size:
            raise KomputeError("a memory object has at least one element; got none")
        lookup(data.dtype, in_kernels=True)
        self.manager, self._type = manager, memory_type
        runtime = manager.require_open()
        buffer = runtime.device.buffer
        self._host: DeviceArray | None = None
        self._data: HostArray | None = None
        if memory_type is not MemoryTypes.storage:
            from vkcompute.runtime.memory.array import allocate  # here, because it loads the driver

            self._host = allocate(runtime, lambda nbytes: buffer(nbytes, "download"), data.size, data.dtype)
            self._data = np.asarray(HostView(self._host))
            self._data[:] = data
        self.primary = self._make_primary(data)
        manager.register(self)

    def _make_primary(self, data: HostArray) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is made by a Manager, as a Tensor or an Image")

    # -- Kompute's interface ------------------------------------------------------------------------------------------

    def data(self) -> HostArray:
        """Returns the host side as a live array: writes to it change the memory. Waits for nothing.

        The array stays valid after `destroy`.

        Raises:
            KomputeError: the object is destroyed, or `storage` memory.
        """
        if self._data is None:
            self.require_init()
            raise KomputeError("storage memory is not host-visible; OpCopy it to a memory object of another type")
        return self._data

    def size(self) -> int:
        """Returns the number of elements."""
        return int(self.primary.size)

    __len__ = size

    def memory_type(self) -> MemoryTypes:
        """Returns the placement."""
        return self._type

    tensor_type = memory_type

    def data_type(self) -> DataTypes:
        """Returns the type of the elements."""
        return _DATA_TYPES.get(self.primary.dtype.name, DataTypes.custom)

    def is_init(self) -> bool:
        """Returns True if the object can be used: neither it nor its manager is destroyed."""
        return not self.primary.closed and not self.primary.runtime.closed

    def destroy(self) -> None:
        """Frees the memory once the device has finished with it and no array of `data()` is left.

        May be called twice.
        """
        if not self.primary.closed:
            self.manager.n_destroyed += 1
        self.primary.close()
        if self._host is not None:
            self._host.close()
        self._data = None

    # -- for operations -----------------------------------------------------------------------------------------------

    def to_device(self) -> list[Command]:
        """Returns the copy from the host side to the device side; none if they share memory."""
        return self._copies(self.primary, self._host)

    def to_host(self) -> list[Command]:
        """Returns the copy from the device side to the host side; none if they share memory."""
        return self._copies(self._host, self.primary)

    def before_use(self) -> list[Command]:
        """Returns the commands that must precede a use of `primary`: see `Image`."""
        return []

    def after_use(self) -> list[Command]:
        """Returns the commands that must follow a use of `primary`: see `Image`."""
        return []

    def _copies(self, target: Any, source: Any) -> list[Command]:
        return [] if target is None or source is None or target is source else [_copy(target, source)]

    def copy_to(self, other: Memory) -> list[Command]:
        """Returns the copies of both sides to those of another object.

        Raises:
            KomputeError: sizes or types differ.
        """
        mine, theirs = self.primary, other.primary
        if (mine.dtype, mine.size) != (theirs.dtype, theirs.size):
            raise KomputeError(
                f"OpCopy is between memory objects of one size and type; got {mine.size} elements of {mine.dtype} to "
                f"{theirs.size} of {theirs.dtype}"
            )
        copies = [*self.before_use(), _copy(theirs, mine)]
        if self._host is not None and other._host is not None and theirs is not other._host:
            copies.append(_copy(other._host, self._host))
        return [*copies, *other.after_use()]

    def __repr__(self) -> str:
        state = "" if self.is_init() else ", destroyed"
        return f"<kp.{type(self).__name__} of {self.size()} {self.primary.dtype}, {self._type.name}{state}>"


def _copy(target: Any, source: Any) -> Command:
    image_to_tensor = hasattr(source, "copy_into") and not hasattr(target, "copy_into")
    return partial(source.copy_into, target) if image_to_tensor else partial(target.copy_from, source)


class Tensor(Memory):
    """An array of numbers, made by `Manager.tensor` and `Manager.tensor_t`."""

    def _make_primary(self, data: HostArray) -> Any:
        if self._host is not None and self._type is not MemoryTypes.device:
            return self._host
        from vkcompute.runtime.memory.array import allocate  # here, because it loads the driver

        runtime = self.manager.require_open()
        device_side = allocate(runtime, lambda nbytes: runtime.device.buffer(nbytes, "fixed"), data.size, data.dtype)
        if self._host is None:
            device_side.write(data)
        return device_side


def memory_objects(user: str, objects: Iterable[Any]) -> tuple[Memory, ...]:
    """Returns the objects as a tuple.

    Args:
        user: the operation that takes them, for error messages.

    Raises:
        TypeError: one is not a memory object, or they are not in a list.
    """
    if not isinstance(objects, Iterable):
        raise TypeError(f"{user} takes a list of tensors and images; got {objects!r} without a list; write [tensor]")
    memory = tuple(objects)
    for object_ in memory:
        if not isinstance(object_, Memory):
            raise TypeError(f"{user} takes a list of tensors and images; got {object_!r} in it")
    return memory


def own_memory_objects(manager: ManagerBase, user: str, objects: Iterable[Any]) -> tuple[Memory, ...]:
    """Returns the objects as a tuple; `memory_objects` with a check of their manager.

    Raises:
        KomputeError: one belongs to another manager, or is destroyed.
        TypeError: one is not a memory object, or they are not in a list.
    """
    memory = memory_objects(user, objects)
    for object_ in memory:
        manager.require_own(object_)
    return memory
