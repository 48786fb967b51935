"""Pooling and attention against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import nn


def windows(x: np.ndarray, kernel: int, stride: int, padding: int, filler: float) -> Any:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2), constant_values=filler)
    return np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (1, 3, 0), (9, 1, 4)])
def test_windows(gpu: vc.Runtime, kernel: int, stride: int, padding: int) -> None:
    host = np.random.default_rng(0).normal(size=(2, 3, 9, 11)).astype(np.float32)
    x = gpu.array(host)
    largest = windows(host, kernel, stride, padding, -np.inf).max((4, 5))
    np.testing.assert_array_equal(nn.max_pool2d(x, kernel, stride, padding).numpy(), largest)
    sums = windows(host, kernel, stride, padding, 0).sum((4, 5))
    counts = windows(np.ones_like(host), kernel, stride, padding, 0).sum((4, 5))
    result = nn.avg_pool2d(x, kernel, stride, padding)
    np.testing.assert_allclose(result.numpy(), sums / kernel**2, atol=1e-6)
    result = nn.avg_pool2d(x, kernel, stride, padding, count_include_pad=False)
    np.testing.assert_allclose(result.numpy(), sums / counts, atol=1e-6)


def test_windows_that_end_outside(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(25, dtype=np.float32).reshape(1, 5, 5))
    assert nn.max_pool2d(x, 2, ceil_mode=True).numpy().tolist() == [[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]
    assert nn.avg_pool2d(x, 2, ceil_mode=True).numpy().tolist() == [[[3, 5, 6.5], [13, 15, 16.5], [20.5, 22.5, 24]]]
    assert nn.max_pool2d(x.astype(np.int32), 2, 1, dilation=3).numpy().tolist() == [[[18, 19], [23, 24]]]
    with pytest.raises(ValueError, match="at most half of the kernel's size; got 2 and 3"):
        nn.max_pool2d(x, 3, padding=2)
    with pytest.raises(ValueError, match="windows of 6 elements exceed 5"):
        nn.avg_pool2d(x, 6)


def test_windows_of_bools(gpu: vc.Runtime) -> None:
    host = np.random.default_rng(0).random((1, 2, 6, 6)) < 0.2
    result = nn.max_pool2d(gpu.array(host), 3, 2, 1).numpy()
    assert result.dtype == bool
    np.testing.assert_array_equal(result, windows(host, 3, 2, 1, 0).max((4, 5)))
    with pytest.raises(TypeError, match=r"^max_pool2d takes real numbers and bools; got complex64; pass x\.real"):
        nn.max_pool2d(gpu.zeros((1, 1, 4, 4), np.complex64), 2)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: Any) -> np.ndarray:
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def test_attention(gpu: vc.Runtime) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=item).astype(np.float32) for item in ((2, 1, 7, 5), (2, 3, 9, 5), (2, 3, 9, 6)))
    given = [gpu.array(host) for host in (q, k, v)]
    causal = np.where(np.tri(7, 9, dtype=bool), 0, -np.inf)
    bias = rng.normal(size=(7, 9)).astype(np.float32)
    for named, expected in (({}, 0), ({"is_causal": True}, causal), ({"attn_mask": gpu.array(bias)}, bias)):
        result = nn.scaled_dot_product_attention(*given, **named)  # type: ignore[arg-type]
        np.testing.assert_allclose(result.numpy(), attention(q, k, v, expected), atol=1e-5)
    with pytest.raises(ValueError, match=r"got \(2, 1, 7, 5\), \(2, 3, 9, 6\) and"):
        nn.scaled_dot_product_attention(given[0], given[2], given[2])


def test_wrong_arguments_of_attention(gpu: vc.Runtime) -> None:
    q, k, mask = gpu.zeros((2, 3, 7, 4)), gpu.zeros((2, 2, 9, 4)), gpu.zeros((8, 9))
    named: Any
    for named, message in (
        ({"dropout_p": 0.5}, "no dropout: dropout_p is 0; got 0.5"),
        ({}, r"heads that broadcast.* got \(2, 3, 7, 4\), \(2, 2, 9, 4\), .*enable_gqa=True"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.scaled_dot_product_attention(q, k, k, **named)
    with pytest.raises(ValueError, match=r"a mask that broadcasts to \(…, 7, 7\); got .*\(8, 9\)"):
        nn.scaled_dot_product_attention(q, q, q, mask)
    with pytest.raises(ValueError, match=r"a mask that broadcasts to \(…, 1, 9\)"):
        nn.scaled_dot_product_attention(k[:, :, :1], k, k, mask)
    flags = (
        ({"is_causal": "yes"}, "is_causal is True or False; got 'yes'"),
        ({"enable_gqa": 1}, "enable_gqa is .* got 1"),
    )
    for named, message in flags:
        with pytest.raises(TypeError, match=message):
            nn.scaled_dot_product_attention(q, q, q, **named)
    with pytest.raises(TypeError, match="positional"):
        nn.scaled_dot_product_attention(q, q, q, None, 0.0, False, 0.5)  # type: ignore[misc]


def test_queries_without_keys_give_zeros(gpu: vc.Runtime) -> None:
    x = gpu.array(np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32))
    bools = np.tri(5, 5, -1, dtype=bool)
    for mask in (bools, np.where(bools, np.float32(0), np.float32(-np.inf))):
        result = nn.scaled_dot_product_attention(x, x, x, gpu.array(mask)).numpy()
        np.testing.assert_array_equal(result[:, 0], 0)
        np.testing.assert_allclose(result[:, 1], x.numpy()[:, 0], rtol=1e-6)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)])
@pytest.mark.parametrize(("n_heads", "n_shared"), [(6, 2), (6, 3), (4, 4), (5, 1), (0, 2)])
@pytest.mark.parametrize("masked", ["no", "causal", "rows", "one head", "heads"])
def test_attention_of_heads_that_share_keys(
    gpu: vc.Runtime, batch: tuple[int, ...], n_heads: int, n_shared: int, masked: str
) -> None:
    rng = np.random.default_rng(0)
    sizes = (n_heads, 7, 5), (n_shared, 9, 5), (n_shared, 9, 6)
    q, k, v = (rng.normal(size=(*batch, *size)).astype(np.float32) for size in sizes)
    bias: Any = np.where(np.tri(7, 9, dtype=bool), 0, -np.inf) if masked == "causal" else 0
    mask = None
    if masked in ("rows", "one head", "heads"):
        shape = {"rows": (7, 9), "one head": (*batch, 1, 7, 9), "heads": (n_heads, 7, 9)}[masked]
        bias = rng.normal(size=shape).astype(np.float32)
        mask = gpu.array(bias)
    given = [gpu.array(host) for host in (q, k, v)]
    result = nn.scaled_dot_product_attention(*given, mask, is_causal=masked == "causal", enable_gqa=True)
    of_each = (np.repeat(item, n_heads // n_shared, axis=-3) for item in (k, v))
    assert result.shape == (*batch, n_heads, 7, 6)
    np.testing.assert_allclose(result.numpy(), attention(q, *of_each, bias), atol=1e-5)


def test_heads_that_cannot_share_keys(gpu: vc.Runtime) -> None:
    q, k, plain = (gpu.zeros(shape) for shape in ((2, 6, 7, 5), (2, 4, 9, 5), (9, 5)))
    shared = gpu.zeros((2, 2, 9, 5))
    with pytest.raises(ValueError, match=r"a multiple of them in the query.* got \(2, 6, 7, 5\), \(2, 4, 9, 5\)"):
        nn.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    with pytest.raises(ValueError, match="as many heads of the key as of the value"):
        nn.scaled_dot_product_attention(q, shared, k, enable_gqa=True)
    with pytest.raises(ValueError, match=r"1 or all of these in the mask; got .*\(2, 7, 9\)"):
        nn.scaled_dot_product_attention(q, shared, shared, gpu.zeros((2, 7, 9)), enable_gqa=True)
    with pytest.raises(ValueError, match=r"enable_gqa=True takes \(…, heads, n, size\).* \(9, 5\), \(9, 5\)"):
        nn.scaled_dot_product_attention(q, plain, plain, enable_gqa=True)
