"""NumPy's functions beyond the standard beside NumPy's own: drawn shapes, dtypes, axes and views."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, shapes, values, viewed
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.runtime.memory.array import Array

Case = Callable[[Any, Any, Any], Any]
"""A call of the functions of a namespace, with an array and an axis."""

ANY: dict[str, Case] = {
    "flip": lambda xp, x, k:
        (xp.fliplr(xp.atleast_2d(x)), xp.flipud(x)), "rot90": lambda xp, x, k: xp.rot90(xp.atleast_2d(x), k),
    "atleast": lambda xp, x, k: (xp.atleast_1d(x), xp.atleast_2d(x), xp.atleast_3d(x)),
    "vstack": lambda xp, x, k: xp.vstack([x, x]),
    "hstack": lambda xp, x, k: xp.hstack([x, x]),
    "dstack": lambda xp, x, k: xp.dstack((x, x)),
    "append": lambda xp, x, k: (xp.append(x, x, k), xp.append(x, x)),
    "array_split": lambda xp, x, k: xp.array_split(x, 3, k),
    "split": lambda xp, x, k: xp.split(x, [1, 2, 9], k),
    "rollaxis": lambda xp, x, k: xp.rollaxis(x, k),
    "insert": lambda xp, x, k: xp.insert(x, [0, x.shape[k]], 1, k),
    "flatnonzero": lambda xp, x, k: xp.flatnonzero(x),
    "resize": lambda xp, x, k: xp.resize(x, (3, 5)),
    "extract": lambda xp, x, k: xp.extract(x > 1, x),
    "count": lambda xp, x, k: xp.count_nonzero(x, axis=k),
    "pad": lambda xp, x, k: xp.pad(x, 2),
    "pad constants": lambda xp, x, k: xp.pad(x, (1, 3), constant_values=(1, 2)),
    "ediff1d": lambda xp, x, k:
        xp.ediff1d(x), "ediff1d ends": lambda xp, x, k: xp.ediff1d(x, to_end=[1, 2], to_begin=3),
    "nansum": lambda xp, x, k: (xp.nansum(x, k), xp.nansum(x, keepdims=True)),
    "nanprod": lambda xp, x, k: xp.nanprod(x % 3, k),
    "nancumsum": lambda xp, x, k: xp.nancumsum(x, k),
    "nancumprod": lambda xp, x, k: xp.nancumprod(x % 2),
    "nan_to_num": lambda xp, x, k: xp.nan_to_num(x),
    "isclose": lambda xp, x, k: xp.isclose(x, xp.flip(x)),
    "isclose to a number": lambda xp, x, k: (xp.isclose(x, 1), xp.isclose(x, 2.5, 0.5, 1.0)),
    "same": lambda xp, x, k: (xp.allclose(x, x), xp.array_equal(x, x), xp.array_equiv(x, x), xp.array_equal(x, x[:1])),
    "sizes": lambda xp, x, k: (xp.shape(x), xp.ndim(x), xp.size(x), xp.size(x, k)),
    "lexsort": lambda xp, x, k: xp.lexsort([x, xp.flip(x)], k),
    "sets": lambda xp, x, k: xp.isin(x, [0, 1, 2, 5]),
    "sum where": lambda xp, x, k: xp.sum(x, k, where=x > 1, initial=2),
    "prod where": lambda xp, x, k: xp.prod(x % 2, k, where=x > 1),
    "max where": lambda xp, x, k: xp.max(x, k, where=x > 1, initial=3),
    "any where": lambda xp, x, k: xp.any(x > 0, k, where=x < 2),
    "all where": lambda xp, x, k: xp.all(x > 0, k, where=x > -2),
    "select": lambda xp, x, k: xp.select([x > 2, x > 0], [x, x * 2], 7),
    "piecewise": lambda xp, x, k: xp.piecewise(x, [x < 0, x > 2], [lambda e: e * 2, 3, 1]),
    "divmod": lambda xp, x, k: xp.divmod(x, 3),
    "add.reduce": lambda xp, x, k: xp.add.reduce(x, k),
    "add.accumulate": lambda xp, x, k: xp.add.accumulate(x, k),
    "maximum.accumulate": lambda xp, x, k: xp.maximum.accumulate(x, k),
    "outer": lambda xp, x, k: xp.subtract.outer(x, x[:1]),
    "logical_and.reduce": lambda xp, x, k: xp.logical_and.reduce(x, k),
    "set functions": lambda xp, x, k:
        (xp.union1d(x, x[:1]), xp.setdiff1d(x, x[:1]), xp.setxor1d(x, x[:1]), xp.intersect1d(x, x[:1])),
    "trapezoid": lambda xp, x, k: xp.trapezoid(x % 5, axis=k),
    "compress": lambda xp, x, k: xp.compress([True] * min(1, x.shape[k]), x, k),
    "moved": lambda xp, x, k:
        (xp.moveaxis(x, k, 0), xp.roll(x, 3, k), xp.tile(x, [2, 1]), xp.repeat(x, 2, k), xp.swapaxes(x, 0, k)),
    "column-major": lambda xp, x, k: (xp.ravel(x, order="F"), xp.reshape(x, (-1, 1), order="F"), x.flatten("F")),
    "grid": lambda xp, x, k: xp.meshgrid(x.reshape(-1)[:5], x.reshape(-1)[:3], indexing="ij"),
    "where": lambda xp, x, k: (xp.where(x > 1, x, 0), xp.clip(x, -1, 3), xp.minimum(x, xp.flip(x))),
    "products": lambda xp, x, k:
        (xp.einsum("...i,...i", x % 4, x % 4), xp.vecdot(x % 4, x % 4), xp.kron(x % 4, x.reshape(-1)[:2] % 4)),
    "cumulative": lambda xp, x, k: (xp.cumsum(x, k), xp.cumprod(x % 2), xp.diff(x, axis=k), xp.unique(x)),
    "triangles": lambda xp, x, k: (xp.triu(xp.atleast_1d(x), k), xp.tril(xp.atleast_1d(x), k)),
}  # fmt: skip

FILLED: dict[str, Case] = {
    "pad edge": lambda xp, x, k: xp.pad(x, 3, "edge"),
    "pad reflect": lambda xp, x, k: xp.pad(x, 3, "reflect"),
    "pad symmetric": lambda xp, x, k: xp.pad(x, (5, 2), "symmetric"),
    "pad wrap": lambda xp, x, k: xp.pad(x, 4, "wrap"),
    "pad maximum": lambda xp, x, k: xp.pad(x, 1, "maximum", stat_length=2),
    "pad mean": lambda xp, x, k: xp.pad(x, 2, "mean"),
    "pad median": lambda xp, x, k: xp.pad(x, 1, "median"),
    "pad minimum": lambda xp, x, k: xp.pad(x, 1, "minimum"),
    "pad linear_ramp": lambda xp, x, k: xp.pad(x, 3, "linear_ramp", end_values=4),
    "delete": lambda xp, x, k: (xp.delete(x, 0, k), xp.delete(x, [0, -1], k), xp.delete(x, slice(0, 2))),
    "insert one": lambda xp, x, k: (xp.insert(x, 1, 5, k), xp.insert(x, [0, 1], [3, 4])),
    "median": lambda xp, x, k: (xp.median(x, k), xp.median(x, keepdims=True)),
    "percentile": lambda xp, x, k: (xp.percentile(x, 30, k), xp.percentile(x, [0, 25, 99.5, 100], k, keepdims=True)),
    "average": lambda xp, x, k: (xp.average(x, k), xp.average(x, weights=abs(x % 7) + 1, returned=True)),
    "nanmean": lambda xp, x, k: (xp.nanmean(x, k), xp.nanvar(x, k), xp.nanstd(x, k, ddof=1)),
    "nanmax": lambda xp, x, k: (xp.nanmax(x, k), xp.nanmin(x, k, keepdims=True)),
    "nanmedian": lambda xp, x, k: (xp.nanmedian(x, k), xp.nanpercentile(x, 40, k)),
    "ptp": lambda xp, x, k: xp.ptp(x, k),
    "choose": lambda xp, x, k: xp.choose(xp.minimum(abs(x % 3), 2) > 1, [x, x * 0]),
    "histogram": lambda xp, x, k: xp.histogram(x, 7),
    "histogram range": lambda xp, x, k: xp.histogram(x, 5, (-2, 3))[0],
    "digitize": lambda xp, x, k:
        (xp.digitize(x, np.array([-3, 0, 2], x.dtype)), xp.digitize(x, np.array([4, 1], x.dtype), True)),
    "distinct slices": lambda xp, x, k: xp.unique(x % 2, axis=k, return_inverse=True, return_counts=True),
    "var where": lambda xp, x, k: (xp.var(x, k, where=x > -51), xp.std(x, keepdims=True, where=x > -51)),
    "cov": lambda xp, x, k: (xp.cov(x.reshape(x.shape[0], -1)), xp.gradient(x, axis=k)),
    "taken": lambda xp, x, k: (xp.take(x, [2, -1, 0], k), xp.sort(x, k), xp.take_along_axis(x, xp.argsort(x, k), k)),
    "extremes": lambda xp, x, k: (xp.argmax(x, k), xp.argmin(x), xp.nanargmax(x, k), xp.max(x, k)),
    "apply_along_axis": lambda xp, x, k: xp.apply_along_axis(lambda line: line[::-1] * 2, k, x),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _float64(gpu: vc.Runtime) -> None:
    """Skips tests on a device without float64, to which int32 and float32 promote."""
    if lacks(gpu, "float64"):
        pytest.skip("the device has no float64")


def same(result: Any, expected: Any, dtype: np.dtype[Any]) -> None:
    """Compares results: shapes, kinds of dtypes, and elements, to the precision of the dtype."""
    if isinstance(expected, (tuple, list)):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            same(one, other, dtype)
        return
    expected = np.asarray(expected)
    host = result.numpy() if type(result) is Array else np.asarray(result)
    assert host.shape == expected.shape
    assert host.dtype.kind == expected.dtype.kind
    loose = {2: 4e-3, 4: 2e-5}.get(dtype.itemsize, 2e-5) if expected.dtype.kind == "f" else 0
    scale = np.abs(np.nan_to_num(expected, posinf=0, neginf=0)).max(initial=0) if loose else 0
    np.testing.assert_allclose(host, expected, loose, loose * scale)


def compare(gpu: vc.Runtime, data: Any, case: Case, shape: tuple[int, ...], seed: int, names: str) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(gpu, names)))
    host = values(np.random.default_rng(seed), shape, dtype, special=False)
    host = np.clip(host, 0 if host.dtype.kind == "u" else -50, 50).astype(dtype)  # sums stay exact in int32
    x, array = viewed(data, gpu, host)
    if x.size and data.draw(st.integers(0, 3), "repeated") == 0:
        x, array = np.broadcast_to(x[:1], x.shape), array[:1].broadcast_to(x.shape)
    if data.draw(st.booleans(), "pending"):
        array = array.astype(array.dtype)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1), "axis")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = case(np, x, axis)
    same(case(vnp, array, axis), expected, x.dtype)


@pytest.mark.parametrize("name", ANY)
@settings(max_examples=2)
@given(data=st.data(), shape=shapes(1, 3), seed=seeds())
def test_functions(gpu: vc.Runtime, name: str, data: Any, shape: tuple[int, ...], seed: int) -> None:
    compare(gpu, data, ANY[name], tuple(n % 9 for n in shape), seed, "int32 float32 float64 uint32 int64")


@pytest.mark.rotates
@pytest.mark.parametrize("name", FILLED)
@settings(max_examples=2)
@given(data=st.data(), shape=shapes(1, 3), seed=seeds())
def test_functions_of_elements_that_exist(
    gpu: vc.Runtime, name: str, data: Any, shape: tuple[int, ...], seed: int
) -> None:
    compare(gpu, data, FILLED[name], tuple(3 + n % 9 for n in shape), seed, "int32 float32 float64")
