"""Softmax and normalization along axes against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
from vkcompute import nn
from vkcompute.dtypes import lookup
from vkcompute.nn import rows

DTYPES = "float32", "float16", "float64"


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def logsumexp(x: np.ndarray, axis: Any, keepdims: bool = False) -> np.ndarray:
    return np.logaddexp.reduce(np.moveaxis(x, axis, -1) if isinstance(axis, int) else x, -1, keepdims=keepdims)


def layer_norm(x: np.ndarray, weight: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5) -> np.ndarray:
    distances = x - x.mean(-1, keepdims=True)
    return distances / np.sqrt((distances**2).mean(-1, keepdims=True) + eps) * weight + bias


def close(result: vc.Array, expected: np.ndarray, dtype: Any, scale: float = 8) -> None:
    """Compares within a few roundings of the largest magnitude; the terms of a sum are added pairwise or by lanes."""
    assert (result.shape, result.dtype) == (expected.shape, np.dtype(dtype))
    size = max(1.0, float(abs(expected).max(initial=0, where=np.isfinite(expected))))
    np.testing.assert_allclose(result.numpy(), expected, atol=scale * size * float(np.finfo(dtype).eps), rtol=0)


def computes(gpu: vc.Runtime, dtype: str) -> bool:
    return set(lookup(dtype).features) <= set(gpu.device.features)


@pytest.mark.rotates
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
    st.sampled_from([1, 3, 8, 33]),
    st.sampled_from(DTYPES),
    st.data(),
)
def test_softmax_along_any_axis_of_views(
    gpu: vc.Runtime, shape: tuple[int, ...], length: int, dtype: str, data: st.DataObject
) -> None:
    dtype = dtype if computes(gpu, dtype) else "float32"
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:axis], length, *shape[axis + 1 :])
    step = data.draw(st.sampled_from([1, 2, -1]))
    host = np.random.default_rng(length).normal(size=(*shape[:-1], shape[-1] * abs(step))).astype(dtype) * 4
    x, part = gpu.array(host)[..., ::step], host[..., ::step].astype(np.float64)
    close(nn.softmax(x, axis), softmax(part, axis), dtype)
    close(nn.log_softmax(x, axis), np.log(softmax(part, axis)), dtype)
    close(nn.logsumexp(x, axis), logsumexp(part, axis), dtype)


@pytest.mark.parametrize("longest", [rows.LONGEST, 4], ids=["block", "reductions"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_normalization(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, longest: int, dtype: str) -> None:
    if not computes(gpu, dtype):
        pytest.skip(f"no {dtype}")
    monkeypatch.setattr(rows, "LONGEST", longest)
    rng = np.random.default_rng(0)
    host, weight, bias = (rng.normal(size=item).astype(dtype) for item in ((5, 6, 7), 42, 42))
    x, w, b, wide = gpu.array(host), gpu.array(weight), gpu.array(bias), host.astype(np.float64)
    flat = wide.reshape(5, 42)
    expected = layer_norm(flat, weight, bias).reshape(5, 6, 7)
    close(nn.layer_norm(x, (6, 7), w.reshape(6, 7), b.reshape(6, 7)), expected, dtype)
    close(nn.layer_norm(x, 7, eps=0.5), layer_norm(wide, eps=0.5), dtype)
    rms = flat / np.sqrt((flat**2).mean(-1, keepdims=True) + 1e-3) * weight
    close(nn.rms_norm(x.reshape(5, 42), (42,), w, eps=1e-3), rms, dtype)
    close(nn.softmax(x, 1), softmax(wide, 1), dtype)
    close(nn.logsumexp(x, (0, 2), keepdim=True)[0, :, 0], logsumexp(wide.swapaxes(0, 1).reshape(6, -1), 1), dtype)


@pytest.mark.parametrize("length", [128, 75])
def test_programs_of_several_rows(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """On CPUs, programs load the weights once for 16 rows; the last one has fewer."""
    monkeypatch.setattr(rows, "_BUSY", 1)
    rng = np.random.default_rng(0)
    host, weight, bias = (rng.normal(size=item).astype(np.float32) for item in ((67, length), length, length))
    x, w, b = map(gpu.array, (host, weight, bias))
    close(nn.layer_norm(x, length, w, b), layer_norm(host.astype(np.float64), weight, bias), "float32")
    rms = host / np.sqrt((host.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-3) * weight
    close(nn.rms_norm(x, length, w, eps=1e-3), rms, "float32")


def test_variance_of_numbers_far_from_zero(gpu: vc.Runtime) -> None:
    """The squares of such numbers have no digits left of their variance."""
    host = (np.random.default_rng(0).normal(size=(3, 1000)) + 10_000).astype(np.float32)
    result = nn.layer_norm(gpu.array(host), 1000).numpy()
    ulp = np.spacing(np.float32(10_000))  # of the mean
    assert abs(result - layer_norm(host.astype(np.float64))).max() < 2 * ulp


@pytest.mark.parametrize("longest", [rows.LONGEST, 4], ids=["block", "reductions"])
def test_squares_that_overflow(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Norms are 0, and right just below, as PyTorch's are; the variance is infinite."""
    monkeypatch.setattr(rows, "LONGEST", longest)
    host = np.tile(np.array([[0.125], [0.75]], np.float32) * [[1, 2, 3, -4]] * np.float32(1e19), (1, 4))
    x, right = gpu.array(host.astype(np.float32)), host[:1].astype(np.float64)
    for norm, expected in (
        (nn.layer_norm(x, 16).numpy(), layer_norm(right)),
        (nn.rms_norm(x, 16).numpy(), right / np.sqrt((right**2).mean())),
    ):
        np.testing.assert_allclose(norm[0], expected[0], rtol=1e-5)
        assert not norm[1].any()
    assert np.isfinite(nn.var_mean(x, 1)[0].numpy()).tolist() == [True, False]


@pytest.mark.parametrize("longest", [rows.LONGEST, 4], ids=["block", "reductions"])
def test_logarithms_of_sums_close_to_one(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Beside the largest element, log(1 + rest) keeps the digits of the rest."""
    monkeypatch.setattr(rows, "LONGEST", longest)
    host = np.array([[0, -20, -80, -19, -90], [-30, -40, -31, 0, -17], [0, 0, -30, -90, -90]], np.float32)
    wide = np.sort(host.astype(np.float64))[:, ::-1]
    expected = np.log1p(np.exp(wide[:, 1:]).sum(1))
    x = gpu.array(host)
    np.testing.assert_allclose(nn.logsumexp(x, 1).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(nn.logsumexp(x.T, 0).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(nn.log_softmax(x).numpy(), host - expected[:, None], rtol=1e-6)


def test_numbers_that_are_not_finite(gpu: vc.Runtime) -> None:
    inf, nan = np.inf, np.nan
    host = np.array([[-inf, 1, 2], [-inf, -inf, -inf], [inf, 1, 2], [nan, 1, 2], [3e38, -3e38, 3e38]], np.float32)
    x = gpu.array(host)
    result = nn.softmax(x).numpy()
    np.testing.assert_allclose(result[0], [0, 0.26894143, 0.7310586], rtol=1e-6)
    assert np.isnan(result[1:4]).all()
    assert result[4].tolist() == [0.5, 0, 0.5]
    total = nn.logsumexp(x, 1).numpy()
    np.testing.assert_allclose(total, [2.3132617, -inf, inf, nan, 3e38], rtol=1e-6)


def test_lazy_empty_and_integer_arrays(gpu: vc.Runtime) -> None:
    host = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = gpu.array(host)
    close(nn.softmax(x * 2 - 1), softmax(host * 2.0 - 1, -1), np.float32)
    assert nn.softmax(gpu.zeros((0, 4))).shape == nn.layer_norm(gpu.zeros((0, 4)), 4).shape == (0, 4)
    assert nn.softmax(gpu.array(np.float32(3))).numpy() == 1
    assert nn.logsumexp(gpu.zeros((2, 0)), 1).numpy().tolist() == [-np.inf] * 2


def test_launches_in_parts_and_in_graphs(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LARGEST", 2100)
    host = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    x, out = gpu.array(host), gpu.empty((300, 8), np.float32)
    with gpu.record() as graph:
        out.copy_from(nn.softmax(x))
    for given_host in (host, -host):
        x[...] = gpu.array(given_host)
        graph.run()
        close(out, softmax(given_host.astype(np.float64), -1), np.float32)


def test_views_that_no_program_can_bind(gpu: vc.Runtime) -> None:
    host = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    x = gpu.array(host)
    close(nn.softmax(x[1:]), softmax(host[1:].astype(np.float64), -1), np.float32)
    close(nn.layer_norm(x[:, :3], 3, x[0, 1:4]), layer_norm(host[:, :3].astype(np.float64), host[0, 1:4]), np.float32)


def test_errors(gpu: vc.Runtime) -> None:
    x = gpu.zeros((3, 4))
    with pytest.raises(ValueError, match="axes -2 to 1; got 2"):
        nn.softmax(x, 2)
    with pytest.raises(TypeError, match="dim is an int"):
        nn.softmax(x, (0, 1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"normalized_shape, \(3,\); the input's is \(3, 4\)"):
        nn.layer_norm(x, 3)
    with pytest.raises(ValueError, match=r"the bias has shape \(4,\) and dtype float32, as the input; got \(3,\)"):
        nn.layer_norm(x, 4, bias=gpu.zeros(3))
    with pytest.raises(TypeError, match=r"got an array of shape \(4,\); the weight is the argument after it"):
        nn.layer_norm(x, gpu.zeros(4))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="softmax takes real numbers"):
        nn.softmax(x, dtype=np.int32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "dim"), [((7, 33), 1), ((7, 33), 0), ((3, 4, 5), (0, 2)), ((5, 6), None), ((2, 5000), 1), ((3, 8, 40), 1)]
)
def test_variance_and_mean(gpu: vc.Runtime, shape: tuple[int, ...], dim: Any, dtype: str) -> None:
    if not computes(gpu, dtype):
        pytest.skip(f"no {dtype}")
    host = (np.random.default_rng(0).normal(size=shape) + 2).astype(dtype)
    for correction, keepdim in ((1, False), (0, True)):
        result = nn.var_mean(gpu.array(host), dim, correction, keepdim)
        given = host.astype(np.float64)
        expected = given.var(dim, ddof=correction, keepdims=keepdim), given.mean(dim, keepdims=keepdim)
        for one, other in zip(result, expected, strict=True):
            close(one, other, dtype, 32)


def test_variance_of_few_elements(gpu: vc.Runtime) -> None:
    variance, mean = nn.var_mean(gpu.array(np.array([[3.0], [4.0]], np.float32)), 1)
    assert np.isnan(variance.numpy()).all()
    assert mean.numpy().tolist() == [3, 4]
    assert all(np.isnan(array.numpy()).all() and array.shape == (3,) for array in nn.var_mean(gpu.zeros((3, 0)), 1))


@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_elements(gpu: vc.Runtime, largest: bool) -> None:
    host = np.random.default_rng(1).permutation(60).reshape(3, 4, 5).astype(np.float32)
    values, indices = nn.topk(gpu.array(host), 2, dim=1, largest=largest, sorted=False)
    order = np.argsort(-host if largest else host, axis=1)[:, :2]
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(host, order, 1))


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 20_000)])
def test_the_element_at_a_rank(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    """Short rows are sorted, and of long ones the element is selected; equal elements, NaN."""
    rng = np.random.default_rng(2)
    host = rng.integers(0, 50, shape).astype(np.float32)
    host[rng.random(shape) < 0.1] = np.nan
    for k in (1, 3, shape[1]):
        expected = np.sort(host, axis=1)[:, k - 1 : k]
        values, indices = nn.kthvalue(gpu.array(host), k, dim=1, keepdim=True)
        np.testing.assert_array_equal(values.numpy(), expected)
        np.testing.assert_array_equal(np.take_along_axis(host, indices.numpy(), 1), expected)
        assert nn.kthvalue(gpu.array(host), k, 1)[1].shape == expected[:, 0].shape
    with pytest.raises(ValueError, match=f"k from 1 to the length of the axis, {shape[1]}; got 0"):
        nn.kthvalue(gpu.array(host), 0, 1)


@pytest.mark.parametrize("n", [16, 5000])
def test_halves_take_weights_of_float32(gpu: vc.Runtime, n: int) -> None:
    if lacks(gpu, "float16"):
        pytest.skip("needs float16")
    rng = np.random.default_rng(0)
    host, weight, bias = rng.normal(size=(3, n)).astype(np.float16), *rng.normal(size=(2, n)).astype(np.float32)
    x, w, b = map(gpu.array, (host, weight, bias))
    wide = host.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    for result, expected in (
        (nn.layer_norm(x, n, w, b), normal * weight + bias),
        (nn.layer_norm(x, n, w.astype(np.float16), b), normal * weight + bias),
        (nn.rms_norm(x, n, w, 1e-5), wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * weight),
    ):
        assert result.dtype == np.float16
        np.testing.assert_allclose(result.numpy(), expected, rtol=2e-3, atol=4e-3)
    with pytest.raises(ValueError, match=r"the weight has shape .* and dtype float32, as the input; got .* float16"):
        nn.layer_norm(x.astype(np.float32), n, w.astype(np.float16))
