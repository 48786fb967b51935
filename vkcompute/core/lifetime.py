"""How owners end: once, in order, and never while a device still uses what they own."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter, deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from vkcompute.errors import ClosedError

if TYPE_CHECKING:
    from vkcompute.core.device import Device

_H = TypeVar("_H", bound="Handle")

Owned = tuple[Any, ...]
"""The function that destroys a driver object, and its arguments."""

_changes: deque[tuple[str, int]] = deque()
note = _changes.append  # one step: where nothing may come between it and the line before
_counts: Counter[str] = Counter()
_counts_lock = threading.Lock()
_MANY_CHANGES = 512


def count(kind: str, change: int) -> None:
    """Notes that an owner of this kind began (+1) or ended (-1).

    A finalizer may run between any two steps of this very function, on this very thread: so the note is one atomic
    append, and the lock is only ever tried.
    """
    note((kind, change))
    if len(_changes) > _MANY_CHANGES and _counts_lock.acquire(blocking=False):
        try:
            _tally()
        finally:
            _counts_lock.release()


def _tally() -> None:
    for _ in range(len(_changes)):
        kind, change = _changes.popleft()
        _counts[kind] += change


def live_counts() -> dict[str, int]:
    """How many owners of each kind are open, kinds with none left out. For tests of leaks."""
    with _counts_lock:
        _tally()
        return {kind: n for kind, n in sorted(_counts.items()) if n}


def destroy_all(owned: list[Owned], first: int = -1) -> None:
    """Destroys driver objects, the newest first, or with 0 the oldest; after Ctrl-C `owned` has those that are left."""
    while owned:
        call_once(owned, first)


def call_once(calls: list[Owned] | deque[Owned], at: int) -> None:
    """Makes the call (function, arguments…) at this place, and takes it out, in one step that Ctrl-C cannot divide."""
    function, *arguments = calls[at]
    done: list[Any] = []
    step = map(function, *zip(arguments))
    try:
        done += step  # in one step with the next, as in Queue.submit
    except Exception:  # the validation layer's objection, say
        del calls[at]
        raise
    del calls[at]


def left_behind(what: str, pid: int) -> ClosedError:
    """The error for what belongs to the process that forked this one."""
    return ClosedError(
        f"{what} belongs to process {pid}, and drivers do not survive a fork; start workers with multiprocessing's "
        "'spawn' method, or open devices only in them"
    )


def unpicklable(self: object) -> NoReturn:
    """The `__reduce__` of what is a driver's."""
    raise TypeError(
        f"a {type(self).__name__} lives on its device and cannot be pickled or copied by copy.copy; use .numpy(), "
        ".copy() of tensors, and open a runtime in each process"
    )


class Handle:
    """Owns something of the driver's; ends by `close()`, by `with`, or at last by its finalizer.

    A subclass frees what it owns in `_destroy`, which may be interrupted by Ctrl-C: then another `close()` calls it
    again for what is left. It holds its parent in an attribute, so that the parent outlives it.
    """

    _open = _undone = False
    _pid = 0
    _finalized = True  # False where an owner always ends the object: then the finalizer leaves that to it

    def _opened(self) -> None:
        """To be called as the last step of the constructor, when there is something to destroy."""
        self._pid, kind = os.getpid(), type(self).__name__
        self._open = True
        note((kind, +1))  # in one step with the line above, as in Queue.submit

    @property
    def inherited(self) -> bool:
        """Whether the object came into this process by a fork: it can neither be used nor destroyed here."""
        return self._pid != os.getpid()

    @property
    def closed(self) -> bool:
        """Whether `close()` has been called."""
        return not self._open

    def close(self) -> None:
        """Ends the object; a second call does nothing, but what Ctrl-C kept a first one from. In a forked child nothing
        of the parent's is touched.
        """
        kind = type(self).__name__
        if self._open:
            self._open, self._undone = False, True
            note((kind, -1))
        if self._undone and not self.inherited:
            self._undone = False  # on another thread, a second call does nothing
            try:
                self._destroy()
            except BaseException:
                self._undone = True
                raise

    def _destroy(self) -> None:
        raise TypeError(f"{type(self).__name__} defines no _destroy")

    def require_open(self) -> None:
        """Raises ClosedError if the object is closed, or belongs to the parent of this process."""
        if not self._open:
            raise ClosedError(f"this {type(self).__name__} is closed; make a new one")
        if self.inherited:
            raise left_behind(f"this {type(self).__name__}", self._pid)

    __reduce__ = unpicklable

    def __enter__(self: _H) -> _H:
        self.require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # The garbage collector finalizes a circle of objects in any order, parents before children too.
        try:
            if self._finalized:
                self.close()
        except Exception:  # a finalizer has nobody to tell; the driver reclaims what is left with the process
            count("unfinalized " + type(self).__name__, +1)


class DeviceChild(Handle):
    """A handle made by a device: destroyed after its last use, or with the device if that is closed first.

    A subclass makes what it owns with `own`. Its `close()` hands that to the device's retirement, from any thread, at
    any moment.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.owned: list[Owned] = []
        self._opened()  # here, so that what a constructor has made is destroyed where a later step of it fails

    def _opened(self) -> None:
        super()._opened()
        # The device knows of the driver's objects themselves: a child's finalizer may run after the device's. By the id
        # of what it holds: no other gets that meanwhile.
        self.device.children[id(self.owned)] = weakref.ref(self), self.owned

    def own(self, kind: str, info: Any) -> Any:
        """Makes a driver object of type `kind`, to be destroyed with this one; the newest first."""
        return self.device.retry(self.device.create, f"Vk{kind}", f"vkCreate{kind}", info, self.owned)

    def _destroy(self) -> None:
        if id(self.owned) in self.device.children:  # where Ctrl-C comes in between, the device's end finds it there
            self.device.retirement.append((destroy_all, self.owned))
            self.device.children.pop(id(self.owned), None)
