"""Kernels of the package triton on tensors of the device, eager and compiled, without a GPU of Triton's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
libdevice = pytest.importorskip("triton.language.extra.libdevice")
rsqrt = libdevice.rsqrt


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


@triton.jit  # type: ignore[untyped-decorator]
def _inverse(x_ptr, out_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def, valid-type] # noqa: ANN001, ANN202
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, rsqrt(libdevice.abs(tl.load(x_ptr + at)) + 1.0))


def inverse(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, device=x.device)
    _inverse[(x.numel(),)](x * 2, out, BLOCK=1)
    return out + 1


def scaled(x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    x = x + 1
    out = torch.empty(x.shape, device=x.device)
    _scaled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, bias, out, x.numel(), 2.0, True)
    return out * 3


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rows": (rows, lambda x: (x.sum(1) + x.amax(1)).relu()),
    "functions of libdevice": (inverse, lambda x: ((2 * x).abs() + 1).rsqrt() + 1),
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


@triton.jit  # type: ignore[untyped-decorator]
def _cast(x_ptr, out_ptr, reduce: tl.constexpr, dtype: tl.constexpr):  # type: ignore[no-untyped-def, valid-type] # noqa: ANN001, ANN202
    tl.store(out_ptr, reduce(tl.load(x_ptr + tl.arange(0, 8)).to(dtype)).to(tl.float32))


def test_types_and_kernels_as_arguments() -> None:
    x = torch.rand(8)
    for given, dtype in (tl.float16, torch.float16), (tl.constexpr(tl.int32), torch.int32):
        out = torch.empty(1, device="vk")
        _cast[(1,)]((9 * x).to("vk"), out, _of_row, dtype=given)
        values = (9 * x).to(dtype)
        assert out.item() == pytest.approx((values.sum() + values.max()).item(), rel=2e-3)


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


def _store_of(value: Any) -> Any:
    """Returns a kernel made in a function, which stores what its globals and cells have."""

    @triton.jit  # type: ignore[untyped-decorator]
    def helper(n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return n * SCALE

    @triton.jit  # type: ignore[untyped-decorator]
    def store(out, N: tl.constexpr):  # type: ignore[no-untyped-def, valid-type]  # noqa: ANN001, ANN202
        if N > 0:
            tl.store(out, helper(value))
        else:
            store(out, 1)
            never()

    if value is None:
        never = helper
    return store


SCALE = tl.constexpr(3)


def test_kernels_made_in_functions_have_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, out = _store_of(tl.constexpr(2)), torch.zeros(1, device="vk")
    kernel[(1,)](out, 1)
    assert out.tolist() == [6]
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(5))
    other = _store_of(tl.constexpr(2))
    other[(1,)](out, 1)
    assert out.tolist() == [10]


@triton.jit  # type: ignore[untyped-decorator]
def _scale_only(out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    tl.store(out, SCALE)


def test_a_global_that_changes_is_an_error_as_tritons(monkeypatch: pytest.MonkeyPatch) -> None:
    out = torch.zeros(1, device="vk")
    _scale_only[(1,)](out)
    assert out.tolist() == [3]
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(5))
    with pytest.raises(RuntimeError, match="global SCALE has changed"):
        _scale_only[(1,)](out)


@triton.jit  # type: ignore[untyped-decorator]
def _first(pair, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def, valid-type]  # noqa: ANN001, ANN202
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(pair[0] + at, at < n) + pair[1], at < n)


def test_tensors_in_tuples() -> None:
    x, out = torch.arange(5.0, device="vk"), torch.zeros(5, device="vk")
    _first[(1,)]((x, 2.0), out, 5, BLOCK=8)
    assert out.tolist() == [2, 3, 4, 5, 6]


def test_kernels_of_another_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("kernels_of_another")
    module.row = _of_row  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "another", module)
    x, out = torch.arange(8.0, device="vk"), torch.zeros(1, device="vk")
    _of_another[(1,)](x, out)
    assert out.tolist() == [28 + 7]


another: Any = None


@triton.jit  # type: ignore[untyped-decorator]
def _of_another(x, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    tl.store(out, another.row(tl.load(x + tl.arange(0, 8))))


def test_launches_on_the_host_stay_tritons() -> None:
    with pytest.raises(Exception, match=r"no GPU here|driver"):
        _scale_only[(1,)](torch.zeros(1))
