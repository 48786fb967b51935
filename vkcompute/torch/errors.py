"""Warnings and errors of PyTorch's device."""

from __future__ import annotations

import warnings
from typing import Any

from vkcompute.errors import DtypeError

_said: set[str] = set()


class FallbackWarning(UserWarning):
    """An operator of PyTorch has no kernel on the device, and is computed on the host: its tensors are copied twice."""


class NotComputedError(DtypeError):
    """Arrays store elements of a dtype, but do not compute with them: the host does."""


class NotStoredError(NotImplementedError):
    """The device has no elements of a dtype, so that the host cannot help either."""


class NoNestedTensorsError(NotImplementedError):
    """The device has no nested tensors.

    Attributes:
        is_kept: the mask of shape (batch, positions) of which one was to be made, True for the elements of sequences.
    """

    def __init__(self, is_kept: Any) -> None:
        super().__init__("the device vk has no nested tensors; keep the sequences padded, and pass a mask")
        self.is_kept = is_kept


def other_device(device: Any) -> RuntimeError:
    """Returns PyTorch's error for a tensor of another device among those of this one."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, vk:0 and {device}!"
    )


def warn(text: str, *, stacklevel: int = 2) -> None:
    """Warns in a kernel, each time: a plan of the call would not, so that it has none."""
    from vkcompute.runtime.runtime import default_runtime  # it loads the driver, as no import of the device does

    if (tracer := default_runtime().scheduler.tracer()) is not None:
        tracer.refuse("it warns")
    warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


def warn_once(text: str) -> None:
    """Warns with a text that was not said before."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, FallbackWarning, stacklevel=3)
