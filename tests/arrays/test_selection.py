"""nonzero, masks, compress, counts, repeat and searchsorted beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, shapes, values, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms import selection
from vkcompute.arrays.algorithms.search import searchsorted
from vkcompute.arrays.algorithms.selection import compress, flatnonzero, masked, nonzero, repeat
from vkcompute.arrays.functions.reductions import count_nonzero
from vkcompute.runtime.tuning import tuning_of


@given(data=st.data(), shape=shapes(), seed=seeds())
def test_nonzero(gpu: vc.Runtime, data: Any, shape: tuple[int, ...], seed: int) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "bool int32 float32 float16")))
    x, array = viewed(data, gpu, values(np.random.default_rng(seed), shape, dtype))
    for result, expected in zip(nonzero(array), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(result.numpy(), expected)
    np.testing.assert_array_equal(flatnonzero(array).numpy(), np.flatnonzero(x))
    axis = data.draw(st.none() | st.integers(0, x.ndim - 1))
    np.testing.assert_array_equal(count_nonzero(array, axis).numpy(), np.count_nonzero(x, axis))


@given(data=st.data(), shape=shapes(), seed=seeds())
def test_masks(gpu: vc.Runtime, data: Any, shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "int32 float32 float64 int8 bool")))
    x, array = viewed(data, gpu, values(rng, shape, dtype))
    mask = rng.random(x.shape) < rng.random()
    chosen = gpu.array(mask if dtypes_of(gpu, "bool") else mask.astype(np.int32))
    np.testing.assert_array_equal(masked(array, chosen).numpy(), x[mask])


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 256, 257, 70_000])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_sizes_of_masks(gpu: vc.Runtime, n: int, share: float) -> None:
    rng = np.random.default_rng(n)
    x, mask = rng.random(n, np.float32), rng.random(n) < share
    result = masked(gpu.array(x), gpu.array(mask.astype(np.int32)))
    np.testing.assert_array_equal(result.numpy(), x[mask])
    np.testing.assert_array_equal(flatnonzero(gpu.array(mask)).numpy(), np.flatnonzero(mask))


@pytest.mark.parametrize("start", [0, 1, 4, 8])
def test_masks_of_bytes(gpu: vc.Runtime, start: int) -> None:
    """Bytes other than 1 are true, too, wherever the mask begins in a word."""
    x = np.random.default_rng(0).integers(0, 256, 1004, np.uint8) * (np.arange(1004) % 3 > 0)
    for dtype in ("uint8", "int8"):
        given = x.astype(dtype)[start:]
        np.testing.assert_array_equal(flatnonzero(gpu.array(x.astype(dtype))[start:]).numpy(), np.flatnonzero(given))


@pytest.mark.parametrize("limit", [0.0, 1.0])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_stores_of_dense_selections(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, limit: float, share: float
) -> None:
    """Elements that are not selected leave nothing: within parts, at their ends, and behind the last one."""
    tuning = tuning_of(gpu.device.physical)._replace(dense_selection=limit, selection_part=64)
    monkeypatch.setattr(selection, "tuning_of", lambda _: tuning)
    rng = np.random.default_rng(round(100 * share))
    x, mask = rng.random(5000, np.float32), rng.random(5000) < share
    mask[rng.integers(0, 70) * 64 :][:192] = False  # parts without any
    array, chosen = gpu.array(x), gpu.array(mask.astype(np.int32))
    np.testing.assert_array_equal(masked(array, chosen).numpy(), x[mask])
    np.testing.assert_array_equal(flatnonzero(chosen).numpy(), np.flatnonzero(mask))


@given(data=st.data(), seed=seeds())
def test_compress(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, array = viewed(data, gpu, values(rng, (3, 5, 2), "int32"))
    axis = data.draw(st.none() | st.integers(-3, 2))
    n = x.size if axis is None else x.shape[axis]
    condition = rng.integers(0, 2, data.draw(st.integers(0, n)), np.int32)
    result = compress(gpu.array(condition), array, axis).numpy()
    np.testing.assert_array_equal(result, np.compress(condition, x, axis))


@given(data=st.data(), seed=seeds())
def test_repeat(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, array = viewed(data, gpu, values(rng, data.draw(st.sampled_from([(7,), (3, 4), (0, 2)])), "float32"))
    axis = data.draw(st.none() | st.integers(0, x.ndim - 1))
    n = x.size if axis is None else x.shape[axis]
    times = data.draw(st.integers(0, 4))
    np.testing.assert_array_equal(repeat(array, times, axis).numpy(), np.repeat(x, times, axis))
    host = rng.integers(0, 4, data.draw(st.sampled_from([n, 1])), np.int32)
    np.testing.assert_array_equal(repeat(array, gpu.array(host), axis).numpy(), np.repeat(x, host, axis))


@given(data=st.data(), seed=seeds())
def test_searchsorted(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = st.sampled_from(dtypes_of(gpu, "int32 float32 uint32 int8 float64"))
    x = values(rng, data.draw(st.sampled_from([0, 1, 2, 63, 1000])), data.draw(kinds))
    wanted, given_values = viewed(data, gpu, values(rng, (11, 3), data.draw(st.just(x.dtype.name) | kinds)))
    if np.result_type(x, wanted).name not in dtypes_of(gpu, "int32 float32 uint32 int8 float64 int64 int16"):
        return
    side, order = data.draw(st.sampled_from(["left", "right"])), np.argsort(x, kind="stable").astype(np.int32)
    expected = np.searchsorted(x, wanted, side, order)
    np.testing.assert_array_equal(searchsorted(gpu.array(x[order]), given_values, side).numpy(), expected)
    result = searchsorted(gpu.array(x), given_values, side, gpu.array(order))
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("side", ["left", "right"])
def test_subnormals_are_searched(gpu: vc.Runtime, side: Any) -> None:
    """Some devices compare them as zeros; zeros of both signs are equal."""
    patterns = [0x80800000, 0x807FFFFF, 0x80000001, 0x80000000, 0, 1, 2, 0x7FFFFF, 0x800000, 0x7F800000, 0x7FC00000]
    x = np.array(patterns, np.uint32).view(np.float32)
    few = x[[1, 3, 6, 8, 10]]
    result = searchsorted(gpu.array(x), gpu.array(x), side).numpy()
    np.testing.assert_array_equal(result, np.searchsorted(x, x, side))
    np.testing.assert_array_equal(vnp.isin(gpu.array(x), gpu.array(few)).numpy(), np.isin(x, few))
    np.testing.assert_array_equal(
        vnp.isin(gpu.array(x), gpu.array(few), invert=True).numpy(), np.isin(x, few, invert=True)
    )


def test_errors(gpu: vc.Runtime) -> None:
    x, two = gpu.zeros((2, 3)), gpu.zeros(2, np.int32)
    for call, message in [
        (lambda: nonzero(gpu.zeros(())), "axes"),
        (lambda: compress(gpu.zeros((1, 2)), x), "one axis"),
        (lambda: repeat(x, -1), "negative"),
        (lambda: repeat(x, gpu.array(np.array([1, -2], np.int32)), 0), "negative"),
        (lambda: repeat(x, gpu.full(2, 2**31 - 1, np.int32), 0), "repeats give about 4,294,967,"),
        (lambda: repeat(x, two, 1), r"one per element \(3\)"),
        (lambda: searchsorted(x, two), "one axis"),
        (lambda: searchsorted(two, two, "middle"), "'left' or 'right'"),
        (lambda: searchsorted(two, two, sorter=gpu.zeros(3, np.int32)), "sorter"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(IndexError, match="shape of the array"):
        masked(x, two)
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 2"):
        compress(gpu.array(np.array([0, 1, 0, 0, 1], np.int32)), x, 0).numpy()
