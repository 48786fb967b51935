"""Sorts, selections, groups and clusters: the goals of docs/algorithms.md beside NumPy, scikit-learn and polars.

NPY_DISABLE_CPU_FEATURES="AVX512F AVX512CD AVX512_SKX" python benchmarks/run.py --only selections
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from algorithms import OnDevice, by_sklearn, centres
from context import Cases, Context, count_of
from measure import Case, HostArray, Local
from peers.work import Blocking

import vkcompute.numpy as vnp
from vkcompute import rows
from vkcompute.arrays.algorithms import selection

TITLE = "sorts and selections"
_K, _ITERATIONS = 5, 5
Finish = Callable[[Any], HostArray]


class Finished:
    """A program whose result is made comparable after it was timed."""

    def __init__(self, program: Any, finish: Finish) -> None:
        self._program, self._finish = program, finish
        self.enqueue, self.wait = program.enqueue, program.wait

    def result(self) -> HostArray:
        return self._finish(self._program.out)


class Host(Blocking):
    """A function of the host's arrays."""

    def __init__(self, function: Callable[..., Any], given: Any) -> None:
        self._function, self._given = function, given

    def enqueue(self) -> None:
        self.out = self._function(*self._given)


def cases(context: Context) -> Cases:
    """Yields the cases of the goals, smaller ones for small sizes."""
    full, make = context.sizes.small >= 1 << 20, partial(_case, context)
    n, m, side = (1 << 24, 1_000_000, 4096) if full else (1 << 12, 3000, 64)
    rng = np.random.default_rng(0)
    few, ints, many = rng.random(m, np.float32), rng.integers(0, 1 << 30, m, np.int32), rng.random(n, np.float32)
    stable = partial(np.argsort, kind="stable")
    yield make("sort", m, "numpy", np.sort, vnp.sort, (few,))
    yield make("argsort", m, "numpy", stable, vnp.argsort, (few,), _narrow)
    yield _unique(context, ints)
    yield make("nonzero", n, "numpy", np.flatnonzero, selection.flatnonzero, (many > 0.5,), _narrow)
    yield make("argmin", n, "numpy", np.argmin, vnp.argmin, (many,), _narrow)
    yield make("mean_0", n, "numpy", partial(np.mean, axis=0), _mean, (many.reshape(side, -1),), tolerance=1e-4)
    sums = rng.random(10 * m, np.float32)
    yield make("cumsum", 10 * m, "numpy", np.cumsum, vnp.cumsum, (sums,), tolerance=1e-2)
    yield _clusters(context, 200_000 if full else 2000, *((32, 64) if full else (4, 3)))
    yield from _groups(context, 10 * m)
    height = 10_000 if full else 300
    table = rng.random((height, height), np.float32)
    first = partial(np.argpartition, kth=_K - 1, axis=1)
    finish = partial(_first_values, table)
    yield make("topk", table.size, "numpy", first, partial(vnp.topk, k=_K, axis=1, largest=False), (table,), finish)


def _case(
    context: Context, name: str, n: int, peer: str, theirs: Any, ours: Any, given: Any,
    finish: Finish = np.asarray, tolerance: float = 0.0,
) -> Case:  # fmt: skip
    """Makes a case of a function of the host, and of one of the device."""
    expected = cache(lambda: finish(theirs(*given)))
    host, device = lambda: Finished(Host(theirs, given), finish), lambda: OnDevice(context.runtime, ours, given)
    programs = [
        Local(peer, host, expected, tolerance=tolerance),
        Local(
            "vkcompute", lambda: Finished(device(), lambda out: finish(_on_host(out))), expected, tolerance=tolerance
        ),
    ]
    return Case(f"selections.{name}", f"{name}, {count_of(n)} elements", peer, programs)


def _on_host(out: Any) -> Any:
    return tuple([part.numpy() for part in out]) if isinstance(out, tuple) else out.numpy()


def _mean(x: Any) -> Any:
    result = vnp.mean(x, axis=0)
    result.compute()
    return result


def _narrow(indices: Any) -> HostArray:
    return np.asarray(indices).astype(np.int32)


def _first_values(table: HostArray, out: Any) -> HostArray:
    """Returns the first values of each row in order: of indices, or of values and indices."""
    indices = out[1] if isinstance(out, tuple) else out[:, :_K]
    return np.sort(np.take_along_axis(table, indices.astype(np.int64), 1), axis=1)


def _unique(context: Context, ints: HostArray) -> Case:
    """Makes the case of distinct integers, beside the device's sort of the same ones."""
    given, expected = (ints,), cache(lambda: np.unique(ints))
    programs = [
        Local(name, partial(OnDevice, context.runtime, function, given), result)
        for name, function, result in (
            ("sort", vnp.sort, cache(lambda: np.sort(ints))),
            ("vkcompute", vnp.unique, expected),
        )
    ]
    return Case("selections.unique", f"unique, {count_of(ints.size)} elements", "sort", programs)


def _clusters(context: Context, n: int, width: int, k: int) -> Case:
    """Makes the case of k-means of points without clusters, so that no iteration is the last."""
    points = np.random.default_rng(0).normal(size=(width, n)).astype(np.float32)
    given = points, points[:, :k].copy()
    ours = partial(centres, iterations=_ITERATIONS)
    has_peer = importlib.util.find_spec("sklearn") is not None
    peer, theirs = ("scikit-learn", partial(by_sklearn, iterations=_ITERATIONS)) if has_peer else ("numpy", ours)
    return _case(context, "kmeans", n * width, peer, theirs, ours, given, tolerance=1e-2)


def _groups(context: Context, n: int) -> Cases:
    """Yields the case of sums by keys, if polars is installed and the device has integers of 64 bits."""
    if importlib.util.find_spec("polars") is None or "shaderInt64" not in context.runtime.device.features:
        return
    import polars  # not at import: it need not be installed

    rng = np.random.default_rng(0)
    keys, values = rng.integers(0, 100, n) * 7919, rng.integers(-9, 9, n)
    frame = polars.DataFrame({"key": keys, "value": values})

    def theirs(*_: Any) -> Any:
        sums = frame.group_by("key").agg(polars.col("value").sum())
        return sums["key"].to_numpy(), sums["value"].to_numpy()

    def ours(keys: Any, values: Any) -> Any:
        groups = rows.group(keys)
        return keys[groups.rows], groups.sum(values)

    yield _case(context, "groups", n, "polars", theirs, ours, (keys, values), _by_key)


def _by_key(out: Any) -> HostArray:
    keys, sums = out
    return np.asarray(sums[np.argsort(keys)])
