"""Rows of tables, segments and order statistics against NumPy: what invocations decide by atomic operations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn, rows, segments
from vkcompute.gpu_report.items import Item, Items, Session, equal, equal_integers

_N = 50_000


def items() -> Items:
    """Returns the items by name: hash tables first, whose invocations exchange the most."""
    by_name: dict[str, Item] = {}
    for name, n_groups in (("few", 60), ("many", 20_000), ("almost all", 10 * _N)):
        by_name[f"groups, {name}"] = partial(_grouped, n_groups)
    others = (
        distinct_rows, joins, members, sorted_segments, scanned_segments, order_statistics, partitions, scatters,
        pooling,
    )  # fmt: skip
    return by_name | {item.__name__.replace("_", " "): item for item in others}


def _integers(n: int, high: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([n, high, seed]).integers(0, high, n).astype(np.int32)


def _floats(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).normal(size=n).astype(np.float32)


def _grouped(n_groups: int, session: Session) -> None:
    """Groups of rows of an integer and a float, several times: which invocation is first differs between runs."""
    keys = _integers(_N, n_groups)
    table = [session.gpu.array(keys // 2), session.gpu.array((keys % 2).astype(np.float32))]
    _, firsts, numbers, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(firsts)
    for _ in range(4):
        groups = rows.group(table)
        equal_integers(groups.rows, firsts[order])
        equal_integers(groups.numbers, np.argsort(order)[numbers.ravel()])
        equal_integers(groups.counts, counts[order])


def distinct_rows(session: Session) -> None:
    """The first of equal rows, and distinct values with NaN, where nearly all differ."""
    x = np.round(_floats(_N), 4)
    x[::1111] = np.nan
    equal_integers(rows.unique(session.gpu.array(x)), np.sort(np.unique(x, return_index=True)[1]))
    equal(vnp.unique(session.gpu.array(x)), np.unique(x))


def joins(session: Session) -> None:
    """Pairs of equal rows, of keys that both tables have several times."""
    left, right = _integers(3000, 4000), _integers(5000, 4000)
    pairs = rows.join(session.gpu.array(left), session.gpu.array(right))
    order = np.argsort(right, kind="stable")
    begins, ends = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    equal_integers(pairs.left, np.repeat(np.arange(left.size), ends - begins))
    equal_integers(pairs.right, np.concatenate([order[a:b] for a, b in zip(begins, ends, strict=True)]))


def members(session: Session) -> None:
    """Rows that another table has, and elements that another array has."""
    x, others = _integers(_N, 30_000), _integers(9000, 30_000, 1)
    equal(rows.isin(session.gpu.array(x), session.gpu.array(others)), np.isin(x, others))
    equal(vnp.isin(session.gpu.array(x), session.gpu.array(others)), np.isin(x, others))


def _offsets() -> np.ndarray[Any, Any]:
    """Returns the offsets of segments of many lengths, some of which are empty."""
    lengths = [*_integers(300, 40), 0, 1, 5000, 0, 2049]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def sorted_segments(session: Session) -> None:
    """Sorts and stable orders of segments."""
    offsets = _offsets()
    x = np.round(_floats(int(offsets[-1])), 2)
    parts = np.split(x, offsets[1:-1])
    equal(segments.sort(session.gpu.array(x), offsets), np.concatenate([np.sort(part) for part in parts]))
    orders = [begin + np.argsort(part, kind="stable") for begin, part in zip(offsets, parts, strict=False)]
    equal_integers(segments.argsort(session.gpu.array(x), offsets), np.concatenate(orders))


def scanned_segments(session: Session) -> None:
    """Cumulative sums and maxima of segments, which span workgroups."""
    offsets = _offsets()
    x = _integers(int(offsets[-1]), 1000)
    parts = np.split(x, offsets[1:-1])
    array = session.gpu.array(x)
    equal_integers(segments.scan(array, offsets), np.concatenate([np.cumsum(part) for part in parts]))
    largest = np.concatenate([np.maximum.accumulate(part) for part in parts])
    equal_integers(segments.scan(array, offsets, "max"), largest)


def order_statistics(session: Session) -> None:
    """The largest elements with their indices, the k-th smallest, and medians."""
    x = _floats(24_000).reshape(8, 3000)
    array = session.gpu.array(x)
    order = np.argsort(-x, axis=1, kind="stable")[:, :50]
    values, at = vnp.topk(array, 50)
    equal(values, np.take_along_axis(x, order, 1))
    equal_integers(at, order)
    equal(nn.kthvalue(array, 1234)[0], np.sort(x, 1)[:, 1233])
    equal(nn.kthvalue(session.gpu.array(x.reshape(-1)), 20_001)[0], np.sort(x, None)[20_000])
    equal(vnp.median(array, axis=1), np.median(x, axis=1), 1e-6)


def partitions(session: Session) -> None:
    """Elements on the two sides of one."""
    x, k = _floats(100_003), 40_000
    result = vnp.partition(session.gpu.array(x), k).numpy()
    equal(np.concatenate([np.sort(result[:k]), result[k : k + 1], np.sort(result[k + 1 :])]), np.sort(x))


def scatters(session: Session) -> None:
    """Assignments by indices that repeat, and sums by them."""
    at, values = _integers(_N, 700), _integers(_N, 100, 1)
    x = session.gpu.zeros(700, np.int32)
    x[session.gpu.array(at)] = session.gpu.array(values)
    expected = np.zeros(700, np.int32)
    expected[at] = values
    equal(x, expected)
    sums = vnp.bincount(session.gpu.array(at), session.gpu.array(values.astype(np.float32)), minlength=700)
    equal(sums, np.bincount(at, values, 700).astype(sums.dtype))


def pooling(session: Session) -> None:
    """Maxima and means of windows of images."""
    x = _floats(2 * 3 * 16 * 18).reshape(2, 3, 16, 18)
    windows = x.reshape(2, 3, 8, 2, 9, 2)
    array: vc.Array = session.gpu.array(x)
    equal(nn.max_pool2d(array, 2), windows.max((3, 5)))
    equal(nn.avg_pool2d(array, 2), windows.astype(np.float64).mean((3, 5)).astype(np.float32), 1e-6)
