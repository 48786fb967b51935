"""Invalid data and parameters raise before a device is used, with the rule, the position and the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.pipelines.logistic import inputs

pytestmark = pytest.mark.pure

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 2.0], [3.0, 0.0]])
Y = np.array([0, 1, 0, 1])


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here gets as far as a device."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a device was asked for")

    monkeypatch.setattr("vkcompute.runtime.runtime.current_runtime", refuse)
    monkeypatch.setattr("vkcompute.runtime.runtime.Runtime", refuse)


def with_value(row: int, column: int, value: Any, dtype: Any = float) -> Any:
    changed = X.astype(dtype)
    changed[row, column] = value
    return changed


TABLES: dict[str, tuple[Any, type[Exception], str]] = {
    "NaN": (with_value(2, 1, np.nan), vc.DataError, r"Input X contains NaN\.\nThe first is nan in row 2, column 1"),
    "infinity": (
        with_value(3, 0, -np.inf),
        vc.DataError,
        r"Input X contains infinity .*'float32'.*-inf in row 3, column 0",
    ),
    "too large": (with_value(1, 0, 1e39), vc.DataError, r"too large for dtype\('float32'\).*1e\+39 in row 1, column 0"),
    "NaN, float32": (with_value(0, 0, np.nan, np.float32), vc.DataError, r"contains NaN\.\n.*row 0, column 0"),
    "NaN object": (with_value(0, 1, None, object), vc.DataError, r"contains NaN\.\n.*row 0, column 1"),
    "one axis": (X[0], ValueError, r"Expected 2D array, got 1D array instead[^.]*.*reshape\(-1, 1\)"),
    "no axis": (1.0, ValueError, "Expected 2D array, got scalar array instead"),
    "three axes": (X[None], ValueError, "Found array with dim 3, while dim <= 2 is required by LogisticRegression"),
    "no rows": (
        X[:0],
        ValueError,
        r"Found array with 0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1 is required",
    ),
    "no features": (X[:, :0], ValueError, r"0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1 is required"),
    "complex": (X + 1j, ValueError, "Complex data not supported"),
    "text": (X.astype(str), ValueError, "not compatible with an array of <U32.*Convert your data to numeric values"),
    "objects": (with_value(0, 0, {}, object), TypeError, "argument must be .* string.* number"),
    "dates": (X.astype("datetime64[s]"), ValueError, "not compatible with an array of datetime64"),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, "inhomogeneous"),
}
LABELS: dict[str, tuple[Any, type[Exception], str]] = {
    "one class": ([1, 1, 1, 1], ValueError, r"needs samples of at least 2 classes .*only one class: 1"),
    "fractions": ([0.0, 0.5, 1.0, 1.0], ValueError, "Unknown label type: continuous"),
    "NaN": ([0.0, 1.0, np.nan, 1.0], vc.DataError, r"Input y contains NaN\.\nThe first is nan in row 2"),
    "infinity": ([0.0, 1.0, 1.0, np.inf], vc.DataError, "Input y contains infinity.*row 3"),
    "None": (["a", None, "b", "a"], vc.DataError, r"Input y contains NaN\.\nThe first is None in row 1"),
    "NaN among strings": (np.array(["a", np.nan, "b", "a"], object), vc.DataError, "nan in row 1"),
    "mixed": (np.array(["a", 1, "b", "a"], object), TypeError, "not supported between"),
    "too few": ([0, 1], ValueError, r"inconsistent numbers of samples: \[4, 2\]"),
    "two columns": (np.eye(4)[:, :2], ValueError, r"y should be a 1d array, got an array of shape \(4, 2\) instead"),
    "scalar": (1, ValueError, r"y should be a 1d array, got an array of shape \(\)"),
    "missing": (None, ValueError, "requires y to be passed, but the target y is None"),
    "complex": (Y + 1j, ValueError, "Complex data not supported"),
}
WEIGHTS: dict[str, tuple[Any, type[Exception], str]] = {
    "negative": ([1, 1, -2, 1], ValueError, r"Negative values in data passed to `sample_weight`: -2.0 in row 2"),
    "NaN": ([1, np.nan, 1, 1], vc.DataError, "Input sample_weight contains NaN.\nThe first is nan in row 1"),
    "infinite": ([1, 1, 1, np.inf], vc.DataError, "Input sample_weight contains infinity.*row 3"),
    "too few": ([1, 1], ValueError, r"sample_weight.shape == \(2,\), expected \(4,\)!"),
    "two axes": (np.ones((4, 1)), ValueError, "Sample weights must be 1D array or scalar"),
    "zeros": (np.zeros(4), ValueError, "only one class, or none, once samples of weight zero are left out"),
    "one class left": ([1, 0, 1, 0], ValueError, "only one class, or none, once samples of weight zero"),
}
PARAMETERS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "rate 0": ({"learning_rate": 0}, ValueError, "learning_rate is above 0 and finite as float32; got 0"),
    "rate inf": ({"learning_rate": 1e39}, ValueError, r"learning_rate is above 0 and finite as float32; got 1e\+39"),
    "rate text": ({"learning_rate": "fast"}, TypeError, r"learning_rate is a number; got 'fast' \(str\)"),
    "alpha": ({"alpha": -1e-9}, ValueError, "alpha is at least 0 and finite as float32; got -1e-09"),
    "alpha NaN": ({"alpha": np.nan}, ValueError, "alpha is at least 0 .*; got nan"),
    "tol": ({"tol": -1}, ValueError, "tol is at least 0 .*; got -1"),
    "epochs 0": ({"max_iter": 0}, ValueError, r"max_iter is at least 1 and below 2\*\*32; got 0"),
    "epochs 1.5": ({"max_iter": 1.5}, TypeError, r"max_iter is an int; got 1.5 \(float\)"),
    "batch 0": ({"batch_size": 0}, ValueError, "batch_size is at least 1 .*; got 0"),
    "batch auto": ({"batch_size": "auto"}, TypeError, r"batch_size is an int; got 'auto' \(str\)"),
    "patience": ({"n_iter_no_change": True}, TypeError, r"n_iter_no_change is an int; got True \(bool\)"),
    "solver": ({"solver": "newton"}, ValueError, r'solver is "lbfgs" or "gradient"; got \'newton\''),
    "rate of lbfgs": (
        {"learning_rate": 0.1, "solver": "lbfgs"},
        ValueError,
        r'learning_rate is for gradient descent; got 0.1 .* pass solver="gradient"',
    ),
    "batches of lbfgs": ({"batch_size": 8, "solver": "lbfgs"}, ValueError, "batch_size is for gradient descent; got 8"),
    "penalty": ({"penalty": "l1"}, ValueError, r'penalty is "l2" or None; got \'l1\''),
    "strength": ({"C": 0}, ValueError, "C is above 0 and finite as float32; got 0"),
    "two strengths": ({"penalty": None, "alpha": 1.0}, ValueError, "got 1.0 with penalty=None"),
    "intercept": ({"fit_intercept": 1}, TypeError, r"fit_intercept is True or False; got 1 \(int\)"),
    "seed": ({"random_state": -1}, ValueError, "random_state is None, an int from 0 on, a numpy Generator .*; got -1"),
}


def refused(action: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="(?s)" + message):
        action()


@pytest.mark.parametrize("case", TABLES)
def test_tables(case: str) -> None:
    table, error, message = TABLES[case]
    refused(lambda: vc.LogisticRegression().fit(table, Y), error, message)


@pytest.mark.parametrize("case", LABELS)
def test_labels(case: str) -> None:
    labels, error, message = LABELS[case]
    refused(lambda: vc.LogisticRegression().fit(X, labels), error, message)


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(case: str) -> None:
    weights, error, message = WEIGHTS[case]
    refused(lambda: vc.LogisticRegression().fit(X, Y, sample_weight=weights), error, message)


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters(case: str) -> None:
    parameters, error, message = PARAMETERS[case]
    estimator = vc.LogisticRegression(**{"solver": "gradient", **parameters})
    refused(lambda: estimator.fit(X, Y), error, message)


def test_starts() -> None:
    fit = vc.LogisticRegression().fit
    refused(lambda: fit(X, Y, coef_init=np.zeros(3)), ValueError, r"coef_init holds 2 weights.*shape \(3,\)")
    refused(lambda: fit(X, Y, intercept_init=[0, 1]), ValueError, r"intercept_init is one number; got shape \(2,\)")
    refused(lambda: fit(X, Y, coef_init=[np.nan, 0]), ValueError, "finite as float32")


def test_sparse() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    message = r"Sparse data was passed for X, but dense data is required. Use '.toarray\(\)'"
    for kind in (sparse.csr_matrix, sparse.coo_array):
        refused(lambda kind=kind: vc.LogisticRegression().fit(kind(X), Y), TypeError, message)  # type: ignore[misc]
    refused(lambda: vc.LogisticRegression().fit(X, sparse.csr_matrix(Y)), TypeError, "Sparse data was passed for y")


def test_the_place_of_a_bad_value_in_a_long_table() -> None:
    table = np.zeros((100_003, 7))
    table[90_001, 5] = table[99_999, 0] = np.nan
    refused(lambda: inputs.checked_table(table, "Owner", as_float32=True), vc.DataError, "row 90001, column 5")


def test_prediction_needs_the_features_of_the_fit() -> None:
    estimator = vc.LogisticRegression()
    estimator.coef_, estimator.intercept_ = np.ones((1, 2)), np.zeros(1)
    estimator.classes_, estimator.n_features_in_ = np.array([0, 1]), 2
    message = "X has 3 features, but LogisticRegression is expecting 2 features as input"
    refused(lambda: estimator.predict(np.zeros((5, 3))), ValueError, message)
    refused(lambda: estimator.predict(with_value(3, 1, np.nan)), vc.DataError, "NaN.*row 3, column 1")
    refused(lambda: estimator.predict(with_value(3, 1, np.inf)), vc.DataError, "infinity.*'float64'")
    assert estimator.predict(with_value(3, 1, 1e300)).tolist() == [1, 1, 1, 1]


def test_weights_keep_their_ratios_exactly() -> None:
    second = np.array([True, False, True])
    for scale in (1.0, 2.0**-1000, 2.0**900):
        result = inputs.checked_weights(np.array([3.0, 7.0, 100_001.0]) * scale, second)
        assert (result / result[0] * 3).tolist() == [3, 7, 100_001]
        assert 1 <= result.max() < 2
        assert (np.sign(inputs.targets_of(second, result)) == [1, -1, 1]).all()
