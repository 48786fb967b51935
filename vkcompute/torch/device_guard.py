"""Exceptions in hooks of gradients, for which the destructors of PyTorch's engine would end the process."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch

_EXHAUSTED = zip()  # the type of no specialized loop, so that CPython looks for a pending exception at its end
_TYPE = torch._C._autograd.DeviceType.PrivateUse1
_TAKEN = "vkcompute.torch.taken"
"""Name of the list of the exceptions that a call of `backward` has lost, in PyTorch's state of each thread."""


class DeviceGuard(torch._C._acc.DeviceGuard):  # type: ignore[misc]
    """Tells the type of the device; takes an exception that is pending meanwhile, which nobody could return from.

    The engine's destructors ask for the type while a hook's exception unwinds them. An exception from there would end
    the process, as destructors must not raise.
    """

    def type_(self) -> Any:
        """Returns the type of the device."""
        try:
            for _ in _EXHAUSTED:
                pass
        except BaseException as error:
            taken = _taken()
            if taken is not None:
                taken.append(error)
        return _TYPE


class Engine(torch._C._ImperativeEngine):  # type: ignore[misc]
    """PyTorch's engine of gradients, which raises the exceptions that the guard took.

    The engine computes the calls of all threads on one thread per device, on which it sets the state of the caller's.
    So the guard finds the list of the call whose hook has failed.
    """

    def run_backward(self, *args: Any, **named: Any) -> Any:
        """Computes gradients."""
        outer, taken = _taken(), []  # type: ignore[var-annotated]
        _stash(_TAKEN, taken)
        try:
            return super().run_backward(*args, **named)
        except SystemError:
            if not taken:
                raise
        finally:
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
