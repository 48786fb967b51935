"""Functions of networks of any shape, dtype and layout of operands, against NumPy in float64.

Bounds of errors are those of sums of n rounded terms, n * eps * (sum of their magnitudes); Higham, Accuracy and
Stability of Numerical Algorithms, section 4.2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import nn
from vkcompute.dtypes import lookup

EPS = float(np.finfo(np.float32).eps)  # float16 is added in float32
TINY = float(np.finfo(np.float32).tiny)  # drivers may flush what is smaller
erf = np.vectorize(math.erf, otypes=[np.float64])
lengths = st.sampled_from([0, 1, 2, 3, 5, 8, 17, 33])
counts = st.sampled_from([1, 2, 3, 7, 12])
dtypes = st.sampled_from(["float32", "float16"])
layouts = st.sampled_from(["contiguous", "strided", "reversed", "transposed", "offset"])
seeds = st.integers(0, 9)
examples = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "sigmoid": lambda x: np.exp(-np.logaddexp(0, -x)),
    "silu": lambda x: x * np.exp(-np.logaddexp(0, -x)),
    "gelu": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "tanh": np.tanh,
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20)))),
}


def computed(gpu: vc.Runtime, dtype: str) -> np.dtype[Any]:
    """Returns a dtype, or float32 where the device lacks it."""
    return np.dtype(dtype if set(lookup(dtype).features) <= set(gpu.device.features) else "float32")


def view(gpu: vc.Runtime, host: np.ndarray, layout: str) -> vc.Array:
    """Returns the elements of a host array as a device array of a layout."""
    if layout == "strided":
        return gpu.array(np.repeat(host, 2, -1))[..., ::2]
    if layout == "reversed":
        return gpu.array(np.ascontiguousarray(host[..., ::-1]))[..., ::-1]
    if layout == "transposed" and host.ndim > 1:
        return gpu.array(np.ascontiguousarray(host.swapaxes(-1, -2))).swapaxes(-1, -2)
    if layout == "offset":
        return gpu.array(np.concatenate([host[..., :1], host], -1))[..., min(1, host.shape[-1]) :]
    return gpu.array(host)


def close(result: vc.Array, expected: np.ndarray, dtype: np.dtype[Any], bound: Any) -> None:
    """Compares within a bound of the error before the result is rounded to its dtype."""
    assert (result.shape, result.dtype) == (expected.shape, dtype)
    limits = np.finfo(dtype)
    bound = bound + float(limits.eps) * abs(expected) + float(limits.smallest_subnormal) + 128 * TINY
    off = abs(result.numpy().astype(np.float64) - expected)
    assert (off <= bound).all(), f"off by {off.max()}, with a bound of {np.broadcast_to(bound, off.shape)[off > bound]}"


@pytest.mark.parametrize("runtime", ["gpu", "like_a_gpu"])
@examples
@given(st.data(), st.lists(lengths, max_size=2), lengths, lengths, dtypes, layouts, layouts, seeds)
def test_linear(
    request: pytest.FixtureRequest, runtime: str, data: st.DataObject, batch: list[int], n_in: int, n_out: int,
    dtype: str, of_x: str, of_weight: str, seed: int,
) -> None:  # fmt: skip
    gpu: vc.Runtime = request.getfixturevalue(runtime)
    kind, random = computed(gpu, dtype), np.random.default_rng(seed)
    x, weight, bias = (random.normal(size=item).astype(kind) for item in ((*batch, n_in), (n_out, n_in), n_out))
    has_bias, scale = data.draw(st.booleans()), data.draw(st.sampled_from([1.0, -0.5, 0.0, 3.0]))
    activation = data.draw(st.sampled_from([None, *ACTIVATIONS]))
    given_bias = view(gpu, bias, data.draw(layouts)) if has_bias else None
    result = nn.linear(view(gpu, x, of_x), view(gpu, weight, of_weight), given_bias, activation, scale)
    wide, matrix, added = x.astype(np.float64), weight.T.astype(np.float64), bias.astype(np.float64) * has_bias
    expected = wide @ matrix * scale + added
    bound = (n_in + 3) * EPS * (abs(wide) @ abs(matrix) * abs(scale) + abs(added))
    if activation:  # none has a slope above 1.2
        bound = 1.2 * bound + 8 * EPS * (1 + abs(expected))
        expected = ACTIVATIONS[activation](expected)
    close(result, expected, kind, bound)


Windows = tuple[np.ndarray, np.ndarray]


def windows(n: int, kernel: int, step: int, pad: int, by: int, ceil_mode: bool) -> Windows:
    """Returns the indices of each window's elements, and the number of them in the padded image."""
    extent = by * (kernel - 1) + 1
    starts = [
        start
        for start in range(-pad, n, step)
        if start + extent <= n + pad or (ceil_mode and start - step + extent < n + pad)
    ]
    at = np.array(starts)[:, None] + by * np.arange(kernel)
    return at, (at < n + pad).sum(1)


def pooled(x: np.ndarray, along: list[Windows], filler: float) -> np.ndarray:
    """Returns the elements of each window along a last axis, with a filler outside of the image."""
    (rows, _), (columns, _) = along
    rows, columns = rows[:, None, :, None], columns[:, None]
    height, width = x.shape[-2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    result = np.where(inside, x[..., np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)], filler)
    return result.reshape((*result.shape[:-2], result.shape[-2] * result.shape[-1]))


@st.composite
def geometries(draw: st.DrawFn) -> tuple[int, ...]:
    """Lengths of an axis and a window, its step, padding and dilation; the first window fits."""
    kernel, by = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    pad = draw(st.integers(0, kernel // 2))
    least = max(1, by * (kernel - 1) + 1 - 2 * pad)
    return draw(st.integers(least, least + 9)), kernel, draw(st.integers(1, 5)), pad, by


@examples
@given(st.data(), st.lists(st.sampled_from([1, 2, 3]), max_size=2), geometries(), geometries(), dtypes, layouts, seeds)
def test_maxima_of_windows(
    gpu: vc.Runtime, data: st.DataObject, before: list[int], rows: Any, columns: Any, dtype: str, layout: str, seed: int
) -> None:
    kind, ceil_mode = computed(gpu, dtype), data.draw(st.booleans())
    kind = data.draw(st.sampled_from([kind, np.dtype(np.int32)]))
    (h, *_), (w, *_) = rows, columns
    host = np.random.default_rng(seed).integers(-99, 99, (*before, 1, h, w)[-4:]).astype(kind)
    if kind.kind == "f":
        special = data.draw(st.sampled_from([0.0, np.nan, -np.inf, np.inf]))
        host[..., h // 2, w // 2] = special
    kernel, stride, padding, dilation = zip(rows[1:], columns[1:], strict=True)
    result = nn.max_pool2d(view(gpu, host, layout), kernel, stride, padding, dilation, ceil_mode)
    filler = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    along = [windows(*item, ceil_mode) for item in (rows, columns)]
    assert result.dtype == kind
    np.testing.assert_array_equal(result.numpy(), pooled(host, along, filler).max(-1))


@examples
@given(st.data(), st.lists(st.sampled_from([0, 1, 3]), max_size=1), geometries(), geometries(), dtypes, layouts, seeds)
def test_means_of_windows(
    gpu: vc.Runtime, data: st.DataObject, before: list[int], rows: Any, columns: Any, dtype: str, layout: str, seed: int
) -> None:
    kind, ceil_mode = computed(gpu, dtype), data.draw(st.booleans())
    with_padding, divisor = data.draw(st.booleans()), data.draw(st.sampled_from([None, 3, -2]))
    rows, columns = (*rows[:4], 1), (*columns[:4], 1)
    host = np.random.default_rng(seed).normal(size=(*before, 2, rows[0], columns[0])).astype(kind)
    kernel, stride, padding, _ = zip(rows[1:], columns[1:], strict=True)
    x = view(gpu, host, layout)
    result = nn.avg_pool2d(x, kernel, stride, padding, ceil_mode, with_padding, divisor)
    along = [windows(*item, ceil_mode) for item in (rows, columns)]
    elements = pooled(host.astype(np.float64), along, 0.0)
    inside = pooled(np.ones(host.shape[-2:]), along, 0.0).sum(-1)
    padded = np.outer(along[0][1], along[1][1])
    by = divisor if divisor is not None else padded if with_padding else inside
    bound = (elements.shape[-1] + 2) * EPS * abs(elements).sum(-1) / abs(by)
    close(result, elements.sum(-1) / by, kind, bound)


@pytest.mark.rotates
@examples
@given(
    st.data(),
    st.sampled_from([((), (), ()), ((2,), (2,), (2,)), ((3, 1), (2,), (1, 2)), ((), (2,), (2,)), ((0,), (1,), (1,))]),
    st.tuples(lengths, counts, lengths, lengths),
    dtypes,
    st.tuples(layouts, layouts, layouts),
    seeds,
)
def test_attention(
    gpu: vc.Runtime, data: st.DataObject, batches: Any, sizes: Any, dtype: str, of_each: Any, seed: int
) -> None:
    kind, random, (n, m, d, d_value) = computed(gpu, dtype), np.random.default_rng(seed), sizes
    shapes = zip(batches, ((n, d), (m, d), (m, d_value)), strict=True)
    q, k, v = (random.normal(size=(*batch, *shape)).astype(kind) for batch, shape in shapes)
    scale = data.draw(st.sampled_from([None, 0.3, -2.0]))
    factor = d**-0.5 if scale is None and d else scale or 1.0
    masked = data.draw(st.sampled_from(["no", "causal", "bools", "numbers"]))
    mask_shape = data.draw(st.sampled_from([(n, m), (1, m), (*np.broadcast_shapes(batches[0], batches[1]), n, m)]))
    mask, bias = None, np.zeros(())
    if masked == "causal":
        bias = np.where(np.tri(n, m, dtype=bool), 0, -np.inf)
    elif masked == "bools":
        bools = random.random(mask_shape) < 0.6
        bools[..., 0] = True  # each query has a key
        mask, bias = gpu.array(bools), np.where(bools, 0, -np.inf)
    elif masked == "numbers":
        bias = random.normal(size=mask_shape).astype(kind)
        mask, bias = gpu.array(bias), bias.astype(np.float64)
    given_arrays = [view(gpu, *item) for item in zip((q, k, v), of_each, strict=True)]
    result = nn.scaled_dot_product_attention(*given_arrays, mask, is_causal=masked == "causal", scale=scale)

    wide = [array.astype(np.float64) for array in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(-1, -2) * factor + bias
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights = powers / powers.sum(-1, keepdims=True)
    magnitudes = abs(wide[0]) @ abs(wide[1]).swapaxes(-1, -2) * abs(factor) + abs(np.where(np.isfinite(bias), bias, 0))
    off = 2 * (d + 4) * EPS * magnitudes.max(-1, keepdims=True, initial=0)  # of the logarithm of a weight
    close(result, weights @ wide[2], kind, (off + (2 * m + 8) * EPS) * (weights @ abs(wide[2])))


@pytest.mark.parametrize("name", ACTIVATIONS)
@examples
@given(st.data(), dtypes, st.lists(counts, max_size=1), lengths, layouts)
def test_activations_of_any_numbers(
    gpu: vc.Runtime, name: str, data: st.DataObject, dtype: str, before: list[int], n: int, layout: str
) -> None:
    kind = computed(gpu, dtype)
    numbers = st.floats(width=8 * kind.itemsize, allow_nan=False, allow_infinity=False) | st.floats(-30, 30)  # type: ignore[arg-type]
    size = math.prod(before) * n
    host = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size))).astype(kind).reshape(*before, n)
    result = getattr(nn, name)(view(gpu, host, layout))
    wide = host.astype(np.float64)
    with np.errstate(under="ignore"):
        expected = ACTIVATIONS[name](wide)
    # 1 + erf cancels for negative numbers, and is 0 for those below -10.
    cancelled = np.minimum(abs(wide), 10) if name == "gelu" else 0
    close(result, expected, kind, 8 * EPS * (abs(expected) + cancelled))
