"""Warnings and errors of PyTorch's device."""

from __future__ import annotations


class FallbackWarning(UserWarning):
    """An operator of PyTorch has no kernel on the device, and is computed on the host: its tensors are copied twice."""


class NotComputedError(TypeError):
    """Arrays store elements of a dtype, but do not compute with them: the host does."""
