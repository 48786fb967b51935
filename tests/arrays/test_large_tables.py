"""Functions of tables of arrays that take more bindings than a launch has, beside dictionaries of Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from drawn_arrays import values
from runtimes import open_runtime
from test_ragged_segments import identity
from test_rows import grouped, keys, pairs_of

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import rows, segments
from vkcompute.arrays.algorithms import direct_tables

HostArray = np.ndarray[Any, Any]
LIMIT = 4096
_SMALL, _LARGE = 1537, 6145
"""Rows whose int32 take 1.5 bindings, and 6; a launch has 3 for arrays."""


@pytest.fixture(scope="module")
def poor() -> Iterator[vc.Runtime]:
    """Launches that reach four bindings of 4 KiB."""
    with open_runtime(profile="poor", limits={"maxStorageBufferRange": LIMIT}) as runtime:
        yield runtime


def _columns(n: int, name: str) -> list[HostArray]:
    """Returns columns with duplicates, NaN and zeros of both signs, or the keys of a kind."""
    rng = np.random.default_rng(n)
    kinds: dict[str, Any] = {
        "one key": lambda: [np.full(n, -7, np.int32)],
        "distinct": lambda: [rng.permutation(n).astype(np.int32)],
        "few": lambda: [rng.integers(0, 9, n).astype(np.uint32)],
        "at the ends": lambda: [np.where(np.isin(np.arange(n), [0, n // 2, n - 1]), 0, np.arange(n)).astype(np.int32)],
        "rows of an array": lambda: [rng.integers(0, 30, (n, 2)).astype(np.int32)],
    }
    return kinds[name]() if name in kinds else [values(rng, n, dtype) for dtype in name.split()]


_KEYS = ["one key", "distinct", "few", "at the ends", "rows of an array"]
_DTYPES = ["float32", "int64", "float16 bool", "uint8 float32 int16", "float64 int32", "complex64"]
_TABLES = [(_SMALL, name) for name in _KEYS + _DTYPES] + [(_LARGE, name) for name in ("distinct", "few", "float32")]


@pytest.mark.rotates
@pytest.mark.parametrize(("n", "name"), _TABLES)
@pytest.mark.parametrize("n_others", [0, 40, 1300])
def test_isin(poor: vc.Runtime, n: int, name: str, n_others: int) -> None:
    table = _columns(n, name)
    others = [np.concatenate([column[::3], column[:1]])[:n_others].copy() for column in table]
    known = set(keys(others))
    result = rows.isin(*[[poor.array(column) for column in columns] for columns in (table, others)])
    np.testing.assert_array_equal(result.numpy(), np.array([key in known for key in keys(table)], bool))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_isin_of_a_small_range(poor: vc.Runtime, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """A table with a slot for each integer of the range, in which more elements than a launch reaches are looked up."""
    monkeypatch.setattr(direct_tables, "_FEWEST_ROWS", 2)
    monkeypatch.setattr(direct_tables, "_MOST_SLOTS", 100)
    x = np.random.default_rng(4).integers(0, 60, 2 * _SMALL + 1).astype(dtype)
    assert direct_tables.direct_table(poor.array(x[:30]), 30) is not None
    np.testing.assert_array_equal(vnp.isin(poor.array(x), poor.array(x[:30])).numpy(), np.isin(x, x[:30]))


@pytest.mark.rotates
@pytest.mark.parametrize(("n", "name"), _TABLES)
def test_unique(poor: vc.Runtime, n: int, name: str) -> None:
    table = _columns(n, name)
    result = rows.unique([poor.array(column) for column in table])
    np.testing.assert_array_equal(result.numpy(), grouped(table)[1])


@pytest.mark.rotates
@pytest.mark.parametrize(("n", "name"), _TABLES)
def test_group(poor: vc.Runtime, n: int, name: str) -> None:
    table = _columns(n, name)
    numbers, firsts = grouped(table)
    groups = rows.group([poor.array(column) for column in table])
    np.testing.assert_array_equal(groups.numbers.numpy(), numbers)
    np.testing.assert_array_equal(groups.rows.numpy(), firsts)
    np.testing.assert_array_equal(groups.counts.numpy(), np.bincount(numbers))


@pytest.mark.parametrize("name", ["distinct", "few"])
def test_values_of_groups(poor: vc.Runtime, name: str) -> None:
    table = _columns(_SMALL, name)
    numbers, firsts = grouped(table)
    groups = rows.group([poor.array(column) for column in table])
    x = np.random.default_rng(1).integers(-99, 99, _SMALL).astype(np.int32)
    np.testing.assert_array_equal(groups.sum(poor.array(x)).numpy(), np.bincount(numbers, x).astype(np.int64))
    expected = x[firsts]
    np.maximum.at(expected, numbers, x)
    np.testing.assert_array_equal(groups.max(poor.array(x)).numpy(), expected)


@pytest.mark.rotates
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize(
    ("n", "n_others", "name"),
    [
        *[(_SMALL, 300, name) for name in ("distinct", "at the ends", "rows of an array", "int64")],
        *[(_SMALL, 9, name) for name in ("float32", "float16 bool")],
        *[(17, _SMALL, name) for name in ("few", "one key", "float32")],
        (_LARGE, 1500, "distinct"),
    ],
)
def test_join(poor: vc.Runtime, how: str, n: int, n_others: int, name: str) -> None:
    """Tables with more pairs than rows, on the left or on the right, and rows without a partner."""
    both = _columns(n + n // 2, name)
    left, right = [x[:n].copy() for x in both], [np.resize(x[n // 2 :], (n_others, *x.shape[1:])) for x in both]
    result = rows.join([poor.array(column) for column in left], [poor.array(column) for column in right], how)
    expected = np.array(pairs_of(left, right, how)).reshape(-1, 2)
    np.testing.assert_array_equal(result.left.numpy(), expected[:, 0])
    np.testing.assert_array_equal(result.right.numpy(), expected[:, 1])


_SCANS = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}


@pytest.mark.rotates
@pytest.mark.parametrize(
    ("offsets", "is_exclusive", "is_reverse"),
    [
        *[("one", False, False), ("few", True, False), ("many", False, True), ("many", True, True)],
        *[("at halves", False, False), ("at halves", True, True)],
    ],
)
@pytest.mark.parametrize(
    ("n", "dtype", "operation"),
    [
        *[(_SMALL, "float32", operation) for operation in _SCANS],
        *[(_SMALL, dtype, "sum") for dtype in ("int8", "int64", "float16", "float64", "bool")],
        *[(_SMALL, dtype, "max") for dtype in ("bool", "float16", "uint64")],
        *[(_LARGE, "int32", operation) for operation in ("sum", "min")],
    ],
)
def test_scan(
    poor: vc.Runtime, n: int, dtype: str, operation: str, offsets: str, is_exclusive: bool, is_reverse: bool
) -> None:
    """Segments that begin and end anywhere, also where a part does; small integers, whose results are exact."""
    rng = np.random.default_rng(n)
    low, high = (1, 2) if operation == "prod" else (0 if dtype[0] in "bu" else -3, 2 if dtype == "bool" else 4)
    x = rng.integers(low, high, n).astype(dtype)
    if operation == "prod":
        x[rng.integers(0, n, 30)] *= -2
    if operation == "max" and dtype[0] == "f":
        x[rng.integers(0, n, 9)] = np.nan
    inner = {"one": [], "few": np.sort(rng.integers(0, n + 1, 7)), "many": np.sort(rng.integers(0, n + 1, 900))}
    ends = [0, *inner.get(offsets, [n // 4, n // 2, n // 2, n // 2 + 1, n - n // 4]), n]
    result = segments.scan(poor.array(x), ends, operation, exclusive=is_exclusive, reverse=is_reverse).numpy()
    step = slice(None, None, -1 if is_reverse else 1)
    for first, end in pairwise(ends):
        scanned, mine = _SCANS[operation](x[first:end][step]), result[first:end][step]
        if is_exclusive and end > first:
            assert mine[0] == identity(operation, result.dtype)
            scanned, mine = scanned[:-1], mine[1:]
        np.testing.assert_array_equal(mine, scanned)


@pytest.mark.rotates
@pytest.mark.parametrize(("n", "dtype"), [(_SMALL, "int32"), (_SMALL, "float64"), (_LARGE, "int32")])
def test_sorts_of_segments(poor: vc.Runtime, n: int, dtype: str) -> None:
    x = values(np.random.default_rng(n), n, dtype)
    ends = [0, 5, 5, n // 2, n // 2 + 3, n]
    expected = [np.argsort(x[first:end], kind="stable") + first for first, end in pairwise(ends)]
    np.testing.assert_array_equal(segments.argsort(poor.array(x), ends).numpy(), np.concatenate(expected))
