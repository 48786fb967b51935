"""Real data: as good as scikit-learn's own model on rows that neither has seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc

pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


def split() -> tuple[Any, Any, Any, Any]:
    """Standardized features and the labels, to train on and held out."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=1, stratify=y)
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


@pytest.mark.parametrize(
    "params", [{}, {"solver": "gradient", "batch_size": 32, "random_state": 0, "max_iter": 20}, {"alpha": 0.01}]
)
def test_breast_cancer(gpu: vc.Runtime, params: dict[str, Any]) -> None:
    X_train, X_test, y_train, y_test = split()
    reference = LogisticRegression().fit(X_train, y_train).score(X_test, y_test)
    model = vc.LogisticRegression(device=gpu, **params).fit(X_train, y_train)
    assert model.score(X_test, y_test) >= reference - 0.02


def test_the_minimum_is_scikit_learns(gpu: vc.Runtime) -> None:
    X_train, _, y_train, _ = split()
    n = len(X_train)
    reference = LogisticRegression(C=1 / 10, tol=1e-8, max_iter=1000).fit(X_train, y_train)
    slow: dict[str, Any] = {"solver": "gradient", "learning_rate": 1.0, "max_iter": 2000, "alpha": 10 / n, "tol": None}
    for params in (slow, {"C": 1 / 10, "tol": 1e-7}):
        model = vc.LogisticRegression(**params, device=gpu).fit(X_train, y_train)
        np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-5)
        np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-5)
        assert (model.predict(X_train) == reference.predict(X_train)).all()


def test_a_long_way_to_the_minimum(gpu: vc.Runtime) -> None:
    """Without a penalty, derivatives are below `tol` long before the minimum, as no boundary separates few rows."""
    X, y = load_breast_cancer(return_X_y=True)
    X, signs = StandardScaler().fit_transform(X), np.where(y == 1, 1, -1)
    with pytest.warns(ConvergenceWarning, match="100 iterations"):  # as scikit-learn's model
        vc.LogisticRegression(penalty=None, device=gpu).fit(X, y)
    model = vc.LogisticRegression(penalty=None, max_iter=1000, device=gpu).fit(X, y)
    assert np.logaddexp(0, -signs * model.decision_function(X)).mean() < 4e-4


@pytest.mark.parametrize("params", [{}, {"C": 0.01}, {"penalty": None, "tol": 1e-3}, {"fit_intercept": False}], ids=str)
def test_digits_by_the_defaults_are_scikit_learns(gpu: vc.Runtime, params: dict[str, Any]) -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, stratify=y)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y_train))
    named = {"C": np.inf} if "penalty" in params else params
    reference = LogisticRegression(max_iter=400, tol=1e-5, **named).fit(X_train, y_train, weights)
    model = vc.LogisticRegression(max_iter=400, **{"tol": 1e-5, **params}, device=gpu)
    model.fit(X_train, y_train, sample_weight=weights)
    assert model.n_iter_.shape == (1,)
    assert model.n_iter_[0] < 400
    assert abs(model.score(X_test, y_test) - reference.score(X_test, y_test)) <= 0.005
    if "penalty" not in params:  # there, the minimum is at infinity
        np.testing.assert_allclose(model.coef_, reference.coef_, atol=0.02)
        np.testing.assert_allclose(model.predict_proba(X_test), reference.predict_proba(X_test), atol=5e-3)


def test_a_fit_that_has_not_converged_warns(gpu: vc.Runtime) -> None:
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"^lbfgs failed to converge after 5 iterations: increase max_iter=5, "):
        vc.LogisticRegression(max_iter=5, device=gpu).fit(X, y)
    rounded = r"^lbfgs failed .* no longer improves in float32: a derivative is .*, and tol is 1e-12; scale the "
    with pytest.warns(ConvergenceWarning, match=rounded):
        vc.LogisticRegression(tol=1e-12, max_iter=4000, device=gpu).fit(X[:200] / 16, y[:200])
