"""Means, variances and covariances of integers that float32 rounds, beside those of Python's integers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn

pytestmark = pytest.mark.every_driver
DTYPES = np.int32, np.uint32, np.int64, np.uint64
SPREADS = "near", "top", "bottom", "whole", "one differs"


def numbers(dtype: Any, spread: str, shape: tuple[int, ...] = (6, 5, 70)) -> np.ndarray:
    random, info = np.random.default_rng(0), np.iinfo(dtype)
    if spread == "whole":
        return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    few = random.integers(0, 100 if spread == "near" else 3, shape).astype(dtype)
    if spread == "one differs":
        few[:] = (np.arange(few.size) % 70 == 3).reshape(shape)
    return {"near": info.max // 2, "bottom": info.min}.get(spread, info.max - 2) + few


def exact(x: np.ndarray, axis: Any, mean: Any = None, where: Any = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the mean, the sum of squared distances from it or from a given mean, and the number of elements."""
    where = np.broadcast_to(where, x.shape)
    n = np.sum(where, axis=axis, keepdims=True).astype(object)
    numbers = np.where(where, x.astype(object), 0)
    total = np.sum(numbers, axis=axis, keepdims=True)
    apart = numbers * n - total if mean is None else (numbers - mean) * n
    squares = np.sum(np.where(where, apart, 0) ** 2, axis=axis, keepdims=True) / (n * n)
    return tuple(np.asarray(part, np.float64) for part in (total / n, squares, n))  # type: ignore[return-value]


def assert_same(result: vc.Array, expected: np.ndarray) -> None:
    with np.errstate(over="ignore"):  # where distances are longer than 2**64
        np.testing.assert_allclose(result.numpy(), expected.astype(np.float32), 3e-6)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_variances(gpu: vc.Runtime, dtype: Any, spread: str) -> None:
    host = numbers(dtype, spread)
    x, chosen = gpu.array(host), np.random.default_rng(1).random(host.shape) < 0.7
    chosen[:2] = True
    for axis in (None, 0, 2, (0, 2)):
        for mask in (True, chosen):
            where = mask if mask is True else gpu.array(mask)
            _, squares, n = exact(host, axis, where=mask)
            for function in (vnp.var, vnp.nanvar):
                result = function(x, axis, ddof=1, keepdims=True, where=where)
                assert result.dtype == np.float32
                np.testing.assert_allclose(result.numpy(), squares / (n - 1), 3e-6, err_msg=f"{axis}")
            for function in (vnp.std, vnp.nanstd):
                result = function(x, axis, correction=0, where=where).numpy()
                np.testing.assert_allclose(result, np.sqrt(squares / n).reshape(result.shape), 3e-6)
    variance, mean = nn.var_mean(x, 2)
    expected, squares, n = exact(host, 2)
    np.testing.assert_allclose(variance.numpy(), (squares / (n - 1))[..., 0], 3e-6)
    np.testing.assert_allclose(mean.numpy(), expected[..., 0], 3e-7)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_variances_with_a_mean(gpu: vc.Runtime, dtype: Any, spread: str) -> None:
    """A mean of the host, of the same integers and of floats, also beyond the dtype."""
    host = numbers(dtype, spread)
    x, middle = gpu.array(host), np.sort(host[0], None)[100]
    own = np.full((1, 5, 70), middle, dtype)
    for mean, value in ((int(middle), int(middle)), (gpu.array(own), int(middle)), (-1e16, int(-1e16))):
        _, squares, n = exact(host, 0, value)
        assert_same(vnp.var(x, 0, keepdims=True, mean=mean), squares / n)
    for value in (2.0**30, -(2.0**50), np.nan, np.inf):
        rounded = gpu.array(np.full((1, 5, 70), value, np.float32))
        wanted = exact(host, 0, int(value))[1] / 6 if np.isfinite(value) else np.square(np.full((1, 5, 70), value))
        assert_same(vnp.var(x, 0, np.float32, keepdims=True, mean=rounded), wanted)


def test_variances_of_few(gpu: vc.Runtime) -> None:
    for dtype in DTYPES:
        host = numbers(dtype, "near", (3, 1))
        for values, ddof in ((host, 0), (host, 1), (host[:, :0], 0), (host[:, :0], 1)):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                expected = values.var(1, ddof=ddof)
            np.testing.assert_array_equal(vnp.var(gpu.array(values), 1, ddof=ddof).numpy(), expected)
        nothing = vnp.var(gpu.array(host), 0, where=gpu.array(np.zeros(host.shape, bool)))
        assert np.isnan(nothing.numpy()).all()


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_means_where_large_ones_cancel(gpu: vc.Runtime, dtype: Any) -> None:
    host = numbers(dtype, "whole")
    if dtype is np.int64:
        host[3:] = np.arange(3)[:, None, None] - np.maximum(host[:3], -np.iinfo(dtype).max)
    for axis in (None, 0, (0, 2)):
        for mask in (True, np.random.default_rng(1).random(host.shape) < 0.7):
            expected = exact(host, axis, where=mask)[0]
            where = mask if mask is True else gpu.array(mask)
            for function in (vnp.mean, vnp.nanmean):
                result = function(gpu.array(host), axis=axis, keepdims=True, where=where)
                assert result.dtype == np.float32
                np.testing.assert_allclose(result.numpy(), expected, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_means_that_are_integers(gpu: vc.Runtime, dtype: str) -> None:
    """As in NumPy: sums wrap, quotients are cut off."""
    random, info = np.random.default_rng(2), np.iinfo(dtype)
    host = random.integers(info.min // 9, info.max // 9, (40, 7), dtype=dtype)
    host[:3] = info.max // 64 * 8 + 7
    host = host if host.itemsize < 8 else host // 2**12  # whose sums float64 holds
    for values in (host, host[:1], host[:0]):
        for axis in (None, 0, 1):
            for mask in (True, random.random(values.shape) < 0.3):
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    expected = np.mean(values, axis, dtype, where=mask)
                where = mask if mask is True else gpu.array(mask)
                result = vnp.mean(gpu.array(values), axis, dtype, where=where)
                assert result.dtype == dtype
                assert result.shape == np.shape(expected)
                some = np.any(np.broadcast_to(mask, values.shape), axis)  # NumPy makes any integer of NaN
                np.testing.assert_array_equal(result.numpy()[some], np.asarray(expected)[some])


@pytest.mark.parametrize("spread", SPREADS[:4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_covariances(gpu: vc.Runtime, dtype: Any, spread: str) -> None:
    host, random = numbers(dtype, spread, (4, 200)), np.random.default_rng(3)
    x, one = gpu.array(host[:3]), gpu.array(host[3:])
    apart = np.float64(host.astype(object) * 200 - host.astype(object).sum(1, keepdims=True)) / 200
    expected = np.cov(apart)
    tolerance = 1e-6 * expected.max()
    np.testing.assert_allclose(vnp.cov(x, one).numpy(), expected, 1e-6, tolerance)
    np.testing.assert_allclose(vnp.cov(x.T, rowvar=False).numpy(), expected[:3, :3], 1e-6, tolerance)
    np.testing.assert_allclose(vnp.corrcoef(x, one).numpy(), np.corrcoef(apart), atol=2e-6)
    weights = random.random(200).astype(np.float32)
    counts = random.integers(0, 5, 200).astype(np.int32)
    result = vnp.cov(x, fweights=gpu.array(counts), aweights=gpu.array(weights)).numpy()
    np.testing.assert_allclose(result, np.cov(apart[:3], fweights=counts, aweights=weights), 2e-6, 2 * tolerance)


def test_covariances_with_light_outliers(gpu: vc.Runtime) -> None:
    host = numbers(np.int32, "near", (2, 200))
    host[:, ::3] = -(2**30)
    weights = np.where(np.arange(200) % 3, 1, 0).astype(np.int32)
    expected = np.cov(np.float64(host), fweights=weights)
    np.testing.assert_allclose(vnp.cov(gpu.array(host), fweights=gpu.array(weights)).numpy(), expected, 1e-5)
