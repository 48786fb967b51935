"""Functions of arrays against NumPy: expressions, reductions, scans, sorts, indexing, products, networks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.gpu_report.items import Item, Items, Session, equal, equal_integers

_INTEGERS = "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
_FLOATS = "float16", "float32", "float64"
_EPSILONS = 64
"""Tolerance of functions of floats, in epsilons of the type, relative to the largest result."""
_SIZES = 1, 1000, 100_003


def items() -> Items:
    """Returns the items by name, by the number of passes over memory that they need."""
    by_name: dict[str, Item] = {}
    for dtype in (*_FLOATS, *_INTEGERS):
        by_name[f"sort {dtype}"] = partial(_sorted, dtype)
        by_name[f"reductions {dtype}"] = partial(_reduced, dtype)
        by_name[f"scans {dtype}"] = partial(_scanned, dtype)
        by_name[f"elementwise {dtype}"] = partial(_elementwise, dtype)
    by_name |= {f"matmul {dtype}": partial(_matmul, dtype) for dtype in (*_FLOATS, "int32")}
    others = (
        functions_of_floats, complex_numbers, reductions_of_functions, axes, variances, indexing, segments, selections,
        unique_values, histograms, fourier_transforms, decompositions, random_arrays, networks, convolutions,
        attention, functions_of_lines, graphs_of_arrays,
    )  # fmt: skip
    return by_name | {item.__name__.replace("_", " "): item for item in others}


def _numbers(dtype: str, n: int, *, few: bool = False) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(n)
    if dtype.startswith("float"):
        return random.normal(size=n).astype(dtype)
    limits = np.iinfo(dtype)
    low, high = (0, 7) if few else (limits.min, limits.max)
    return random.integers(low, high, n, dtype, endpoint=True)


def _with(session: Session, dtype: str) -> None:
    """Raises Unavailable unless the device has a dtype."""
    needed = {"float64": "shaderFloat64", "int64": "shaderInt64", "uint64": "shaderInt64"}
    if dtype in needed:
        session.require(needed[dtype])


def _tolerance(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) * _EPSILONS


def _sorted(dtype: str, session: Session) -> None:
    """Sorts and stable orders, with ties and NaN."""
    _with(session, dtype)
    for n in _SIZES:
        x = _numbers(dtype, n)
        if dtype.startswith("float") and n > 1:
            x[::97] = np.nan
            x[5::89] = -0.0
        equal(vnp.sort(session.gpu.array(x)), np.sort(x))
        few = _numbers(dtype, n, few=True) if not dtype.startswith("float") else np.round(x)
        equal_integers(vnp.argsort(session.gpu.array(few), stable=True), np.argsort(few, kind="stable"))
    table = _numbers(dtype, 4000).reshape(40, 100)
    equal(vnp.sort(session.gpu.array(table), axis=0), np.sort(table, axis=0))


def _reduced(dtype: str, session: Session) -> None:
    """Sums, extremes and their positions, along axes and of everything."""
    _with(session, dtype)
    for n in _SIZES:
        x = _numbers(dtype, n)
        array = session.gpu.array(x)
        equal(vnp.max(array), np.asarray(x.max()))
        equal_integers(vnp.argmin(array), np.asarray(np.argmin(x)))
        if not dtype.startswith("float"):
            total = vnp.sum(array)
            equal(total, np.asarray(x.sum(dtype=total.dtype)))
    for shape in ((300, 70), (3, 5000)):
        x = _numbers(dtype, shape[0] * shape[1], few=True).reshape(shape)
        for axis in (0, 1):
            result = vnp.sum(session.gpu.array(x), axis=axis)
            expected = x.astype(np.float64 if dtype.startswith("float") else result.dtype).sum(axis)
            exact = _tolerance(dtype) if dtype.startswith("float") else 0.0
            equal(result, expected.astype(result.dtype), exact)


def _scanned(dtype: str, session: Session) -> None:
    """Cumulative sums, which span workgroups."""
    _with(session, dtype)
    for n in _SIZES:
        x = _numbers(dtype, n, few=True)
        x = np.rint(x % 2).astype(dtype) if dtype.startswith("float") else x
        n_exact = 1000 if dtype == "float16" else n  # of which all sums are exact
        result = vnp.cumsum(session.gpu.array(x[:n_exact]))
        equal(result, np.cumsum(x[:n_exact], dtype=np.float64).astype(result.dtype) if dtype.startswith("float")
              else np.cumsum(x[:n_exact], dtype=result.dtype))  # fmt: skip


def _elementwise(dtype: str, session: Session) -> None:
    """A fused expression, broadcast, with a comparison and a choice."""
    _with(session, dtype)
    x, y = _numbers(dtype, 30_000).reshape(300, 100), _numbers(dtype, 100)
    a, b = session.gpu.array(x), session.gpu.array(y)
    with np.errstate(all="ignore"):
        equal(vnp.where(a > b, a + b, a - b) * b, np.where(x > y, x + y, x - y) * y, _eps(dtype))
        equal(vnp.maximum(a, b).T, np.maximum(x, y).T)
    if dtype.startswith(("int", "uint")):
        equal((a & b) ^ (a | 3), (x & y) ^ (x | 3))


def _eps(dtype: str) -> float:
    return _tolerance(dtype) if dtype.startswith("float") else 0.0


def _matmul(dtype: str, session: Session) -> None:
    """Products of shapes that are multiples of blocks, and of others."""
    _with(session, dtype)
    random = np.random.default_rng(11)
    for rows, inner, columns in ((64, 64, 64), (1, 300, 40), (70, 33, 130), (257, 129, 65)):
        x, y = (random.integers(-4, 5, shape).astype(dtype) for shape in ((rows, inner), (inner, columns)))
        exact = x.astype(np.int64) @ y.astype(np.int64)  # which all these types hold
        equal(session.gpu.array(x) @ session.gpu.array(y), exact.astype(dtype))


def functions_of_floats(session: Session) -> None:
    """Functions of float32 of a wide range, and of special values."""
    x = np.concatenate(
        [np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-37], np.float32), _numbers("float32", 5000) * 20]
    )
    array = session.gpu.array(x)
    for name in ("exp", "expm1", "sin", "cos", "tan", "arctan", "tanh", "sinh", "sqrt", "log", "log1p", "floor", "rint",
                 "sign", "exp2", "isnan", "signbit"):  # fmt: skip
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(x.astype(np.float64) if name not in ("isnan", "signbit") else x)
            _close(name, getattr(vnp, name)(array), expected)


def _close(name: str, result: Any, expected: Any) -> None:
    """Compares each element with a tolerance relative to its own."""
    actual = result.numpy()
    with np.errstate(all="ignore"):
        wanted = expected.astype(actual.dtype)
        same = (actual == wanted) | ((actual != actual) & (wanted != wanted))
        near = np.abs(actual.astype(np.float64) - wanted) <= 1e-6 * np.abs(wanted) + 1e-37
    if not (same | near).all():
        at = int(np.argmin(same | near))
        raise AssertionError(f"{name}: element {at} is {actual[at]!r}, not {wanted[at]!r}")


def complex_numbers(session: Session) -> None:
    """Products, quotients and absolute values of complex64."""
    random = np.random.default_rng(12)
    x, y = ((random.normal(size=999) + 1j * random.normal(size=999)).astype(np.complex64) for _ in range(2))
    a, b = session.gpu.array(x), session.gpu.array(y)
    equal(a * b + a, x * y + x, 1e-5)
    equal(a / b, x / y, 1e-4)
    equal(vnp.abs(a), np.abs(x), 1e-5)


def reductions_of_functions(session: Session) -> None:
    """Reductions by functions of Python that are not commutative."""
    x = np.where(_numbers("int32", 50_000) % 3 == 0, _numbers("int32", 50_000), -1).astype(np.int32)
    latest = vc.reduce("b if b >= 0 else a", -1)
    equal(latest(session.gpu.array(x)), np.asarray(x[x >= 0][-1]))
    rows = x.reshape(50, 1000)
    expected = [row[row >= 0][-1] if (row >= 0).any() else -1 for row in rows]
    equal(latest(session.gpu.array(rows), axis=1), np.array(expected, np.int32))


def axes(session: Session) -> None:
    """Reductions along several axes, transposed and reversed."""
    x = np.arange(4 * 5 * 6 * 7, dtype=np.int32).reshape(4, 5, 6, 7)
    array = session.gpu.array(x)
    for axis in ((0, 2), (1, 3), (0, 1, 2, 3), (2,)):
        result = vnp.sum(array.transpose(2, 0, 3, 1)[::-1], axis=axis)
        equal(result, x.transpose(2, 0, 3, 1)[::-1].sum(axis, dtype=result.dtype))


def variances(session: Session) -> None:
    """Variances whose means are far from 0."""
    x = _numbers("float32", 40_000).reshape(200, 200) + 100
    for axis in (0, 1):
        equal(vnp.var(session.gpu.array(x), axis=axis), x.astype(np.float64).var(axis).astype(np.float32), 1e-4)


def indexing(session: Session) -> None:
    """Index arrays, masks, and their assignments."""
    x, random = _numbers("float32", 6000).reshape(60, 100), np.random.default_rng(13)
    at, columns = random.integers(-60, 60, 77), random.integers(0, 100, 77)
    array = session.gpu.array(x)
    equal(array[session.gpu.array(at)], x[at])
    equal(array[session.gpu.array(np.abs(at).astype(np.uint32) % 60)], x[np.abs(at) % 60])
    equal(array[session.gpu.array(at), session.gpu.array(columns)], x[at, columns])
    equal(array[array > 0.5], x[x > 0.5])
    changed, target = session.gpu.array(x), x.copy()
    changed[changed < 0] = 7
    target[target < 0] = 7
    changed[::3, session.gpu.array(np.unique(columns))] = 2
    target[::3, np.unique(columns)] = 2
    equal(changed, target)


def segments(session: Session) -> None:
    """Counts and weighted sums by integers."""
    x = np.random.default_rng(14).integers(0, 50, 30_000).astype(np.int32)
    equal_integers(vnp.bincount(session.gpu.array(x)), np.bincount(x))
    weights = (x % 5).astype(np.float32)
    result = vnp.bincount(session.gpu.array(x), session.gpu.array(weights))
    equal(result, np.bincount(x, weights).astype(result.dtype), 1e-5)


def selections(session: Session) -> None:
    """Searches in sorted arrays, and positions of what is not 0."""
    line, x = np.sort(_numbers("float32", 5000)), _numbers("float32", 3000)
    equal_integers(vnp.searchsorted(session.gpu.array(line), session.gpu.array(x)), np.searchsorted(line, x))
    equal_integers(vnp.nonzero(session.gpu.array(x > 0))[0], np.nonzero(x > 0)[0])


def unique_values(session: Session) -> None:
    """Distinct values, with inverse and counts."""
    x = np.random.default_rng(15).integers(-40, 40, 20_000).astype(np.int32)
    result = vnp.unique(session.gpu.array(x), return_inverse=True, return_counts=True)
    for one, other in zip(result, np.unique(x, return_inverse=True, return_counts=True), strict=True):
        equal_integers(one, other)


def histograms(session: Session) -> None:
    """Histograms of floats, in bins of about equal width and in others."""
    x = _numbers("float32", 40_000)
    edges = np.linspace(-3, 3, 41, dtype=np.float32)
    equal_integers(vnp.histogram(session.gpu.array(x), session.gpu.array(edges))[0], np.histogram(x, edges)[0])
    counts, ends = vnp.histogram(session.gpu.array(x), 40)
    equal_integers(counts, np.histogram(x, ends.numpy())[0])


def fourier_transforms(session: Session) -> None:
    """Transforms of lengths with small and large factors, and back."""
    for n in (64, 360, 1009):
        x = _numbers("float32", 3 * n).reshape(3, n)
        spectrum = vnp.fft.fft(session.gpu.array(x))
        equal(spectrum, np.fft.fft(x.astype(np.float64)).astype(spectrum.dtype), 1e-4)
        equal(vnp.real(vnp.fft.ifft(spectrum)), x, 1e-4)
        half = vnp.fft.rfft(session.gpu.array(x))
        equal(half, np.fft.rfft(x.astype(np.float64)).astype(half.dtype), 1e-4)
        equal(vnp.fft.irfft(half, n), x, 1e-4)


def decompositions(session: Session) -> None:
    """A linear system, its determinant, and Cholesky's factor."""
    x = _numbers("float32", 48 * 48).reshape(48, 48) + 12 * np.eye(48, dtype=np.float32)
    right = _numbers("float32", 48)
    equal(vnp.linalg.solve(session.gpu.array(x), session.gpu.array(right)), np.linalg.solve(x, right), 1e-3)
    positive = (x @ x.T).astype(np.float32)
    equal(vnp.linalg.cholesky(session.gpu.array(positive)), np.linalg.cholesky(positive), 1e-3)


def random_arrays(session: Session) -> None:
    """Moments of normal numbers."""
    x = vnp.random.default_rng(16).standard_normal(200_000).numpy().astype(np.float64)
    if abs(x.mean()) > 0.02 or abs(x.std() - 1) > 0.02:
        raise AssertionError(f"normal numbers have the mean {x.mean()} and the deviation {x.std()}")


def networks(session: Session) -> None:
    """Softmax, normalization and a layer, of rows of several lengths."""
    for n in (10, 1000, 3001):
        x = _numbers("float32", 20 * n).reshape(20, n)
        exact = x.astype(np.float64)
        powers = np.exp(exact - exact.max(-1, keepdims=True))
        equal(nn.softmax(session.gpu.array(x), dim=-1), (powers / powers.sum(-1, keepdims=True)).astype(x.dtype), 1e-5)
        normal = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
        equal(nn.layer_norm(session.gpu.array(x), (n,)), normal.astype(x.dtype), 1e-5)
        weight = _numbers("float32", 30 * n).reshape(30, n)
        result = nn.linear(session.gpu.array(x), session.gpu.array(weight))
        equal(result, (exact @ weight.T).astype(x.dtype), 1e-5)


def functions_of_lines(session: Session) -> None:
    """Logarithms of sums of powers, variances, and division by the root of the mean square."""
    x = _numbers("float32", 20_000).reshape(20, 1000)
    array, exact = session.gpu.array(x), x.astype(np.float64)
    sums = np.log(np.exp(exact).sum(-1, keepdims=True))
    equal(nn.log_softmax(array, dim=-1), (exact - sums).astype(x.dtype), 1e-5)
    equal(nn.logsumexp(array, 1), sums[:, 0].astype(x.dtype), 1e-5)
    scale = np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-6)
    equal(nn.rms_norm(array, (1000,), eps=1e-6), (exact / scale).astype(x.dtype), 1e-5)
    equal(nn.var_mean(array, -1)[0], exact.var(-1, ddof=1).astype(x.dtype), 1e-5)


def convolutions(session: Session) -> None:
    """A convolution with padding and a stride."""
    x = _numbers("float32", 2 * 5 * 13 * 17).reshape(2, 5, 13, 17)
    filters = _numbers("float32", 7 * 5 * 9).reshape(7, 5, 3, 3)
    result = nn.conv2d(session.gpu.array(x), session.gpu.array(filters), stride=2, padding=1)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    equal(result, np.einsum("nchwij,fcij->nfhw", windows, filters.astype(np.float64)).astype(x.dtype), 1e-5)


def attention(session: Session) -> None:
    """Attention of four heads, causal."""
    q, k, v = (_numbers("float32", 4 * 70 * 32 + seed)[seed:].reshape(1, 4, 70, 32) for seed in range(3))
    given = [session.gpu.array(host) for host in (q, k, v)]
    result = nn.scaled_dot_product_attention(given[0], given[1], given[2], is_causal=True)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(32)
    scores = np.where(np.tri(70, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    equal(result, (weights / weights.sum(-1, keepdims=True) @ v).astype(np.float32), 1e-4)


def graphs_of_arrays(session: Session) -> None:
    """Functions of arrays that are recorded, and replayed with other data."""
    x = session.gpu.array(_numbers("float32", 1000))
    out = session.gpu.empty(1000)
    with session.gpu.record(x=x) as graph:
        vc.elementwise("2 * x + 1")(graph["x"], out=out)
    for seed in range(3):
        other = _numbers("float32", 1000 + seed)[:1000]
        graph.run(x=session.gpu.array(other))
        equal(out, 2 * other + 1)
