"""torch.compile(mode="reduce-overhead"): replayed programs have the results of the default mode, to the bit."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import vkcompute.torch.inductor.replays as replays
from vkcompute.torch.storage import memory_of

Step = Callable[[Any, int], list[torch.Tensor]]
"""Takes the compiled function and the number of the call; returns what there is to compare."""

_compared: list[Any] = []
"""Functions of `compare`: recordings end with the models in them."""


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
    _compared.clear()
    torch._dynamo.reset()


def compare(make: Callable[[], tuple[Any, Step]], n: int = 4, **options: Any) -> list[list[torch.Tensor]]:
    """Makes n calls of a function in both modes, and compares them; returns the results of the replays."""
    results = []
    for mode in "default", "reduce-overhead":
        torch._dynamo.reset()
        torch.manual_seed(0)
        function, step = make()
        _compared.append(function)
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


def test_a_first_call_that_is_not_recorded_draws_no_numbers(
    made: list[replays.Replayed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")
    x = torch.ones(16)

    def step(compiled: Any, number: int) -> list[torch.Tensor]:
        return [compiled(x.to("vk"))]

    compare(lambda: (lambda x: torch.fft.rfft(F.dropout(x, 0.5)).abs(), step))


def _called(call: Callable[[list[Any]], list[Any]], *args: torch.Tensor) -> list[Any]:
    """Returns the results of three calls of a program that is replayed, and of one that is not."""
    program = replays.Replayed(call)
    return [list(function([value.clone() for value in args])) for function in (program, program, program, call)]


def test_results_that_share_memory_do_so_in_a_replay() -> None:
    def call(args: list[Any]) -> list[Any]:
        y = args[0] * 2
        return [y, y[1:], y]

    for results in _called(call, torch.arange(3.0, device="vk")):
        results[1].mul_(10)
        results[0].add_(1)
        assert [value.tolist() for value in results] == [[1, 21, 41], [21, 41], [1, 21, 41]]


def test_programs_with_results_of_the_host_or_of_their_own_are_not_replayed() -> None:
    kept = torch.ones(3, device="vk")
    for call in (
        lambda args: [args[0] * 2, torch.zeros(1)],
        lambda args: [args[0] * 2, kept],
    ):
        program = replays.Replayed(call)
        for _ in range(3):
            assert program([torch.ones(3, device="vk")])[0].tolist() == [2, 2, 2]
        assert list(program.recorded_layouts.values()) == [False]


@pytest.mark.parametrize("is_lazy", [False, True])
def test_replays_see_updates_of_constants(is_lazy: bool) -> None:
    kept = torch.arange(3.0, device="vk") * 2 if is_lazy else torch.arange(0.0, 6.0, 2.0).to("vk")
    program = replays.Replayed(lambda args: [args[0] * kept, kept[1:].sum()])
    updates: list[Callable[[], Any]] = [
        lambda: kept.add_(1),
        lambda: kept.copy_(torch.tensor([5.0, 6.0, 7.0])),
        lambda: kept.fill_(9),
        lambda: kept[:2].zero_(),
        lambda: torch.mul(kept, 3, out=kept),
    ]
    for update in [lambda: None, *updates]:
        update()
        wanted = kept.cpu()
        for n in 1, 2:
            product, total = program([torch.full((3,), float(n), device="vk")])
            assert (product.tolist(), total.item()) == ((wanted * n).tolist(), wanted[1:].sum().item())
    assert list(program.recorded_layouts.values()) == [True]


def test_replays_update_constants() -> None:
    count, unused = torch.zeros(3, device="vk"), torch.zeros(3, device="vk")
    program = replays.Replayed(lambda args: [args[0] * count.add_(1), count[1:].mul_(2)[0] + 0])
    results = [[value.tolist() for value in program([torch.ones(3, device="vk")])] for _ in range(3)]
    assert results == [[[1, 1, 1], 2], [[2, 3, 3], 6], [[3, 7, 7], 14]]
    assert count.tolist() == [3, 14, 14]
    assert list(program.recorded_layouts.values()) == [True]
    before = memory_of(unused).whole
    assert unused.add_(1).tolist() == [1, 1, 1]
    assert memory_of(unused).whole is not before  # as without recordings, so that its updates fuse


def test_programs_that_fill_empty_constants_are_not_replayed() -> None:
    kept = torch.empty(3, device="vk")

    def call(args: list[Any]) -> list[Any]:
        kept.copy_(args[0])
        return [kept * 2]

    program = replays.Replayed(call)
    for n in range(3):
        assert program([torch.full((3,), float(n), device="vk")])[0].tolist() == [2 * n] * 3
        assert kept.tolist() == [n] * 3


def test_programs_that_read_tensors_of_the_host_are_not_replayed() -> None:
    kept = torch.ones(3)
    program = replays.Replayed(lambda args: [args[0] * kept.to("vk")])
    for n in range(1, 4):
        assert program([torch.ones(3, device="vk")])[0].tolist() == [n] * 3
        kept.add_(1)


def test_parts_of_longer_and_longer_memory_have_one_recording() -> None:
    program = replays.Replayed(lambda args: [args[0] + 1, args[0].view(3, 1)])
    for n in range(20):
        x = torch.arange(10.0 + n, device="vk")[2:5]
        total, part = program([x])
        assert (total.tolist(), part.flatten().tolist()) == ([3, 4, 5], [2, 3, 4])
        part.zero_()
        assert x.tolist() == [0, 0, 0]
    assert len(program.recorded_layouts) == 1


def test_dropped_programs_keep_no_memory() -> None:
    x = torch.ones(1 << 18, device="vk")
    before = []
    for _ in range(4):
        program = replays.Replayed(lambda args: [args[0] * 2 + 1])
        assert program([x])[0][0] == 3
        assert program([x])[0][0] == 3
        del program
        gc.collect()
        torch.vk.synchronize()
        before.append(torch.vk.memory_allocated())
    assert before[3] == before[1]


def test_a_reset_drops_the_memory_of_recordings() -> None:
    held = []
    for _ in range(3):
        model, x = nn.Linear(500, 500).to("vk"), torch.ones(1, 500, device="vk")
        compiled = torch.compile(model, mode="reduce-overhead")
        with torch.no_grad():
            for _ in range(3):
                compiled(x).cpu()
        del model, compiled, x
        torch._dynamo.reset()
        gc.collect()
        held.append(torch.vk.memory_allocated())
    assert held[0] == held[1] == held[2]


@pytest.mark.parametrize("layers", [1, 2])
def test_the_memory_of_recordings_ends_with_the_model(layers: int) -> None:
    torch._dynamo.reset()
    gc.collect()
    at_first = torch.vk.memory_allocated()

    def train(n: int) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Linear(500, 500) for _ in range(layers)]).to("vk")
        compiled, x = torch.compile(model, mode="reduce-overhead"), torch.ones(300, 500, device="vk")
        for _ in range(n):
            compiled(x).sum().backward()
        return torch.stack([value.grad.cpu().sum() for value in model.parameters()])

    assert train(1).isfinite().all()
    gc.collect()
    before = torch.vk.memory_allocated()
    for _ in range(2):
        torch.testing.assert_close(train(4), 4 * train(1))
        gc.collect()
        torch.vk.synchronize()
        assert torch.vk.memory_allocated() <= before + 4096  # numbers that fill tensors are kept
        assert before - at_first < 100_000  # a weight has 1 MB


def test_a_model_goes_on_after_the_end_of_another_with_the_same_programs() -> None:
    torch._dynamo.reset()
    kept = nn.Linear(64, 64).to("vk")
    compiled, x = torch.compile(kept, mode="reduce-overhead"), torch.ones(8, 64, device="vk")
    for _ in range(3):
        other = nn.Linear(64, 64).to("vk")
        torch.testing.assert_close(torch.compile(other, mode="reduce-overhead")(x), other(x))
        torch.testing.assert_close(compiled(x), kept(x))
        del other
        gc.collect()
        torch.testing.assert_close(compiled(x), kept(x))
