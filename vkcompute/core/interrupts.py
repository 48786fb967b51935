"""Ctrl-C safety: steps that a signal handler cannot divide.

Ctrl-C raises KeyboardInterrupt from a signal handler, and so may any other handler. CPython runs handlers in the main
thread, between two bytecode instructions, and only at some places. These are the start of a Python function, the end of
a call, and the jump back of a loop; before Python 3.11 also conditional jumps that are taken. Two kinds of steps are
therefore indivisible:

1. A call made from C, and the storing of its result by the same C function: `call_into`. It is for functions of the
   driver whose effect must not be forgotten: a submit, the creation or the destruction of an object.
2. A sequence of assignments, `+=` on lists, and `del`, on values that are known before: no calls, no loops, no
   conditional expressions, no properties. It is for changes of several attributes that belong together. A comment
   "indivisible" marks each of them.

Together they make a transaction:

    done: list[int] = []
    try:
        call_into(done, function, *arguments)   # the driver's effect
    finally:
        if done:                                # the truth, also after Ctrl-C
            self.count += 1                     # indivisible from here on
            self.items += (item,)

Anything else that an interrupt cuts short must be safe to repeat. `tests/faults.py` interrupts at each of the places in
turn.

A handler may also raise at the start of `__exit__`, before its first statement. So context managers have a `BlockExit`,
which ends the block in any case.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable
from functools import partial
from itertools import starmap
from sys import _getframe
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, ClassVar, TypeVar

from vkcompute import locks
from vkcompute.errors import VkComputeError

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OWN_FILES = _PACKAGE, contextlib.__file__, functools.__file__  # cached_property is written in Python before 3.12
_known_files: set[str] = set()
"""Cache of the files for which `_is_own` is true."""


_INTERRUPTED = (
    "a signal handler or finalizer uses what it has interrupted in the middle of a call; have it set a flag, and do "
    "the work when the interrupted call has returned"
)


def _is_own(file: str) -> bool:
    """True for a file of this package, or of code that it calls and that calls it back."""
    if file.startswith(_OWN_FILES):
        _known_files.add(file)
        return True
    return False


def call_into(results: list[_T], function: Callable[..., _T], *arguments: Any) -> None:
    """Calls `function(*arguments)` and appends the result, with no signal handler in between.

    If a handler raises before the call, `results` is unchanged. Handlers may also run inside of a Python function, but
    not between its return and the append.
    """
    results += starmap(function, (arguments,))  # `+=` on a list calls and appends in C


_exits: dict[int, weakref.ref[Any]] = {}
"""thread -> what it has got last for an `__exit__`"""
_blocks: dict[int, weakref.ref[Any]] = {}
"""id of a context manager whose block is entered -> reference to what its `with` statement holds for `__exit__`"""


class BlockExit:
    """The `__exit__` of a context manager that a signal handler cannot prevent.

    A `with` statement holds the callable for `__exit__` until the block is left, however it is left. If the callable is
    gone and has not returned, `leave` ends the block. An `ExitStack` holds none: there, the rules above apply.

    Args:
        exit: the method.
        leave: is called with the manager to end the block; does nothing for one that has ended.
    """

    def __init__(self, exit: Callable[..., None], leave: Callable[[Any], object]) -> None:
        self._exit, self._leave = exit, leave

    def __get__(self, manager: Any, owner: object = None) -> Callable[..., None]:
        if manager is None:
            return self._exit
        held = partial(_finished, self._exit, self._leave, manager)
        _exits[get_ident()] = weakref.ref(held)
        return held


def begin_block(manager: Any) -> None:
    """Has the block end from now on when its `with` statement is left; for the start of `__enter__`."""
    reference = _exits.pop(get_ident(), None)
    held = None if reference is None else reference()
    if held is not None and held.args[2] is manager:
        _blocks[id(manager)] = weakref.ref(held, partial(_left, held.args[1], manager))


def _finished(exit: Callable[..., None], _: Callable[[Any], object], manager: Any, *error: Any) -> None:
    """Ends a block."""
    exit(manager, *error)
    _blocks.pop(id(manager), None)


def _left(leave: Callable[[Any], object], manager: Any, _: object) -> None:
    """Ends a block whose `__exit__` was interrupted."""
    _blocks.pop(id(manager), None)
    leave(manager)


class Guarded:
    """Has a lock that its thread may take again, but not in a signal handler or finalizer that interrupts the holder.

    Both run in the middle of library code, whose data may be half changed.

    Attributes:
        lock_rank: the rank of the lock.
        unguarded_lock: the lock, for code that must not fail, or that does what `lock` does by itself.
        is_owned: returns True if this thread has the lock.
        holders: thread -> code object and id of the frame that took the lock first or is about to.
        takers: id -> code object of each function with `takes_lock`. Hashing code objects is slow.
    """

    lock_rank: locks.Rank
    takers: ClassVar[dict[int, CodeType]] = {}

    def __init__(self, rank: locks.Rank) -> None:
        self.lock_rank = rank
        self.renew_locks()

    def renew_locks(self) -> None:
        """Replaces the lock in a forked child, where the thread that held it may not exist."""
        lock = locks.make(self.lock_rank)
        self.unguarded_lock, self.is_owned = lock, lock._is_owned
        self.holders: dict[int, tuple[CodeType | None, int]] = {}

    @property
    def lock(self) -> Any:
        """The lock, for a `with` statement that takes it at once.

        Raises:
            VkComputeError: a signal handler or a finalizer uses what the code that it interrupts has locked, or takes
                locks out of order.
        """
        if self.is_owned():
            self.refuse_interruption(_getframe(1))
        else:
            if self.lock_rank < locks.Rank.DEVICE and locks.are_held(self.lock_rank):  # the library itself never does
                raise VkComputeError(_INTERRUPTED)
            frame = _getframe(1)
            self.holders[get_ident()] = frame.f_code, id(frame)
        return self.unguarded_lock

    def refuse_interruption(self, frame: FrameType) -> None:
        """Raises an error if code outside of the package runs between the lock's holder and `frame`, which it calls."""
        (holder, number), inner, foreign = self.holders.get(get_ident(), (None, 0)), frame.f_back, False
        takers = self.takers
        while inner is not None and not ((code := inner.f_code) is holder and id(inner) == number):
            if id(code) in takers:
                break
            if code.co_filename not in _known_files:
                foreign = foreign or not _is_own(code.co_filename)
            inner = inner.f_back
        if foreign and inner is not None:
            raise VkComputeError(_INTERRUPTED)


def takes_lock(function: _F) -> _F:
    """Registers a function that does what `Guarded.lock` does for `unguarded_lock`, as a holder without a record."""
    Guarded.takers[id(function.__code__)] = function.__code__
    return function
