"""Arrays larger than a binding: the right result, or an error that names the limit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtimes import most_buffers

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.algorithms import fft, gather, scans, segments, selection, sorting
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
    if most_buffers(gpu) < 8:
        pytest.skip("the device binds fewer parts of the arrays than there are")
    x, at, new = gpu.array(_X), gpu.array(_AT), gpu.zeros(1)
    with monkeypatch.context() as patch:
        patch.setattr(type(gpu.device), "max_binding_bytes", LIMIT)
        indexing.put(x, at, new)
        indexing.put(x[:1000], gpu.array(_AT % 1000), new)
    expected = _X.copy()
    expected[_AT] = expected[_AT % 1000] = 0
    np.testing.assert_array_equal(x.numpy(), expected)
