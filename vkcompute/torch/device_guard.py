"""Exceptions in hooks of gradients, for which the destructors of PyTorch's engine would end the process."""

from __future__ import annotations

from typing import Any

import torch

_EXHAUSTED = zip()  # the type of no specialized loop, so that CPython looks for a pending exception at its end


class DeviceGuard(torch._C._acc.DeviceGuard):  # type: ignore[misc]
    """Tells the type of the device; takes an exception that is pending meanwhile, which nobody could return from.

    The engine's destructors ask for the type while a hook's exception unwinds them. An exception from there would end
    the process, as destructors must not raise.

    Attributes:
        taken: the exception that was taken last, which `Engine` raises.
    """

    taken: BaseException | None = None

    def type_(self) -> Any:
        """Returns the type of the device."""
        try:
            for _ in _EXHAUSTED:
                pass
        except BaseException as error:
            DeviceGuard.taken = error
        return _TYPE


_TYPE = torch._C._autograd.DeviceType.PrivateUse1


class Engine(torch._C._ImperativeEngine):  # type: ignore[misc]
    """PyTorch's engine of gradients, which raises the exceptions that the guard took."""

    def run_backward(self, *args: Any, **named: Any) -> Any:
        """Computes gradients."""
        try:
            return super().run_backward(*args, **named)
        except SystemError:
            error, DeviceGuard.taken = DeviceGuard.taken, None
            if error is None:
                raise
        raise error
