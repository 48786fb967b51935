"""Scatter-add and bincount beside NumPy's: dtypes, repeated indices, runs across parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, values, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms import segments
from vkcompute.arrays.algorithms.lines import Lines
from vkcompute.arrays.algorithms.segments import bincount
from vkcompute.arrays.functions import indexing
from vkcompute.runtime.tuning import ON_CPU


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64, np.float16, np.float32, np.float64])
def test_extremes_of_values_with_one_index(gpu: vc.Runtime, name: str, dtype: Any) -> None:
    """One element takes thousands of values, in several parts; others take NaN, one value or none."""
    random = np.random.default_rng(7)
    host = random.integers(0, 90, (3, 300, 2)).astype(dtype)
    at = np.where(random.random(6000) < 0.8, -7, random.integers(0, 290, 6000))
    new = random.integers(0, 120, (3, 6000, 2)).astype(dtype)
    if host.dtype.kind == "f":
        new[1, ::501] = np.nan
    x = gpu.array(host)
    getattr(vnp, name).at(x, (slice(None), at), gpu.array(new))
    getattr(np, name).at(host, (slice(None), at), new)
    assert np.array_equal(x.numpy(), host, equal_nan=host.dtype.kind == "f")


@given(data=st.data(), seed=seeds())
def test_additions(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "int32 uint32 int64 int8 float32 float64")))
    shape = data.draw(st.sampled_from([(5,), (4, 3), (2, 6, 3)]))
    x, array = viewed(data, gpu, np.round(values(rng, shape, dtype, special=False)))
    m = data.draw(st.sampled_from([0, 1, 7, 600]))
    axis = data.draw(st.integers(0, x.ndim - 1))
    at = rng.integers(-x.shape[axis], x.shape[axis], m)
    index = (*[slice(None)] * axis, at)
    new = rng.integers(-9 if dtype[0] != "u" else 0, 9, x[index].shape).astype(dtype)
    x = x.copy()
    np.add.at(x, index, new)
    indexing.add(array, index, gpu.array(new))
    np.testing.assert_array_equal(array.numpy(), x)


@pytest.mark.parametrize("part", [32, 256])
@pytest.mark.parametrize("in_tables", [True, False])
@pytest.mark.parametrize("n_bins", [1, 3, 256, 1000])
def test_sums_of_floats(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, n_bins: int, in_tables: bool, part: int
) -> None:
    """Runs within a part, across two parts, and over many; few indices in tables, too."""
    tuning = ON_CPU._replace(segment_part=part, sums_in_tables=in_tables)
    monkeypatch.setattr(segments, "tuning_of", lambda device: tuning)
    rng = np.random.default_rng(n_bins)
    at, new = rng.integers(0, n_bins, 20_000).astype(np.int32), rng.random(20_000, np.float32)
    array = gpu.zeros(n_bins)
    indexing.add(array, gpu.array(at), gpu.array(new))
    np.testing.assert_allclose(array.numpy(), np.bincount(at, new, n_bins), rtol=300 * 2.0**-23)
    again = gpu.zeros(n_bins)
    indexing.add(again, gpu.array(at), gpu.array(new))
    np.testing.assert_array_equal(array.numpy(), again.numpy())


@pytest.mark.parametrize("dtype", ["float32", "int64", "float64"])
@pytest.mark.parametrize("busy", [1, 64])
@pytest.mark.parametrize("n_bins", [1, 7, 256])
def test_sums_of_lines_in_tables(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, n_bins: int, busy: int, dtype: str
) -> None:
    """Several rows, and columns by four and one, in parts that 8 does not divide; also no rows and no columns."""
    if not dtypes_of(gpu, dtype):
        return
    tuning = ON_CPU._replace(sums_in_tables=True, busy_groups=busy)
    monkeypatch.setattr(segments, "tuning_of", lambda device: tuning)
    monkeypatch.setattr(segments, "scatter_by_sorting", None)  # not called
    rng = np.random.default_rng(n_bins)
    for n_rows, n_columns in ((1, 8), (3, 1), (5, 12), (2, 3), (0, 4), (2, 0)):
        at = rng.integers(-1, n_bins, 3001).astype(np.int32)
        new = rng.integers(-9, 9, (n_rows, 3001, n_columns)).astype(dtype)
        x = rng.integers(-9, 9, (n_rows, n_bins, n_columns)).astype(dtype)
        array, lines = gpu.array(x), Lines(n_rows, n_bins, n_columns)
        segments.scatter_add(array, gpu.array(at), lines, gpu.array(new))
        np.add.at(x, (slice(None), at[at >= 0]), new[:, at >= 0])
        np.testing.assert_array_equal(array.numpy(), x)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float64", "int64"])
@pytest.mark.parametrize("in_tables", [True, False])
def test_runs_over_several_parts(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str, in_tables: bool) -> None:
    """A part whose elements all have one index leaves nothing but its total, which may be infinite."""
    if not dtypes_of(gpu, dtype):
        return
    monkeypatch.setattr(segments, "tuning_of", lambda device: ON_CPU._replace(sums_in_tables=in_tables))
    at, new = np.repeat(np.arange(3), 1000), np.ones(3000, dtype)
    if dtype != "int64":
        new[500], new[1500], new[2000], new[-1] = np.inf, np.inf, np.inf, -np.inf
    array = gpu.zeros(3, dtype)
    indexing.add(array, gpu.array(at), gpu.array(new))
    expected = np.zeros(3, dtype)
    with np.errstate(invalid="ignore"):
        np.add.at(expected, at, new)
    np.testing.assert_array_equal(array.numpy(), expected)


@given(data=st.data(), seed=seeds())
def test_bincount(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "int32 uint32 int64 uint8")))
    at = rng.integers(0, data.draw(st.sampled_from([1, 4, 200])), data.draw(st.sampled_from([0, 1, 3000]))).astype(
        dtype
    )
    x, array = viewed(data, gpu, at)
    minlength, weights = data.draw(st.sampled_from([0, 3, 300])), rng.integers(-5, 5, x.size).astype(np.float32)
    np.testing.assert_array_equal(bincount(array, None, minlength).numpy(), np.bincount(x, None, minlength))
    result = bincount(array, gpu.array(weights), minlength).numpy()
    np.testing.assert_array_equal(result, np.bincount(x, weights, minlength))


def test_weighted_counts_are_the_same_in_each_run(gpu: vc.Runtime) -> None:
    """Sums of floats of very different sizes, whose bits tell their order."""
    rng = np.random.default_rng(0)
    x, weights = rng.integers(0, 7, 40_000).astype(np.int32), (10.0 ** rng.integers(-6, 7, 40_000)).astype(np.float32)
    arrays = gpu.array(x), gpu.array(weights)
    results = [
        (bincount(*arrays).numpy().tobytes(), vnp.histogram(arrays[0], 5, weights=arrays[1])[0].numpy().tobytes())
        for _ in range(4)
    ]
    assert len(set(results)) == 1


def test_errors(gpu: vc.Runtime) -> None:
    with pytest.raises(TypeError, match="integers; got float32"):
        bincount(gpu.zeros(3))
    with pytest.raises(ValueError, match="no negative values"):
        bincount(gpu.array(np.array([1, -1], np.int32)))
    with pytest.raises(ValueError, match="one axis, and a weight per value"):
        bincount(gpu.zeros(3, np.int32), gpu.zeros(4))
    with pytest.raises(TypeError, match="bools are not summed"):
        indexing.add(gpu.zeros(3, bool), [0], gpu.zeros(1, bool))
    x = gpu.zeros(3)
    indexing.add(x, gpu.array(np.array([3], np.int32)), gpu.zeros(1))
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        x.numpy()


@pytest.mark.parametrize("columns", [(), (3,), (4,)])
@pytest.mark.parametrize("m", [30, 400])
def test_elements_that_no_index_names_keep_the_sign_of_zero(gpu: vc.Runtime, m: int, columns: tuple[int, ...]) -> None:
    x, at = gpu.full((4, *columns), -0.0), gpu.zeros(m, np.int32)
    indexing.add(x, (at,), gpu.full((m, *columns), 1))
    result = x.numpy()
    assert np.array_equal(result[0], np.full(columns, m))
    assert np.signbit(result[1:]).all()
