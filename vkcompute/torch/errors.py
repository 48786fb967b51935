"""Warnings of PyTorch's device."""

from __future__ import annotations


class FallbackWarning(UserWarning):
    """An operator of PyTorch has no kernel on the device, and is computed on the host: its tensors are copied twice."""
