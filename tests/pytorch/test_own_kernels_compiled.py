"""Block programs of vkcompute.compat.triton in compiled functions: their results and gradients are those of eager."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

MODES = ["default", "reduce-overhead"]


@triton.jit  # type: ignore[untyped-decorator]
def _sines(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sin(tl.load(x_ptr + at, at < n)) * factor, at < n)


@triton.jit  # type: ignore[untyped-decorator]
def _added(x_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < n) + 1, at < n)


def sines(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    _sines[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), factor, BLOCK=64)
    return out


class Sines(torch.autograd.Function):
    """A kernel with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return sines(x, 3.0)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * sines(ctx.saved_tensors[0] + torch.pi / 2, 3.0)


class Model(torch.nn.Module):
    """A layer, a kernel and a reduction."""

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.layer, self.kernel = torch.nn.Linear(30, 7), kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kernel(self.layer(x)).square().sum(-1)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", MODES)
def test_kernels_launched_between_graphs(mode: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = sines(y, 3.0)
        _added[(triton.cdiv(y.numel(), 64),)](y, y.numel(), BLOCK=64)
        return z + y

    run = torch.compile(function, mode=mode)
    for shape in (5, 30), (5, 30), (9, 30), (5, 30):
        x = torch.randn(shape)
        torch.testing.assert_close(run(x.to("vk")).cpu(), (x * 2).sin() * 3 + x * 2 + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_a_function_with_a_kernel(mode: str) -> None:
    model, x = Model(lambda x: x.sin() * 3), torch.randn(5, 30)
    wanted = model(x)
    wanted.sum().backward()
    other = Model(Sines.apply).to("vk")
    other.load_state_dict(model.state_dict())
    run = torch.compile(other, mode=mode)
    for _ in range(3):
        other.zero_grad()
        result = run(x.to("vk"))
        result.sum().backward()
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-4, atol=1e-4)
        for value, expected in zip(other.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(value.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-3)


WRAPPED = """
import sys, torch
sys.path.insert(0, FOLDER)
import test_own_kernels_compiled as own
own.triton.install_as_triton()


@torch.library.triton_op("vkcompute_test::sines", mutates_args={})
def sines(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel = torch.library.wrap_triton(own._sines)
    kernel[(own.triton.cdiv(x.numel(), 64),)](x, out, x.numel(), factor, BLOCK=64)
    return out


def backward(ctx, grad):
    return grad * sines(ctx.saved_tensors[0] + torch.pi / 2, 3.0), None


sines.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
x, model = torch.randn(5, 30), own.Model(lambda x: sines(x, 3.0))
plain = own.Model(lambda x: x.sin() * 3)
plain.load_state_dict(model.state_dict())
wanted = plain(x)
wanted.sum().backward()
model.to("vk")
for mode in None, "default", "reduce-overhead":
    run = model if mode is None else torch.compile(model, fullgraph=True, mode=mode)
    for _ in range(3):
        model.zero_grad()
        given = x.to("vk")
        result = run(given)
        result.sum().backward()
        assert torch.equal(given.cpu(), x)
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-4, atol=1e-4)
        for value, expected in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(value.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-3)
"""


def test_a_custom_operator_that_wraps_a_kernel_and_its_gradient() -> None:
    program = WRAPPED.replace("FOLDER", repr(__file__.rpartition("/")[0]))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
