"""Device groups: arrays sharded by rows over several devices, weighted by their speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core import cpu_fallback
from vkcompute.core.instance import Instance
from vkcompute.core.interrupts import BlockExit, begin_block
from vkcompute.core.lifetime import Handle
from vkcompute.core.physical import enumerate_devices, gpus
from vkcompute.representation import html_rows
from vkcompute.runtime.devices import DeviceInfo
from vkcompute.runtime.groups.balance import Weights, learned, normalized, split_rows
from vkcompute.runtime.launching import program
from vkcompute.runtime.launching.launch_config import Launchable, LaunchConfig, take_keywords
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.host_data import HostArray, host_array
from vkcompute.runtime.profiling.profile import Profile
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.future import Future


class GroupArray:
    """An array on several devices: sharded by rows, or replicated.

    Attributes:
        group: the group of devices.
        shards: an array per device.
        rows: the consecutive rows on each device; None if the array is replicated.
        shape, dtype: of the whole array.
    """

    def __init__(self, group: DeviceGroup, shards: Iterable[Array], rows: tuple[range, ...] | None) -> None:
        self.group, self.shards, self.rows = group, tuple(shards), rows
        first = self.shards[0]
        self.dtype = first.dtype
        self.shape = first.shape if rows is None else (rows[-1].stop, *first.shape[1:])

    def numpy(self) -> HostArray:
        """Returns a C-contiguous copy of the array; of a replicated one, the first device's. Waits for its writers."""
        if self.rows is None:
            return self.shards[0].numpy()
        for shard in self.shards:  # all devices start before the first one is waited for
            shard.runtime.scheduler.submit()
        return np.concatenate([shard.numpy() for shard in self.shards])

    def write(self, data: npt.ArrayLike) -> None:
        """Overwrites the array with data that broadcasts to its shape; raises as `Array.write`."""
        self.group.refuse_torn_recording(f"a write to an array of {self.group}")
        if self.rows is None:
            for shard in self.shards:
                shard.write(data)
            return
        whole = np.broadcast_to(np.asarray(data), self.shape)
        for shard, rows in zip(self.shards, self.rows, strict=True):
            shard.write(whole[rows.start : rows.stop])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        if copy is False:
            raise ValueError("an array of a group becomes a NumPy array by copying; use np.asarray(x)")
        return self.numpy().astype(dtype or self.dtype, copy=False)

    def close(self) -> None:
        """Releases the memory on every device."""
        for shard in self.shards:
            shard.close()

    def __enter__(self) -> GroupArray:
        begin_block(self)
        return self

    def _exit(self, *_: object) -> None:
        self.close()

    __exit__ = BlockExit(_exit, lambda array: array.close())

    def __repr__(self) -> str:
        how = "on each" if self.rows is None else "/".join(str(len(rows)) for rows in self.rows)
        return f"GroupArray(shape={self.shape}, dtype={self.dtype}, {how} of {self.group})"


class GroupFuture:
    """Launched work on several devices.

    Attributes:
        futures: one per device with work; for `concurrent.futures.wait` and similar.
    """

    def __init__(self, futures: Sequence[Future]) -> None:
        self.futures = tuple(futures)

    def done(self) -> bool:
        """Returns True if all of it has finished; does not wait."""
        return False not in [future.done() for future in self.futures]  # a list: submits the work on every device

    def result(self, timeout_s: float | None = None) -> None:
        """Waits for all of it; raises as `Future.result`. `timeout_s` is for all devices together."""
        self.done()  # submits the work on all devices before waiting for the first
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        for future in self.futures:
            future.result(None if until_s is None else max(0.0, until_s - time.monotonic()))

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        return asyncio.gather(*map(asyncio.wrap_future, self.futures)).__await__()


class GroupKernel(Launchable):
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
        """Launches the kernel on every device with rows; returns at once. The devices run at the same time.

        Arguments are those of `Kernel`, with arrays of the group. Each device gets its shard of a sharded array, with
        rows from 0 on. A push constant or a grid that depends on the rows is given as a function of them:
        `first_row=lambda rows: rows.start, grid=lambda rows: (len(rows),)`. If a device rejects the launch, the devices
        before it have launched.

        Raises:
            ValueError: no array is sharded, two are sharded differently, or one is of another group.
            TypeError, ValueError: as `Kernel`.
        """
        self.group.refuse_torn_recording(f"a launch on {self.group}")
        futures = []
        options = {name: value for name, value in (("grid", grid), ("queue", queue)) if value is not None}
        for index, (kernel, rows) in enumerate(zip(self.kernels, self._rows(args), strict=True)):
            if rows:
                here = [_of_device(value, index, rows) for value in args]
                by_name = {name: _of_device(value, index, rows) for name, value in (options | named).items()}
                futures.append(kernel(*here, **by_name))
                self.group.launched[index] += len(rows)
        return GroupFuture(futures)

    def _launch_with(self, config: LaunchConfig, *args: Any, **named: Any) -> GroupFuture:
        config, named = take_keywords(config, named)
        if config.local_size is not None:
            named["local_size"] = config.local_size
        return self(*args, grid=config.groups, queue=config.queue, **named)

    def _rows(self, args: Iterable[Any]) -> tuple[range, ...]:
        """The rows of each device, which are the same for all sharded arrays."""
        self.group.require_open()
        arrays = [array for array in args if isinstance(array, (GroupArray, Array))]
        for array in arrays:
            if isinstance(array, Array) or array.group is not self.group:
                raise ValueError(
                    f"an array of shape {array.shape} is not of {self.group}; pass group.array(it), or "
                    "group.replicate(it)"
                )
        divisions = {array.rows for array in arrays if isinstance(array, GroupArray) and array.rows is not None}
        if len(divisions) > 1:
            given = " and ".join("/".join(str(len(rows)) for rows in division) for division in divisions)
            raise ValueError(
                f"arrays of one launch are sharded alike; got {given} rows; make them anew: group.array(old)"
            )
        if not divisions:
            raise ValueError("a launch on a group takes a sharded array, made by group.array, empty or zeros")
        return divisions.pop()


def _of_device(value: Any, index: int, rows: range) -> Any:
    if isinstance(value, GroupArray):
        return value.shards[index]
    return value(rows) if callable(value) else value


class DeviceGroup(Handle):
    """Several devices that compute together, each on its shard of the rows.

    The devices should be independent. Two drivers on the same cores are not: together they may be slower than the
    faster one alone.

    Attributes:
        runtimes: one per device, in the order given.
        launched: rows launched on each device in the current `balance()`.

    Args:
        devices: open runtimes, which the group does not close; devices as `Runtime` takes them, for runtimes of its
            own; or None, for all usable devices.

    Raises:
        NoDevice: one of the devices, or any device at all, is missing.
        ValueError: a runtime or a device is given twice, or the list is empty.
    """

    def __init__(self, devices: Iterable[Runtime | DeviceInfo | int | str] | None = None) -> None:
        if isinstance(devices, (str, int, Runtime, DeviceInfo)):
            raise TypeError(f"a group is of several devices; got {devices!r}; pass a list")
        with ExitStack() as opening:
            given = [*(_usable() if devices is None else devices)]
            self.runtimes = tuple(
                entry if isinstance(entry, Runtime) else opening.enter_context(closing(Runtime(entry)))
                for entry in given
            )
            keys = [
                entry if entry is runtime else runtime.device.physical.index
                for entry, runtime in zip(given, self.runtimes, strict=True)
            ]
            if not keys or len({*keys}) < len(keys):
                raise ValueError(f"a group has at least one device, and each once; got {given}")
            for runtime in self.runtimes:
                runtime.require_open()
            self._owned = [runtime for entry, runtime in zip(given, self.runtimes, strict=True) if entry is not runtime]
            opening.pop_all()
        self._n_measured, self.launched = 0, [0] * len(keys)
        self._weights = normalized([1.0] * len(keys), len(keys))
        self._opened()

    # -- balancing ----------------------------------------------------------------------------------------------------

    @property
    def weights(self) -> Weights:
        """The fraction of the rows that each device gets of new sharded arrays; may be set, in any unit."""
        return self._weights

    @weights.setter
    def weights(self, weights: Sequence[float]) -> None:
        self._weights, self._n_measured = normalized(weights, len(self.runtimes)), 0

    def split(self, n_rows: int) -> tuple[range, ...]:
        """Splits this many rows by the weights."""
        return split_rows(n_rows, self._weights)

    def balance(self) -> Balance:
        """Measures the launches in the block, and sets `weights` so that all devices would have finished together.

            with group.balance():
                kernel(x, out)
            x, out = group.array(x), group.empty(out.shape)     # sharded anew

        The weights are the mean of the last measurements. Launch each kernel once before, as drivers compile on the
        first launch. A device without rows keeps none. For launches on single runtimes in the block, add their rows to
        the list that the block gets, per device.

        Raises:
            ValueError: a runtime is being profiled.
        """
        return Balance(self)

    def learn(self, seconds: Sequence[float]) -> None:
        """Takes the time of each device's launches since `launched` was set to zeros into the weights."""
        self._weights = learned(self._weights, self.launched, seconds, self._n_measured)
        self._n_measured += 1

    # -- arrays and kernels ------------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> GroupArray:
        """Returns an array with arbitrary content, sharded by rows (the first axis) by the current `weights`.

        Raises:
            ValueError: the shape has no axis, or a length is negative.
            OutOfDeviceMemory: a shard does not fit its device.
        """
        self.require_open()
        n_rows, *others = layout.lengths(shape) or (-1,)
        if n_rows < 0:
            raise ValueError(f"an array is sharded along its first axis, of 0 rows or more; got shape {shape}")
        split = self.split(n_rows)
        pairs = zip(self.runtimes, split, strict=True)
        return GroupArray(self, [runtime.empty((len(rows), *others), dtype) for runtime, rows in pairs], split)

    def array(self, data: npt.ArrayLike | GroupArray, dtype: npt.DTypeLike | None = None) -> GroupArray:
        """Returns a copy of `data`, sharded as by `empty`; a group's array is copied through the host."""
        host = host_array(data, dtype)
        result = self.empty(host.shape, host.dtype)
        result.write(host)
        return result

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> GroupArray:
        """Returns an array of zeros, sharded as by `empty`."""
        self.refuse_torn_recording(f"zeros() of {self}")
        result = self.empty(shape, dtype)
        for shard in result.shards:
            shard.fill(0)
        return result

    def replicate(self, data: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> GroupArray:
        """Returns a copy of all of `data` on every device."""
        self.require_open()
        array = host_array(data, dtype)
        return GroupArray(self, [runtime.array(array) for runtime in self.runtimes], None)

    def kernel(self, source: program.Source | Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Returns the kernel for every device; options and errors are those of `Runtime.kernel`.

        A kernel in Python is passed without options: `group.kernel(saxpy)`, `group.kernel(saxpy[groups, local_size])`.
        It takes the group's arrays itself, too; here, numbers and the grid can be functions of a device's rows.
        A function made by `vc.elementwise`, `vc.vectorize` or `vc.reduce` is returned as it is.
        """
        self.require_open()
        if callable(source):
            if hasattr(source, "definition"):
                return source
            if options:
                raise TypeError(f"a Python kernel has no options here; got {', '.join(options)}; leave them out")
            return GroupKernel(self, [source] * len(self.runtimes))
        return GroupKernel(self, [runtime.kernel(source, **options) for runtime in self.runtimes])

    def refuse_torn_recording(self, what: str) -> None:
        """Raises ValueError if graphs of some devices record on this thread, and those of others do not.

        The others would do their part at once.
        """
        recording = [runtime.scheduler.recording() is not None for runtime in self.runtimes]
        if any(recording) and not all(recording):
            raise ValueError(
                f"{what} is recorded on all of its devices or on none; {sum(recording)} of {len(recording)} record a "
                "graph; use x.shards, or record on each"
            )

    # -- all together -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submits the launched work on every device; does not wait for it. Raises after all have been flushed."""
        with ExitStack() as every:
            for runtime in reversed(self.runtimes):
                every.callback(runtime.flush)

    def wait(self) -> None:
        """Waits for all work on all devices. Raises after all have been waited for."""
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

    def _repr_html_(self) -> str:
        rows = [
            (runtime.device.physical.name, runtime.device.physical.kind, f"{weight:.0%}")
            for runtime, weight in zip(self.runtimes, self._weights, strict=True)
        ]
        return html_rows(("device", "kind", "rows"), rows)


class Balance:
    """The block of `DeviceGroup.balance`."""

    def __init__(self, group: DeviceGroup) -> None:
        self._group, self._measuring = group, ExitStack()
        self._profiles: list[Profile] = []

    def __enter__(self) -> list[int]:
        group = self._group
        begin_block(self)
        group.launched = [0] * len(group.runtimes)
        with ExitStack() as entering:
            self._profiles = [entering.enter_context(runtime.profile()) for runtime in group.runtimes]
            self._measuring = entering.pop_all()
        return group.launched

    def _exit(self, *error: Any) -> None:
        with self._measuring:
            if error[0] is None:
                self._group.flush()
        if error[0] is None:
            self._group.learn([sum(task.ns for task in profile.tasks) / 1e9 for profile in self._profiles])

    def _leave(self) -> None:
        """Ends the profiles, if their end was interrupted."""
        for profile in self._profiles:
            profile.abandon()

    __exit__ = BlockExit(_exit, _leave)


def _usable() -> list[int]:
    with Instance() as instance:  # if there is none, opening the first one raises the reason
        physical_devices = enumerate_devices(instance)
        usable = [device for device in physical_devices if not device.unfit()]
        if usable and not gpus(usable):
            cpu_fallback.warn_once(usable[0], physical_devices)
        return [device.index for device in usable] or [0]
