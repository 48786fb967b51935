"""Kernels of the package triton on tensors of the device, eager and compiled, without a GPU of Triton's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit  # type: ignore[untyped-decorator]
def _of_row(values):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return tl.sum(values, 0) + tl.max(values, 0)


@triton.jit  # type: ignore[untyped-decorator]
def _rows(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def, valid-type] # noqa: ANN001, ANN202
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + row, _of_row(tl.load(x_ptr + row * stride + at, at < n, other=0.0)))


@triton.autotune(configs=[triton.Config({"BLOCK": n}) for n in (64, 256)], key=["n"])  # type: ignore[untyped-decorator]
@triton.jit  # type: ignore[untyped-decorator]
def _scaled(x_ptr, bias_ptr, out_ptr, n, factor, EXP: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def, valid-type] # noqa: ANN001, ANN202
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + at, at < n).to(tl.float32)
    if EXP:
        values = tl.exp(values)
    if bias_ptr is not None:
        values += tl.load(bias_ptr)
    tl.store(out_ptr + at, values * factor, at < n)


def rows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape[0], device=x.device)
    _rows[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return out.relu()


def scaled(x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    x = x + 1
    out = torch.empty(x.shape, device=x.device)
    _scaled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, bias, out, x.numel(), 2.0, True)
    return out * 3


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rows": (rows, lambda x: (x.sum(1) + x.amax(1)).relu()),
    "scaled": (scaled, lambda x: (x + 1).float().exp() * 2 * 3),
    "scaled with a bias": (
        lambda x: scaled(x, torch.ones(1, device=x.device)),
        lambda x: ((x + 1).float().exp() + 1) * 2 * 3,
    ),
}


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("options", [None, {}, {"dynamic": True}, {"mode": "reduce-overhead"}], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_kernels_in_models(name: str, options: dict[str, Any] | None) -> None:
    function, wanted = CASES[name]
    run = function if options is None else torch.compile(function, fullgraph=True, **options)
    for shape in (5, 70), (5, 1), (5, 70):
        x = torch.randn(shape)
        torch.testing.assert_close(run(x.to("vk")).cpu(), wanted(x), rtol=1e-5, atol=1e-5)


def test_a_custom_operator_with_a_wrapped_kernel() -> None:
    @torch.library.triton_op("vkcompute_test::rows", mutates_args={})
    def operator(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape[0], device=x.device)
        kernel = torch.library.wrap_triton(_rows)
        kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

    x = torch.randn(4, 30)
    wanted = x.sum(1) + x.amax(1)
    torch.testing.assert_close(operator(x.to("vk")).cpu(), wanted)
    compiled = torch.compile(lambda x: operator(x * 2) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x.to("vk")).cpu(), 2 * wanted + 1)
