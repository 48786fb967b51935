"""Exceptions in hooks of gradients, and Ctrl-C, where PyTorch's code in C++ would end the process for them."""

from __future__ import annotations

import _thread
import ctypes
import functools
import itertools
import operator
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

_EXHAUSTED = zip()  # the type of no specialized loop, so that CPython looks for a pending exception at its end
_TYPE = torch._C._autograd.DeviceType.PrivateUse1
_TAKEN = "vkcompute.torch.taken"
"""Name of the list of the exceptions that a call of `backward` has lost, in PyTorch's state of each thread."""


class DeviceGuard(torch._C._acc.DeviceGuard):  # type: ignore[misc]
    """Tells the type of the device.

    PyTorch asks for it where an exception ends the process. So the method and its lookup run no bytecode, which could
    raise KeyboardInterrupt, but while gradients are computed.
    """


_asked: list[Any] = []
"""Has an element from a lookup of the method until its call."""


def _after(change: Callable[[Any], Any], argument: Any, result: Any) -> Any:
    """Returns an iterator in C that changes `_asked` and yields a result, each time that it is asked."""
    return map(operator.itemgetter(1), zip(map(change, itertools.repeat(argument)), itertools.repeat(result)))


_method = _after(_asked.pop, 0, _TYPE).__next__
_IN_C = property(functools.partial(next, _after(_asked.append, None, _method)))


def _type_after_taking() -> Any:
    """Returns the type of the device; takes an exception that is pending meanwhile, which nobody could return from.

    The engine's destructors ask for the type while a hook's exception unwinds them. An exception from there would end
    the process, as destructors must not raise.
    """
    try:
        for _ in _EXHAUSTED:
            pass
    except BaseException as error:
        taken = _taken()
        if taken is not None:
            taken.append(error)
    return _TYPE


_TAKING = staticmethod(_type_after_taking)
DeviceGuard.type_ = _IN_C
_backward: set[object] = set()
"""One object per running call of `backward`."""


def defer_interrupts() -> None:
    """Makes Ctrl-C wait where C++ asks for the type: PyTorch's lookup of a method looks for signals, too.

    Only the handler of Python's start is replaced, and only by the main thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: Any) -> None:
    """Raises KeyboardInterrupt; a little later if C++ asks for the type now, or in a finalizer, which would drop it."""
    if _asked or (frame is not None and frame.f_code.co_name == "__del__"):
        _thread.start_new_thread(_interrupt_later, (number,))
    else:
        signal.default_int_handler(number, frame)


def _interrupt_later(number: int) -> None:
    """Interrupts the main thread, which has left the handler by then: called there, it would call itself."""
    time.sleep(0.005)
    _thread.interrupt_main(signal.Signals(number))


class Engine(torch._C._ImperativeEngine):  # type: ignore[misc]
    """PyTorch's engine of gradients, which raises the exceptions that the guard took.

    The engine computes the calls of all threads on one thread per device, on which it sets the state of the caller's.
    So the guard finds the list of the call whose hook has failed.
    """

    def run_backward(self, *args: Any, **named: Any) -> Any:
        """Computes gradients."""
        outer, taken, call = _taken(), [], object()  # type: ignore[var-annotated]
        _stash(_TAKEN, taken)
        try:
            _backward.add(call)
            DeviceGuard.type_ = _TAKING
            return super().run_backward(*args, **named)
        except SystemError:
            if not taken:
                raise
        finally:
            _backward.discard(call)
            if not _backward:
                DeviceGuard.type_ = _IN_C
            _stash(_TAKEN, outer)
        raise taken.pop()


def _takes_a_reference() -> bool:
    """True if PyTorch takes a reference of what it keeps, which it does not add, as 2.10 does."""
    kept: list[Any] = []
    n = sys.getrefcount(kept)
    torch._C._stash_obj_in_tls(f"{_TAKEN}.first", kept)
    is_taken = sys.getrefcount(kept) == n
    if is_taken:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return is_taken


_TAKES_A_REFERENCE = _takes_a_reference()


def _stash(name: str, value: Any) -> None:
    """Keeps an object in PyTorch's state of this thread."""
    if _TAKES_A_REFERENCE:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    torch._C._stash_obj_in_tls(name, value)


def _taken() -> list[BaseException] | None:
    """Returns the list of the call of `backward` that this thread computes; None outside of one."""
    return torch._C._get_obj_in_tls(_TAKEN) if torch._C._is_key_in_tls(_TAKEN) else None
