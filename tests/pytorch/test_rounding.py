"""Training for 100 steps: the losses differ from those in float64 by little more than the CPU's in float32 do."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

N_STEPS = int(os.environ.get("VKCOMPUTE_STEPS", "25"))
"""Steps of training; 100 in `make torch`."""
N_ROUNDING = 3.0
"""How many times the CPU's largest difference the device's may be."""
SCALE = torch.finfo(torch.float32).eps * 16
"""A relative difference that is allowed where the CPU happens to have none."""
Batch = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


class Residual(nn.Module):
    """Two convolutions with batch normalization around a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.convolutions[0](x)))
        return F.relu(x + self.norms[1](self.convolutions[1](y)))


class Decoder(nn.Module):
    """A GPT on bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(128, 32), nn.Parameter(torch.randn(24, 32) / 6)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(32, 128)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions
        later = torch.ones(24, 24, dtype=torch.bool, device=ids.device).triu(1)
        for block in self.blocks:
            x = block(x, src_mask=later)
        return self.head(x).transpose(1, 2)


def _digits() -> Batch:
    datasets = pytest.importorskip("sklearn.datasets")
    images, classes = datasets.load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float64), torch.tensor(classes)
    return lambda step: (x[step * 16 % 1600 :][:16], y[step * 16 % 1600 :][:16])


def _images() -> Batch:
    y = torch.arange(64) % 4
    x = torch.randn(64, 3, 12, 12, dtype=torch.float64) + torch.randn(4, 3, 12, 12, dtype=torch.float64)[y]
    return lambda step: (x[step * 8 % 64 :][:8], y[step * 8 % 64 :][:8])


def _text() -> Batch:
    text = torch.tensor([*Path(__file__).read_bytes()[:2000]])
    rows = text[: 2000 // 25 * 25].view(-1, 25)
    return lambda step: (rows[step * 4 % 80 :][:4, :-1], rows[step * 4 % 80 :][:4, 1:])


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), _digits),
    "resnet": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), Residual(8), nn.MaxPool2d(2), Residual(8), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(8, 4),
        ), _images,
    ),
    "gpt": (Decoder, _text),
}  # fmt: skip


def losses(model: nn.Module, batch: Batch, device: str, dtype: torch.dtype) -> torch.Tensor:
    """Returns the losses of training steps."""
    made = copy.deepcopy(model).to(device, dtype)
    optimizer = torch.optim.SGD(made.parameters(), 0.02, momentum=0.9)
    kept = []
    for step in range(N_STEPS):
        x, y = (part.to(device, dtype if part.is_floating_point() else None) for part in batch(step))
        optimizer.zero_grad()
        loss = F.cross_entropy(made(x), y)
        loss.backward()
        optimizer.step()
        kept.append(loss.detach().cpu().double())
    return torch.stack(kept)


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_rounded_as_the_cpus(name: str) -> None:
    make, make_batch = MODELS[name]
    model, batch = make(), make_batch()
    exact = losses(model, batch, "cpu", torch.float64)
    host = (losses(model, batch, "cpu", torch.float32) - exact).abs()
    device = (losses(model, batch, "vk", torch.float32) - exact).abs()
    assert exact[-5:].mean() < exact[:5].mean()  # it learns
    assert device.max() <= N_ROUNDING * host.max() + SCALE * exact.max(), (device.max(), host.max())
