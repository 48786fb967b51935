"""Training on the device: losses and gradients follow the CPU's, without an operator on the host."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

Loss = Callable[[nn.Module, str], torch.Tensor]


class Attention(nn.Module):
    """A small GPT: embeddings of tokens and positions, two blocks, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, 16), nn.Embedding(8, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(4))
        self.qkv = nn.ModuleList(nn.Linear(16, 48, bias=False) for _ in range(2))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.Dropout(0.0)) for _ in range(2)
        )
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(8, device=ids.device))
        for at in range(2):
            heads = self.qkv[at](self.norms[2 * at](x)).view(*ids.shape, 3, 2, 8).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + y.transpose(1, 2).reshape(*ids.shape, 16)
            x = x + self.mlp[at](self.norms[2 * at + 1](x))
        return self.head(x)


class Residual(nn.Module):
    """Convolutions with batch normalization and a residual, pooling and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.norm, self.last = nn.BatchNorm2d(6), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.first(x), 3, 2, 1)
        x = F.relu(x + self.norm(self.second(x)))
        return self.last(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    """An LSTM and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.last = nn.LSTM(4, 5, batch_first=True), nn.GRU(5, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.other(self.one(x)[0])[0][:, -1])


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4))


def _unet() -> nn.Module:
    up = nn.ConvTranspose2d(4, 4, 2, 2)
    norm = nn.GroupNorm(2, 4)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), norm, nn.SiLU(), nn.AvgPool2d(2), up, nn.Conv2d(4, 4, 4, 4))


def _classes(shape: tuple[int, ...], n: int) -> Loss:
    x, y = torch.randn(shape), torch.randint(0, n, shape[:1])

    def loss(model: nn.Module, device: str) -> torch.Tensor:
        output = model(x.to(device))
        return F.cross_entropy(output.flatten(1), y.to(device), label_smoothing=0.1)

    return loss


def _next_tokens() -> Loss:
    ids = torch.randint(0, 20, (3, 8))

    def loss(model: nn.Module, device: str) -> torch.Tensor:
        return F.cross_entropy(model(ids.to(device)).flatten(0, 1), ids.to(device).roll(-1, 1).flatten())

    return loss


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "foreach": lambda p: torch.optim.Adam(p, 0.01, foreach=True, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
}
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Loss], str]] = {
    "mlp": (_mlp, lambda: _classes((6, 8), 4), "sgd"),
    "mlp foreach": (_mlp, lambda: _classes((6, 8), 4), "foreach"),
    "mlp rmsprop": (_mlp, lambda: _classes((6, 8), 4), "rmsprop"),
    "resnet": (Residual, lambda: _classes((4, 1, 12, 12), 4), "sgd"),
    "gpt": (Attention, _next_tokens, "adamw"),
    "recurrent": (Recurrent, lambda: _classes((3, 4, 4), 3), "adagrad"),
    "unet": (_unet, lambda: _classes((2, 1, 8, 8), 16), "adamw"),
}


def train(model: nn.Module, loss_of: Loss, device: str, optimizer: str, n_steps: int = 6) -> list[float]:
    """Returns the losses of training steps."""
    steps = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    for _ in range(n_steps):
        steps.zero_grad()
        loss = loss_of(model, device)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_the_cpus(name: str) -> None:
    make, make_loss, optimizer = MODELS[name]
    model, loss_of = make(), make_loss()
    other = copy.deepcopy(model).to("vk")
    expected = train(model, loss_of, "cpu", optimizer)
    assert train(other, loss_of, "vk", optimizer) == pytest.approx(expected, rel=2e-4)
    assert torch.vk.fallbacks() == {}
    for one, two in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(two.cpu(), one, rtol=3e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bias", [False, True])
def test_recurrent_layers(kind: Any, bias: bool) -> None:
    model = kind(3, 5, 2, bias=bias, bidirectional=bias)
    other = copy.deepcopy(model).to("vk")
    x = torch.randn(4, 2, 3)
    results = {}
    for device, layers in ("cpu", model), ("vk", other):
        given = x.to(device, copy=True).requires_grad_()
        out, states = layers(given)
        states = states if isinstance(states, tuple) else (states,)
        (out.square().sum() + states[-1].sum()).backward()
        results[device] = [out, *states, given.grad, *(p.grad for p in layers.parameters())]
    for result, expected in zip(results["vk"], results["cpu"], strict=True):
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_a_cell_of_no_rows_and_one_whose_hidden_state_is_not_used() -> None:
    cell = nn.LSTMCell(2, 3).to("vk")
    assert cell(torch.ones(0, 2, device="vk"))[0].shape == (0, 3)
    cell(torch.ones(2, 2, device="vk"))[1].sum().backward()
    rows = cell.weight_ih.grad.reshape(4, 3, 2)
    assert torch.equal(rows[3], torch.zeros_like(rows[3]))  # the output gate is no part of the state
    assert rows[0].abs().sum() > 0


FUSED: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda p: torch.optim.Adam(p, 0.05, weight_decay=0.1, fused=True, maximize=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.05, amsgrad=True, weight_decay=0.1, fused=True),
    "lr": lambda p: torch.optim.Adam(p, torch.tensor(0.05, device=p[0].device), fused=True),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, 0.9, 0.2, weight_decay=0.1, fused=True),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.05, 0.1, 0.2, initial_accumulator_value=0.3, fused=True),
    "adagrad, upwards": lambda p: torch.optim.Adagrad(p, 0.05, maximize=True, fused=True),
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_fused_optimizers_also_with_scaled_gradients(name: str, dtype: torch.dtype) -> None:
    values = [torch.randn(2, 3, 2, 2, dtype=dtype).contiguous(memory_format=torch.channels_last),
              torch.randn(3, dtype=dtype)]  # fmt: skip
    grads = [[torch.randn_like(value) for value in values] for _ in range(3)]
    results = {}
    for device in "cpu", "vk":
        parameters = [nn.Parameter(value.to(device, copy=True)) for value in values]
        optimizer: Any = FUSED[name](parameters)
        for step, given in enumerate(grads):
            for parameter, grad in zip(parameters, given, strict=True):
                parameter.grad = grad.to(device, copy=True)
            optimizer.grad_scale = torch.tensor(4.0, device=device)
            optimizer.found_inf = torch.tensor(float(step == 1), device=device)  # which skips the step
            optimizer.step()
        states = [value for p in parameters for value in optimizer.state[p].values() if value is not None]
        results[device] = [*parameters, *(p.grad for p in parameters), *states]
    for result, expected in zip(results["vk"], results["cpu"], strict=True):
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-6)


FOREACH: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda p: torch.optim.Adam(p, 0.05, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.1, maximize=True),
    "capturable": lambda p: torch.optim.Adam(p, 0.05, capturable=p[0].device.type == "vk"),
    "sgd": lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, 0.9, 0.2, maximize=True),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True),
}


@pytest.mark.parametrize("name", FOREACH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_optimizers_step_many_tensors_as_one_by_one(name: str, dtype: torch.dtype) -> None:
    values = [torch.randn(shape).to(dtype) for shape in ((2, 3, 2, 2), (), (0, 2), (5,))]
    values[0] = values[0].contiguous(memory_format=torch.channels_last)
    values[3] = torch.randn(10).to(dtype)[::2]
    grads = [[torch.randn_like(value) for value in values] for _ in range(3)]
    results = {}
    for device in "cpu", "vk":
        parameters = [nn.Parameter(value.to(device, copy=True)) for value in values]
        optimizer = FOREACH[name](parameters)
        for step, given in enumerate(grads):
            for at, (parameter, grad) in enumerate(zip(parameters, given, strict=True)):
                parameter.grad = None if (step, at) == (0, 1) else grad.to(device, copy=True)
            optimizer.step()
        states = [torch.as_tensor(x) for p in parameters for x in optimizer.state[p].values() if x is not None]
        results[device] = [*parameters, *states]
    tolerance = 1e-5 if dtype == torch.float32 else 0.05  # bfloat16 is rounded once, by PyTorch after each operation
    for result, expected in zip(results["vk"], results["cpu"], strict=True):
        torch.testing.assert_close(result.cpu(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["adam", "momentum", "adagrad"])
def test_steps_of_many_parameters_follow_the_rate(name: str) -> None:
    """There are more parameters than a plan has, and both kinds of alignment; plans repeat from step to step."""
    make = {**FUSED, **FOREACH}[name]
    values = [torch.randn(3 + at % 5, 4 if at % 3 else 1) for at in range(40)]
    grads = [[torch.randn_like(value) for value in values] for _ in range(5)]
    results = {}
    for device in "cpu", "vk":
        parameters = [nn.Parameter(value.to(device, copy=True)) for value in values]
        optimizer = make(parameters)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
        for given in grads:
            for parameter, grad in zip(parameters, given, strict=True):
                parameter.grad = grad.to(device, copy=True)
            optimizer.step()
            schedule.step()
        results[device] = parameters
    for result, expected in zip(results["vk"], results["cpu"], strict=True):
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-6)


def test_second_derivatives_and_checkpoints() -> None:
    x = torch.linspace(0.5, 1.5, 4, device="vk").requires_grad_()
    first = torch.autograd.grad((x**3).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x)[0]
    torch.testing.assert_close(second.cpu(), 6 * x.detach().cpu())
    y = torch.utils.checkpoint.checkpoint(lambda t: torch.sin(t).sum(), x, use_reentrant=False)
    y.backward()
    torch.testing.assert_close(x.grad.cpu(), torch.cos(x.detach().cpu()))


def test_autocast_computes_in_float16_and_scales_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")  # GradScaler has a float64, which a device may lack
    model, loss_of = _mlp(), _classes((6, 8), 4)
    expected = train(copy.deepcopy(model), loss_of, "cpu", "sgd")
    other = model.to("vk")
    scaler, steps = torch.amp.GradScaler("vk"), OPTIMIZERS["sgd"](other.parameters())
    losses = []
    for _ in range(6):
        steps.zero_grad()
        with torch.autocast("vk", torch.float16):
            assert other[0](torch.ones(1, 8, device="vk")).dtype == torch.float16
            loss = loss_of(other, "vk")
        scaler.scale(loss).backward()
        scaler.unscale_(steps)
        nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        scaler.step(steps)
        scaler.update()
        losses.append(loss.item())
    assert losses == pytest.approx(expected, rel=1e-2)


def test_memory_is_flat_over_steps() -> None:
    model, loss_of = _mlp().to("vk"), _classes((6, 8), 4)
    train(model, loss_of, "vk", "sgd", 3)
    before = torch.vk.memory_allocated()
    train(model, loss_of, "vk", "sgd", 20)
    assert torch.vk.memory_allocated() <= before + 2**20


def test_forward_derivatives_have_zeros() -> None:
    x = torch.arange(3.0, device="vk")
    matrix = torch.func.jacfwd(lambda x: torch.stack([x[0] * x[1], x.new_tensor(1.0)]))(x)
    assert matrix.tolist() == [[1, 0, 0], [0, 0, 0]]


def test_function_transforms() -> None:
    x = torch.arange(6.0, device="vk").view(2, 3)
    assert torch.vmap(lambda row: (row * row).sum())(x).tolist() == [5, 50]
    assert torch.func.grad(lambda t: (t**2).sum())(x[1]).tolist() == [6, 8, 10]
    assert torch.func.jacrev(torch.sin)(x[0]).shape == (3, 3)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("masks", ["", "lengths", "causal", "both"])
def test_transformers_are_evaluated_on_the_device(is_first: bool, masks: str) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=is_first, activation="gelu")
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not is_first).eval()
    hidden = torch.tensor([[False, False, True], [False, False, False]])
    x, results = torch.randn(2, 3, 16), []
    for device in "cpu", "vk":
        lengths = hidden.to(device) if masks in ("lengths", "both") else None
        order = (
            nn.Transformer.generate_square_subsequent_mask(3, device=device) if masks in ("causal", "both") else None
        )
        with torch.no_grad():
            results.append(model.to(device)(x.to(device), order, lengths).cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_moved_parameters_keep_attributes_and_hooks() -> None:
    layer, calls = nn.Linear(3, 3), []
    kept = layer.weight
    kept.is_shared = True
    kept.register_hook(lambda grad: calls.append("gradient"))
    kept.register_post_accumulate_grad_hook(lambda parameter: calls.append("accumulated"))
    for device in "vk", "cpu":
        layer.to(device)(torch.ones(2, 3, device=device)).sum().backward()
        assert (layer.weight is kept, kept.is_shared, kept.grad.device.type) == (True, True, device)
    assert calls == ["gradient", "accumulated"] * 2
    assert kept.grad.tolist() == [[4.0] * 3] * 3


def test_modules_of_torchscript_move_to_the_device_and_back() -> None:
    made = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    x = torch.randn(2, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    made(x).square().sum().backward()
    wanted, made = [p.grad for p in made.parameters()], torch.jit.script(made)
    made.zero_grad()
    made.to("vk")
    assert {value.device.type for value in made.state_dict().values()} == {"vk"}
    made(x.to("vk")).square().sum().backward()
    for parameter, gradient in zip(made.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), gradient, rtol=1e-4, atol=1e-4)
    assert {value.device.type for value in made.cpu().state_dict().values()} == {"cpu"}


def test_parameters_move_while_a_graph_holds_them() -> None:
    layer, x = nn.Linear(3, 3), torch.ones(2, 3)
    before = layer(x)
    after = layer.to("vk")(x.to("vk"))
    torch.testing.assert_close(after.cpu(), before)
    with pytest.raises(RuntimeError, match="between its forward and its backward pass"):
        before.sum().backward()
    layer.half()
    with pytest.raises(RuntimeError, match="between its forward and its backward pass"):
        after.sum().backward()
    layer.cpu().float()
    layer(x).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0] * 3] * 3


@pytest.mark.parametrize("averaged", [None, False, True])
def test_attention_is_evaluated_with_its_weights(averaged: bool | None) -> None:
    model, x, results = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.randn(2, 3, 16), []
    hidden = torch.tensor([[False, False, True], [False, False, False]])
    for device in "cpu", "vk":
        given, mask = x.to(device), hidden.to(device)
        with torch.no_grad():
            out = model.to(device)(
                given, given, given, mask, averaged is not None, average_attn_weights=averaged or False
            )
        results.append([None if tensor is None else tensor.cpu() for tensor in out])
    assert (results[1][1] is None) == (averaged is None)
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_dropout_keeps_the_mean_and_its_gradient_is_the_mask() -> None:
    x = torch.ones(4000, device="vk", requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert torch.equal((x.grad != 0).cpu(), (y != 0).cpu())
    assert y.mean().item() == pytest.approx(1, abs=0.05)


def test_two_threads_train_two_models() -> None:
    model, loss_of = _mlp(), _classes((6, 8), 4)
    expected = train(copy.deepcopy(model), loss_of, "cpu", "sgd")
    results: dict[int, list[float]] = {}

    def run(number: int) -> None:
        results[number] = train(copy.deepcopy(model).to("vk"), loss_of, "vk", "sgd")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[number] == pytest.approx(expected, rel=2e-4) for number in range(2)] == [True, True]


def test_a_newer_pytorch_is_checked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from vkcompute.torch import self_check

    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(self_check, "NEWEST", (2, 0))
    with pytest.warns(UserWarning, match=r"has passed a self-check"), torch.no_grad():  # as in the first operator
        self_check.require()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        self_check.require()  # its result is kept
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / "other"))
    monkeypatch.setattr(torch.testing, "assert_close", lambda *_: 1 / 0)
    with pytest.raises(RuntimeError, match=r"does not work with .* install a tested one"):
        self_check.require()


def test_compiled_models_train() -> None:
    model, loss_of = _mlp(), _classes((6, 8), 4)
    expected = train(copy.deepcopy(model), loss_of, "cpu", "sgd", 2)
    compiled = torch.compile(model.to("vk"))
    assert train(compiled, loss_of, "vk", "sgd", 2) == pytest.approx(expected, rel=2e-4)
