"""Several devices at work as one: the rows of an array are divided among them, the faster one gets more."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.instance import Instance
from vkcompute.core.lifetime import Handle
from vkcompute.core.physical import enumerate_devices
from vkcompute.runtime.groups.balance import Shares, fractions, learned, split_rows
from vkcompute.runtime.launching import program
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.tensor import Array, Tensor
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.future import Future


class GroupTensor:
    """An array on several devices: each holds some of its rows, or, where it is replicated, all of it.

    Attributes:
        group: that made it, by `tensor`, `empty`, `zeros` or `replicate`.
        parts: a tensor per device.
        rows: per device those that it holds, consecutive; None where the array is replicated.
        shape, dtype: of the whole array.
    """

    def __init__(self, group: DeviceGroup, parts: Iterable[Tensor], rows: tuple[range, ...] | None) -> None:
        self.group, self.parts, self.rows = group, tuple(parts), rows
        first = self.parts[0]
        self.dtype = first.dtype
        self.shape = first.shape if rows is None else (rows[-1].stop, *first.shape[1:])

    def numpy(self) -> Array:
        """A copy of the whole array, C-contiguous; of a replicated one, the first device's. Waits for its writers."""
        if self.rows is None:
            return self.parts[0].numpy()
        for part in self.parts:  # so that the devices work at the same time, not each when it is its part's turn
            part.runtime.scheduler.submit()
        return np.concatenate([part.numpy() for part in self.parts])

    def write(self, data: npt.ArrayLike) -> None:
        """Overwrites the array with one that broadcasts to its shape; errors as of `Tensor.write`."""
        if self.rows is None:
            for part in self.parts:
                part.write(data)
            return
        whole = np.broadcast_to(np.asarray(data), self.shape)
        for part, rows in zip(self.parts, self.rows, strict=True):
            part.write(whole[rows.start : rows.stop])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a tensor becomes a numpy array by copying; use np.asarray(tensor)")
        return self.numpy().astype(dtype or self.dtype, copy=False)

    def close(self) -> None:
        """Lets go of the memory on every device."""
        for part in self.parts:
            part.close()

    def __enter__(self) -> GroupTensor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        how = "on each" if self.rows is None else "/".join(str(len(rows)) for rows in self.rows)
        return f"GroupTensor(shape={self.shape}, dtype={self.dtype}, {how} of {self.group})"


class GroupFuture:
    """Work on its way on several devices.

    Attributes:
        futures: of each device that has some; for `concurrent.futures.wait` and its like.
    """

    def __init__(self, futures: Sequence[Future]) -> None:
        self.futures = tuple(futures)

    def done(self) -> bool:
        """Whether all of it is finished; does not wait."""
        return False not in [future.done() for future in self.futures]  # submits it on every device

    def result(self, timeout_s: float | None = None) -> None:
        """Waits for all of it; `timeout_s` and errors are as of `Future.result`, the time is for all together."""
        self.done()  # so that all devices have it before the first is awaited
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        for future in self.futures:
            future.result(None if until_s is None else max(0.0, until_s - time.monotonic()))

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        return asyncio.gather(*map(asyncio.wrap_future, self.futures)).__await__()


class GroupKernel:
    """A kernel on each device of a group. Made by `DeviceGroup.kernel`.

    Attributes:
        kernels: one per device, each a `Kernel`, or the same Python kernel.
    """

    def __init__(self, group: DeviceGroup, kernels: Iterable[Callable[..., Future]]) -> None:
        self.group, self.kernels = group, tuple(kernels)

    def __call__(
        self,
        *args: Any,
        grid: int | Sequence[int] | Callable[[range], int | Sequence[int]] | None = None,
        queue: int | str | None = None,
        **named: Any,
    ) -> GroupFuture:
        """Launches the kernel on every device that has rows; returns at once. All devices work at the same time.

        Arguments are as of `Kernel`, with tensors of the group. Each device sees its part of a split one, whose first
        row is its row 0. A push constant or a grid that depends on the rows is given as a function of them:
        `first_row=lambda rows: rows.start, grid=lambda rows: (len(rows),)`. Where one device refuses a launch, those
        before it have made it.

        Raises:
            ValueError: no tensor is split, two are split in different ways, or one is of another group.
            TypeError, ValueError: as of `Kernel`.
        """
        futures = []
        options = {name: value for name, value in (("grid", grid), ("queue", queue)) if value is not None}
        for index, (kernel, rows) in enumerate(zip(self.kernels, self._rows(args), strict=True)):
            if rows:
                here = [_of_device(value, index, rows) for value in args]
                by_name = {name: _of_device(value, index, rows) for name, value in (options | named).items()}
                futures.append(kernel(*here, **by_name))
                self.group.launched[index] += len(rows)
        return GroupFuture(futures)

    def _rows(self, args: Iterable[Any]) -> tuple[range, ...]:
        """The rows of each device, on which all split tensors agree."""
        self.group.require_open()
        tensors = [each for each in args if isinstance(each, (GroupTensor, Tensor))]
        for tensor in tensors:
            if isinstance(tensor, Tensor) or tensor.group is not self.group:
                raise ValueError(f"{tensor} is not of {self.group}; pass group.tensor(it), or group.replicate(it)")
        found = {tensor.rows for tensor in tensors if isinstance(tensor, GroupTensor) and tensor.rows is not None}
        if len(found) > 1:
            ways = " and ".join("/".join(str(len(rows)) for rows in way) for way in found)
            raise ValueError(
                f"tensors of one launch are split alike; got {ways} rows; make them anew: group.tensor(old)"
            )
        if not found:
            raise ValueError(
                "a launch on a group takes a tensor that is split by rows: of group.tensor, empty or zeros"
            )
        return found.pop()


def _of_device(value: Any, index: int, rows: range) -> Any:
    if isinstance(value, GroupTensor):
        return value.parts[index]
    return value(rows) if callable(value) else value


class DeviceGroup(Handle):
    """Several devices, each of which takes a share of the rows of what they compute.

    Devices are taken to be independent. Two drivers that compute on the same cores are not: together they may be
    slower than the better one alone.

    Attributes:
        runtimes: one per device, in the order given.
        launched: rows launched on each device in the present `balance()`.

    Args:
        devices: open runtimes, which the group does not close; indices or parts of names, for runtimes of its own; or
            None, for all devices that can be used.

    Raises:
        NoDevice: one of them is not there, or there is none.
        ValueError: a runtime, or a device that the group opens, comes twice; or the list is empty.
    """

    def __init__(self, devices: Iterable[Runtime | int | str] | None = None) -> None:
        if isinstance(devices, (str, int, Runtime)):
            raise TypeError(f"a group is of several devices; got {devices!r}; pass a list")
        with ExitStack() as opening:
            given = [*(_usable() if devices is None else devices)]
            self.runtimes = tuple(
                each if isinstance(each, Runtime) else opening.enter_context(Runtime(each)) for each in given
            )
            keys = [
                each if each is runtime else runtime.device.physical.index
                for each, runtime in zip(given, self.runtimes, strict=True)
            ]
            if not keys or len({*keys}) < len(keys):
                raise ValueError(f"a group has at least one device, and each once; got {given}")
            for runtime in self.runtimes:
                runtime.require_open()
            self._owned = [runtime for each, runtime in zip(given, self.runtimes, strict=True) if each is not runtime]
            opening.pop_all()
        self._n_measured, self.launched = 0, [0] * len(keys)
        self._shares = fractions([1.0] * len(keys), len(keys))
        self._opened()

    # -- who does how much --------------------------------------------------------------------------------------------

    @property
    def shares(self) -> Shares:
        """The fraction of the rows that each device gets of what is split from now on; can be set, in any unit."""
        return self._shares

    @shares.setter
    def shares(self, shares: Sequence[float]) -> None:
        self._shares, self._n_measured = fractions(shares, len(self.runtimes)), 0

    def split(self, n_rows: int) -> tuple[range, ...]:
        """The rows that each device gets of so many."""
        return split_rows(n_rows, self._shares)

    @contextmanager
    def balance(self) -> Iterator[list[int]]:
        """Measures what is launched inside, and sets `shares` so that all devices would have finished together.

            with group.balance():
                kernel(x, out)
            x, out = group.tensor(x), group.empty(out.shape)     # divided anew

        The shares are a mean of what the last measurements say; of the first, what it says. Launch a kernel once
        before, as drivers compile then. A device without rows stays without. What is launched inside on the runtimes by
        hand counts if its rows are added to the list that is given, per device.

        Raises:
            ValueError: a runtime is being profiled.
        """
        self.launched = [0] * len(self.runtimes)
        with ExitStack() as measuring:
            profiles = [measuring.enter_context(runtime.profile()) for runtime in self.runtimes]
            yield self.launched
            self.flush()
        seconds = [sum(task.ns for task in profile.tasks) / 1e9 for profile in profiles]
        self._shares = learned(self._shares, self.launched, seconds, self._n_measured)
        self._n_measured += 1

    # -- what they work on --------------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> GroupTensor:
        """An array with arbitrary content, split by rows, that is along the first axis, by the present `shares`.

        Raises:
            ValueError: it has no axis, or a length is negative.
            OutOfDeviceMemory: a part does not fit its device.
        """
        self.require_open()
        n_rows, *others = layout.lengths(shape) or (-1,)
        if n_rows < 0:
            raise ValueError(f"an array is split along its first axis, of 0 rows or more; got shape {shape}")
        split = self.split(n_rows)
        parts = [runtime.empty((len(rows), *others), dtype) for runtime, rows in zip(self.runtimes, split, strict=True)]
        return GroupTensor(self, parts, split)

    def tensor(self, data: npt.ArrayLike | GroupTensor, dtype: npt.DTypeLike | None = None) -> GroupTensor:
        """A copy of `data`, split as by `empty`; of a group's tensor, through the host."""
        array = np.asarray(data, dtype)
        result = self.empty(array.shape, array.dtype)
        result.write(array)
        return result

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> GroupTensor:
        """An array of zeros, split as by `empty`."""
        result = self.empty(shape, dtype)
        for part in result.parts:
            part.fill(0)
        return result

    def replicate(self, data: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> GroupTensor:
        """A copy of the whole of `data` on every device."""
        self.require_open()
        array = np.asarray(data, dtype)
        return GroupTensor(self, [runtime.tensor(array) for runtime in self.runtimes], None)

    def kernel(self, source: program.Source | Callable[..., Future], **options: Any) -> GroupKernel:
        """The kernel on every device; `options` and errors are as of `Runtime.kernel`.

        Of a Python kernel, `group.kernel(saxpy)` or `group.kernel(saxpy[groups, local_size])`, without options.
        """
        self.require_open()
        if hasattr(source, "written"):
            raise TypeError(f"{source!r} takes the group's tensors itself; call it without group.kernel()")
        if callable(source):
            if options:
                raise TypeError(f"a Python kernel has no options here; got {', '.join(options)}; leave them out")
            return GroupKernel(self, [source] * len(self.runtimes))
        return GroupKernel(self, [runtime.kernel(source, **options) for runtime in self.runtimes])

    # -- all together -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Starts the work that has been launched on any device; does not wait for it. Raises when all have it."""
        with ExitStack() as every:
            for runtime in reversed(self.runtimes):
                every.callback(runtime.flush)

    def wait(self) -> None:
        """Waits for all work on all devices. Raises when all have been waited for."""
        with ExitStack() as every:
            for runtime in reversed(self.runtimes):
                every.callback(runtime.wait)
            every.callback(self.flush)

    def _destroy(self) -> None:
        for runtime in self._owned:
            runtime.close()

    def __repr__(self) -> str:
        names = " and ".join(runtime.device.physical.name for runtime in self.runtimes)
        return f"<group of {names}{'' if self._open else ', closed'}>"


def _usable() -> list[int]:
    with Instance() as instance:  # where there is none, opening the first one says why
        return [device.index for device in enumerate_devices(instance) if not device.unfit()] or [0]
