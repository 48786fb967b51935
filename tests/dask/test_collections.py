"""Collections of dask.array with device chunks, compared with the same ones of NumPy chunks."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import computes_by_words

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


import vkcompute as vc  # noqa: E402
import vkcompute.dask  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _backend() -> Iterator[None]:
    with dask.config.set({"array.backend": "vkcompute", "scheduler": "synchronous"}):
        yield
    vc.default_runtime().close()


Make = Callable[..., Any]


def on_device(x: np.ndarray[Any, Any], chunks: Any = None) -> Any:
    """A collection with device chunks."""
    chunks = chunks or tuple(max(1, n // 2) for n in x.shape)
    return da.from_array(vnp.asarray(x), chunks=chunks, asarray=False)


def on_host(x: np.ndarray[Any, Any], chunks: Any = None) -> Any:
    """A collection with NumPy chunks."""
    return da.from_array(x, chunks=chunks or tuple(max(1, n // 2) for n in x.shape))


def compare(work: Callable[[Make], Any], *, tolerance: float = 1e-4) -> None:
    """Compares `work` on device chunks with `work` on NumPy chunks: values, and where the result is."""
    with dask.config.set({"array.backend": "numpy"}):
        expected = work(on_host).compute()
    collection = work(on_device)
    result = collection.compute()
    assert type(result) is vc.Array
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result.numpy(), expected, rtol=tolerance, atol=tolerance)


shapes = st.tuples(st.integers(1, 9), st.integers(1, 9))


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], tuple[int, int]]:
    """A matrix, and the lengths of its chunks."""
    shape = draw(shapes)
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    return np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape).astype(np.float32), chunks


@pytest.mark.rotates
@settings(max_examples=9)
@given(tables(), st.sampled_from(["sum", "mean", "min", "max", "prod", "std", "var", "argmax", "any"]))
def test_reductions(table: Any, name: str) -> None:
    x, chunks = table
    for axis in (None, 0):
        compare(lambda make, axis=axis: getattr(make(x, chunks), name)(axis=axis))


@given(tables(), st.data())
def test_slices(table: Any, data: st.DataObject) -> None:
    x, chunks = table
    index = tuple(data.draw(st.slices(n)) if n > 1 else slice(None) for n in x.shape)
    compare(lambda make: make(x, chunks)[index])
    rows = data.draw(st.lists(st.integers(-len(x), len(x) - 1), min_size=1, max_size=4))
    compare(lambda make: make(x, chunks)[rows])
    compare(lambda make: make(x, chunks)[rows[0], None])


@settings(max_examples=3)
@given(tables())
def test_work_on_blocks(table: Any) -> None:
    x, chunks = table
    compare(lambda make: make(x, chunks).map_blocks(lambda block: np.exp(block) + 1))
    compare(lambda make: da.cumsum(make(x, chunks), axis=0) * 2 - make(x, chunks))
    compare(lambda make: make(x, chunks).T @ make(x, chunks), tolerance=1e-3)
    compare(lambda make: da.where(make(x, chunks) > 0, make(x, chunks), 0.0))
    compare(lambda make: da.concatenate([make(x, chunks), make(x)], axis=1).rechunk(3))
    compare(lambda make: da.einsum("ij,kj->ik", make(x, chunks), make(x, chunks)), tolerance=1e-3)
    compare(lambda make: da.tensordot(make(x, chunks), make(x, chunks), axes=((0,), (0,))), tolerance=1e-3)


X = np.random.default_rng(1).standard_normal((12, 8)).astype(np.float32)
V = np.random.default_rng(2).standard_normal(40).astype(np.float32)
SPD = (X.T @ X + 8 * np.eye(8)).astype(np.float32)
HOLES = np.where(X > 1, np.float32(np.nan), X)
CASES: dict[str, Callable[[Make], Any]] = {
    "overlap": lambda f: f(X).map_overlap(lambda b: b + np.roll(b, 1, 0), depth=1, boundary="reflect"),
    "periodic": lambda f: da.overlap.overlap(f(X), depth={0: 1, 1: 1}, boundary={0: "periodic", 1: 0}),
    "tsqr": lambda f: (lambda q, r: q @ r)(*da.linalg.tsqr(f(X, (6, 8)))),
    "svd": lambda f: (lambda u, s, v: (u * s) @ v)(*da.linalg.svd(f(X, (6, 8)))),
    "lstsq": lambda f: da.linalg.lstsq(f(X, (6, 8)), f(V[:12], (6,)))[0],
    "residuals": lambda f: da.linalg.lstsq(f(X, (6, 8)), f(V[:12], (6,)))[1],
    "cholesky": lambda f: da.linalg.cholesky(f(SPD, (4, 4))),
    "lu": lambda f: da.stack(da.linalg.lu(f(SPD, (4, 4)))),
    "inv": lambda f: da.linalg.inv(f(SPD, (4, 4))),
    "norm": lambda f: da.linalg.norm(f(X), axis=1),
    "fft": lambda f: abs(da.fft.fft(f(X, (4, 8)), axis=1)),
    "rfft": lambda f: da.fft.irfft(da.fft.rfft(f(X, (4, 8)))),
    "nan": lambda f: da.nanmean(f(HOLES), axis=0) + da.nanmax(f(HOLES), axis=0) + da.nanstd(f(HOLES), axis=0),
    "percentile": lambda f: da.percentile(f(V, (13,)), [10, 50, 90]),
    "nearest": lambda f: da.percentile(f(V, (13,)), [10, 50, 90], method="nearest"),
    "quantile": lambda f: da.quantile(f(X, (4, 8)), 0.3, axis=1),
    "median": lambda f: da.median(f(X, (12, 4)), axis=0),
    "histogram": lambda f: da.histogram(f(V), bins=np.linspace(-2, 2, 6, dtype=np.float32))[0],
    "topk": lambda f: da.topk(f(V), 5),
    "isin": lambda f: da.isin(f(V.astype(np.int32)), [1, 2]),
    "mask": lambda f: f(V)[f(V) > 0],
    "assigned": lambda f: (lambda a: (a.__setitem__((slice(0, 2)), 1), a)[1])(f(X)),
    "filled": lambda f: da.ones((6, 4), "f4", chunks=2) + da.full((6, 4), 2.5, chunks=3) + da.zeros_like(f(X))[:6, :4],
    "arange": lambda f: da.arange(10, chunks=3),
    "cov": lambda f: da.cov(f(X)),
    "coarsen": lambda f: da.coarsen(np.sum, f(X, (4, 8)), {0: 2, 1: 2}),
    "average": lambda f: da.average(f(X), axis=0, weights=f(abs(V[:12]), (4,))),
    "blelloch": lambda f: da.cumsum(f(X), axis=0, method="blelloch"),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    if name in ("lstsq", "residuals", "cholesky", "lu", "inv"):
        pytest.importorskip("scipy")
    compare(CASES[name], tolerance=1e-3)


def test_random_numbers_depend_on_the_seed_and_the_chunks() -> None:
    def make(seed: int) -> Any:
        return da.random.default_rng(seed).normal(2, 3, size=(40, 50), chunks=20)

    first, again, other = (make(seed).compute().numpy() for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.dtype == np.float32
    assert abs(first.mean() - 2) < 0.3
    assert not np.array_equal(first[:20, :20], first[20:, 20:40])
    shuffled = da.random.default_rng(1).permutation(on_device(np.arange(40, dtype=np.int32))).compute()
    assert sorted(shuffled.tolist()) == [*range(40)] != shuffled.tolist()
    assert da.random.default_rng(1).integers(0, 9, size=30, dtype=np.int32, chunks=7).max().compute().item() < 9
    assert type(da.random.normal(size=9, chunks=4).compute()) is vc.Array


def test_stores(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    x = on_device(X)
    x.to_zarr(tmp_path / "x.zarr")
    da.to_npy_stack(tmp_path / "stack", x)
    for read in (da.from_zarr(tmp_path / "x.zarr"), da.from_npy_stack(tmp_path / "stack")):
        back = read.to_backend("vkcompute")
        assert type(back._meta) is vc.Array
        assert np.array_equal(back.compute().numpy(), X)
    host = np.empty_like(X)
    da.store(x, host)
    assert np.array_equal(host, X)


def test_collections_change_between_host_and_device() -> None:
    x = on_host(X).to_backend("vkcompute")
    assert type(x.compute()) is vc.Array
    assert type(x.to_backend("numpy").compute()) is np.ndarray
    assert x.to_backend("vkcompute") is x
    for of_device in (x[x > 0], da.fft.fft(x.rechunk((4, 8))), da.coarsen(np.sum, x, {0: 2})):
        assert type(of_device._meta) is np.ndarray, "so Dask believes"
        assert type(of_device.to_backend("numpy").compute()) is np.ndarray
    assert type(np.asarray(x)) is np.ndarray
    assert dask.sizeof.sizeof(vnp.asarray(X)) == 384


def test_metadata_launches_nothing() -> None:
    runtime = vc.default_runtime()  # before the collections: while only the session's runtime is open, they are there
    x, y = on_device(X), da.ones((12, 8), chunks=4)
    runtime.wait()
    with runtime.profile() as profile:
        made = [(x + y).sum(axis=0), y.mean(), x.T @ y, da.linalg.svd(x.rechunk((6, 8)))[1], y.max(), x.std(axis=1)]
        made += [
            da.random.default_rng(3).random((40, 40), np.float32, chunks=10),
            da.concatenate([x, y]),
            x[x > 0],
            da.fft.fft(x.rechunk((4, 8))),
        ]
    assert profile.tasks == []
    assert all(item._meta.size == 0 or item._meta.shape == () for item in made)


NO_DEVICE = """
import sys
import dask, dask.array as da
import vkcompute.runtime.runtime as runtime
runtime.Runtime.__init__ = None
dask.config.set({"array.backend": "vkcompute"})
import pickle
x = pickle.loads(pickle.dumps(da.ones((100, 100), chunks=10).rechunk(50)[:70]))
print(type(x._meta).__name__, x.dtype, len(dict(x.dask)))
"""


def test_a_collection_is_made_without_a_device(run_python: Callable[..., Any]) -> None:
    done = run_python(NO_DEVICE)
    assert done.stderr == ""
    assert done.stdout.startswith("Array float32 ")


def test_results_do_not_keep_their_operands() -> None:
    """A lazy sum would keep its chunk alive until somebody reads it; the chunks are more than the device may hold."""
    for scheduler in ("synchronous", "threads"):
        with small_runtime(), dask.config.set(scheduler=scheduler, num_workers=2):
            x = da.random.default_rng(1).random(8 * 2**22, np.float32, chunks=2**22)
            sums = x.map_blocks(lambda block: np.sum(block, keepdims=True), chunks=(1,), dtype=np.float32).compute()
            assert np.allclose(sums.numpy(), 2**21, rtol=0.01)


@contextlib.contextmanager
def small_runtime() -> Iterator[None]:
    """A default runtime with little memory."""
    from vkcompute.runtime import runtime

    vc.default_runtime().close()
    runtime._default[:] = [vc.Runtime(memory_limit_bytes=80 << 20)]
    yield
    vc.default_runtime().close()


def test_kernels_and_functions_of_elements_run_on_blocks() -> None:
    twice = vc.elementwise("2 * x")
    compare(lambda make: make(X).map_blocks(twice if make is on_device else lambda x: 2 * x))

    @vc.kernel
    def add_row(x: vc.float32[:], out: vc.float32[:]) -> None:  # type: ignore[type-arg]
        i = vc.global_id(0)
        if i < len(out):
            out[i] = x[i] + i

    def block(x: Any) -> Any:
        out = vnp.empty_like(x)
        pickle.loads(pickle.dumps(twice))(x)
        add_row[-(-x.size // 64), 64](x, out)
        return out

    result = on_device(V, (10,)).map_blocks(block, meta=vnp.empty(0)).compute()
    assert np.array_equal(result.numpy(), V + np.tile(np.arange(10, dtype=np.float32), 4))


def test_what_has_no_device_form_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"np\.is_busday has no form for device arrays"):
        on_device(X).map_blocks(np.is_busday, dtype=bool).compute()


def test_variances_need_no_float64() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    compare(lambda make: make(x).var())
    compare(lambda make: make(x).std(axis=0))


def test_variances_of_complex_chunks() -> None:
    z = (np.arange(12, dtype=np.float32).reshape(3, 4) * (1 + 0.5j) - 3j).astype(np.complex64)
    works: list[Callable[[Make], Any]] = [lambda f: f(z).var(), lambda f: f(z).std(axis=0)]
    works += [lambda f: da.nanvar(f(z)), lambda f: da.nanstd(f(z), axis=1)]
    if not computes_by_words(vc.default_runtime(), "complex128"):  # by which powers compile for 10 s
        works.append(lambda f: f(z).moment(3))
    for work in works:
        compare(work)


def test_distinct_elements_with_indices_and_numbers() -> None:
    host = np.array([[3, 1, 2], [3, 1, 9], [9, 0, 3]], np.int32)
    x = da.from_array(host, chunks=(2, 2)).to_backend("vkcompute")
    result = da.unique(x, return_index=True, return_inverse=True, return_counts=True)
    expected = np.unique(host, return_index=True, return_inverse=True, return_counts=True)
    for one, other in zip(dask.compute(*result), expected, strict=True):
        assert type(one) is vc.Array
        np.testing.assert_array_equal(one.numpy().reshape(other.shape), other)
