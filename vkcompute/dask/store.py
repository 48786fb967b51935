"""The results of a worker: on the device up to a limit, the least recently used of the others in Dask's own store.

Dask's store holds host memory, and spills to disk by Dask's own thresholds.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
from dask.sizeof import sizeof
from distributed.protocol.pickle import dumps

from vkcompute import locks
from vkcompute.dask.results import arrays_in


class OnHost:
    """A result with device arrays, moved to host memory: its pickle, and the buffers of the arrays."""

    __slots__ = ("buffers", "text")

    def __init__(self, text: bytes, buffers: list[Any]) -> None:
        self.text, self.buffers = text, buffers

    @classmethod
    def of(cls, value: Any) -> OnHost:
        """Downloads the arrays of a result."""
        buffers: list[pickle.PickleBuffer] = []
        text = dumps(value, buffer_callback=buffers.append)
        return cls(text, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers])

    def restored(self) -> Any:
        """Returns the result; its arrays are uploaded on first use."""
        return pickle.loads(self.text, buffers=self.buffers)

    def __reduce__(self) -> Any:
        return OnHost, (self.text, self.buffers)


sizeof.register(OnHost, lambda value: len(value.text) + sum(buffer.nbytes for buffer in value.buffers))


class DeviceStore(MutableMapping[Any, Any]):
    """Results by key.

    Args:
        host: Dask's own store.
        in_process: the device's memory is the process's own, as that of a CPU. Then Dask's thresholds for the process
            move results off the device, too: else a worker would pause for ever once it has nothing else to move.

    Attributes:
        limit_bytes: the most bytes of device arrays; beyond it, the least recently used results go to the host.
        device_bytes: those of the results on the device.
        n_spilled, n_restored: results that went to the host, and that came back.
    """

    def __init__(self, host: MutableMapping[Any, Any], limit_bytes: int, *, in_process: bool = False) -> None:
        self._host, self.limit_bytes, self._in_process = host, limit_bytes, in_process
        self._on_device: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._lock = locks.make(locks.Rank.STORE)
        self.device_bytes = self.n_spilled = self.n_restored = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._lock:
            self.pop(key, None)
            nbytes = sum(array.nbytes for array in arrays_in(value))
            if not nbytes:
                self._host[key] = value
                return
            self._on_device[key] = value, nbytes
            self.device_bytes += nbytes
            self.spill(self.limit_bytes, but=key)

    def __getitem__(self, key: Any) -> Any:
        with self._lock:
            if key in self._on_device:
                self._on_device.move_to_end(key)
                return self._on_device[key][0]
            value = self._host[key]
            if type(value) is not OnHost:
                return value
            self[key] = value.restored()
            self.n_restored += 1
            return self._on_device[key][0]

    def __delitem__(self, key: Any) -> None:
        with self._lock:
            if key in self._on_device:
                self.device_bytes -= self._on_device.pop(key)[1]
            else:
                del self._host[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Removes a result, and returns it only if it is on the device: others would be read from disk in vain."""
        if key in self:
            value = self._on_device.get(key, (None,))[0]
            del self[key]
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key in self._on_device or key in self._host

    def __iter__(self) -> Iterator[Any]:
        yield from list(self._on_device)
        yield from self._host

    def __len__(self) -> int:
        return len(self._on_device) + len(self._host)

    def spill(self, limit_bytes: int = 0, but: Any = None) -> None:
        """Moves results to the host, the least recently used first, until the others have at most these bytes."""
        with self._lock:
            for key in list(self._on_device):
                if self.device_bytes <= limit_bytes:
                    break
                if key != but:
                    value, nbytes = self._on_device[key]
                    self._host[key] = OnHost.of(value)
                    del self._on_device[key]
                    self.device_bytes -= nbytes
                    self.n_spilled += 1

    # -- what Dask asks of a store that spills ------------------------------------------------------------------------

    @property
    def fast(self) -> Any:
        """The results that `evict` can move to disk. A host store that never spills has no such attribute."""
        return self._host.fast or (self._on_device if self._in_process else {})  # type: ignore[attr-defined]

    def evict(self) -> int:
        """Moves a result of `fast` to disk. Returns its bytes, or -1 if that fails."""
        if not self._host.fast:  # type: ignore[attr-defined]
            self.spill(self.device_bytes - 1)  # the least recently used result, which can then go to disk
        return int(self._host.evict())  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        """Returns attributes of the store of the host, as `slow` and `spilled_total`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._host, name)
