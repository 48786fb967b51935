"""Fits scikit-learn's estimators on device arrays and on NumPy's; prints a JSON object of what differs, by name.

Runs as a program, since SciPy reads SCIPY_ARRAY_API once, when it is imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import sklearn
from sklearn import metrics
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    KernelCenterer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)

import vkcompute as vc

Program = Callable[[Any, Any, Any], Any]
"""Takes features, numbers and classes; returns what is compared."""


def _transformed(estimator: Any) -> Program:
    return lambda X, z, y: estimator.fit(X).transform(X)


def _mixture(X: Any, z: Any, y: Any) -> Any:
    start = {"means_init": X[:2], "init_params": "random", "random_state": 0, "max_iter": 5, "tol": 0.0}
    return GaussianMixture(2, **start).fit(X).predict_proba(X)


PROGRAMS: dict[str, Program] = {
    "PCA": lambda X, z, y: abs(PCA(2, svd_solver="full").fit_transform(X)),
    "PCA by eigenvalues": lambda X, z, y: abs(PCA(2, svd_solver="covariance_eigh").fit_transform(X)),
    "PCA, randomized": lambda X, z, y: abs(PCA(2, svd_solver="randomized", random_state=0).fit_transform(X)),
    "Ridge": lambda X, z, y: Ridge(solver="svd").fit(X, z).predict(X),
    "LinearDiscriminantAnalysis": lambda X, z, y: LinearDiscriminantAnalysis().fit(X, y).decision_function(X),
    "StandardScaler": _transformed(StandardScaler()),
    "MinMaxScaler": _transformed(MinMaxScaler()),
    "MaxAbsScaler": _transformed(MaxAbsScaler()),
    "Normalizer": _transformed(Normalizer()),
    "Binarizer": _transformed(Binarizer()),
    "PolynomialFeatures": _transformed(PolynomialFeatures(2)),
    "KernelCenterer": lambda X, z, y: KernelCenterer().fit_transform(X @ X.T),
    "KBinsDiscretizer": _transformed(KBinsDiscretizer(3, encode="ordinal", strategy="uniform")),
    "GaussianMixture": _mixture,
    "LabelEncoder": lambda X, z, y: LabelEncoder().fit_transform(y),
    "a pipeline": lambda X, z, y: make_pipeline(StandardScaler(), Ridge(solver="svd")).fit(X, z).predict(X),
    "train_test_split": lambda X, z, y: train_test_split(X, random_state=0, test_size=0.25)[1],
    "cross_val_predict": lambda X, z, y: cross_val_predict(Ridge(solver="svd"), X, z, cv=3),
    "r2_score": lambda X, z, y: metrics.r2_score(z, z + X[:, 0]),
    "mean_squared_error": lambda X, z, y: metrics.mean_squared_error(z, X[:, 0]),
    "mean_absolute_error": lambda X, z, y: metrics.mean_absolute_error(z, X[:, 0]),
    "accuracy_score": lambda X, z, y: metrics.accuracy_score(y, y // 2),
    "f1_score": lambda X, z, y: metrics.f1_score(y, y // 2, average="macro"),
    "confusion_matrix": lambda X, z, y: metrics.confusion_matrix(y, y // 2),
    "euclidean_distances": lambda X, z, y: pairwise.euclidean_distances(X[:5], X[5:]),
    "rbf_kernel": lambda X, z, y: pairwise.rbf_kernel(X, gamma=0.1),
    "cosine_similarity": lambda X, z, y: pairwise.cosine_similarity(X),
}


def _difference(program: Program, gpu: vc.Runtime, data: tuple[Any, ...]) -> str:
    """Returns what differs between the device's result and NumPy's, or the error; "" for nothing."""
    expected = np.asarray(program(*data))
    try:
        with sklearn.config_context(array_api_dispatch=True):
            computed = program(*[gpu.array(each) for each in data])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    if expected.ndim and not isinstance(computed, (vc.Array, np.ndarray)):
        return f"the result is {type(computed).__name__}"
    host = np.asarray(computed)
    close = host.shape == expected.shape and np.allclose(host, expected, rtol=2e-3, atol=2e-3)
    return "" if close else f"{host.tolist()} for {expected.tolist()}"[:300]


def main() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(24, 4)).astype(np.float32) * np.float32([3, 2, 1, 0.5])
    z = (X @ np.float32([1, 2, -1, 0.5]) + 1).astype(np.float32)
    data = X, z, (np.arange(24) % 3).astype(np.int32)
    with vc.Runtime() as gpu:
        print(json.dumps({name: _difference(program, gpu, data) for name, program in PROGRAMS.items()}))


if __name__ == "__main__":
    main()
