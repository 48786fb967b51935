"""Plans of operators: what their keys tell apart, what they repeat, and what no plan may; the CPU is the oracle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import vkcompute as vc
from vkcompute.compiled import call_plans
from vkcompute.torch import array_of, from_array, plans

N_CALLS = 4
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "product in place": lambda x, y: x.mul_(y),
    "sum into one of them": lambda x, y: torch.add(x, y, out=x),
    "product of matrices": lambda x, y: x @ y,
    "where": lambda x, y: torch.where(x > y, x, y),
    "cat": lambda x, y: torch.cat((x, y)),
    "copy": lambda x, y: x.copy_(y),
    "softmax": lambda x, y: F.softmax(x, 1) + y,
    "layer_norm": lambda x, y: F.layer_norm(x, (6,), y[0], y[1]),
    "addmm": lambda x, y: torch.addmm(x[0], x, y),
    "addmm of a column": lambda x, y: torch.addmm(x[:, :1], x, y),
    "clone": lambda x, y: torch.stack((x.clone(), y.clone())),
    "pad": lambda x, y: F.pad(x, (1, 2)) + F.pad(y, (2, 1)),
    "sort": lambda x, y: torch.sort(x, 1)[0] + torch.sort(y, 0, descending=True)[1],
    "topk": lambda x, y: torch.topk(x, 2)[0] * torch.topk(y, 2, largest=False)[0],
    "rows": lambda x, y: x[:3].copy_(y[3:]),
    "indices": lambda x, y: x.index_put_((y[0].argsort()[:3],), y[1].clone()),
}


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Notes the plans that are run."""
    noted: list[Any] = []
    run = plans.OperatorPlan.run

    def note(self: Any, *args: Any) -> Any:
        noted.append(self)
        return run(self, *args)

    monkeypatch.setattr(call_plans, "are_used", True)
    monkeypatch.setattr(plans.OperatorPlan, "run", note)
    return noted


def operands(seed: int, relation: str) -> tuple[Any, Any]:
    """Returns two tensors of the host that are apart, one, or views of one storage."""
    x = torch.randn(14, 6, generator=torch.Generator().manual_seed(seed))
    return {
        "apart": (x[:6].clone(), x[6:12].clone()), "one": (x[:6].clone(),) * 2, "rows": (x[:6], x[6:12]),
        "other rows": (x[6:12], x[:6]), "alias": (x[:6], x[:6].view(6, 6)),
    }[relation]  # fmt: skip


def on_device(x: Any, y: Any) -> tuple[Any, Any]:
    """Returns such tensors of the device with the same relation."""
    if x is y:
        return (x.to("vk"),) * 2
    if x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr():
        return x.to("vk"), y.to("vk")
    whole = torch.empty(0).set_(x.untyped_storage()).to("vk")
    made = [whole.as_strided(view.shape, view.stride(), view.storage_offset()) for view in (x, y)]
    return made[0], made[1]


@pytest.mark.parametrize("name", PAIRS)
def test_plans_tell_apart_which_tensors_share_a_memory(name: str, repeated: list[Any]) -> None:
    call, n = PAIRS[name], 0
    for seed in range(N_CALLS):
        for relation in ("apart", "one", "rows", "other rows", "alias"):
            x, y = operands(seed, relation)
            x_vk, y_vk = on_device(x, y)
            results = [call(x_vk, y_vk), x_vk, y_vk]
            n += 1
            expected = [call(x, y), x, y]
            torch.testing.assert_close([result.cpu() for result in results], expected, msg=f"{relation}, {seed}")
            assert (results[0] is x_vk) == (expected[0] is x)
    assert len(repeated) > n / 3


def test_a_result_in_place_is_the_tensor_that_was_given(repeated: list[Any]) -> None:
    for _ in range(N_CALLS):
        x = torch.ones(6, device="vk")
        assert x.add_(x) is x
        other = x.view(6)
        assert torch.add(x, 1, out=other) is other
        assert torch.add(x, 1, out=x) is x
        assert x.tolist() == [4.0] * 6
    assert repeated


def test_numbers_are_told_apart(repeated: list[Any]) -> None:
    for number in (2, 2.5, True, 0.0, -0.0, float("nan"), 2**40) * N_CALLS:
        for x in (torch.arange(3), torch.tensor([1.5, -2.0]), torch.tensor(True)):
            got, wanted = x.to("vk") * number, x * number
            assert got.dtype == wanted.dtype
            assert torch.equal(got.cpu().signbit() if wanted.is_floating_point() else got.cpu(),
                               wanted.signbit() if wanted.is_floating_point() else wanted)  # fmt: skip
            torch.testing.assert_close(got.cpu(), wanted, equal_nan=True)
    assert repeated


def test_pending_conjugations_and_negations_are_told_apart(repeated: list[Any]) -> None:
    z = torch.randn(4, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    calls: dict[str, Callable[[Any], Any]] = {
        "clone": lambda x: x.clone(), "copy": lambda x: torch.zeros_like(x).copy_(x), "mm": lambda x: x @ x.mT,
        "to": lambda x: x.to(torch.complex128), "dot": lambda x: torch.dot(x[0], x[1]), "sum": lambda x: x + x,
        "product in place": lambda x: x.mul_(2j), "negated in place": lambda x: x.imag.neg_(),
        "repeat": lambda x: x.repeat_interleave(2, 0), "stack": lambda x: torch.stack((x, x)),
    }  # fmt: skip
    flags: list[Callable[[Any], Any]] = [
        lambda x: x,
        lambda x: x.conj(),
        torch._neg_view,
        lambda x: torch._neg_view(x.conj()),
    ]
    for name, call in calls.items():
        for number in range(N_CALLS):
            for flag in flags:
                x = z + number
                expected = call(flag(x))
                given = (z + number).to("vk")
                torch.testing.assert_close(call(flag(given)).cpu(), expected, msg=name)
                torch.testing.assert_close(given.cpu(), x, msg=name)
    assert repeated


def test_layouts_are_told_apart(repeated: list[Any]) -> None:
    whole = torch.randn(400, generator=torch.Generator().manual_seed(0))
    views: list[Callable[[Any], Any]] = [
        lambda w: w[:16].view(4, 4), lambda w: w[:16].view(4, 4).t(), lambda w: w[1:17].view(4, 4),
        lambda w: w[64:80].view(4, 4), lambda w: w[:32:2].view(4, 4), lambda w: w[:4].expand(4, 4),
        lambda w: w[:16].view(2, 8), lambda w: w[:16].view(4, 4, 1), lambda w: w.as_strided((4, 4), (1, 1), 3),
        lambda w: w[:16].view(torch.int32).view(4, 4), lambda w: w.view(torch.uint8)[4:20].view(4, 4),
        lambda w: w.view(torch.float16)[:16].view(4, 4), lambda w: w.view(torch.float16)[1:17].view(4, 4),
    ]  # fmt: skip
    for _ in range(N_CALLS):
        for view in views:
            x, y = view(whole), view(whole.to("vk"))
            for call in (
                lambda x: x + 1,
                lambda x: x.clone(),
                lambda x: x.sum(1),
                lambda x: x == x,
                lambda x: x.mul(3),
            ):
                torch.testing.assert_close(call(y).cpu(), call(x), equal_nan=True, rtol=1e-3, atol=1e-3)
                assert call(y).stride() == call(x).stride()
    assert repeated


def test_autocast_is_told_apart(repeated: list[Any]) -> None:
    x, y = (torch.randn(6, 6, generator=torch.Generator().manual_seed(seed)).to("vk") for seed in range(2))
    calls: list[Callable[[Any, Any], Any]] = [
        torch.mm, lambda x, y: F.layer_norm(x, (6,), y[0]), lambda x, y: x.std(1), lambda x, y: F.gelu(x),
        lambda x, y: torch.addmm(x[0], x, y), lambda x, y: F.softmax(x.half(), 1), lambda x, y: x.half().sum(1),
        lambda x, y: F.mse_loss(x.half(), y.half()), lambda x, y: torch.nanmean(x.half()), lambda x, y: x.half().var(1),
    ]  # fmt: skip
    for call in calls:
        results = []
        for _ in range(N_CALLS):
            for enabled in (True, False):
                with torch.autocast("vk", torch.float16, enabled=enabled):
                    results.append(call(x, y))
        for enabled in range(2):
            assert {result.dtype for result in results[enabled::2]} == {results[enabled].dtype}
            assert all(torch.equal(result, results[enabled]) for result in results[enabled::2])
    assert repeated


def test_algorithms_that_are_deterministic_fill_what_is_resized(repeated: list[Any]) -> None:
    for deterministic in (False, True) * N_CALLS:
        torch.use_deterministic_algorithms(deterministic)
        try:
            x = torch.ones(2, device="vk")
            empty = torch.empty_like(x)
            assert x.resize_(4)[:2].tolist() == [1.0, 1.0]
            assert not deterministic or (x[2:].isnan().all() and empty.isnan().all())
        finally:
            torch.use_deterministic_algorithms(False)


def test_storages_that_are_cut_are_told_apart(repeated: list[Any]) -> None:
    for _ in range(N_CALLS):
        x, y = torch.ones(8, device="vk"), torch.full((8,), 2.0, device="vk")
        assert (x + y).tolist() == [3.0] * 8
        y.untyped_storage().resize_(0)
        with pytest.raises(RuntimeError, match="was resized to 0 bytes"):
            (x + y).tolist()
        y.untyped_storage().resize_(32)
        y.fill_(4)
        assert (x + y).tolist() == [5.0] * 8


def test_which_of_three_tensors_share_a_memory_is_told_apart(repeated: list[Any]) -> None:
    for number in range(N_CALLS):
        x, y, z = (torch.full((4,), number + part) for part in (1.0, 2.0, 3.0))
        x_vk, y_vk, z_vk = x.to("vk"), y.to("vk"), z.to("vk")
        for given, expected in (((x_vk, y_vk, x_vk[:]), (x, y, x)), ((x_vk, y_vk, y_vk[:]), (x, y, y)),
                                ((x_vk, y_vk, z_vk), (x, y, z))):  # fmt: skip
            assert torch.equal(torch.addcmul(*given).cpu(), torch.addcmul(*expected))
            assert torch.equal(torch.where(given[0] > 2, *given[1:]).cpu(), torch.where(x > 2, *expected[1:]))
    assert repeated


def test_two_tensors_on_shared_memory_are_never_repeated(repeated: list[Any]) -> None:
    for number in range(N_CALLS):
        one, other = (vc.default_runtime().array(np.arange(8, dtype=np.float32) + number) for _ in range(2))
        for y in (from_array(other), from_array(one)):
            x = from_array(one)
            expected = x.cpu()
            expected[1:] += y.cpu()[:-1]
            x[1:].add_(y[:-1])
            assert torch.equal(x.cpu(), expected)
            assert one.numpy().tolist() == expected.tolist()


def test_a_key_has_which_arguments_are_named_or_none(repeated: list[Any]) -> None:
    x = torch.arange(12.0).view(3, 4)
    calls: list[Callable[[Any], Any]] = [
        lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum((0, 1)), lambda x: x.sum(1, keepdim=True),
        lambda x: x.sum(1, dtype=torch.float16), lambda x: x.clamp(1, 5), lambda x: x.clamp(1), lambda x: x.sum((1, 0)),
        lambda x: torch.std(x, 1, correction=0), lambda x: torch.std(x, 1), lambda x: torch.stack((x, x), 1),
        lambda x: torch.add(x, x, alpha=2), lambda x: torch.add(x, x), lambda x: F.pad(x, (1, 1), value=3.0),
        lambda x: F.pad(x, (1, 1)), lambda x: x.repeat(2, 1), lambda x: x.repeat(1, 2), lambda x: torch.full_like(x, 2),
        lambda x: torch.full_like(x, 2.5), lambda x: torch.zeros_like(x, dtype=torch.int32), lambda x: 2 - x,
    ]  # fmt: skip
    for _ in range(N_CALLS):
        for call in calls:
            torch.testing.assert_close(call(x.to("vk")).cpu(), call(x))
    assert repeated


def test_numbers_of_programs_are_told_apart(repeated: list[Any]) -> None:
    for number in (1, 1.0, True, 0.0, -0.0, 2**40, 1j) * N_CALLS:
        host, device = torch.zeros(2, 3, dtype=torch.complex128), torch.zeros(2, 3, dtype=torch.complex128, device="vk")
        dtype = torch.complex64 if number == 1j else None
        made = torch.scalar_tensor(number, dtype=dtype, device="vk")
        assert str(made.cpu()) == str(torch.scalar_tensor(number, dtype=dtype))
        host[1], device[1] = number, number
        assert torch.equal(host, device.cpu())
        made.add_(1)  # nobody else has it
    assert repeated


def test_warnings_and_refusals_are_repeated(repeated: list[Any]) -> None:
    mask = torch.tensor([[True], [False]], device="vk")
    for _ in range(2 * N_CALLS):
        with pytest.warns(UserWarning, match="masked_fill_ on expanded tensors"):
            torch.ones(2, 1, device="vk").expand(2, 3).masked_fill_(mask, 2)
        with pytest.warns(UserWarning, match=r"indexing with dtype torch\.uint8"):
            torch.ones(2, device="vk").index_put_((mask[:, 0].byte(),), torch.ones(1, device="vk"))
        with pytest.raises(RuntimeError, match="only supports boolean masks, but got mask with dtype unsigned char"):
            torch.ones(2, 1, device="vk").masked_fill(mask.byte(), 2)


def test_attention_returns_the_same_lengths_from_its_plan(repeated: list[Any]) -> None:
    attend = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    for n_queries, n_keys in ((5, 7), (7, 5)) * N_CALLS:
        q, k = (torch.randn(1, 2, n, 8, generator=torch.Generator().manual_seed(n)) for n in (n_queries, n_keys))
        result = attend(q.to("vk"), k.to("vk"), k.to("vk"))
        assert (result[4], result[5]) == (n_queries, n_keys)
        expected = F.scaled_dot_product_attention(q, k, k)
        torch.testing.assert_close(result[0].cpu(), expected)
    assert repeated


def test_draws_are_never_repeated(repeated: list[Any]) -> None:
    x = torch.full((64,), 0.5, device="vk")
    for draw in (
        torch.bernoulli, torch.rand_like, lambda x: F.dropout(x, 0.5), lambda x: x.clone().normal_(),
        lambda x: torch.multinomial(x, 9), lambda x: F.rrelu(-x, training=True), lambda x: torch.poisson(9 * x),
    ):  # fmt: skip
        drawn = {tuple(draw(x).tolist()) for _ in range(6)}
        assert len(drawn) == 6


def test_lazy_operands_still_fuse(repeated: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from vkcompute.runtime.scheduling.scheduler import Scheduler

    tasks: list[None] = []
    end = Scheduler._end
    for number in range(N_CALLS):
        x, y = torch.full((8,), float(number), device="vk"), torch.ones(8, device="vk")
        x.tolist(), y.tolist()
        with monkeypatch.context() as patch:
            patch.setattr(Scheduler, "_end", lambda *args, **named: (tasks.append(None), end(*args, **named))[1])
            tasks.clear()
            result = (x + y).mul_(2).relu() - y
            vc.torch.storage.compute_pending()
            n_tasks = len(tasks)
        assert result.tolist() == [2.0 * number + 1] * 8
    assert n_tasks == 1
    assert repeated


def test_memory_that_arrays_share_is_written_in_place(repeated: list[Any]) -> None:
    for number in range(N_CALLS):
        array = vc.default_runtime().array(np.full(8, number, np.float32))
        x, y = from_array(array), torch.ones(8, device="vk")
        x.add_(y).mul_(2)
        same = array_of(y)
        y.sub_(x)
        assert array.numpy().tolist() == [2.0 * number + 2] * 8
        assert same.numpy().tolist() == [-2.0 * number - 1] * 8
        both = from_array(array)
        x.copy_(both + x)
        assert both.tolist() == [4.0 * number + 4] * 8


def test_errors_are_raised_again(repeated: list[Any]) -> None:
    x, i = torch.ones(3, 3, device="vk"), torch.ones(3, dtype=torch.int64, device="vk")
    for _ in range(N_CALLS):
        with pytest.raises(RuntimeError, match="can't be cast"):
            i.add_(0.5)
        with pytest.raises(RuntimeError, match="must match the size"):
            x + torch.ones(4, device="vk")
        with pytest.raises(RuntimeError, match="single memory location"):
            x[1:].add_(x[:2])
        with pytest.raises(RuntimeError, match="single memory location"):
            x[0].expand(3, 3).add_(1)
        with pytest.raises(RuntimeError, match="requires grad"):
            torch.ones(3, device="vk", requires_grad=True).add_(1)


def test_resized_results_are_resized_each_time(repeated: list[Any]) -> None:
    for _ in range(N_CALLS):
        out, full = torch.empty(0, device="vk"), torch.ones(2, device="vk")
        assert torch.add(full, 1, out=out) is out
        assert out.tolist() == [2.0, 2.0]
        assert torch.cat((full, full), out=out).tolist() == [1.0] * 4
        assert out.untyped_storage().nbytes() == 16


def test_the_default_dtype_is_a_part_of_the_key() -> None:
    x = torch.arange(1, 4, device="vk")
    for dtype in (torch.float32, torch.float64) * N_CALLS:
        torch.set_default_dtype(dtype)
        try:
            assert (x / 2).dtype == x.exp().dtype == dtype
        except vc.errors.MissingFeature:
            pytest.skip("the device has no float64")
        finally:
            torch.set_default_dtype(torch.float32)


def test_threads_repeat_plans_at_one_time(repeated: list[Any]) -> None:
    wrong: list[Any] = []

    def train(seed: int) -> None:
        x = torch.randn(5 + seed % 3, 8, generator=torch.Generator().manual_seed(seed))
        state, state_vk = x.clone(), x.to("vk")
        for number in range(20):
            state = F.softmax((state @ state.T) @ x, 1).add_(number) + x
            state_vk = F.softmax((state_vk @ state_vk.T) @ x.to("vk"), 1).add_(number) + x.to("vk")
        if not torch.allclose(state_vk.cpu(), state, rtol=1e-4):
            wrong.append(seed)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert repeated
