"""Real data: as good as scikit-learn's own model on rows that neither has seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc

pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


def split() -> tuple[Any, Any, Any, Any]:
    """Standardized features and the labels, to train on and held out."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=1, stratify=y)
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


@pytest.mark.parametrize("params", [{}, {"batch_size": 32, "random_state": 0, "max_iter": 20}, {"alpha": 0.01}])
def test_breast_cancer(gpu: vc.Runtime, params: dict[str, Any]) -> None:
    X_train, X_test, y_train, y_test = split()
    reference = LogisticRegression().fit(X_train, y_train).score(X_test, y_test)
    model = vc.LogisticRegression(device=gpu, **params).fit(X_train, y_train)
    assert model.score(X_test, y_test) >= reference - 0.02


def test_the_minimum_is_scikit_learns(gpu: vc.Runtime) -> None:
    X_train, _, y_train, _ = split()
    n = len(X_train)
    reference = LogisticRegression(C=1 / 10, tol=1e-8, max_iter=1000).fit(X_train, y_train)
    model = vc.LogisticRegression(learning_rate=1.0, max_iter=2000, alpha=10 / n, device=gpu).fit(X_train, y_train)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-5)
    assert (model.predict(X_train) == reference.predict(X_train)).all()
