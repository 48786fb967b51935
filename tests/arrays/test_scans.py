"""Scans beside NumPy's: dtypes, axes, views, sizes at which parts begin, rounding errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, shapes, values, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.arrays.algorithms import block_scan, scans
from vkcompute.arrays.algorithms.scans import OPERATIONS, cumulative
from vkcompute.runtime.tuning import ON_CPU, ON_GPU

_ACCUMULATE = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}
_INITIAL = {"sum": 0, "prod": 1, "or": False, "and": True}
_NARROW = {"int64": "int32", "uint64": "uint32"}


def expected(gpu: vc.Runtime, operation: str, x: Any, axis: int, *, initial: bool) -> Any:
    """Returns NumPy's scan, with integers of 32 bits where the device has no others."""
    result = _ACCUMULATE[operation].accumulate(x, axis)
    if operation in ("sum", "prod"):
        dtype = _ACCUMULATE[operation].reduce(x[:0], None).dtype.name
        name = _NARROW.get(dtype, dtype) if not dtypes_of(gpu, "int64") else dtype
        result = _ACCUMULATE[operation].accumulate(x, axis, np.dtype(name))
    if initial:
        shape = [1 if at == axis else n for at, n in enumerate(result.shape)]
        result = np.concatenate([np.full(shape, _INITIAL[operation], result.dtype), result], axis)
    return result


@given(data=st.data(), shape=shapes(), seed=seeds())
def test_integers(gpu: vc.Runtime, data: Any, shape: tuple[int, ...], seed: int) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, "bool int8 uint16 int32 uint32 int64")))
    operation = data.draw(st.sampled_from(["or", "and", "sum"] if dtype == "bool" else ["sum", "prod", "max", "min"]))
    x, array = viewed(data, gpu, values(np.random.default_rng(seed), shape, dtype))
    axis, initial = data.draw(st.integers(0, x.ndim - 1)), operation in _INITIAL and data.draw(st.booleans())
    result = cumulative(array, operation, axis - x.ndim * data.draw(st.booleans()), include_initial=initial)
    np.testing.assert_array_equal(result.numpy(), expected(gpu, operation, x, axis, initial=initial), strict=True)


@given(data=st.data(), seed=seeds(), operation=st.sampled_from(["max", "min"]))
def test_extremes_of_floats_propagate_nan(gpu: vc.Runtime, data: Any, seed: int, operation: str) -> None:
    x, array = viewed(data, gpu, values(np.random.default_rng(seed), (40, 9), "float32"))
    result = cumulative(array, operation, 0).numpy()
    np.testing.assert_array_equal(result, _ACCUMULATE[operation].accumulate(x, 0))


@pytest.mark.parametrize("part", [ON_CPU.scan_part, ON_GPU.scan_part])
@pytest.mark.parametrize("n", [1, 8, 9, 31, 32, 33, 255, 256, 257, 1025, 65_536, 65_537])
def test_sizes_where_parts_begin(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, n: int, part: int) -> None:
    monkeypatch.setattr(scans, "tuning_of", lambda device: ON_CPU._replace(scan_part=part))
    x = np.random.default_rng(n).integers(0, 2**32, (2, n, 2), np.uint32)
    result = cumulative(gpu.array(x), "sum", 1, np.uint32).numpy()
    np.testing.assert_array_equal(result, np.cumsum(x, 1, np.uint32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_of_floats_have_the_error_of_blocked_sums(gpu: vc.Runtime, dtype: str) -> None:
    if not dtypes_of(gpu, dtype):
        pytest.skip(f"the device has no {dtype}")
    x = np.random.default_rng(0).random(100_000 if dtype != "float16" else 1000).astype(dtype)
    exact = np.cumsum(x, dtype=np.float64 if dtype != "float64" else np.longdouble)
    result = cumulative(gpu.array(x), "sum", 0)
    assert result.dtype == dtype
    bound = 1 if dtype == "float16" else 3 * ON_CPU.scan_part  # float16 is summed in float32, and rounded once
    np.testing.assert_allclose(result.numpy(), exact, rtol=bound * np.finfo(dtype).eps)
    again = cumulative(gpu.array(x), "sum", 0)
    np.testing.assert_array_equal(result.numpy(), again.numpy())


def test_an_initial_element_of_extremes_is_their_identity(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([[3, 1], [2, 5]], np.int32))
    assert cumulative(x, "max", 0, include_initial=True).tolist() == [[-(2**31)] * 2, [3, 1], [3, 5]]
    assert cumulative(gpu.zeros(0), "min", 0, include_initial=True).tolist() == [np.inf]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_axis_out_of_range_is_an_error(gpu: vc.Runtime, operation: str) -> None:
    with pytest.raises(ValueError, match="an array of 1 axes has axes -1 to 0; got 1"):
        cumulative(gpu.zeros(3), operation, 1)


def test_a_graph_records_a_scan(gpu: vc.Runtime) -> None:
    x, out = gpu.zeros(2000, np.int32), gpu.zeros(2000, np.int32)
    with gpu.record() as graph:
        out.copy_from(cumulative(x, "sum", 0, np.int32))
    x.fill(2)
    graph.run()
    assert out.tolist() == list(range(2, 4001, 2))


@pytest.mark.rotates
@pytest.mark.parametrize("n", [1023, 1024, 2048, 2052, 4097, 9999])
@pytest.mark.parametrize("operation", ["sum", "prod"])
def test_long_lines_on_gpus(like_a_gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, operation: str, n: int) -> None:
    """The grid has two rows of workgroups, and some that have no part."""
    monkeypatch.setattr(block_scan, "MOST_GROUPS", 4)
    random = np.random.default_rng(n)
    names = "int8 uint16 int32 uint32 int64 float32" + " float16" * (operation == "sum")  # products overflow
    for dtype in dtypes_of(like_a_gpu, names):
        kind = np.dtype(dtype).kind
        x = random.integers(-3, 4, (3, n)).astype(dtype) if kind in "iu" else random.choice([0.5, 2], (3, n))
        x = np.where(random.random((3, n)) < 0.01, x, 0 if operation == "sum" else 1).astype(dtype)
        for initial in (False, True):
            result = cumulative(like_a_gpu.array(x), operation, 1, include_initial=initial)
            wanted = expected(like_a_gpu, operation, x, 1, initial=initial)
            np.testing.assert_array_equal(result.numpy(), wanted, dtype, strict=True)


def test_negative_zeros_on_gpus(like_a_gpu: vc.Runtime) -> None:
    x = np.full(5000, -0.0, np.float32)
    assert np.signbit(cumulative(like_a_gpu.array(x), "sum", 0).numpy()).all()


def test_parts_of_arrays_on_gpus(like_a_gpu: vc.Runtime) -> None:
    x = np.random.default_rng(0).integers(0, 9, (5000, 7), np.int32)
    array = like_a_gpu.array(x)
    for view in (np.s_[1:, 3], np.s_[::-1, 2], np.s_[1:4003, 0:1]):
        np.testing.assert_array_equal(cumulative(array[view], "sum", 0, np.int32).numpy(), np.cumsum(x[view], 0))


def test_contiguous_parts_that_no_device_binds(like_a_gpu: vc.Runtime) -> None:
    x = np.random.default_rng(0).integers(0, 9, (3, 5001), np.int32)
    array = like_a_gpu.array(x)
    for view in (np.s_[1], np.s_[0, 1:4001], np.s_[1:]):
        np.testing.assert_array_equal(cumulative(array[view], "sum", -1, np.int32).numpy(), np.cumsum(x[view], -1))
