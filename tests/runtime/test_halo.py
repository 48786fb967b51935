"""Streams with a halo, against filters of the whole array by NumPy; and their progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.runtime.streams.halo import Halo


def windows(data: np.ndarray[Any, Any], before: int, after: int, edge: Any) -> np.ndarray[Any, Any]:
    """The sums of the rows from `before` above to `after` below each."""
    mode: Any = {"mode": "edge"} if edge == "nearest" else {"mode": "constant", "constant_values": edge}
    padded = np.pad(data, [(before, after), *[(0, 0)] * (data.ndim - 1)], **mode)
    return np.sum([padded[k : k + len(data)] for k in range(before + after + 1)], axis=0, dtype=data.dtype)


def summed(n: int) -> Any:
    """The work of a stream: sums of `n` neighbouring rows."""

    def work(x: vc.Array, out: vc.Array) -> None:
        total = x[: len(out)]
        for k in range(1, n):
            total = total + x[k : k + len(out)]
        out[...] = total

    return work


@given(
    n=st.integers(1, 300), before=st.integers(0, 40), after=st.integers(0, 40), edge=st.sampled_from(["nearest", 0, 3]),
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=6),
)  # fmt: skip
@pytest.mark.pure
def test_chunks_have_their_neighbours(n: int, before: int, after: int, edge: Any, sizes: list[int]) -> None:
    data = np.arange(n, dtype=np.int64) ** 2
    halo, expected = Halo.of((before, after), edge), windows(data, before, after, edge)
    kernel = np.ones(before + after + 1, np.int64)
    of_array = [np.convolve(part, kernel, "valid") for (part,) in halo.cut((data,), max(1, *sizes))]
    assert np.array_equal(np.concatenate(of_array), expected)
    cuts = np.split(data, np.minimum(np.cumsum(sizes), n))
    of_chunks = [np.convolve(part, kernel, "valid") for (part,) in halo.of_chunks((cut,) for cut in cuts)]
    assert np.array_equal(np.concatenate(of_chunks), expected)


@pytest.mark.parametrize(("halo", "edge"), [(1, "nearest"), ((3, 0), 0.0), ((0, 2), 7.0)])
@pytest.mark.parametrize("kind", ["array", "iterator", "function"])
def test_a_moving_sum(gpu: vc.Runtime, halo: Any, edge: Any, kind: str) -> None:
    data = np.random.default_rng(0).integers(0, 100, (1000, 3)).astype(np.float32)
    before, after = halo if isinstance(halo, tuple) else (halo, halo)
    out, work = np.empty_like(data), summed(before + after + 1)

    def keep(rows: slice, part: np.ndarray[Any, Any]) -> None:
        out[rows] = part

    source: Any = iter(np.array_split(data, 7)) if kind == "iterator" else data
    sink: Any = keep if kind == "function" else out
    assert gpu.stream(source, work, sink, halo=halo, edge=edge, chunk_bytes=2048) == 1000
    assert np.array_equal(out, windows(data, before, after, edge))


def test_arguments_of_a_halo(gpu: vc.Runtime) -> None:
    data, out = np.zeros(100, np.float32), np.empty(100, np.float32)
    work = summed(3)
    for halo in (-1, 1.5, (1, 2, 3), True):
        with pytest.raises(ValueError, match="halo is a number of rows"):
            gpu.stream(data, work, out, halo=halo)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='edge is "nearest"'):
        gpu.stream(data, work, out, halo=1, edge="wrap")
    with pytest.raises(ValueError, match=r"value of the data's type, int32; got 0\.5"):
        gpu.stream(data.astype(np.int32), work, np.zeros(100, np.int32), halo=1, edge=0.5)
    with pytest.raises(ValueError, match="must not share memory with a source"):
        gpu.stream(data, work, data, halo=1)
    with gpu.record(x=gpu.zeros(10)) as graph:
        graph["x"].fill(1)
    with pytest.raises(ValueError, match="pass a function"):
        gpu.stream(data, graph, None, halo=1)


def test_progress_bars(gpu: vc.Runtime, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    data, out = np.zeros(1000, np.float32), np.empty(1000, np.float32)
    gpu.stream(data, summed(1), out, progress=True, chunk_bytes=1024)
    assert "1.00k/1.00k" in capsys.readouterr().err

    def chunks() -> Iterator[np.ndarray[Any, Any]]:
        yield from np.split(data, 4)

    gpu.stream(chunks(), summed(1), out, progress=True)
    assert "1.00k rows" in capsys.readouterr().err
    X = np.random.default_rng(0).normal(size=(50, 2))
    vc.LogisticRegression(solver="gradient", max_iter=30, tol=None, device=gpu).fit(X, X[:, 0] > 0, progress=True)
    assert "30.0/30.0" in capsys.readouterr().err
    gpu.stream(data, summed(1), out, progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(TypeError, match="progress is True for a bar, or a function"):
        gpu.stream(data, summed(1), out, progress=3)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install"):
        gpu.stream(data, summed(1), out, progress=True)
