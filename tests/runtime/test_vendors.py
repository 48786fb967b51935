"""Functions, a step of training and a block reduction on devices that pretend to be those of each vendor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
import vkcompute.numpy as vnp
from vkcompute import nn

pytestmark = pytest.mark.poor
VENDORS = "poor", "apple-m5-moltenvk", "amd-rx-5700-windows"
RNG = np.random.default_rng(0)


@pytest.fixture(params=VENDORS, scope="module")
def vendor(request: pytest.FixtureRequest) -> Iterator[vc.Runtime]:
    with open_runtime(profile=request.param) as runtime:
        yield runtime


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_functions_of_each_kind_of_dtype(vendor: vc.Runtime, dtype: str) -> None:
    data = RNG.integers(-9, 9, 400).astype(dtype)
    x = vendor.array(data)
    np.testing.assert_array_equal((x * x + x).numpy(), data * data + data)
    np.testing.assert_array_equal(vnp.sort(x).numpy(), np.sort(data))
    np.testing.assert_allclose(vnp.cumsum(x).numpy(), np.cumsum(data), rtol=1e-3)
    np.testing.assert_array_equal(vnp.take(x, vnp.nonzero(x)[0]).numpy(), data[data != 0])
    square, of = x.reshape(20, 20), data.reshape(20, 20)
    np.testing.assert_allclose((square @ square).numpy(), of @ of, rtol=1e-2)


def test_a_step_of_training(vendor: vc.Runtime) -> None:
    """A linear layer with a softmax, whose weights follow the gradient of the cross entropy."""
    x, y = RNG.standard_normal((64, 10)).astype(np.float32), RNG.integers(0, 3, 64)
    targets, start = np.eye(3, dtype=np.float32)[y], RNG.standard_normal((3, 10)).astype(np.float32)
    inputs, weights = vendor.array(x), vendor.array(start)
    for _ in range(3):
        slope = nn.softmax(nn.linear(inputs, weights), -1) - vendor.array(targets)
        weights = weights - 0.1 * (slope.T @ inputs) / 64
    expected = start.astype(np.float64)
    for _ in range(3):
        scores = np.exp(x @ expected.T)
        expected -= 0.1 * ((scores / scores.sum(axis=1, keepdims=True) - targets).T @ x) / 64
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_block_reduction_with_warps_and_an_early_return(vendor: vc.Runtime) -> None:
    n, out = 300, vendor.zeros(3)
    block_sum[3, 128](vendor.array(np.arange(n, dtype=np.float32)), n, out)
    assert out.numpy().tolist() == [sum(range(k, min(k + 128, n))) for k in range(0, n, 128)]


@vc.kernel
def block_sum(x: Any, n: int, out: Any) -> None:
    sums = vc.shared(4, "float32")
    i, here = vc.global_id(0), vc.local_id(0)
    if here < 4:
        sums[here] = 0
    vc.barrier()
    if i >= n:
        return
    value = x[i]
    for k in range(5):
        other = vc.warp.shuffle_xor(value, 16 >> k)
        inside = ((i ^ (16 >> k)) < n) and ((vc.warp.active_mask() >> ((here ^ (16 >> k)) % 32)) & 1) == 1
        value += other if inside else 0.0
    if vc.warp.local_id() == 0:
        sums[here // 32] = value
    vc.barrier()
    if here == 0:
        out[vc.group_id(0)] = sums[0] + sums[1] + sums[2] + sums[3]


@triton.jit
def optimizer_step(weights: Any, momenta: Any, slopes: Any, n: Any, BLOCK: tl.constexpr) -> None:
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for k in tl.static_range(len(weights)):
        momentum = 0.5 * tl.load(momenta[k] + i, mask=i < n) + tl.load(slopes[k] + i, mask=i < n)
        tl.store(momenta[k] + i, momentum, mask=i < n)
        tl.store(weights[k] + i, tl.load(weights[k] + i, mask=i < n) - 0.25 * momentum, mask=i < n)


@pytest.mark.parametrize("parts", [False, True])
def test_a_fused_step_of_an_optimizer_has_more_arrays_than_the_device_binds(vendor: vc.Runtime, parts: bool) -> None:
    """Arrays of their own, and parts of one array, which are not copied."""
    n, host = 200, RNG.integers(-8, 8, (3, 6, 200)).astype(np.float32)
    whole = vendor.array(host)
    arrays = [[whole[k, at] if parts else vendor.array(host[k, at]) for at in range(6)] for k in range(3)]
    optimizer_step[(2,)](*map(tuple, arrays), n, BLOCK=128)
    momenta = host[1] / 2 + host[2]
    np.testing.assert_array_equal([array.numpy() for array in arrays[1]], momenta)
    np.testing.assert_array_equal([array.numpy() for array in arrays[0]], host[0] - momenta / 4)
