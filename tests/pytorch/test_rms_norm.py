"""rms_norm on the device is one operator, forward and backward, with the results of the CPU's composite."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode

TOLERANCES = {
    torch.float32: (1e-5, 1e-6), torch.float64: (1e-12, 1e-13),
    torch.float16: (2e-3, 2e-3), torch.bfloat16: (2e-2, 2e-2),
}  # fmt: skip


def normalized(device: str, values: list[torch.Tensor], shape: tuple[int, ...], eps: float | None) -> list[Any]:
    """Returns the result and the gradients of rms_norm."""
    x, *weight = [value.to(device, copy=True).requires_grad_() for value in values]
    result = F.rms_norm(x, shape, *weight, eps=eps)
    slopes = torch.arange(result.numel()).reshape(result.shape).sin().to(device, result.dtype)
    return [result, *torch.autograd.grad(result, [x, *weight], slopes)]


def is_right(values: list[torch.Tensor], shape: tuple[int, ...], eps: float | None) -> None:
    rtol, atol = TOLERANCES[values[0].dtype]
    results, wanted = (normalized(device, values, shape, eps) for device in ("vk", "cpu"))
    for result, value in zip(results, wanted, strict=True):
        largest = value.abs().max().item() if value.numel() else 1.0
        torch.testing.assert_close(result.cpu(), value, rtol=rtol, atol=atol * largest, check_stride=False)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("eps", [None, 0.3])
@pytest.mark.parametrize("has_weight", [False, True])
@pytest.mark.parametrize("scale", [1.0, 3e-4])
def test_rms_norm_is_the_cpus(dtype: torch.dtype, eps: float | None, has_weight: bool, scale: float) -> None:
    """Small elements show which epsilon is the default: that of the dtype in which squares are added."""
    for shape, inner in ((3, 5, 8), (8,)), ((4, 3, 7), (3, 7)), ((6,), (6,)), ((2, 300), (300,)):
        values = [(torch.randn(shape, dtype=torch.float64) * scale).to(dtype)]
        weight = [(torch.rand(inner, dtype=torch.float64) + 0.5).to(dtype)] if has_weight else []
        is_right(values + weight, inner, eps)


def test_views_empty_lines_and_mixed_dtypes() -> None:
    x, weight = torch.randn(6, 9), torch.rand(6)
    is_right([x.t(), weight], (6,), None)
    is_right([x.expand(2, 6, 9)[:, ::2], torch.rand(9)], (9,), 1e-6)
    is_right([torch.ones(0, 6), weight], (6,), None)
    is_right([torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last), torch.rand(5)], (5,), None)
    result = F.rms_norm(x.half().t().to("vk"), (6,), weight.to("vk"))
    wanted = F.rms_norm(x.half().t(), (6,), weight)
    assert result.dtype == wanted.dtype
    torch.testing.assert_close(result.cpu(), wanted, rtol=2e-3, atol=2e-3, check_stride=False)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_the_operator_returns_reciprocal_roots_in_the_dtype_of_sums(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 5).to(dtype)
    result, wanted = (torch.ops.aten._fused_rms_norm(x.to(device), [4, 5], None, None)[1] for device in ("vk", "cpu"))
    torch.testing.assert_close(result.cpu(), wanted)


class Recorded(TorchDispatchMode):
    """Records the names of the operators that reach the device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_it_is_one_operator_in_each_direction() -> None:
    layer, x = torch.nn.RMSNorm(8).to("vk"), torch.randn(3, 8, device="vk", requires_grad=True)
    slopes = torch.ones(3, 8, device="vk")
    with Recorded() as recorded:
        torch.autograd.grad(layer(x), (x, layer.weight), slopes)
    assert [name for name in recorded.names if name != "detach"] == ["_fused_rms_norm", "_fused_rms_norm_backward"]


@pytest.mark.parametrize("has_weight", [False, True])
def test_second_gradients(has_weight: bool) -> None:
    inputs = [torch.randn(3, 4, dtype=torch.float64), torch.rand(4, dtype=torch.float64)][: 1 + has_weight]
    given = [value.to("vk").requires_grad_() for value in inputs]
    assert torch.autograd.gradgradcheck(lambda x, *weight: F.rms_norm(x, (4,), *weight), given)


def test_forward_gradients_and_transforms() -> None:
    x, tangent, weight = torch.randn(3, 4), torch.randn(3, 4), torch.rand(4)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (4,), weight.to(x.device))

    for result, wanted in zip(
        *[torch.func.jvp(norm, (x.to(on),), (tangent.to(on),)) for on in ("vk", "cpu")], strict=True
    ):
        torch.testing.assert_close(result.cpu(), wanted)
    per_sample = torch.func.vmap(torch.func.grad(lambda x: norm(x).square().sin().sum()))
    torch.testing.assert_close(per_sample(x.to("vk")).cpu(), per_sample(x))


def test_compiled_models_with_it_follow_the_cpu() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.RMSNorm(16), torch.nn.Linear(16, 3))
    x, on_device = torch.randn(5, 8), copy.deepcopy(model).to("vk")
    compiled = torch.compile(on_device, fullgraph=True)
    result, wanted = compiled(x.to("vk")), model(x)
    torch.testing.assert_close(result.cpu(), wanted, rtol=1e-4, atol=1e-5)
    for given in result, wanted:
        given.square().sum().backward()
    for value, other in zip(on_device.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(value.grad.cpu(), other.grad, rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()


def test_shapes_and_dtypes_are_checked() -> None:
    x = torch.ones(2, 4, device="vk")
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.rms_norm(x, (3,))
    with pytest.raises(RuntimeError, match="weight"):
        F.rms_norm(x, (4,), torch.ones(3, device="vk"))
    with pytest.raises(NotImplementedError, match="rms_norm"):
        F.rms_norm(x.int(), (4,))


def test_autocast_computes_it_in_float32_as_on_cuda() -> None:
    x, weight = torch.randn(3, 4), torch.rand(4)
    with torch.autocast("vk", torch.float16):
        result = F.rms_norm(x.half().to("vk"), (4,), weight.to("vk"))
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.cpu(), F.rms_norm(x.half().float(), (4,), weight))
