"""Linear layers: the product, the bias and the activation in one program, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.dtypes import lookup
from vkcompute.nn.activations import ACTIVATIONS

# Overlapping and cut blocks, few terms, rows that are no multiple of four, and stacks.
SHAPES = [((7, 5), 3), ((2, 3, 40), 21), ((50, 33), 129), ((5,), 3), ((1, 6), 4), ((3, 1), 2)]


def arrays(shape: tuple[int, ...], n: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.normal(size=item).astype(dtype) for item in (shape, (n, shape[-1]), n)]


@pytest.mark.parametrize(("shape", "n"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bias_and_activation(gpu: vc.Runtime, shape: tuple[int, ...], n: int, dtype: str) -> None:
    if not set(lookup(dtype).features) <= set(gpu.device.features):
        pytest.skip(f"no {dtype}")
    x, weight, bias = arrays(shape, n, dtype)
    given = [gpu.array(host) for host in (x, weight, bias)]
    sums = x.astype(np.float64) @ weight.T.astype(np.float64)
    tolerance = 4 * (shape[-1] + 2) ** 0.5 * float(np.finfo(dtype).eps) * (abs(x) @ abs(weight.T)).max()
    for result, expected in (
        (nn.linear(*given[:2]), sums),
        (nn.linear(*given, activation="relu"), np.maximum(sums + bias, 0)),
        (nn.linear(*given, activation="relu", scale=0.3), np.maximum(sums * 0.3 + bias, 0)),
        (nn.linear(*given[:2], scale=-0.5), sums * -0.5),
    ):
        assert (result.shape, result.dtype) == (expected.shape, np.dtype(dtype))
        np.testing.assert_allclose(result.numpy(), expected, atol=tolerance, rtol=0)


def test_activations_of_sums_are_those_of_elements(gpu: vc.Runtime) -> None:
    x, weight, bias = (gpu.array(array) for array in arrays((9, 12), 20, "float32"))
    for name in [*ACTIVATIONS, "arctan"]:
        plain = nn.linear(x, weight, bias)
        expected = nn.gelu(plain, "tanh") if name == "gelu_tanh" else getattr(nn, name, vnp.arctan)(plain)
        np.testing.assert_allclose(nn.linear(x, weight, bias, name).numpy(), expected.numpy(), atol=1e-5, err_msg=name)


def test_views_long_sums_and_no_rows(gpu: vc.Runtime) -> None:
    x, weight, bias = arrays((4, 3000), 9, "float32")
    part = gpu.array(np.append(0, bias).astype(np.float32))[1:]
    result = nn.linear(gpu.array(x)[1:, 3:], gpu.array(weight)[:, 3:], part, "relu")
    expected = np.maximum(x[1:, 3:].astype(np.float64) @ weight[:, 3:].T + bias, 0)
    np.testing.assert_allclose(result.numpy(), expected, atol=2e-4)
    assert nn.linear(gpu.zeros((0, 4)), gpu.zeros((3, 4)), gpu.zeros(3), "relu").shape == (0, 3)
    ones = gpu.array(np.ones((6, 9), np.float32))
    wide = nn.linear(ones[2:], ones, part[:6], "relu")
    np.testing.assert_allclose(wide.numpy(), np.maximum(9 + np.tile(bias[:6], (4, 1)), 0), rtol=1e-6)


def test_errors(gpu: vc.Runtime) -> None:
    x, weight = gpu.zeros((2, 4)), gpu.zeros((3, 4))
    with pytest.raises(ValueError, match=r"bias \(out,\); got \(2, 4\), \(3, 4\), \(4,\)"):
        nn.linear(x, weight, gpu.zeros(4))
    with pytest.raises(ValueError, match=r"None or one of relu, .*; got 'swish'"):
        nn.linear(x, weight, activation="swish")


def test_scales_of_zero_have_signs(gpu: vc.Runtime) -> None:
    x, weight = gpu.full((2, 3), -1.0), gpu.full((4, 3), 1.0)
    for scale in (0.0, -0.0, 0.0):
        assert np.signbit(nn.linear(x, weight, scale=scale).numpy()).all() == np.signbit(-3 * scale)
