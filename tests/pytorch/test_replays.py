"""torch.compile(mode="reduce-overhead"): replayed programs have the results of the default mode, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import vkcompute.torch.inductor.replays as replays

Step = Callable[[Any, int], list[torch.Tensor]]
"""Takes the compiled function and the number of the call; returns what there is to compare."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[replays.Replayed]]:
    """The replayed programs of a test."""
    programs: list[replays.Replayed] = []

    class Noted(replays.Replayed):
        def __init__(self, call: Any) -> None:
            super().__init__(call)
            programs.append(self)

    monkeypatch.setattr(replays, "Replayed", Noted)
    torch._dynamo.reset()
    yield programs
    torch._dynamo.reset()


def compare(make: Callable[[], tuple[Any, Step]], n: int = 4, **options: Any) -> list[list[torch.Tensor]]:
    """Makes n calls of a function in both modes, and compares them; returns the results of the replays."""
    results = []
    for mode in "default", "reduce-overhead":
        torch._dynamo.reset()
        torch.manual_seed(0)
        function, step = make()
        compiled = torch.compile(function, mode=mode, **options)
        results.append([[value.detach().cpu() for value in step(compiled, number)] for number in range(n)])
    expected, replayed = results
    for wanted, got in zip(expected, replayed, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)
    return replayed


def test_each_replay_draws_numbers_of_its_own(made: list[replays.Replayed]) -> None:
    def make() -> tuple[Any, Step]:
        layer, x = nn.Linear(32, 32).to("vk"), torch.randn(8, 32).to("vk")

        def step(compiled: Any, _: int) -> list[torch.Tensor]:
            y = compiled(x)
            y.sum().backward()
            gradient = layer.weight.grad
            layer.zero_grad()
            return [y, gradient]

        return lambda x: F.dropout(layer(x).relu(), 0.5), step

    first, second, *_ = compare(make)
    assert not torch.equal(first[0], second[0])
    assert [list(program.recorded_layouts.values()) for program in made] == [[True], [True]]  # forward, backward


def test_arguments_are_updated_and_lazy_ones_read_before(made: list[replays.Replayed]) -> None:
    def make() -> tuple[Any, Step]:
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to("vk")
        norm: Any = model[1]

        def step(compiled: Any, number: int) -> list[torch.Tensor]:
            x = torch.full((2, 3, 8, 8), 1.0 + number).to("vk") * torch.arange(8, device="vk")
            before = norm.running_mean * 2
            return [compiled(x), norm.running_mean, before]

        return model, step

    compare(make)
    assert [list(program.recorded_layouts.values()) for program in made] == [[True]]


def test_steps_of_an_optimizer(made: list[replays.Replayed]) -> None:
    def make() -> tuple[Any, Step]:
        weight = nn.Parameter(torch.randn(16, 16).to("vk"))
        adam = torch.optim.Adam([weight], lr=0.1)

        def train(x: torch.Tensor) -> torch.Tensor:
            loss = (x @ weight).square().mean()
            loss.backward()
            adam.step()
            adam.zero_grad()
            return loss

        return train, lambda compiled, number: [compiled(torch.ones(4, 16, device="vk")), weight]

    compare(make, 5)
    assert made
    assert all(all(program.recorded_layouts.values()) for program in made)


def test_results_on_the_memory_of_arguments(made: list[replays.Replayed]) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.add_(1)
        return x.view(-1)[2:], y.t(), x + y

    def step(compiled: Any, number: int) -> list[torch.Tensor]:
        x, y = torch.ones(3, 4, device="vk"), torch.full((3, 4), float(number), device="vk")
        part, turned, total = compiled(x, y)
        part.mul_(2)
        return [x, part, turned, total]

    compare(lambda: (function, step))


def test_arguments_that_overlap_after_others_that_did_not(made: list[replays.Replayed]) -> None:
    def step(compiled: Any, number: int) -> list[torch.Tensor]:
        x = torch.arange(10.0, device="vk")
        pairs = (x, x), (x, x + 1), (x[2:6], x[4:8]), (x[2:6], x[2:6])
        return [value for _ in range(2) for pair in pairs for value in compiled(*pair)]

    compare(lambda: (lambda x, y: (x + y, x * y), step), 2)


def test_lengths_that_change_are_recorded_a_few_times(made: list[replays.Replayed]) -> None:
    def step(compiled: Any, number: int) -> list[torch.Tensor]:
        return list(compiled(torch.ones(3 + number, 5 + number, device="vk")))

    compare(lambda: (lambda x: (x.exp().sum(-1), x.mean()), step), 12, dynamic=True)
    assert max(len(program.recorded_layouts) for program in made) == 7


def test_what_the_host_computes_is_not_replayed(made: list[replays.Replayed], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")

    def step(compiled: Any, number: int) -> list[torch.Tensor]:
        return [compiled(torch.arange(8.0, device="vk") + number)]

    compare(lambda: (lambda x: torch.fft.rfft(x).abs() + 1, step))
    assert [list(program.recorded_layouts.values()) for program in made] == [[False]]
