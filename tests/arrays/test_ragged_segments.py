"""Sorts and scans of segments of any lengths, beside NumPy's of each segment."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, values, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import segments
from vkcompute.arrays.algorithms import ragged
from vkcompute.runtime.tuning import ON_CPU

_ALL = "bool int8 int32 int64 uint64 float16 float32 float64"
_SCANS = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}


def offsets_of(data: Any, rng: np.random.Generator, n: int) -> Any:
    """Draws where segments of n elements begin, many of which may be empty."""
    inner = np.sort(rng.integers(0, n + 1, data.draw(st.sampled_from([0, 1, 5, 300]))))
    return np.concatenate([[0], inner, [n]])


@given(data=st.data(), seed=seeds())
def test_sorts(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng, n = np.random.default_rng(seed), data.draw(st.sampled_from([0, 1, 70, 2000]))
    x, array = viewed(data, gpu, values(rng, n, data.draw(st.sampled_from(dtypes_of(gpu, _ALL)))))
    offsets, down = offsets_of(data, rng, x.size), data.draw(st.booleans())
    parts = []
    for first, end in pairwise(offsets):
        part = x[first:end]
        order = part.size - 1 - np.argsort(part[::-1], kind="stable")[::-1] if down else np.argsort(part, kind="stable")
        parts.append(first + order)
    expected = np.concatenate(parts)
    given_offsets = gpu.array(offsets) if data.draw(st.booleans()) else offsets
    np.testing.assert_array_equal(segments.argsort(array, given_offsets, descending=down).numpy(), expected)
    np.testing.assert_array_equal(segments.sort(array, offsets, descending=down).numpy(), x[expected])


@pytest.mark.rotates
@pytest.mark.poor
@pytest.mark.parametrize("part", [32, 64])
@given(data=st.data(), seed=seeds())
def test_scans(gpu: vc.Runtime, part: int, data: Any, seed: int) -> None:
    """Segments within a part, over several parts, and over all; small integers, whose results are exact."""
    rng, n = np.random.default_rng(seed), data.draw(st.sampled_from([0, 1, 33, 3000]))
    operation, dtype = data.draw(st.sampled_from(list(_SCANS))), data.draw(st.sampled_from(dtypes_of(gpu, _ALL)))
    low = 1 if operation == "prod" or dtype[0] in "bu" else -3
    x, array = viewed(data, gpu, rng.integers(low, 2 if operation == "prod" else 4, n).astype(dtype))
    offsets = offsets_of(data, rng, x.size)
    is_exclusive, is_reverse = data.draw(st.booleans()), data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "tuning_of", lambda device: ON_CPU._replace(scan_part=part))
        result = segments.scan(array, offsets, operation, exclusive=is_exclusive, reverse=is_reverse).numpy()
    step = slice(None, None, -1 if is_reverse else 1)
    for first, end in pairwise(offsets):
        scanned, mine = _SCANS[operation](x[first:end][step]), result[first:end][step]
        if is_exclusive:
            scanned, mine = scanned[:-1], mine[1:]
        np.testing.assert_array_equal(mine, scanned)
        if is_exclusive and end > first:
            assert result[first:end][step][0] == identity(operation, result.dtype)


def identity(operation: str, dtype: np.dtype[Any]) -> Any:
    """Returns the number that changes no result."""
    if operation in ("sum", "prod"):
        return int(operation == "prod")
    is_max = operation == "max"
    if dtype.kind == "f":
        return -np.inf if is_max else np.inf
    return not is_max if dtype.kind == "b" else np.iinfo(dtype).min if is_max else np.iinfo(dtype).max


def test_errors(gpu: vc.Runtime) -> None:
    x = gpu.zeros(5)
    with pytest.raises(ValueError, match="do not decrease; got 4 and then 2 at 2; sort the segments by where"):
        segments.sort(x, [0, 4, 2, 5])
    with pytest.raises(ValueError, match=r"from 0 to the number of elements, 5; got 0 to 4; pass the elements"):
        segments.argsort(x, gpu.array(np.array([0, 4])))
    with pytest.raises(ValueError, match="from 0 to the number of elements, 5; got 1 to 5"):
        segments.scan(x, [1, 5])
    with pytest.raises(TypeError, match="offsets that are integers; got float64"):
        segments.scan(x, [0.0, 5.0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"along one axis; got the shapes \(5,\) and \(0,\)"):
        segments.scan(x, [])
    with pytest.raises(ValueError, match="an operation of 'sum', 'prod', 'max', 'min'; got 'mean'"):
        segments.scan(x, [0, 5], "mean")
