"""Random programs of views and updates in place: each tensor has the elements that it has on the CPU."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

Pool = list[torch.Tensor]
Step = Callable[[Pool], Any]
DTYPES = torch.float32, torch.int64, torch.uint8, torch.bfloat16
N_PROGRAMS = int(os.environ.get("VKCOMPUTE_PROGRAMS", "20"))
"""Programs per dtype."""
VIEWS = "slice transpose select unsqueeze expand reshape strided diagonal flat unfold move".split()
MOST_ELEMENTS = 200
MOST = 8  # elements are small integers, so that results are exact


def _view(rng: random.Random, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function that makes a view of tensors with these sizes and strides."""
    kind = rng.choice(VIEWS)
    axis = rng.randrange(x.dim()) if x.dim() else 0
    if kind == "slice" and x.dim():
        start, step = rng.randint(0, x.shape[axis]), rng.randint(1, 3)
        return lambda t: t[(slice(None),) * axis + (slice(start, None, step),)]
    if kind == "transpose" and x.dim() > 1:
        other = rng.randrange(x.dim())
        return lambda t: t.transpose(axis, other)
    if kind == "select" and x.dim() and x.shape[axis]:
        at = rng.randrange(x.shape[axis])
        return lambda t: t.select(axis, at)
    if kind == "unsqueeze" and x.dim() < 4:
        return lambda t: t.unsqueeze(axis)
    if kind == "expand" and x.dim() < 3:
        n = rng.randint(1, 3)
        return lambda t: t.expand(n, *t.shape)
    if kind == "reshape" and x.numel():
        return lambda t: t.reshape(-1, rng_divisor(t.numel()))
    if kind == "strided" and x.numel() > 3 and x.untyped_storage().nbytes() >= 5 * x.element_size():
        return lambda t: t.as_strided((2, 2), (3, 1), 0)
    if kind == "diagonal" and x.dim() > 1:
        return lambda t: t.diagonal(0, 0, 1)
    if kind == "unfold" and x.dim() in (1, 2) and x.shape[axis] > 1:
        step = rng.randint(1, 2)
        return lambda t: t.unfold(axis, 2, step)
    if kind == "move" and x.dim() > 2:
        return lambda t: t.movedim(0, -1)
    return lambda t: t.flatten()


def rng_divisor(n: int) -> int:
    """Returns the smallest divisor of a number above 1, or 1."""
    return next((d for d in (2, 3, 5) if n % d == 0), 1)


def _elements(x: torch.Tensor) -> list[int]:
    """Returns the addresses of a tensor's elements, in elements of its storage."""
    n = x.untyped_storage().nbytes() // x.element_size()
    return torch.arange(n).as_strided(x.shape, x.stride(), x.storage_offset()).flatten().tolist()


def _operand(pool: Pool, source: int, target: int) -> Callable[[Pool], torch.Tensor]:
    """Returns a function that takes a source: by a copy if it overlaps the target, and PyTorch does not notice."""
    x, y = pool[source], pool[target]
    same = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    is_unnoticed = torch._debug_has_internal_overlap(x) or torch._debug_has_internal_overlap(y)
    if same and is_unnoticed and _elements(x) != _elements(y) and set(_elements(x)) & set(_elements(y)):
        return lambda p: p[source].clone()
    return lambda p: p[source]


def _update(rng: random.Random, pool: Pool) -> Step:
    """Returns a step that writes to a tensor of the pool; PyTorch may refuse it."""
    target, source = rng.randrange(len(pool)), rng.randrange(len(pool))
    if len(set(_elements(pool[target]))) < pool[target].numel():  # PyTorch does not define such writes
        return _new(rng, pool)
    value, kind, length = rng.randint(0, 3), rng.randrange(16), len(pool[target]) if pool[target].dim() else 1
    rows = [rng.randrange(max(1, length)) for _ in range(2)]
    operand = _operand(pool, source, target)
    steps: list[Step] = [
        lambda p: p[target].fill_(value),
        lambda p: p[target].copy_(p[source].clone()),
        lambda p: p[target].add_(operand(p)).remainder_(MOST),
        lambda p: p[target].mul_(value).remainder_(MOST),
        lambda p: p[target].masked_fill_(p[target] > value, value),
        lambda p: p[target].clamp_(1, 3),
        lambda p: p[target].__setitem__(p[target] == value, 2),
        lambda p: torch.add(operand(p), value, out=p[target]).remainder_(MOST) if _fits(p, source, target) else None,
        lambda p: p[target].__setitem__(torch.tensor(rows, device=p[0].device), value),
        lambda p: p[target].index_add_(0, torch.tensor(rows, device=p[0].device), p[target][rows].clone()),
        lambda p: p[target].scatter_(0, torch.zeros_like(p[target][:1], dtype=torch.int64), value),
        lambda p: p[target].copy_(torch.arange(p[target].shape[-1]) % MOST),
        lambda p: p[target].cumsum_(0).remainder_(MOST),
        lambda p: torch.where(p[target] > value, operand(p), p[target], out=p[target]),
        lambda p: p[target].t_(),
        lambda p: p[target].resize_(p[target].numel() // 2),
    ]
    return steps[kind]


def _fits(pool: Pool, source: int, target: int) -> bool:
    return pool[source].shape == pool[target].shape


def _new(rng: random.Random, pool: Pool) -> Step:
    """Returns a step that adds a tensor to the pool."""
    one, other, value = rng.randrange(len(pool)), rng.randrange(len(pool)), rng.randint(0, 3)
    makers: list[Step] = [
        lambda p: p[one].clone(),
        lambda p: p[one].contiguous(),
        lambda p: (p[one] + p[other]).remainder(MOST),
        lambda p: torch.where(p[one] > value, p[one], p[other]),
        lambda p: p[one].flip(0),
        lambda p: torch.cat([p[one].flatten(), p[other].flatten()]),
        lambda p: p[one].cumsum(0).remainder(MOST),
        lambda p: (p[one] * 2).to(torch.int64).to(p[one].dtype).remainder(MOST),
        lambda p: p[one].sum(0).to(p[one].dtype).remainder(MOST),
        lambda p: p[one].roll(1, 0),
        lambda p: p[one].index_select(0, torch.zeros(2, dtype=torch.int64, device=p[one].device)),
        lambda p: p[one].amax(-1, keepdim=True),
        lambda p: p[one].sort(dim=0, stable=True)[0],
        lambda p: torch.stack([p[one], p[other]], -1),
        lambda p: p[one][p[one] > value],
        lambda p: p[one].tril(),
    ]
    make = rng.choice(makers)
    return lambda p: p.append(make(p))


def _outcome(step: Step, pool: Pool) -> str | None:
    """Runs a step; returns the kind of its error."""
    try:
        step(pool)
    except (RuntimeError, IndexError) as error:
        return type(error).__name__
    return None


def run(seed: int, dtype: torch.dtype) -> None:
    """Runs one program on the CPU and on the device; raises AssertionError where they differ."""
    rng = random.Random(seed)
    shape = rng.choice([(4, 6), (3, 4, 2), (12,), ()])
    host = [torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)]
    device = [host[0].to("vk")]
    for number in range(14):
        choice = rng.random()
        if choice < 0.4:
            at = rng.randrange(len(host))
            view = _view(rng, host[at])
            step: Step = lambda p, at=at, view=view: p.append(view(p[at]))  # noqa: E731
        else:
            step = _update(rng, host) if choice < 0.75 else _new(rng, host)
        outcome = _outcome(step, host)
        assert _outcome(step, device) == outcome, (seed, number)
        del host[6:], device[6:]
        if host[-1].numel() > MOST_ELEMENTS:
            host.pop(), device.pop()
        if rng.random() < 0.3:
            assert torch.equal(device[-1].cpu(), host[-1]), (seed, number)
    for number, (x, expected) in enumerate(zip(device, host, strict=True)):
        assert (x.shape, x.stride()) == (expected.shape, expected.stride()), (seed, number)
        assert torch.equal(x.cpu(), expected), (seed, number)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_programs_of_views_and_updates(dtype: torch.dtype) -> None:
    for seed in range(N_PROGRAMS):
        run(seed, dtype)
