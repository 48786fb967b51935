"""Advanced indexing beside NumPy's: reads and assignments, by arrays of integers and masks among slices."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, values, viewed
from hypothesis import given
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
from vkcompute.arrays.algorithms.gather import take, take_along_axis
from vkcompute.arrays.algorithms.scatter import put, put_along_axis
from vkcompute.arrays.functions import indexing


def masks(gpu: vc.Runtime) -> bool:
    """True if the device computes with bools in memory."""
    return bool(dtypes_of(gpu, "bool"))


@st.composite
def indices(draw: Any, shape: tuple[int, ...], with_masks: bool) -> tuple[Any, ...]:
    """Draws an index with at least one array: ints, slices, None and an ellipsis between arrays and masks."""
    common = draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]))
    rng = np.random.default_rng(draw(seeds()))
    results: list[Any] = []
    kinds = ["slice", "int", "array", "array", "none"] + ["mask"] * with_masks
    for n in shape:
        kind = draw(st.sampled_from(kinds))
        if kind == "none":
            results.append(None)
            kind = "array"
        if kind == "int" and n:
            results.append(int(rng.integers(-n, n)))
        elif kind == "mask" and len(common) == 1:
            mask = np.zeros(n, bool)
            mask[rng.permutation(n)[: common[0]]] = True
            results.append(mask if mask.sum() in (1, common[0]) else slice(None))
        elif kind == "array" and (n or 0 in common):
            results.append(rng.integers(-n, max(n, 1), common) if n else np.zeros(common, int))
        else:
            results.append(slice(None, None, draw(st.sampled_from([1, -1, 2]))))
    place = draw(st.integers(0, len(results)))
    rest = draw(st.integers(0, len(results) - place))
    if all(isinstance(result, slice) for result in results[place : place + rest]):
        results[place : place + rest] = [Ellipsis]
    if not any(isinstance(result, np.ndarray) for result in results):
        results.append(True)
    return tuple(results)


def on_device(gpu: vc.Runtime, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Makes device arrays of every other array."""
    wide = bool(dtypes_of(gpu, "int64"))
    results: list[Any] = []
    for place, array in enumerate(index):
        if isinstance(array, np.ndarray) and place % 2:
            array = gpu.array(array if wide or array.dtype == bool else array.astype(np.int32))
        results.append(array)
    return tuple(results)


@given(data=st.data(), seed=seeds())
def test_reads_and_assignments(gpu: vc.Runtime, data: Any, seed: int) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "int32 float32 float64 int8 float16")))
    shape = tuple(data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
    rng = np.random.default_rng(seed)
    x, array = viewed(data, gpu, values(rng, shape, dtype))
    index = data.draw(indices(x.shape, masks(gpu)))
    expected = x[index]
    np.testing.assert_array_equal(indexing.get(array, on_device(gpu, index)).numpy(), expected)
    some = values(rng, data.draw(st.sampled_from([expected.shape, expected.shape[1:], ()])), dtype)
    x = x.copy()
    x[index] = some
    indexing.put(array, on_device(gpu, index), gpu.array(some))
    np.testing.assert_array_equal(array.numpy(), x)


@pytest.mark.parametrize("n", [1, 64, 5000])
def test_of_repeated_indices_the_last_is_assigned(gpu: vc.Runtime, n: int) -> None:
    rng = np.random.default_rng(n)
    x, at, new = np.zeros((100, 2), np.int32), rng.integers(-100, 100, n), np.arange(2 * n, dtype=np.int32)
    array = gpu.array(x)
    x[at] = new.reshape(n, 2)
    indexing.put(array, at, gpu.array(new.reshape(n, 2)))
    np.testing.assert_array_equal(array.numpy(), x)


def test_values_that_overlap_the_target(gpu: vc.Runtime) -> None:
    x = np.arange(1000, dtype=np.int32)
    array = gpu.array(x)
    x[np.arange(1000)] = x[::-1].copy()
    indexing.put(array, np.arange(1000), array[::-1])
    np.testing.assert_array_equal(array.numpy(), x)


@given(data=st.data(), seed=seeds())
def test_take(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, array = viewed(data, gpu, values(rng, data.draw(st.sampled_from([(7,), (3, 5), (2, 3, 4)])), "float32"))
    axis, mode = (
        data.draw(st.none() | st.integers(0, x.ndim - 1)),
        data.draw(st.sampled_from(["raise", "wrap", "clip"])),
    )
    n = x.size if axis is None else x.shape[axis]
    reach = n if mode == "raise" else 3 * n
    kind = data.draw(st.sampled_from(dtypes_of(gpu, "int32 uint32 int8 uint64 int64")))
    at = rng.integers(0 if kind[0] == "u" else -reach, reach, (2, 3)).astype(kind)
    result = take(array, gpu.array(at), axis, mode).numpy()
    np.testing.assert_array_equal(result, np.take(x, at.astype(np.int64), axis, mode=mode))


@given(data=st.data(), seed=seeds())
def test_along_an_axis(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, array = viewed(data, gpu, values(rng, (3, 4, 5), "int32"))
    axis = data.draw(st.integers(-3, 2))
    shape = [n if at == axis % 3 else data.draw(st.sampled_from([1, n])) for at, n in enumerate(x.shape)]
    shape[axis] = data.draw(st.integers(0, 6))
    at = rng.integers(-x.shape[axis], x.shape[axis], shape).astype(np.int32)
    result = take_along_axis(array, gpu.array(at), axis)
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(x, at, axis))
    x = x.copy()
    np.put_along_axis(x, at, 7, axis)
    put_along_axis(array, gpu.array(at), gpu.array(np.int32(7)), axis)
    np.testing.assert_array_equal(array.numpy(), x)


@given(data=st.data(), seed=seeds())
def test_a_value_by_a_mask(gpu: vc.Runtime, data: Any, seed: int) -> None:
    if not masks(gpu):
        return
    rng = np.random.default_rng(seed)
    x, array = viewed(data, gpu, values(rng, data.draw(st.sampled_from([(0,), (9,), (4, 5)])), "float32"))
    mask, value = rng.random(x.shape) < 0.5, rng.standard_normal(data.draw(st.sampled_from([(), (1,)])))
    x = x.copy()
    x[mask] = value
    indexing.put(array, gpu.array(mask), gpu.array(value.astype(np.float32)))
    np.testing.assert_array_equal(array.numpy(), x.astype(np.float32))


def test_put_repeats_values(gpu: vc.Runtime) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = gpu.array(x)
    np.put(x, [0, 5, -1, 5], [-1, -2, -3])
    put(array, gpu.array(np.array([0, 5, -1, 5], np.int32)), gpu.array(np.array([-1, -2, -3], np.int32)))
    np.testing.assert_array_equal(array.numpy(), x)


@pytest.mark.parametrize("at", [[0, 4], [0, -5, 1], [2**31 - 1], [-(2**31)], [2**40]])
def test_an_index_out_of_range(gpu: vc.Runtime, at: list[int]) -> None:
    """It is an error at once, or of the result if the index is on the device."""
    x, worst = gpu.zeros((3, 4)), max(at, key=lambda n: n - 3 if n > 0 else -4 - n)
    message = rf"index {worst} is out of bounds for axis 1 with size 4"
    with pytest.raises(IndexError, match=message):
        indexing.get(x, (slice(None), np.array(at)))
    if abs(worst) < 2**40:
        result = indexing.get(x, (slice(None), gpu.array(np.array(at, np.int32))))
        with pytest.raises(IndexError, match=message):
            result.numpy()


def test_several_axes_tell_the_first_wrong_one(gpu: vc.Runtime) -> None:
    """Their indices share one report, which is free of the last error when it is used again."""
    x = gpu.array(np.arange(12, dtype=np.int32).reshape(3, 4))
    for _ in range(3):
        for rows, columns, wrong in [([2, 0], [3, -4], None), ([0, -9], [7, 0], "index -9 .* axis 0 with size 3"),
                                     ([1, 1], [1, 6], "index 6 .* axis 1 with size 4")]:  # fmt: skip
            for dtypes in ((np.int32, np.int32), (np.int16, np.int64), (np.int32, np.uint32)):
                if min(rows + columns) < 0 and dtypes[1] is np.uint32:
                    continue
                at = tuple(gpu.array(np.array(n, dtype)) for n, dtype in zip((rows, columns), dtypes, strict=True))
                if wrong is None:
                    assert x[at].tolist() == x.numpy()[rows, columns].tolist()
                    continue
                with pytest.raises(IndexError, match=wrong):
                    x[at].numpy()


def test_a_repeated_index_keeps_no_memory(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(12, dtype=np.int32).reshape(3, 4))
    kept = []
    for _ in range(4):  # one of these calls is traced
        rows, columns = gpu.array(np.int32([2, 0])), gpu.array(np.int32([1, 3]))
        assert x[rows, columns].tolist() == [9, 3]
        kept += [weakref.ref(rows.buffer), weakref.ref(columns.buffer)]
    del rows, columns
    gpu.wait()
    gc.collect()
    assert [reference() for reference in kept] == [None] * 8


@pytest.mark.parametrize(("dtype", "wrong", "text"), [
    ("int64", 2**40, "2147483649 or more is"), ("int64", -(2**40), "-2147483650 or less is"),
    ("int64", 2**31, "2147483648 is"), ("int32", 2**31 - 1, "2147483647 is"),
    ("uint32", 2**32 - 1, "2147483649 or more, or negative, is"),
])  # fmt: skip
def test_a_huge_index_is_told_as_far_as_a_report_holds_it(gpu: vc.Runtime, dtype: str, wrong: int, text: str) -> None:
    if lacks(gpu, dtype):
        pytest.skip(f"the device lacks {dtype}")
    with pytest.raises(IndexError, match=f"index {text} out of bounds for axis 0 with size 3"):
        gpu.array(np.arange(3, dtype=np.int32))[gpu.array(np.array([0, wrong], dtype))].numpy()


def test_indices_of_more_axes_than_one_report_had_words_for(gpu: vc.Runtime) -> None:
    host = np.arange(4, dtype=np.int32).reshape((2,) + (1,) * 33 + (2,))
    x, at = gpu.array(host), np.array([1, 0], np.int32)
    zero = np.zeros(2, np.int32)
    key = (at, *[zero] * 33, at)
    assert x[tuple(map(gpu.array, key))].tolist() == host.reshape(2, 2)[at, at].tolist()
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 34 with size 2"):
        x[tuple(map(gpu.array, (at, *[zero] * 33, at + 4)))].numpy()


def test_elements_with_an_index_out_of_range_are_not_assigned(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4, np.int32)
    done = x[2:]
    indexing.put(x, gpu.array(np.array([1, 9], np.int32)), gpu.array(np.array([5, 6], np.int32)))
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 4"):
        x.numpy()
    done.fill(0)


_WRONG = [
    ((np.array([0]), np.array([0]), np.array([0])), "too many indices"),
    ((np.array([0, 1]), np.array([0, 1, 2])), "could not be broadcast"),
    ((np.array([0.5]),), "integer"),
    ((3, np.array([0])), "index 3 is out of bounds for axis 0 with size 3"),
    ((..., np.array([0]), ...), "single ellipsis"),
    ((np.array([True, False]),), "boolean index did not match"),
]


@pytest.mark.parametrize(("index", "message"), _WRONG)
def test_wrong_indices(gpu: vc.Runtime, index: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        indexing.get(gpu.zeros((3, 4)), index)
    with pytest.raises(IndexError):
        np.zeros((3, 4))[index]


def test_many_axes(gpu: vc.Runtime) -> None:
    x = np.arange(math.prod((2, 3, 2, 2, 3, 2)), dtype=np.int32).reshape(2, 3, 2, 2, 3, 2)
    index = (slice(None), np.array([0, 2]), ..., np.array([[1], [2]]), 1)
    np.testing.assert_array_equal(indexing.get(gpu.array(x), index).numpy(), x[index])


def test_a_graph_records_reads_and_assignments(gpu: vc.Runtime) -> None:
    """Each run checks the indices that it finds."""
    x, at, out = gpu.array(np.arange(5.0, dtype=np.float32)), gpu.zeros(3, np.int32), gpu.zeros(3)
    with gpu.record() as graph:
        out.copy_from(indexing.get(x, at))
        indexing.put(x, at, gpu.zeros(1))
    for new in ([4, 0, 4], [1, -2, 2]):
        before = x.numpy()
        at.write(np.array(new, np.int32))
        graph.run()
        assert out.tolist() == before[new].tolist()
        before[new] = 0
        assert x.tolist() == before.tolist()
    at.write(np.array([0, 5, 0], np.int32))
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
        graph.run()


@pytest.mark.parametrize("lengths", [(0,), (0, 0), (2, 0), (0, 3)])
def test_a_mask_without_elements_selects_none(gpu: vc.Runtime, lengths: tuple[int, ...]) -> None:
    mask, host = np.zeros(lengths, bool), np.ones((2, 3), np.float32)
    x = gpu.array(host)
    assert x[gpu.array(mask)].shape == x[mask].shape == host[mask].shape
    x[gpu.array(mask)] = 5
    assert (x.numpy() == 1).all()


def test_bools_without_axes(gpu: vc.Runtime) -> None:
    x = gpu.zeros((), np.int32)
    assert indexing.get(x, True).shape == (1,)
    assert indexing.get(x, False).shape == (0,)
    indexing.put(x, True, gpu.array(np.int32(3)))
    indexing.put(x, False, gpu.array(np.int32(4)))
    assert x.item() == 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.uint64])
def test_host_indices_of_any_integers(gpu: vc.Runtime, dtype: type) -> None:
    """Dask's are of the smallest dtype that holds them, with which few devices compute."""
    host = np.arange(6, dtype=np.float32)
    at = np.array([4, 0, 5], dtype)
    assert np.array_equal(gpu.array(host)[at].numpy(), host[at])
    with pytest.raises(IndexError, match="out of bounds"):
        gpu.array(host)[np.array([6], dtype)].numpy()


@pytest.mark.parametrize("is_pending", [False, True])
def test_the_element_of_an_array_without_axes_is_a_copy(gpu: vc.Runtime, *, is_pending: bool) -> None:
    """`x[()]`, as in NumPy; and `x[...]` is a view, whether x is computed or not."""
    x = gpu.array(np.int32(5)) + np.int32(0) if is_pending else gpu.array(np.int32(5))
    element, view = x[()], x[...]
    element += 1
    assert (element.item(), x.item()) == (6, 5)
    view += 2
    assert (element.item(), x.item()) == (6, 7)
    x[()] = 9
    assert (element.item(), x.item(), view.item()) == (6, 9, 9)
    x[()] = gpu.array(np.int32(11)) * 2
    assert (element.item(), x.item(), view.item()) == (6, 22, 22)
