"""Tests of PyTorch's device: they run where PyTorch is installed, and compare with its CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", minversion="2.10", reason="PyTorch 2.10 or later is not installed")


@pytest.fixture(autouse=True)
def only_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes an operator on the host an error, unless a test allows it."""
    import vkcompute.torch  # noqa: F401

    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "error")
    torch.manual_seed(0)
    yield
    torch.vk.clear_fallbacks()
