"""Compiled programs on a device with few or small bindings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = """
import copy
import torch
from torch import nn
from vkcompute.core.device_profile import emulated

def fused(*tensors):
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total * 0.5 + tensor.sin()
    return total, total.sum(1), *[tensor + 1 for tensor in tensors[:9]]

def trained(device):
    own = copy.deepcopy(model).to(device)
    optimizer = torch.optim.Adam(own.parameters(), 1e-2)
    def step(ids):
        loss = own(ids).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
    run = torch.compile(step) if device == "vk" else step
    losses = [run(ids.to(device)).item() for _ in range(3)]
    return losses, [parameter.detach().cpu() for parameter in own.parameters()]

torch.manual_seed(0)
with emulated(limits={LIMITS}):
    torch.ones(1, device="vk")
tensors = [torch.randn(50, 7) for _ in range(24)]
results = torch.compile(fused, fullgraph=True)(*[tensor.to("vk") for tensor in tensors])
torch.testing.assert_close([result.cpu() for result in results], [*fused(*tensors)], rtol=1e-4, atol=1e-5)
model = nn.Sequential(nn.Embedding(900, 256), nn.LayerNorm(256), nn.Linear(256, 300), nn.GELU(), nn.Linear(300, 8))
ids = torch.randint(0, 900, (6, 5))
torch.testing.assert_close(trained("vk"), trained("cpu"), rtol=1e-2, atol=2e-3)
print("right")
"""
LIMITS = {
    "4 bindings": {"maxPerStageDescriptorStorageBuffers": 4},
    "parameters larger than a binding": {"maxPerStageDescriptorStorageBuffers": 16, "maxStorageBufferRange": 1 << 19},
}


@pytest.mark.parametrize("name", LIMITS)
def test_training_on_a_device_with_few_or_small_bindings(name: str) -> None:
    program = PROGRAM.replace("{LIMITS}", repr(LIMITS[name]))
    run = subprocess.run(
        [sys.executable, "-W", "error:a graph is not compiled", "-c", program],
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "right\n", run.stderr


TOO_MANY = """
import torch
from vkcompute.core.device_profile import emulated

def fused(first, *tensors):
    first.add_(1)
    for tensor in tensors:
        first = first * 0.5 + tensor
    return first, first.sum(1)

with emulated(limits={LIMITS}):
    torch.ones(1, device="vk")
for n_rows in (100, 300):  # smaller than a binding, and larger
    torch._dynamo.reset()
    tensors = [torch.randn(n_rows, 700) for _ in range(12)]
    on_device = [tensor.to("vk") for tensor in tensors]
    results = torch.compile(fused, dynamic=False)(*on_device)
    torch.testing.assert_close([result.cpu() for result in results], [*fused(*tensors)], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(on_device[0].cpu(), tensors[0])
print("right")
"""


def test_a_graph_with_a_launch_beyond_both_limits_runs_in_eager(tmp_path: Path) -> None:
    """A graph that a process with another device has left on disk, too."""
    for limits in {}, {"maxPerStageDescriptorStorageBuffers": 8, "maxStorageBufferRange": 1 << 19}:
        program = TOO_MANY.replace("{LIMITS}", repr(limits))
        run = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.stdout == "right\n", run.stderr
        assert run.stderr.count("a graph is not compiled") == 2 * bool(limits), run.stderr


def test_a_graph_break_is_reported_as_by_pytorch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y.sum() + 1

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    x = torch.ones(5)
    torch.testing.assert_close(torch.compile(function)(x.to("vk")).cpu(), function(x))
    reasons = " ".join(torch._dynamo.utils.counters["graph_break"])
    assert "torch._dynamo.graph_break()" in reasons, reasons
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"graph_break\(\)"):
        torch.compile(function, fullgraph=True)(x.to("vk"))
    torch._dynamo.reset()
