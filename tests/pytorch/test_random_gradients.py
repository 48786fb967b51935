"""Random programs with gradients: views that are updated in place, hooks, checkpoints, and gradients of gradients."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

N_PROGRAMS = int(os.environ.get("VKCOMPUTE_PROGRAMS", "6"))
"""Programs per dtype."""
Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes the current tensor, and one of an earlier step; returns the next one."""


class Scaled(torch.autograd.Function):
    """Twice a tensor; its gradient is not contiguous."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        wide = torch.stack([gradient * 2, gradient], -1)
        return wide[..., 0]


def _updated(x: torch.Tensor, view: Callable[[torch.Tensor], torch.Tensor], update: Callable[..., Any]) -> torch.Tensor:
    """Returns a copy of a tensor with an update of a view in place."""
    y = x.clone()
    update(view(y))
    return y


def _hooked(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 0.5 if gradient.dim() else gradient.clone())
    return y


VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda t: t[1:],
    lambda t: t.t()[::2],
    lambda t: t[:, 1].unsqueeze(0),
    lambda t: t.diagonal(),
    lambda t: t.view(-1)[2:9],
    lambda t: t.as_strided((2, 3), (5, 1), 1),
    lambda t: t.unfold(1, 2, 2).select(2, 0),
    lambda t: t.T.narrow(0, 1, 2)[:, 1:],
]
UPDATES: list[Callable[..., Any]] = [
    lambda v: v.mul_(0.5),
    lambda v: v.add_(v.detach().clone()),
    lambda v: v.sin_(),
    lambda v: v.copy_(torch.ones((), dtype=v.dtype, device=v.device)),
    lambda v: v.masked_fill_(v.detach() > 0, 0.25),
    lambda v: v.addcmul_(v.clone(), torch.full_like(v, 0.3)),
    lambda v: v.copy_(0.125),
    lambda v: v.tanh_().clamp_(-0.5, 0.5),
    lambda v: v.zero_(),
]
STEPS: list[Step] = [
    lambda x, y: x * y,
    lambda x, y: x @ y.t() @ y * 0.1,
    lambda x, y: checkpoint(lambda a, b: (a * b).sin(), x, y, use_reentrant=False),
    lambda x, y: Scaled.apply(x) * 0.5,
    lambda x, y: _hooked(x),
    lambda x, y: torch.cat([x[:2], y[2:]]),
    lambda x, y: torch.where(x.detach() > 0.1, x, y),
    lambda x, y: x.softmax(1) + torch.tensor(0.5, dtype=x.dtype),
    lambda x, y: x - x.mean(0, keepdim=True).expand_as(x),
    lambda x, y: torch.einsum("ij,kj->ik", x, y) @ y * 0.1,
    lambda x, y: x.cumsum(1).flip(0) * 0.3,
    lambda x, y: torch.complex(x, y).conj().mul(1j).imag,
    lambda x, y: x.to(torch.float64).exp().to(x.dtype).reciprocal(),
    lambda x, y: y.index_add(0, torch.tensor([0, 2, 0, 1], device=x.device), x),
    lambda x, y: x.gather(1, torch.tensor([[4, 0, 0, 1, 2]], device=x.device).expand(4, 5)),
]


def _step(rng: random.Random) -> Step:
    """Returns a step: one of STEPS, or an update of a view in place, in one of a view, or without gradients."""
    if rng.random() < 0.5:
        return rng.choice(STEPS)
    view, update, kind = rng.choice(VIEWS), rng.choice(UPDATES), rng.randrange(3)
    if kind == 0:
        return lambda x, y: _updated(x, lambda t: view(t)[:1], update)
    if kind == 1:
        return lambda x, y: _updated(x, lambda t: view(t.detach()), update)
    return lambda x, y: _updated(x, view, update)


def _gradients(steps: list[tuple[Step, int]], start: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Returns the last tensor of a program, its gradients, and those of their squares where PyTorch has them."""
    leaves = [value.to(device).requires_grad_() for value in start]
    made = [leaves[0] * 1, leaves[1].t().contiguous().t() * 1]
    for step, earlier in steps:
        made.append(step(made[-1], made[earlier % len(made)]))
    loss = (made[-1] * made[-1]).sum() + made[-1].sum()
    first = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    results = [made[-1].detach(), *[value.detach() for value in first if value is not None]]
    total = sum([value.square().sum() for value in first if value is not None])
    if isinstance(total, torch.Tensor) and total.requires_grad:
        for retained in True, False:
            second = torch.autograd.grad(total, leaves, retain_graph=retained, allow_unused=True)
        results += [value for value in second if value is not None]
    return [value.cpu() for value in results]


def _outcome(steps: list[tuple[Step, int]], start: list[torch.Tensor], device: str) -> list[torch.Tensor] | str:
    """Returns the results of a program, or the beginning of its error, without the type of the tensors."""
    try:
        return _gradients(steps, start, device)
    except RuntimeError as error:
        return str(error).partition("[")[0][:80]


def run(seed: int, dtype: torch.dtype) -> None:
    """Runs one program on the CPU and on the device; raises AssertionError where they differ."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    start = [torch.rand(4, 5, generator=generator, dtype=torch.float64).to(dtype) - 0.4 for _ in range(2)]
    steps = [(_step(rng), rng.randrange(8)) for _ in range(rng.randint(2, 7))]
    expected, results = (_outcome(steps, start, device) for device in ("cpu", "vk"))
    rounding = 2e-3 if dtype == torch.float32 else 1e-9
    if isinstance(expected, str) or isinstance(results, str):
        assert results == expected, seed
        return
    assert len(results) == len(expected), seed
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(
            result, wanted, rtol=rounding, atol=rounding, msg=lambda text: f"seed {seed}: {text}"
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_programs_with_gradients(dtype: torch.dtype) -> None:
    for seed in range(N_PROGRAMS):
        run(seed, dtype)
