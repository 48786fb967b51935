"""Training on the device against numpy in float64: every division of the rows, and what float32 makes hard."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logistic_oracle import Fit, descent, fit
from runtimes import needs_shaders, open_runtime

import vkcompute as vc
from vkcompute.pipelines.logistic import model, narrow, step, table, training, wide
from vkcompute.pipelines.logistic.settings import Settings

Array = npt.NDArray[Any]
WIDTHS = (1, 2, 3, 7, 16, 31, 32, 33, 34, 36, 70)  # some: each has kernels of its own to compile


def random_table(n: int, d: int, seed: int, scale: float = 1.0) -> tuple[Array, Array]:
    """Rows of both classes that overlap."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * scale
    y = (X[:, 0] + random.normal(size=n) * scale > 0).astype(int)
    y[:2] = 0, 1
    return X, y


@pytest.fixture(params=["one by one", "in a row"])
def launched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps on few rows, launched in both ways that there are."""
    if request.param == "one by one":
        monkeypatch.setattr(narrow, "max_sequence_rows", lambda *_: 0)


BOTH_WAYS = pytest.mark.usefixtures("launched")


def assert_matches(model: vc.LogisticRegression, expected: Fit) -> None:
    np.testing.assert_allclose(model.coef_[0], expected.coef, rtol=0, atol=expected.tolerance)
    np.testing.assert_allclose(model.intercept_[0], expected.intercept, rtol=0, atol=expected.tolerance)
    np.testing.assert_allclose(model.loss_curve_, expected.losses, rtol=0, atol=expected.loss_tolerance)


def assert_same_bits(a: vc.LogisticRegression, b: vc.LogisticRegression) -> None:
    for name in ("coef_", "intercept_", "loss_curve_"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name


@given(data=st.data())
def test_equals_numpy(gpu: vc.Runtime, data: st.DataObject) -> None:
    draw = data.draw
    n, d = draw(st.integers(2, 5000), "rows"), draw(st.sampled_from(WIDTHS), "features")
    X, y = random_table(n, d, draw(st.integers(0, 2**32), "seed"), draw(st.sampled_from([0.1, 1.0, 5.0]), "scale"))
    params = {
        "learning_rate": draw(st.sampled_from([0.01, 0.1, 0.5]), "rate"),
        "alpha": draw(st.sampled_from([0.0, 0.03, 1.0]), "alpha"),
        "max_iter": draw(st.integers(1, 4), "epochs"),
        "batch_size": draw(st.none() | st.integers(max(1, n // 20), n + 3), "batch_size"),
        "fit_intercept": draw(st.booleans(), "intercept"),
        "random_state": draw(st.integers(0, 99), "order"),
    }
    weight = None
    if draw(st.booleans(), "weighted"):
        weight = np.random.default_rng(n).integers(0, 4, n).astype(float)
        weight[:2] = 1
    with pytest.MonkeyPatch.context() as patch:
        if draw(st.booleans(), "launched one by one"):
            patch.setattr(narrow, "max_sequence_rows", lambda *_: 0)
        model = descent(device=gpu, **params).fit(X, y, sample_weight=weight)
    assert_matches(model, fit(X, y, sample_weight=weight, **params))


def test_five_rows(gpu: vc.Runtime) -> None:
    X = np.array([[0, 0], [1, 0], [1, 0], [1, 1], [1, 1]])
    y = np.array([0, 0, 0, 1, 1])
    start = np.full(2, 0.001)
    model = descent(learning_rate=0.1, max_iter=100, device=gpu).fit(X, y, coef_init=start)
    expected = fit(X, y, coef_init=start)
    np.testing.assert_allclose(model.coef_[0], expected.coef, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.intercept_[0], expected.intercept, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.loss_curve_, expected.losses, rtol=0, atol=1e-6)
    assert model.n_iter_ == 100


def test_more_features_than_rows(gpu: vc.Runtime) -> None:
    X, y = random_table(3, 1000, 0)
    model = descent(max_iter=20, device=gpu).fit(X, y)
    assert_matches(model, fit(X, y, max_iter=20))


@pytest.mark.parametrize("batch_size", [None, 100])
def test_so_many_features_that_slabs_grow(gpu: vc.Runtime, batch_size: int | None) -> None:
    X, y = random_table(150, 20_001, 1, 0.05)
    params: dict[str, Any] = {"max_iter": 3, "alpha": 0.1, "batch_size": batch_size}
    model = descent(device=gpu, random_state=0, **params).fit(X, y)
    expected = fit(X, y, **params)
    np.testing.assert_allclose(model.coef_[0], expected.coef, rtol=0, atol=1e-7)
    np.testing.assert_allclose(model.loss_curve_, expected.losses, rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch_size", [None, 37, 400])
@pytest.mark.parametrize("d", [3, 40])
def test_a_table_in_many_chunks(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, d: int, batch_size: int | None
) -> None:
    monkeypatch.setattr(table, "chunk_limit_nbytes", lambda _: 100 * d * 4)
    X, y = random_table(999, d, 5)
    params: dict[str, Any] = {"max_iter": 3, "alpha": 0.1, "batch_size": batch_size, "random_state": 3}
    model = descent(device=gpu, **params).fit(X, y)
    assert_matches(model, fit(X, y, **params))


@BOTH_WAYS
@pytest.mark.parametrize("ordered_rows", [1, 64, 200])
def test_orders_written_in_parts(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, ordered_rows: int) -> None:
    X, y = random_table(333, 2, 6)
    params: dict[str, Any] = {"max_iter": 4, "batch_size": 32, "random_state": 1}
    whole = descent(device=gpu, **params).fit(X, y)
    monkeypatch.setattr(step, "ORDERED_ROWS", ordered_rows)
    parts = descent(device=gpu, **params).fit(X, y)
    assert_matches(whole, fit(X, y, **params))
    assert_same_bits(whole, parts)


@pytest.mark.parametrize(("d", "n_tiles"), [(32, 8 * 1000), (1, 8 * 21_000), (33, 66_000)])
def test_long_loops_are_not_cut(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, d: int, n_tiles: int) -> None:
    """The most iterations that an invocation makes: lavapipe would leave the rest out without a word."""
    for module in (narrow, wide):
        monkeypatch.setattr(module, "saturating_groups", lambda _: 1)
    X, y = random_table(4 * n_tiles, d, 7)
    X = X.astype(np.float32)
    model = descent(max_iter=2, device=gpu).fit(X, y)
    assert_matches(model, fit(X, y, max_iter=2))


@pytest.mark.parametrize("d", [1, 33])
def test_many_equal_terms_are_summed_in_parts(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, d: int) -> None:
    """One by one, a lane's share of these would be off by 1e-4: every addition rounds the same way."""
    for module in (narrow, wide):
        monkeypatch.setattr(module, "saturating_groups", lambda _: 1)
    X = np.full((4 * 8 * 20_000, d), 0.3, np.float32)
    y = np.arange(len(X)) % 4 == 0
    model = descent(max_iter=1, learning_rate=1.0, device=gpu).fit(X, y)
    np.testing.assert_allclose(model.loss_curve_, [np.log(2)], rtol=3e-6)
    np.testing.assert_allclose(model.coef_[0], np.full(d, -0.25 * 0.3), rtol=3e-6)
    np.testing.assert_allclose(model.intercept_, [-0.25], rtol=3e-6)


@pytest.mark.parametrize("tile_iterations", [1, 65, 1_000_000])
def test_a_huge_table_gets_more_workgroups_not_longer_loops(tile_iterations: int) -> None:
    chunk = SimpleNamespace(n_rows=4 << 28, n_tiles=1 << 28, n_features=1, first_row=0)
    settings = Settings(
        "gradient", 0.1, 0.0, 1, chunk.n_rows, chunk.n_rows, None, 5, True, 1.0, lambda: np.zeros(0, np.uint32)
    )
    plan = step.plan_step([chunk], settings, n_lanes=8, n_groups=4, tile_iterations=tile_iterations)  # type: ignore[list-item]
    (planned,) = plan.chunks
    tiles = planned.push["tiles_per_lane"]
    assert tiles * tile_iterations <= 65_535 or tiles == 1
    assert planned.n_groups * 8 * tiles >= 1 << 28


@BOTH_WAYS
def test_a_batch_of_all_rows_is_the_full_batch(gpu: vc.Runtime) -> None:
    X, y = random_table(1001, 5, 8)
    make: Callable[[int | None], vc.LogisticRegression] = lambda size: descent(  # noqa: E731
        max_iter=5, batch_size=size, device=gpu
    ).fit(X, y)
    full = make(None)
    assert_same_bits(full, make(1001))
    assert_same_bits(full, make(5000))


@BOTH_WAYS
@pytest.mark.parametrize("d", [4, 50])
def test_one_seed_one_result(gpu: vc.Runtime, d: int) -> None:
    X, y = random_table(2000, d, 9)
    fits = [
        descent(max_iter=3, batch_size=100, random_state=seed, device=gpu).fit(X, y)
        for seed in (1, 1, 2, np.random.RandomState(1), np.random.default_rng(1))
    ]
    assert_same_bits(fits[0], fits[1])
    assert_same_bits(fits[0], fits[4])
    assert (fits[0].coef_ != fits[2].coef_).any()
    assert (fits[0].coef_ != fits[3].coef_).any()


@BOTH_WAYS
def test_huge_margins(gpu: vc.Runtime) -> None:
    """Margins for which exp(z) overflows or exp(-z) vanishes: the loss of a wrong row is |z|, of others 0."""
    z = np.concatenate([np.linspace(80, 2000, 5000), np.geomspace(2000, 1e30, 500)])
    X = np.concatenate([z, -z])[:, None].astype(np.float32)
    for y in (np.arange(len(X)) % 2, X[:, 0] > 0, X[:, 0] < 0):
        model = descent(learning_rate=1e-37, max_iter=1, device=gpu).fit(X, y, coef_init=np.ones(1))
        wrong = (X[:, 0] > 0) != y
        expected = np.abs(X[wrong, 0].astype(np.float64)).sum() / len(X)
        np.testing.assert_allclose(model.loss_curve_[0], expected, rtol=1e-5, atol=1e-34)
        gradient = (np.where(wrong, np.sign(X[:, 0]), 0) * X[:, 0].astype(np.float64)).mean()
        np.testing.assert_allclose(model.coef_[0, 0], 1 - 1e-37 * gradient, rtol=1e-6)


def test_a_margin_of_ten_thousand(gpu: vc.Runtime) -> None:
    X = np.array([[-1e4], [1e4], [3e4]])
    model = descent(learning_rate=1e-9, max_iter=2, device=gpu).fit(X, [0, 1, 0], coef_init=np.ones(1))
    np.testing.assert_allclose(model.loss_curve_[0], 1e4, rtol=1e-6)
    assert np.isfinite(model.coef_).all()


@BOTH_WAYS
@pytest.mark.parametrize("margin", [0.0, 1e-6, 0.5, 3.0, 16.0, 40.0, 80.0])
def test_tiny_losses_keep_their_relative_accuracy(gpu: vc.Runtime, margin: float) -> None:
    """Rows that are all well inside their class: 1 + exp(-margin) alone would be 1 in float32."""
    X = np.array([[-1.0], [1.0], [1.0]]) * margin
    model = descent(max_iter=1, device=gpu).fit(X, [0, 1, 1], coef_init=np.ones(1))
    np.testing.assert_allclose(model.loss_curve_[0], np.log1p(np.exp(-float(np.float32(margin)))), rtol=1e-6)


@BOTH_WAYS
@pytest.mark.parametrize("d", [1, 40])
def test_steps_too_small_for_the_weight_add_up(gpu: vc.Runtime, d: int) -> None:
    """Each step is an eighth of a unit in the weight's last place; a unit is a fortieth of all of them together."""
    X = np.zeros((3, d))
    X[:, 0] = 1
    start = np.zeros(d)
    start[0] = 64
    init: dict[str, Any] = {"coef_init": start, "intercept_init": -64.0}
    params: dict[str, Any] = {"learning_rate": 6e-6, "max_iter": 300}
    expected = fit(X, np.array([0, 1, 1]), **params, **init)
    assert abs(expected.coef[0] - 64) > 2e-4
    model = descent(device=gpu, **params).fit(X, [0, 1, 1], **init)
    np.testing.assert_allclose(model.coef_[0, 0] - 64, expected.coef[0] - 64, rtol=5e-3)
    np.testing.assert_allclose(model.intercept_[0] + 64, expected.intercept + 64, rtol=5e-3)


@pytest.mark.parametrize(("max_sequence_rows", "n_epochs"), [(0, model.HISTORY_EPOCHS + 100), (100, 30_000)])
def test_more_epochs_than_the_device_keeps_losses_of(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, max_sequence_rows: int, n_epochs: int
) -> None:
    monkeypatch.setattr(narrow, "max_sequence_rows", lambda *_: max_sequence_rows)
    X, y = random_table(5, 2, 10)
    params: dict[str, Any] = {"max_iter": n_epochs, "learning_rate": 1e-3}
    fitted = descent(device=gpu, **params).fit(X, y)
    expected = fit(X, y, **params)
    one_round = expected.losses[: -model.HISTORY_EPOCHS] - expected.losses[model.HISTORY_EPOCHS :]
    assert one_round.min() > 1e-3, "or nobody would notice a loss of the wrong epoch"
    np.testing.assert_allclose(fitted.loss_curve_, expected.losses, rtol=0, atol=1e-5)
    assert fitted.n_iter_ == n_epochs


def stop_after(losses: Array, tol: float, patience: int) -> int:
    """Epochs until training stops by scikit-learn's rule for SGDClassifier."""
    best, stale = np.inf, 0
    for epoch, loss in enumerate(losses, 1):
        stale = stale + 1 if loss > best - tol else 0
        best = min(best, loss)
        if stale >= patience:
            return epoch
    return len(losses)


@BOTH_WAYS
@pytest.mark.parametrize("batch_size", [None, 30])
@pytest.mark.parametrize(("tol", "patience"), [(1e-3, 1), (1e-3, 5), (2e-2, 3), (10.0, 2)])
def test_tolerance_stops_training(gpu: vc.Runtime, tol: float, patience: int, batch_size: int | None) -> None:
    X, y = random_table(100, 2, 11)
    params: dict[str, Any] = {"max_iter": 150, "batch_size": batch_size, "random_state": 4, "device": gpu}
    every = descent(**params).fit(X, y)
    n_epochs = stop_after(every.loss_curve_, tol, patience)
    assert 1 < n_epochs < 150, "the case is to stop on the way"
    stopped = descent(tol=tol, n_iter_no_change=patience, **params).fit(X, y)
    assert stopped.n_iter_ == n_epochs
    assert_same_bits(stopped, descent(**(params | {"max_iter": n_epochs})).fit(X, y))


@BOTH_WAYS
@pytest.mark.parametrize("first_slice", [1, 3, 500])
def test_how_often_the_host_looks_changes_nothing(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, first_slice: int
) -> None:
    X, y = random_table(200, 3, 12)
    params: dict[str, Any] = {"max_iter": 300, "tol": 1e-4, "device": gpu}
    usual = descent(**params).fit(X, y)
    monkeypatch.setattr(training, "_FIRST_SLICE", first_slice)
    assert_same_bits(usual, descent(**params).fit(X, y))
    assert usual.n_iter_ < 300


def test_divergence_warns(gpu: vc.Runtime) -> None:
    from sklearn.exceptions import ConvergenceWarning

    X, y = random_table(50, 2, 13)
    with pytest.warns(ConvergenceWarning, match=r"diverged: its loss is .* learning_rate below 100"):
        descent(learning_rate=100, device=gpu).fit(X * [1, 1000], y)


def test_too_few_epochs_warn(gpu: vc.Runtime) -> None:
    from sklearn.exceptions import ConvergenceWarning

    X, y = random_table(50, 2, 13)
    with pytest.warns(
        ConvergenceWarning, match="gradient descent failed to converge after 3 epochs: increase max_iter=3"
    ):
        descent(max_iter=3, tol=1e-9, device=gpu).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        descent(max_iter=3, device=gpu).fit(X, y)


@BOTH_WAYS
@pytest.mark.parametrize("batch_size", [None, 3])
def test_a_loss_that_overflows_is_an_error(gpu: vc.Runtime, batch_size: int | None) -> None:
    X, y = random_table(10, 2, 14)
    diverging = descent(learning_rate=1e30, alpha=1e30, max_iter=50, batch_size=batch_size, device=gpu)
    with pytest.raises(ValueError, match=r"overflow occurred at epoch #[1-9]\.[^.]*StandardScaler.*learning_rate"):
        diverging.fit(X, y)
    assert not hasattr(diverging, "coef_")


@pytest.mark.parametrize(("n", "max_iter"), [(30_000, 40), (100, 2000)])
def test_progress_is_told(gpu: vc.Runtime, n: int, max_iter: int) -> None:
    X, y = random_table(n, 2, 15)
    told: list[int] = []
    descent(max_iter=max_iter, device=gpu).fit(X, y, progress=told.append)
    assert told == sorted(told)
    assert len(told) > 1
    assert told[-1] == max_iter


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("batch_size", [None, 32])
def test_what_ends_training_is_raised_as_it_is_and_all_is_freed(batch_size: int | None, error: BaseException) -> None:
    def progress(n_epochs: int) -> None:
        raise error

    X, y = random_table(400, 3, 16)
    with vc.Runtime() as runtime:
        needs_shaders(runtime)  # kernels keep the memory of their numbers
        with pytest.raises(type(error)) as raised:
            descent(batch_size=batch_size, device=runtime).fit(X, y, progress=progress)
        assert raised.value is error
        assert not getattr(error, "__notes__", ())
        assert error.__cause__ is None
        del raised
        error.__traceback__ = None  # whose frames hold arrays
        runtime.device.collect(wait=True)
        assert runtime.device.memory.used_bytes == 0


@pytest.mark.parametrize("n_epochs", [1, 64, 65])
@pytest.mark.parametrize("batch_size", [10, 1])
def test_steps_in_a_row_end_with_the_epochs_and_the_order(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, n_epochs: int, batch_size: int
) -> None:
    monkeypatch.setattr(step, "ORDERED_ROWS", 7)
    X, y = random_table(10, 2, 21)
    params: dict[str, Any] = {"max_iter": n_epochs, "batch_size": batch_size, "random_state": 2}
    model = descent(device=gpu, **params).fit(X, y)
    assert_matches(model, fit(X, y, **params))


@pytest.mark.parametrize("n", [500, 30_000])
def test_fits_at_the_same_time_do_not_disturb_each_other(gpu: vc.Runtime, n: int) -> None:
    tables = [random_table(n, 1 + i, i) for i in range(4)]

    def train(data: tuple[Array, Array]) -> vc.LogisticRegression:
        return descent(max_iter=30, batch_size=n // 3, random_state=0, device=gpu).fit(*data)

    alone = [train(data) for data in tables]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train, tables))
    for a, b in zip(alone, together, strict=True):
        assert_same_bits(a, b)


def test_a_runtime_with_several_queues(clean_handles: None) -> None:
    X, y = random_table(500, 3, 16)
    with open_runtime(timelines=3, staging=True) as runtime:
        params: dict[str, Any] = {"max_iter": 4, "batch_size": 64, "random_state": 5}
        model = descent(device=runtime, **params).fit(X, y)
    assert_matches(model, fit(X, y, **params))


def test_a_device_by_name_is_opened_for_the_fit_alone(gpu: vc.Runtime, clean_handles: None) -> None:
    X, y = random_table(20, 2, 17)
    model = descent(max_iter=2, device=gpu.device.name).fit(X, y)
    assert_matches(model, fit(X, y, max_iter=2))
    assert model.device == gpu.device.name


@pytest.mark.parametrize("d", [3, 40])
def test_a_fit_gives_its_memory_back(clean_handles: None, d: int) -> None:
    X, y = random_table(3000, d, 18)
    with vc.Runtime() as runtime:
        estimator = descent(max_iter=3, batch_size=1000, device=runtime)
        estimator.fit(X, y)
        runtime.wait()
        after_one = runtime.device.memory.allocated_bytes
        for _ in range(5):
            estimator.fit(X, y)
        runtime.wait()
        assert runtime.device.memory.allocated_bytes == after_one


def test_a_table_larger_than_the_device(clean_handles: None) -> None:
    X = np.zeros((1_000_000, 8), np.float32)
    y = np.arange(len(X)) % 2
    with vc.Runtime(memory_limit_bytes=16 << 20) as runtime:
        estimator = descent(max_iter=1, device=runtime)
        with pytest.raises(vc.OutOfDeviceMemory, match="32000000 bytes"):
            estimator.fit(X, y)
        estimator.fit(X[:1000], y[:1000])


def test_a_row_larger_than_a_binding(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_shaders(gpu)
    monkeypatch.setattr(table, "chunk_limit_nbytes", lambda _: 320)
    with pytest.raises(ValueError, match=r"at most 20 features on .*; got 21"):
        descent(device=gpu).fit(*random_table(10, 21, 19))


def test_a_closed_runtime(clean_handles: None) -> None:
    runtime = vc.Runtime()
    runtime.close()
    with pytest.raises(vc.ClosedError, match="closed"):
        descent(device=runtime).fit(*random_table(10, 2, 20))
