"""Pipelines on Dask arrays, compared with the same on NumPy arrays and one device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

import vkcompute as vc  # noqa: E402
import vkcompute.dask  # noqa: E402

RNG = np.random.default_rng(4)
X = RNG.standard_normal((200, 5)).astype(np.float32)
Y = (X @ np.arange(5) + RNG.standard_normal(200) > 0.5).astype(int)


@pytest.fixture(autouse=True)
def _scheduler() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield
    vc.default_runtime().close()


@pytest.mark.parametrize(
    "options", [{"solver": "gradient", "learning_rate": 1.0, "tol": 0.01, "n_iter_no_change": 2}, {}], ids=str
)
@pytest.mark.parametrize("on_device", [False, True])
def test_training_equals_that_of_one_device(on_device: bool, options: dict[str, Any]) -> None:
    weights = RNG.uniform(0.5, 2, 200)
    options = {"alpha": 0.01, **options}
    expected = vc.LogisticRegression(**options).fit(X, Y, sample_weight=weights)
    table = da.from_array(X, chunks=(37, 2))
    table = table.to_backend("vkcompute") if on_device else table
    epochs: list[int] = []
    model = vc.LogisticRegression(**options)
    model.fit(
        table, da.from_array(Y, chunks=50), sample_weight=da.from_array(weights, chunks=9), progress=epochs.append
    )
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-5)
    assert np.allclose(model.loss_curve_, expected.loss_curve_, rtol=1e-4)
    assert (model.n_iter_, epochs[-1]) == (expected.n_iter_, expected.n_iter_)
    assert model.score(X, Y) > 0.8


def test_training_takes_one_round_trip_per_step() -> None:
    with dask.callbacks.Callback(start=lambda _: starts.append(1)):
        starts: list[int] = []
        vc.LogisticRegression(solver="gradient", max_iter=7, tol=None).fit(da.from_array(X, chunks=(20, 5)), Y)
    assert len(starts) == 1 + 7  # the table, and the steps


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda x: vc.LogisticRegression(solver="gradient", batch_size=10).fit(x, Y), "batch_size=None"),
        (lambda x: vc.LogisticRegression().fit(x, np.zeros(200)), "only one class"),
        (lambda x: vc.LogisticRegression().fit(x[:, 0], Y), "two axes"),
        (lambda x: vc.LogisticRegression().fit(x[x[:, 0] > 0], Y), "compute_chunk_sizes"),
        (
            lambda x: vc.LogisticRegression().fit(x + da.from_array(np.where(X.max() == X, np.nan, 0)), Y),
            "begins at row",
        ),
        (lambda x: vc.multiply(x, x[:9]), "shape"),
        (lambda x: vc.multiply(x, x, runtime=1), "omit"),
    ],
)
def test_errors(work: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        work(da.from_array(X, chunks=(50, 5)))


@pytest.mark.parametrize("on_device", [False, True])
def test_products(on_device: bool) -> None:
    x = da.from_array(X, chunks=(50, 3))
    x = x.to_backend("vkcompute") if on_device else x
    for work in (
        lambda x: vc.multiply(x, x + 1),
        lambda x: vc.multiply(x, 3.0),
        lambda x: vc.multiply(2.0, x),
        lambda x: vc.multiply(x, x[:1]),
        lambda x: vc.multiply(x[:, 0], x.T),
    ):
        lazy = work(x)
        result = lazy.compute()
        assert type(result) is type(lazy._meta) is (vc.Array if on_device else np.ndarray)
        assert result.dtype == lazy.dtype
        assert np.array_equal(np.asarray(result), np.asarray(work(X)))


def test_a_product_of_device_chunks_and_numpy_chunks_is_refused_before_a_task_runs() -> None:
    x = da.from_array(X, chunks=(50, 3)).to_backend("vkcompute")
    for other in (X, da.from_array(X, chunks=(50, 3))):
        with pytest.raises(TypeError, match="got both"):
            vc.multiply(other, x)
