"""Discrete Fourier transforms beside NumPy's: lengths, axes, views, both directions, real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_arrays import HostArray, dtypes_of, seeds, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.arrays.algorithms.fft import fft, irfft, rfft

_LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 30, 49, 64, 97, 105, 121, 210, 343, 509, 1000, 1024, 4099]


def close(result: HostArray, expected: HostArray, dtype: str) -> None:
    """Compares with an error relative to the root mean square, of 30 roundings."""
    bound = 30 * np.finfo(dtype).eps * max(np.sqrt(np.mean(np.abs(expected) ** 2)), 1e-30) if expected.size else 0
    np.testing.assert_allclose(result, expected, rtol=0, atol=bound)


def pairs(z: HostArray, dtype: str) -> HostArray:
    return np.stack([z.real, z.imag], -1).astype(dtype)


def complex_of(x: HostArray) -> HostArray:
    return x[..., 0].astype(np.float64) + 1j * x[..., 1]


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", _LENGTHS)
def test_lengths(gpu: vc.Runtime, n: int, inverse: bool) -> None:
    x = np.random.default_rng(n).standard_normal((2, n, 2)).astype(np.float32)
    result = complex_of(fft(gpu.array(x), inverse=inverse, scale=1 / n if inverse else 1).numpy())
    close(result, (np.fft.ifft if inverse else np.fft.fft)(complex_of(x)), "float32")


@given(data=st.data(), seed=seeds())
def test_axes_of_views(gpu: vc.Runtime, data: Any, seed: int) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "float32 float64")))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    x = np.random.default_rng(seed).standard_normal((*shape, 2)).astype(dtype)
    array = gpu.array(x)
    if data.draw(st.booleans()):
        x, array = x[::-1], array[::-1]
    if data.draw(st.booleans()):
        order = (*reversed(range(x.ndim - 1)), x.ndim - 1)
        x, array = x.transpose(order), array.transpose(order)
    axis = data.draw(st.integers(1 - x.ndim, x.ndim - 2))
    close(complex_of(fft(array, axis).numpy()), np.fft.fft(complex_of(x), axis=axis), dtype)


@given(data=st.data(), seed=seeds())
def test_real_numbers(gpu: vc.Runtime, data: Any, seed: int) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    x, array = viewed(data, gpu, np.random.default_rng(seed).standard_normal(shape).astype(np.float32))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    half = np.fft.rfft(x.astype(float), axis=axis)
    result = rfft(array, axis)
    close(complex_of(result.numpy()), half, "float32")
    n = x.shape[axis]
    close(irfft(result, n, axis, scale=1 / n).numpy(), x, "float32")


def test_the_mirror_ignores_imaginary_parts_of_real_elements(gpu: vc.Runtime) -> None:
    z = np.array([1 + 5j, 2 - 1j, 3 + 7j])
    result = irfft(gpu.array(pairs(z, "float32")), 4, scale=1 / 4)
    close(result.numpy(), np.fft.irfft(z, 4), "float32")


def test_infinities_stay_in_their_row(gpu: vc.Runtime) -> None:
    x = np.ones((2, 11, 2), np.float32)
    x[0, 0] = np.inf
    result = fft(gpu.array(x)).numpy()
    assert not np.isfinite(result[0]).any()
    close(complex_of(result[1]), np.fft.fft(complex_of(x[1])), "float32")


def test_empty_rows(gpu: vc.Runtime) -> None:
    assert fft(gpu.zeros((0, 6, 2))).shape == (0, 6, 2)
    assert rfft(gpu.zeros((0, 6))).shape == (0, 4, 2)


def test_errors(gpu: vc.Runtime) -> None:
    with pytest.raises(TypeError, match="float32 or float64; got int32"):
        fft(gpu.zeros((3, 2), np.int32))
    with pytest.raises(ValueError, match="pairs along the last axis"):
        fft(gpu.zeros((2, 3)))
    with pytest.raises(ValueError, match="from 1 to 67,108,864; got 0"):
        fft(gpu.zeros((0, 2)))
    with pytest.raises(ValueError, match="6 real numbers have 4 pairs; got 3"):
        irfft(gpu.zeros((3, 2)), 6)
