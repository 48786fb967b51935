"""scikit-learn's conventions: its own checks, parameters, cloning and pickling, prediction, names of features."""

from __future__ import annotations

import pickle
import subprocess
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from logistic_oracle import descent

import vkcompute as vc

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

Array = npt.NDArray[Any]

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 2.0], [3.0, 0.0], [4.0, 1.5], [5.0, 1.0]])
Y = np.array([0, 0, 1, 0, 1, 1])

Make = Callable[..., vc.LogisticRegression]


@pytest.fixture
def make(gpu: vc.Runtime) -> Make:
    """An estimator on the device under test."""
    return lambda **params: descent(**params, device=gpu)


def expected_failures(estimator: Any) -> dict[str, str]:
    """Names of checks with the reason why they fail: there are none."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def _default_runtime_closed() -> Any:
    yield
    vc.default_runtime().close()


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Estimator LogisticRegression does not inherit")
    of_scikit_learn = parametrize_with_checks([vc.LogisticRegression()], expected_failed_checks=expected_failures)


@of_scikit_learn
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


OF_FLOAT32 = "check_sample_weight_equivalence_on_dense_data"
"""The sums of weighted and of repeated rows are equal to 1e-7 in float64."""


@of_scikit_learn
def test_scikit_learns_checks_on_the_device(
    monkeypatch: pytest.MonkeyPatch, estimator: Any, check: Callable[[Any], None]
) -> None:
    if getattr(check, "func", check).__name__ == OF_FLOAT32:
        pytest.skip("the device adds in float32")
    monkeypatch.setattr("vkcompute.pipelines.logistic_regression.MOST_OF_HOST", -1)
    check(estimator)


def test_it_is_a_classifier_in_pipelines_and_searches(make: Make) -> None:
    assert is_classifier(make())
    rows, labels = np.tile(X, (5, 1)), np.tile(Y, 5)
    pipeline = make_pipeline(StandardScaler(), make(max_iter=5))
    scores = cross_val_score(pipeline, rows, labels, cv=3)
    assert scores.min() > 0.5
    search = GridSearchCV(make(max_iter=5), {"learning_rate": [1e-6, 1.0]}, cv=3).fit(rows, labels)
    assert search.best_params_ == {"learning_rate": 1.0}


def test_params(make: Make) -> None:
    estimator = make(alpha=0.5)
    params = estimator.get_params()
    assert params["alpha"] == 0.5
    assert list(params) == sorted(params)
    assert estimator.set_params(alpha=0.25, max_iter=7) is estimator
    assert (estimator.alpha, estimator.max_iter) == (0.25, 7)
    with pytest.raises(ValueError, match=r"Invalid parameter 'alhpa'.*Valid parameters are: \['C', 'alpha'"):
        estimator.set_params(alhpa=1)


def test_repr_shows_what_was_changed() -> None:
    assert repr(vc.LogisticRegression()) == "LogisticRegression()"
    assert repr(vc.LogisticRegression(alpha=0.5, device="gpu")) == "LogisticRegression(alpha=0.5, device='gpu')"
    assert repr(vc.LogisticRegression(max_iter=100.0)) == "LogisticRegression(max_iter=100.0)"


def test_clones_share_the_runtime_and_nothing_else(make: Make, gpu: vc.Runtime) -> None:
    estimator = make(random_state=np.random.default_rng(0), batch_size=2).fit(X, Y)
    copy = clone(estimator)
    assert copy.device is gpu
    assert copy.random_state is not estimator.random_state
    assert not hasattr(copy, "coef_")


def test_a_pickle_names_the_device(make: Make, gpu: vc.Runtime) -> None:
    estimator = make(max_iter=3).fit(X, Y)
    copy = pickle.loads(pickle.dumps(estimator))
    assert copy.device == gpu.device.name
    assert estimator.device is gpu
    assert copy.predict_proba(X).tobytes() == estimator.predict_proba(X).tobytes()


def test_prediction_follows_from_the_weights(make: Make) -> None:
    estimator = make(max_iter=20).fit(X, Y)
    z = X @ estimator.coef_[0] + estimator.intercept_[0]
    np.testing.assert_allclose(estimator.decision_function(X), z, rtol=1e-15)
    p = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(estimator.predict_proba(X), np.stack([1 - p, p], axis=1), rtol=1e-12)
    np.testing.assert_allclose(estimator.predict_log_proba(X), np.log(estimator.predict_proba(X)), atol=1e-12)
    assert (estimator.predict(X) == (z > 0)).all()
    weights = np.array([1, 2, 3, 4, 5, 6])
    right = estimator.predict(X) == Y
    assert estimator.score(X, Y) == pytest.approx(right.mean())
    assert estimator.score(X, Y, weights) == pytest.approx((right * weights).sum() / 21)
    with pytest.warns(UserWarning, match="A column-vector y was passed"):
        assert estimator.score(X, Y[:, None]) == pytest.approx(right.mean())


def test_a_score_is_of_one_label_and_weight_per_row(make: Make) -> None:
    estimator = make(max_iter=2).fit(X, Y)
    for labels, message in ((Y[:1], "inconsistent numbers"), (True, "1d array"), (None, "the target y is None")):
        with pytest.raises(ValueError, match=message):
            estimator.score(X, labels)
    for weights, message in (([1.0], "expected"), (-1.0, "Negative"), (np.nan, "NaN"), (0.0, "only zeros")):
        with pytest.raises(ValueError, match=message):
            estimator.score(X, Y, weights)


def test_shapes_and_types(make: Make) -> None:
    estimator = make(max_iter=7).fit(X, Y)
    assert estimator.coef_.shape == (1, 2)
    assert estimator.intercept_.shape == (1,)
    assert estimator.loss_curve_.shape == (7,)
    assert (estimator.n_iter_, estimator.n_features_in_) == (7, 2)
    assert estimator.classes_.tolist() == [0, 1]
    assert estimator.decision_function(X.astype(np.float32)).dtype == np.float32
    assert estimator.decision_function(X.astype(np.int16)).dtype == np.float64


@pytest.mark.parametrize("size", [1e4, 1e300])
def test_probabilities_of_huge_margins(make: Make, size: float) -> None:
    estimator = make(max_iter=50).fit(X, Y)
    estimator.coef_, estimator.intercept_ = np.array([[size, 0.0]]), np.zeros(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proba = estimator.predict_proba(np.array([[1.0, 0.0], [-1.0, 0.0]]))
        logs = estimator.predict_log_proba(np.array([[1.0, 0.0]]))
    assert proba.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert logs.tolist() == [[-size, 0.0]]


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [2.0, 7.0], np.array(["a", "b"], object)])
def test_labels_of_any_kind(make: Make, labels: Any) -> None:
    classes = np.asarray(labels)
    reference = make(max_iter=10).fit(X, Y)
    estimator = make(max_iter=10).fit(X, classes[Y])
    assert estimator.coef_.tobytes() == reference.coef_.tobytes()
    assert estimator.classes_.tolist() == classes.tolist()
    assert estimator.predict(X).tolist() == classes[reference.predict(X)].tolist()


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.bool_, np.float16, np.longdouble, object])
def test_tables_of_any_kind(make: Make, kind: Any) -> None:
    rows = (np.random.default_rng(0).random((30, 3)) > 0.5).astype(kind)
    labels = np.arange(30) % 2
    reference = make(max_iter=3).fit(rows.astype(np.float64), labels)
    for data in (rows, np.asfortranarray(rows), rows[::-1][::-1], rows.tolist()):
        assert make(max_iter=3).fit(data, labels).coef_.tobytes() == reference.coef_.tobytes()


@pytest.mark.parametrize("flag", [True, False])
def test_weights_of_rows_are_relative(make: Make, flag: bool) -> None:
    weights = np.array([1, 2, 1, 3, 1, 1])
    first = make(max_iter=30, fit_intercept=flag).fit(X, Y, sample_weight=weights)
    scaled = make(max_iter=30, fit_intercept=flag).fit(X, Y, sample_weight=weights * 1e-300)
    repeated = make(max_iter=30, fit_intercept=flag).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    np.testing.assert_allclose(scaled.coef_, first.coef_, rtol=1e-6)
    np.testing.assert_allclose(repeated.coef_, first.coef_, rtol=1e-6)
    np.testing.assert_allclose(repeated.loss_curve_, first.loss_curve_, rtol=1e-6)
    assert flag or first.intercept_[0] == 0


def test_warm_start_goes_on(make: Make) -> None:
    whole = make(max_iter=20).fit(X, Y)
    parts = make(max_iter=10, warm_start=True).fit(X, Y).fit(X, Y)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-6)
    np.testing.assert_allclose(parts.loss_curve_, whole.loss_curve_[10:], rtol=1e-6)
    assert make(max_iter=10).fit(X, Y).fit(X, Y).loss_curve_[0] == whole.loss_curve_[0]
    with pytest.raises(ValueError, match="coef_init holds 3 weights"):
        parts.fit(np.c_[X, X[:, 0]], Y)


class Frame:
    """A data frame as scikit-learn sees it: named columns and an array."""

    def __init__(self, data: Array, columns: list[Any]) -> None:
        self.data, self.columns = data, columns

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.asarray(self.data, dtype)


def test_feature_names(make: Make) -> None:
    estimator = make(max_iter=2).fit(Frame(X, ["a", "b"]), Y)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    assert estimator.feature_names_in_.dtype == object
    estimator.predict(Frame(X, ["a", "b"]))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but LogisticRegression was fitted with"):
        estimator.predict(X)
    with pytest.raises(ValueError, match="must be in the same order"):
        estimator.predict(Frame(X, ["b", "a"]))
    with pytest.raises(
        ValueError, match="unseen at fit time:\n- c\nFeature names seen at fit time, yet now missing:\n- b"
    ):
        estimator.predict(Frame(X, ["a", "c"]))
    with pytest.raises(TypeError, match=r"only supported if all input features have string names.*\['int', 'str'\]"):
        make().fit(Frame(X, ["a", 1]), Y)
    estimator.fit(X, Y)
    assert not hasattr(estimator, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but LogisticRegression was fitted without"):
        estimator.predict(Frame(X, ["a", "b"]))
    assert not hasattr(make().fit(Frame(X, [0, 1]), Y), "feature_names_in_")


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_log_proba", "decision_function", "score", "save"]
)
def test_not_fitted(method: str) -> None:
    arguments = {"score": (X, Y), "save": ("model.npz",)}.get(method, (X,))
    with pytest.raises(NotFittedError, match="This LogisticRegression instance is not fitted yet") as caught:
        getattr(vc.LogisticRegression(), method)(*arguments)
    assert isinstance(caught.value, vc.VkComputeError)


def test_without_scikit_learn(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = """
import sys, warnings
sys.modules["sklearn"] = None  # importing it fails
import numpy as np, vkcompute as vc
model = vc.LogisticRegression(max_iter=3, tol=1e-9)
try:
    model.predict([[0.0]])
except vc.VkComputeError as error:
    print(type(error).__name__, isinstance(error, ValueError), isinstance(error, AttributeError))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit([[0.0], [1.0]], [[0], [1]])
print([each.category.__name__ for each in caught], model.predict([[9.0]]))
"""
    done = run_python(code)
    assert done.stdout.splitlines() == ["NotFittedError True True", "['UserWarning', 'UserWarning'] [1]"], done.stderr


def test_importing_loads_no_scikit_learn(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = "import sys, vkcompute; vkcompute.LogisticRegression(); print({'sklearn', 'vulkan'} & set(sys.modules))"
    assert run_python(code).stdout.strip() == "set()"


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}], ids=str)
@pytest.mark.parametrize("on_device", [False, True])
def test_class_weights_are_those_of_scikit_learn(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, class_weight: Any, *, on_device: bool
) -> None:
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setattr("vkcompute.pipelines.logistic_regression.MOST_OF_HOST", -1 if on_device else 10**6)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((90, 3))
    labels = np.digitize(rows @ [1.0, -2.0, 0.5] + rng.standard_normal(90), [0.5, 2.0])
    weights = rng.integers(1, 4, 90)
    model = vc.LogisticRegression(class_weight=class_weight, C=0.5, tol=1e-6, device=gpu).fit(
        rows, labels, sample_weight=weights
    )
    wanted = LogisticRegression(class_weight=class_weight, C=0.5, tol=1e-8).fit(rows, labels, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=2e-3)
    np.testing.assert_allclose(model.intercept_ - model.intercept_.mean(), wanted.intercept_, atol=2e-3)


@pytest.mark.parametrize("class_weight", ["uniform", {7: 1.0}, {0: -1.0}, 2.0], ids=str)
def test_class_weights_that_are_refused(gpu: vc.Runtime, class_weight: Any) -> None:
    with pytest.raises(ValueError, match="class_weight "):
        vc.LogisticRegression(class_weight=class_weight, device=gpu).fit(X, Y)
