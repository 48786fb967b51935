"""More than two classes: gradient descent in numpy float64 is the oracle, and scikit-learn's minimum."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from logistic_oracle import descent

import vkcompute as vc
from vkcompute.pipelines.logistic import array_shard

Floats = npt.NDArray[np.float64]


def table(n: int = 203, n_features: int = 5, n_classes: int = 4) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
    """Features, and labels 10, 20, … that depend on them, with noise."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, n_features)).astype(np.float32)
    z = X @ random.normal(size=(n_features, n_classes)) + random.normal(size=(n, n_classes))
    return X, 10 * (1 + z.argmax(axis=1))


def descend(
    X: npt.NDArray[Any],
    codes: npt.NDArray[Any],
    *,
    learning_rate: float = 0.1,
    max_iter: int = 100,
    alpha: float = 0.0,
    batch_size: int | None = None,
    random_state: int = 0,
    fit_intercept: bool = True,
    weight: Any = 1.0,
) -> tuple[Floats, Floats, list[float]]:
    """Returns coefficients, intercepts and losses after the same steps on the same batches."""
    n, n_classes = len(X), codes.max() + 1
    weights = np.broadcast_to(np.asarray(weight, np.float64) / np.mean(weight), n)
    coef, intercept = np.zeros((n_classes, X.shape[1])), np.zeros(n_classes)
    size, random, losses = min(batch_size or n, n), np.random.default_rng(random_state), []
    for _ in range(max_iter):
        order, total = random.permutation(n) if size < n else np.arange(n), 0.0
        for first in range(0, n, size):
            rows = order[first : first + size]
            x, w = X[rows].astype(np.float64), weights[rows, np.newaxis]
            z = x @ coef.T + intercept
            log_probability = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
            is_class = codes[rows, np.newaxis] == np.arange(n_classes)
            total += len(rows) * alpha / 2 * np.sum(coef**2) - np.sum(w * is_class * log_probability)
            residual = w * (np.exp(log_probability) - is_class) / len(rows)
            coef = coef - learning_rate * (residual.T @ x + alpha * coef)
            intercept = intercept - learning_rate * residual.sum(axis=0) * fit_intercept
        losses.append(total / n)
    return coef, intercept, losses


def assert_descended(model: vc.LogisticRegression, X: Any, y: Any, weight: Any = 1.0, **params: Any) -> None:
    coef, intercept, losses = descend(X, y // 10 - 1, weight=weight, **params)
    np.testing.assert_allclose(model.coef_, coef, atol=2e-5)
    np.testing.assert_allclose(model.intercept_, intercept, atol=2e-5)
    np.testing.assert_allclose(model.loss_curve_, losses, rtol=2e-5)


@pytest.mark.parametrize(
    "params",
    [
        {"learning_rate": 0.5, "max_iter": 20, "alpha": 0.01},
        {"max_iter": 3, "batch_size": 50},
        {"max_iter": 3, "batch_size": 7, "fit_intercept": False},
    ],
    ids=str,
)
def test_steps_are_numpys(gpu: vc.Runtime, params: dict[str, Any]) -> None:
    X, y = table()
    model = descent(**params, random_state=0, device=gpu).fit(X, y)
    assert model.classes_.tolist() == [10, 20, 30, 40]
    assert (model.coef_.shape, model.intercept_.shape) == ((4, 5), (4,))
    assert_descended(model, X, y, **params)


def test_weights_of_rows(gpu: vc.Runtime) -> None:
    X, y = table()
    weight = np.random.default_rng(1).uniform(size=len(X))
    weight[::3] = 0
    model = descent(max_iter=5, device=gpu).fit(X, y, sample_weight=weight)
    assert_descended(model, X, y, weight, max_iter=5)
    with pytest.raises(ValueError, match="only one class, or none, once samples of weight zero are left out"):
        descent(device=gpu).fit(X, y, sample_weight=y == 20)


def test_a_table_in_pieces(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_shard, "_MAX_PIECE_NBYTES", 4 * 5 * 64)
    X, y = table()
    for params in ({"max_iter": 4}, {"max_iter": 2, "batch_size": 40}):
        assert_descended(descent(**params, random_state=0, device=gpu).fit(X, y), X, y, **params)


@pytest.mark.rotates
@pytest.mark.devices
def test_a_group(two_runtimes: tuple[vc.Runtime, vc.Runtime]) -> None:
    X, y = table()
    with vc.DeviceGroup(two_runtimes) as group:
        for params in ({"max_iter": 8}, {"max_iter": 3, "batch_size": 9}):
            assert_descended(descent(**params, random_state=0, device=group).fit(X, y), X, y, **params)


def test_predictions(gpu: vc.Runtime) -> None:
    X, y = table(40)
    model = descent(max_iter=5, device=gpu).fit(X, np.array(["a", "b", "c", "d"])[y // 10 - 1])
    z = model.decision_function(X)
    assert z.shape == (40, 4)
    assert (model.predict(X) == np.array(["a", "b", "c", "d"])[z.argmax(axis=1)]).all()
    probabilities = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), probabilities, rtol=1e-5)
    np.testing.assert_allclose(model.predict_log_proba(X * 1e4).max(axis=1), 0, atol=1e-3)


def test_warm_start_and_initial_values(gpu: vc.Runtime) -> None:
    X, y = table()
    whole = descent(max_iter=6, device=gpu).fit(X, y)
    model = descent(max_iter=3, warm_start=True, device=gpu).fit(X, y).fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-6)
    with pytest.raises(ValueError, match=r"coef_init holds weights of shape \(4, 5\); got shape \(5,\)"):
        model.fit(X, y, coef_init=np.zeros(5))
    with pytest.raises(ValueError, match=r"intercept_init is one number, or 4; got shape \(2,\)"):
        model.fit(X, y, intercept_init=[1, 2])


def test_files(gpu: vc.Runtime, tmp_path: Path) -> None:
    X, y = table(60)
    model = descent(max_iter=2, device=gpu).fit(X, y)
    model.save(tmp_path / "model.npz")
    for copy in (vc.LogisticRegression.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_divergence(gpu: vc.Runtime) -> None:
    X, y = table()
    with pytest.warns(UserWarning, match=r"The training diverged: .*; with zero weights it is 1\.386"):
        descent(learning_rate=1e4, max_iter=4, device=gpu).fit(X, y)
    with pytest.raises(ValueError, match="under-/overflow occurred"):
        descent(learning_rate=1e38, max_iter=20, device=gpu).fit(X * 1e8, y)


def test_the_minimum_is_scikit_learns(gpu: vc.Runtime) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = table()
    alpha = 0.05
    expected = linear_model.LogisticRegression(C=1 / (alpha * len(X)), tol=1e-8, max_iter=1000).fit(X.astype(float), y)
    model = descent(learning_rate=1.0, max_iter=150, alpha=alpha, device=gpu).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, expected.intercept_ - expected.intercept_.mean(), atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-5)
