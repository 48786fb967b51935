"""Reductions of long rows and of many columns: right, and in the same order whatever loads the elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms import first_extremes
from vkcompute.runtime.tuning import ON_GPU

SHAPES = [(4096 + 512,), (7, 4100), (2, 515), (131, 513), (2, 200, 600)]


def _data(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).random(shape).astype(np.float32)


def _stored(x: vc.Array) -> vc.Array:
    x.compute()
    return x


@pytest.mark.rotates
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_and_extremes(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    data = _data(shape)
    x = gpu.array(data)
    for axis in (None, *range(data.ndim)):
        total = vnp.sum(x, axis=axis).numpy()
        np.testing.assert_allclose(total, data.sum(axis=axis, dtype=np.float64), rtol=2e-6)
        np.testing.assert_array_equal(vnp.max(x, axis=axis).numpy(), data.max(axis=axis))


@pytest.mark.rotates
@pytest.mark.parametrize("shape", [(7, 4100), (131, 520)], ids=str)
def test_the_order_is_that_of_the_shape(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    x = gpu.array(_data(shape))
    cheap, much = (lambda y: y * 3 + 1), (lambda y: vnp.sin(y) * vnp.exp(y) + vnp.tanh(y) * vnp.log(y + 1))
    row, column = _stored(vnp.mean(x, axis=0, keepdims=True)), _stored(vnp.mean(x, axis=1, keepdims=True))
    formulas: list[Any] = [cheap, much, lambda y: y - row, lambda y: y - column]
    for at, formula in enumerate(formulas):
        for axis in (0, 1):
            fused, stored = vnp.sum(formula(x), axis=axis), vnp.sum(_stored(formula(x)), axis=axis)
            assert fused.numpy().tobytes() == stored.numpy().tobytes(), (at, axis)
    for view in (x[:, ::-1], x.T):
        for axis in (0, 1):
            np.testing.assert_array_equal(vnp.sum(view, axis=axis).numpy(), vnp.sum(view.copy(), axis=axis).numpy())


def test_errors_of_sums_are_as_those_of_pairs(gpu: vc.Runtime) -> None:
    data = np.full((4096, 512), 0.1, np.float32)
    x, exact = gpu.array(data), float(np.float32(0.1))
    assert abs(float(vnp.mean(x)) / exact - 1) < 1e-6
    assert np.abs(vnp.mean(x, axis=0).numpy() / exact - 1).max() < 1e-6


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_narrow_elements(gpu: vc.Runtime, dtype: str) -> None:
    data = (_data((130, 515)) * 3).astype(dtype)
    x = gpu.array(data)
    for axis in (0, 1):
        np.testing.assert_array_equal(vnp.sum(x, axis=axis).numpy(), data.sum(axis=axis))


@pytest.mark.rotates
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf])
def test_extremes_of_float16(gpu: vc.Runtime, value: float) -> None:
    """They are reduced as float32, and have their own dtype, also with an initial value that float16 rounds."""
    if lacks(gpu, "float16"):
        return
    data = (_data((130, 515)) - 0.5).astype(np.float16)
    data[7, 11] = value
    x = gpu.array(data)
    for name in ("min", "max"):
        for axis in (None, 0, 1):
            result = getattr(vnp, name)(x, axis=axis)
            assert result.dtype == np.float16
            np.testing.assert_array_equal(result.numpy(), getattr(data, name)(axis=axis))
        started = getattr(vnp, name)(x, initial=0.1)
        np.testing.assert_array_equal(started.numpy(), getattr(data, name)(initial=np.float16(0.1)))


def test_expressions_of_empty_arrays(gpu: vc.Runtime) -> None:
    x, row = gpu.zeros((3, 4, 0), np.float32), gpu.zeros((1, 4, 1), np.float32)
    assert vnp.sum(x - row, axis=(0, 2)).numpy().tolist() == [0] * 4


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "int8", "float16", "uint64"])
@pytest.mark.parametrize("shape", [(1 << 14,), (40013,), (3, 8192), (2, 3, 4096), (3, 5003)], ids=str)
def test_extremes_are_searched_in_chunks(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: str
) -> None:
    """The first of equal extremes, or the first NaN, counts; the last chunk may be shorter."""
    if lacks(gpu, dtype):
        return
    for name, value in (("_LONG", 1 << 10), ("_SHORTEST_CHUNK", 256)):
        monkeypatch.setattr(first_extremes, name, value)
    monkeypatch.setattr(first_extremes, "tuning_of", lambda _: ON_GPU._replace(searched_chunk=512))
    few = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    special = (_data(shape) * 100).astype(dtype)
    if special.dtype.kind == "f":
        special[..., shape[-1] // 2 + 7] = special.reshape(-1)[-1] = np.nan
    for data in (few, np.ones(shape, dtype), special):
        x = gpu.array(data)
        for axis, keepdims in ((None, False), (-1, True)):
            for name in ("argmin", "argmax"):
                expected = getattr(np, name)(data, axis, keepdims=keepdims)
                np.testing.assert_array_equal(getattr(vnp, name)(x, axis, keepdims=keepdims).numpy(), expected)


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_extremes_of_lines_beyond_a_binding(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Parts are searched apart: of views that no device can bind, and of arrays larger than a binding."""
    monkeypatch.setattr(first_extremes, "_LONG", 1 << 10)
    monkeypatch.setattr(first_extremes, "_most", lambda _: 1 << 12)
    few = np.random.default_rng(0).integers(1, 100, 50_021).astype(dtype)
    x = gpu.array(few)
    for start, stop in ((0, 50_021), (1, 50_021), (3, 40_000), (64, 3000), (1, 1200)):
        data, view = few[start:stop].copy(), x[start:stop]
        assert int(vnp.argmin(view)) == data.argmin()
        assert int(vnp.argmax(view)) == data.argmax()
    for at in (50_020, 16_384, 16_383, 0):
        x[at] = 0
        assert int(vnp.argmin(x)) == at, at
        assert int(vnp.argmin(x[1:])) == (at - 1 if at else 16_382)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_of_long_views_that_are_not_aligned(gpu: vc.Runtime, dtype: str) -> None:
    if lacks(gpu, dtype):
        return
    data = _data((9000,)).astype(dtype)
    view = gpu.array(np.concatenate([np.zeros(1, np.uint8), data.view(np.uint8)]))[1:].view(dtype)
    assert [int(vnp.argmin(view)), int(vnp.argmax(view))] == [data.argmin(), data.argmax()]
