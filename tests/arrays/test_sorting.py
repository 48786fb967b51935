"""Sorts beside NumPy's: dtypes, axes, views, special values, lengths at which methods change."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, shapes, values, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms import direct_tables, equal_rows, leading, merge_sort, order_statistics, radix
from vkcompute.arrays.algorithms.sorting import argsort, distinct, lexsort, sort, topk, unique
from vkcompute.runtime.tuning import ON_CPU, ON_GPU

_ALL = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"


def bits(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bits of the elements, which tell zeros of both signs apart."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def descending(x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Returns the stable order from the largest on: that of the reversed array, reversed."""
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


@pytest.mark.parametrize("dtype", _ALL.split())
@given(data=st.data(), shape=shapes(), seed=seeds())
def test_sorts(gpu: vc.Runtime, dtype: str, data: Any, shape: tuple[int, ...], seed: int) -> None:
    if not dtypes_of(gpu, dtype):
        return
    x, array = viewed(data, gpu, values(np.random.default_rng(seed), shape, dtype))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    for down in (False, True):
        expected = descending(x, axis) if down else np.argsort(x, axis, kind="stable")
        np.testing.assert_array_equal(argsort(array, axis, descending=down).numpy(), expected)
        result = sort(array, axis, descending=down).numpy()
        np.testing.assert_array_equal(bits(result), bits(np.take_along_axis(x, expected, axis)))


_TUNINGS = {
    "workgroups": ON_GPU._replace(radix_own=2),
    "short parts": ON_CPU._replace(radix_part=32),
    "long parts": ON_CPU,
}


@pytest.fixture(params=_TUNINGS)
def by_digits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts all rows beyond 64 elements by digits: by workgroups, which take tiles of 256, or by invocations."""
    monkeypatch.setattr(radix, "tuning_of", lambda device: _TUNINGS[request.param])
    monkeypatch.setattr(merge_sort, "MOST_MERGED", 0)
    monkeypatch.setattr(radix, "LONGEST_MERGED", 64)


def check_sorts(gpu: vc.Runtime, x: np.ndarray[Any, Any]) -> None:
    """Compares sorted rows and their order with NumPy's, in both directions."""
    for down in (False, True):
        expected = descending(x, 1) if down else np.argsort(x, kind="stable")
        np.testing.assert_array_equal(argsort(gpu.array(x), descending=down).numpy(), expected)
        found = sort(gpu.array(x), descending=down).numpy()
        np.testing.assert_array_equal(bits(found), bits(np.take_along_axis(x, expected, 1)))


@pytest.mark.parametrize("n", [1, 33, 65, 255, 256, 257, 511, 513, 5000])
def test_lengths_where_methods_change(gpu: vc.Runtime, by_digits: None, n: int) -> None:
    x = np.random.default_rng(n).integers(-(2**31), 2**31, (3, n)).astype(np.int32)
    x[1] %= 3
    check_sorts(gpu, x)


@pytest.mark.parametrize("dtype", _ALL.split())
def test_every_dtype_by_digits(gpu: vc.Runtime, by_digits: None, dtype: str) -> None:
    """Random rows, equal elements, sorted ones, reversed ones, few distinct ones, many NaN."""
    if not dtypes_of(gpu, dtype):
        return
    x = values(np.random.default_rng(0), (6, 600), dtype)
    x[1], x[2], x[3], x[4] = x[1, 0], np.sort(x[2]), np.sort(x[3])[::-1], x[4, np.arange(600) % 3]
    if x.dtype.kind == "f":
        x[5, np.random.default_rng(1).random(600) < 0.7] = np.nan
    check_sorts(gpu, x)


@pytest.mark.rotates
@pytest.mark.parametrize("n", [1, 2, 3, 10, 64, 65, 200])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("most_groups", [65535, 4])
def test_many_short_rows(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, n: int, dtype: str, most_groups: int
) -> None:
    """Parts of rows are sorted by a block program; a complex number has several words, by which it sorts in turn.

    Where the grid is too small for all rows, programs sort more of them.
    """
    monkeypatch.setattr(merge_sort, "MOST_GROUPS", most_groups)
    monkeypatch.setattr(merge_sort, "MOST_MERGED", 0)
    x = np.random.default_rng(n).choice([3, -np.inf, 1, 0, -0.0, np.nan], (70, n)).astype(dtype)
    array = gpu.array(x)
    np.testing.assert_array_equal(argsort(array).numpy(), np.argsort(x, kind="stable"))
    if dtype == "float32":
        np.testing.assert_array_equal(argsort(array, descending=True).numpy(), descending(x, 1))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 127, 128, 129, 192, 193, 1000, 1025])
def test_blocks_are_merged(gpu: vc.Runtime, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 2**32, (3, n), np.uint32)
    x[1] %= 5
    np.testing.assert_array_equal(argsort(gpu.array(x)).numpy(), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(lexsort([gpu.array(x), gpu.array(x % 3)]).numpy(), np.lexsort([x, x % 3]))


@pytest.mark.parametrize("most_merged", [0, 2**14])
def test_every_kind_of_float(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, most_merged: int) -> None:
    """Subnormals, both zeros, infinities, NaN of both signs."""
    monkeypatch.setattr(merge_sort, "MOST_MERGED", most_merged)
    monkeypatch.setattr(radix, "LONGEST_MERGED", most_merged)
    patterns = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000]
    x = np.array(patterns + [each | 0x80000000 for each in patterns], np.uint32).view(np.float32)
    x = np.random.default_rng(0).permutation(np.tile(x, 8))
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(argsort(gpu.array(x)).numpy(), order)
    np.testing.assert_array_equal(bits(sort(gpu.array(x)).numpy()), bits(x[order]))


@pytest.mark.parametrize("equal_nan", [True, False])
def test_subnormals_are_distinct(gpu: vc.Runtime, equal_nan: bool) -> None:
    """Some devices compare them as zeros."""
    patterns = np.array([0, 1, 2, 0x80000000, 0x80000001, 0x7FFFFF, 0x800000, 0x7FC00000, 0xFFC00001], np.uint32)
    x = np.tile(patterns, 3).view(np.float32)
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=equal_nan
    )
    result = unique(gpu.array(x), equal_nan=equal_nan)
    np.testing.assert_array_equal(result.values.numpy(), values)
    np.testing.assert_array_equal(result.indices.numpy(), indices)
    np.testing.assert_array_equal(result.counts.numpy(), counts)
    np.testing.assert_array_equal(result.inverse.numpy(), inverse)


@given(data=st.data(), seed=seeds())
def test_topk(gpu: vc.Runtime, data: Any, seed: int) -> None:
    x, array = viewed(data, gpu, values(np.random.default_rng(seed), (3, 90), "float32"))
    axis, largest = data.draw(st.integers(-2, 1)), data.draw(st.booleans())
    k = data.draw(st.integers(0, x.shape[axis]))
    order = descending(x, axis) if largest else np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    result, indices = topk(array, k, axis, largest=largest)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(bits(result.numpy()), bits(np.take_along_axis(x, order, axis)))


@pytest.mark.parametrize("dtype", _ALL.split())
@pytest.mark.parametrize("most_held", [2, 16])
def test_first_elements_without_sorting(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str, most_held: int
) -> None:
    """Few elements are held by invocations; others are in chunks. The rest of a row is not sorted."""
    if not dtypes_of(gpu, dtype):
        return
    monkeypatch.setattr(leading, "MOST_HELD", most_held)
    monkeypatch.setattr(leading, "_SORTED", 4)
    x = values(np.random.default_rng(0), (6, 333), dtype)
    x[1], x[2], x[3] = x[1, 0], np.sort(x[2]), np.sort(x[3])[::-1]
    x[4] = x[4, np.arange(333) % 3]
    for largest in (False, True):
        order = descending(x, 1) if largest else np.argsort(x, 1, kind="stable")
        for k in (1, 3, 7, 16):
            result, indices = topk(gpu.array(x), k, largest=largest)
            np.testing.assert_array_equal(indices.numpy(), order[:, :k])
            np.testing.assert_array_equal(bits(result.numpy()), bits(np.take_along_axis(x, order[:, :k], 1)))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "int64", "float16"])
@pytest.mark.parametrize("tuning", [ON_CPU, ON_GPU], ids=["CPU", "GPU"])
def test_elements_at_places(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str, tuning: Any) -> None:
    """Elements are selected by their digits where these are enough elements, and few places."""
    if not dtypes_of(gpu, dtype):
        return
    for name, value in (("_FEWEST", 1), ("_SHORTEST_ROW", 1), ("tuning_of", lambda device: tuning)):
        monkeypatch.setattr(order_statistics, name, value)
    x = values(np.random.default_rng(0), (6, 300), dtype)
    x[1], x[2], x[3] = x[1, 0], np.sort(x[2]), np.sort(x[3])[::-1]
    x[4] = x[4, np.arange(300) % 3]
    ordered = np.sort(x)
    for places in ([0], [149, 150], [3, 299], [298, 299], [1, 100], [7, 30, 31, 200]):
        elements = order_statistics.elements_at(gpu.array(x), places)
        assert sorted(elements) == places
        for place, element in elements.items():
            np.testing.assert_array_equal(element.numpy(), ordered[:, place])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_partitions_by_selection(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Smaller, equal and greater elements keep their order."""
    monkeypatch.setattr(order_statistics, "_FEWEST", 1)
    monkeypatch.setattr(order_statistics, "_SHORTEST_ROW", 1)
    x = values(np.random.default_rng(0), (4, 300), dtype)
    x[1], x[2] = x[1, 0], x[2, np.arange(300) % 3]
    ranks = np.array([np.unique(row, return_inverse=True)[1] for row in x])
    for k in (0, 7, 150, -1):
        pivots = np.sort(ranks)[:, k, None]
        order = np.argsort(np.sign(ranks - pivots), kind="stable")
        np.testing.assert_array_equal(vnp.argpartition(gpu.array(x.T.copy()), k, 0).numpy(), order.T)
        found = vnp.partition(gpu.array(x), k).numpy()
        np.testing.assert_array_equal(bits(found), bits(np.take_along_axis(x, order, 1)))


@given(data=st.data(), seed=seeds())
def test_lexsort(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, axis = data.draw(st.sampled_from([((100,), 0), ((3, 40), 1), ((70, 2), 0), ((0, 3), 0)]))
    names = data.draw(st.lists(st.sampled_from(dtypes_of(gpu, "int32 float32 float64 int8")), min_size=1, max_size=3))
    keys = [values(rng, shape, name) for name in names]
    result = lexsort([gpu.array(key) for key in keys], axis)
    np.testing.assert_array_equal(result.numpy(), np.lexsort(keys, axis))


@given(data=st.data(), shape=shapes(), seed=seeds(), equal_nan=st.booleans())
def test_unique(gpu: vc.Runtime, data: Any, shape: tuple[int, ...], seed: int, equal_nan: bool) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "int32 float32 float64 uint8 bool")))
    x, array = viewed(data, gpu, values(np.random.default_rng(seed), shape, dtype))
    expected = np.unique(x, True, True, True, equal_nan=equal_nan)
    for result, want in zip(unique(array, equal_nan=equal_nan), expected, strict=True):
        np.testing.assert_array_equal(result.numpy().reshape(-1), want.reshape(-1))
    result = unique(array)
    assert result.inverse.shape == x.shape
    np.testing.assert_array_equal(result.values.numpy()[result.inverse.numpy()] if x.size else x, x)


@given(data=st.data(), shape=shapes(max_dims=3), seed=seeds())
def test_medians_and_partitions(gpu: vc.Runtime, data: Any, shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "float32 int32")))
    x, array = viewed(data, gpu, values(rng, shape, dtype, special=data.draw(st.booleans())))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    rtol = 0 if x.dtype.kind == "f" else 2**-22  # of integers, NumPy's are float64
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        np.testing.assert_allclose(vnp.median(array, axis).numpy(), np.median(x, axis), rtol)
        np.testing.assert_allclose(vnp.median(array).numpy(), np.median(x), rtol)
    if n := x.shape[axis]:
        k = data.draw(st.integers(-n, n - 1))
        result = vnp.partition(array, k, axis).numpy()
        np.testing.assert_array_equal(np.take(result, k, axis), np.take(np.partition(x, k, axis), k, axis))
        order = vnp.argpartition(array, [k], axis).numpy()
        np.testing.assert_array_equal(np.take_along_axis(x, order, axis), result)


def test_a_graph_records_a_sort(gpu: vc.Runtime) -> None:
    x, out = gpu.zeros(3000), gpu.zeros(3000)
    with gpu.record() as graph:
        out.copy_from(sort(x))
    new = np.random.default_rng(0).random(3000, np.float32)
    x.write(new)
    graph.run()
    np.testing.assert_array_equal(out.numpy(), np.sort(new))


def test_errors(gpu: vc.Runtime) -> None:
    with pytest.raises(ValueError, match="an array of 2 axes has axes -2 to 1; got 2"):
        sort(gpu.zeros((2, 3)), 2)
    with pytest.raises(ValueError, match="k from 0 to the length of the axis, 3; got 4"):
        topk(gpu.zeros((2, 3)), 4)
    with pytest.raises(ValueError, match="kth is -3 to 2 for 3 elements; got 3"):
        vnp.partition(gpu.zeros((2, 3)), 3)
    with pytest.raises(ValueError, match="one shape"):
        lexsort([gpu.zeros(2), gpu.zeros(3)])


@pytest.mark.poor
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("end", ["least", "greatest"])
def test_distinct_integers_of_a_small_range(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str, end: str
) -> None:
    """They are counted in a table, not sorted."""
    if not dtypes_of(gpu, dtype):
        pytest.skip(f"the device has no {dtype}")
    monkeypatch.setattr(direct_tables, "_FEWEST_ROWS", 2)
    info = np.iinfo(dtype)
    low = info.min if end == "least" else info.max - 100
    x = np.random.default_rng(0).integers(low, low + 100, (20, 30), dtype=dtype, endpoint=True)
    expected = np.unique(x.reshape(-1), return_index=True, return_inverse=True, return_counts=True)
    result = unique(gpu.array(x))
    for mine, wanted in zip(result, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy().reshape(-1), wanted)
    assert result.inverse.shape == x.shape
    np.testing.assert_array_equal(distinct(gpu.array(x)).numpy(), expected[0])


@pytest.mark.parametrize("n_distinct", [5, 900])
@pytest.mark.parametrize("dtype", ["int64", "float64", "int32"])
def test_distinct_elements_in_any_order(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str, n_distinct: int
) -> None:
    """A table of 16 slots holds few of them; others are sorted."""
    if not dtypes_of(gpu, dtype):
        pytest.skip(f"the device has no {dtype}")
    monkeypatch.setattr(equal_rows, "_FEWEST_SLOTS", 16)
    x = (np.random.default_rng(0).integers(0, n_distinct, 2000) * 2_000_003).astype(dtype)
    if x.dtype.kind == "f":
        x[::7] = np.nan
    result = vnp.unique(gpu.array(x), sorted=False).numpy()
    np.testing.assert_array_equal(np.sort(result), np.unique(x))
