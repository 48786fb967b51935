"""Results within the range of a dtype, of numbers near its ends or of more elements than it counts."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

LARGE = 3.4e38


def test_interpolation_between_the_ends_of_the_range(gpu: vc.Runtime) -> None:
    ends, units = gpu.array(np.float32([-LARGE, LARGE])), gpu.array(np.float32([0, 1]))
    at = gpu.array(np.float32([-LARGE, -LARGE / 2, 0, LARGE / 2, LARGE]))
    np.testing.assert_allclose(vnp.interp(at, ends, units).numpy(), [0, 0.25, 0.5, 0.75, 1], rtol=1e-6)
    at = gpu.array(np.float32([0, 0.25, 0.5, 1]))
    np.testing.assert_allclose(vnp.interp(at, units, ends).numpy(), [-LARGE, -LARGE / 2, 0, LARGE], rtol=1e-6)
    steep = vnp.interp(gpu.array(np.float32([0.5])), units, gpu.array(np.float32([-np.inf, LARGE]))).numpy()
    assert steep[0] == np.interp(0.5, [0, 1], [-np.inf, LARGE])


def test_quantiles_between_the_ends_of_the_range(gpu: vc.Runtime) -> None:
    ends = np.float32([-LARGE, np.nan, LARGE])
    shares, expected = [0.25, 0.5, 0.75, 1], [-LARGE / 2, 0, LARGE / 2, LARGE]
    np.testing.assert_allclose(vnp.quantile(gpu.array(ends[::2]), shares).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(vnp.nanquantile(gpu.array(ends), shares).numpy(), expected, rtol=1e-6)


def test_histograms_of_the_whole_range(gpu: vc.Runtime) -> None:
    values = np.float32([-LARGE, -1, 0, 1, LARGE / 1.5, LARGE, np.inf])
    x = gpu.array(values)
    for counts, edges in (vnp.histogram(x[:-1], 4), vnp.histogram(x, 4, range=(-LARGE, LARGE))):
        assert counts.tolist() == [1, 1, 2, 2]
        np.testing.assert_allclose(edges.numpy(), np.linspace(-LARGE, LARGE, 5), rtol=1e-6)


def test_covariances_of_more_halves_than_a_half_counts(gpu: vc.Runtime) -> None:
    x = np.tile(np.float16([[1, 3], [2, 6]]), 40_000)
    covariances = vnp.cov(gpu.array(x), gpu.array(x[:1] * np.float16(-1)))
    assert covariances.dtype == np.float16
    np.testing.assert_allclose(covariances.numpy(), [[1, 2, -1], [2, 4, -2], [-1, -2, 1]], rtol=2e-3)
    np.testing.assert_allclose(vnp.corrcoef(gpu.array(x)).numpy(), np.ones((2, 2)), rtol=2e-3)


def test_bessel_functions_near_the_largest_float(gpu: vc.Runtime) -> None:
    x = np.float32([0, -1, 20, 89, 91, np.inf, np.nan])
    expected = np.append(np.i0(x[:5].astype(np.float64)), x[5:])
    np.testing.assert_allclose(vnp.i0(gpu.array(x)).numpy(), expected.astype(np.float32), rtol=1e-6)
    with pytest.raises(TypeError, match="i0 takes real numbers"):
        vnp.i0(gpu.array(x.astype(np.complex64)))
    if lacks(gpu, "float64"):
        return
    values = vnp.i0(gpu.array(np.array([699.9, 700.1, 713.0, 714.0]))).numpy()
    np.testing.assert_allclose(values[0], np.i0(699.9), rtol=1e-14)
    np.testing.assert_allclose(values[1] / values[0], math.exp(0.2) * math.sqrt(699.9 / 700.1), rtol=1e-7)
    np.testing.assert_allclose(values[2], 6.705128263670996e307, rtol=1e-13)
    assert values[3] == np.inf


def test_numbers_beside_int64_and_uint64_are_of_either(gpu: vc.Runtime) -> None:
    """Also where the kernels of both are the same words of SPIR-V."""
    signed, unsigned = gpu.array(np.array([1, 2, 3])), gpu.array(np.array([1, 2, 3], np.uint64))
    assert (unsigned + 3).tolist() == [4, 5, 6]
    assert (signed + -1).tolist() == [0, 1, 2]
    assert (signed * 3).tolist() == [3, 6, 9]
    assert (unsigned * np.uint64(2**64 - 1)).tolist() == [2**64 - 1, 2**64 - 2, 2**64 - 3]


@pytest.mark.every_driver
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_means_of_integers_beyond_float32(gpu: vc.Runtime, dtype: Any) -> None:
    """Sums are exact: those of float32 lose small differences of large numbers."""
    random, info = np.random.default_rng(0), np.iinfo(dtype)
    x = random.integers(info.min, info.max, (2, 30, 40), endpoint=True).astype(dtype)
    if dtype is np.int32:
        x[1] = 1 - np.maximum(x[0], -info.max)
    for axis in (None, 0, (0, 2)):
        where = random.random(x.shape) < 0.7
        for mask in (True, where):
            result = vnp.mean(gpu.array(x), axis=axis, where=mask if mask is True else gpu.array(mask))
            assert result.dtype == np.float32
            with np.errstate(invalid="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                expected = np.mean(x, axis=axis, where=mask)
            np.testing.assert_allclose(result.numpy(), expected, rtol=2.5e-7)
