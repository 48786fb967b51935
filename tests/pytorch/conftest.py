"""Tests of PyTorch's device: they run where PyTorch is installed, and compare with its CPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
collect_ignore_glob = [] if HAS_TORCH else ["test_*.py"]


@pytest.fixture(autouse=True)
def only_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes an operator on the host an error, unless a test allows it."""
    import torch

    import vkcompute.torch  # noqa: F401

    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "error")
    torch.manual_seed(0)
    yield
    torch.vk.clear_fallbacks()
