"""Logistic regression, trained on a Vulkan device, with scikit-learn's conventions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic import inputs, model_file
from vkcompute.pipelines.logistic.estimator import Estimator, warning_class
from vkcompute.pipelines.logistic.settings import Outcome, settings_from

if TYPE_CHECKING:
    from vkcompute.runtime.groups.group import DeviceGroup
    from vkcompute.runtime.runtime import Runtime

Array = npt.NDArray[Any]
_Self = TypeVar("_Self", bound="LogisticRegression")

_FITTED = ("coef_", "intercept_", "classes_", "loss_curve_", "n_iter_", "n_features_in_", "feature_names_in_")


class LogisticRegression(Estimator):
    """Binary logistic regression by gradient descent on the mean cross-entropy.

    Each step moves the weights by `learning_rate` times the gradient of

        mean over the rows of log(1 + exp(-s z)) + alpha / 2 * ||coef||^2,    z = X coef + intercept, s = -1 or 1.

    Features are best scaled first (StandardScaler): steps that are right for the small ones are too long for the large
    ones, and the training diverges, of which a warning tells.

    Training runs in float32 on the device; an `X` of other types is converted. The same data, parameters and seed give
    the same bits on one device.

    Args:
        learning_rate: length of a step.
        max_iter: epochs, that is passes over the rows.
        alpha: strength of the L2 penalty; the intercept is not penalized.
        tol: training stops once `n_iter_no_change` epochs in a row fail to improve the best loss by `tol`. None: it
            makes all `max_iter` epochs. There is no other default because no number fits: the loss of one step per
            epoch falls by less than SGDClassifier's 1e-3 long before it is near the minimum.
        batch_size: rows per step. None, or as many as there are rows: one step per epoch, on all of them. Else each
            epoch takes the rows in a new random order, and its last batch has what is left.
        random_state: seed of that order: None, an int, a numpy Generator or RandomState.
        fit_intercept: whether the intercept is fitted too.
        n_iter_no_change: see `tol`.
        warm_start: whether `fit` starts from what an earlier `fit` found.
        device: a `Runtime`; or a device's index or part of its name, for a runtime opened for each fit; or None, for
            `vkcompute.default_runtime()`; or a `DeviceGroup`, or a list of devices for one opened for each fit: they
            divide the rows, by speeds measured during the first epochs. Only `fit` uses it: to predict, which passes
            over the rows once, the host is done before a device would have received them.

    Attributes:
        coef_: shape (1, n_features), float64.
        intercept_: shape (1,), float64.
        classes_: the two labels, sorted; positive decisions are for the second.
        n_iter_: epochs made.
        loss_curve_: of each epoch, the mean over its rows of the cross-entropy, and the penalty, as they were before
            the step that the row took part in; shape (n_iter_,), float64.
        n_features_in_: number of features.
        feature_names_in_: their names, where `X` was a data frame with names.
    """

    def __init__(
        self,
        learning_rate: float = 0.1,
        max_iter: int = 100,
        alpha: float = 0.0,
        tol: float | None = None,
        batch_size: int | None = None,
        random_state: Any = None,
        fit_intercept: bool = True,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        device: Runtime | DeviceGroup | Sequence[Runtime | int | str] | int | str | None = None,
    ) -> None:
        self.learning_rate, self.max_iter, self.alpha, self.tol = learning_rate, max_iter, alpha, tol
        self.batch_size, self.random_state, self.fit_intercept = batch_size, random_state, fit_intercept
        self.n_iter_no_change, self.warm_start, self.device = n_iter_no_change, warm_start, device

    def fit(
        self: _Self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        progress: Callable[[int], None] | None = None,
    ) -> _Self:
        """Trains on `X`, shape (n_rows, n_features), and its labels `y`, shape (n_rows,); gives the estimator itself.

        Args:
            coef_init: n_features weights to start from, instead of zeros.
            intercept_init: the intercept to start from, instead of zero.
            sample_weight: shape (n_rows,): how often each row counts, relative to the others.
            progress: called during training with the number of epochs done.

        Raises:
            ValueError: data or parameters that cannot be used; DataError, which is one, gives row and column. Also
                where the loss overflows.
            OutOfDeviceMemory: the table does not fit.
        """
        name = type(self).__name__
        names = inputs.feature_names(X)
        table = inputs.checked_table(X, name, as_float32=True)
        classes, second = inputs.checked_labels(y, len(table), name)
        targets = inputs.checked_weights(sample_weight, second)
        settings = settings_from(self, targets, progress)
        coef, intercept = self._start(table.shape[1], coef_init, intercept_init)
        with self._training() as train:
            outcome = train(table, targets, settings, coef, intercept)
        self._keep(outcome, classes, names)
        return self

    @contextmanager
    def _training(self) -> Iterator[Callable[..., Outcome]]:
        """`training.train` or `divided.train_divided` on the devices."""
        # Here, because a loaded model predicts where no Vulkan is.
        from vkcompute.pipelines.logistic.divided import train_divided
        from vkcompute.pipelines.logistic.training import train
        from vkcompute.runtime.groups.group import DeviceGroup
        from vkcompute.runtime.runtime import Runtime, default_runtime

        with ExitStack() as opened:
            device: Any = default_runtime() if self.device is None else self.device
            if isinstance(device, (list, tuple)):
                device = opened.enter_context(DeviceGroup(device))
            elif not isinstance(device, (Runtime, DeviceGroup)):
                device = opened.enter_context(Runtime(device))
            yield partial(train_divided if isinstance(device, DeviceGroup) else train, device)

    def _start(self, n_features: int, coef_init: Any, intercept_init: Any) -> tuple[npt.NDArray[np.float32], float]:
        warm = self.warm_start and self.__sklearn_is_fitted__()
        if coef_init is None:
            coef_init = self.coef_ if warm else np.zeros(n_features)
        if intercept_init is None:
            intercept_init = self.intercept_ if warm else 0.0
        coef, intercept = np.asarray(coef_init, np.float32), np.asarray(intercept_init, np.float32)
        if coef.shape not in ((n_features,), (1, n_features)):
            raise ValueError(f"coef_init holds {n_features} weights, one per feature; got shape {coef.shape}")
        if intercept.size != 1:
            raise ValueError(f"intercept_init is one number; got shape {intercept.shape}")
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError("coef_init and intercept_init are finite as float32")
        return coef.reshape(-1), float(intercept.item())

    def _keep(self, outcome: Outcome, classes: Array, names: Array | None) -> None:
        n_epochs = len(outcome.losses)
        if not (np.isfinite(outcome.losses).all() and np.isfinite([*outcome.weights, outcome.intercept]).all()):
            raise ValueError(
                f"Floating-point under-/overflow occurred at epoch #{n_epochs}. Scaling input data with StandardScaler "
                f"or MinMaxScaler might help, or a learning_rate below {self.learning_rate!r}."
            )
        self.coef_ = outcome.weights.reshape(1, -1)
        self.intercept_ = np.array([outcome.intercept], np.float64)
        self.classes_ = classes
        self.n_iter_ = n_epochs
        self.loss_curve_ = outcome.losses.astype(np.float64)
        self.n_features_in_ = len(outcome.weights)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if self.loss_curve_[-1] > max(1.0, self.loss_curve_[0]):  # the second is more where training starts afar
            warnings.warn(
                f"The training diverged: its loss is {self.loss_curve_[-1]:.4g}, that of zero weights 0.693. "
                "Scaling input data with StandardScaler or MinMaxScaler might help, or a learning_rate below "
                f"{self.learning_rate!r}.",
                warning_class("ConvergenceWarning"),
                stacklevel=3,
            )
        elif self.tol is not None and not outcome.converged:
            warnings.warn(
                f"Maximum number of iteration reached before convergence: {n_epochs} epochs. Consider increasing "
                "max_iter to improve the fit.",
                warning_class("ConvergenceWarning"),
                stacklevel=3,
            )

    def decision_function(self, X: Any) -> Array:
        """z for each row of `X`, shape (n_rows,): positive for the second class. In the precision of `X`.

        Raises:
            NotFittedError: `fit` has not been called.
            ValueError: `X` cannot be used, or has another number of features, or other names for them.
        """
        self._require_fitted()
        name = type(self).__name__
        inputs.require_same_names(inputs.feature_names(X), getattr(self, "feature_names_in_", None), name)
        table = inputs.checked_table(X, name, as_float32=False)
        if table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {table.shape[1]} features, but {name} is expecting {self.n_features_in_} features as input."
            )
        kind = np.float32 if table.dtype == np.float32 else np.float64
        z: Array = table @ self.coef_[0].astype(kind) + self.intercept_.astype(kind)
        return z

    def predict(self, X: Any) -> Array:
        """The likelier class of each row, shape (n_rows,)."""
        z = self.decision_function(X)
        labels: Array = self.classes_[(z > 0).astype(np.intp)]
        return labels

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities of the classes, shape (n_rows, 2)."""
        z = self.decision_function(X)
        return np.stack([-np.logaddexp(0, z), -np.logaddexp(0, -z)], axis=1)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, shape (n_rows, 2)."""
        probabilities: Array = np.exp(self.predict_log_proba(X))
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows of `X` whose predicted class is that of `y`; rows count by `sample_weight`."""
        right = self.predict(X) == np.asarray(y)
        return float(np.average(right, weights=sample_weight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted model to `path`, a numpy .npz; the file is there whole or not at all.

        Raises:
            NotFittedError: `fit` has not been called.
            TypeError: the classes are neither numbers nor strings.
            OSError: the file cannot be written.
        """
        self._require_fitted()
        state = {name: getattr(self, name) for name in _FITTED if hasattr(self, name)}
        params = self.get_params()
        del params["device"]  # of this machine
        model_file.write(path, params, state)

    @classmethod
    def load(cls: type[_Self], path: str | os.PathLike[str]) -> _Self:
        """The model that `save` wrote. Nothing in the file is executed.

        Raises:
            DataError: the file is damaged, or no such model.
            OSError: it cannot be read.
        """
        params, state = model_file.read(path, cls._parameters())
        model = cls(**params)
        for name, value in state.items():
            setattr(model, name, value)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Runtimes do not travel to other processes; their devices' names do."""
        return {**self.__dict__, "device": _by_name(self.device)}


def _by_name(device: Any) -> Any:
    found = getattr(device, "runtimes", device)
    if isinstance(found, (list, tuple)):
        return [_by_name(each) for each in found]
    return found if found is None or isinstance(found, (int, str)) else found.device.name
