"""Switches between two threads on purpose: at chosen starts and returns of the package's functions, and nowhere else.

One thread runs at a time. It hands over where its schedule says so, and where it waits for a lock that the other holds.
So an outcome depends on the schedule alone, and two threads that wait for each other are seen at once. `install` comes
before the first import of vkcompute: it replaces `threading.Lock` and `threading.RLock`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_Lock, _RLock = threading.Lock, threading.RLock
_WAIT_S, _MANY = 20, 5
Program = Callable[[], Any]


class Deadlock(BaseException):
    """Two threads wait for each other."""


class Outcome(NamedTuple):
    """What two programs returned, or the errors that they raised, as text."""

    results: tuple[Any, Any]
    n_events: tuple[int, int]
    problem: str


class _Thread(threading.Thread):
    """One of two threads that take turns.

    Attributes:
        switches: numbers of the events after which it hands over.
        is_waiting: True while it waits for a lock of the other.
    """

    def __init__(self, program: Program, switches: Sequence[int], package: str) -> None:
        super().__init__(daemon=True)
        self.program, self.switches, self.package = program, frozenset(switches), package
        self.other: _Thread
        self.gate = _Lock()
        self.gate.acquire()
        self.n_events, self.is_waiting, self.has_ended = 0, False, False
        self.result: Any = None
        self.problem = ""

    def run(self) -> None:
        self.gate.acquire()
        _turns[threading.get_ident()] = self
        sys.setprofile(self._at)
        try:
            self.result = self.program()
        except BaseException as error:
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            sys.setprofile(None)
            del _turns[threading.get_ident()]
            self.has_ended = True
            self.other.gate.release()

    def _at(self, frame: Any, event: str, _: Any) -> None:
        if event in ("call", "return") and frame.f_code.co_filename.startswith(self.package):
            self.n_events += 1
            if self.n_events in self.switches:
                self.hand_over()

    def hand_over(self) -> None:
        """Lets the other thread run until it hands over or ends."""
        if not self.other.has_ended:
            self.other.gate.release()
            self.gate.acquire()

    def wait_for(self, acquire: Callable[[bool], bool]) -> bool:
        """Takes a lock; lets the other thread run as long as that has it."""
        n_vain = 0  # times that the other thread waited, too
        while not acquire(False):
            if self.other.has_ended:  # a third thread has it, for a moment
                return acquire(True)
            n_vain = n_vain + 1 if self.other.is_waiting else 0
            if n_vain == _MANY:  # it has tried again each time
                raise Deadlock("two threads wait for each other's locks")
            self.is_waiting = True
            try:
                self.hand_over()
            finally:
                self.is_waiting = False
        return True


_turns: dict[int, _Thread] = {}
"""The two threads, by their numbers."""


class _SwitchingLock:
    """A lock whose taker hands over to the thread that holds it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.release = lock.release
        for name in ("_is_owned", "locked"):
            if hasattr(lock, name):
                setattr(self, name, getattr(lock, name))

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        thread = _turns.get(threading.get_ident())
        if not blocking or timeout >= 0 or thread is None:
            return bool(self._lock.acquire(blocking, timeout))
        return thread.wait_for(self._lock.acquire)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _SwitchingRLock(_SwitchingLock):
    """A reentrant one, which conditions release while they wait."""

    def _release_save(self) -> Any:
        return self._lock._release_save()

    def _acquire_restore(self, state: Any) -> None:
        self._lock._acquire_restore(state)


def install() -> None:
    """Has all modules that are imported from now on make locks that hand over."""
    new: Any = threading
    new.Lock, new.RLock = lambda: _SwitchingLock(_Lock()), lambda: _SwitchingRLock(_RLock())


def run(programs: Sequence[Program], switches: Sequence[Sequence[int]], package: str) -> Outcome:
    """Runs two programs on a thread each, the first one first, with these numbers of events at which each hands over.

    Args:
        package: the folder of the package, whose functions' starts and returns count.
    """
    threads = [_Thread(program, at, package) for program, at in zip(programs, switches, strict=True)]
    threads[0].other, threads[1].other = threads[1], threads[0]
    for thread in threads:
        thread.start()
    threads[0].gate.release()
    for thread in threads:
        thread.join(_WAIT_S)
    problems = [each.problem or ("it hangs" if each.is_alive() else "") for each in threads]
    results, n_events = (tuple([getattr(each, name) for each in threads]) for name in ("result", "n_events"))
    return Outcome(results, n_events, "; ".join(filter(None, problems)))


def interrupt(program: Program, after: int, package: str) -> bool:
    """Runs a program with KeyboardInterrupt after so many starts of the package's functions; False if it had fewer.

    Finalizers are left out, as Python drops what they raise.
    """
    left = [after]

    def at(frame: Any, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(package) or _is_dropped(frame):
            return
        left[0] -= 1
        if left[0] < 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(at)
    try:
        program()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return left[0] < 0


def _is_dropped(frame: Any) -> bool:
    """True in a finalizer, or in the callback of a weak reference."""
    while frame is not None and frame.f_code.co_name not in ("__del__", "_left", "_returned"):
        frame = frame.f_back
    return frame is not None
