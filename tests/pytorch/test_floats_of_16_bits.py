"""float16 and bfloat16 are about as close to float64's results as on the CPU; floats of 8 bits are stored and cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from vkcompute import dtypes

DTYPES = [torch.float16, torch.bfloat16]
SMALLER = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def _targets(x: Any) -> Any:
    return torch.arange(x.shape[0], device=x.device) % x.shape[1]


CASES: dict[str, Callable[..., Any]] = {
    "elements": lambda x, y: (x * 0.1 + y / 3, torch.addcmul(x, y, y, value=0.3), F.gelu(x), F.silu(y), x.exp() ** 0.7),
    "losses": lambda x, y: (F.cross_entropy(x, _targets(x)), F.smooth_l1_loss(x, y), F.huber_loss(x, y)),
    "sums": lambda x, y: (x.sum(0), y.mean(), x.var(1), x.norm(), x.cumsum(1), x.softmax(1), y.logsumexp(0)),
    "products": lambda x, y: (x @ y.t(), torch.addmm(x, x, y[:, :4].t().reshape(4, -1)[:, :4], beta=0.1, alpha=0.3)),
    "norms": lambda x, y: F.layer_norm(x, (4,), y[0], y[1]),
    "images": lambda x, y: (F.conv2d(x.view(1, 2, 4, 4), y.view(2, 2, 2, 4)), F.avg_pool2d(y.view(1, 2, 4, 4), 2)),
    "indices": lambda x, y: (x[_targets(x)], torch.zeros_like(x).index_add(0, _targets(x), y), x.sort(1)[0]),
}


def _results(function: Callable[..., Any], device: str, dtype: torch.dtype, *tensors: torch.Tensor) -> list[Any]:
    given = [x.detach().requires_grad_().to(dtype).to(device) for x in tensors]
    result = function(*given)
    results = list(result) if isinstance(result, tuple) else [result]
    results += torch.autograd.grad(sum(x.square().sum() for x in results), given, allow_unused=True)
    return [x.detach().cpu().double() for x in results if x is not None]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results_are_as_close_as_the_cpus(name: str, dtype: torch.dtype) -> None:
    tensors = [x.to(dtype) for x in (_numbers(8, 4), _numbers(2, 4, 4).view(8, 4))]
    places = ("cpu", torch.float64), ("cpu", dtype), ("vk", dtype)
    for exact, host, result in zip(*[_results(CASES[name], *place, *tensors) for place in places], strict=True):
        step = torch.finfo(dtype).eps * exact.abs().max()
        assert (result - exact).abs().max() <= 2 * (host - exact).abs().max() + 2 * step


ROUNDED_ONCE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "volumes": lambda x: F.conv3d(x.view(1, 2, 4, 8, 8), x.view(-1)[:270].view(5, 2, 3, 3, 3), x.view(-1)[:5]),
    "transposed volumes": lambda x: F.conv_transpose3d(x.view(1, 2, 4, 8, 8), x.view(-1)[:270].view(2, 5, 3, 3, 3)),
    "transposed images": lambda x: F.conv_transpose2d(
        x.view(1, 8, 8, 8), x.view(-1)[:216].view(8, 3, 3, 3), x.view(-1)[:3]
    ),
    "products and terms": lambda x: torch.baddbmm(x.view(2, 16, 16), x.view(2, 16, 16), x.view(2, 16, 16), alpha=0.5),
    "linear": lambda x: F.linear(x.view(16, 32), x.view(16, 32), x.view(-1)[:16]),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ROUNDED_ONCE)
def test_sums_of_products_are_rounded_once(name: str, dtype: torch.dtype) -> None:
    x = _numbers(512).to(dtype)
    exact = ROUNDED_ONCE[name](x.double())
    errors = (ROUNDED_ONCE[name](x.to("vk")).cpu().double() - exact).abs()
    assert (errors <= 0.51 * torch.finfo(dtype).eps * exact.abs() + 1e-4).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_means_and_deviations_of_norms_have_the_dtype_that_pytorch_expects_of_a_device(dtype: torch.dtype) -> None:
    x = _numbers(2, 4, 3).to("vk", dtype)
    for weight, groups in (None, dtype), (x[0, :, 0], dtype), (x[0, :, 0].float(), torch.float32):
        assert {y.dtype for y in torch.native_group_norm(x, weight, weight, 2, 4, 3, 2, 1e-5)[1:]} == {groups}
        assert {y.dtype for y in torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)[1:]} == {
            torch.float32
        }
    assert {y.dtype for y in torch.native_layer_norm(x, [3], None, None, 1e-5)[1:]} == {torch.float32}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_of_silu_are_rounded_once(dtype: torch.dtype) -> None:
    x = torch.linspace(-1.6, -1.0, 256).to(dtype)  # the slope is 0 at -1.278
    gradient = torch.linspace(1, 3, 256).to(dtype)
    exact = torch.ops.aten.silu_backward(gradient.double(), x.double())
    result = torch.ops.aten.silu_backward(gradient.to("vk"), x.to("vk")).cpu().double()
    assert ((result - exact).abs() <= 0.51 * torch.finfo(dtype).eps * exact.abs() + 1e-6).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, *SMALLER])
def test_copies_need_no_ml_dtypes(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "_ml_dtypes", False)
    host = torch.tensor([[0.25, -2.5, 3.0], [1.0, 0.0, -0.5]]).to(dtype)
    device = host.to("vk")
    for here, there in ((host, device), (host.t(), device.t()), (host[:, 1], device[:, 1]), (host[1, 2], device[1, 2])):
        assert there.cpu().dtype == dtype
        assert there.cpu().float().tolist() == here.float().tolist()


def test_bfloat16_is_computed_on_the_device() -> None:
    host = torch.tensor([0.1, -2.5, 3.0, float("nan"), float("inf")], dtype=torch.bfloat16)
    device = host.to("vk")
    for function in (lambda x: x == 0.1, lambda x: x.float(), lambda x: x.nan_to_num(0, 9).int(), lambda x: x + 1,
                     lambda x: x + torch.ones(5, dtype=torch.float16, device=x.device), lambda x: x[1].item(),
                     lambda x: torch.full_like(x, 0.3), lambda x: x.view(torch.int16),
                     lambda x: x[:2].argmax()):  # fmt: skip
        result, expected = function(device), function(host)
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0, equal_nan=True)
        else:
            assert result == expected


@pytest.mark.parametrize("dtype", SMALLER, ids=str)
def test_floats_of_8_bits_are_stored_and_cast(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    host = torch.linspace(-8, 8, 33).view(3, 11)
    device = host.to("vk").to(dtype)
    torch.testing.assert_close(device.t()[2:].float().cpu(), host.to(dtype).t()[2:].float(), rtol=0, atol=0)
    assert torch.equal(device.cpu().view(torch.uint8), host.to(dtype).view(torch.uint8))
    assert torch.full((2,), 1.5, dtype=dtype, device="vk").cpu().float().tolist() == [1.5, 1.5]
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")
    with pytest.raises(NotImplementedError):  # as the CPU says
        _ = device + device


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_uniform_numbers_are_below_1(dtype: torch.dtype) -> None:
    numbers = torch.rand(20_000, device="vk", dtype=dtype).cpu().float()
    assert 0 <= numbers.min() < 0.01
    assert 0.99 < numbers.max() < 1


def test_autocast_to_bfloat16() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).to("vk")
    with torch.autocast("vk", torch.bfloat16):
        result = model(_numbers(5, 4).to("vk"))
        loss = F.cross_entropy(result, _targets(result))
    loss.backward()
    assert (result.dtype, loss.dtype, model[0].weight.grad.dtype) == (torch.bfloat16, torch.float32, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_elements_are_added_exactly(dtype: torch.dtype) -> None:
    n = 4096 if dtype == torch.float16 else 1024
    ones, at = torch.ones(n, dtype=dtype, device="vk"), torch.zeros(n, dtype=torch.int64, device="vk")
    zeros = torch.zeros(2, dtype=dtype, device="vk")
    for total in (zeros.index_add(0, at, ones)[0], zeros.scatter_add(0, at, ones)[0], ones.cumsum(0)[-1], ones.sum(),
                  zeros.index_put((at,), ones, accumulate=True)[0], ones @ ones,
                  torch.addbmm(zeros[:1, None], ones.view(-1, 1, 1), ones.view(-1, 1, 1))):  # fmt: skip
        assert total.item() == n


def _of_key(key: str) -> set[str]:
    """The operators of PyTorch's that have a kernel of their own for a dispatch key."""
    names = torch._C._dispatch_get_all_op_names()
    return {name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)}


def test_autocast_has_the_operators_of_cudas_lists() -> None:
    torch.empty(1, device="vk")
    missing = _of_key("AutocastCUDA") - _of_key("AutocastPrivateUse1")
    assert not {name for name in missing if name.startswith("aten::") and "cudnn" not in name}


IN_FLOAT32: dict[str, Callable[[Any], Any]] = {
    "nearest": lambda x: F.interpolate(x.view(1, 1, 4, 4), scale_factor=2),
    "bilinear": lambda x: F.interpolate(x.view(1, 1, 4, 4), size=(3, 5), mode="bilinear", antialias=True),
    "bicubic": lambda x: F.interpolate(x.view(1, 1, 4, 4), size=(3, 5), mode="bicubic"),
    "trilinear": lambda x: F.interpolate(x.view(1, 1, 2, 2, 4), scale_factor=2, mode="trilinear"),
    "softplus": F.softplus,
    "power of a number": lambda x: 2**x,
    "products along an axis": lambda x: x.prod(1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "norm of a matrix": torch.linalg.matrix_norm,
    "distance": lambda x: torch.dist(x, x + 1),
    "layer norm": lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5)[0],
    "hinge": lambda x: F.multi_margin_loss(x, _targets(x)),
}


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_autocast_computes_in_float32(name: str) -> None:
    x = _numbers(4, 4).half().to("vk")
    with torch.autocast("vk", torch.float16):
        result = IN_FLOAT32[name](x)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.cpu(), IN_FLOAT32[name](x.cpu().float()), rtol=1e-5, atol=1e-5)


def test_autocast_promotes_tensors_of_unlike_dtypes() -> None:
    x, y = _numbers(3, 3).to("vk"), _numbers(3, 3).half().to("vk")
    at = torch.tensor([0, 2, 1], device="vk")
    with torch.autocast("vk", torch.float16):
        for result in (
            torch.addcmul(x, y, y), torch.atan2(y, x), torch.cross(x, y, dim=1), x.index_put((at,), y),
            torch.dot(x[0], y[0]), x.scatter_add(0, at.view(3, 1), y), torch.tensordot(x, y, 1),
        ):  # fmt: skip
            assert result.dtype == torch.float32
        assert torch.addcmul(y, y, y).dtype == torch.float16
        with pytest.raises(RuntimeError, match=r"autocast to torch.float16 promotes .*got torch.bfloat16; convert it"):
            torch.atan2(y, y.bfloat16())
        with pytest.raises(RuntimeError, match=r"unsafe under autocast.*use binary_cross_entropy_with_logits"):
            F.binary_cross_entropy(x.sigmoid(), x.sigmoid())
