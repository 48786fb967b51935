"""torch.compile on the device: Inductor's programs have the CPU's results, which are not compiled."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from vkcompute.torch.storage import runtime

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_fallback(only_kernels: None) -> Iterator[None]:
    """Makes it an error that a graph is not compiled, and forgets the graphs after a test."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    torch._dynamo.reset()
    assert not [str(warning.message) for warning in said if "is not compiled" in str(warning.message)]


def check(function: Function, *values: torch.Tensor, **options: Any) -> None:
    """Compares a compiled function with the CPU: results, and the arguments after it."""
    given = [value.to("vk", copy=True) for value in values]
    results = torch.compile(function, fullgraph=True, **options)(*given)
    expected = function(*values)
    leaves = torch.utils._pytree.tree_leaves
    for result, wanted in zip([*leaves(results), *given], [*leaves(expected), *values], strict=True):
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-4, atol=1e-4, check_stride=False)


def mixed(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor, g: torch.Tensor) -> Any:
    """Elements, reductions, views, indices and dtypes in a graph."""
    rows = torch.cat([x[i], y.flip(1)[:4]], 0)
    scattered = torch.zeros_like(x).index_add(0, i, y[: len(i)])
    return (
        (x * y).relu().sum(-1),
        (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
        rows.softmax(1) @ y.t(),
        scattered + (g.float() * 2).to(torch.int32),
        x.argmax(1),
        (g + g).sum(1),
    )


def test_a_graph_of_many_kinds_is_right() -> None:
    x, y, i = torch.randn(33, 70), torch.randn(33, 70), torch.randint(0, 33, (20,))
    check(mixed, x, y, i, torch.randint(0, 9, (33, 70)).to(torch.bfloat16))


def test_arguments_are_written_and_views_keep_their_memory() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[:, 3].copy_(y[:, 1])
        y.t().add_(1)
        return x[2:].sum(0)

    check(step, torch.randn(9, 20), torch.randn(9, 20))
    x = torch.randn(100).to("vk")
    torch.testing.assert_close(torch.compile(lambda v: v.exp() + 1)(x[3:90:4]).cpu(), x.cpu()[3:90:4].exp() + 1)


def test_tensors_of_the_host_are_copied_within_a_graph() -> None:
    x, y = torch.randn(9, 20), torch.randn(9, 20)
    compiled = torch.compile(
        lambda x, y: ((x.to("vk") + y).softmax(1).sum(0), (x.to("vk") @ y.t()).cpu()), fullgraph=True
    )
    results = compiled(x, y.to("vk"))
    torch.testing.assert_close([result.cpu() for result in results], [(x + y).softmax(1).sum(0), x @ y.t()])


def test_one_program_serves_all_lengths() -> None:
    compiled = torch.compile(lambda x: (x.softmax(1) * x.shape[0]).cumsum(0), dynamic=True, fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n in (5, 9, 300):
            x = torch.randn(n, 20)
            torch.testing.assert_close(compiled(x.to("vk")).cpu(), (x.softmax(1) * n).cumsum(0))


class Block(nn.Module):
    """A block of a small GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm, self.qkv = nn.Embedding(20, 16), nn.LayerNorm(16), nn.Linear(16, 48)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.0), nn.Linear(32, 20))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norm(x := self.tokens(ids))).view(*ids.shape, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(*ids.shape, 16)
        return self.mlp(x + y)


def test_training_follows_the_cpu() -> None:
    model, ids = Block(), torch.randint(0, 20, (3, 8))
    losses = {}
    for device in ("cpu", "vk"):
        own, given = copy.deepcopy(model).to(device), ids.to(device)
        optimizer = torch.optim.AdamW(own.parameters(), 0.01)

        def step(own: Any = own, given: Any = given, optimizer: Any = optimizer) -> torch.Tensor:
            loss = F.cross_entropy(own(given).flatten(0, 1), given.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = torch.compile(step) if device == "vk" else step
        losses[device] = [run().item() for _ in range(3)]
    torch.testing.assert_close(losses["vk"], losses["cpu"], rtol=1e-3, atol=1e-4)


def test_functions_that_the_device_replaces_do_not_break_graphs() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2)
    x, mask = torch.randn(3, 8, 16), nn.Transformer.generate_square_subsequent_mask(8)
    expected = model(x, mask, is_causal=True)
    compiled = torch.compile(model.to("vk"), fullgraph=True)
    result = compiled(x.to("vk"), mask.to("vk"), is_causal=True)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
    result.square().sum().backward()
    torch._dynamo.utils.counters.clear()
    for optimizer in torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters(), 0.1):
        torch.compile(optimizer.step)()
    reasons = " ".join(torch._dynamo.utils.counters["graph_break"])
    assert "skip" not in reasons, reasons


def test_padding_is_that_of_a_compiled_encoder_of_the_cpu() -> None:
    """PyTorch's encoder sets padding to zero, but where it is compiled."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 8, 16), torch.arange(8).expand(2, 8) >= 6
    on_device = copy.deepcopy(model).to("vk")
    with torch.no_grad():
        expected = torch.compile(model, backend="eager")(x, src_key_padding_mask=padding)
        result = torch.compile(on_device)(x.to("vk"), src_key_padding_mask=padding.to("vk"))
        zeroed = on_device(x.to("vk"), src_key_padding_mask=padding.to("vk"))
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert not zeroed.cpu()[:, 6:].any()


@pytest.mark.parametrize("shape", [(300, 130), (257, 65), (1000, 3)])
def test_reductions_of_columns(shape: tuple[int, int]) -> None:
    def columns(x: torch.Tensor) -> Any:
        return x.sum(0), (x * 2).exp().amax(0), x.var(0), x.argmax(0), (x > 0).any(0), x.view(-1, 1, shape[1]).mean(0)

    check(columns, torch.randn(shape))


def test_equal_steps_repeat_their_launches() -> None:
    layers = [layer for _ in range(6) for layer in (nn.Linear(24, 24), nn.GELU(), nn.LayerNorm(24))]
    gc.collect()  # else tensors of other tests may be freed between two steps, whose memory the next one takes
    model, x = nn.Sequential(*layers).to("vk"), torch.randn(40, 24, device="vk")
    compiled, plans = torch.compile(model), runtime().plans
    plans.clear()
    kept = []
    for _ in range(12):
        compiled(x).square().mean().backward()
        model.zero_grad()
        torch.vk.synchronize()
        kept.append(len(plans))
    assert kept[-1] == kept[6] > 10, kept  # memory of other addresses would need plans of its own


def test_random_numbers_follow_the_seed() -> None:
    compiled = torch.compile(lambda x: (F.dropout(x, 0.25), torch.rand_like(x), torch.randn_like(x)), fullgraph=True)
    x, results = torch.ones(100, 100, device="vk"), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append([value.cpu() for value in compiled(x)])
    dropped, uniform, normal = results[0]
    assert all(map(torch.equal, results[0], results[1]))
    assert not torch.equal(uniform, results[2][1])
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert (uniform.mean().item(), normal.mean().item()) == pytest.approx((0.5, 0), abs=0.05)
    assert (uniform.std().item(), normal.std().item()) == pytest.approx((12**-0.5, 1), abs=0.05)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_modes_are_right(mode: str) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (x @ y).tanh().sum(0), x.add_(1).t() * 2

    check(step, torch.randn(40, 33), torch.randn(33, 50), mode=mode)


def test_a_graph_that_is_not_compiled_runs_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    from vkcompute.errors import KernelError
    from vkcompute.torch import errors
    from vkcompute.torch.inductor import programs

    def refuse(program: Any) -> None:
        raise KernelError("there is no such function")

    monkeypatch.setattr(programs.Program, "compile", refuse)
    monkeypatch.setattr(errors, "_said", set())
    x = torch.randn(7, 3)
    with pytest.warns(UserWarning, match=r"not compiled for vk.*there is no such function"):
        result = torch.compile(lambda x: x.cos().cumsum(1) - 3)(x.to("vk"))
    torch.testing.assert_close(result.cpu(), x.cos().cumsum(1) - 3)


def test_inductor_is_imported_by_the_first_graph_only_and_patches_are_undone() -> None:
    program = """
import sys, torch, vkcompute.torch
from vkcompute.torch import registration
assert not {"torch._inductor.codegen", "vkcompute.torch.inductor"} & {*sys.modules}
torch.compile(lambda x: x + 1)(torch.ones(2, device="vk"))
from torch._inductor import scheduler, utils
from torch._inductor.codegen import common
assert "vk" in common.device_codegens and "vk" in utils.GPU_TYPES
registration.unregister()
assert "vk" not in common.device_codegens and "vk" not in utils.GPU_TYPES
assert scheduler.Scheduler.create_backend.__module__ == "torch._inductor.scheduler"
assert "triton" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_backends_that_call_inductor_themselves_know_the_device() -> None:
    program = """
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
x = torch.ones(5, 7, device="vk")
for backend in aot_autograd(fw_compiler=compile_fx_inner), compile_fx:
    torch._dynamo.reset()
    assert torch.compile(lambda x: (x * 2).sum(-1), backend=backend)(x).tolist() == [14.0] * 5
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("n_queries", [128, 8])
def test_flex_attention_is_a_program_of_a_template(n_queries: int) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    def forward(*values: torch.Tensor) -> torch.Tensor:
        return flex_attention(*values, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s + h * j, -torch.inf))

    values = [torch.randn(1, 2, n, 16) for n in (n_queries, 128, 128)]
    q, k, v = on_host = [value.clone().requires_grad_(n_queries == 128) for value in values]
    on_device = [value.to("vk").requires_grad_(n_queries == 128) for value in values]
    at = torch.arange(128)
    scores = q @ k.mT / 4 + torch.arange(2)[:, None, None] * at
    expected = scores.masked_fill(at[:n_queries, None] < at, -torch.inf).softmax(-1) @ v
    result = torch.compile(forward, fullgraph=True)(*on_device)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
    if n_queries == 8:
        torch.testing.assert_close(forward(*on_device).cpu(), expected, rtol=1e-4, atol=1e-5)
        return
    weights = torch.randn(expected.shape)
    expected.backward(weights)
    result.backward(weights.to("vk"))
    for value, wanted in zip(on_device, on_host, strict=True):
        torch.testing.assert_close(value.grad.cpu(), wanted.grad, rtol=1e-4, atol=1e-4)


def test_flex_attention_with_rows_that_attend_to_nothing() -> None:
    """Their results and gradients are 0, also in blocks that are masked whole."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def is_kept(batch: object, head: object, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return (i >= 130) & (i != 200) & (j <= i)

    mask = create_block_mask(is_kept, 1, 2, 256, 256, device="vk")
    on_host = [torch.randn(1, 2, 256, 16).requires_grad_() for _ in range(3)]
    on_device = [value.detach().to("vk").requires_grad_() for value in on_host]
    q, k, v = on_host
    at = torch.arange(256)
    kept = is_kept(None, None, at[:, None], at)
    expected = ((q @ k.mT / 4).masked_fill(~kept, -1e30).softmax(-1) * kept) @ v
    result = torch.compile(flex_attention)(*on_device, block_mask=mask)
    weights = torch.randn(expected.shape)
    expected.backward(weights)
    result.backward(weights.to("vk"))
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
    for value, wanted in zip(on_device, on_host, strict=True):
        torch.testing.assert_close(value.grad.cpu(), wanted.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_threads_share_a_compiled_function(mode: str) -> None:
    compiled = torch.compile(lambda a, b: (a @ b).relu().sum(-1) * 2, mode=mode)
    failures: list[str] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        try:
            for _ in range(4):
                a, b = (torch.randn(8, 16, generator=generator), torch.randn(16, 8, generator=generator))
                torch.testing.assert_close(compiled(a.to("vk"), b.to("vk")).cpu(), (a @ b).relu().sum(-1) * 2)
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_second_process_finds_graphs_on_disk(tmp_path: Path) -> None:
    program = (
        "import torch; from torch._dynamo.utils import counters\n"
        "x = torch.ones(5, 7, device='vk', requires_grad=True)\n"
        "torch.compile(lambda x: (x * 2).exp().sum(-1))(x).sum().backward()\n"
        "print(*[counters['inductor'][f'fxgraph_cache_{name}'] for name in ('miss', 'hit')], x.grad.sum().item())"
    )
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = [run.stdout.split() for run in runs]
    assert (first[:2], second[:2]) == (["2", "0"], ["0", "2"])
    assert first[2] == second[2]


@pytest.mark.parametrize("descending", [False, True])
def test_sorts_keep_the_order_of_equal_elements(descending: bool) -> None:
    floats = torch.randint(-2, 3, (3, 37), generator=torch.Generator().manual_seed(1)).float()
    floats[0, ::5], floats[1, ::3], floats[2, 4], floats[2, 9] = 7.0, -0.0, float("inf"), -float("inf")
    whole = torch.randint(-3, 4, (2, 50), generator=torch.Generator().manual_seed(2))
    whole[0, 7], whole[0, 30], whole[1, ::4] = 2**63 - 1, -(2**63), 2**63 - 1

    def ordered(x: torch.Tensor, y: torch.Tensor) -> Any:
        named = {"dim": 1, "stable": True, "descending": descending}
        values, indices = x.masked_fill(x == 7.0, float("nan")).sort(**named)
        return [values.nan_to_num(9.0), values.signbit(), indices, y.sort(**named)]

    check(ordered, floats, whole)
