"""Convolutions against sums over windows by NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import nn
from vkcompute.dtypes import lookup
from vkcompute.nn import convolution


def conv2d(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:], strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    windows = windows.reshape(len(x), groups, -1, *windows.shape[2:])
    filters = weight.astype(np.float64).reshape(groups, -1, *weight.shape[1:])
    return np.einsum("ngchwij,gocij->ngohw", windows, filters).reshape(len(x), len(weight), *windows.shape[3:5])


two = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(two, two, two, st.tuples(st.integers(0, 2), st.integers(0, 4)), st.sampled_from([1, 2, 4]), st.integers(4, 13))
def test_any_geometry(
    gpu: vc.Runtime, kernel: Any, stride: Any, dilation: Any, padding: Any, groups: int, width: int
) -> None:
    shape = 2, 4, 7, width
    lengths = [n + 2 * p - d * (k - 1) for n, p, d, k in zip(shape[2:], padding, dilation, kernel, strict=True)]
    assume(min(lengths) > 0)
    rng = np.random.default_rng(width)
    x, weight = rng.integers(-4, 5, shape).astype(np.float32), rng.integers(-4, 5, (4, 4 // groups, *kernel))
    bias = np.arange(4, dtype=np.float32)
    given_arrays = [gpu.array(host) for host in (x, weight.astype(np.float32), bias)]
    result = nn.conv2d(*given_arrays, stride, padding, dilation, groups, "relu")
    expected = conv2d(x, weight, stride, padding, dilation, groups) + bias[:, None, None]
    np.testing.assert_array_equal(result.numpy(), np.maximum(expected, 0))


def test_many_channels_in_slices_of_images(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.integers(-4, 5, (3, 20, 9, 12)), rng.integers(-4, 5, (70, 20, 3, 3))
    arrays = [gpu.array(array.astype(np.float32)) for array in (x, weight)]
    expected = conv2d(x, weight, (1, 1), (1, 1), (1, 1), 1)
    np.testing.assert_array_equal(nn.conv2d(*arrays, padding="same").numpy(), expected)
    monkeypatch.setattr(convolution, "LARGEST", 16_000)
    np.testing.assert_array_equal(nn.conv2d(*arrays, padding=1).numpy(), expected)
    monkeypatch.setattr(convolution, "product_by_taps", lambda *_: None)
    bias = gpu.array(np.arange(70, dtype=np.float32))
    result = nn.conv2d(*arrays, bias, padding=1, activation="relu").numpy()
    np.testing.assert_array_equal(result, np.maximum(expected + np.arange(70)[:, None, None], 0))


def test_one_axis_one_image_and_views(gpu: vc.Runtime) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.integers(-4, 5, (2, 3, 20)), rng.integers(-4, 5, (4, 3, 5))
    expected = conv2d(x[:, :, None], weight[:, :, None], (1, 2), (0, 3), (1, 2), 1)[:, :, 0]
    one, other = (gpu.array(array.astype(np.float32)) for array in (x, weight))
    np.testing.assert_array_equal(nn.conv1d(one, other, None, 2, 3, 2).numpy(), expected)
    np.testing.assert_array_equal(nn.conv1d(one[0], other, None, 2, 3, 2).numpy(), expected[0])
    image, filters = rng.integers(-4, 5, (8, 8, 8)), rng.integers(-4, 5, (3, 8, 1, 1))
    given_image = gpu.array(image.astype(np.float32)).swapaxes(1, 2)
    result = nn.conv2d(given_image, gpu.array(filters.astype(np.float32)))
    np.testing.assert_array_equal(result.numpy(), np.einsum("oc,chw->ohw", filters[..., 0, 0], image.swapaxes(1, 2)))


def test_neighbours_of_numbers_that_are_not_finite(gpu: vc.Runtime) -> None:
    x = np.ones((1, 3, 6, 6), np.float32)
    x[0, 0, 0, 0] = np.nan
    result = nn.conv2d(gpu.array(x), gpu.array(np.ones((2, 3, 3, 3), np.float32))).numpy()
    assert np.isnan(result[:, :, 0, 0]).all()
    assert np.isnan(result).sum() == 2


def test_half_precision_is_added_in_float32(gpu: vc.Runtime) -> None:
    if not set(lookup("float16").features) <= set(gpu.device.features):
        pytest.skip("no float16")
    x, weight = (gpu.array(np.ones((n, 1025, 2, 2), np.float16)) for n in (1, 4))
    result = nn.conv2d(x, weight)
    assert (result.dtype, result.numpy().ravel().tolist()) == (np.float16, [4100.0] * 4)


def test_empty_arrays_and_errors(gpu: vc.Runtime) -> None:
    x, weight = gpu.zeros((2, 4, 5, 5)), gpu.zeros((6, 2, 3, 3))
    assert nn.conv2d(x[:0], weight, groups=2).shape == (0, 6, 3, 3)
    for dtype in ("float32", "float16"):
        if set(lookup(dtype).features) <= set(gpu.device.features):
            nothing, filters = gpu.zeros((2, 0, 3, 3), dtype), gpu.zeros((6, 0, 3, 3), dtype)
            halves = nn.conv2d(nothing, filters, activation="sigmoid")
            ones = nn.conv2d(nothing, filters, gpu.full(6, 1, dtype), activation="relu")
            assert halves.dtype == ones.dtype == dtype
            assert np.unique(halves.numpy()).tolist() == [0.5]
            assert np.unique(ones.numpy()).tolist() == [1]
    with pytest.raises(ValueError, match=r"\(out, 4 / groups, height, width\), and groups divide both"):
        nn.conv2d(x, weight)
    with pytest.raises(ValueError, match=r"filters of \(3, 3\) exceed padded images of \(5, 5\)"):
        nn.conv2d(x, weight, dilation=4, groups=2)
    with pytest.raises(ValueError, match=r"bias has shape \(6,\)"):
        nn.conv2d(x, weight, gpu.zeros(4), groups=2)
    with pytest.raises(ValueError, match="stride is an int or two ints, 1 or more; got 0"):
        nn.conv2d(x, weight, stride=0, groups=2)
    with pytest.raises(ValueError, match='"same" with a stride of 1'):
        nn.conv2d(x, weight, stride=2, padding="same", groups=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dilation": -1}, "conv1d: dilation is an int, 1 or more; got -1"),
        ({"stride": 0}, "conv1d: stride is an int, 1 or more; got 0"),
        ({"stride": (1, 2)}, r"conv1d: stride is an integer; got \(1, 2\)"),
        ({"padding": -1}, "conv1d: padding is an int, 0 or more; got -1"),
        ({"padding": "full"}, 'conv1d: padding is "valid", or "same" with a stride of 1, or a number; got \'full\''),
        ({"groups": 4}, r"conv1d: the weights have shape \(out, 2 / groups, length\), .* got \(4, 2, 3\) and 4 groups"),
        ({"groups": 1.5}, "conv1d: groups is an integer; got 1.5"),
        ({"dilation": 9}, r"conv1d: dilated filters of 3 exceed padded signals of 9"),
        ({"activation": "swish"}, "conv1d: activation is None or one of relu, .*; got 'swish'"),
    ],
    ids=str,
)
def test_errors_of_signals_are_their_own(gpu: vc.Runtime, options: Any, message: str) -> None:
    x, weight = gpu.zeros((3, 2, 9)), gpu.zeros((4, 2, 3))
    with pytest.raises((TypeError, ValueError), match=f"^{message}$" if "activation" in options else f"^{message}"):
        nn.conv1d(x, weight, **options)
    with pytest.raises(ValueError, match=r"^conv1d: the bias has shape \(4,\); got \(3,\)"):
        nn.conv1d(x, weight, gpu.zeros(3))
    with pytest.raises(
        ValueError, match=r"^conv1d takes \(n, channels, length\), with weights of 3 axes; got \(3, 2, 9\)"
    ):
        nn.conv1d(x, gpu.zeros((4, 2)))
