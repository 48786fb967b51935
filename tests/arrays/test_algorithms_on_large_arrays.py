"""Arrays larger than a binding: the right result, or an error that names the limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from runtimes import needs_bindings, open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms import fft, gather, order_statistics, scans, segments, selection, sorting
from vkcompute.arrays.functions import indexing, reductions

LIMIT = 4096
_X = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
_AT = np.random.default_rng(1).integers(0, 3000, 50).astype(np.int32)
_ALGORITHMS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "scan": (lambda x, at: scans.cumulative(x, "max", 0), np.maximum.accumulate(_X)),
    "take": (lambda x, at: gather.take(x, at), _X[_AT]),
    "nonzero": (lambda x, at: selection.flatnonzero(x), np.arange(3000)),
    "count": (lambda x, at: reductions.count_nonzero(x), np.int64(3000)),
    "repeat": (lambda x, at: selection.repeat(x, 2), np.repeat(_X, 2)),
    "sort": (lambda x, at: sorting.sort(x), np.sort(_X)),
    "sort rows": (lambda x, at: sorting.sort(x.reshape(300, 10)), np.sort(_X.reshape(300, 10))),
    "unique": (lambda x, at: sorting.unique(x).values, np.unique(_X)),
    "fft": (lambda x, at: fft.rfft(x), np.fft.rfft(_X.astype(np.float64)).view(np.float64).reshape(-1, 2)),
    "bincount": (lambda x, at: segments.bincount(at, None, 3000), np.bincount(_AT, None, 3000)),
    "product": (lambda x, at: x.reshape(50, 60) @ x.reshape(60, 50), _X.reshape(50, 60) @ _X.reshape(60, 50)),
    "argmax": (lambda x, at: vnp.argmax(x.reshape(300, 10), axis=0), np.argmax(_X.reshape(300, 10), axis=0)),
    "mean, again": (
        lambda x, at: [vnp.mean(x.reshape(300, 10), axis=0) for _ in range(3)][-1],
        _X.reshape(300, 10).mean(0),
    ),
    "histogram": (lambda x, at: vnp.histogram(x, 20)[0], np.histogram(_X, 20)[0]),
    "interp": (lambda x, at: vnp.interp(x, vnp.sort(x), x), np.interp(_X, np.sort(_X), _X)),
    "convolve": (lambda x, at: vnp.convolve(x, x[:9]), np.convolve(_X, _X[:9])),
    "isin": (lambda x, at: vnp.isin(x, x[at]), np.isin(_X, _X[_AT])),
    "sums of a transpose": (lambda x, at: x.reshape(300, 10).T.sum(axis=0), _X.reshape(300, 10).sum(axis=1)),
}
_ROUNDED = {"fft", "mean, again", "product", "interp", "convolve", "sums of a transpose"}


@pytest.mark.parametrize("name", _ALGORITHMS)
def test_results_are_right_or_refused(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    x, at = gpu.array(_X), gpu.array(_AT)
    monkeypatch.setattr(type(gpu.device), "max_binding_bytes", LIMIT)
    work, expected = _ALGORITHMS[name]
    try:
        result = work(x, at).numpy()
    except ValueError as error:
        assert re.search(f"binds at most {LIMIT}|bindings of {LIMIT} bytes", str(error))  # noqa: PT017  # either passes
    else:
        np.testing.assert_allclose(result, expected, atol=1e-4 if name in _ROUNDED else 0)


def test_assignments_are_right(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_bindings(gpu, 8)
    x, at, new = gpu.array(_X), gpu.array(_AT), gpu.zeros(1)
    with monkeypatch.context() as patch:
        patch.setattr(type(gpu.device), "max_binding_bytes", LIMIT)
        indexing.put(x, at, new)
        indexing.put(x[:1000], gpu.array(_AT % 1000), new)
    expected = _X.copy()
    expected[_AT] = expected[_AT % 1000] = 0
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.fixture(scope="module")
def poor() -> Iterator[vc.Runtime]:
    """Launches that reach four bindings of 4 KiB."""
    with open_runtime(profile="poor", limits={"maxStorageBufferRange": LIMIT}) as runtime:
        yield runtime


_N = 1500
_Y = np.random.default_rng(2).standard_normal(_N).astype(np.float32)
_K = np.random.default_rng(3).integers(0, 40, _N).astype(np.int32)
_EXACT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "running sum": lambda xp, x, k: xp.cumsum(k),
    "running sums of columns": lambda xp, x, k: xp.cumsum(k.reshape(-1, 30), axis=0, dtype=np.int64),
    "running maximum": lambda xp, x, k: xp.maximum.accumulate(x),
    "take": lambda xp, x, k: x[xp.argsort(k, kind="stable")],
    "one long row": lambda xp, x, k: xp.take(xp.stack([x, -x]), k[:1] % 2, axis=0),
    "columns": lambda xp, x, k: xp.take(x.reshape(-1, 50), k, axis=1),
    "sort": lambda xp, x, k: xp.sort(x),
    "order": lambda xp, x, k: xp.argsort(k, kind="stable"),
    "searchsorted": lambda xp, x, k: xp.searchsorted(xp.sort(x), x[::-1]),
    "isin": lambda xp, x, k: xp.isin(x, x[k], invert=True),
    "unique inverse": lambda xp, x, k: xp.unique(k, return_inverse=True)[1],
    "mask": lambda xp, x, k: x[k > 7],
    "nonzero": lambda xp, x, k: xp.nonzero(k.reshape(-1, 30) > 7)[1],
    "repeat": lambda xp, x, k: xp.repeat(x, k % 3),
    "bincount": lambda xp, x, k: xp.bincount(k),
    "bincount of many": lambda xp, x, k: xp.bincount(k * 30 + 5),
    "histogram": lambda xp, x, k: xp.histogram(x, 30)[0],
}


def _first(xp: Any, x: Any, k: int) -> Any:
    """The indices of the k largest elements of rows, in order."""
    return np.argsort(-x, axis=-1, kind="stable")[..., :k] if xp is np else xp.topk(x, k)[1]


_EXACT |= {
    "first of one row": lambda xp, x, k: _first(xp, k, 7),
    "many of one row": lambda xp, x, k: _first(xp, k, 40),
    "most of one row": lambda xp, x, k: _first(xp, x, 700),
    "first of rows": lambda xp, x, k: _first(xp, k.reshape(30, 50), 5),
    "first of long rows": lambda xp, x, k: _first(xp, xp.stack([k, -k]), 40),
}
_CLOSE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "transforms": lambda xp, x, k: xp.fft.fft(x.reshape(30, 50) * 1j),
    "transforms of columns": lambda xp, x, k: xp.fft.ifft(x.reshape(30, 50) * 1j, axis=0),
    "transforms of prime lengths": lambda xp, x, k: xp.fft.rfft(x[:1480].reshape(40, 37)),
    "real transforms back": lambda xp, x, k: xp.fft.irfft(xp.fft.rfft(x.reshape(30, 50)), 50),
    "transforms of planes": lambda xp, x, k: xp.fft.fft2(x.reshape(5, 6, 50)),
    "weighted bincount": lambda xp, x, k: xp.bincount(k, x),
    "interp": lambda xp, x, k: xp.interp(x, xp.sort(x), x),
    "product of many rows": lambda xp, x, k: x.reshape(-1, 30) @ x[:900].reshape(30, 30),
    "product of many columns": lambda xp, x, k: x[:900].reshape(30, 30) @ x.reshape(30, -1),
    "product of long rows": lambda xp, x, k: x.reshape(30, -1) @ x.reshape(-1, 30),
    "trapezoid": lambda xp, x, k: xp.trapezoid(x, x=xp.sort(x)),
    "convolution": lambda xp, x, k: xp.convolve(x, x[:1100]),
    "stacked products": lambda xp, x, k: x.reshape(2, 30, 25) @ x.reshape(2, 25, 30),
}


@pytest.mark.rotates
@pytest.mark.parametrize("name", [*_EXACT, *_CLOSE])
def test_functions_reach_beyond_the_bindings_of_a_launch(poor: vc.Runtime, name: str) -> None:
    function = (_EXACT | _CLOSE)[name]
    expected, result = function(np, _Y, _K), function(vnp, poor.array(_Y), poor.array(_K)).numpy()
    if name in _EXACT:
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


_RANKED: dict[str, Callable[[Any, Any], Any]] = {
    "partition": lambda xp, x: xp.sort(xp.partition(x, 30)[:30]),
    "argpartition": lambda xp, x: xp.sort(xp.argpartition(x, 30)[:30]),
    "median": lambda xp, x: xp.median(x),
    "medians of rows": lambda xp, x: xp.median(x.reshape(3, -1), axis=1),
    "medians of short rows": lambda xp, x: xp.median(x.reshape(-1, 3), axis=1),
    "quantiles of columns": lambda xp, x: xp.quantile(x.reshape(-1, 3), 0.3, axis=0),
}


@pytest.mark.rotates
@pytest.mark.parametrize("n", [90, 300, 900, 1500, 6000])
@pytest.mark.parametrize("name", _RANKED)
def test_ranks_beyond_the_bindings_of_a_launch(
    poor: vc.Runtime, monkeypatch: pytest.MonkeyPatch, name: str, n: int
) -> None:
    """Elements are selected where launches reach them, and sorted where they do not."""
    monkeypatch.setattr(order_statistics, "_FEWEST", 2)
    monkeypatch.setattr(order_statistics, "_SHORTEST_ROW", 2)
    x = np.random.default_rng(n).permutation(n).astype(np.float32)
    np.testing.assert_allclose(_RANKED[name](vnp, poor.array(x)).numpy(), _RANKED[name](np, x), rtol=1e-6)


_DRAWN: dict[str, Callable[[Any, Any, Any], Any]] = {
    "permutation": lambda draw, x, k: draw.permutation(x),
    "long order": lambda draw, x, k: draw.permutation(6000),
    "permutation of columns": lambda draw, x, k: draw.permutation(x.reshape(30, 50), axis=1),
    "choice": lambda draw, x, k: draw.choice(x, size=1200),
    "choice without replacement": lambda draw, x, k: draw.choice(x.reshape(50, 30), size=20, replace=False),
    "binomial": lambda draw, x, k: draw.binomial(k, np.linspace(0, 1, _N)),
    "gamma": lambda draw, x, k: draw.standard_gamma(k / 7),
    "beta": lambda draw, x, k: draw.beta(k + 1, k / 3 + 1),
    "integers": lambda draw, x, k: draw.integers(-k - 1, k + 1),
    "negative binomial": lambda draw, x, k: draw.negative_binomial(3, 0.5, 5000),
    "weighted choice": lambda draw, x, k: draw.choice(9, size=5000, p=[0.2, *[0.1] * 8]),
}


@pytest.mark.rotates
@pytest.mark.parametrize("name", _DRAWN)
def test_random_numbers_are_the_same_beyond_the_bindings_of_a_launch(
    gpu: vc.Runtime, poor: vc.Runtime, name: str
) -> None:
    results = []
    for runtime in (gpu, poor):
        x = runtime.array(_Y) if "permutation" in name or name.startswith("choice") else None
        results.append(_DRAWN[name](vnp.random.default_rng(5, device=runtime), x, _K).numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.rotates
@pytest.mark.parametrize("n", [40, 1500])
def test_assignments_reach_beyond_the_bindings_of_a_launch(poor: vc.Runtime, n: int) -> None:
    """Of values with one index the last is assigned, also where parts of the indices take several launches."""
    x, expected = poor.array(_Y), _Y.copy()
    x[poor.array(_K[:n] * 30)] = poor.array(np.arange(n, dtype=np.float32))
    expected[_K[:n] * 30] = np.arange(n)
    np.testing.assert_array_equal(x.numpy(), expected)
    vnp.add.at(x, poor.array(_K[:n]), 0.5)
    np.add.at(expected, _K[:n], np.float32(0.5))
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "uint8", "bool"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((700, 2), 1), ((2, 1500), 0), ((4, 512), 0), ((3, 500, 2), (0, 2)), ((8, 500), 0)]
)
def test_results_beyond_a_binding(poor: vc.Runtime, shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    """Results may be larger than the array, and those of both halves of an axis as large as a binding."""
    x = np.random.default_rng(5).integers(0, 3, shape).astype(dtype)
    for function in (np.sum, np.max, np.any, np.mean, *([np.argmax] if isinstance(axis, int) else [])):
        result = getattr(vnp, function.__name__)(poor.array(x), axis=axis)
        np.testing.assert_allclose(result.numpy(), function(x, axis=axis), rtol=1e-3)


@pytest.mark.rotates
@pytest.mark.parametrize("indices", [[1], [1, 1, 0], [0, 1] * 20])
@pytest.mark.parametrize("name", ["add", "maximum"])
def test_long_rows_are_combined_beyond_the_bindings(poor: vc.Runtime, name: str, indices: list[int]) -> None:
    """Also the totals of parts of the values, two for each part and column, are reached."""
    for n_columns in (350, 700):
        expected = _Y[: 2 * n_columns].reshape(2, n_columns).copy()
        x, at = poor.array(expected), np.array(indices, np.int32)
        values = np.random.default_rng(4).integers(-9, 9, (len(at), n_columns)).astype(np.float32)
        getattr(vnp, name).at(x, poor.array(at), poor.array(values))
        getattr(np, name).at(expected, at, values)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_refused_beyond_the_bindings_of_a_launch(poor: vc.Runtime) -> None:
    indices = _K.astype(np.int64)
    indices[-1] = _N
    with pytest.raises(IndexError, match=rf"index {_N} is out of bounds for axis 0 with size {_N}"):
        poor.array(_Y)[poor.array(indices)].numpy()


@pytest.mark.rotates
@pytest.mark.parametrize("n", [512, 525, 251, 257, 1009, 1372, 1500])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "hfft"])
def test_a_transform_of_one_row_reaches_beyond_the_bindings_of_a_launch(poor: vc.Runtime, name: str, n: int) -> None:
    """Lengths that a launch reaches, and beyond: products of 2, 3, 5 and 7, primes, even and odd ones."""
    function, back = (getattr(vnp.fft, of) for of in (name, {"rfft": "irfft", "hfft": "ihfft"}.get(name, "fft")))
    x = _Y[:n] if name == "rfft" else (_Y[:n] + 1j * _Y[::-1][:n]).astype(np.complex64)
    result = function(poor.array(x))
    expected = getattr(np.fft, name)(x.astype(np.complex128 if name != "rfft" else np.float64))
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-6 * np.abs(expected).max(), rtol=0)
    if name == "rfft":
        np.testing.assert_allclose(back(result, n).numpy(), x, atol=1e-5)


@pytest.mark.rotates
@pytest.mark.parametrize("n", [700, 1009])
def test_a_transform_of_one_row_of_doubles_reaches_beyond_the_bindings_of_a_launch(poor: vc.Runtime, n: int) -> None:
    x = _Y[:n].astype(np.float64) * (1 + 2j)
    np.testing.assert_allclose(vnp.fft.fft(poor.array(x)).numpy(), np.fft.fft(x), atol=1e-13, rtol=1e-12)
