"""Contexts: the part of a runtime that arrays, kernels and graphs hold; readers: its lazy arrays."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from vkcompute.core.device import Device
from vkcompute.core.lifetime import Handle, process_id
from vkcompute.errors import again
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.memory.transfers import Transfers
from vkcompute.runtime.scheduling.scheduler import Scheduler
from vkcompute.runtime.tuning import tuning_of

_T = TypeVar("_T")
_KINDS = "Storage", "Uniform", "Texel"
_MAX_PLANS, _MAX_KERNELS = 4096, 1024

ONE_RUNTIME = "make all on one with device=gpu or vc.set_default_runtime(gpu), or copy one with gpu.array(x)"
"""The remedy for arrays of two runtimes."""
_contexts: dict[int, weakref.ref[Context]] = {}
"""The runtimes of this process, by id. Python stores and deletes an item at once, so nothing needs a lock."""


class Context(Handle):
    """An open device with its scheduler and its transfers; the base of `Runtime`.

    Attributes:
        device: the device.
        plans: of repeated launches, by the launcher and by the launch keys and types of the arguments.
        types: dtypes of the results of operations, by the operation and the dtypes of the operands.
        pending: references to the arrays that are still to be computed, as the keys of a dict, in their order.
        forget: removes one of these.
        alignment: what all bindings' offsets are multiples of, and elements' on which kernels begin; a power of two.
    """

    def __init__(self, device: Device, submit_limit_s: float | None) -> None:
        self.device = device
        # A submit to a CPU takes time from the work itself, which begins no sooner.
        self.scheduler = Scheduler(device, self, submit_limit_s, submits_early=tuning_of(device.physical).submits_early)
        self.transfers = Transfers(self.scheduler)
        self._cache: dict[Hashable, Any] = {}
        self._kernels: BoundedCache[Hashable, Any] = BoundedCache(_MAX_KERNELS)
        self.plans: BoundedCache[Hashable, Any] = BoundedCache(_MAX_PLANS)
        self.types: BoundedCache[Hashable, Any] = BoundedCache(_MAX_PLANS)
        self.pending: dict[Reader, None] = {}
        self.forget: Callable[[Reader], None] = self.pending.pop
        limits = device.physical.limits
        self.alignment: int = max(16, *[limits[f"min{kind}BufferOffsetAlignment"] for kind in _KINDS])

    def require_open(self) -> None:
        """Checks that the runtime can be used.

        Raises:
            ClosedError: it is closed, or belongs to the parent of this process.
            DeviceLost: its device is lost.
        """
        loss = self.device.loss
        if self._open and loss is None and self._pid == process_id[0]:  # as below, in one call
            return
        super().require_open()
        if loss is not None:
            raise again(loss)

    def own(self, array: Any) -> None:
        """Assigns a new lazy array to this thread's recording, before other threads see it and compute it."""
        if (recorder := self.scheduler.recording()) is not None:
            recorder.own(array)

    def compute_pending(self) -> None:
        """Computes all arrays that are still to be computed."""
        for reference in reversed(list(self.pending)):
            reference.compute()

    def flush(self) -> None:
        """Submits the work that has been launched; does not wait for it."""
        self.require_open()
        self.compute_pending()
        self.scheduler.flush()

    def wait(self) -> None:
        """Waits for all work launched so far. Then the arrays that graphs read into are filled."""
        self.require_open()
        self.compute_pending()
        self.transfers.finish()
        self.scheduler.wait()


def register(context: Context) -> None:
    """Adds a runtime to those of this process."""
    key = id(context)
    _contexts[key] = weakref.ref(context, partial(_contexts.pop, key))


def contexts() -> list[Context]:
    """Returns the runtimes of this process, which its end closes; also closed ones that still exist."""
    return [context for reference in [*_contexts.values()] if (context := reference()) is not None]


def mixed_runtimes(name: str, one: Context, other: Context) -> ValueError:
    """Returns the error for arrays of two runtimes."""
    on = f"both on {one.device}" if str(one.device) == str(other.device) else f"on {one.device} and on {other.device}"
    return ValueError(f"{name}: the arrays are of two runtimes, {on}; {ONE_RUNTIME}")


def cached(context: Context, key: Hashable, make: Callable[[], _T], release: Callable[[_T], None] | None = None) -> _T:
    """Returns the object that `make` made for this key; it is kept until the runtime is closed.

    Args:
        release: called with the object when device memory is short, to free what can be made again.

    Raises:
        ClosedError: the runtime is closed.
    """
    cache = context._cache
    value: _T | None = cache.get(key)
    if value is None:
        context.require_open()
        made = make()
        value = cache.setdefault(key, made)
        if release is not None and value is made:
            context.device.memory.release_callbacks.append(lambda: release(cache[key]) if key in cache else None)
    return value


def kernel_of(context: Context, key: Hashable, make: Callable[[], _T]) -> _T:
    """Returns the kernel that `make` made for this key, the same to all threads; the oldest of many are dropped.

    Raises:
        ClosedError: the runtime is closed.
    """
    kernel: _T | None = context._kernels.get(key)
    if kernel is None:
        with context.scheduler.device.lock:
            context.require_open()
            kernel = context._kernels.get(key)
            if kernel is None:
                kernel = context._kernels[key] = make()
    return kernel


class Reader(weakref.ref[Any]):
    """A weak reference to a lazy array. A buffer calls it back before it is overwritten."""

    __slots__ = ()
    __hash__ = object.__hash__  # those of `weakref.ref` are the array's
    __eq__ = object.__eq__

    @property
    def is_done(self) -> bool:
        """True if the array no longer needs the buffer: it is computed, or nobody has it."""
        array = self()
        return array is None or array._expression is None

    def compute(self) -> None:
        """Computes the array after those that need it: it may be computed with them.

        Does nothing for one that another thread's recording is to compute.
        """
        array = self()
        expression = None if array is None else array.expression
        if array is None or expression is None or array.is_of_other_recording:
            return
        del array
        for reader in reversed(expression.readers):
            reader.compute()
        array = self()
        if array is not None:
            array.compute()

    before_overwriting = compute
