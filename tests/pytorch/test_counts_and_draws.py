"""Histograms, hashes, fake quantization, and random numbers with parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch


def same(function: Any, *tensors: torch.Tensor) -> None:
    """Raises AssertionError unless a function has the CPU's results on the device."""
    expected = torch.utils._pytree.tree_leaves(function(*tensors))
    results = torch.utils._pytree.tree_leaves(function(*[tensor.to("vk") for tensor in tensors]))
    for result, wanted in zip(results, expected, strict=True):
        assert result.device.type == "vk"
        torch.testing.assert_close(result.cpu(), wanted)


@pytest.mark.parametrize("named", [{}, {"range": (-1.0, 2.0)}, {"density": True}], ids=["", "range", "density"])
def test_histograms(named: dict[str, Any]) -> None:
    x = torch.randn(10, 20)
    same(lambda t: torch.histogram(t, 7, **named), x)
    same(lambda t, w: torch.histogram(t, 7, weight=w, **named), x, x.abs())
    limits = {"range": (-1.0, 1.0, -2.0, 2.0)} if "range" in named else named
    same(lambda t: torch.histogramdd(t, [3, 4], **limits), x.reshape(-1, 2))


def test_histograms_between_edges() -> None:
    edges = torch.tensor([-1.0, 0.0, 0.25, 2.0])
    same(torch.histogram, torch.randn(50), edges)
    same(lambda t, *bins: torch.histogramdd(t, bins), torch.randn(50, 2), edges, edges[1:])
    same(lambda t: torch.histogram(t, 4), torch.ones(5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.uint8, torch.bool])
def test_hashes(dtype: torch.dtype) -> None:
    x = (torch.randn(3, 4, 5) * 3).to(dtype)
    for dim in ((), (0,), (1, 2)):
        same(lambda t, dim=dim: torch.hash_tensor(t, dim, keepdim=True), x)


def test_fake_quantization() -> None:
    x, scale, zero = torch.randn(4, 25), torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([3, 0, 1, -1]).int()
    same(lambda t: torch.fake_quantize_per_tensor_affine(t, 0.1, 3, -5, 20), x)
    same(lambda t: torch.fake_quantize_per_tensor_affine(t, 0.1, 3, -5, 20), x.half())
    same(lambda t, s, z: torch.fake_quantize_per_tensor_affine(t, s, z, -5, 20), x, scale[0], zero[0])
    same(lambda t, s, z: torch.fake_quantize_per_channel_affine(t, s, z, 0, -5, 20), x, scale, zero)


D = torch.distributions


@pytest.mark.parametrize(
    "make",
    [lambda one: D.Poisson(5 * one), lambda one: D.Binomial(10, 0.3 * one), lambda one: D.Gamma(2.5 * one, 2 * one),
     lambda one: D.Beta(2 * one, one), lambda one: D.Dirichlet(torch.stack([one, 2 * one, 3 * one], -1))],
    ids=["poisson", "binomial", "gamma", "beta", "dirichlet"],
)  # fmt: skip
def test_draws_have_the_moments_of_their_distribution(make: Any) -> None:
    n = 20_000
    distribution = make(torch.ones(n, device="vk"))
    torch.manual_seed(1)
    drawn = distribution.sample()
    mean, deviation = distribution.mean[0], distribution.variance[0].sqrt()
    assert ((drawn.mean(0) - mean).abs() < 5 * deviation / n**0.5).all()
    assert ((drawn.std(0) / deviation - 1).abs() < 0.05).all()
    torch.manual_seed(1)
    assert torch.equal(distribution.sample(), drawn)


def test_draws_refuse_impossible_parameters() -> None:
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.poisson(torch.tensor([-1.0], device="vk"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize(
    ("name", "parameters", "refused"),
    [("log_normal_", (0.5, 0.7), (0, 0)), ("cauchy_", (1, 2), (0, -1)), ("geometric_", (0.2,), (1,))],
)
def test_skewed_draws(name: str, parameters: Any, refused: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(1)

    def quantiles(device: str) -> torch.Tensor | str:
        try:
            x = getattr(torch.empty(40_000, dtype=dtype, device=device), name)(*parameters).cpu()
        except RuntimeError as error:
            return type(error).__name__
        return torch.quantile(x.double(), torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9], dtype=torch.float64))

    host, device = quantiles("cpu"), quantiles("vk")
    if isinstance(host, str) or isinstance(device, str):
        assert device == host
    else:
        torch.testing.assert_close(device, host, rtol=0.06, atol=0.06)
        with pytest.raises(RuntimeError, match=f"{name} expects"):
            getattr(torch.empty(3, dtype=dtype, device="vk"), name)(*refused)
