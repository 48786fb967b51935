"""Groups, joins and distinct rows beside dictionaries of Python: dtypes, several columns, keys that collide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, values, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import rows
from vkcompute.arrays.algorithms import direct_tables, equal_rows
from vkcompute.runtime.tuning import ON_CPU

HostArray = np.ndarray[Any, Any]
_ALL = "bool int8 int32 int64 uint16 uint64 float16 float32 float64 complex64"


def keys(columns: list[HostArray]) -> list[bytes]:
    """Returns a key of each row, whose zeros and NaN are equal."""
    parts = []
    for column in columns:
        x = column if column.ndim == 2 else column[:, None]
        x = np.concatenate([x.real, x.imag], 1) if x.dtype.kind == "c" else x
        parts.append(np.where(np.isnan(x), np.nan, x + 0.0).astype(x.dtype) if x.dtype.kind == "f" else x)
    return [b"".join(part[i].tobytes() for part in parts) for i in range(len(columns[0]))]


def grouped(columns: list[HostArray]) -> tuple[list[int], list[int]]:
    """Returns the numbers of the groups of all rows, and their first rows."""
    firsts: dict[bytes, int] = {}
    numbers, result = [], []
    for row, key in enumerate(keys(columns)):
        if key not in firsts:
            firsts[key] = len(firsts)
            result.append(row)
        numbers.append(firsts[key])
    return numbers, result


def check_groups(gpu: vc.Runtime, columns: list[HostArray], arrays: list[vc.Array] | None = None) -> None:
    """Compares groups and distinct rows."""
    given = arrays or [gpu.array(column) for column in columns]
    numbers, firsts = grouped(columns)
    groups = rows.group(given)
    np.testing.assert_array_equal(groups.numbers.numpy(), numbers)
    np.testing.assert_array_equal(groups.rows.numpy(), firsts)
    np.testing.assert_array_equal(groups.counts.numpy(), np.bincount(np.array(numbers, int), minlength=len(firsts)))
    np.testing.assert_array_equal(rows.unique(given).numpy(), firsts)


@pytest.fixture(params=["growth", "sorting"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Begins with tables of few slots, and then takes larger ones, or sorts."""
    hashed_rows = (0, 0) if request.param == "growth" else (1 << 20, 1 << 20)
    monkeypatch.setattr(equal_rows, "_FEWEST_SLOTS", 16)
    monkeypatch.setattr(equal_rows, "_MOST_PROBES", 8)
    monkeypatch.setattr(equal_rows, "tuning_of", lambda device: ON_CPU._replace(hashed_rows=hashed_rows))
    return str(request.param)


@given(data=st.data(), seed=seeds())
def test_groups(gpu: vc.Runtime, data: Any, seed: int) -> None:
    rng, n = np.random.default_rng(seed), data.draw(st.sampled_from([0, 1, 2, 100, 3000]))
    drawn = []
    for _ in range(data.draw(st.integers(1, 3))):
        shape = (n, *data.draw(st.sampled_from([(), (), (2,)])))
        drawn.append(viewed(data, gpu, values(rng, shape, data.draw(st.sampled_from(dtypes_of(gpu, _ALL))))))
    if len({x.shape[0] for x, _ in drawn}) == 1:
        check_groups(gpu, [x for x, _ in drawn], [array for _, array in drawn])


@pytest.mark.poor
@pytest.mark.parametrize("kind", ["distinct", "equal", "low bits", "high bits", "few", "random"])
def test_keys_of_two_words(gpu: vc.Runtime, method: str, kind: str) -> None:
    n, rng = 700, np.random.default_rng(0)
    x = {
        "distinct": rng.permutation(n), "equal": np.full(n, 7), "low bits": np.arange(n) << 20,
        "high bits": -np.arange(n), "few": rng.integers(0, 5, n), "random": rng.integers(0, n, n),
    }[kind]  # fmt: skip
    check_groups(gpu, [np.stack([x.astype(np.int32), (x >> 16).astype(np.int32)], 1)])


@pytest.mark.poor
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("end", ["least", "greatest", "between"])
def test_integers_of_a_small_range(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str, end: str) -> None:
    """A table has a slot for each of them, at either end of those of the dtype; others are looked up, too."""
    if not dtypes_of(gpu, dtype):
        pytest.skip(f"the device has no {dtype}")
    monkeypatch.setattr(direct_tables, "_FEWEST_ROWS", 2)
    monkeypatch.setattr(direct_tables, "_MOST_SLOTS", 100)
    info, rng = np.iinfo(dtype), np.random.default_rng(3)
    low = {"least": info.min, "greatest": info.max - 90, "between": 5}[end]
    x = rng.integers(low, low + 90, 600, dtype=dtype, endpoint=True)
    assert direct_tables.direct_table(gpu.array(x), x.size) is not None
    check_groups(gpu, [x])
    others = rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
    others[:60] = x[:60]
    check_join(gpu, [others], [x[40:400]])
    wide = np.concatenate([x, x + np.array(50, dtype)])
    wide = np.where(wide > info.max - 45, np.array(info.min, dtype), wide)
    check_groups(gpu, [wide])


@pytest.mark.parametrize("n_seeds", [1, 2])
def test_keys_that_collide(gpu: vc.Runtime, method: str, monkeypatch: pytest.MonkeyPatch, n_seeds: int) -> None:
    """The hashes of all keys have the same low bits: with another seed they differ, else they are sorted."""
    monkeypatch.setattr(equal_rows, "_MOST_SEEDS", n_seeds)
    every = np.arange(300_000, dtype=np.uint32)
    hashes = equal_rows._hash(every, np.arange(every.size), every.size, 1, 0)
    x = every[hashes & np.uint32(1023) == 5]
    assert x.size > 200
    check_groups(gpu, [np.tile(x, 2)])


def pairs_of(left: list[HostArray], right: list[HostArray], how: str) -> list[tuple[int, int]]:
    """Returns the pairs of equal rows."""
    matches: dict[bytes, list[int]] = {}
    for row, key in enumerate(keys(right)):
        matches.setdefault(key, []).append(row)
    missing = [-1] if how == "left" else []
    return [(row, other) for row, key in enumerate(keys(left)) for other in matches.get(key, missing)]


def check_join(gpu: vc.Runtime, left: list[HostArray], right: list[HostArray]) -> None:
    arrays = [gpu.array(x) for x in left], [gpu.array(x) for x in right]
    for how in ("inner", "left"):
        result, expected = rows.join(*arrays, how), np.array(pairs_of(left, right, how), int).reshape(-1, 2)
        np.testing.assert_array_equal(result.left.numpy(), expected[:, 0])
        np.testing.assert_array_equal(result.right.numpy(), expected[:, 1])
    known = set(keys(right))
    np.testing.assert_array_equal(rows.isin(*arrays).numpy(), np.array([key in known for key in keys(left)], bool))


@pytest.mark.rotates
@given(data=st.data(), seed=seeds())
def test_joins(gpu: vc.Runtime, data: Any, seed: int) -> None:
    """Duplicates on both sides, and rows without a partner."""
    rng, dtypes = np.random.default_rng(seed), data.draw(st.lists(st.sampled_from(dtypes_of(gpu, _ALL)), min_size=1))
    n_left, n_right = (data.draw(st.sampled_from([0, 1, 40, 500])) for _ in range(2))
    check_join(gpu, *[[values(rng, n, dtype) for dtype in dtypes[:2]] for n in (n_left, n_right)])


@pytest.mark.poor
def test_joins_by_both_methods(gpu: vc.Runtime, method: str) -> None:
    rng = np.random.default_rng(1)
    check_join(gpu, [rng.integers(0, 900, 800).astype(np.int32)], [rng.integers(0, 900, 500).astype(np.int32)])


def test_all_rows_have_all_partners(gpu: vc.Runtime) -> None:
    check_join(gpu, [np.zeros(60, np.float32)], [-np.zeros(70, np.float32)])


def test_columns_of_other_dtypes_are_promoted(gpu: vc.Runtime) -> None:
    left, right = np.array([1, 2, 3], np.int16), np.array([3, 2, 2.5], np.float32)
    result = rows.join(gpu.array(left), gpu.array(right))
    np.testing.assert_array_equal(result.left.numpy(), [1, 2])
    np.testing.assert_array_equal(result.right.numpy(), [1, 0])


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float64", "int8", "bool"])
def test_sums_and_extremes(gpu: vc.Runtime, dtype: str) -> None:
    """Few large groups, whose runs are longer than a part; values with an axis of their own, and NaN."""
    if not dtypes_of(gpu, dtype):
        return
    rng, n = np.random.default_rng(2), 5000
    numbers = np.concatenate([np.zeros(2000, int), rng.integers(0, 6, n - 2000)])
    groups, x = rows.group(gpu.array(numbers.astype(np.int32))), values(rng, (n, 2), dtype, special=False)
    firsts = groups.rows.numpy()
    members = [x[numbers == numbers[row]] for row in firsts]
    array = gpu.array(x)
    for result, reduced in ((groups.min(array), np.min), (groups.max(array), np.max)):
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result.numpy(), [reduced(member, axis=0) for member in members])
    totals, again = groups.sum(array).numpy(), groups.sum(array).numpy()
    np.testing.assert_array_equal(totals, again)
    exact = np.array([member.sum(0, dtype=np.float64 if x.dtype.kind == "f" else None) for member in members])
    epsilon = np.finfo(dtype).eps if x.dtype.kind == "f" else 0
    bound = 300 * epsilon * np.array([np.abs(member).sum(0, dtype=np.float64) for member in members])
    assert np.all(np.abs(totals - exact.astype(totals.dtype)) <= bound)


def test_extremes_of_nan(gpu: vc.Runtime) -> None:
    groups = rows.group(gpu.array(np.array([4, 5, 4, 5], np.int32)))
    x = gpu.array(np.array([1, 2, np.nan, 3], np.float32))
    np.testing.assert_array_equal(groups.min(x).numpy(), [np.nan, 2])
    np.testing.assert_array_equal(groups.max(x).numpy(), [np.nan, 3])


def test_errors(gpu: vc.Runtime) -> None:
    x = gpu.zeros(3)
    with pytest.raises(ValueError, match="at least one column; got none"):
        rows.group([])
    with pytest.raises(ValueError, match=r"columns of one length; got the shapes \[\(3,\), \(2,\)\]"):
        rows.group([x, gpu.zeros(2)])
    with pytest.raises(ValueError, match=r"one axis, or of two; got the shape \(\); reshape it"):
        rows.unique(gpu.zeros(()))
    with pytest.raises(TypeError, match=r"got ndarray; upload it by vkcompute\.numpy\.asarray"):
        rows.unique([np.zeros(3)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="as many columns; got 1 and 2"):
        rows.isin(x, [x, x])
    with pytest.raises(ValueError, match="'inner' or 'left'; got 'outer'"):
        rows.join(x, x, "outer")
    with pytest.raises(ValueError, match=r"for each of 3 rows along the first axis; got the shape \(2,\)"):
        rows.group(x).sum(gpu.zeros(2))
    with pytest.raises(TypeError, match="no complex numbers, which have no order; take their real parts"):
        rows.group(x).min(gpu.zeros(3, np.complex64))


def test_more_pairs_than_an_array_has(gpu: vc.Runtime) -> None:
    x = gpu.zeros(70_000, np.int32)
    with pytest.raises(ValueError, match=r"has about 4,\d{3},\d{3},\d{3} pairs; join parts of the left rows"):
        rows.join(x, x)
