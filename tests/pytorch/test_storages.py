"""Storages of the device: views that share one, resizing, results with memory of their own, and saving."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch


def test_views_write_to_one_storage() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x[1:3].t()[::2].fill_(1)
        x.view(-1)[:3].add_(5)
        x.as_strided((2, 2), (6, 1), 14).mul_(3).sub_(1)
        x[:, 1] = x[:, 0]
        x[1:] += x[:-1].clone()
        return x

    assert torch.equal(program(torch.zeros(4, 6, device="vk")).cpu(), program(torch.zeros(4, 6)))


def test_a_lazy_result_is_not_changed_by_a_later_update_of_its_operand() -> None:
    x = torch.ones(5, device="vk")
    y, view = x * 2, x[1:]
    view.add_(1)
    x.zero_()
    assert y.cpu().tolist() == [2] * 5
    assert view.cpu().tolist() == [0] * 4


def test_a_clone_has_memory_of_its_own() -> None:
    x = torch.ones(3, device="vk")
    y = x.clone()
    y[0] = 7
    x[1] = 5
    assert (x.tolist(), y.tolist()) == ([1, 5, 1], [7, 1, 1])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.roll(0, 0), lambda x: x + 0, lambda x: x.sum(0), lambda x: x.clone(), lambda x: x.amax(0),
        lambda x: x.flip(0), lambda x: torch.cat([x]), lambda x: x.pow(1), lambda x: +x * 1,
        lambda x: x.to(torch.float32, copy=True), lambda x: x.clamp(-9), lambda x: x.cumsum(0), lambda x: x.round(),
    ],
)  # fmt: skip
def test_results_share_no_memory_with_operands(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.ones(1, 3, device="vk")
    y = function(x)
    before = y.tolist()
    x[0, 1] = 7
    assert y.tolist() == before
    y.view(-1)[0] = 5
    assert x.tolist() == [[1, 7, 1]]


def test_out_is_resized_and_may_be_strided() -> None:
    x = torch.arange(6.0, device="vk").view(2, 3)
    out = torch.empty(0, device="vk")
    torch.add(x, 1, out=out)
    strided = torch.zeros(3, 2, device="vk").t()
    torch.mul(x, 2, out=strided)
    assert torch.equal(out.cpu(), x.cpu() + 1)
    assert (torch.equal(strided.cpu(), x.cpu() * 2), strided.stride()) == (True, (1, 2))


def test_sequences_are_written_to_a_part_of_another_tensor() -> None:
    for write in (
        lambda out: torch.linspace(0, 3, 4, out=out),
        lambda out: torch.arange(0, 4, out=out),
        lambda out: torch.logspace(0, 3, 4, 2.0, out=out),
    ):
        host, device = torch.full((2, 3), 9.0), torch.full((2, 3), 9.0, device="vk")
        write(host[:, 1:])
        write(device[:, 1:])
        torch.testing.assert_close(device.cpu(), host)


def test_set_and_resize() -> None:
    x = torch.arange(6.0, device="vk")
    y = torch.empty(0, device="vk").set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]]
    x.resize_(3)
    assert x.tolist() == [0, 1, 2]
    x.resize_(8)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.ones(3, device="vk").as_strided((4,), (1,))


def test_tensors_are_saved_copied_and_pickled() -> None:
    model = torch.nn.Linear(3, 2).to("vk")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for location in ("cpu", "vk", None):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert loaded["weight"].device.type == (location or "vk")
        assert torch.equal(loaded["weight"].cpu(), model.weight.detach().cpu())
    x = torch.arange(6.0, device="vk")
    part = pickle.loads(pickle.dumps(x[2:5]))
    assert (part.tolist(), part.device.type) == ([2, 3, 4], "vk")
    assert copy.deepcopy(model).bias.tolist() == model.bias.tolist()


def test_views_see_what_a_larger_storage_gets() -> None:
    results = []
    for device in "cpu", "vk":
        x, empty = torch.arange(6.0, device=device), torch.empty(4, device=device)
        view, bits, old = x[1:4], x.view(torch.int32), x.detach()
        filled = empty[1:3]
        x.resize_(9)
        x[2:] = 7
        view[0] = 5
        bits[0] = torch.tensor(2.0).view(torch.int32).item()
        x += 1
        x.resize_(20)
        x[3] = 9
        old[5] = 4
        empty.resize_(8)
        filled.fill_(3)
        empty[2] = 6
        results.append(
            [x[:9].tolist(), view.tolist(), bits.tolist(), old.tolist(), filled.tolist(), empty[1:3].tolist()]
        )
    assert results[0] == results[1]


def test_storages_that_were_resized_are_saved_as_far_as_they_are_visible() -> None:
    for device in "cpu", "vk":
        x, file = torch.arange(10.0, device=device), io.BytesIO()
        x.untyped_storage().resize_(20)
        part = torch.empty(0, device=device).set_(x.untyped_storage(), 0, (5,), (1,))
        assert part.untyped_storage().clone().nbytes() == 20
        torch.save(part, file)
        file.seek(0)
        loaded = torch.load(file)
        assert loaded.tolist() == [0, 1, 2, 3, 4]
        assert loaded.untyped_storage().nbytes() == 20
