"""Warnings and errors of PyTorch's device."""

from __future__ import annotations

import warnings

from vkcompute.errors import DtypeError

_said: set[str] = set()


class FallbackWarning(UserWarning):
    """An operator of PyTorch has no kernel on the device, and is computed on the host: its tensors are copied twice."""


class NotComputedError(DtypeError):
    """Arrays store elements of a dtype, but do not compute with them: the host does."""


class NotStoredError(TypeError):
    """The device has no elements of a dtype, so that the host cannot help either."""


def warn_once(text: str) -> None:
    """Warns with a text that was not said before."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, FallbackWarning, stacklevel=3)
