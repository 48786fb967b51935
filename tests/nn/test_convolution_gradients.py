"""Gradients of convolutions are adjoint to the convolution: as a function of its input, and of its weight."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import nn
from vkcompute.nn import grad


@pytest.mark.parametrize(
    "numbers",
    [
        {}, {"stride": 2, "padding": 1}, {"stride": (1, 3), "padding": (2, 0), "dilation": (1, 2)},
        {"groups": 2, "dilation": 2, "padding": 3, "stride": 2},
    ],
    ids=str,
)  # fmt: skip
def test_gradients_are_adjoint(gpu: vc.Runtime, numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(-3, 4, (2, 4, 9, 8)), rng.integers(-3, 4, (6, 4 // numbers.get("groups", 1), 3, 2))
    images, weight = (gpu.array(host.astype(np.float32)) for host in (x, w))
    result = nn.conv2d(images, weight, None, **numbers)
    g = gpu.array(rng.integers(-3, 4, result.shape).astype(np.float32))
    by_input = grad.conv2d_input(images.shape, weight, g, **numbers)
    by_weight = grad.conv2d_weight(images, weight.shape, g, **numbers)
    product = float((result.numpy() * g.numpy()).sum())
    assert (by_input.shape, by_weight.shape) == (x.shape, w.shape)
    assert float((by_input.numpy() * x).sum()) == float((by_weight.numpy() * w).sum()) == product
