"""Activations against their formulas in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.dtypes import lookup

erf = np.vectorize(math.erf)
FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "tanh": np.tanh,
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20)))),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_values(gpu: vc.Runtime, dtype: str) -> None:
    if not set(lookup(dtype).features) <= set(gpu.device.features):
        pytest.skip(f"no {dtype}")
    host = np.concatenate([np.linspace(-30, 30, 500), [0.0, -0.0, 1e-4]]).astype(dtype)
    x, wide = gpu.array(host), host.astype(np.float64)
    for name, formula in FORMULAS.items():
        result = getattr(nn, name)(x)
        assert result.dtype == np.dtype(dtype), name
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(result.numpy(), formula(wide), rtol=8 * eps, atol=8 * eps, err_msg=name)


def test_small_results_keep_their_digits(gpu: vc.Runtime) -> None:
    x = np.float32([-3, -5, -8, -12])
    expected = [float(v) / 2 * math.erfc(-float(v) / math.sqrt(2)) for v in x]
    np.testing.assert_allclose(nn.gelu(gpu.array(x)).numpy(), expected, rtol=2e-5)
    one = gpu.array(np.float32([[1]]))
    product = nn.linear(gpu.array(x[:, None]), one, activation="gelu").numpy()
    np.testing.assert_allclose(product[:, 0], expected, rtol=2e-5)


def test_one_kernel_with_what_is_around_it(gpu: vc.Runtime) -> None:
    x = gpu.array(np.linspace(-3, 3, 100, dtype=np.float32))
    result = nn.gelu(x * 2 + 1) * x
    assert len(vnp.info(result)) == 1
    host = x.numpy().astype(np.float64)
    np.testing.assert_allclose(result.numpy(), FORMULAS["gelu"](host * 2 + 1) * host, atol=1e-5)


def test_numbers_that_are_not_finite(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([np.nan, np.inf, -np.inf], np.float32))
    for name in FORMULAS:
        result = getattr(nn, name)(x).numpy()
        assert np.isnan(result[0]), name
        assert result[1] == (1 if name in ("sigmoid", "tanh") else np.inf), name


def test_arguments(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([-2, 3], np.int32))
    assert nn.leaky_relu(x, 0.5).numpy().tolist() == [-1, 3]
    np.testing.assert_allclose(nn.elu(x, 2.0).numpy(), [2 * np.expm1(-2), 3], rtol=1e-6)
    np.testing.assert_allclose(nn.softplus(x, 2.0, 5.0).numpy(), [np.log1p(np.exp(-4)) / 2, 3], rtol=1e-6)
    np.testing.assert_allclose(nn.gelu(x, "tanh").numpy(), [-0.045402, 2.996363], atol=1e-5)
    with pytest.raises(ValueError, match='"none" or "tanh"; got \'erf\''):
        nn.gelu(x, "erf")
    with pytest.raises(TypeError, match="real numbers"):
        nn.relu(gpu.array(np.array([1j], np.complex64)))
